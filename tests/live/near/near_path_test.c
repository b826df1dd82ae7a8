/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of RoCE on one host, whose packets go by shared memory: what programs notice of it.
 * That the verbs mean the same the conformance suite proves, over this path and over UDP.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "driver/roce/roce.h"
#include "live/near/near_world.h"
#include "unit/driver/capture_fixture.h"
#include "wire/iba.h"
#include "wire/iba_psn.h"

/* A Write, a Read, an atomic and a Send with all their bytes. */
static void expect_traffic(struct node *from, struct node *to)
{
	enum { BYTES = 20000, WORD = 24000 };
	struct weft_sge all = node_seg(from, 0, BYTES), back = node_seg(from, BYTES, BYTES);
	struct weft_sge word = node_seg(from, 48000, 8), into = node_seg(to, BYTES, BYTES);
	const struct weft_recv_wr recv = { .id = 9, .sges = &into, .sge_count = 1 };
	struct weft_send_wr write = node_wr(WEFT_OP_WRITE, 1, &all, to);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 2, &back, to);
	struct weft_send_wr add = node_wr(WEFT_OP_FETCH_ADD, 3, &word, to);
	struct weft_send_wr send = node_wr(WEFT_OP_SEND, 4, &all, to);
	struct weft_completion c;

	for (uint32_t i = 0; i < BYTES; i++)
		from->memory[i] = (uint8_t)(i * 13 + i / 256);
	add.remote_addr += WORD;
	add.compare_add = 5;
	memset(to->memory + WORD, 1, 8);
	MUST(weft_qp_post_recv(to->qp, &recv, 1, NULL));
	REQUIRE(node_post(from, &write) && node_take(from->cq, &c) && c.id == 1);
	REQUIRE(memcmp(to->memory, from->memory, BYTES) == 0);
	REQUIRE(node_post(from, &read) && node_take(from->cq, &c) && c.id == 2);
	REQUIRE(memcmp(from->memory + BYTES, from->memory, BYTES) == 0);
	REQUIRE(node_post(from, &add) && node_take(from->cq, &c) && c.id == 3);
	REQUIRE(to->memory[WORD] == 6 && from->memory[48000] == 1);
	REQUIRE(node_post(from, &send) && node_take(from->cq, &c) && c.id == 4);
	REQUIRE(node_take(to->cq, &c) && c.id == 9 && c.byte_count == BYTES);
	REQUIRE(memcmp(to->memory + BYTES, from->memory, BYTES) == 0);
}

TEST(test_near_is_the_path_between_adapters_of_a_host)
{
	struct end a, b;
	struct weft_roce_counts n;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	expect_traffic(&a.node, &b.node);
	expect_traffic(&b.node, &a.node);
	n = counts_of(&a);
	EXPECT(n.packets_out > 0 && n.packets_in > 0);
	EXPECT_EQ(n.near_out, n.packets_out);
	EXPECT_EQ(n.near_in, n.packets_in);
	EXPECT_EQ(n.calls_out, 0);
	EXPECT_EQ(n.near_lost + n.dropped, 0);
	end_close(&a);
	end_close(&b);
}

static uint64_t runs_of(const struct end *e)
{
	uint64_t runs;

	adapter_enter(e->adapter);
	runs = near_counts(roce_of(e->adapter->net)->near)->runs_out;
	adapter_leave(e->adapter);
	return runs;
}

/* One by one where they are recorded. */
TEST(test_near_packets_of_a_message_go_as_runs)
{
	struct end a, b;
	uint64_t runs;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	expect_traffic(&a.node, &b.node);
	runs = runs_of(&a);
	EXPECT(runs > 0);
	MUST(weft_capture_start(a.adapter, capture_path()));
	expect_traffic(&a.node, &b.node);
	EXPECT_EQ(runs_of(&a), runs);
	end_close(&a);
	end_close(&b);
	(void)unlink(capture_path());
}

/*
 * Every middle or last packet of a Write has the PSN behind that of the packet before it, and an
 * only one has all of the bytes.
 */
