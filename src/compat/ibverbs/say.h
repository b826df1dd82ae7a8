/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of the drop-in libraries. */
#pragma once

/* Prints a log line if WEFT_LOG asks for it: why something was refused. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The same, unless WEFT_LOG is off: for causes that a user could not find out otherwise. */
__attribute__((format(printf, 1, 2))) void say_anyway(const char *format, ...);
