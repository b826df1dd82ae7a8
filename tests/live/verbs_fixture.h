/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads over one adapter. The harness belongs to the test's own thread, so the others note what
 * went wrong with HOLDS() and the test looks at it after joining them. Nothing here sleeps.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "test.h"

enum { NODE_BYTES = 64 * 1024, THREADS_MAX = 16 };

#define PATIENCE_NS (UINT64_C(30) * 1000000000)

/* A queue pair with what it needs; two of them make a connection. */
struct node {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t *memory;
	uint32_t tag;
};

/* Domain, completion queue and memory of `beside` are shared, if it is not NULL. */
void node_open(struct weft_adapter *adapter, struct node *n, const struct node *beside);
void node_close(struct node *n, const struct node *beside);

/* With so many bytes of memory instead of NODE_BYTES. */
void node_open_sized(struct weft_adapter *adapter, struct node *n, uint32_t bytes);

/* A message of the queue pair waits for its receive as long as a test waits for anything. */
void node_be_patient(struct node *n);
void nodes_connect(struct node *a, struct node *b);

/* A signalled request between two nodes' memories. */
struct weft_send_wr node_wr(enum weft_opcode opcode, uint64_t id, const struct weft_sge *s,
			    const struct node *to);

/* Any thread may call these. */
uint64_t thread_now_ns(void);
struct weft_sge node_seg(const struct node *n, uint64_t offset, uint32_t length);

/* Posts, trying again while the queue is full; false if it was refused otherwise. */
bool node_post(struct node *n, struct weft_send_wr *wr);

/* Takes one completion if there is one; false if polling failed. */
bool node_poll(struct weft_cq *cq, struct weft_completion *c, bool *has_completion);

/* Waits for the next completion; false if it does not come or is no success. */
bool node_take(struct weft_cq *cq, struct weft_completion *c);

/* The next completion, whatever its status; the test fails if it does not come. */
struct weft_completion node_next(struct weft_cq *cq);

/* Notes a failure, the first one of the test. For HOLDS(). */
bool thread_holds(bool is_true, const char *file, int line, const char *what);

/* Leaves a thread's function. */
#define HOLDS(cond)                                                                                \
	do {                                                                                       \
		if (!thread_holds((cond), __FILE__, __LINE__, #cond))                              \
			return NULL;                                                               \
	} while (0)

/* Runs count threads of run(arguments[i]) and waits for them; the test fails if one of them did. */
void threads_run(void *(*run)(void *), void **arguments, uint32_t count);

/* An adapter that listens, with a node; two of them are connected over loopback. */
struct tcp_end {
	struct weft_adapter *adapter;
	struct node node;
	struct weft_listener *listener;
	struct weft_address at;
};

void tcp_end_open(struct tcp_end *e);
void tcp_end_close(struct tcp_end *e);

/* Of adapters that are opened by the hundred: a sanitizer clears such tables in no time. */
extern const struct weft_adapter_options node_tables;

/* With options of the adapter (NULL: none), and so many bytes of memory. */
void tcp_end_open_with(struct tcp_end *e, const struct weft_adapter_options *o, uint32_t bytes);

/* The next event of this kind; how it went. */
enum weft_reason tcp_end_await(struct tcp_end *e, enum weft_event_kind kind);

/* Who was dialled takes the request. */
struct weft_request *tcp_end_request(struct tcp_end *e);
void tcp_ends_connect(struct tcp_end *near, struct tcp_end *far,
		      const struct weft_connect_options *options);

/* The report of an adapter, as `weft stat` asks for it; to be freed. */
char *report_of(struct weft_adapter *a);
