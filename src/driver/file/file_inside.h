/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of a file store share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "driver/file/file_store.h"

enum { FILE_THREADS_MAX = 16 };

struct file_ring;

/* Threads that do one request after the other. */
struct file_pool {
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list todo, done;
	uint32_t todo_count, idle;
	bool is_ending;

	atomic_uint done_count; /* written under the lock, read without: is it worth taking it? */

	/* The user's. */
	pthread_t threads[FILE_THREADS_MAX];
	uint32_t count;
	int event_fd; /* readable if and only if something is done */
};

/* What was written goes to the disk: file_sync.c. */
struct file_sync {
	int fd; /* a description of its own */
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t has_ended;
	uint64_t begun, ended; /* syncs so far: one more has begun, or as many */
	uint32_t waiting;      /* threads, for one that another has begun */
};

struct file_store {
	struct store store;
	int fd, epoll_fd;
	bool is_block, is_direct;
	uint32_t memory_align; /* of spans, if is_direct */
	atomic_int lost;       /* what a flush failed of: nothing can be flushed since */
	struct file_sync sync;
	struct file_pool pool;
	struct file_ring *ring; /* NULL: the pool does it all */
	struct list done;
};

/* The store is one of a file. */
const struct file_store *file_store_of(const struct store *s);

/* ---- file_mark.c ---------------------------------------------------------------------------- */

/* What was acknowledged is lost: an opening of the file from now on finds another identity. */
void file_mark_anew(const struct file_store *f);

/* ---- file_work.c: one request, until it is done --------------------------------------------- */

void file_work(struct file_store *f, struct store_request *r);

/* What a request comes to that the system refused; error is positive. */
void file_fail(struct store_request *r, int error);

/* May its memory be used for direct I/O? */
bool file_is_aligned(const struct file_store *f, const struct store_request *r);

/* ---- file_sync.c ---------------------------------------------------------------------------- */

/* 0 or a negative errno. The data's descriptor is open. */
int file_sync_open(struct file_store *f, const struct file_store_config *c);
void file_sync_close(struct file_store *f);

/* A descriptor of the file's own, by the name it was opened with: that, or a negative errno. */
int file_sync_by_name(int fd, const struct file_store_config *c);

/*
 * Of a request that flushes: all that was done before is on stable storage when it returns, or the
 * request has failed with WEFT_R_STORE_LOST.
 */
void file_sync(struct file_store *f, struct store_request *r);

/* Of a read or write, with what it came to: a failure to reach the disk is not forgotten. */
void file_write_failed(struct file_store *f, const struct store_request *r, int error);

/* Threads that wait for a sync of another one, for tests. */
uint32_t file_sync_waiting(struct file_store *f);

/* ---- file_pool.c ---------------------------------------------------------------------------- */

/* 0 or a negative errno. */
int file_pool_init(struct file_pool *p);
void file_pool_fini(struct file_pool *p);
void file_pool_put(struct file_store *f, struct store_request *r);

/* Moves what is done to the end of a list. */
void file_pool_take(struct file_pool *p, struct list *done);

/* ---- file_ring.c, or file_ring_none.c where there is no liburing ---------------------------- */

/* 0 or a negative errno: io_uring is not there, or not allowed. */
int file_ring_create(struct file_ring **out);
void file_ring_destroy(struct file_ring *g);
int file_ring_descriptor(const struct file_ring *g);

/* Reads and writes. */
void file_ring_put(struct file_store *f, struct store_request *r);

/* Sets going what was put, and moves what is done to the end of the store's list. */
void file_ring_take(struct file_store *f);
