/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <weft/weft.h>

/* What an errno of a socket means, of TCP or UDP. */
enum weft_reason socket_reason_of(int error);