static bool are_whole(const struct reading *capture)
{
	uint32_t next = 0;

	for (size_t k = 0; k < capture->count; k++) {
		const struct packet *at = &capture->packets[k];
		struct iba_packet p;

		if (at->is_outgoing || iba_decode(&p, at->payload, at->payload_bytes) != WEFT_OK ||
		    iba_form(p.opcode)->kind != IBA_KIND_WRITE)
			continue;
		if (iba_form(p.opcode)->traits & IBA_FIRST) {
			bool is_only = iba_form(p.opcode)->traits & IBA_LAST;

			if (is_only != (p.payload_bytes == p.dma_bytes))
				return false;
		} else if (p.psn != next) {
			return false;
		}
		next = iba_psn_add(p.psn, 1);
	}
	return next != 0;
}

/* Also one that begins later than the connection, whose sender knows nothing of it. */
TEST(test_near_capture_has_the_packets_of_runs)
{
	struct end a, b;
	struct reading capture;
	struct weft_roce_counts before, n;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	expect_traffic(&a.node, &b.node);
	before = counts_of(&b);
	MUST(weft_capture_start(b.adapter, capture_path()));
	expect_traffic(&a.node, &b.node);
	n = counts_of(&b);
	end_close(&a);
	end_close(&b);
	reading_open(&capture, capture_path());
	EXPECT_EQ(capture.count,
		  n.packets_in + n.packets_out - before.packets_in - before.packets_out);
	for (size_t k = 0; k < capture.count; k++)
		EXPECT(capture.packets[k].payload_bytes <= IBA_PACKET_MAX);
	EXPECT(are_whole(&capture));
	reading_close(&capture);
}

TEST(test_near_connects_an_adapter_with_itself)
{
	struct end a;
	struct node other;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	node_open(a.adapter, &other, NULL);
	roce_start_both(a.node.qp, other.qp);
	expect_traffic(&a.node, &other);
	EXPECT_EQ(counts_of(&a).near_out, counts_of(&a).packets_out);
	node_close(&other, NULL);
	end_close(&a);
}

/* Both ends have to ask for it. */
TEST(test_near_of_one_end_alone_leaves_udp)
{
	struct end a, b;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open_udp());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	expect_traffic(&a.node, &b.node);
	EXPECT_EQ(counts_of(&a).near_out + counts_of(&a).near_in, 0);
	EXPECT(counts_of(&a).calls_out > 0);
	end_close(&a);
	end_close(&b);
}

/* ---- Programs that sleep -------------------------------------------------------------------- */

enum { TURNS = 2000 };

struct player {
	struct end *end;
	bool is_first, is_armed;
};

static bool post_receive(struct node *n)
{
	const struct weft_sge s = node_seg(n, 64, 8);
	const struct weft_recv_wr wr = { .id = 2, .sges = &s, .sge_count = 1 };

	return weft_qp_post_recv(n->qp, &wr, 1, NULL) == WEFT_OK;
}

/*
 * One sleeps on the sockets itself, the other is woken by the adapter's thread: it arms first,
 * looks once more, and then sleeps.
 */
static bool sleep_for_one(struct player *p)
{
	struct weft_cq *cq = p->end->node.cq;
	struct weft_event event;
	bool has_event;

	if (p->is_first)
		return weft_cq_wait(cq, -1, PATIENCE_NS, NULL) == WEFT_OK;
	p->is_armed = !p->is_armed;
	if (p->is_armed)
		return weft_cq_arm(cq, WEFT_ARM_NEXT) == WEFT_OK;
	return weft_event_next(p->end->adapter, PATIENCE_NS, &event, &has_event) == WEFT_OK &&
	       has_event;
}

/* Answers each message; the first one begins. */
static void *play(void *argument)
{
	struct player *p = argument;
	struct node *n = &p->end->node;
	const struct weft_sge s = node_seg(n, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 1, &s, n);
	uint32_t got = 0, sent = 0;

	if (p->is_first) {
		HOLDS(node_post(n, &wr));
		sent++;
	}
	while (got < TURNS) {
		struct weft_completion c;
		bool has;

		HOLDS(node_poll(n->cq, &c, &has));
		if (!has) {
			HOLDS(sleep_for_one(p));
			continue;
		}
		HOLDS(c.status == WEFT_SUCCESS);
		if (c.id != 2)
			continue;
		got++;
		HOLDS(post_receive(n));
		if (sent < TURNS) {
			HOLDS(node_post(n, &wr));
			sent++;
		}
	}
	return NULL;
}

