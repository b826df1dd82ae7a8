/* SPDX-License-Identifier: BSD-2-Clause */
/* WEFT_R_SYSTEM, and the errno value that goes with it: weft_system_errno(). */
#pragma once

#include <weft/weft.h>

/* Keeps the error (errno, or what pthread calls return; 0: there is none) for this thread. */
enum weft_reason system_reason(int error);
