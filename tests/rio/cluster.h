/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cluster in one process, over loopback TCP: I/O units and an owner, each with its own thread,
 * and requesters that the test drives. Uses only <weft/rio.h>.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <weft/rio.h>

#include "test.h"

enum {
	OWNER_UNIT = 1,
	FIRST_IOUNIT = 2,    /* and the next: platforms 2.1, 3.1 */
	FIRST_REQUESTER = 7, /* platforms 7.1, 8.1, 9.1 */
	IOUNITS_MAX = 2,
	REQUESTERS_MAX = 3,
	NOTES_MAX = 4096,
	NOTE_MAX = 320,
	CLUSTER_TEXT = 128
};

#define SECONDS UINT64_C(1000000000)
#define PATIENCE (60 * SECONDS) /* for waits that only a slow machine prolongs */

struct cluster {
	struct weft_rio_iounit *iounits[IOUNITS_MAX];
	pthread_t iounit_threads[IOUNITS_MAX];
	struct weft_rio_owner *owner;
	pthread_t owner_thread;
	struct weft_rio_requester *requesters[REQUESTERS_MAX];
	pthread_t waiting_threads[REQUESTERS_MAX];
	bool is_waiting[REQUESTERS_MAX];
	atomic_bool is_over;
	struct weft_address iounit_at[IOUNITS_MAX], owner_at;
	/* To be set before it is opened; zero: every requester may do everything. */
	struct weft_rio_owner_options owner_options;
	struct weft_rio_iounit_options iounit_options[IOUNITS_MAX];
	struct weft_rio_requester_options requester_options;
	uint64_t spin_ns; /* of every role */
	uint32_t iounit_count;
	/* For cluster_open(). */
	struct weft_rio_store store;
	char store_text[CLUSTER_TEXT];
	pthread_mutex_t lock; /* guards the notes */
	char notes[NOTES_MAX][NOTE_MAX];
	uint32_t note_count;
};

/* Unit 2.1 has one device "disk", given as text; every requester may do everything. */
void cluster_open(struct cluster *c, const char *text);

/* The steps of cluster_open(), for other set-ups: begin, then I/O units, then the owner. */
void cluster_begin(struct cluster *c);
void cluster_add_iounit(struct cluster *c, const struct weft_rio_store *stores, uint32_t count);

/* Reserves a place for an I/O unit that starts later: cluster_start_iounit(). */
void cluster_reserve_iounit(struct cluster *c);
void cluster_start_owner(struct cluster *c);
/* Starts the owner with this identity and these peers. */
void cluster_own(struct cluster *c, const struct weft_rio_self *self);
void cluster_stop_owner(struct cluster *c);
void cluster_stop_iounit(struct cluster *c, int nth);
void cluster_start_iounit(struct cluster *c, int nth);

/* The nth requester, connected; a device by name. */
struct weft_rio_requester *cluster_requester(struct cluster *c, int nth);
struct weft_rio_device cluster_device(struct weft_rio_requester *q, const char *name);

/* Starts a thread that waits on the requester, so that peers can reach its memory. */
void cluster_requester_waits(struct cluster *c, int nth);

void cluster_close_requester(struct cluster *c, int nth);
void cluster_close(struct cluster *c);

/* Does a logged line contain this text? The second waits until one does. */
bool cluster_noted(struct cluster *c, const char *text);
void cluster_wait_note(struct cluster *c, const char *text);

/* The number of logged lines; the second waits until there are so many. */
uint32_t cluster_notes(struct cluster *c);
void cluster_wait_notes(struct cluster *c, uint32_t count);

/* Thread function that runs an owner. */
void *cluster_owner_run(void *owner);

/* The identity of a member of this cluster. */
struct weft_rio_self cluster_self(uint32_t unit, const struct weft_rio_peer *peers, uint32_t count);
struct weft_rio_peer cluster_peer(uint32_t unit, enum weft_rio_role role,
				  const struct weft_address *at);

/* ---- Requests ------------------------------------------------------------------------------- */

/* Adds the memory to the requester; returns its tag. */
uint32_t cluster_memory(struct weft_rio_requester *q, void *bytes, uint64_t length);

/* Runs one transaction; returns its outcome. */
enum weft_reason cluster_io(struct weft_rio_requester *q, const struct weft_rio_transaction *t);

/* A read or write of one segment. */
struct cluster_move {
	uint32_t device;
	uint64_t offset;
	void *bytes;
	uint32_t length, tag;
};

enum weft_reason cluster_read(struct weft_rio_requester *q, struct cluster_move m);
enum weft_reason cluster_write(struct weft_rio_requester *q, struct cluster_move m);

/* Fills with nonzero bytes that differ for each seed. */
void cluster_fill(void *bytes, size_t length, uint8_t seed);

/* ---- Files ---------------------------------------------------------------------------------- */

/* Creates a file of this size; text: the device. The last one removes it. */
void cluster_file(char text[CLUSTER_TEXT], uint64_t size);
void cluster_file_read(const char *text, uint64_t offset, void *bytes, size_t length);
void cluster_file_remove(const char *text);

/*
 * Creates a folder with "conf" and "key" of this requester, which uses the owner at that address.
 */
void cluster_role_files(char folder[CLUSTER_TEXT], uint32_t unit, const struct weft_address *owner);
void cluster_role_files_remove(const char *folder);