/* A lost wake-up would cost a second, after which threads look; near_test.c has none. */
TEST(test_near_wakes_programs_that_sleep)
{
	struct end a, b;
	struct player players[2] = { { &a, true, false }, { &b, false, false } };
	void *arguments[] = { &players[0], &players[1] };

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	REQUIRE(post_receive(&a.node) && post_receive(&b.node));
	threads_run(play, arguments, 2);
	EXPECT_EQ(counts_of(&a).near_lost, 0);
	EXPECT(counts_of(&a).near_out >= TURNS);
	end_close(&a);
	end_close(&b);
}

/* ---- A program that polls ------------------------------------------------------------------- */

/* Sends a message to the other end, and polls until it is there. */
static void expect_message(struct end *from, struct end *to)
{
	const struct weft_sge s = node_seg(&from->node, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 1, &s, &from->node);
	struct weft_completion c = { .id = 1 };
	bool has;

	wr.flags = 0;
	REQUIRE(post_receive(&to->node) && node_post(&from->node, &wr));
	do
		REQUIRE(node_poll(to->node.cq, &c, &has));
	while (!has);
	MUST_EQ(c.id, 2);
}

static long switches(void)
{
	struct rusage used;

	REQUIRE(getrusage(RUSAGE_SELF, &used) == 0);
	return used.ru_nvcsw;
}

/*
 * The thread stands by: acknowledgements that wait for the next message do not wake it, which
 * made eight switches for each exchange. It looks by itself now and then, and takes over where the
 * program is not let run.
 */
TEST(test_near_program_that_polls_wakes_no_thread)
{
	enum { EXCHANGES = 4000, UNTIL_STEADY = 20000, SWITCHES_A_MS = 10 };
	struct end a, b;
	uint64_t start_ns = 0;
	long before = 0, ms;

	WORLD_OR_SKIP();
	end_open(&a, roce_adapter_open());
	end_open(&b, roce_adapter_open());
	roce_start_both(a.node.qp, b.node.qp);
	for (int i = 0; i < UNTIL_STEADY + EXCHANGES; i++) {
		if (i == UNTIL_STEADY) {
			before = switches();
			start_ns = thread_now_ns();
		}
		expect_message(&a, &b);
		expect_message(&b, &a);
	}
	ms = (long)((thread_now_ns() - start_ns) / 1000000);
	EXPECT(switches() - before < EXCHANGES + SWITCHES_A_MS * ms);
	end_close(&a);
	end_close(&b);
}

/* ---- Peers that die or refuse --------------------------------------------------------------- */

/*
 * Until the peer has taken the ring of this end: its answer brings descriptors of its board, which
 * is mapped with the adapter's lock. A kernel that does not let a child access its parent unmaps it
 * again: then a second is enough.
 */
static void await_taken(struct end *e)
{
	enum { RING_PARTS = 2, BOARD_PARTS = 2 };
	uint64_t end_ns = thread_now_ns() + 1000 * 1000 * 1000;

	while (shared_mapped() < RING_PARTS + BOARD_PARTS && thread_now_ns() < end_ns)
		;
	(void)counts_of(e);
}

/*
 * Waits for its peer's number, connects, says so, and sleeps until it is killed. It has a receive
 * posted, and no descriptors left for the peer's ring, if it refuses that.
 */
static _Noreturn void victim_run(int in, int out, bool refuses)
{
	struct end e;
	struct weft_roce_attr way;
	uint32_t number;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may have failed */
	end_open(&e, roce_adapter_open());
	number = weft_qp_number(e.node.qp);
	(void)!write(out, &number, sizeof(number));
	(void)!read(in, &number, sizeof(number));
	way = roce_way(number);
	roce_start(e.node.qp, &way);
	if (refuses) {
		REQUIRE(post_receive(&e.node));
		await_taken(&e);
		/* A ring needs two, a connection that hands UDP packets on needs one. */
		(void)descriptors_leave(1);
	}
	(void)!write(out, &number, sizeof(number));
	for (;;)
		pause();
}

