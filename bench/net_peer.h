/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer: something that carries messages between two processes over loopback and can be
 * measured. Every peer is asked the same questions in the same run. A new one is a table of three
 * functions and one entry in net_peers.c. What is asked, and how often, is not known here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { NET_TEXT_BYTES = 320 };

struct net_ask {
	uint32_t size_bytes; /* of one message */
	uint32_t depth;	     /* at most so many messages are under way; latency: 1 */
	uint32_t count;	     /* messages to measure, latency: round trips */
	uint32_t warm_count; /* messages before these */
};

struct net_figure {
	double value;		  /* bytes/s, ns of half a round trip, or messages/s */
	char how[NET_TEXT_BYTES]; /* how to do the same by hand */
	char why[NET_TEXT_BYTES]; /* there is no value: why not */
};

/*
 * Each function measures once, in a few seconds at most, and leaves no process behind. It fills
 * value and how and returns true, or fills why and returns false: that is no error of the bench.
 * NULL: the peer does not have this.
 */
struct net_peer {
	const char *name;	    /* for programs */
	const char *title;	    /* for people */
	const char *color;	    /* in pictures */
	const char *note;	    /* what to know before comparing; NULL: nothing */
	uint32_t latency_bytes_max; /* of a message that has a latency; 0: any */
	bool (*bandwidth)(struct net_figure *f, const struct net_ask *ask);
	bool (*latency)(struct net_figure *f, const struct net_ask *ask);
	bool (*rate)(struct net_figure *f, const struct net_ask *ask);
};

/* The peers in the order of the table; the first is the one that others are compared to. */
enum { NET_PEERS = 8 };
extern const struct net_peer *const net_peers[NET_PEERS];
