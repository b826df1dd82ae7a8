/* SPDX-License-Identifier: BSD-2-Clause */
/* A network namespace of the program's own, where RoCE's port is free. */
#pragma once

#include <stdbool.h>

/* NULL, or why it cannot be had. The first call counts: no thread may have been started before. */
const char *own_network_enter(void);

/* Sets its loopback interface up or down. False: it does not go. */
bool own_network_loopback(bool is_up);
