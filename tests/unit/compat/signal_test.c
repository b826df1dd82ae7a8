/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals that come while a program waits for events: calls go on where their handlers say so. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

/* One who waits for an event of some kind. */
struct waiting {
	int (*call)(struct waiting *w);
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	struct rdma_event_channel *events;
	pthread_t thread;
	_Atomic pid_t tid;
	int result, error;
	struct ibv_async_event async;
	struct rdma_cm_event *cm;
};

static _Atomic int handled;

static void handle(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static int wait_cq(struct waiting *w)
{
	struct ibv_cq *cq;
	void *context;

	return ibv_get_cq_event(w->channel, &cq, &context);
}

static int wait_async(struct waiting *w)
{
	return ibv_get_async_event(w->context, &w->async);
}

static int wait_cm(struct waiting *w)
{
	return rdma_get_cm_event(w->events, &w->cm);
}

static void *wait_run(void *arg)
{
	struct waiting *w = arg;

	atomic_store(&w->tid, (pid_t)syscall(SYS_gettid));
	w->result = w->call(w);
	w->error = errno;
	return NULL;
}

static bool is_asleep(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* Begins to wait, and is met there by a signal whose handler has these flags. */
static void meet(struct waiting *w, int flags)
{
	const struct sigaction action = { .sa_handler = handle, .sa_flags = flags };
	int before = atomic_load(&handled);

	REQUIRE(sigaction(SIGUSR2, &action, NULL) == 0);
	REQUIRE(pthread_create(&w->thread, NULL, wait_run, w) == 0);
	while (atomic_load(&w->tid) == 0 || !is_asleep(atomic_load(&w->tid)))
		;
	REQUIRE(pthread_kill(w->thread, SIGUSR2) == 0);
	while (atomic_load(&handled) == before)
		;
}

static void open_all(struct waiting *w, struct cm_pair *pair)
{
	cm_pair_make(pair);
	*w = (struct waiting){
		.context = pair->near->verbs,
		.channel = ibv_create_comp_channel(pair->near->verbs),
		.events = rdma_create_event_channel(),
	};
	REQUIRE(w->channel && w->events);
}

static void close_all(struct waiting *w, struct cm_pair *pair)
{
	EXPECT_EQ(ibv_destroy_comp_channel(w->channel), 0);
	rdma_destroy_event_channel(w->events);
	cm_pair_free(pair);
}

/* The thread sanitizer keeps signals back while a thread is in a call that it does not know. */
#if defined(__SANITIZE_THREAD__)
enum { ARE_SIGNALS_HELD = 1 };
#elif defined(__has_feature)
enum { ARE_SIGNALS_HELD = __has_feature(thread_sanitizer) };
#else
enum { ARE_SIGNALS_HELD = 0 };
#endif

#define NEEDS_SIGNALS()                                                                            \
	do {                                                                                       \
		if (ARE_SIGNALS_HELD)                                                              \
			SKIP("this sanitizer holds signals back");                                 \
	} while (0)

static int (*const calls[])(struct waiting *w) = { wait_cq, wait_async, wait_cm };

TEST(test_calls_that_wait_end_by_a_signal_that_does_not_restart_them)
{
	NEEDS_SIGNALS();
	for (int i = 0; i < 3; i++) {
		struct cm_pair pair;
		struct waiting w;

		open_all(&w, &pair);
		w.call = calls[i];
		meet(&w, 0);
		REQUIRE(pthread_join(w.thread, NULL) == 0);
		EXPECT_EQ(w.result, -1);
		EXPECT_EQ(w.error, EINTR);
		close_all(&w, &pair);
	}
}

TEST(test_ibv_get_async_event_goes_on_after_a_signal_that_restarts_calls)
{
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct cm_pair pair;
	struct waiting w;

	NEEDS_SIGNALS();
	open_all(&w, &pair);
	w.call = wait_async;
	meet(&w, SA_RESTART);
	REQUIRE(ibv_modify_qp(pair.near->qp, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) ==
		0);
	REQUIRE(pthread_join(w.thread, NULL) == 0);
	EXPECT_EQ(w.result, 0);
	EXPECT_EQ(w.async.event_type, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&w.async);
	close_all(&w, &pair);
}

TEST(test_rdma_get_cm_event_goes_on_after_a_signal_that_restarts_calls)
{
	struct sockaddr_in to = cm_loopback(1);
	struct cm_pair pair;
	struct rdma_cm_id *id;
	struct waiting w;

	NEEDS_SIGNALS();
	open_all(&w, &pair);
	w.call = wait_cm;
	meet(&w, SA_RESTART);
	REQUIRE(rdma_create_id(w.events, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
	REQUIRE(pthread_join(w.thread, NULL) == 0);
	EXPECT_EQ(w.result, 0);
	EXPECT_EQ(w.cm->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_ack_cm_event(w.cm), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	close_all(&w, &pair);
}

/* A waiting thread can be cancelled, and the next waiting thread gets events. */
TEST(test_calls_that_wait_may_be_cancelled)
{
	NEEDS_SIGNALS();
	for (int i = 0; i < 3; i++) {
		struct cm_pair pair;
		struct waiting w;
		void *result;

		open_all(&w, &pair);
		w.call = calls[i];
		meet(&w, SA_RESTART);
		REQUIRE(pthread_cancel(w.thread) == 0);
		REQUIRE(pthread_join(w.thread, &result) == 0);
		EXPECT(result == PTHREAD_CANCELED);
		close_all(&w, &pair);
	}
}
