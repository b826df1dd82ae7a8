/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/near_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "near/record.h"

enum {
	MESSAGES_MAX = 16,  /* that a link holds */
	SUMS_MAX = 1 << 11, /* more than the records of a ring */
	US = 1000,
	MS = 1000 * US
};

/* As the driver waits. */
static const uint64_t access_wait_ns = UINT64_C(5) * 1000 * MS;

/* One end of a connection. */
struct near_link {
	struct near_process *process;
	struct near_link *other; /* NULL: it is closed, or its process has died */
	struct list listed;	 /* of the process */
	struct near_message messages[MESSAGES_MAX];
	uint32_t put, taken;
	bool has_told; /* NEAR_CLOSED was taken */
	void (*ready)(void *end);
	void *end;
};

/* A ring, with what was put into it: the sums of its packets. */
struct near_memory {
	struct near_process *maker, *taker;
	uint32_t bytes, put, taken;
	bool is_broken; /* on purpose */
	uint64_t sums[SUMS_MAX];
	struct ring_head head;
	uint8_t data[];
};

static bool link_has_news(const struct near_link *link)
{
	return link->taken != link->put || (!link->other && !link->has_told);
}

static struct near_link *link_next(struct near_process *p)
{
	for (struct list *at = p->links.next; at != &p->links; at = at->next) {
		struct near_link *link = CONTAINER_OF(at, struct near_link, listed);

		if (link->ready && link_has_news(link))
			return link;
	}
	return NULL;
}

/* ---- Processes ------------------------------------------------------------------------------ */

void near_process_begin(struct near_kernel *k, struct near_process *p, void (*run)(void *owner))
{
	CHECK(k->process_count + 1 < NEAR_PROCESSES_MAX);
	p->kernel = k;
	p->pid = ++k->process_count;
	k->processes[p->pid] = p;
	list_init(&p->links);
	list_init(&p->waiting);
	p->fiber = fiber_create(run, p->owner);
	CHECK(p->fiber);
	world_alarm_set(k->world, &p->alarm, k->world->now_ns);
}

static void links_cut(struct list *links)
{
	for (struct list *at = links->next; at != links; at = at->next) {
		struct near_link *link = CONTAINER_OF(at, struct near_link, listed);

		if (link->other) {
			link->other->other = NULL;
			near_wake(link->other->process);
		}
		link->other = NULL;
	}
}

/* As the kernel does when it ends a process: its connections close, and nothing else happens. */
static void die(struct near_process *p)
{
	p->is_dead = true;
	p->kernel->deaths++;
	links_cut(&p->links);
	links_cut(&p->waiting);
	p->kernel->died(p);
}

void near_process_end(struct near_process *p)
{
	while (!list_is_empty(&p->waiting))
		free(CONTAINER_OF(list_pop(&p->waiting), struct near_link, listed));
	while (!list_is_empty(&p->links))
		free(CONTAINER_OF(list_pop(&p->links), struct near_link, listed));
	world_alarm_cancel(p->kernel->world, &p->alarm);
	fiber_destroy(p->fiber);
	p->fiber = NULL;
}

/* Boards stay until all processes have ended: others have mapped them. */
void near_kernel_fini(struct near_kernel *k)
{
	for (uint32_t i = 1; i <= k->process_count; i++) {
		free(k->processes[i]->board);
		free(k->processes[i]->marks);
	}
	for (uint32_t i = 0; i < k->ring_count; i++)
		free(k->rings[i]);
}

void near_process_resume(struct near_process *p)
{
	if (p->is_dead)
		return;
	p->is_asleep = false;
	p->is_running = true;
	if (!fiber_resume(p->fiber))
		die(p);
	p->is_running = false;
}

/* Most interruptions are short; some are those of a process that is stopped. */
static uint64_t draw_pause(struct near_kernel *k)
{
	if (prng_chance(&k->prng, k->options.stop_ppm))
		return sim_draw(&k->prng, 1, ANY_OF(&k->prng, 5 * MS, 50 * MS, 150 * MS));
	return sim_draw(&k->prng, 0, ANY_OF(&k->prng, 0, 100, 2 * US, 50 * US));
}

