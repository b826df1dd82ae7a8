/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subcommands of weft card share. */
#pragma once

extern const char card_help[];

int card_bridge(int argc, char **argv);
int card_host(int argc, char **argv);
int card_status(int argc, char **argv);
int card_unit(int argc, char **argv);
