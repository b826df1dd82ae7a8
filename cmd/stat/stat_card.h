/* SPDX-License-Identifier: BSD-2-Clause */
/* What an end of a split network card shows: a report of STAT_CARD, as tables and as JSON. */
#pragma once

#include "cmd/stat/stat_client.h"

void stat_card_print(const struct stat_report *r);
void stat_card_json(const struct stat_report *r);
