/* SPDX-License-Identifier: BSD-2-Clause */
/* What weft doctor finds, a line for each finding. */
#pragma once

#include "cmd/run/dropin.h"
#include "cmd/run/program.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARN, /* may matter */
	DOCTOR_STOP, /* the program will not work */
};

struct doctor {
	struct dropin libraries;
	int stops;
};

void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *about,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The machine, whatever the program is. */
void doctor_machine(struct doctor *d);

/* The program, and the libraries that it loads. */
void doctor_program(struct doctor *d, const char *name);
