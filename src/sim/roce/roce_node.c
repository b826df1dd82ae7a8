/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/roce_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "loopback/loopback.h"

enum { TAGS_MAX = 64, CQ_ENTRIES = 4096 };

/* ---- Life ----------------------------------------------------------------------------------- */

int roce_node_init(struct roce_node *n, const struct roce_world *w, uint32_t index)
{
	return roce_node_init_large(n, w, index, ROCE_NODE_QPS);
}

int roce_node_init_large(struct roce_node *n, const struct roce_world *w, uint32_t index,
			 uint32_t qps_max)
{
	const struct adapter_config config = {
		.options = { .tags_max = TAGS_MAX, .translations_max = 64, .qps_max = qps_max },
		.secret = { prng_mix(w->seed + 1), index + 1 },
	};

	n->index = index;
	if (adapter_init(&n->adapter, &config) != WEFT_OK)
		return -1;
	/* The trace tells queue pairs of two nodes apart. */
	adapter_set_slot(&n->adapter, (uint8_t)(index + 1), 0);
	return 0;
}

static int memory_open(struct roce_node *n, struct ib_node *ib, uint32_t memory_bytes)
{
	n->ib = ib;
	n->adapter.trace = n->adapter.mem.trace = &ib->world->trace;
	n->size = memory_bytes;
	n->memory = calloc(1, memory_bytes);
	n->shadow = calloc(1, memory_bytes);
	return n->memory && n->shadow ? 0 : -1;
}

static int objects_open(struct roce_node *n)
{
	const struct weft_cq_options co = { .entries_max = CQ_ENTRIES };
	const struct weft_pd_options po = { .space = n->space };

	if (pd_create(&n->adapter, &po, &n->pd) != WEFT_OK ||
	    cq_create(&n->adapter, &co, &n->send_cq) != WEFT_OK ||
	    cq_create(&n->adapter, &co, &n->recv_cq) != WEFT_OK)
		return -1;
	return 0;
}

int roce_node_open(struct roce_node *n, struct ib_node *ib, uint32_t memory_bytes)
{
	struct weft_space_options so = { .size_bytes = memory_bytes, .mappings_max = 1 };

	if (memory_open(n, ib, memory_bytes) < 0)
		return -1;
	so.memory = n->memory;
	if (space_create(&n->adapter, &so, &n->space) != WEFT_OK ||
	    mem_space_map(n->space, roce_node_addr(n, 0), memory_bytes, 0) != WEFT_OK)
		return -1;
	return objects_open(n);
}

/* The process has its memory at the same address in every run. */
int roce_node_open_flat(struct roce_node *n, struct ib_node *ib, uint32_t memory_bytes)
{
	if (memory_open(n, ib, memory_bytes) < 0)
		return -1;
	n->adapter.process.memory = (uintptr_t)n->memory - (uintptr_t)roce_node_addr(n, 0);
	return objects_open(n);
}

void roce_node_shut(struct roce_node *n, struct roce_world *w)
{
	struct weft_usage usage;

	if (cq_destroy(n->send_cq) != WEFT_OK || cq_destroy(n->recv_cq) != WEFT_OK ||
	    pd_destroy(n->pd) != WEFT_OK || (n->space && space_destroy(n->space) != WEFT_OK))
		roce_fail(w, "node %u: a queue, its domain or its space is still in use", n->index);
	adapter_usage(&n->adapter, &usage);
	w->refused += usage.accesses_refused;
	if (usage.tags_free != TAGS_MAX || usage.translations || usage.qps || usage.pds ||
	    usage.cqs || usage.spaces)
		roce_fail(w, "node %u: %u tags and %u queue pairs are left", n->index,
			  TAGS_MAX - usage.tags_free, usage.qps);
}

void roce_node_fini(struct roce_node *n, const struct roce_world *w)
{
	if (!roce_has_failed(w))
		CHECK(adapter_fini(&n->adapter) == WEFT_OK);
	free(n->memory);
	free(n->shadow);
}

uint64_t roce_node_addr(const struct roce_node *n, uint32_t offset)
{
	return ((uint64_t)(n->index + 1) << 40) + offset;
}

uint32_t roce_node_register(struct roce_node *n, uint32_t offset, uint32_t bytes)
{
	return roce_node_register_in(n, n->pd, offset, bytes);
}

uint32_t roce_node_register_in(struct roce_node *n, struct weft_pd *pd, uint32_t offset,
			       uint32_t bytes)
{
	const struct mem_owner owner = pd_owner(pd);
	const struct weft_region_options o = {
		.addr = roce_node_addr(n, offset),
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};
	uint32_t tag;

	CHECK(offset <= n->size && bytes <= n->size - offset);
	CHECK(mem_region_register(&n->adapter.mem, &owner, &o, &tag) == WEFT_OK);
	return tag;
}

struct weft_sge roce_node_sge(const struct roce_node *n, uint32_t offset, uint32_t bytes,
			      uint32_t tag)
{
	return (struct weft_sge){ roce_node_addr(n, offset), bytes, tag };
}

struct weft_qp *roce_node_qp(struct roce_node *n, enum weft_qp_service service, uint32_t send_max,
			     uint32_t recv_max)
{
	const struct weft_qp_options o = {
		.service = service,
		.send_max = send_max,
		.recv_max = recv_max,
	};

	return roce_node_qp_of(n, &o);
}