/* What a process could write that breaks the rules of a ring. */
static void break_ring(struct near_process *p)
{
	struct near_kernel *k = p->kernel;
	const uint64_t far = UINT64_C(1) << 40;
	uint32_t garbage = UINT32_MAX;

	k->breaks++;
	for (uint32_t i = 0; i < k->ring_count; i++) {
		struct near_memory *m = k->rings[i];
		uint64_t put = atomic_load(&m->head.put), taken = atomic_load(&m->head.taken);

		m->is_broken |= m->taker == p || m->maker == p;
		if (m->taker == p)
			atomic_store(&m->head.taken, put + far);
		else if (m->maker == p && put > taken && prng_below(&k->prng, 2))
			memcpy(m->data + taken % m->bytes, &garbage, sizeof(garbage));
		else if (m->maker == p)
			atomic_store(&m->head.put, taken + far);
	}
	k->broke(p);
}

/* Where the process may be killed, or break a rule: at every step of it. */
static void meet_fate(struct near_process *p)
{
	p->yields++;
	if (p->masks > 0)
		return;
	if (p->yields >= p->breaks_at) {
		p->breaks_at = UINT64_MAX;
		break_ring(p);
	}
	if (p->yields >= p->dies_at || p->accessing >= p->dies_accessing_at) {
		die(p);
		fiber_yield(p->fiber); /* for ever */
	}
}

void near_pause(struct near_process *p, uint64_t pause_ns)
{
	world_alarm_set(p->kernel->world, &p->alarm, p->kernel->world->now_ns + pause_ns);
	fiber_yield(p->fiber);
}

void near_yield(struct near_process *p)
{
	struct near_kernel *k = p->kernel;

	if (!p->is_running)
		return;
	meet_fate(p);
	if (prng_chance(&k->prng, k->options.switch_ppm))
		near_pause(p, draw_pause(k));
}

/* Not with messages or packets that came just before. */
void near_sleep(struct near_process *p, uint64_t until_ns)
{
	if (p->is_poked || p->has_packets || !list_is_empty(&p->waiting) || link_next(p)) {
		p->is_poked = false;
		return;
	}
	p->is_asleep = true;
	if (until_ns == UINT64_MAX)
		world_alarm_cancel(p->kernel->world, &p->alarm);
	else
		world_alarm_set(p->kernel->world, &p->alarm, until_ns);
	fiber_yield(p->fiber);
}

void near_wake(struct near_process *p)
{
	struct near_kernel *k = p->kernel;

	if (p->is_dead || !p->is_asleep)
		return;
	p->is_asleep = false;
	world_alarm_set(k->world, &p->alarm, k->world->now_ns + draw_pause(k));
}

