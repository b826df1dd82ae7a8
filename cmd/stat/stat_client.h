/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks processes for their counters: what src/driver/stat/stat_report.h describes, read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { STAT_FIELDS_MAX = 40, STAT_PROCESSES_MAX = 4096 };

/* What a process shows. */
#define STAT_COUNTERS "weft"
#define STAT_ISCSI "weft/iscsi"
#define STAT_CARD "weft/card"

struct stat_field {
	const char *key, *value;
};

/* A line: what it is about, and what it says. */
struct stat_line {
	const char *what;
	size_t count;
	struct stat_field fields[STAT_FIELDS_MAX];
};

struct stat_report {
	char *text; /* that the lines point into */
	struct stat_line *lines;
	size_t count;
};

enum stat_answer {
	STAT_HERE = 0,
	STAT_NOBODY,	/* no such process, or it shows nothing */
	STAT_FOREIGN,	/* it is another user's */
	STAT_SILENT,	/* it did not answer in time */
	STAT_UNREADABLE /* what it said is no report that is known here */
};

/* service: STAT_COUNTERS or another one whose lines are of that form. */
enum stat_answer stat_ask(const char *service, long pid, struct stat_report *r);
void stat_free(struct stat_report *r);

/* The value of a key, or "" and 0 where there is none. */
const char *stat_text(const struct stat_line *l, const char *key);
uint64_t stat_number(const struct stat_line *l, const char *key);

/* Processes of all users that have the service: how many, at most max. */
size_t stat_processes(const char *service, long *pids, size_t max);
