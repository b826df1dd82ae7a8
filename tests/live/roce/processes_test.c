/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes of one host that connect to one at the same time, talk and leave: the first thing
 * that people do with RoCE. Whatever the kernel gives to the wrong one is handed on.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/roce.h>

#include "driver/roce/cm_id.h"
#include "driver/udp/udp_inside.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

#ifndef CLIENTS
#define CLIENTS 50
#endif

enum { WORD_BYTES = 64 };

/* How far a client came, as its exit status. */
enum {
	CLIENT_GOOD = 0,
	CLIENT_LATE = 2,
	CLIENT_BAD,
	CLIENT_UNANSWERED,
	CLIENT_UNREADY,
	CLIENT_UNHEARD,
	CLIENT_UNPARTED
};

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

/* Management datagrams of an adapter. */
struct mads {
	uint64_t in, out;
};

static struct mads mads_of(struct weft_adapter *a)
{
	const struct ib_cm_counts *n;
	struct mads m;

	adapter_enter(a);
	adapter_watch(a);
	n = ib_cm_counts(roce_of(a->net)->cm);
	m = (struct mads){ .in = n->mads_in, .out = n->mads_out };
	adapter_leave(a);
	return m;
}

static struct weft_cm_id_offer offer_of(const struct node *n)
{
	return (struct weft_cm_id_offer){
		.qp_number = weft_qp_number(n->qp),
		.reads_in = 1,
		.reads_out = 1,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.timeout_code = 18,
	};
}

static struct weft_roce_attr agreed_attr(const struct weft_cm_id_news *news)
{
	return (struct weft_roce_attr){
		.path = { .from = news->path.from, .to = news->path.to, .mtu_bytes = 1024 },
		.peer_number = news->qp_number,
		.psn_send = news->psn,
		.reads_in = 1,
		.reads_out = 1,
		.timeout_code = 18,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.rnr_timer_code = 10,
	};
}

static bool post_recv(struct node *n, uint32_t at)
{
	const struct weft_sge s = node_seg(n, at, WORD_BYTES);
	const struct weft_recv_wr wr = { .id = at, .sges = &s, .sge_count = 1 };

	return weft_qp_post_recv(n->qp, &wr, 1, NULL) == WEFT_OK;
}

static bool post_send(struct node *n, uint32_t at)
{
	const struct weft_sge s = node_seg(n, at, WORD_BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, at, &s, n);

	wr.remote_tag = 0;
	wr.remote_addr = 0;
	return node_post(n, &wr);
}

/* ---- A client: a process of its own --------------------------------------------------------- */

static bool await_event(struct weft_adapter *a)
{
	struct weft_event event;
	bool has_event;

	return weft_event_next(a, PATIENCE_NS, &event, &has_event) == WEFT_OK && has_event;
}

static bool await_news(struct weft_adapter *a, struct weft_cm_id *c, enum weft_cm_id_kind kind,
		       struct weft_cm_id_news *news)
{
	do {
		if (weft_cm_id_next(c, news) != WEFT_OK)
			return false;
	} while (news->kind == WEFT_CM_NONE && await_event(a));
	return news->kind == kind;
}

/* NULL: no request came. */
static struct weft_cm_id *await_request(struct weft_adapter *a, struct weft_cm_service *service)
{
	struct weft_cm_id_news news;
	struct weft_cm_id *c;

	do {
		if (weft_cm_service_next(service, NULL, &c) != WEFT_OK)
			return NULL;
	} while (!c && await_event(a));
	return c && await_news(a, c, WEFT_CM_REQUEST, &news) ? c : NULL;
}

static bool client_talk(struct node *n)
{
	struct weft_completion c;

	memset(n->memory, 7, WORD_BYTES);
	return post_recv(n, WORD_BYTES) && post_send(n, 0) && node_take(n->cq, &c) &&
	       node_take(n->cq, &c) && n->memory[2 * WORD_BYTES - 1] == 7;
}

