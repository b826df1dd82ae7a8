/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04 under fire: a thread unmaps, replaces, protects and truncates pages of registered memory,
 * and brings them back, while a peer accesses them at random; another one does so with the memory
 * of the peer's own requests. An access to a page that did not change meanwhile has the one right
 * completion: success, or a refusal, whose reason both sides know. What replaces a page is neither
 * read nor changed.
 *
 *	WEFT_FIRE=1000000 build/tests/gone_memory fire
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/draw.h"
#include "driver/sys/notice.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "lone_pages.h"
#include "own_network.h"

enum { FIRE_PAGES = 16, ACCESSES_DEFAULT = 10000, BYTES_MAX = 2048, NEW_BYTE = 0xc3 };

/* ---- The target ----------------------------------------------------------------------------- */

/*
 * How a page is missing. It is brought back before it goes in another way; one that was unmapped or
 * replaced is registered anew then. Replaced comes last: not every kernel tells of it.
 */
enum page_state {
	PAGE_THERE,
	PAGE_UNMAPPED,
	PAGE_PROTECTED,
	PAGE_READ_ONLY,
	PAGE_REPLACED,
	PAGE_STATES
};

/*
 * Two times the same number of changes, and an even one: the page did not change in between. The
 * file holds the first half of the pages and is cut there, now and then, for the second half.
 */
struct target {
	uint8_t *memory;
	size_t page_bytes;
	int file;
	struct weft_pd *pd;
	uint32_t states; /* that pages have: PAGE_STATES, or one less */
	uint64_t seed;
	struct fire_page {
		atomic_uint changes; /* odd: one is under way */
		_Atomic enum page_state state;
		atomic_uint tag;
	} pages[FIRE_PAGES];
	atomic_uint cut_changes;
	atomic_bool is_cut, is_over;
};

static bool page_register(struct target *t, uint32_t n)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)t->memory + n * t->page_bytes,
		.length = t->page_bytes,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC |
			  WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	};
	uint32_t tag;

	if (weft_region_register(t->pd, &o, &tag) != WEFT_OK)
		return false;
	atomic_store(&t->pages[n].tag, tag);
	return true;
}

static void target_open(struct target *t, struct weft_pd *pd, uint64_t seed)
{
	struct notice_counts notices;

	*t = (struct target){ .page_bytes = (size_t)sysconf(_SC_PAGESIZE), .pd = pd, .seed = seed };
	t->file = memfd_create("weft", 0);
	REQUIRE(t->file >= 0 && ftruncate(t->file, (off_t)(FIRE_PAGES * t->page_bytes)) == 0);
	t->memory = lone_map(FIRE_PAGES * t->page_bytes, MAP_SHARED, t->file);
	for (uint32_t n = 0; n < FIRE_PAGES; n++)
		REQUIRE(page_register(t, n));
	notice_query(&notices);
	t->states = notices.is_on && notices.unwatched == 0 ? PAGE_STATES : PAGE_REPLACED;
}

static void target_close(struct target *t)
{
	for (uint32_t n = 0; n < FIRE_PAGES; n++)
		MUST(weft_region_deregister(t->pd, t->pages[n].tag));
	munmap(t->memory, FIRE_PAGES * t->page_bytes);
	close(t->file);
}

