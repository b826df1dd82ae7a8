/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04 under fire: a thread unmaps, protects and truncates pages of registered memory, and brings
 * them back, while a peer accesses them at random. An access to a page that did not change
 * meanwhile has the one right completion: success, or a refusal.
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
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { FIRE_PAGES = 16, ACCESSES_DEFAULT = 10000, BYTES_MAX = 2048 };

/* ---- The target ----------------------------------------------------------------------------- */

/* How a page is missing. It is brought back before it goes in another way. */
enum page_state { PAGE_THERE, PAGE_UNMAPPED, PAGE_PROTECTED, PAGE_READ_ONLY, PAGE_STATES };

/*
 * Two times the same number of changes, and an even one: the page did not change in between. The
 * file holds the first half of the pages and is cut there, now and then, for the second half.
 */
struct target {
	uint8_t *memory;
	size_t page_bytes;
	int file;
	struct {
		atomic_uint changes; /* odd: one is under way */
		_Atomic enum page_state state;
	} pages[FIRE_PAGES];
	atomic_uint cut_changes;
	atomic_bool is_cut, is_over;
};

static void target_open(struct target *t)
{
	*t = (struct target){ .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	t->file = memfd_create("weft", 0);
	REQUIRE(t->file >= 0 && ftruncate(t->file, (off_t)(FIRE_PAGES * t->page_bytes)) == 0);
	t->memory = mmap(NULL, FIRE_PAGES * t->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			 t->file, 0);
	REQUIRE(t->memory != MAP_FAILED);
}

static void target_close(struct target *t)
{
	munmap(t->memory, FIRE_PAGES * t->page_bytes);
	close(t->file);
}

static bool page_move(struct target *t, uint32_t n, enum page_state to)
{
	uint8_t *at = t->memory + n * t->page_bytes;
	int protection = to == PAGE_PROTECTED	? PROT_NONE
			 : to == PAGE_READ_ONLY ? PROT_READ
						: PROT_READ | PROT_WRITE;

	if (to == PAGE_UNMAPPED)
		return munmap(at, t->page_bytes) == 0;
	return mmap(at, t->page_bytes, protection, MAP_SHARED | MAP_FIXED, t->file,
		    (off_t)(n * t->page_bytes)) == at;
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
		enum page_state to = is_here ? 1 + prng_below(r, PAGE_STATES - 1) : PAGE_THERE;

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
	struct prng r = { .state = 7 };

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

struct fire {
	struct tcp_end near, far;
	struct target target;
	uint32_t tag;
	bool is_roce;
	uint64_t accesses, right, refused;
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

static enum weft_status fire_once(struct fire *f, struct prng *r, uint32_t page, bool *is_write)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ,
						    WEFT_OP_FETCH_ADD };
	enum weft_opcode opcode = opcodes[prng_below(r, 3)];
	uint32_t length = opcode == WEFT_OP_FETCH_ADD ? 8 : 1 + (uint32_t)prng_below(r, BYTES_MAX);
	struct weft_sge s = node_seg(&f->near.node, 0, length);
	struct weft_send_wr wr = node_wr(opcode, 1, &s, &f->far.node);
	struct weft_completion c = { 0 };
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	bool has = false;

	wr.remote_tag = f->tag;
	wr.remote_addr = (uintptr_t)f->target.memory + page * f->target.page_bytes;
	wr.compare_add = 1;
	*is_write = opcode != WEFT_OP_READ;
	REQUIRE(node_post(&f->near.node, &wr));
	while (!has) {
		REQUIRE(thread_now_ns() < end_ns);
		REQUIRE(node_poll(f->near.node.cq, &c, &has));
	}
	/* Over TCP a Write ends when it has left: a Read behind it tells how it went. */
	if (!f->is_roce && opcode == WEFT_OP_WRITE && c.status == WEFT_SUCCESS) {
		s = node_seg(&f->near.node, 0, 1);
		wr = node_wr(WEFT_OP_READ, 2, &s, &f->far.node);
		has = false;
		REQUIRE(node_post(&f->near.node, &wr));
		while (!has) {
			REQUIRE(thread_now_ns() < end_ns);
			REQUIRE(node_poll(f->near.node.cq, &c, &has));
		}
	}
	return c.status;
}

static void fire_run(struct fire *f)
{
	struct prng r = { .state = 11 };

	for (uint64_t i = 0; i < f->accesses; i++) {
		uint32_t page = (uint32_t)prng_below(&r, FIRE_PAGES);
		struct sight before = look(&f->target, page), after;
		bool is_write, can_be;
		enum weft_status status = fire_once(f, &r, page, &is_write);

		after = look(&f->target, page);
		/* What was seen first holds if nothing has changed since. */
		can_be = !(before.is_cut && page >= FIRE_PAGES / 2) &&
			 (before.state == PAGE_THERE ||
			  (before.state == PAGE_READ_ONLY && !is_write));
		if (is_steady(&before, &after)) {
			REQUIRE((status == WEFT_SUCCESS) == can_be);
			f->right++;
		}
		if (status != WEFT_SUCCESS) {
			f->refused++;
			fire_again(f);
		}
	}
}

static void under_fire(bool is_roce)
{
	static struct fire f;
	const char *text = getenv("WEFT_FIRE");
	struct weft_region_options o = { .rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE |
						   WEFT_REMOTE_ATOMIC | WEFT_LOCAL_WRITE };
	pthread_t vandal;

	f = (struct fire){ .is_roce = is_roce,
			   .accesses = text ? strtoull(text, NULL, 10) : ACCESSES_DEFAULT };
	tcp_end_open(&f.near);
	tcp_end_open(&f.far);
	if (is_roce) {
		tcp_end_open_roce(&f.near);
		tcp_end_open_roce(&f.far);
	}
	target_open(&f.target);
	o.addr = (uintptr_t)f.target.memory;
	o.length = FIRE_PAGES * f.target.page_bytes;
	MUST(weft_region_register(f.far.node.pd, &o, &f.tag));
	fire_connect(&f);
	REQUIRE(pthread_create(&vandal, NULL, vandal_run, &f.target) == 0);
	fire_run(&f);
	atomic_store(&f.target.is_over, true);
	pthread_join(vandal, NULL);
	printf("# %llu accesses, %llu refused; of %llu the page did not change meanwhile\n",
	       (unsigned long long)f.accesses, (unsigned long long)f.refused,
	       (unsigned long long)f.right);
	EXPECT(f.refused > 0 && f.refused < f.accesses && f.right > 0);
	MUST(weft_region_deregister(f.far.node.pd, f.tag));
	tcp_end_close(&f.near);
	tcp_end_close(&f.far);
	target_close(&f.target);
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
