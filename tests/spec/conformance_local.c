/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local checks (LOC): a request or a receive with one bad data segment, at every place among good
 * ones, fails whole. Its completion names the check, and no byte has moved at either end.
 */
#include "conformance.h"

enum {
	PART = SRC + 4096, /* where a region of its own lies */
	PART_BYTES = 64,
	PIECES = 3,
	LOCAL = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	SEND_ID = 11,
	RECV_ID = 12,
};

enum flaw {
	FLAW_INVALID,  /* LOC-02a */
	FLAW_WINDOW,   /* LOC-02b */
	FLAW_PD,       /* LOC-02c */
	FLAW_INSTANCE, /* LOC-02d */
	FLAW_BEFORE,   /* LOC-02e, one byte before the region */
	FLAW_BEYOND,   /* one byte after it */
	FLAW_WRAP,     /* past the end of all addresses */
	FLAW_RIGHT,    /* LOC-02f */
	FLAW_INDEX     /* outside the table */
};

/* A segment that fails just one check, and what there is to undo. */
struct flawed {
	enum flaw flaw;
	struct weft_sge segment;
	enum weft_reason reason;
	struct weft_pd *pd; /* of FLAW_PD */
	uint32_t region;    /* or 0 */
};

static uint32_t foreign_region(struct pair_end *e, struct flawed *f)
{
	const struct weft_region_options o = {
		.addr = e->addr + PART,
		.length = PART_BYTES,
		.rights = LOCAL,
	};
	const struct weft_pd_options pd = { .space = e->space };
	uint32_t tag;

	MUST(weft_pd_create(e->adapter, &pd, &f->pd));
	MUST(weft_region_register(f->pd, &o, &tag));
	return tag;
}

static void flaw_make_entry(struct pair_end *e, struct flawed *f, enum weft_right missing)
{
	switch (f->flaw) {
	case FLAW_INVALID:
		MUST(weft_region_deregister(e->pd, f->region));
		f->region = 0;
		f->reason = WEFT_R_TAG_INVALID;
		break;
	case FLAW_WINDOW:
		f->segment.tag = end_bind(e, PART, PART_BYTES,
					  WEFT_REMOTE_READ | WEFT_REMOTE_WRITE);
		f->reason = WEFT_R_TAG_WINDOW_LOCAL;
		break;
	case FLAW_PD:
		f->segment.tag = foreign_region(e, f);
		f->reason = WEFT_R_TAG_PD;
		break;
	case FLAW_RIGHT:
		MUST(weft_region_deregister(e->pd, f->region));
		f->region = end_register(e, PART, PART_BYTES, LOCAL & ~(uint32_t)missing);
		f->segment.tag = f->region;
		f->reason = missing == WEFT_LOCAL_READ ? WEFT_R_RIGHT_LOCAL_READ
						       : WEFT_R_RIGHT_LOCAL_WRITE;
		break;
	default:
		break;
	}
}

static void flaw_make(struct pair_end *e, enum flaw flaw, enum weft_right missing, struct flawed *f)
{
	*f = (struct flawed){ .flaw = flaw };
	f->region = end_register(e, PART, PART_BYTES, LOCAL);
	f->segment = end_seg(e, PART + 8, 16);
	f->segment.tag = f->region;
	flaw_make_entry(e, f, missing);
	switch (flaw) {
	case FLAW_INSTANCE:
		f->segment.tag ^= 0x80;
		f->reason = WEFT_R_TAG_INSTANCE;
		break;
	case FLAW_BEFORE:
		f->segment.addr = e->addr + PART - 1;
		f->reason = WEFT_R_RANGE_BOUNDS;
		break;
	case FLAW_BEYOND:
		f->segment.addr = e->addr + PART + PART_BYTES - 15;
		f->reason = WEFT_R_RANGE_BOUNDS;
		break;
	case FLAW_WRAP:
		f->segment.addr = UINT64_MAX - 14;
		f->reason = WEFT_R_RANGE_WRAP;
		break;
	case FLAW_INDEX:
		f->segment.tag = 0xffffff00;
		f->reason = WEFT_R_TAG_INDEX;
		break;
	default:
		break;
	}
}

static void flaw_undo(struct pair_end *e, struct flawed *f)
{
	if (f->flaw == FLAW_WINDOW)
		end_unbind(e, f->segment.tag);
	if (f->pd) {
		MUST(weft_region_deregister(f->pd, f->segment.tag));
		MUST(weft_pd_destroy(f->pd));
	}
	if (f->region)
		MUST(weft_region_deregister(e->pd, f->region));
}

