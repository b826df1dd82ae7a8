/* SPDX-License-Identifier: BSD-2-Clause */
/* A good control message of each type, and the list that docs/wire/rio.md explains. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/rio_msg.h"

enum { FIXTURE_LIST_BYTES = 96 };

/* Read 6144 bytes of device 3, from 1 MiB on, into two fragments of 4096 and 2048 at 7.1. */
void fixture_list(uint8_t bytes[FIXTURE_LIST_BYTES]);

/* What it points at stays as it is. */
struct rio_msg fixture_message(enum rio_msg_type type);

/* An I/O unit, 9.0, asks 7.1 for a data connection. */
struct rio_data fixture_data(void);
