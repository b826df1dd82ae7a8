/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int cmd_help(int argc, char **argv);

static const struct command command_help = {
	.name = "help",
	.args = "[COMMAND]",
	.what = "what a command does, and its options",
	.help = "usage: weft help [COMMAND]\n"
		"       weft help --all\n"
		"\n"
		"Prints the list of commands, or what weft COMMAND --help prints, or with --all the list and\n"
		"what each of them prints.\n",
	.run = cmd_help,
};

/* In the order in which they are listed. */
static const struct command *const commands[] = {
	&command_run,	&command_devices, &command_doctor,  &command_perf,    &command_stat,
	&command_trace, &command_dump,	  &command_explain, &command_sim,     &command_demo,
	&command_key,	&command_iou,	  &command_own,	    &command_io,      &command_cluster,
	&command_iscsi, &command_card,	  &command_fabric,  &command_version, &command_help,
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char environment[] =
	"\nEnvironment of programs that use weft, or that weft run runs (%p stands for the process id):\n\n"
	"  WEFT_DEVICES=A,B  under weft run: only these of what weft devices shows\n"
	"  WEFT_PCAP=FILE    capture all that goes over the network, for Wireshark; without root\n"
	"  WEFT_TRACE=FILE   write what happens, for weft trace\n"
	"  WEFT_LOG=LEVEL    off (the default); error: a line on stderr for each queue pair that\n"
	"                    fails or is not connected, and why; info: for those that end well, too\n"
	"  WEFT_POLICY=P     under weft run: open (the default); strict: peers reach windows only, and\n"
	"                    no memory region, whatever its rights\n"
	"  WEFT_PROFILE=P    under weft run: host or io, the ports and queue pairs of such an adapter;\n"
	"                    peers reach no memory of an I/O adapter\n"
	"  WEFT_SERVE=on     under weft run: a thread of weft's does all of the work, and keeps a\n"
	"                    processor busy; posting and polling make no system call\n"
	"  WEFT_STAT=off     do not show counters to weft stat\n";

static void usage(FILE *to)
{
	fprintf(to, "usage: weft COMMAND\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %-13s %s\n", commands[i]->name, commands[i]->args,
			commands[i]->what);
	fputs(environment, to);
}

static const struct command *find(const char *name)
{
	for (int i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int unknown(const char *name)
{
	fprintf(stderr, "weft: there is no command \"%s\"\n\n", name);
	usage(stderr);
	return 2;
}

static int cmd_help(int argc, char **argv)
{
	const struct command *command;

	if (argc == 1) {
		usage(stdout);
		return 0;
	}
	if (argc > 2) {
		fputs(command_help.help, stderr);
		return 2;
	}
	if (strcmp(argv[1], "--all") == 0) {
		usage(stdout);
		for (int i = 0; i < COMMANDS; i++)
			printf("\n%s", commands[i]->help);
		return 0;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	fputs(command->help, stdout);
	return 0;
}

/* The name of a command: some have a second spelling. */
static const char *spell(const char *word)
{
	if (is_help(word))
		return command_help.name;
	return strcmp(word, "--version") == 0 ? command_version.name : word;
}

int main(int argc, char **argv)
{
	const struct command *command;
	int status = 0;

	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	command = find(spell(argv[1]));
	if (!command)
		return unknown(argv[1]);
	if (argc == 3 && is_help(argv[2]))
		fputs(command->help, stdout);
	else
		status = command->run(argc - 1, argv + 1);
	/* What could not be written was not said. */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "weft: cannot write the output\n");
		return 1;
	}
	return status;
}
