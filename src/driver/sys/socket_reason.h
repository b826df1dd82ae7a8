/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <weft/weft.h>

/* The reason for an errno of a TCP or UDP socket. */
enum weft_reason socket_reason_of(int error);
