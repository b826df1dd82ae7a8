/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management for its callers: how two ends negotiate before the first message. */
#pragma once

#include "cm/ib_cm.h"
#include "cm/mpa_setup.h"
