/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A carrier moves packets or streams for an adapter: TCP (tcp.h) and RoCE (roce.h). The loop
 * (net.h) knows carriers by this table alone. The adapter's lock is held in every call.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct carrier;
struct net;
struct watch;
struct weft_traffic;

/* CARRIERS_MAX: of one adapter. SLEEP_WATCHES_MAX: of all its carriers, in a struct sleep_set. */
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

/* Every call is set. */
struct carrier_calls {
	/*
	 * Sends what is ready. True: something moved, and the core may have work again. can_wait:
	 * acknowledgements may wait for what the program posts next.
	 */
	bool (*output)(struct carrier *c, bool can_wait);
	bool (*has_output)(const struct carrier *c);
	/*
	 * When an answer is overdue; all sockets are read before expire(). UINT64_MAX: none is
	 * awaited.
	 */
	uint64_t (*due)(const struct carrier *c);
	void (*expire)(struct carrier *c, uint64_t now_ns);
	/* When paced output may go on, which does not depend on input; pace() lets it go on. */
	uint64_t (*pace_due)(const struct carrier *c);
	void (*pace)(struct carrier *c, uint64_t now_ns);
	/* Before epoll is asked: opens again what had to pause. */
	void (*retry)(struct carrier *c);
	/* Reads what epoll reported, beyond what the watches' own calls have read. */
	bool (*input)(struct carrier *c);
	/* Reads all sockets until they are empty. */
	bool (*input_all)(struct carrier *c);
	/*
	 * Hot sockets had input lately and are read without asking epoll: how many turns they take,
	 * one turn, all of them. True: something came.
	 */
	uint32_t (*hot_turns)(const struct carrier *c);
	bool (*hot_input)(struct carrier *c, uint32_t turn);
	bool (*hot_input_all)(struct carrier *c);
	/* The program has stopped polling: epoll watches hot sockets again. */
	void (*hot_watch)(struct carrier *c);
	/* Adds the sockets that epoll does not watch; reads one of them that is ready. */
	void (*sleep_begin)(struct carrier *c, struct sleep_set *set);
	bool (*sleep_input)(struct carrier *c, struct watch *w);
	/* Whether the program still holds objects of it: the adapter cannot be closed. */
	bool (*is_used)(const struct carrier *c);
	/* Whether connections are still closing in good order. */
	bool (*is_closing)(const struct carrier *c);
	/* Ends what is left and frees the carrier. */
	void (*close)(struct carrier *c);
	/*
	 * At exit(): tells peers that the process goes, true if something is then to be sent; when
	 * that was sent, hands over what the process keeps for others.
	 */
	bool (*exit_begin)(struct carrier *c);
	void (*exit_end)(struct carrier *c);
	/* In a child of fork(): closes the descriptors, the rest is the parent's. */
	void (*abandon)(struct carrier *c);
	/* Adds what was carried. */
	void (*traffic)(const struct carrier *c, struct weft_traffic *sum);
};

struct carrier {
	const struct carrier_calls *calls;
	struct net *net;
	uint32_t blocked; /* sockets that are full: only epoll tells when they are not */
};

/* Makes the carrier part of the network. */
void carrier_add(struct net *net, struct carrier *c, const struct carrier_calls *calls);

/* The network's carrier of that kind, or NULL. */
struct carrier *carrier_find(const struct net *net, const struct carrier_calls *calls);

/* A socket to be watched by a program that sleeps. */
void sleep_set_add(struct sleep_set *set, struct carrier *c, struct watch *w);
