/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short turns on the processor, for a thread that is woken by what arrives, and soon sleeps again.
 * The program, or another one, may compute on the processor where it wakes up: from Linux 6.12 a
 * thread with a short time slice preempts that. Earlier kernels ignore the request; failure does no
 * harm.
 */
#pragma once

/* For the calling thread. */
void turns_ask_short(void);
