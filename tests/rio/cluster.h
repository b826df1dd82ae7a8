/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cluster in one process, over loopback TCP: I/O units and an owner, each with a thread of its
 * own, and requesters that the test drives. Only <weft/rio.h> is used.
 */
#pragma once

#include <pthread.h>

#include <weft/rio.h>

#include "test.h"

enum {
	OWNER_UNIT = 1,
	FIRST_IOUNIT = 2,    /* and the next: platforms 2.1, 3.1 */
	FIRST_REQUESTER = 7, /* platforms 7.1, 8.1, 9.1 */
	IOUNITS_MAX = 2,
	REQUESTERS_MAX = 3,
	NOTES_MAX = 4096
};

#define SECONDS UINT64_C(1000000000)

struct cluster {
	struct weft_rio_iounit *iounits[IOUNITS_MAX];
	pthread_t iounit_threads[IOUNITS_MAX];
	struct weft_rio_owner *owner;
	pthread_t owner_thread;
	struct weft_rio_requester *requesters[REQUESTERS_MAX];
	struct weft_address iounit_at[IOUNITS_MAX], owner_at;
	/* To be set before it is opened; zero: everybody may do everything. */
	struct weft_rio_owner_options owner_options;
	struct weft_rio_iounit_options iounit_options[IOUNITS_MAX];
	uint32_t iounit_count;
	pthread_mutex_t lock; /* of the notes */
	char notes[NOTES_MAX][160];
	uint32_t note_count;
};

/* Of unit 2.1 one device "disk" that is as the text says; everybody may do everything. */
void cluster_open(struct cluster *c, const char *text);

/* The parts of it, for those who want another: the set-up, then I/O units, then the owner. */
void cluster_begin(struct cluster *c);
void cluster_add_iounit(struct cluster *c, const struct weft_rio_store *stores, uint32_t count);

/* A place for an I/O unit that begins later: cluster_start_iounit(). */
void cluster_reserve_iounit(struct cluster *c);
void cluster_start_owner(struct cluster *c);
void cluster_stop_owner(struct cluster *c);
void cluster_stop_iounit(struct cluster *c, int nth);
void cluster_start_iounit(struct cluster *c, int nth);

/* The nth requester, connected; its device. */
struct weft_rio_requester *cluster_requester(struct cluster *c, int nth);
struct weft_rio_device cluster_device(struct weft_rio_requester *q, const char *name);

void cluster_close_requester(struct cluster *c, int nth);
void cluster_close(struct cluster *c);

/* Whether a line that was noted contains this. */
bool cluster_noted(struct cluster *c, const char *text);

/* Who somebody is in this cluster. */
struct weft_rio_self cluster_self(uint32_t unit, const struct weft_rio_peer *peers, uint32_t count);
struct weft_rio_peer cluster_peer(uint32_t unit, enum weft_rio_role role,
				  const struct weft_address *at);

/* One transaction with one segment, and how it ended. */
enum weft_reason cluster_io(struct weft_rio_requester *q, const struct weft_rio_transaction *t);
