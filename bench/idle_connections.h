/* SPDX-License-Identifier: BSD-2-Clause */
/* What connections cost that are there and do nothing; 0: it could not be measured. */
#pragma once

/*
 * By how many bytes a process grows with one more connection of a queue pair with default sizes, as
 * the kernel counts its resident memory, sockets apart.
 */
double idle_connection_bytes(void);

/* The same count of this process. */
double resident_bytes(void);

/* How long a poll takes that finds nothing with 1,000 of them, as a multiple of that with one. */
double idle_poll_ratio(void);
