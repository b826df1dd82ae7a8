/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests made of arbitrary bytes, on a connected pair of the loopback transport. Whatever is
 * posted: nothing crashes, every accepted request ends in exactly one completion, and at the end
 * nothing is left.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "loopback/loopback.h"

enum { MEMORY = 4096, TAGS = 8, STEPS_MAX = 200, SEGMENTS = 5, CQ_MAX = 4096 };

struct fuzzed_qp {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	_Alignas(8) uint8_t memory[MEMORY];
	uint32_t tags[TAGS]; /* regions and windows, live and dead */
};

struct rig {
	struct adapter adapter;
	struct fuzzed_qp ends[2];
	uint64_t now_ns;
	uint64_t posted, completed;
};

static void end_open(struct rig *rig, struct fuzzed_qp *e, enum weft_qp_service service)
{
	const struct weft_qp_attr attr = { .is_register_enabled = true, .receiver_wait_ns = 100 };
	struct weft_region_options region = { .addr = (uintptr_t)e->memory, .length = MEMORY };
	struct weft_qp_options qp = { .service = service, .sges_max = SEGMENTS - 1 };
	struct mem_owner owner;

	CHECK(pd_create(&rig->adapter, &(struct weft_pd_options){ .is_privileged = true },
			&e->pd) == WEFT_OK);
	CHECK(cq_create(&rig->adapter, &(struct weft_cq_options){ .entries_max = CQ_MAX },
			&e->cq) == WEFT_OK);
	qp.send_cq = e->cq;
	qp.recv_cq = e->cq;
	CHECK(qp_create(e->pd, &qp, &loopback_transport, &e->qp) == WEFT_OK);
	CHECK(qp_modify(e->qp, &attr, WEFT_QP_REGISTER | WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	owner = pd_owner(e->pd);
	for (uint32_t i = 0; i < TAGS / 2; i++) {
		region.rights = 0x3f >> (i & 1);
		CHECK(mem_region_register(&rig->adapter.mem, &owner, &region, &e->tags[2 * i]) ==
		      WEFT_OK);
		CHECK(mem_window_alloc(&rig->adapter.mem, e->pd->number, &e->tags[2 * i + 1]) ==
		      WEFT_OK);
	}
}

/* A tag that exists, nearly exists, or any. */
static uint32_t some_tag(struct rd *r, const struct fuzzed_qp *e)
{
	uint8_t how = rd_u8(r);

	if (how < 200)
		return e->tags[how % TAGS];
	return how < 230 ? e->tags[how % TAGS] + how : rd_u32(r);
}

static uint64_t some_addr(struct rd *r, const struct fuzzed_qp *e)
{
	uint8_t how = rd_u8(r);

	return how < 230 ? (uintptr_t)e->memory + how * 8 : rd_u64(r);
}

static uint32_t some_segments(struct rd *r, const struct fuzzed_qp *e, struct weft_sge *segments)
{
	uint32_t count = rd_u8(r) % (SEGMENTS + 1);

	for (uint32_t i = 0; i < count && i < SEGMENTS; i++) {
		segments[i].tag = some_tag(r, e);
		segments[i].addr = some_addr(r, e);
		segments[i].length = rd_u8(r) < 250 ? rd_u8(r) : rd_u32(r);
	}
	return count < SEGMENTS ? count : SEGMENTS;
}

static void post_send(struct rig *rig, struct rd *r, struct fuzzed_qp *e, struct fuzzed_qp *peer)
{
	struct weft_sge segments[SEGMENTS];
	struct weft_send_wr wr = { .id = rig->posted, .sges = segments };
	uint32_t posted;

	wr.opcode = (enum weft_opcode)(rd_u8(r) % (WEFT_OP_SEND_COUNT + 1));
	wr.flags = (rd_u8(r) & 0x17) |
		   WEFT_SIGNALLED; /* inline takes pointers, which bytes are not */
	wr.sge_count = some_segments(r, e, segments);
	wr.remote_tag = some_tag(r, peer);
	wr.remote_addr = some_addr(r, peer);
	wr.invalidate_tag = some_tag(r, wr.opcode == WEFT_OP_INVALIDATE ? e : peer);
	wr.dest_qp_number = rd_u8(r) < 200 ? peer->qp->number : rd_u32(r);
	wr.delay_ns = rd_u8(r);
	wr.bind = (struct weft_bind){
		.window_tag = some_tag(r, e),
		.region_tag = some_tag(r, e),
		.addr = some_addr(r, e),
		.length = rd_u8(r) * 16,
		.rights = rd_u8(r),
		.is_one_touch = rd_u8(r) & 1,
		.is_qp_bound = rd_u8(r) & 1,
	};
	wr.reg.region.addr = (uintptr_t)e->memory + rd_u8(r); /* what passes is touched */
	wr.reg.region.length = rd_u8(r);
	wr.reg.region.rights = rd_u8(r);
	wr.reg.region.is_one_touch = rd_u8(r) & 1;
	if (qp_post_send(e->qp, &wr, 1, &posted) != WEFT_OK)
		return;
	rig->posted++;
	if (wr.opcode == WEFT_OP_BIND)
		e->tags[rd_u8(r) % TAGS / 2 * 2 + 1] = wr.bind.tag;
}

static void post_recv(struct rig *rig, struct rd *r, struct fuzzed_qp *e)
{
	struct weft_sge segments[SEGMENTS];
	struct weft_recv_wr wr = { .id = rig->posted, .sges = segments };
	uint32_t posted;

	wr.sge_count = some_segments(r, e, segments);
	rig->posted += qp_post_recv(e->qp, &wr, 1, &posted) == WEFT_OK;
}

static void drain(struct rig *rig, struct fuzzed_qp *e)
{
	struct weft_completion c;
	uint32_t count;

	while (cq_poll(e->cq, &c, 1, &count) == WEFT_OK && count == 1) {
		CHECK((c.status == WEFT_SUCCESS) == (c.reason == WEFT_OK));
		rig->completed++;
	}
}

static void step(struct rig *rig, struct rd *r)
{
	uint8_t what = rd_u8(r);
	struct fuzzed_qp *e = &rig->ends[what & 1], *peer = &rig->ends[!(what & 1)];
	struct weft_qp_attr attr = { .state = (enum weft_qp_state)(what % 9) };

	switch (what >> 4) {
	case 0:
	case 1:
		(void)qp_modify(e->qp, &attr, WEFT_QP_STATE);
		break;
	case 2:
		rig->now_ns += what;
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		post_recv(rig, r, e);
		break;
	default:
		post_send(rig, r, e, peer);
		break;
	}
	while (adapter_progress(&rig->adapter, rig->now_ns))
		continue;
	drain(rig, e);
	drain(rig, peer);
}

static void end_close(struct rig *rig, struct fuzzed_qp *e)
{
	struct mem_table *mem = &rig->adapter.mem;

	qp_destroy(e->qp);
	while (adapter_progress(&rig->adapter, rig->now_ns))
		continue;
	drain(rig, e);
	CHECK(cq_destroy(e->cq) == WEFT_OK);
	/* Whatever tags it has, by any tag that their index may have had. */
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < mem->tags_max; i++) {
			uint32_t tag = mem_tag(i, mem->entries[i].instance);

			(void)mem_window_unbind(mem, e->pd->number, tag);
			(void)mem_window_free(mem, e->pd->number, tag);
			(void)mem_tag_release(mem, e->pd->number, tag);
			(void)mem_region_deregister(mem, e->pd->number, tag);
		}
	}
	CHECK(pd_destroy(e->pd) == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct adapter_config config = {
		.options = { .tags_max = 64,
			     .translations_max = 1024,
			     .qps_max = 2,
			     .cqs_max = 2,
			     .srqs_max = 1,
			     .pds_max = 2 },
	};
	struct rig *rig = calloc(1, sizeof(*rig));
	struct rd r = rd_of(data, size);
	enum weft_qp_service service = (enum weft_qp_service)(rd_u8(&r) % WEFT_SERVICE_COUNT);

	CHECK(rig && adapter_init(&rig->adapter, &config) == WEFT_OK);
	end_open(rig, &rig->ends[0], service);
	end_open(rig, &rig->ends[1], service);
	(void)qp_connect(rig->ends[0].qp, rig->ends[1].qp);
	for (uint32_t i = 0; i < STEPS_MAX && !r.is_short; i++)
		step(rig, &r);
	end_close(rig, &rig->ends[0]);
	end_close(rig, &rig->ends[1]);
	CHECK(rig->completed == rig->posted);
	CHECK(adapter_fini(&rig->adapter) == WEFT_OK);
	free(rig);
	return 0;
}