void near_poke(struct near_process *p)
{
	p->is_poked = !p->is_asleep;
	near_wake(p);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static struct near_link *link_open(struct near_process *p)
{
	struct near_link *link = calloc(1, sizeof(*link));

	CHECK(link);
	link->process = p;
	return link;
}

/* NULL: none of that slot listens. */
static struct near_process *listener_of(struct near_kernel *k, uint8_t adapter_slot)
{
	for (uint32_t i = 1; i <= k->process_count; i++) {
		struct near_process *p = k->processes[i];

		if (!p->is_dead && p->near && p->node + 1 == adapter_slot)
			return p;
	}
	return NULL;
}

static struct near_link *link_connect(void *owner, uint8_t adapter_slot)
{
	struct near_process *p = owner, *to;
	struct near_link *link, *other;

	near_yield(p);
	to = listener_of(p->kernel, adapter_slot);
	if (!to)
		return NULL;
	link = link_open(p);
	other = link_open(to);
	link->other = other;
	other->other = link;
	list_add_tail(&p->links, &link->listed);
	list_add_tail(&to->waiting, &other->listed);
	near_wake(to);
	return link;
}

static void link_watch(struct near_link *link, void (*ready)(void *end), void *end)
{
	link->ready = ready;
	link->end = end;
}

static bool link_send(struct near_link *link, const struct near_message *m)
{
	struct near_link *to;

	near_yield(link->process);
	to = link->other;
	if (!to || to->put - to->taken == MESSAGES_MAX)
		return false;
	link->process->kernel->wakes += m->kind == NEAR_WAKE;
	to->messages[to->put++ % MESSAGES_MAX] = *m;
	near_wake(to->process);
	return true;
}

static void link_take(struct near_link *link, struct near_message *m)
{
	near_yield(link->process);
	*m = (struct near_message){ .kind = NEAR_NONE, .descriptors = { -1, -1 } };
	if (link->taken != link->put) {
		*m = link->messages[link->taken++ % MESSAGES_MAX];
	} else if (!link->other) {
		m->kind = NEAR_CLOSED;
		link->has_told = true;
	}
}

static void message_done(const struct near_message *m)
{
	(void)m;
}

static void link_name(struct near_link *link, uint8_t adapter_slot)
{
	(void)link;
	(void)adapter_slot;
}

static bool link_has_ended(const struct near_link *link)
{
	return !link->other;
}

static void link_close(struct near_link *link)
{
	near_yield(link->process);
	if (link->other) {
		link->other->other = NULL;
		near_wake(link->other->process);
	}
	list_remove(&link->listed);
	free(link);
}

/* A process that connected was killed before it could offer a ring. */
static void accept_stray(struct near_process *p)
{
	struct near_link *link = link_open(p);

	list_add_tail(&p->links, &link->listed);
	near_accept(p->near, link);
}

void near_poll_links(struct near_process *p)
{
	struct near_kernel *k = p->kernel;
	struct near_link *link;

	if (!list_is_empty(&p->waiting) && prng_chance(&k->prng, k->options.refuse_ppm))
		accept_stray(p);
	while (!list_is_empty(&p->waiting)) {
		link = CONTAINER_OF(list_pop(&p->waiting), struct near_link, listed);
		list_add_tail(&p->links, &link->listed);
		if (prng_chance(&k->prng, k->options.refuse_ppm)) {
			k->refusals++;
			near_refuse(p->near, link, false);
		} else {
			near_accept(p->near, link);
		}
	}
	/* Bound: each has fewer messages, or is closed. */
	while ((link = link_next(p)) != NULL)
		link->ready(link->end);
}

/* ---- Rings ---------------------------------------------------------------------------------- */

/* Rules that hold for a moment only are tried by making it long. */
static void linger(struct near_process *p)
{
	near_yield(p);
	if (p->is_running && prng_below(&p->kernel->prng, 4) == 0)
		near_pause(p, sim_draw(&p->kernel->prng, 1, 300 * US));
}

/* A sender looks what was taken only if its ring seems full. */
static void ring_step(const struct ring *r, enum ring_point point)
{
	if (point == RING_TAKEN_READ)
		linger(r->owner);
	else
		near_yield(r->owner);
}

static void map(struct near_process *p, struct ring *r, struct near_memory *m)
{
	*r = (struct ring){
		.head = &m->head, .data = m->data, .bytes = m->bytes, .hook = ring_step, .owner = p
	};
}

/*
 * The second copy of the data is no copy here: both ends reach a record by the same address, so
 * they do not notice.
 */
static int ring_make(void *owner, struct ring *r, uint32_t bytes)
{
	struct near_process *p = owner;
	struct near_kernel *k = p->kernel;
	struct near_memory *m;

	if (bytes > k->options.ring_bytes)
		bytes = k->options.ring_bytes;
	if (k->ring_count == NEAR_RINGS_MAX)
		return -EMFILE;
	m = aligned_alloc(_Alignof(struct near_memory), sizeof(*m) + 2 * (size_t)bytes);
	CHECK(m);
	memset(m, 0, sizeof(*m) + 2 * (size_t)bytes);
	m->bytes = bytes;
	m->maker = p;
	k->rings[k->ring_count] = m;
	map(p, r, m);
	return (int)k->ring_count++;
}

static int ring_map(void *owner, struct ring *r, int descriptor)
{
	struct near_process *p = owner;

	if (prng_chance(&p->kernel->prng, p->kernel->options.refuse_ppm)) {
		p->kernel->refusals++;
		return -ENOMEM;
	}
	p->kernel->rings[descriptor]->taker = p;
	map(p, r, p->kernel->rings[descriptor]);
	return 0;
}

static struct near_memory *memory_at(struct near_kernel *k, const uint8_t *at)
{
	for (uint32_t i = 0; i < k->ring_count; i++) {
		struct near_memory *m = k->rings[i];

		if (at >= m->data && at < m->data + 2 * (size_t)m->bytes)
			return m;
	}
	return NULL;
}

/* A rule may have been broken long before it is noticed: connections made since then end, too. */
static void ring_unmap(void *owner, struct ring *r)
{
	struct near_process *p = owner;
	struct near_memory *m = r->head ? memory_at(p->kernel, r->data) : NULL;

	if (m && m->is_broken && p->is_running)
		p->kernel->broke(p);
	if (m && m->taker == p)
		m->taker = NULL;
	if (m && m->maker == p)
		m->maker = NULL;
	r->head = NULL;
	r->data = NULL;
}

static uint64_t sum_of(const uint8_t *bytes, size_t length, uint16_t run)
{
	uint64_t sum = length << 16 | run;

	for (size_t i = 0; i < length; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* A packet that is lost has room in no ring. */
void near_packet_in(struct near_process *p, const struct ib_out *out)
{
	struct near_memory *m = memory_at(p->kernel, out->room);

	p->kernel->runs += out->run > 0;
	if (m && m->put - m->taken < SUMS_MAX)
		m->sums[m->put++ % SUMS_MAX] = sum_of(out->room, out->spans.length, out->run);
}

void near_packet_out(struct near_process *p, const struct ib_in *in)
{
	struct near_memory *m = memory_at(p->kernel, in->bytes);

	if (m->taken == m->put ||
	    m->sums[m->taken++ % SUMS_MAX] != sum_of(in->bytes, in->length, in->run))
		roce_fail(p->kernel->failures,
			  "node %u: a packet came out of a ring that was not put in next", p->node);
}

/* ---- Memory of processes -------------------------------------------------------------------- */

static bool show(void *owner, struct near_shown *shown, enum weft_policy policy)
{
	struct near_process *p = owner;

	p->board = calloc(1, sizeof(*p->board));
	p->marks = aligned_alloc(_Alignof(struct near_marks), sizeof(*p->marks));
	CHECK(p->board && p->marks);
	memset(p->marks, 0, sizeof(*p->marks));
	p->board->policy = policy;
	*shown = (struct near_shown){ .board = p->board,
				      .marks = p->marks,
				      .board_fd = (int)p->pid,
				      .marks_fd = (int)p->pid };
	return true;
}

static void hide(void *owner, struct near_shown *shown)
{
	(void)owner;
	*shown = (struct near_shown){ .board_fd = -1, .marks_fd = -1 };
}

static bool seen_open(struct near_link *link, const int descriptors[2], struct near_seen *seen)
{
	struct near_process *p = link->process;
	const struct near_process *target = p->kernel->processes[descriptors[0]];

	if (!p->kernel->options.can_access)
		return false;
	*seen = (struct near_seen){
		.board = target->board, .marks = target->marks, .number = descriptors[0], .owner = p
	};
	return true;
}

static void seen_close(struct near_seen *seen)
{
	*seen = (struct near_seen){ 0 };
}

/* The kernel copies page by page; other processes run meanwhile. */
static int move(const struct near_seen *seen, uint64_t addr, void *bytes, size_t length,
		bool is_write)
{
	struct near_process *p = seen->owner, *target = p->kernel->processes[seen->number];
	uint8_t *local = bytes;

	p->kernel->accesses++;
	for (size_t done = 0; done < length;) {
		uint64_t at = addr - target->memory_addr + done;
		size_t part = length - done;

		if (part > 1)
			part = 1 + prng_below(&p->kernel->prng, (uint32_t)part);
		p->accessing++;
		near_yield(p);
		if (target->is_dead)
			return ESRCH;
		if (at + part > target->memory_bytes)
			return EFAULT;
		p->kernel->accessed(target, addr + done, part);
		if (is_write)
			memcpy(target->memory + at, local + done, part);
		else
			memcpy(local + done, target->memory + at, part);
		done += part;
	}
	return 0;
}

static bool wait(void *owner, struct near_wait *wait)
{
	struct near_process *p = owner;
	const struct world *world = p->kernel->world;

	if (wait->end_ns == 0)
		wait->end_ns = world->now_ns + access_wait_ns;
	if (p->is_running) {
		meet_fate(p);
		near_pause(p, (uint64_t)++wait->rounds * US + draw_pause(p->kernel));
	}
	if (world->now_ns < wait->end_ns)
		return true;
	roce_fail(p->kernel->failures, "node %u: waited for an access that did not end", p->node);
	return false;
}

static void step(void *owner)
{
	struct near_process *p = owner;

	p->accessing++;
	linger(p);
}

const struct near_system near_simulated = {
	.connect = link_connect,
	.watch = link_watch,
	.send = link_send,
	.take = link_take,
	.done = message_done,
	.name = link_name,
	.has_ended = link_has_ended,
	.close = link_close,
	.ring_make = ring_make,
	.ring_map = ring_map,
	.ring_unmap = ring_unmap,
	.show = show,
	.hide = hide,
	.seen_open = seen_open,
	.seen_close = seen_close,
	.move = move,
	.wait = wait,
	.step = step,
};

/* ---- Judges --------------------------------------------------------------------------------- */

static uint64_t used_of(const struct near_memory *m)
{
	return atomic_load(&m->head.put) - atomic_load(&m->head.taken);
}

bool near_kernel_is_broken(const struct near_kernel *k)
{
	for (uint32_t i = 0; i < k->ring_count; i++) {
		if (k->rings[i]->is_broken && (k->rings[i]->maker || k->rings[i]->taker))
			return true;
	}
	return false;
}

/* A counter that was broken is right again when its end has written it once more. */
bool near_kernel_is_flowing(const struct near_kernel *k)
{
	for (uint32_t i = 0; i < k->ring_count; i++) {
		const struct near_memory *m = k->rings[i];
		uint64_t used = used_of(m);

		if (m->taker && !m->taker->is_dead && used > 0 && used <= m->bytes)
			return true;
	}
	return false;
}

static bool sleeps(const struct near_process *p)
{
	return p && !p->is_dead && p->is_asleep;
}

/* Whether one of its rings has no room for its packets, or not yet a receiver. */
static bool has_full_ring(const struct near_kernel *k, const struct near_process *maker)
{
	for (uint32_t i = 0; i < k->ring_count; i++) {
		const struct near_memory *m = k->rings[i];

		if (m->maker == maker && (m->is_broken || !m->taker || m->taker->is_dead ||
					  m->taker->is_taking || used_of(m) > m->bytes / 2))
			return true;
	}
	return false;
}

void near_kernel_judge(struct near_kernel *k)
{
	for (uint32_t i = 0; i < k->ring_count; i++) {
		const struct near_memory *m = k->rings[i];

		if (!m->is_broken && sleeps(m->taker) && used_of(m) > 0 && m->maker &&
		    !m->maker->is_sending)
			roce_fail(k->failures, "node %u: sleeps, and a packet waits for it",
				  m->taker->node);
	}
	for (uint32_t i = 1; i <= k->process_count; i++) {
		const struct near_process *p = k->processes[i];

		if (sleeps(p) && near_has_blocked(p->near) && !has_full_ring(k, p))
			roce_fail(k->failures, "node %u: sleeps, and there is room for its packets",
				  p->node);
	}
}