static int client_run(const struct weft_address *server, struct mads *mads)
{
	const struct weft_cm_id_options how = {
		.path = { .from = loopback, .to = *server, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_adapter *a;
	struct weft_cm_id *cm_id;
	struct weft_cm_id_news news;
	struct weft_cm_id_offer offer;
	struct weft_roce_attr r;
	struct node n;

	if (weft_adapter_open(NULL, &a) != WEFT_OK || weft_roce_open(a) != WEFT_OK)
		return CLIENT_BAD;
	node_open(a, &n, NULL);
	offer = offer_of(&n);
	if (weft_cm_id_open(a, &how, &offer, &cm_id) != WEFT_OK ||
	    !await_news(a, cm_id, WEFT_CM_REPLY, &news))
		return CLIENT_UNANSWERED;
	r = agreed_attr(&news);
	if (weft_qp_to_rtr(n.qp, &r) != WEFT_OK || weft_qp_to_rts(n.qp, &r) != WEFT_OK ||
	    weft_cm_id_ready(cm_id) != WEFT_OK)
		return CLIENT_UNREADY;
	if (!client_talk(&n))
		return CLIENT_UNHEARD;
	if (weft_cm_id_disconnect(cm_id) != WEFT_OK ||
	    !await_news(a, cm_id, WEFT_CM_DISCONNECTED, &news))
		return CLIENT_UNPARTED;
	*mads = mads_of(a);
	MUST(weft_cm_id_close(cm_id));
	node_close(&n, NULL);
	MUST(weft_adapter_close(a));
	return CLIENT_GOOD;
}

/* In the child, whose failure must not look like the test's. */
static void child_must(bool is_so)
{
	if (!is_so)
		_exit(CLIENT_BAD);
}

/* What a victim is told, and what it answers. */
struct victim_order {
	struct weft_address server;
	bool is_ending;
};

struct victim_report {
	pid_t pid;
	uint8_t place;
};

/* As who is ending, when the kernel has closed what comes first and not yet what others gave. */
static void end_halfway(struct weft_adapter *a)
{
	struct udp *u;

	adapter_enter(a); /* for good: it does nothing any more */
	u = roce_of(a->net)->udp;
	close(u->listener.watch.fd);
	for (int i = 0; i < 2; i++)
		close(u->shared[i].watch.fd);
}

/* Waits for its order on one pipe, connects, reports, and waits for what becomes of it. */
static pid_t victim_start(const int orders[2], const int reports[2])
{
	struct weft_cm_id_options how = {
		.path = { .from = loopback, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_cm_id_offer offer = { .retries = 7 };
	struct victim_report report = { 0 };
	struct weft_cm_id_news news;
	struct weft_cm_id *cm_id;
	struct victim_order order;
	struct weft_adapter *a;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	child_must(read(orders[0], &order, sizeof(order)) == sizeof(order));
	how.path.to = order.server;
	report.pid = getpid();
	offer.qp_number = 0x30000 | ((uint32_t)report.pid & 0xffff); /* unique */
	child_must(weft_adapter_open(NULL, &a) == WEFT_OK);
	child_must(weft_cm_id_open(a, &how, &offer, &cm_id) == WEFT_OK);
	child_must(await_news(a, cm_id, WEFT_CM_REPLY, &news));
	child_must(weft_cm_id_ready(cm_id) == WEFT_OK);
	report.place = udp_adapter_slot(roce_of(a->net)->udp);
	if (order.is_ending)
		end_halfway(a);
	child_must(write(reports[1], &report, sizeof(report)) == sizeof(report));
	for (;;)
		pause();
}

/* Waits for the address on one pipe, says what it sent on the other. */
static pid_t client_start(const int address[2], const int report[2])
{
	struct weft_address server;
	struct mads mads = { 0 };
	pid_t pid = fork();
	int status;

	if (pid != 0)
		return pid;
	close(address[1]);
	if (read(address[0], &server, sizeof(server)) != sizeof(server))
		_exit(CLIENT_LATE);
	status = client_run(&server, &mads);
	if (status == CLIENT_GOOD)
		(void)!write(report[1], &mads, sizeof(mads));
	_exit(status);
}

/* ---- The server ----------------------------------------------------------------------------- */

struct guest {
	struct weft_cm_id *cm_id;
	struct node node;
	struct weft_roce_attr roce;
	bool is_started, has_left;
};

static struct guest guests[CLIENTS];
static uint32_t guest_count, left_count;

static void take_request(struct weft_adapter *a, struct weft_cm_service *service,
			 const struct node *beside)
{
	struct guest *g = &guests[guest_count];
	struct weft_cm_id_offer offer;
	struct weft_cm_id_news news;
	struct weft_cm_id *c;

	MUST(weft_cm_service_next(service, NULL, &c));
	if (!c)
		return;
	REQUIRE(guest_count < CLIENTS);
	MUST(weft_cm_id_next(c, &news));
	*g = (struct guest){ .cm_id = c, .roce = agreed_attr(&news) };
	node_open(a, &g->node, beside);
	MUST(weft_qp_to_rtr(g->node.qp, &g->roce));
	REQUIRE(post_recv(&g->node, guest_count * WORD_BYTES));
	offer = offer_of(&g->node);
	MUST(weft_cm_id_accept(c, &offer));
	guest_count++;
}

static void take_news(struct guest *g)
{
	struct weft_cm_id_news news;

	MUST(weft_cm_id_next(g->cm_id, &news));
	switch (news.kind) {
	case WEFT_CM_NONE:
		break;
	case WEFT_CM_ESTABLISHED:
		MUST(weft_qp_to_rts(g->node.qp, &g->roce));
		g->is_started = true;
		break;
	case WEFT_CM_DISCONNECTED:
		g->has_left = true;
		left_count++;
		break;
	default:
		REQUIRE(false);
	}
}

/* Says again what each guest said; a word may come before its cm_id is known to be made. */
static void echo(struct weft_cq *cq, bool is_heard[CLIENTS])
{
	struct weft_completion c;
	bool has_one;

	REQUIRE(node_poll(cq, &c, &has_one));
	if (has_one) {
		REQUIRE(c.status == WEFT_SUCCESS);
		if (c.opcode == WEFT_OP_RECV)
			is_heard[c.id / WORD_BYTES] = true;
	}
	for (uint32_t i = 0; i < guest_count; i++) {
		if (is_heard[i] && guests[i].is_started) {
			is_heard[i] = false;
			REQUIRE(post_send(&guests[i].node, i * WORD_BYTES));
		}
	}
}

static void serve(struct weft_adapter *a, struct weft_cm_service *service, struct node *first)
{
	bool is_heard[CLIENTS] = { false };
	uint64_t since = thread_now_ns();

	guest_count = left_count = 0;
	while (left_count < CLIENTS) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		take_request(a, service, first);
		for (uint32_t i = 0; i < guest_count; i++) {
			if (!guests[i].has_left)
				take_news(&guests[i]);
		}
		echo(first->cq, is_heard);
	}
}

static void close_guests(void)
{
	for (uint32_t i = 0; i < guest_count; i++) {
		MUST(weft_cm_id_close(guests[i].cm_id));
		MUST(weft_qp_destroy(guests[i].node.qp));
	}
}

/* ---- The test ------------------------------------------------------------------------------- */

static uint64_t sum_reports(int from)
{
	uint64_t sum = 0;
	struct mads m;

	while (read(from, &m, sizeof(m)) == sizeof(m))
		sum += m.out;
	return sum;
}

TEST(test_roce_many_processes_connect_to_one)
{
	const char *why_not = own_network_enter();
	const struct weft_cm_service_options at = {
		.at = loopback,
		.port_space = WEFT_PORT_SPACE_TCP,
		.requests_max = CLIENTS,
	};
	struct weft_cm_service *service;
	struct weft_address server;
	struct weft_adapter *a;
	uint64_t sent, since;
	struct node first;
	int address[2], report[2], good = 0, status;

	if (why_not)
		SKIP(why_not);
	REQUIRE(pipe(address) == 0 && pipe(report) == 0);
	for (int i = 0; i < CLIENTS; i++)
		REQUIRE(client_start(address, report) > 0);
	close(report[1]);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_roce_open(a));
	node_open(a, &first, NULL);
	MUST(weft_cm_service_open(a, &at, &service));
	MUST(weft_cm_service_address(service, &server));
	for (int i = 0; i < CLIENTS; i++)
		REQUIRE(write(address[1], &server, sizeof(server)) == sizeof(server));
	serve(a, service, &first);
	while (wait(&status) > 0) {
		if (WIFEXITED(status) && WEXITSTATUS(status) == CLIENT_GOOD)
			good++;
		else
			printf("# a client ended with %#x\n", (unsigned int)status);
	}
	sent = sum_reports(report[0]);
	since = thread_now_ns();
	while (mads_of(a).in < sent && thread_now_ns() - since < PATIENCE_NS / 10)
		;
	EXPECT_EQ(good, CLIENTS);
	EXPECT(mads_of(a).in >= sent); /* none was lost on the way */
	close_guests();
	MUST(weft_cm_service_close(service));
	node_close(&first, NULL);
	MUST(weft_adapter_close(a));
	close(address[0]);
	close(address[1]);
	close(report[0]);
}

/* A service whose guests are other processes. */
struct house {
	struct weft_adapter *adapter;
	struct weft_cm_service *service;
	int orders[2], reports[2]; /* pipes to and from the victims */
};

/* With so many who wait to be let in: they are forked before there is anything to inherit. */
static void house_open(struct house *h, int victims)
{
	const struct weft_cm_service_options at = { .at = loopback,
						    .port_space = WEFT_PORT_SPACE_TCP };

	REQUIRE(pipe(h->orders) == 0 && pipe(h->reports) == 0);
	for (int i = 0; i < victims; i++)
		REQUIRE(victim_start(h->orders, h->reports) > 0);
	MUST(weft_adapter_open(NULL, &h->adapter));
	MUST(weft_cm_service_open(h->adapter, &at, &h->service));
}

static void house_close(struct house *h)
{
	MUST(weft_cm_service_close(h->service));
	MUST(weft_adapter_close(h->adapter));
	for (int i = 0; i < 2; i++) {
		close(h->orders[i]);
		close(h->reports[i]);
	}
}

/* Lets the next in. */
static struct weft_cm_id *house_welcome(struct house *h, bool is_ending,
					struct victim_report *victim)
{
	const struct weft_cm_id_offer offer = { .qp_number = 0x30002, .retries = 7 };
	struct victim_order order = { .is_ending = is_ending };
	struct weft_cm_id_news news;
	struct weft_cm_id *c;

	MUST(weft_cm_service_address(h->service, &order.server));
	REQUIRE(write(h->orders[1], &order, sizeof(order)) == sizeof(order));
	c = await_request(h->adapter, h->service);
	REQUIRE(c);
	MUST(weft_cm_id_accept(c, &offer));
	REQUIRE(await_news(h->adapter, c, WEFT_CM_ESTABLISHED, &news));
	REQUIRE(read(h->reports[0], victim, sizeof(*victim)) == sizeof(*victim));
	return c;
}

static void victim_kill(const struct victim_report *victim)
{
	REQUIRE(kill(victim->pid, SIGKILL) == 0 && waitpid(victim->pid, NULL, 0) == victim->pid);
}

static void kill_other_end(bool is_asked)
{
	struct weft_cm_id_news news;
	struct victim_report victim;
	struct weft_cm_id *c;
	bool is_answered = false;
	struct house h;

	house_open(&h, 1);
	c = house_welcome(&h, false, &victim);
	victim_kill(&victim);
	if (is_asked) /* it may have been missed by then */
		is_answered = weft_cm_id_disconnect(c) == WEFT_OK;
	EXPECT(await_news(h.adapter, c, WEFT_CM_DISCONNECTED, &news));
	EXPECT_EQ(news.reason, is_answered ? WEFT_OK : WEFT_R_STREAM_LOST);
	MUST(weft_cm_id_close(c));
	house_close(&h);
}

/* The process that gets its messages answers that it knows no such cm_id. */
TEST(test_roce_a_process_that_was_killed_is_not_waited_for)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	kill_other_end(true);
}

/* Datagrams do not tell, but on this host its socket does. */
TEST(test_roce_a_process_that_was_killed_is_missed)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	kill_other_end(false);
}

