/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network part of the bench: every peer at every size, several rounds, in turn, so that all see
 * the same machine. What comes out is a list of rows; net_report.h shows them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net_judge.h"
#include "net_peer.h"

enum net_what { NET_BANDWIDTH, NET_LATENCY, NET_RATE, NET_WHATS };

enum {
	NET_SIZES = 11,
	NET_ROWS_MAX = NET_PEERS * NET_SIZES * NET_WHATS,
	NET_ROUNDS = 5,
};

struct net_row {
	const struct net_peer *peer;
	enum net_what what;
	uint32_t size_bytes;
	uint32_t depth;
	int sample_count;
	struct net_sample samples[NET_ROUNDS];
	double value;		  /* in the end; 0: there are no samples */
	bool is_disturbed;	  /* others used the machine in the samples that count */
	char how[NET_TEXT_BYTES]; /* of the last sample */
	char why[NET_TEXT_BYTES]; /* of the last failure; empty: none */
};

struct net_rows {
	struct net_row row[NET_ROWS_MAX];
	int count;
	int rounds; /* that are over */
	double seconds;
};

/* Once more, at most NET_ROUNDS times. False: the peer failed; what was there before stays. */
bool net_row_sample(struct net_row *row);

/* What comes out of its samples. */
void net_row_judge(struct net_row *row);

/* How many messages are under way. */
uint32_t net_depth(enum net_what what);

/* Measures everything, in bounded time. Says on a terminal's stderr how far it is. */
void net_rows_measure(struct net_rows *rows);

/* NULL: there is no such row. */
const struct net_row *net_rows_find(const struct net_rows *rows, const struct net_peer *peer,
				    enum net_what what, uint32_t size_bytes);

/* The sizes that are asked for, and which of them have a rate. */
extern const uint32_t net_sizes[NET_SIZES];
bool net_size_has(uint32_t size_bytes, enum net_what what);
