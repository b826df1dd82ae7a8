/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what the programs of others print. Nothing is run here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct other_result {
	double latency_ns; /* of one message */
	double messages_per_s;
};

/*
 * ucx_perftest -f -v: a line with the names of the columns, and one with the numbers. What else is
 * printed is passed over. False, and nothing changed, if the numbers are not there.
 */
bool other_output_ucx(const char *text, struct other_result *r);

/*
 * ucx_perftest -h: was it built with MPI? Then it must be told that mpirun has not started it (-P
 * 0); one without MPI refuses that option.
 */
bool other_output_ucx_has_mpi(const char *help);

/*
 * fi_pingpong: a line with the names of the columns, then a line for each size, of which the first
 * is read. False, and nothing changed, if the numbers are not there.
 */
bool other_output_pingpong(const char *text, struct other_result *r);

/*
 * perftest: a line with the names of the columns, then one with the numbers: of a latency test the
 * average, else messages per second, and the other is 0. False as above.
 */
bool other_output_perftest(const char *text, struct other_result *r);

/* mpi_pair.c: `mpi_pair: NS MESSAGES`, of which the first may be 0. False as above. */
bool other_output_mpi(const char *text, struct other_result *r);

/* Is something listening on this port? The text is that of /proc/net/tcp or tcp6. */
bool other_output_is_listening(const char *text, uint16_t port);

/* The last line that is not empty, cut to fit: where programs say what went wrong. */
void other_output_last_line(const char *text, char *line, uint32_t line_bytes);
