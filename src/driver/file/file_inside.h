/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of a file store. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "driver/file/file_store.h"

enum { FILE_THREADS_MAX = 16 };

struct file_ring;

/* Threads that each execute one request at a time. */
struct file_pool {
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list todo, done;
	uint32_t todo_count, idle;
	bool is_ending;

	atomic_uint done_count; /* written with the lock held; read without, to skip the lock */

	/* Used only by the store's own thread. */
	pthread_t threads[FILE_THREADS_MAX];
	uint32_t count;
	int event_fd; /* readable if and only if a request is done */
};

/* Flushes to the disk: file_sync.c. */
struct file_sync {
	int fd; /* an open file description of its own */
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t has_ended;
	uint64_t begun, ended; /* syncs so far; begun is ended, or ended + 1 */
	uint32_t waiting;      /* threads that wait for a sync of another thread */
};

struct file_store {
	struct store store;
	int fd, epoll_fd;
	bool is_block, is_direct;
	uint32_t memory_align; /* of spans, if is_direct */
	atomic_int lost;       /* error of a failed flush: every later flush fails too */
	struct file_sync sync;
	struct file_pool pool;
	struct file_ring *ring; /* NULL: the pool executes all requests */
	struct list done;
};

/* The store must be a file store. */
const struct file_store *file_store_of(const struct store *s);

/* Why a file cannot be opened, by the errno of the call that failed. */
enum weft_reason file_open_reason(int error);

/* ---- file_mark.c ---------------------------------------------------------------------------- */

/* Acknowledged data is lost: changes the identity that later opens of the file find. */
void file_mark_anew(const struct file_store *f);

/* ---- file_work.c: one request, until it is done --------------------------------------------- */

void file_work(struct file_store *f, struct store_request *r);

/* Sets the result of a request that the system refused; error is a positive errno. */
void file_fail(struct store_request *r, int error);

/* Whether the request's memory is aligned for direct I/O. */
bool file_is_aligned(const struct file_store *f, const struct store_request *r);

/* ---- file_sync.c ---------------------------------------------------------------------------- */

/* 0 or a negative errno. f->fd is open. */
int file_sync_open(struct file_store *f, const struct file_store_config *c);
void file_sync_close(struct file_store *f);

/* Opens the file of fd a second time, by its path: a descriptor, or a negative errno. */
int file_sync_by_name(int fd, const struct file_store_config *c);

/*
 * Executes a flush: when it returns, all requests done before are on stable storage, or the request
 * has failed with WEFT_R_STORE_LOST.
 */
void file_sync(struct file_store *f, struct store_request *r);

/* A read or write failed with this errno: EIO of a write with FUA counts as a failed flush. */
void file_write_failed(struct file_store *f, const struct store_request *r, int error);

/* ---- file_pool.c ---------------------------------------------------------------------------- */

/* 0 or a negative errno. */
int file_pool_init(struct file_pool *p);
void file_pool_fini(struct file_pool *p);
void file_pool_put(struct file_store *f, struct store_request *r);

/* Moves finished requests to the end of a list. */
void file_pool_take(struct file_pool *p, struct list *done);

/* ---- file_ring.c, or file_ring_none.c where there is no liburing ---------------------------- */

/* 0 or a negative errno: io_uring is missing, or not allowed. */
int file_ring_create(struct file_ring **out);
void file_ring_destroy(struct file_ring *g);
int file_ring_descriptor(const struct file_ring *g);

/* Queues a read or write. */
void file_ring_put(struct file_store *f, struct store_request *r);

/* Submits queued requests, and moves finished ones to the end of the store's list. */
void file_ring_take(struct file_store *f);
