/* SPDX-License-Identifier: BSD-2-Clause */
/* weft doctor: what would keep a program from working under weft run. */
#include <stdarg.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/run/doctor.h"

static const char usage[] =
	"usage: weft doctor [PROGRAM]\n"
	"\n"
	"Says what would keep RDMA programs, or this one, from working under weft run; the program is\n"
	"looked at and not run. It may be a library, too: a plug-in that some program loads. A line\n"
	"for each finding:\n"
	"\n"
	"  ok    it is as it should be\n"
	"  warn  it may matter\n"
	"  stop  it will not work, and what to do about it\n"
	"\n"
	"The exit status is 0 if nothing stops it, else 1.\n";

void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *about,
		const char *format, ...)
{
	static const char *const words[] = { "ok", "warn", "stop" };
	va_list args;

	printf("%-5s %s: ", words[verdict], about);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	d->stops += verdict == DOCTOR_STOP;
}

static int cmd_doctor(int argc, char **argv)
{
	struct doctor d = { 0 };

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fprintf(stderr, "weft doctor: what is \"%s\"?\n\n%s", argv[argc - 1], usage);
		return 2;
	}
	doctor_machine(&d);
	if (argc == 2)
		doctor_program(&d, argv[1]);
	return d.stops ? 1 : 0;
}

const struct command command_doctor = {
	.name = "doctor",
	.args = "[PROGRAM]",
	.what = "what would keep programs, or this one, from working",
	.help = usage,
	.run = cmd_doctor,
};