static bool page_go(struct target *t, uint8_t *at, enum page_state to)
{
	switch (to) {
	case PAGE_UNMAPPED:
		return munmap(at, t->page_bytes) == 0;
	case PAGE_REPLACED:
		if (mmap(at, t->page_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			return false;
		memset(at, NEW_BYTE, t->page_bytes);
		return true;
	default:
		return mprotect(at, t->page_bytes, to == PAGE_PROTECTED ? PROT_NONE : PROT_READ) ==
		       0;
	}
}

static bool is_untouched(const struct target *t, const uint8_t *at)
{
	for (size_t i = 0; i < t->page_bytes; i++) {
		if (at[i] != NEW_BYTE)
			return false;
	}
	return true;
}

static bool page_come_back(struct target *t, uint32_t n, uint8_t *at, enum page_state from)
{
	if (from == PAGE_PROTECTED || from == PAGE_READ_ONLY)
		return mprotect(at, t->page_bytes, PROT_READ | PROT_WRITE) == 0;
	return (from != PAGE_REPLACED || is_untouched(t, at)) &&
	       mmap(at, t->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, t->file,
		    (off_t)(n * t->page_bytes)) == at &&
	       weft_region_deregister(t->pd, t->pages[n].tag) == WEFT_OK && page_register(t, n);
}

static bool page_move(struct target *t, uint32_t n, enum page_state to)
{
	uint8_t *at = t->memory + n * t->page_bytes;

	return to == PAGE_THERE ? page_come_back(t, n, at, t->pages[n].state) : page_go(t, at, to);
}

static bool cut_move(struct target *t, bool is_cut)
{
	size_t pages = is_cut ? FIRE_PAGES / 2 : FIRE_PAGES;

	return ftruncate(t->file, (off_t)(pages * t->page_bytes)) == 0;
}

/* Takes a page away, or brings it back; FIRE_PAGES: cuts the file, or lengthens it. */
static void change(struct target *t, struct prng *r, uint32_t n)
{
	if (n == FIRE_PAGES) {
		bool is_cut = !atomic_load(&t->is_cut);

		atomic_fetch_add(&t->cut_changes, 1);
		CHECK(cut_move(t, is_cut));
		atomic_store(&t->is_cut, is_cut);
		atomic_fetch_add(&t->cut_changes, 1);
	} else {
		bool is_here = atomic_load(&t->pages[n].state) == PAGE_THERE;
		enum page_state to = is_here ? 1 + prng_below(r, t->states - 1) : PAGE_THERE;

		atomic_fetch_add(&t->pages[n].changes, 1);
		CHECK(page_move(t, n, to));
		atomic_store(&t->pages[n].state, to);
		atomic_fetch_add(&t->pages[n].changes, 1);
	}
}

static bool is_there(struct target *t, uint32_t n)
{
	return n == FIRE_PAGES ? !atomic_load(&t->is_cut)
			       : atomic_load(&t->pages[n].state) == PAGE_THERE;
}

/* Now and then a page stays away for longer. */
static void *vandal_run(void *argument)
{
	struct target *t = argument;
	struct prng r = { .state = t->seed };

	while (!atomic_load(&t->is_over)) {
		uint32_t n = (uint32_t)prng_below(&r, FIRE_PAGES + 1);

		change(t, &r, n);
		sched_yield();
		if (!is_there(t, n) && prng_below(&r, 16) > 0)
			change(t, &r, n);
	}
	return NULL;
}

/* What an access has seen of a page: the same before and after, and how it is. */
struct sight {
	unsigned int changes, cut_changes;
	enum page_state state;
	bool is_cut;
};

static struct sight look(struct target *t, uint32_t page)
{
	struct sight s = {
		.changes = atomic_load(&t->pages[page].changes),
		.cut_changes = atomic_load(&t->cut_changes),
		.state = atomic_load(&t->pages[page].state),
		.is_cut = atomic_load(&t->is_cut),
	};

	return s;
}

static bool is_steady(const struct sight *a, const struct sight *b)
{
	return a->changes == b->changes && a->cut_changes == b->cut_changes &&
	       a->changes % 2 == 0 && a->cut_changes % 2 == 0;
}

/* ---- The peer ------------------------------------------------------------------------------- */

/* What a page is for. */
static const struct use {
	const char *name;
	enum weft_opcode opcode;
	bool is_own;   /* the page is of the side that asks */
	bool is_write; /* to the page */
} uses[] = {
	{ "Write to it", WEFT_OP_WRITE, false, true },
	{ "Read of it", WEFT_OP_READ, false, false },
	{ "atomic on it", WEFT_OP_FETCH_ADD, false, true },
	{ "Send into it", WEFT_OP_SEND, false, true },
	{ "Write from it", WEFT_OP_WRITE, true, false },
	{ "Send from it", WEFT_OP_SEND, true, false },
	{ "Read into it", WEFT_OP_READ, true, true },
	{ "atomic into it", WEFT_OP_FETCH_ADD, true, true },
};

enum { USES = sizeof(uses) / sizeof(uses[0]) };

struct fire {
	struct tcp_end near, far;
	struct target near_target, far_target;
	bool is_roce;
	uint64_t accesses;
	struct {
		uint64_t all, refused, steady_good, steady_refused;
	} counts[USES];
};

struct shot {
	const struct use *use;
	struct target *target;
	uint32_t page, length;
};

static void fire_connect(struct fire *f)
{
	if (f->is_roce)
		roce_start_both(f->near.node.qp, f->far.node.qp);
	else
		tcp_ends_connect(&f->near, &f->far, NULL);
}

/* A refusal has ended the connection: another pair of queue pairs. */
static void fire_again(struct fire *f)
{
	struct tcp_end *ends[] = { &f->near, &f->far };
	struct weft_completion c;
	bool has = true;

	for (int i = 0; i < 2; i++) {
		struct node *n = &ends[i]->node;
		const struct weft_qp_options o = { .send_cq = n->cq, .recv_cq = n->cq };

		MUST(weft_qp_destroy(n->qp));
		while (has)
			REQUIRE(node_poll(n->cq, &c, &has));
		has = true;
		MUST(weft_qp_create(n->pd, &o, &n->qp));
	}
	fire_connect(f);
}

/* Atomics change the first 8 bytes. */
static bool is_new(const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 8; i < length; i++) {
		if (bytes[i] != NEW_BYTE)
			return false;
	}
	return length > 8;
}

/* Over TCP a Write or a Send ends when it has left. */
static bool is_answered(const struct fire *f, const struct use *u)
{
	return f->is_roce || u->opcode == WEFT_OP_READ || u->opcode == WEFT_OP_FETCH_ADD;
}

/* A Read behind a request tells whether the peer has carried it out. */
static enum weft_status read_behind(struct fire *f)
{
	struct weft_sge s = node_seg(&f->near.node, NODE_BYTES - 1, 1);
	struct weft_send_wr wr = node_wr(WEFT_OP_READ, 2, &s, &f->far.node);

	REQUIRE(node_post(&f->near.node, &wr));
	return node_next(f->near.node.cq).status;
}

static struct shot shot_draw(struct fire *f, struct prng *r)
{
	const struct use *u = &uses[prng_below(r, USES)];
	bool is_atomic = u->opcode == WEFT_OP_FETCH_ADD;

	return (struct shot){
		.use = u,
		.target = u->is_own ? &f->near_target : &f->far_target,
		.page = (uint32_t)prng_below(r, FIRE_PAGES),
		.length = is_atomic ? 8 : 1 + (uint32_t)prng_below(r, BYTES_MAX),
	};
}

static enum weft_status fire_once(struct fire *f, const struct shot *shot)
{
	const struct use *u = shot->use;
	struct node *near = &f->near.node, *far = &f->far.node;
	const struct weft_sge at_page = {
		.addr = (uintptr_t)shot->target->memory + shot->page * shot->target->page_bytes,
		.length = shot->length,
		.tag = shot->target->pages[shot->page].tag,
	};
	struct weft_sge s = u->is_own ? at_page : node_seg(near, 0, shot->length);
	struct weft_sge into = u->is_own ? node_seg(far, 0, shot->length) : at_page;
	struct weft_send_wr wr = node_wr(u->opcode, 1, &s, far);
	enum weft_status status;

	wr.compare_add = 1;
	wr.remote_tag = into.tag;
	wr.remote_addr = into.addr;
	if (u->opcode == WEFT_OP_SEND)
		MUST(weft_qp_post_recv(
			far->qp, &(struct weft_recv_wr){ .sges = &into, .sge_count = 1 }, 1, NULL));
	REQUIRE(node_post(near, &wr));
	status = node_next(near->cq).status;
	if (!is_answered(f, u) && status == WEFT_SUCCESS)
		status = read_behind(f);
	if (status != WEFT_SUCCESS)
		return status;
	if (u->opcode == WEFT_OP_SEND)
		REQUIRE(node_next(far->cq).status == WEFT_SUCCESS);
	if (!u->is_write)
		REQUIRE(!is_new(u->is_own ? far->memory : near->memory, shot->length));
	return status;
}

static enum weft_reason reason_of(struct weft_qp *qp)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_qp_attr a;

	do {
		REQUIRE(thread_now_ns() < end_ns);
		MUST(weft_qp_query(qp, &a));
	} while (a.state != WEFT_QPS_ERROR);
	return a.reason;
}

