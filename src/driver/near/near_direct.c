/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to memory of adapters that we send to, and what lets others access ours. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/id_table.h"
#include "driver/near/near_parts.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/wait.h"

_Static_assert((int)MEM_PEERS_MAX > (int)NEAR_SLOTS_MAX, "each adapter of a host has a mark");

static uint32_t grant_index(uint32_t qp_number)
{
	return id_slot(qp_number) % NEAR_GRANTS_MAX;
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

/* The mark is set: the target waits for it before it changes anything of the board. */
static int access_marked(const struct near_seen *s, struct ib_direct_access *a)
{
	struct mem_access access = {
		.addr = a->addr,
		.length = a->length,
		.tag = a->tag,
		.qp = a->peer_qp,
		.kind = a->is_write ? MEM_REMOTE_WRITE : MEM_REMOTE_READ,
	};
	const struct near_board *b = s->board;
	uint64_t addr;
	int error;

	if (atomic_load(&b->is_shut) || atomic_load(&b->unmapped) > 0 ||
	    !is_granted(b, a, &access.pd) ||
	    mem_published_check(b->regions, (enum weft_policy)b->policy, &access, &addr) != WEFT_OK)
		return EACCES;
	error = near_seen_move(s, addr, a->bytes, a->length, a->is_write);
	if (error == 0 && a->counted > 0)
		count_access(&s->marks->tallies[grant_index(a->peer_qp)], a);
	return error;
}

bool near_can_access(const struct near *n, uint32_t near_number)
{
	const struct near_out *o = near_out_find(n, near_number);

	return o && o->seen.board;
}

/* The fence pairs with that of await_all(), and with the stores of count_unmapped(). */
bool near_access(struct near *n, struct ib_direct_access *a)
{
	struct near_out *o = near_out_find(n, a->near_number);
	atomic_uint *is_accessing = &o->seen.marks->peers[n->config.adapter_slot].is_accessing;
	int error;

	atomic_store_explicit(is_accessing, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	error = access_marked(&o->seen, a);
	atomic_store_explicit(is_accessing, 0, memory_order_release);
	if (error == EPERM || error == ESRCH) /* it will not be allowed again */
		near_seen_close(&o->seen);
	return error == 0;
}

/* ---- Memory of ours ------------------------------------------------------------------------- */

/* Whether the process at the other end of a connection has ended. */
static bool has_ended(int fd)
{
	struct pollfd p = { .fd = fd };
	const struct timespec now = { 0 };

	return fd < 0 || (syscall(SYS_ppoll, &p, 1L, &now, NULL, 0L) == 1 &&
			  (p.revents & (POLLHUP | POLLERR | POLLNVAL)));
}

/* The thread that has the adapter's lock may close the connection meanwhile: it has ended then. */
static bool peer_has_ended(const struct mem_peers *peers, uint32_t index)
{
	const struct near *n = CONTAINER_OF(peers, struct near, peers);

	return index > NEAR_SLOTS_MAX || has_ended(atomic_load(&n->connections[index]) - 1);
}

/*
 * A process that is stopped within its access is not waited for without end: most are stopped
 * where the kernel returns from the access, which is over then.
 */
static void await_in(const struct near_in *i)
{
	const atomic_uint *is_accessing =
		&i->near->shown.marks->peers[i->adapter_slot].is_accessing;
	uint64_t end_ns;
	uint32_t rounds = 0;

	if (!atomic_load(is_accessing))
		return;
	end_ns = clock_ns() + access_wait_ns;
	while (atomic_load(is_accessing) && !has_ended(i->watch.fd) && clock_ns() < end_ns)
		wait_a_little(&rounds);
}

static void await_all(void *owner)
{
	const struct near *n = owner;

	atomic_thread_fence(memory_order_seq_cst);
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next)
		await_in(CONTAINER_OF(at, struct near_in, link));
}

void near_direct_open(struct near *n)
{
	if (!n->config.mem || !near_shown_open(&n->shown, n->config.mem->policy))
		return;
	n->publisher = (struct mem_publisher){ .entries = n->shown.board->regions,
					       .await = await_all,
					       .owner = n };
	n->peers = (struct mem_peers){ .unmapped = &n->shown.board->unmapped,
				       .each = n->shown.marks->peers,
				       .has_ended = peer_has_ended };
	mem_table_publish(n->config.mem, &n->publisher);
	notice_set_peers(n->config.mem->watch, &n->peers);
}

void near_direct_close(struct near *n)
{
	if (!n->shown.board)
		return;
	notice_set_peers(n->config.mem->watch, NULL);
	mem_table_publish(n->config.mem, NULL);
	near_shown_close(&n->shown);
}

void near_direct_abandon(struct near *n)
{
	if (n->shown.board)
		mem_table_publish(n->config.mem, NULL);
	near_shown_abandon(&n->shown);
}

static bool has_slot(const struct near *n, uint8_t adapter_slot)
{
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		if (CONTAINER_OF(at, struct near_in, link)->adapter_slot == adapter_slot)
			return true;
	}
	return false;
}

/* A process that had the slot before may have died with its mark set. */
void near_in_begins(struct near_in *i)
{
	struct near *n = i->near;

	atomic_store(&n->connections[i->adapter_slot], i->watch.fd + 1);
	if (n->shown.board)
		atomic_store(&n->shown.marks->peers[i->adapter_slot].is_accessing, 0);
}

/* Unless a process that has the slot now has connected. */
void near_in_ends(struct near_in *i)
{
	int connection = i->watch.fd + 1;

	(void)atomic_compare_exchange_strong(&i->near->connections[i->adapter_slot], &connection,
					     0);
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
