/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * By how many bytes a process grows with one more connection of a queue pair with default sizes, as
 * the kernel counts its resident memory, sockets apart; 0: it could not be measured.
 */
double idle_connection_bytes(void);