/* Places are taken anew at once: by one that comes while the one before is still being closed. */
TEST(test_roce_a_process_is_not_missed_with_the_one_before_it)
{
	const char *why_not = own_network_enter();
	struct victim_report one, next;
	struct weft_cm_id *with_one, *with_next;
	struct weft_cm_id_news news;
	struct house h;

	if (why_not)
		SKIP(why_not);
	house_open(&h, 2);
	with_one = house_welcome(&h, true, &one);
	with_next = house_welcome(&h, false, &next);
	REQUIRE(next.place == one.place);
	victim_kill(&one);
	EXPECT(await_news(h.adapter, with_one, WEFT_CM_DISCONNECTED, &news));
	MUST(weft_cm_id_next(with_next, &news));
	EXPECT_EQ(news.kind, WEFT_CM_NONE);
	victim_kill(&next);
	EXPECT(await_news(h.adapter, with_next, WEFT_CM_DISCONNECTED, &news));
	MUST(weft_cm_id_close(with_one));
	MUST(weft_cm_id_close(with_next));
	house_close(&h);
}

/* ---- Last words ----------------------------------------------------------------------------- */

enum { LAST_WORDS = 10, HAS_REJECTED = 1, HAS_PARTED = 2 };

static const char no[] = "not today";

/* An adapter at a place that differs from turn to turn, and so does who gets what it sends. */
static struct weft_adapter *open_at_turn(int turn)
{
	struct weft_adapter *spare[LAST_WORDS], *a;

