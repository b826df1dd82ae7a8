/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of a near connection (near/message.h) by a unix socket. */
#pragma once

#include "near/message.h"

/* False: the connection has ended, or its socket is full. */
bool near_message_send(int fd, const struct near_message *m);

/*
 * The next message: NEAR_NONE if there is none now, NEAR_CLOSED if the connection has ended.
 * Descriptors that could not be received are -1.
 */
void near_message_take(int fd, struct near_message *m);

/* Closes the descriptors that have come with it. */
void near_message_done(const struct near_message *m);
