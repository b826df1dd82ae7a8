/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes and Reads that their requester executes in the memory of another process. The kernel must
 * allow it, as it allows a debugger; else packets carry them, which other tests prove.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/notice.h"
#include "live/near/near_world.h"

/* Where the target of a Write lies in the memory of its node, and the source of its writer. */
enum { SOURCE = 0, TARGET = 4096, BYTES = 64 };

#define DIRECT_OR_SKIP()                                                                           \
	do {                                                                                       \
		WORLD_OR_SKIP();                                                                   \
		if (!direct_is_allowed())                                                          \
			SKIP("the kernel lets no process access memory of another");               \
	} while (0)

static struct weft_completion ask(struct node *n, enum weft_opcode opcode, const struct card *to)
{
	const struct weft_sge s = node_seg(n, SOURCE, BYTES);
	struct weft_send_wr wr = node_wr(opcode, 1, &s, n);

	wr.remote_addr = to->addr;
	wr.remote_tag = to->tag;
	REQUIRE(node_post(n, &wr));
	return node_next(n->cq);
}

static struct card target_of(const struct node *n)
{
	struct card card = card_of(n);

	card.addr += TARGET;
	return card;
}

/* Of the first end how long it waits for answers, of the second how many Reads it takes. */
struct ways {
	uint8_t timeout_code, reads_in;
};