/* Three pieces from offset on, the one at `place` bad. */
static void pieces_with(const struct pair_end *e, uint64_t offset, const struct flawed *f,
			uint32_t adapter_slot, struct weft_sge *pieces)
{
	for (uint32_t i = 0; i < PIECES; i++)
		pieces[i] = i == adapter_slot ? f->segment
					      : end_seg(e, offset + (uint64_t)i * 32, 16);
}

/* The bad segment in a request of this kind. */
static void request_fails(struct pair *p, enum weft_opcode opcode, enum flaw flaw,
			  uint32_t adapter_slot)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	bool is_sink = opcode == WEFT_OP_READ;
	struct weft_sge pieces[PIECES];
	struct flawed f;
	struct weft_send_wr wr;

	pair_blank(p);
	end_fill(b, SRC, 256, 1);
	flaw_make(a, flaw, is_sink ? WEFT_LOCAL_WRITE : WEFT_LOCAL_READ, &f);
	if (is_sink && flaw == FLAW_RIGHT)
		f.reason = WEFT_R_READ_SINK; /* which remote write would have satisfied too */
	pieces_with(a, SRC, &f, adapter_slot, pieces);
	wr = end_wr(a, opcode, SEND_ID, pieces, is_sink ? SRC : DST);
	wr.sge_count = PIECES;
	if (is_sink && !pair_can(PAIR_READ_SCATTERS)) { /* the bad one alone, then */
		wr.sges = &pieces[adapter_slot];
		wr.sge_count = 1;
	}
	end_post_recv(b, RECV_ID, DST, 256);
	end_post(a, &wr);
	end_send_failed(a, SEND_ID, WEFT_ERR_LOCAL_ACCESS, f.reason);
	end_await(a, WEFT_QPS_ERROR);
	MUST_EQ(end_query(a).reason, f.reason);
	end_recvs_flushed(b, RECV_ID, RECV_ID);
	end_is_blank(a, SRC, 8192);
	end_is_blank(b, DST, 256);
	flaw_undo(a, &f);
	pair_revive(p);
}

/* The bad segment in the receive that a Send meets. */
static void receive_fails(struct pair *p, enum flaw flaw, uint32_t adapter_slot)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	const struct weft_sge source = end_seg(a, SRC, 48);
	struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, SEND_ID, &source, 0);
	struct weft_sge pieces[PIECES];
	const struct weft_recv_wr recv = { .id = RECV_ID, .sges = pieces, .sge_count = PIECES };
	struct flawed f;

	pair_blank(p);
	end_fill(a, SRC, 48, 1);
	flaw_make(b, flaw, WEFT_LOCAL_WRITE, &f);
	pieces_with(b, DST, &f, adapter_slot, pieces);
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	end_post(a, &wr);
	end_recv_failed(b, RECV_ID, WEFT_ERR_LOCAL_ACCESS, f.reason);
	end_sends_refused(a, SEND_ID, SEND_ID, WEFT_ERR_REMOTE_OPERATION, WEFT_R_PEER_RECEIVE);
	end_await(a, WEFT_QPS_ERROR);
	MUST_EQ(end_query(a).reason, WEFT_R_PEER_RECEIVE);
	end_await(b, WEFT_QPS_ERROR);
	MUST_EQ(end_query(b).reason, f.reason);
	end_is_blank(b, 0, END_BYTES);
	flaw_undo(b, &f);
	pair_revive(p);
}

static void flaw_is_refused(enum flaw flaw)
{
	/* A window may be a Read's sink: to the peer's response it is a target (AMB-04). */
	bool is_read_flawed = flaw != FLAW_WINDOW;
	struct pair p;

	pair_open(&p, NULL);
	for (uint32_t adapter_slot = 0; adapter_slot < PIECES; adapter_slot++) {
		request_fails(&p, WEFT_OP_SEND, flaw, adapter_slot);
		request_fails(&p, WEFT_OP_WRITE, flaw, adapter_slot);
		request_fails(&p, WEFT_OP_WRITE_IMM, flaw, adapter_slot);
		if (is_read_flawed)
			request_fails(&p, WEFT_OP_READ, flaw, adapter_slot);
		receive_fails(&p, flaw, adapter_slot);
	}
	pair_close(&p);
}

