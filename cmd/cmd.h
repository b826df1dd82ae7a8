/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands of weft: one file each, in the folder of its subject. */
#pragma once

struct command {
	const char *name;
	/* A line of the list that weft help prints: what it takes, and what it does. */
	const char *args;
	const char *what;
	/*
	 * What weft NAME --help prints. cmd/manual/manual.py makes the man page and the completion
	 * from it, and says which form it has.
	 */
	const char *help;
	/*
	 * argv[0] is the subcommand's name. The result is the exit status: 0 good, 1 failed, 2
	 * wrongly called; that of weft run is its program's.
	 */
	int (*run)(int argc, char **argv);
};

extern const struct command command_card;
extern const struct command command_cluster;
extern const struct command command_demo;
extern const struct command command_devices;
extern const struct command command_doctor;
extern const struct command command_dump;
extern const struct command command_explain;
extern const struct command command_fabric;
extern const struct command command_io;
extern const struct command command_iou;
extern const struct command command_iscsi;
extern const struct command command_key;
extern const struct command command_own;
extern const struct command command_perf;
extern const struct command command_run;
extern const struct command command_sim;
extern const struct command command_stat;
extern const struct command command_trace;
extern const struct command command_version;
