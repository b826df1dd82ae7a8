/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management, as its callers see it: how two ends agree before the first message. */
#pragma once

#include "cm/ib_cm.h"
#include "cm/mpa_setup.h"
