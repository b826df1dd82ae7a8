/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A carrier moves packets or streams for an adapter: TCP (tcp.h) and RoCE (roce.h). The loop
 * (net.h) knows carriers by this table alone. The adapter's lock is held in every call.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

struct carrier;
struct net;
struct watch;
struct weft_adapter;
struct weft_traffic;

/* CARRIERS_MAX: per adapter. SLEEP_WATCHES_MAX: of all its carriers, in a struct sleep_set. */
enum { CARRIERS_MAX = 4, SLEEP_WATCHES_MAX = 8 };

/*
 * Sockets that epoll does not watch, for a program that sleeps in place of the adapter's thread:
 * its poll() watches them.
 */
struct sleep_set {
	struct pollfd *fds; /* room for SLEEP_WATCHES_MAX */
	struct carrier *carriers[SLEEP_WATCHES_MAX];
	struct watch *watches[SLEEP_WATCHES_MAX];
	uint32_t count;
};

/* What carriers know of their hot turns without a system call. */
enum carrier_memory {
	CARRIER_COLD,	 /* there are none */
	CARRIER_UNKNOWN, /* some of them are sockets, or output waits for room in shared memory */
	CARRIER_EMPTY,	 /* the only one is shared memory, which has no input */
	CARRIER_INPUT	 /* the same, and it has input */
};

/* Every call but observe is set. */
struct carrier_calls {
	/* Makes the carrier of an adapter, at first use: see carrier_get(). */
	enum weft_reason (*open)(struct net *net, struct carrier **c);
	/*
	 * Sends what is ready. True: something moved, and the core may have new work. can_wait:
	 * acknowledgements may wait for the program's next request.
	 */
	bool (*output)(struct carrier *c, bool can_wait);
	bool (*has_output)(const struct carrier *c);
	/*
	 * When an answer is overdue; all sockets are read before expire(). UINT64_MAX: none is
	 * awaited.
	 */
	uint64_t (*due)(const struct carrier *c);
	void (*expire)(struct carrier *c, uint64_t now_ns);
	/* When paced output may resume, independent of input; pace() resumes it. */
	uint64_t (*pace_due)(const struct carrier *c);
	void (*pace)(struct carrier *c, uint64_t now_ns);
	/* Called before epoll_wait(): resumes listeners and lookups that paused, when due. */
	void (*retry)(struct carrier *c);
	/* Reads the reported sockets that the watches' ready() calls have not read themselves. */
	bool (*input)(struct carrier *c);
	/* Reads all sockets until they are empty. */
	bool (*input_all)(struct carrier *c);
	/*
	 * Hot sockets had input lately and are read without asking epoll. hot_turns: the number of
	 * turns they need; hot_input: one turn; hot_input_all: all turns. True: something came.
	 */
	uint32_t (*hot_turns)(const struct carrier *c);
	bool (*hot_input)(struct carrier *c, uint32_t turn);
	bool (*hot_input_all)(struct carrier *c);
	enum carrier_memory (*memory)(const struct carrier *c);
	/* The program has stopped polling: epoll watches hot sockets again. */
	void (*hot_watch)(struct carrier *c);
	/*
	 * A thread is about to sleep until epoll reports something: peers that share memory with us
	 * are asked to wake it by a socket. False: something has come already.
	 */
	bool (*rest)(struct carrier *c);
	/* sleep_begin adds the sockets that epoll does not watch; sleep_input reads a ready one. */
	void (*sleep_begin)(struct carrier *c, struct sleep_set *set);
	bool (*sleep_input)(struct carrier *c, struct watch *w);
	/* Whether the program still holds objects of the carrier: then the adapter stays open. */
	bool (*is_used)(const struct carrier *c);
	/* Whether a graceful close of a connection is still in progress. */
	bool (*is_closing)(const struct carrier *c);
	/* Ends what is left and frees the carrier. */
	void (*close)(struct carrier *c);
	/*
	 * At exit(). exit_begin queues goodbyes to the peers; true: there are some to send. After
	 * they are sent, exit_end relays packets in our sockets that belong to other processes.
	 */
	bool (*exit_begin)(struct carrier *c);
	void (*exit_end)(struct carrier *c);
	/* A capture has begun or ended. NULL: of no interest. */
	void (*observe)(struct carrier *c);
	/* In a child of fork(): closes the descriptors; everything else belongs to the parent. */
	void (*abandon)(struct carrier *c);
	/* Adds the carrier's counters. */
	void (*traffic)(const struct carrier *c, struct weft_traffic *sum);
};

struct carrier {
	const struct carrier_calls *calls;
	struct net *net;
	uint32_t blocked; /* full sockets: only epoll tells when one takes more */
};

/* The adapter's carrier of that kind, opened at first use. */
enum weft_reason carrier_get(struct weft_adapter *a, const struct carrier_calls *calls,
			     struct carrier **c);

/* The network's carrier of that kind, or NULL. */
struct carrier *carrier_find(const struct net *net, const struct carrier_calls *calls);

/* Adds a socket for a sleeping program to watch. */
void sleep_set_add(struct sleep_set *set, struct carrier *c, struct watch *w);