TEST(test_loc_02a_loc_s1_loc_06_an_entry_that_is_not_valid)
{
	flaw_is_refused(FLAW_INVALID);
}

TEST(test_loc_02b_loc_s1_loc_06_a_window)
{
	flaw_is_refused(FLAW_WINDOW);
}

TEST(test_loc_02c_loc_s1_loc_06_another_protection_domain)
{
	flaw_is_refused(FLAW_PD);
}

TEST(test_loc_02d_loc_s1_loc_06_another_instance)
{
	flaw_is_refused(FLAW_INSTANCE);
}

TEST(test_loc_02e_loc_s1_loc_06_outside_the_range)
{
	flaw_is_refused(FLAW_BEFORE);
	flaw_is_refused(FLAW_BEYOND);
	flaw_is_refused(FLAW_WRAP);
}

TEST(test_loc_02f_loc_s1_loc_06_without_the_right)
{
	flaw_is_refused(FLAW_RIGHT);
}

TEST(test_loc_01_loc_06_a_tag_outside_the_table)
{
	flaw_is_refused(FLAW_INDEX);
}

TEST(test_loc_02g_loc_s1_bind_to_a_region_without_binding)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_send_wr wr;
	uint32_t region, window;

	pair_open(&p, &(struct pair_options){ .on_failure = WEFT_FAIL_DRAIN });
	region = end_register(a, PART, PART_BYTES, LOCAL | WEFT_REMOTE_READ);
	MUST(weft_window_alloc(a->pd, &window));
	wr = wr_make(WEFT_OP_BIND, SEND_ID, NULL, 0);
	wr.bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = region,
		.addr = a->addr + PART,
		.length = PART_BYTES,
		.rights = WEFT_REMOTE_READ,
	};
	end_post(a, &wr);
	end_send_failed(a, SEND_ID, WEFT_ERR_BIND, WEFT_R_BIND_DISABLED);
	end_await(a, WEFT_QPS_SQE);
	MUST(weft_window_free(a->pd, window)); /* it was never bound */
	MUST(weft_region_deregister(a->pd, region));
	pair_close(&p);
}

/* The rights are independent: each kind of access works with just its own. */
TEST(test_loc_03_just_the_right_that_is_needed)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t readable, writable;
	struct weft_sge source, sink;
	struct weft_recv_wr recv;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	readable = end_register(a, SRC, 64, WEFT_LOCAL_READ);
	writable = end_register(b, DST, 64, WEFT_LOCAL_WRITE);
	end_fill(a, SRC, 64, 8);
	source = end_seg(a, SRC, 64);
	source.tag = readable;
	sink = end_seg(b, DST, 64);
	sink.tag = writable;
	recv = (struct weft_recv_wr){ .id = RECV_ID, .sges = &sink, .sge_count = 1 };
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	wr = end_wr(a, WEFT_OP_SEND, SEND_ID, &source, 0);
	end_succeeds(a, &wr);
	end_received(b, RECV_ID);
	end_holds(b, DST, 64, 8);
	pair_blank(&p);
	end_fill(a, SRC, 64, 9);
	wr = end_wr(b, WEFT_OP_READ, SEND_ID, &sink, SRC);
	end_succeeds(b, &wr);
	end_holds(b, DST, 64, 9);
	MUST(weft_region_deregister(a->pd, readable));
	MUST(weft_region_deregister(b->pd, writable));
	pair_close(&p);
}

/* A segment of no bytes is no access: its tag and address do not matter (mem.h). */
TEST(test_loc_01_segments_of_no_bytes_are_no_access)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge source[3], sink[3];
	struct weft_recv_wr recv;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	end_fill(a, SRC, 8, 3);
	for (int i = 0; i < 3; i++)
		source[i] = sink[i] = (struct weft_sge){ .addr = 1, .tag = 0xffffff00 };
	source[1] = end_seg(a, SRC, 8);
	sink[1] = end_seg(b, DST, 8);
	recv = (struct weft_recv_wr){ .id = RECV_ID, .sges = sink, .sge_count = 3 };
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	wr = wr_make(WEFT_OP_SEND, SEND_ID, source, 3);
	end_succeeds(a, &wr);
	EXPECT_EQ(end_received(b, RECV_ID).byte_count, 8);
	end_holds(b, DST, 8, 3);
	pair_close(&p);
}