	for (int i = 0; i < turn; i++) {
		child_must(weft_adapter_open(NULL, &spare[i]) == WEFT_OK);
		child_must(weft_roce_open(spare[i]) == WEFT_OK);
	}
	child_must(weft_adapter_open(NULL, &a) == WEFT_OK);
	child_must(weft_roce_open(a) == WEFT_OK);
	for (int i = 0; i < turn; i++)
		child_must(weft_adapter_close(spare[i]) == WEFT_OK);
	return a;
}

/* Waits for a request, ends it, and exits at once, without closing anything. */
static void speak_and_die(int turn, bool is_reject, int address)
{
	const struct weft_cm_id_offer offer = { .qp_number = 0x30002, .retries = 7 };
	const struct weft_cm_service_options at = { .at = loopback,
						    .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_adapter *a = open_at_turn(turn);
	struct weft_cm_service *service;
	struct weft_cm_id_news news;
	struct weft_cm_id *c;
	struct weft_address server;

	child_must(weft_cm_service_open(a, &at, &service) == WEFT_OK);
	child_must(weft_cm_service_address(service, &server) == WEFT_OK);
	child_must(write(address, &server, sizeof(server)) == sizeof(server));
	c = await_request(a, service);
	child_must(c);
	if (is_reject) {
		child_must(weft_cm_id_reject(c, 0, no, sizeof(no)) == WEFT_OK);
		_exit(HAS_REJECTED);
	}
	child_must(weft_cm_id_accept(c, &offer) == WEFT_OK);
	child_must(await_news(a, c, WEFT_CM_ESTABLISHED, &news));
	child_must(weft_cm_id_disconnect(c) == WEFT_OK);
	_exit(HAS_PARTED);
}

static void hear_last_word(struct weft_adapter *a, const struct weft_address *server,
			   bool is_reject)
{
	const struct weft_cm_id_offer offer = { .qp_number = 0x30001, .retries = 7 };
	const struct weft_cm_id_options how = {
		.path = { .from = loopback, .to = *server, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	struct weft_cm_id_news news;
	struct weft_cm_id *c;

	MUST(weft_cm_id_open(a, &how, &offer, &c));
	if (is_reject) {
		EXPECT(await_news(a, c, WEFT_CM_REJECTED, &news));
		EXPECT_EQ(news.reason, WEFT_R_CONNECT_REJECTED);
		EXPECT(memcmp(news.private_data, no, sizeof(no)) == 0);
	} else {
		REQUIRE(await_news(a, c, WEFT_CM_REPLY, &news));
		MUST(weft_cm_id_ready(c));
		EXPECT(await_news(a, c, WEFT_CM_DISCONNECTED, &news));
	}
	MUST(weft_cm_id_close(c));
}

static void last_word(int turn, bool is_reject)
{
	struct weft_address server;
	int address[2], status;
	struct weft_adapter *a;
	pid_t pid;

	REQUIRE(pipe(address) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		speak_and_die(turn, is_reject, address[1]);
	REQUIRE(read(address[0], &server, sizeof(server)) == sizeof(server));
	MUST(weft_adapter_open(NULL, &a));
	hear_last_word(a, &server, is_reject);
	MUST(weft_adapter_close(a));
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == (is_reject ? HAS_REJECTED : HAS_PARTED));
	close(address[0]);
	close(address[1]);
}

/*
 * What it said may have come to its own socket, by the kernel's choice: it must not go with the
 * process, which could not be asked again.
 */
TEST(test_roce_what_a_process_said_last_arrives)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	for (int turn = 0; turn < LAST_WORDS; turn++) {
		last_word(turn, true);
		last_word(turn, false);
	}
}

/*
 * The successor of a killed process has its slot, but other numbers. Peers of the killed one may
 * not know that it is gone: to them the same queue pair would ask for a second connection, which is
 * refused (IBA 12.9.8.3.1).
 */
TEST(test_roce_numbers_do_not_begin_anew_with_every_process)
{
	const char *why_not = own_network_enter();
	uint32_t numbers[4];

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 4; i++) {
		struct weft_adapter *a;
		struct node n;

		MUST(weft_adapter_open(NULL, &a));
		MUST(weft_roce_open(a));
		node_open(a, &n, NULL);
		numbers[i] = weft_qp_number(n.qp);
		node_close(&n, NULL);
		MUST(weft_adapter_close(a));
	}
	EXPECT(numbers[0] >> 16 == numbers[3] >> 16); /* the same place */
	/* Once in a while a number may come twice. */
	EXPECT(numbers[0] != numbers[1] || numbers[1] != numbers[2] || numbers[2] != numbers[3]);
}