/* Over TCP it depends on when the receiver finds its memory gone: before or while it places. */
static bool is_said_of_receive(const struct fire *f, enum weft_reason said)
{
	return said == WEFT_R_PEER_RECEIVE || (!f->is_roce && said == WEFT_R_PEER_TERMINATED);
}

/* Whose page it was knows that memory is gone; the other side what a NAK or a Terminate says. */
static void expect_reasons(struct fire *f, const struct use *u)
{
	enum weft_reason near = reason_of(f->near.node.qp);

	if (u->is_own) {
		MUST_EQ(near, WEFT_R_MEMORY_GONE);
		return;
	}
	MUST_EQ(reason_of(f->far.node.qp), WEFT_R_MEMORY_GONE);
	if (u->opcode == WEFT_OP_SEND)
		REQUIRE(is_said_of_receive(f, near));
	else
		MUST_EQ(near, f->is_roce ? WEFT_R_PEER_RIGHTS : WEFT_R_RANGE_BOUNDS);
}

/* The status of a request that is refused, whether or not its page changes meanwhile. */
static enum weft_status refusal(const struct fire *f, const struct use *u)
{
	if (u->is_own)
		return WEFT_ERR_LOCAL_ACCESS;
	if (!is_answered(f, u))
		return WEFT_ERR_FLUSHED;
	return u->opcode == WEFT_OP_SEND ? WEFT_ERR_REMOTE_OPERATION : WEFT_ERR_REMOTE_ACCESS;
}

