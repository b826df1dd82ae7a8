/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A descriptor that a process keeps for the time when it may have no more: then what connects is
 * taken in its place, and ended at once. Else the listener stayed readable, and its loop could not
 * sleep.
 */
#pragma once

#include <stdbool.h>

/* -1: there is none now. */
int spare_open(void);
void spare_close(int *spare);

/*
 * After an accept at the listener failed with this errno. True: descriptors were lacking, and a
 * connection was ended.
 */
bool spare_refuse(int *spare, int listener, int error);
