/* SPDX-License-Identifier: BSD-2-Clause */
/* Apart from session_fixture.h, whose enum session_way is a struct inside of sessions. */
#pragma once

#include <stdint.h>

#include <weft/iscsi.h>

/* Sending system calls of the session's connection by TCP, so far. */
uint64_t session_sends(struct weft_iscsi_session *s);