struct victim {
	pid_t pid;
	int to[2], from[2];
};

/* The requester waits for its answers for ever: timeout_code 0. */
static void victim_open(struct victim *v, struct end *e, bool refuses)
{
	struct weft_roce_attr way;
	uint32_t number;

	REQUIRE(pipe(v->to) == 0 && pipe(v->from) == 0);
	v->pid = fork();
	REQUIRE(v->pid >= 0);
	if (v->pid == 0)
		victim_run(v->to[0], v->from[1], refuses);
	end_open(e, roce_adapter_open());
	REQUIRE(read(v->from[0], &number, sizeof(number)) == sizeof(number));
	way = roce_way(number);
	way.timeout_code = 0;
	number = weft_qp_number(e->node.qp);
	REQUIRE(write(v->to[1], &number, sizeof(number)) == sizeof(number));
	REQUIRE(read(v->from[0], &number, sizeof(number)) == sizeof(number));
	roce_start(e->node.qp, &way);
}

static void victim_kill(struct victim *v)
{
	REQUIRE(kill(v->pid, SIGKILL) == 0 && waitpid(v->pid, NULL, 0) == v->pid);
	for (int i = 0; i < 2; i++) {
		close(v->to[i]);
		close(v->from[i]);
	}
}

static void post_send(struct end *e)
{
	const struct weft_sge s = node_seg(&e->node, 0, 8);
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 1, &s, &e->node);

	REQUIRE(node_post(&e->node, &wr));
}

/* The peer has taken the ring, and answers. */
static void expect_answer(struct end *e)
{
	const struct weft_sge none = node_seg(&e->node, 0, 0);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &none, &e->node);

	REQUIRE(node_post(&e->node, &wr));
	MUST_EQ(node_next(e->node.cq).status, WEFT_SUCCESS);
}

/* Nothing is lost: the requester would wait for ever. */
TEST(test_near_peer_without_descriptors_is_sent_to_by_udp)
{
	struct victim v;
	struct end e;

	WORLD_OR_SKIP();
	victim_open(&v, &e, true);
	post_send(&e);
	MUST_EQ(node_next(e.node.cq).status, WEFT_SUCCESS);
	EXPECT_EQ(counts_of(&e).near_out, 0);
	EXPECT(counts_of(&e).calls_out > 0);
	victim_kill(&v);
	end_close(&e);
}

/* A Send waits for a receive of the peer. */
TEST(test_near_killed_peer_ends_a_request_that_waits)
{
	struct victim v;
	struct end e;

	WORLD_OR_SKIP();
	victim_open(&v, &e, false);
	post_send(&e);
	while (counts_of(&e).rnrs_in == 0) {
		struct weft_completion c;
		bool has;

		REQUIRE(node_poll(e.node.cq, &c, &has) && !has);
	}
	victim_kill(&v);
	MUST_EQ(node_next(e.node.cq).status, WEFT_ERR_PEER_GONE);
	end_close(&e);
}

/* The peer is stopped, and never answers. */
TEST(test_near_killed_peer_ends_a_request_without_an_answer)
{
	struct victim v;
	struct end e;
	int status;

	WORLD_OR_SKIP();
	victim_open(&v, &e, false);
	expect_answer(&e);
	REQUIRE(kill(v.pid, SIGSTOP) == 0);
	REQUIRE(waitpid(v.pid, &status, WUNTRACED) == v.pid && WIFSTOPPED(status));
	post_send(&e);
	victim_kill(&v);
	MUST_EQ(node_next(e.node.cq).status, WEFT_ERR_PEER_GONE);
	end_close(&e);
}

/* The peer has gone before. */
TEST(test_near_killed_peer_ends_a_request_that_comes_later)
{
	struct victim v;
	struct end e;

	WORLD_OR_SKIP();
	victim_open(&v, &e, false);
	victim_kill(&v);
	post_send(&e);
	MUST_EQ(node_next(e.node.cq).status, WEFT_ERR_PEER_GONE);
	end_close(&e);
}
