/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats an owner's decision as a line of the log, for people and programs. */
#pragma once

#include "rio/owner.h"

void rio_note_text(const struct rio_owner *owner, const struct rio_note *note, char *line,
		   size_t room);