struct weft_qp *roce_node_qp_of(struct roce_node *n, const struct weft_qp_options *options)
{
	struct weft_qp_options o = *options;
	struct weft_qp *qp;

	o.send_cq = n->send_cq;
	o.recv_cq = n->recv_cq;
	o.is_every_send_signalled = true;
	CHECK(qp_create(n->pd, &o, &loopback_transport, &qp) == WEFT_OK);
	return qp;
}

void roce_node_post_send(struct roce_world *w, struct roce_node *n, struct weft_qp *qp,
			 struct weft_send_wr *wr)
{
	enum weft_reason r = ib_node_post_send(n->ib, qp, wr);

	if (r != WEFT_OK)
		roce_fail(w, "node %u: QP %06x does not take a request: %s", n->index, qp->number,
			  weft_reason_name(r));
}

void roce_node_post_recv(struct roce_world *w, struct roce_node *n, struct weft_qp *qp,
			 const struct weft_sge *s, uint64_t id)
{
	const struct weft_recv_wr wr = { .id = id, .sges = s, .sge_count = 1 };
	enum weft_reason r = ib_node_post_recv(n->ib, qp, &wr);

	if (r != WEFT_OK)
		roce_fail(w, "node %u: QP %06x does not take a receive: %s", n->index, qp->number,
			  weft_reason_name(r));
}

bool roce_node_next(const struct roce_world *w, struct weft_cq *cq, struct weft_completion *c)
{
	uint32_t count = 0;

	return !roce_has_failed(w) && cq_poll(cq, c, 1, &count) == WEFT_OK && count > 0;
}

void roce_node_drop(struct roce_node *n, struct weft_qp *qp, uint32_t tag)
{
	if (qp) {
		qp_destroy(qp);
		ib_node_work(n->ib);
	}
	if (tag)
		CHECK(mem_region_deregister(&n->adapter.mem, n->pd->number, tag) == WEFT_OK);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static uint8_t pattern(uint32_t number, uint32_t at)
{
	return (uint8_t)prng_mix((uint64_t)number << 32 | at);
}

void roce_node_fill(struct roce_node *n, uint32_t offset, uint32_t number, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		n->memory[offset + i] = pattern(number, i);
	roce_node_accept(n, offset, bytes);
}

void roce_node_set(struct roce_node *n, uint32_t offset, uint8_t byte, uint32_t bytes)
{
	memset(n->memory + offset, byte, bytes);
	roce_node_accept(n, offset, bytes);
}

bool roce_node_holds(const struct roce_node *n, uint32_t offset, uint32_t number, uint32_t first,
		     uint32_t bytes)
{
	for (uint32_t i = first; i < bytes; i++) {
		if (n->memory[offset + i] != pattern(number, i))
			return false;
	}
	return true;
}

void roce_node_accept(struct roce_node *n, uint32_t offset, uint32_t bytes)
{
	memcpy(n->shadow + offset, n->memory + offset, bytes);
}

void roce_node_judge(struct roce_world *w, const struct roce_node *n)
{
	if (memcmp(n->memory, n->shadow, n->size) == 0)
		return;
	for (uint32_t i = 0; i < n->size; i++) {
		if (n->memory[i] != n->shadow[i])
			roce_fail(
				w,
				"node %u: byte 0x%x of its memory changed, and no request wrote it",
				n->index, i);
	}
}

/* ---- The network ---------------------------------------------------------------------------- */

struct sim_faults roce_draw_faults(struct prng *p)
{
	const uint64_t us = 1000;
	struct sim_faults f = { 0 };

	f.delay_max_ns = ANY_OF(p, 0, us, 50 * us, 300 * us);
	f.rate_bytes_per_s = ANY_OF(p, 0, 100 * 1000 * 1000, 1250 * 1000 * 1000);
	f.clog_ppm = (uint32_t)ANY_OF(p, 0, 300, 2000);
	f.clog_max_ns = ANY_OF(p, 10 * us, 5000 * us);
	f.cut_ppm = (uint32_t)ANY_OF(p, 0, 0, 300);
	f.cut_max_ns = ANY_OF(p, 100 * us, 20000 * us);
	f.loss_ppm = (uint32_t)ANY_OF(p, 0, 1000, 10000, 100000);
	f.duplicate_ppm = (uint32_t)ANY_OF(p, 0, 1000, 50000);
	f.corrupt_ppm = (uint32_t)ANY_OF(p, 0, 1000, 50000);
	f.reorder_ppm = (uint32_t)ANY_OF(p, 0, 1000, 100000);
	f.reorder_max_ns = ANY_OF(p, 10 * us, 1000 * us);
	return f;
}

uint32_t roce_draw_length(struct prng *p, uint32_t max_bytes)
{
	static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 4096, 5000 };
	const uint32_t count = sizeof(lengths) / sizeof(lengths[0]);
	uint32_t any = prng_below(p, max_bytes), pick = prng_below(p, count + 1);

	return pick < count ? lengths[pick] : any;
}

uint32_t roce_draw_psn(struct prng *p)
{
	return (uint32_t)ANY_OF(p, 0, 0xffffff, 0xffffe0, 0x7fffff);
}
