/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to memory of adapters that we send to, and what lets others access ours. */
#include <errno.h>

#include "base/id_table.h"
#include "near/near_parts.h"

_Static_assert((int)MEM_PEERS_MAX > (int)NEAR_SLOTS_MAX, "each adapter of a host has a mark");

static uint32_t grant_index(uint32_t qp_number)
{
	return id_slot(qp_number) % NEAR_GRANTS_MAX;
}

static void step(const struct near *n)
{
	if (n->system->step)
		n->system->step(n->options.owner);
}

/* ---- Memory of others ----------------------------------------------------------------------- */

/*
 * Whether the peer's queue pair is connected to ours, by the connection that earlier accesses
 * found, and lets its peer do this. A region that ends with its first Read ends when the target
 * receives the next request, as a packet: a Read of one that is not published may be of such.
 */
static bool is_granted(const struct near_board *b, struct ib_direct_access *a, uint32_t *pd)
{
	const struct near_grant *g = &b->grants[grant_index(a->peer_qp)];
	const uint32_t right = a->is_write ? WEFT_REMOTE_WRITE : WEFT_REMOTE_READ;
	uint32_t epoch = a->epoch;

	a->epoch = 0;
	if (atomic_load_explicit(&g->number, memory_order_acquire) != a->peer_qp ||
	    g->peer_qp != a->number || g->psn != a->psn || (epoch != 0 && epoch != g->epoch))
		return false;
	a->epoch = g->epoch;
	*pd = g->pd;
	return (g->rights & right) && (!a->is_write || a->length <= g->mtu_bytes) &&
	       (a->read_tag == 0 || mem_published_find(b->regions, weft_tag_index(a->read_tag)));
}

