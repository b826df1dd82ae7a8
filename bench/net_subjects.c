/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "processors.h"

enum { BANDWIDTH_DEPTH = 64, RATE_DEPTH = 128, COUNT_MIN = 20, FAILURES_MAX = 3 };

static const double round_ns = 80e6;			   /* how long about a sample takes */
static const uint64_t part_ns_max = UINT64_C(90000000000); /* then the first round is enough */
static const double bytes_per_ns = 4; /* what TCP does here, for the number of messages */

/* Powers of four, where the goals are, and 8 bytes. */
const uint32_t net_sizes[NET_SIZES] = { 8,	  16,	    64,	       256,	1 << 10, 4 << 10,
					16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20 };

bool net_size_has(uint32_t size_bytes, enum net_what what)
{
	return what != NET_RATE || size_bytes == 8 || size_bytes == 64;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static bool (*function_of(const struct net_peer *peer,
			  enum net_what what))(struct net_figure *f, const struct net_ask *ask)
{
	switch (what) {
	case NET_BANDWIDTH:
		return peer->bandwidth;
	case NET_LATENCY:
		return peer->latency;
	case NET_RATE:
	case NET_WHATS:
		break;
	}
	return peer->rate;
}

uint32_t net_depth(enum net_what what)
{
	static const uint32_t depths[NET_WHATS] = { BANDWIDTH_DEPTH, 1, RATE_DEPTH };

	return depths[what];
}

/* So many messages that a sample takes about its time. All peers move the same number. */
static struct net_ask ask_of(const struct net_row *row)
{
	static const double overhead_ns[NET_WHATS] = { 2000, 8000, 2000 };
	double trips = row->what == NET_LATENCY ? 2 : 1;
	double each_ns = overhead_ns[row->what] + trips * row->size_bytes / bytes_per_ns;
	uint32_t count = (uint32_t)(round_ns / each_ns);

	count = count > COUNT_MIN ? count : COUNT_MIN;
	return (struct net_ask){
		.size_bytes = row->size_bytes,
		.depth = row->depth,
		.count = count,
		.warm_count = count / 10,
	};
}

static void progress(int round, const struct net_row *row)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Kmeasuring: round %d of %d, %u bytes, %s", round + 1,
			NET_ROUNDS, row->size_bytes, row->peer->title);
}

static void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}

bool net_row_sample(struct net_row *row)
{
	struct net_ask ask = ask_of(row);
	struct net_figure figure = { 0 };
	struct processors_mark before = processors_mark();

	if (!function_of(row->peer, row->what)(&figure, &ask)) {
		memcpy(row->why, figure.why, sizeof(row->why));
		return false;
	}
	memcpy(row->how, figure.how, sizeof(row->how));
	row->samples[row->sample_count++] = (struct net_sample){
		.value = figure.value,
		.processors = processors_left(&before),
	};
	return true;
}

void net_row_judge(struct net_row *row)
{
	row->value = net_samples_judge(row->samples, row->sample_count, &row->is_disturbed);
}

static bool can_measure(const struct net_peer *peer, enum net_what what, uint32_t size_bytes)
{
	return function_of(peer, what) != NULL && net_size_has(size_bytes, what) &&
	       (what != NET_LATENCY || peer->latency_bytes_max == 0 ||
		size_bytes <= peer->latency_bytes_max);
}

static void rows_list(struct net_rows *rows)
{
	rows->count = 0;
	for (int what = 0; what < NET_WHATS; what++) {
		for (int size = 0; size < NET_SIZES; size++) {
			for (int p = 0; p < NET_PEERS; p++) {
				if (!can_measure(net_peers[p], what, net_sizes[size]))
					continue;
				rows->row[rows->count++] = (struct net_row){
					.peer = net_peers[p],
					.what = what,
					.size_bytes = net_sizes[size],
					.depth = net_depth(what),
				};
			}
		}
	}
}

/* How often a peer has failed: what fails again and again is not asked again. */
static int *failures_of(int *failures, const struct net_peer *peer)
{
	for (int p = 0; p < NET_PEERS; p++) {
		if (net_peers[p] == peer)
			return &failures[p];
	}
	abort();
}

/* Every row once; but only the first round is made to its end when time is up. */
static void round_make(struct net_rows *rows, int *failures, uint64_t end_ns)
{
	for (int i = 0; i < rows->count; i++) {
		struct net_row *row = &rows->row[i];
		int *failed = failures_of(failures, row->peer);

		if (rows->rounds > 0 && child_clock_ns() > end_ns)
			return;
		progress(rows->rounds, row);
		if (*failed < FAILURES_MAX && !net_row_sample(row))
			++*failed;
	}
}

void net_rows_measure(struct net_rows *rows)
{
	uint64_t start_ns = child_clock_ns();
	int failures[NET_PEERS] = { 0 };

	rows_list(rows);
	for (rows->rounds = 0; rows->rounds < NET_ROUNDS; rows->rounds++)
		round_make(rows, failures, start_ns + part_ns_max);
	for (int i = 0; i < rows->count; i++)
		net_row_judge(&rows->row[i]);
	rows->seconds = (double)(child_clock_ns() - start_ns) / 1e9;
	progress_end();
}

const struct net_row *net_rows_find(const struct net_rows *rows, const struct net_peer *peer,
				    enum net_what what, uint32_t size_bytes)
{
	for (int i = 0; i < rows->count; i++) {
		const struct net_row *row = &rows->row[i];

		if (row->peer == peer && row->what == what && row->size_bytes == size_bytes)
			return row;
	}
	return NULL;
}