/*
 * Over TCP a request is flushed if its page changes while it is under way. A Read: the sink was
 * deregistered, and the response is refused; or the source went, and a Terminate names no request.
 * A Write or Send of the page: other memory came between its CRC and the kernel's copy of it, and
 * the peer refuses the frame.
 */
static bool is_cut(struct fire *f, const struct use *u, enum weft_status status)
{
	enum weft_reason r;

	if (f->is_roce || u->opcode == WEFT_OP_FETCH_ADD || status != WEFT_ERR_FLUSHED)
		return false;
	r = reason_of(f->near.node.qp);
	if (u->opcode != WEFT_OP_READ)
		return u->is_own && r == WEFT_R_MPA_CRC;
	return u->is_own ? r == WEFT_R_TAG_INVALID || r == WEFT_R_TAG_INSTANCE
			 : r == WEFT_R_PEER_TERMINATED;
}

static void fire_run(struct fire *f)
{
	struct prng r = { .state = 11 };

	for (uint64_t i = 0; i < f->accesses; i++) {
		struct shot shot = shot_draw(f, &r);
		const struct use *u = shot.use;
		struct sight before = look(shot.target, shot.page), after;
		enum weft_status status = fire_once(f, &shot);
		bool is_good = status == WEFT_SUCCESS, can_be;

		after = look(shot.target, shot.page);
		/* What was seen first holds if nothing has changed since. */
		can_be = !(before.is_cut && shot.page >= FIRE_PAGES / 2) &&
			 (before.state == PAGE_THERE ||
			  (before.state == PAGE_READ_ONLY && !u->is_write));
		f->counts[u - uses].all++;
		if (is_steady(&before, &after)) {
			REQUIRE(is_good == can_be);
			f->counts[u - uses].steady_good += is_good;
			f->counts[u - uses].steady_refused += !is_good;
			if (!is_good)
				expect_reasons(f, u);
		}
		if (!is_good) {
			if (!is_cut(f, u, status) && status != refusal(f, u)) {
				printf("# %s: access %llu, reason %s\n", u->name,
				       (unsigned long long)i,
				       weft_reason_name(reason_of(f->near.node.qp)));
				MUST_EQ(status, refusal(f, u));
			}
			f->counts[u - uses].refused++;
			fire_again(f);
		}
	}
}

static void report(const struct fire *f)
{
	for (int i = 0; i < USES; i++) {
		printf("# %s: %llu, %llu refused; the page did not change: %llu good, %llu refused\n",
		       uses[i].name, (unsigned long long)f->counts[i].all,
		       (unsigned long long)f->counts[i].refused,
		       (unsigned long long)f->counts[i].steady_good,
		       (unsigned long long)f->counts[i].steady_refused);
		EXPECT(f->counts[i].steady_good > 0 && f->counts[i].steady_refused > 0);
	}
}

static void under_fire(bool is_roce)
{
	static struct fire f;
	const char *text = getenv("WEFT_FIRE");
	struct target *targets[] = { &f.near_target, &f.far_target };
	pthread_t vandals[2];

	f = (struct fire){ .is_roce = is_roce,
			   .accesses = text ? strtoull(text, NULL, 10) : ACCESSES_DEFAULT };
	tcp_end_open(&f.near);
	tcp_end_open(&f.far);
	if (is_roce) {
		tcp_end_open_roce(&f.near);
		tcp_end_open_roce(&f.far);
	}
	target_open(&f.near_target, f.near.node.pd, 5);
	target_open(&f.far_target, f.far.node.pd, 7);
	fire_connect(&f);
	for (int i = 0; i < 2; i++)
		REQUIRE(pthread_create(&vandals[i], NULL, vandal_run, targets[i]) == 0);
	fire_run(&f);
	for (int i = 0; i < 2; i++) {
		atomic_store(&targets[i]->is_over, true);
		pthread_join(vandals[i], NULL);
		target_close(targets[i]);
	}
	report(&f);
	tcp_end_close(&f.near);
	tcp_end_close(&f.far);
}

TEST(test_vmm_04_under_fire_over_tcp)
{
	under_fire(false);
}

TEST(test_vmm_04_under_fire_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	under_fire(true);
}
