/* SPDX-License-Identifier: BSD-2-Clause */
#include "other_output.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512, FIELDS_MAX = 16 };

static const double ns_per_us = 1000;

/* One line, and the words it consists of. */
struct line {
	char text[LINE_BYTES];
	const char *fields[FIELDS_MAX];
	int count;
};

/* Reads the line at *text and moves on to the next; false: the text is at its end. */
static bool line_next(struct line *l, const char **text, const char *separators)
{
	size_t length = strcspn(*text, "\n"), kept = length < LINE_BYTES ? length : LINE_BYTES - 1;
	char *rest = NULL;

	if (**text == '\0')
		return false;
	memcpy(l->text, *text, kept);
	l->text[kept] = '\0';
	*text += length + ((*text)[length] == '\n');
	l->count = 0;
	for (char *word = strtok_r(l->text, separators, &rest);
	     word != NULL && l->count < FIELDS_MAX; word = strtok_r(NULL, separators, &rest))
		l->fields[l->count++] = word;
	return true;
}

static int line_column(const struct line *l, const char *name)
{
	for (int i = 0; i < l->count; i++) {
		if (strcmp(l->fields[i], name) == 0)
			return i;
	}
	return -1;
}

/* The number in a column, if all of the word is one; else 0. */
static double line_number(const struct line *l, int column)
{
	char *end = NULL;
	double value;

	if (column < 0 || column >= l->count)
		return 0;
	value = strtod(l->fields[column], &end);
	return *end == '\0' && value < 1e18 ? value : 0;
}

/* The number that a column begins with, in a row that begins with a number. */
static double line_leading_number(const struct line *l, int column)
{
	if (column < 0 || column >= l->count || line_number(l, 0) == 0)
		return 0;
	return strtod(l->fields[column], NULL);
}

bool other_output_ucx(const char *text, struct other_result *r)
{
	int latency = -1, rate = -1;
	struct line l;

	while (line_next(&l, &text, ", \r")) {
		double us = line_number(&l, latency), per_s = line_number(&l, rate);

		if (us > 0 && per_s > 0) {
			*r = (struct other_result){ us * ns_per_us, per_s };
			return true;
		}
		if (line_column(&l, "overall_lat") >= 0) {
			latency = line_column(&l, "overall_lat");
			rate = line_column(&l, "overall_mr");
		}
	}
	return false;
}

bool other_output_ucx_has_mpi(const char *help)
{
	return strstr(help, "enable MPI mode") != NULL;
}

bool other_output_pingpong(const char *text, struct other_result *r)
{
	int latency = -1;
	struct line l;

	while (line_next(&l, &text, " \t\r")) {
		double us = line_number(&l, latency);

		if (us > 0) {
			*r = (struct other_result){ us * ns_per_us, 1e9 / (us * ns_per_us) };
			return true;
		}
		if (line_column(&l, "usec/xfer") >= 0)
			latency = line_column(&l, "usec/xfer");
	}
	return false;
}

bool other_output_perftest(const char *text, struct other_result *r)
{
	static const double per_mega = 1e6;
	int latency = -1, rate = -1;
	struct line l;

	while (line_next(&l, &text, " \t\r")) {
		double us = line_number(&l, latency), millions = line_leading_number(&l, rate);

		/* It does not end its row: what a library says at the end stands right behind. */
		if (us > 0 || millions > 0) {
			*r = (struct other_result){ us * ns_per_us, millions * per_mega };
			return true;
		}
		/* The name of a bandwidth is two words, of which the second has the unit. */
		if (line_column(&l, "MsgRate[Mpps]") >= 0)
			rate = line_column(&l, "MsgRate[Mpps]") - 2;
		if (line_column(&l, "t_avg[usec]") >= 0)
			latency = line_column(&l, "t_avg[usec]");
	}
	return false;
}

bool other_output_mpi(const char *text, struct other_result *r)
{
	struct line l;

	while (line_next(&l, &text, " \t\r")) {
		double per_s = line_number(&l, 2);

		if (line_column(&l, "mpi_pair:") == 0 && per_s > 0) {
			*r = (struct other_result){ line_number(&l, 1), per_s };
			return true;
		}
	}
	return false;
}

bool other_output_is_listening(const char *text, uint16_t port)
{
	enum { ADDRESS = 1, STATE = 3 };
	struct line l;

	while (line_next(&l, &text, " ")) {
		const char *number = l.count > STATE ? strchr(l.fields[ADDRESS], ':') : NULL;

		/* linux/Documentation/networking/proc_net_tcp: state 0A is LISTEN. */
		if (number != NULL && strcmp(l.fields[STATE], "0A") == 0 &&
		    strtoul(number + 1, NULL, 16) == port)
			return true;
	}
	return false;
}

void other_output_last_line(const char *text, char *line, uint32_t line_bytes)
{
	struct line l;

	line[0] = '\0';
	while (line_next(&l, &text, "\r")) {
		if (l.count > 0)
			snprintf(line, line_bytes, "%s", l.fields[0]);
	}
}
