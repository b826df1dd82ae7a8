/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls by which a file is read, written and flushed are the test's own: file_flush_test.c. */
#pragma once

/* Told of each before it is made, by the thread that makes it. May be NULL. */
extern void (*_Atomic kernel_call)(int fd);
