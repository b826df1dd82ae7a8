/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands of weft iscsi: a file each. */
#pragma once

/* argv[0] is the word behind iscsi. */
int iscsi_bench(int argc, char **argv);
int iscsi_copy(int argc, char **argv);
int iscsi_discover(int argc, char **argv);
int iscsi_info(int argc, char **argv);
int iscsi_read(int argc, char **argv);
int iscsi_serve(int argc, char **argv);
int iscsi_status(int argc, char **argv);
int iscsi_write(int argc, char **argv);

extern const char iscsi_help[];
