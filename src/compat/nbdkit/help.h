/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the plugin says of itself: `nbdkit weft --help` prints it, and the man page is made from it
 * (print_help.c, cmd/manual/manual.py).
 */
#pragma once

extern const char plugin_usage[];	/* how it is called */
extern const char plugin_description[]; /* paragraphs with an empty line between */
extern const char plugin_parameters[]; /* a line each, which may go on in lines that are indented */