/* Two ends whose requests go direct: the first Write goes by packets. */
static void ends_open_as(struct end *a, struct end *b, const struct ways *ways)
{
	struct weft_roce_attr way;
	struct card to;

	end_open(a, roce_adapter_open());
	end_open(b, roce_adapter_open());
	way = roce_way(weft_qp_number(a->node.qp));
	way.reads_in = ways->reads_in;
	roce_start(b->node.qp, &way);
	way = roce_way(weft_qp_number(b->node.qp));
	way.timeout_code = ways->timeout_code;
	roce_start(a->node.qp, &way);
	to = target_of(&b->node);
	MUST_EQ(ask(&a->node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	MUST_EQ(counts_of(a).direct, 0);
	MUST_EQ(ask(&a->node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	MUST_EQ(counts_of(a).direct, 1);
}

static void ends_open(struct end *a, struct end *b)
{
	ends_open_as(a, b, &(struct ways){ .timeout_code = 18, .reads_in = 1 });
}

static void ends_close(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
}

TEST(test_near_direct_writes_and_reads_are_counted_by_both_ends)
{
	struct weft_traffic before, after;
	struct weft_roce_counts n;
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = target_of(&b.node);
	MUST(weft_qp_traffic(b.node.qp, &before));
	memset(a.node.memory, 7, BYTES);
	MUST_EQ(ask(&a.node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	REQUIRE(memcmp(b.node.memory + TARGET, a.node.memory, BYTES) == 0);
	memset(b.node.memory + TARGET, 9, BYTES);
	MUST_EQ(ask(&a.node, WEFT_OP_READ, &to).status, WEFT_SUCCESS);
	REQUIRE(memcmp(b.node.memory + TARGET, a.node.memory, BYTES) == 0);
	MUST(weft_qp_traffic(b.node.qp, &after));
	EXPECT_EQ(after.messages_in - before.messages_in, 2);
	EXPECT_EQ(after.messages_out - before.messages_out, 1);
	EXPECT_EQ(after.payload_in - before.payload_in, BYTES);
	EXPECT_EQ(after.payload_out - before.payload_out, BYTES);
	EXPECT_EQ(after.frames_in - before.frames_in, 0);
	n = counts_of(&a);
	EXPECT_EQ(n.direct, 3);
	EXPECT_EQ(n.messages_out, 4);
	EXPECT_EQ(n.payload_in, BYTES);
	n = counts_of(&b);
	EXPECT_EQ(n.direct, 3);
	EXPECT_EQ(n.payload_in, 3 * BYTES);
	ends_close(&a, &b);
}

/* ---- Reads of many packets ------------------------------------------------------------------ */

enum { LONG_BYTES = 1024 * 1024, LONG_MEMORY = LONG_BYTES + 64 };

/* Memory of both ends for a Read that is a byte too long. */
static void long_ends_open(struct end *a, struct end *b)
{
	a->adapter = roce_adapter_open();
	node_open_sized(a->adapter, &a->node, LONG_MEMORY);
	b->adapter = roce_adapter_open();
	node_open_sized(b->adapter, &b->node, LONG_MEMORY);
	roce_start_both(a->node.qp, b->node.qp);
	for (uint32_t i = 0; i <= LONG_BYTES; i++)
		b->node.memory[i] = (uint8_t)(i * 7 + i / 251);
}

/* True: without packets. */
static bool long_ask(struct end *a, const struct end *b, enum weft_opcode opcode, uint32_t length)
{
	const struct weft_sge s = node_seg(&a->node, 0, length);
	struct weft_send_wr wr = node_wr(opcode, 1, &s, &b->node);
	uint64_t before = counts_of(a).direct;

	REQUIRE(node_post(&a->node, &wr));
	MUST_EQ(node_next(a->node.cq).status, WEFT_SUCCESS);
	return counts_of(a).direct == before + 1;
}

TEST(test_near_direct_read_of_many_packets)
{
	struct weft_roce_counts before, after;
	struct end a, b;

	DIRECT_OR_SKIP();
	long_ends_open(&a, &b);
	REQUIRE(!long_ask(&a, &b, WEFT_OP_READ, 8)); /* the first goes by packets */
	before = counts_of(&b);
	EXPECT(long_ask(&a, &b, WEFT_OP_READ, 200 * 1000));
	EXPECT_MEM(a.node.memory, b.node.memory, 200 * 1000);
	EXPECT(long_ask(&a, &b, WEFT_OP_READ, LONG_BYTES));
	EXPECT_MEM(a.node.memory, b.node.memory, LONG_BYTES);
	after = counts_of(&b);
	EXPECT_EQ(after.direct - before.direct, 2);
	EXPECT_EQ(after.messages_out - before.messages_out, 2);
	EXPECT_EQ(after.payload_out - before.payload_out, 200 * 1000 + LONG_BYTES);
	/* Longer ones, and Writes, would keep the adapter from all else. */
	EXPECT(!long_ask(&a, &b, WEFT_OP_READ, LONG_BYTES + 1));
	EXPECT_MEM(a.node.memory, b.node.memory, LONG_BYTES + 1);
	EXPECT(!long_ask(&a, &b, WEFT_OP_WRITE, 200 * 1000));
	ends_close(&a, &b);
}

/* Each part straight to its place, and counted once. */
TEST(test_near_direct_read_into_a_list)
{
	enum { PARTS = 4, PART = 10007 };
	struct weft_sge list[PARTS];
	struct weft_roce_counts before, after;
	struct weft_send_wr wr;
	struct end a, b;

	DIRECT_OR_SKIP();
	long_ends_open(&a, &b);
	REQUIRE(!long_ask(&a, &b, WEFT_OP_READ, 8));
	before = counts_of(&b);
	for (uint32_t i = 0; i < PARTS; i++) /* the first part last in memory */
		list[i] = node_seg(&a.node, (PARTS - 1 - i) * 2 * PART, PART);
	wr = node_wr(WEFT_OP_READ, 1, list, &b.node);
	wr.sge_count = PARTS;
	REQUIRE(node_post(&a.node, &wr));
	MUST_EQ(node_next(a.node.cq).status, WEFT_SUCCESS);
	after = counts_of(&b);
	EXPECT_EQ(after.direct - before.direct, 1);
	EXPECT_EQ(after.payload_out - before.payload_out, PARTS * PART);
	for (uint32_t i = 0; i < PARTS; i++)
		EXPECT_MEM(a.node.memory + (PARTS - 1 - i) * 2 * PART, b.node.memory + i * PART,
			   PART);
	ends_close(&a, &b);
}

/* The last part is beyond the region: the packets refuse all of it. */
TEST(test_near_direct_read_of_many_packets_is_checked_to_its_end)
{
	struct weft_completion c;
	struct weft_send_wr wr;
	struct weft_sge s;
	struct end a, b;

	DIRECT_OR_SKIP();
	long_ends_open(&a, &b);
	REQUIRE(!long_ask(&a, &b, WEFT_OP_READ, 8));
	s = node_seg(&a.node, 0, 200 * 1000);
	wr = node_wr(WEFT_OP_READ, 1, &s, &b.node);
	wr.remote_addr += LONG_BYTES - 100 * 1000;
	REQUIRE(node_post(&a.node, &wr));
	c = node_next(a.node.cq);
	EXPECT_EQ(c.status, WEFT_ERR_REMOTE_ACCESS);
	EXPECT_EQ(counts_of(&a).direct, 0);
	EXPECT_EQ(counts_of(&b).direct, 0);
	ends_close(&a, &b);
}

/* Requests that are posted without a poll go direct as well, if they are so long. */
TEST(test_near_direct_reads_of_many_packets_need_no_polls)
{
	enum { READS = 16, BYTES_EACH = 64 * 1024 };
	struct end a, b;

	DIRECT_OR_SKIP();
	long_ends_open(&a, &b);
	REQUIRE(!long_ask(&a, &b, WEFT_OP_READ, 8));
	for (int i = 0; i < READS; i++) {
		const struct weft_sge s = node_seg(&a.node, 0, BYTES_EACH);
		struct weft_send_wr wr = node_wr(WEFT_OP_READ, 1, &s, &b.node);

		REQUIRE(node_post(&a.node, &wr));
	}
	for (int i = 0; i < READS; i++)
		MUST_EQ(node_next(a.node.cq).status, WEFT_SUCCESS);
	EXPECT_EQ(counts_of(&a).direct, READS);
	ends_close(&a, &b);
}

/* It waits for the Write before it, of which it must read the bytes. */
TEST(test_near_direct_read_of_many_packets_waits_for_what_is_in_flight)
{
	enum { ROUNDS_HERE = 8 };
	struct weft_send_wr wrs[2];
	struct weft_sge sges[2];
	struct end a, b;

	DIRECT_OR_SKIP();
	long_ends_open(&a, &b);
	REQUIRE(!long_ask(&a, &b, WEFT_OP_READ, 8));
	sges[0] = node_seg(&a.node, 0, 200 * 1000);
	sges[1] = node_seg(&a.node, 500 * 1000, 200 * 1000);
	for (int i = 0; i < ROUNDS_HERE; i++) {
		memset(a.node.memory, i + 1, 200 * 1000);
		wrs[0] = node_wr(WEFT_OP_WRITE, 1, &sges[0], &b.node);
		wrs[1] = node_wr(WEFT_OP_READ, 2, &sges[1], &b.node);
		MUST(weft_qp_post_send(a.node.qp, wrs, 2, NULL));
		for (uint64_t id = 1; id <= 2; id++) {
			struct weft_completion c = node_next(a.node.cq);

			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(c.id, id);
		}
		EXPECT_MEM(a.node.memory + 500 * 1000, a.node.memory, 200 * 1000);
	}
	EXPECT_EQ(counts_of(&a).direct, ROUNDS_HERE);
	ends_close(&a, &b);
}

/* ---- A target that does not run ------------------------------------------------------------- */

struct stopped {
	pid_t pid;
	int to[2], from[2];
	struct card card;
};

/* Connects to the peer of the card that it reads; at last writes what it finds in its memory. */
static _Noreturn void target_run(const struct stopped *t)
{
	struct card peer, own;
	struct weft_roce_attr way;
	struct weft_traffic traffic;
	struct end e;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_open(&e, roce_adapter_open());
	own = target_of(&e.node);
	REQUIRE(write(t->from[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->to[0], &peer, sizeof(peer)) == sizeof(peer));
	way = roce_way(peer.number);
	roce_start(e.node.qp, &way);
	REQUIRE(write(t->from[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->to[0], &peer, sizeof(peer)) == sizeof(peer));
	MUST(weft_qp_traffic(e.node.qp, &traffic)); /* after its thread, which placed the first */
	REQUIRE(write(t->from[1], e.node.memory + TARGET, BYTES) == BYTES);
	_exit(0);
}

/* Stops it when the first Write, by packets, has arrived. */
static void target_start(struct stopped *t, struct end *peer)
{
	struct card own;
	struct weft_roce_attr way;

	REQUIRE(pipe(t->to) == 0 && pipe(t->from) == 0);
	t->pid = fork();
	REQUIRE(t->pid >= 0);
	if (t->pid == 0)
		target_run(t);
	end_open(peer, roce_adapter_open());
	own = card_of(&peer->node);
	REQUIRE(read(t->from[0], &t->card, sizeof(t->card)) == sizeof(t->card));
	way = roce_way(t->card.number);
	roce_start(peer->node.qp, &way);
	REQUIRE(write(t->to[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->from[0], &t->card, sizeof(t->card)) == sizeof(t->card));
	MUST_EQ(ask(&peer->node, WEFT_OP_WRITE, &t->card).status, WEFT_SUCCESS);
	REQUIRE(kill(t->pid, SIGSTOP) == 0);
	REQUIRE(waitpid(t->pid, NULL, WUNTRACED) == t->pid);
}

static void target_resume(struct stopped *t, uint8_t memory[BYTES])
{
	REQUIRE(kill(t->pid, SIGCONT) == 0);
	REQUIRE(write(t->to[1], &t->card, sizeof(t->card)) == sizeof(t->card));
	REQUIRE(read(t->from[0], memory, BYTES) == BYTES);
	REQUIRE(waitpid(t->pid, NULL, 0) == t->pid);
	for (int i = 0; i < 2; i++) {
		close(t->to[i]);
		close(t->from[i]);
	}
}

TEST(test_near_direct_needs_no_thread_of_the_target)
{
	uint8_t written[BYTES], found[BYTES];
	struct stopped target;
	struct end e;

	DIRECT_OR_SKIP();
	target_start(&target, &e);
	for (int i = 0; i < BYTES; i++)
		e.node.memory[i] = written[i] = (uint8_t)(3 * i + 1);
	MUST_EQ(ask(&e.node, WEFT_OP_WRITE, &target.card).status, WEFT_SUCCESS);
	memset(e.node.memory, 0, BYTES);
	MUST_EQ(ask(&e.node, WEFT_OP_READ, &target.card).status, WEFT_SUCCESS);
	REQUIRE(memcmp(e.node.memory, written, BYTES) == 0);
	target_resume(&target, found);
	REQUIRE(memcmp(found, written, BYTES) == 0);
	end_close(&e);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void expect_refused(struct end *a, enum weft_opcode opcode, const struct card *to)
{
	MUST_EQ(ask(&a->node, opcode, to).status, WEFT_ERR_REMOTE_ACCESS);
	MUST_EQ(counts_of(a).direct, 1);
}

TEST(test_near_direct_access_to_a_region_that_ended_is_refused)
{
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = target_of(&b.node);
	MUST(weft_region_deregister(b.node.pd, b.node.tag));
	memset(b.node.memory + TARGET, 5, BYTES);
	expect_refused(&a, WEFT_OP_WRITE, &to);
	REQUIRE(b.node.memory[TARGET] == 5);
	MUST(weft_region_register(b.node.pd,
				  &(struct weft_region_options){ .addr = (uintptr_t)b.node.memory,
								 .length = NODE_BYTES },
				  &b.node.tag));
	ends_close(&a, &b);
}

TEST(test_near_direct_access_beyond_a_region_is_refused)
{
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = card_of(&b.node);
	to.addr += NODE_BYTES - BYTES + 1;
	expect_refused(&a, WEFT_OP_READ, &to);
	ends_close(&a, &b);
}

TEST(test_near_direct_access_without_a_right_of_the_queue_pair_is_refused)
{
	const struct weft_qp_attr attr = { .remote_rights = WEFT_REMOTE_READ };
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = target_of(&b.node);
	MUST(weft_qp_modify(b.node.qp, &attr, WEFT_QP_REMOTE_RIGHTS));
	expect_refused(&a, WEFT_OP_WRITE, &to);
	ends_close(&a, &b);
}

TEST(test_near_direct_access_without_a_right_of_the_region_is_refused)
{
	struct weft_region_options o = { .length = BYTES, .rights = WEFT_REMOTE_READ };
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = target_of(&b.node);
	o.addr = to.addr;
	MUST(weft_region_register(b.node.pd, &o, &to.tag));
	expect_refused(&a, WEFT_OP_WRITE, &to);
	MUST(weft_region_deregister(b.node.pd, to.tag));
	ends_close(&a, &b);
}

TEST(test_near_direct_access_of_another_domain_is_refused)
{
	struct weft_region_options o = { .length = BYTES,
					 .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE };
	struct weft_pd *other;
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = target_of(&b.node);
	o.addr = to.addr;
	MUST(weft_pd_create(b.adapter, NULL, &other));
	MUST(weft_region_register(other, &o, &to.tag));
	expect_refused(&a, WEFT_OP_WRITE, &to);
	MUST(weft_region_deregister(other, to.tag));
	MUST(weft_pd_destroy(other));
	ends_close(&a, &b);
}

/* As packets would be, which have other PSNs. */
TEST(test_near_direct_access_to_a_connection_made_anew_is_refused)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct weft_roce_attr way;
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open_as(&a, &b, &(struct ways){ .timeout_code = 10, .reads_in = 1 });
	to = target_of(&b.node);
	MUST(weft_qp_modify(b.node.qp, &reset, WEFT_QP_STATE));
	way = roce_way(weft_qp_number(a.node.qp));
	way.psn_recv = way.psn_send = 0x800000;
	roce_start(b.node.qp, &way);
	memset(a.node.memory, 1, BYTES);
	memset(b.node.memory + TARGET, 5, BYTES);
	REQUIRE(ask(&a.node, WEFT_OP_WRITE, &to).status != WEFT_SUCCESS);
	MUST_EQ(counts_of(&a).direct, 1);
	REQUIRE(b.node.memory[TARGET] == 5);
	ends_close(&a, &b);
}

TEST(test_near_direct_read_by_a_peer_that_may_send_none_is_refused)
{
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open_as(&a, &b, &(struct ways){ .timeout_code = 18, .reads_in = 0 });
	to = target_of(&b.node);
	MUST_EQ(ask(&a.node, WEFT_OP_READ, &to).status, WEFT_ERR_REMOTE_REQUEST);
	MUST_EQ(counts_of(&a).direct, 1);
	ends_close(&a, &b);
}

/* TOUCH-10: the Read ends the region when the next request comes, which the target must see. */
TEST(test_near_touch_10_a_request_after_a_read_of_a_one_touch_region_is_a_packet)
{
	struct weft_region_options o = { .length = BYTES,
					 .rights = WEFT_LOCAL_READ | WEFT_REMOTE_READ,
					 .is_one_touch = true };
	struct end a, b;
	struct card to, once;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	once = to = target_of(&b.node);
	o.addr = to.addr;
	MUST(weft_region_register(b.node.pd, &o, &once.tag));
	MUST_EQ(ask(&a.node, WEFT_OP_READ, &once).status, WEFT_SUCCESS);
	MUST_EQ(ask(&a.node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	MUST_EQ(counts_of(&a).direct, 1);
	MUST_EQ(ask(&a.node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	MUST_EQ(counts_of(&a).direct, 2);
	MUST_EQ(ask(&a.node, WEFT_OP_READ, &once).status, WEFT_ERR_REMOTE_ACCESS);
	MUST(weft_region_deregister(b.node.pd, once.tag));
	ends_close(&a, &b);
}

/* ---- Memory that changes -------------------------------------------------------------------- */

/* A page of its own, registered. */
static struct card page_open(const struct end *e)
{
	struct weft_region_options o = { .length = (uint64_t)sysconf(_SC_PAGESIZE),
					 .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE };
	void *at = mmap(NULL, o.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct card card;

	REQUIRE(at != MAP_FAILED);
	o.addr = (uintptr_t)at;
	MUST(weft_region_register(e->node.pd, &o, &card.tag));
	card.addr = o.addr;
	return card;
}

static void page_close(const struct end *e, const struct card *card)
{
	MUST(weft_region_deregister(e->node.pd, card->tag));
	REQUIRE(munmap((void *)(uintptr_t)card->addr, (size_t)sysconf(_SC_PAGESIZE)) == 0);
}

TEST(test_near_direct_access_to_a_protected_page_is_refused)
{
	struct end a, b;
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	to = page_open(&b);
	REQUIRE(mprotect((void *)(uintptr_t)to.addr, 1, PROT_READ) == 0);
	expect_refused(&a, WEFT_OP_WRITE, &to);
	page_close(&b, &to);
	ends_close(&a, &b);
}

TEST(test_near_direct_access_never_reaches_what_was_mapped_later)
{
	struct notice_counts notices;
	struct end a, b;
	struct card to;
	uint8_t *at;

	DIRECT_OR_SKIP();
	ends_open(&a, &b);
	notice_query(&notices);
	if (!notices.is_on)
		SKIP("the kernel does not tell of memory that is unmapped");
	to = page_open(&b);
	at = (uint8_t *)(uintptr_t)to.addr;
	memset(a.node.memory, 7, BYTES);
	MUST_EQ(ask(&a.node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
	MUST_EQ(counts_of(&a).direct, 2);
	REQUIRE(at[0] == 7);
	REQUIRE(mmap(at, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0) == at);
	MUST_EQ(ask(&a.node, WEFT_OP_WRITE, &to).status, WEFT_ERR_REMOTE_ACCESS);
	REQUIRE(at[0] == 0);
	page_close(&b, &to);
	ends_close(&a, &b);
}

/* ---- Deregistration ------------------------------------------------------------------------- */

enum { ROUNDS = 20, WRITES_LEAST = 20, HUGE_BYTES = 1 << 21, MAPPED_BYTES = 3 * HUGE_BYTES };

struct race {
	struct end writer, owner;
	uint8_t *mapped, *second; /* the second of two huge pages in it */
	struct card to;		  /* the end of the first, and the begin of the second */
	atomic_uint writes;
};

static void race_open(struct race *r)
{
	struct weft_region_options o = { .length = BYTES,
					 .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE };
	uint8_t *first;

	ends_open(&r->writer, &r->owner);
	memset(r->writer.node.memory, 1, BYTES);
	r->mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	REQUIRE(r->mapped != MAP_FAILED);
	first = r->mapped + (-(uintptr_t)r->mapped & (HUGE_BYTES - 1));
	(void)madvise(first, 2 * HUGE_BYTES, MADV_HUGEPAGE);
	r->second = first + HUGE_BYTES;
	o.addr = r->to.addr = (uintptr_t)r->second - BYTES / 2;
	MUST(weft_region_register(r->owner.node.pd, &o, &r->to.tag));
}

static void race_close(struct race *r)
{
	ends_close(&r->writer, &r->owner);
	REQUIRE(munmap(r->mapped, MAPPED_BYTES) == 0);
}

/* Writes until it is refused. */
static void *race_write(void *argument)
{
	struct race *r = argument;
	const struct weft_sge s = node_seg(&r->writer.node, SOURCE, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, &r->writer.node);
	struct weft_completion c = { .status = WEFT_SUCCESS };

	wr.remote_addr = r->to.addr;
	wr.remote_tag = r->to.tag;
	while (c.status == WEFT_SUCCESS) {
		bool has = false;

		atomic_fetch_add(&r->writes, 1);
		HOLDS(node_post(&r->writer.node, &wr));
		while (!has)
			HOLDS(node_poll(r->writer.node.cq, &c, &has));
	}
	HOLDS(c.status == WEFT_ERR_REMOTE_ACCESS);
	return NULL;
}

/*
 * No byte of the writer arrives after deregistration. The kernel copies to the first page when it
 * has cleared the second, which takes long: the Write is under way when the region ends.
 */
static void *race_end(void *argument)
{
	struct race *r = argument;
	volatile uint8_t *at = (uint8_t *)(uintptr_t)r->to.addr;
	uint64_t until_ns;
	unsigned int before;

	while (atomic_load(&r->writes) < WRITES_LEAST)
		;
	HOLDS(madvise(r->second, HUGE_BYTES, MADV_DONTNEED) == 0);
	before = atomic_load(&r->writes);
	while (atomic_load(&r->writes) == before)
		;
	HOLDS(weft_region_deregister(r->owner.node.pd, r->to.tag) == WEFT_OK);
	*at = 0;
	until_ns = thread_now_ns() + 1000 * 1000;
	while (thread_now_ns() < until_ns)
		HOLDS(*at == 0);
	return NULL;
}

static void *race_run(void *argument)
{
	struct race *r = argument;
	pthread_t writer;

	HOLDS(pthread_create(&writer, NULL, race_write, r) == 0);
	(void)race_end(r);
	pthread_join(writer, NULL);
	return NULL;
}

TEST(test_near_deregistration_waits_for_direct_accesses)
{
	DIRECT_OR_SKIP();
	for (int i = 0; i < ROUNDS; i++) {
		struct race race = { .writes = 0 };
		void *argument = &race;

		race_open(&race);
		threads_run(race_run, &argument, 1);
		EXPECT(counts_of(&race.writer).direct > 1);
		race_close(&race);
	}
}

/* ---- What must be seen ---------------------------------------------------------------------- */

TEST(test_near_direct_access_waits_while_either_end_captures)
{
	struct end ends[2];
	struct card to;

	DIRECT_OR_SKIP();
	ends_open(&ends[0], &ends[1]);
	to = target_of(&ends[1].node);
	for (int i = 0; i < 2; i++) {
		uint64_t before = counts_of(&ends[0]).direct;

		MUST(weft_capture_start(ends[i].adapter, "/dev/null"));
		MUST_EQ(ask(&ends[0].node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
		MUST_EQ(ask(&ends[0].node, WEFT_OP_READ, &to).status, WEFT_SUCCESS);
		MUST_EQ(counts_of(&ends[0]).direct, before);
		MUST(weft_capture_stop(ends[i].adapter));
		MUST_EQ(ask(&ends[0].node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
		MUST_EQ(counts_of(&ends[0]).direct, before + 1);
	}
	ends_close(&ends[0], &ends[1]);
}

/* WEFT_NEAR=packets of either end. */
TEST(test_near_packets_alone_go_where_one_end_wants_that)
{
	for (int wanting = 0; wanting < 2; wanting++) {
		struct end ends[2];
		struct card to;

		DIRECT_OR_SKIP();
		for (int i = 0; i < 2; i++) {
			REQUIRE(setenv("WEFT_NEAR", i == wanting ? "packets" : "on", 1) == 0);
			end_open(&ends[i], roce_adapter_open());
		}
		REQUIRE(setenv("WEFT_NEAR", "on", 1) == 0);
		roce_start_both(ends[0].node.qp, ends[1].node.qp);
		to = target_of(&ends[1].node);
		for (int i = 0; i < 3; i++)
			MUST_EQ(ask(&ends[0].node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
		EXPECT_EQ(counts_of(&ends[0]).direct, 0);
		EXPECT_EQ(counts_of(&ends[0]).near_out, counts_of(&ends[0]).packets_out);
		ends_close(&ends[0], &ends[1]);
	}
}

/* WEFT_FAULTS of either end: what goes without packets is not counted for disconnect_after. */
TEST(test_near_packets_alone_go_where_one_end_cuts_connections)
{
	for (int cutting = 0; cutting < 2; cutting++) {
		struct end ends[2];
		struct card to;

		DIRECT_OR_SKIP();
		for (int i = 0; i < 2; i++) {
			if (i == cutting)
				REQUIRE(setenv("WEFT_FAULTS", "disconnect_after=1GB", 1) == 0);
			end_open(&ends[i], roce_adapter_open());
			REQUIRE(unsetenv("WEFT_FAULTS") == 0);
		}
		roce_start_both(ends[0].node.qp, ends[1].node.qp);
		to = target_of(&ends[1].node);
		for (int i = 0; i < 3; i++)
			MUST_EQ(ask(&ends[0].node, WEFT_OP_WRITE, &to).status, WEFT_SUCCESS);
		EXPECT_EQ(counts_of(&ends[0]).direct, 0);
		ends_close(&ends[0], &ends[1]);
	}
}
