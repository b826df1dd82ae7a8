/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child that the library was not told of: by the system call, past fork() and its handlers. It
 * has copies of its parent's sockets, and must say nothing by them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/roce/cm_id.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

/* The thread sanitizer is not told of the child either, and takes it for its parent. */
#if defined(__has_feature)
enum { IS_CHILD_MISTAKEN = __has_feature(thread_sanitizer) };
#else
enum { IS_CHILD_MISTAKEN = 0 };
#endif

struct pair {
	struct weft_cm_id *active, *passive;
};

static struct weft_adapter *near, *far;
static struct weft_cm_service *service;
static uint32_t numbers;

static struct weft_cm_id_offer offer(void)
{
	return (struct weft_cm_id_offer){
		.qp_number = 0x10000 + ++numbers,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = 7,
	};
}

static void open_both(void)
{
	const struct weft_cm_service_options at = {
		.at = roce_loopback,
		.port_space = WEFT_PORT_SPACE_TCP,
		.requests_max = 4,
	};

	near = roce_adapter_open();
	far = roce_adapter_open();
	MUST(weft_cm_service_open(far, &at, &service));
}

static void close_both(void)
{
	MUST(weft_cm_service_close(service));
	MUST(weft_adapter_close(near));
	MUST(weft_adapter_close(far));
}

/* The next news, other than what asked for the cm_id. */
static enum weft_cm_id_kind next(struct weft_cm_id *c)
{
	struct weft_cm_id_news news;

	do
		MUST(weft_cm_id_next(c, &news));
	while (news.kind == WEFT_CM_REQUEST);
	return news.kind;
}

static void await(struct weft_cm_id *c, enum weft_cm_id_kind wanted)
{
	uint64_t since = thread_now_ns();
	enum weft_cm_id_kind kind;

	while ((kind = next(c)) == WEFT_CM_NONE)
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
	REQUIRE(kind == wanted);
}

static struct pair pair_open(void)
{
	struct weft_cm_id_options how = {
		.path = { .from = roce_loopback, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	const struct weft_cm_id_offer asked = offer(), answered = offer();
	uint64_t since = thread_now_ns();
	struct pair p = { NULL, NULL };

	MUST(weft_cm_service_address(service, &how.path.to));
	MUST(weft_cm_id_open(near, &how, &asked, &p.active));
	while (!p.passive) {
		MUST(weft_cm_service_next(service, NULL, &p.passive));
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
	}
	MUST(weft_cm_id_accept(p.passive, &answered));
	await(p.active, WEFT_CM_REPLY);
	MUST(weft_cm_id_ready(p.active));
	await(p.passive, WEFT_CM_ESTABLISHED);
	return p;
}

static void pair_close(const struct pair *p)
{
	MUST(weft_cm_id_close(p->active));
	MUST(weft_cm_id_close(p->passive));
}

/* Neither end was told that it is over: what another pair says comes behind that. */
static void expect_connected(const struct pair *p)
{
	struct pair later = pair_open();

	EXPECT_EQ(next(p->active), WEFT_CM_NONE);
	EXPECT_EQ(next(p->passive), WEFT_CM_NONE);
	pair_close(&later);
}

/* What the child does, and then exits as programs do; its parent goes on when it is gone. */
static void in_raw_child(void (*act)(const struct pair *), const struct pair *p)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	REQUIRE(child >= 0);
	if (child == 0) {
		act(p);
		exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
}

static void do_nothing(const struct pair *p)
{
	(void)p;
}

static void end_it(const struct pair *p)
{
	(void)weft_cm_id_disconnect(p->active);
	(void)weft_cm_id_close(p->active);
	(void)weft_cm_id_close(p->passive);
}

TEST(test_roce_a_child_by_the_system_call_exits_and_its_parent_stays_connected)
{
	const char *why_not = own_network_enter();
	struct pair p;

	if (why_not)
		SKIP(why_not);
	open_both();
	p = pair_open();
	in_raw_child(do_nothing, &p);
	expect_connected(&p);
	pair_close(&p);
	close_both();
}

TEST(test_roce_a_child_by_the_system_call_cannot_disconnect_its_parent)
{
	const char *why_not = own_network_enter();
	struct pair p;

	if (IS_CHILD_MISTAKEN)
		SKIP("the thread sanitizer takes such a child for its parent");
	if (why_not)
		SKIP(why_not);
	open_both();
	p = pair_open();
	in_raw_child(end_it, &p);
	expect_connected(&p);
	pair_close(&p);
	close_both();
}