static void count_access(struct near_tally *t, const struct ib_direct_access *a)
{
	atomic_fetch_add_explicit(a->is_write ? &t->writes : &t->reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(a->is_write ? &t->written_bytes : &t->read_bytes, a->counted,
				  memory_order_relaxed);
}

/*
 * Where the memory is that the access may reach now. The mark is set: the target waits for it
 * before it changes anything of the board.
 */
static bool look_at_board(const struct near_board *b, struct ib_direct_access *a, uint64_t *addr)
{
	struct mem_access access = {
		.addr = a->addr,
		.length = a->length,
		.tag = a->tag,
		.qp = a->peer_qp,
		.kind = a->is_write ? MEM_REMOTE_WRITE : MEM_REMOTE_READ,
	};

	return !atomic_load(&b->is_shut) && atomic_load(&b->unmapped) == 0 &&
	       is_granted(b, a, &access.pd) &&
	       mem_published_check(b->regions, (enum weft_policy)b->policy, &access, addr) ==
		       WEFT_OK;
}

bool near_can_access(const struct near *n, uint32_t near_number)
{
	const struct near_out *o = near_out_find(n, near_number);

	return o && o->seen.board;
}

/* The fence pairs with that of await_all(), and with the stores of count_unmapped(). */
static void mark_set(atomic_uint *is_accessing)
{
	atomic_store_explicit(is_accessing, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

bool near_access(struct near *n, struct ib_direct_access *a)
{
	struct near_out *o = near_out_find(n, a->near_number);
	const struct near_seen *s = &o->seen;
	atomic_uint *is_accessing = &s->marks->peers[n->options.adapter_slot].is_accessing;
	int error = EACCES;
	uint64_t addr;

	mark_set(is_accessing);
	step(n);
	if (look_at_board(s->board, a, &addr)) {
		step(n);
		error = n->system->move(s, addr, a->bytes, a->length, a->is_write);
	}
	if (error == 0 && a->counted > 0)
		count_access(&s->marks->tallies[grant_index(a->peer_qp)], a);
	atomic_store_explicit(is_accessing, 0, memory_order_release);
	if (error == EPERM || error == ESRCH) /* it will not be allowed again */
		n->system->seen_close(&o->seen);
	return error == 0;
}

/* ---- Memory of ours ------------------------------------------------------------------------- */

/*
 * A process that is stopped within its access is not waited for without end: most are stopped
 * where the kernel returns from the access, which is over then.
 */
static void await_in(const struct near_in *i)
{
	const struct near *n = i->near;
	const atomic_uint *is_accessing = &n->shown.marks->peers[i->adapter_slot].is_accessing;
	struct near_wait wait = { 0 };

	while (atomic_load(is_accessing) && i->link && !n->system->has_ended(i->link) &&
	       n->system->wait(n->options.owner, &wait))
		;
}

static void await_all(void *owner)
{
	const struct near *n = owner;

	atomic_thread_fence(memory_order_seq_cst);
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next)
		await_in(CONTAINER_OF(at, struct near_in, listed));
	step(n);
}

void near_direct_open(struct near *n)
{
	struct mem_table *mem = n->options.mem;

	n->shown = (struct near_shown){ .board_fd = -1, .marks_fd = -1 };
	if (!mem || !n->system->show(n->options.owner, &n->shown, mem->policy))
		return;
	n->publisher = (struct mem_publisher){ .entries = n->shown.board->regions,
					       .await = await_all,
					       .owner = n };
	mem_table_publish(mem, &n->publisher);
}

void near_direct_close(struct near *n)
{
	if (!n->shown.board)
		return;
	mem_table_publish(n->options.mem, NULL);
	n->system->hide(n->options.owner, &n->shown);
}

static bool has_slot(const struct near *n, uint8_t adapter_slot)
{
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		if (CONTAINER_OF(at, struct near_in, listed)->adapter_slot == adapter_slot)
			return true;
	}
	return false;
}

/* A process that had the slot before may have died with its mark set. */
void near_in_begins(struct near_in *i)
{
	struct near *n = i->near;

	n->system->name(i->link, i->adapter_slot);
	if (n->shown.board)
		atomic_store(&n->shown.marks->peers[i->adapter_slot].is_accessing, 0);
}

/* The process may have died while it accessed memory; another one may have its slot by now. */
void near_in_ended(struct near *n, uint8_t adapter_slot)
{
	if (n->shown.board && !has_slot(n, adapter_slot))
		atomic_store(&n->shown.marks->peers[adapter_slot].is_accessing, 0);
}

static struct near_grant *grant_of(struct near *n, uint32_t number)
{
	return &n->shown.board->grants[grant_index(number)];
}

bool near_grant(struct near *n, const struct ib_direct_grant *g)
{
	struct near_grant *to;

	if (!n->shown.board)
		return false;
	to = grant_of(n, g->number);
	if (atomic_load_explicit(&to->number, memory_order_relaxed) != 0)
		return false;
	to->peer_qp = g->peer_qp;
	to->pd = g->pd;
	to->rights = g->rights;
	to->psn = g->psn;
	to->mtu_bytes = g->mtu_bytes;
	to->epoch = g->epoch;
	atomic_store_explicit(&to->number, g->number, memory_order_release);
	return true;
}

/* In a child of fork() the board is not mapped. */
void near_revoke(struct near *n, uint32_t number)
{
	if (!n->shown.board)
		return;
	atomic_store(&grant_of(n, number)->number, 0);
	await_all(n);
}

void near_collect(struct near *n, uint32_t number, struct ib_direct_tally *tally)
{
	struct near_tally *t;

	*tally = (struct ib_direct_tally){ 0 };
	if (!n->shown.board)
		return;
	t = &n->shown.marks->tallies[grant_index(number)];
	*tally = (struct ib_direct_tally){
		.writes = atomic_exchange(&t->writes, 0),
		.written_bytes = atomic_exchange(&t->written_bytes, 0),
		.reads = atomic_exchange(&t->reads, 0),
		.read_bytes = atomic_exchange(&t->read_bytes, 0),
	};
}

void near_set_packets_only(struct near *n, bool is_packets_only)
{
	if (!n->shown.board || atomic_load(&n->shown.board->is_shut) == is_packets_only)
		return;
	atomic_store(&n->shown.board->is_shut, is_packets_only);
	await_all(n);
}
