/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct command {
	const char *name;
	const char *args;
	const char *what;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{ "run", "PROGRAM...", "run an RDMA program as it is, without RDMA hardware", cmd_run },
	{ "devices", "", "the RDMA devices that such a program sees", cmd_devices },
	{ "doctor", "[PROGRAM]", "what would keep programs, or this one, from working",
	  cmd_doctor },
	{ "perf", "ADDRESS:PORT", "measure a connection to another weft perf", cmd_perf },
	{ "stat", "[PID]", "counters of programs that are running", cmd_stat },
	{ "trace", "FILE", "what a program did that ran with WEFT_TRACE=FILE", cmd_trace },
	{ "dump", "FILE", "what a capture of RDMA traffic says, in words", cmd_dump },
	{ "explain", "[REASON...]", "what a refusal means, and the rule behind it", cmd_explain },
	{ "sim", "--seed N", "run a simulated world; the same seed, the same history", cmd_sim },
	{ "demo", "cluster", "see directed remote I/O between three roles on this machine",
	  cmd_demo },
	{ "key", "new FILE", "make and show keys for directed remote I/O", cmd_key },
	{ "iou", "FILE", "serve devices, as an owner directs", cmd_iou },
	{ "own", "FILE", "own the devices of I/O units, and say who may use them", cmd_own },
	{ "io", "FILE VERB", "read, write, copy and measure devices that one may use", cmd_io },
	{ "cluster", "FILE", "units, devices, who is connected, bytes moved by path; live",
	  cmd_cluster },
	{ "version", "", "print the version", cmd_version },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char environment[] =
	"\nEnvironment of programs that use weft, or that weft run runs (%p stands for the process id):\n\n"
	"  WEFT_DEVICES=A,B under weft run: only these of what weft devices shows\n"
	"  WEFT_PCAP=FILE   capture all that goes over the network, for Wireshark; without root\n"
	"  WEFT_TRACE=FILE  write what happens, for weft trace\n"
	"  WEFT_LOG=LEVEL   off (the default); error: a line on stderr for each queue pair that\n"
	"                   fails or is not connected, and why; info: for those that end well, too\n"
	"  WEFT_STAT=off    do not show counters to weft stat\n";

static void usage(FILE *to)
{
	fprintf(to, "usage: weft COMMAND\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %-12s %s\n", commands[i].name, commands[i].args,
			commands[i].what);
	fputs(environment, to);
}

static const struct command *find(const char *name)
{
	for (int i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int main(int argc, char **argv)
{
	const struct command *command;
	int status;

	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (is_help(argv[1])) {
		usage(stdout);
		return 0;
	}
	command = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
	if (!command) {
		fprintf(stderr, "weft: there is no command \"%s\"\n\n", argv[1]);
		usage(stderr);
		return 2;
	}
	status = command->run(argc - 1, argv + 1);
	/* What could not be written was not said. */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "weft: cannot write the output\n");
		return 1;
	}
	return status;
}
