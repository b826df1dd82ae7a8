/* SPDX-License-Identifier: BSD-2-Clause */
/* The vector registers of the processor, where libraries use all of their width. */
#pragma once

/*
 * After a library function that may leave something in the upper halves of vector registers. On
 * x86-64 each instruction of SSE would then have to keep that, and compilers use SSE everywhere:
 * the first one behind such a function waits for hundreds of cycles.
 */
void vector_end(void);
