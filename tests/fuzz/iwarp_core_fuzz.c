/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The iWARP stream core on arbitrary bytes. Either a queue pair with its stream meets a peer that
 * sends what the input says: raw bytes, or FPDUs with good CRCs and any fields; or two cores talk
 * through pipes in which bytes are changed. Meanwhile requests are posted, memory is taken back,
 * queue pairs change state, connections end.
 *
 * Whatever comes: nothing crashes, every posted request ends in exactly one completion, memory that
 * was never granted for writing stays as it was, and so does all of it once the queue pair is in
 * Error; nothing is sent after the end of our direction, and never more is ready than the limit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "iwarp/iwarp.h"
#include "loopback/loopback.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	CANARY = 256, /* before and after what is registered */
	WRITABLE = 12288,
	FIXED = 2048, /* registered for reading only */
	MEMORY = CANARY + WRITABLE + FIXED + CANARY,
	TAGS = 6,
	SEGMENTS = 3,
	STEPS_MAX = 150,
	IDS_MAX = 2 * STEPS_MAX,
	CQ_MAX = 1024,
	PIPE_MAX = 1 << 16,
	READY_MAX = (256 + 64 + 4) * 1024 /* that a stream may have ready */
};

struct pipe {
	uint8_t *bytes;
	size_t length, at;
};

struct fuzzed_stream {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct list attention;
	struct iwarp_stream *stream;
	struct iwarp_terms terms;
	_Alignas(8) uint8_t memory[MEMORY];
	uint8_t at_first[MEMORY], at_error[MEMORY]; /* at_error: with is_failed */
	uint32_t tags[TAGS];
	struct pipe in;
	struct pipe *out; /* the other end's, or none: thrown away */
	uint64_t in_position;
	uint32_t msn[RDMAP_QN_COUNT];
	bool is_failed, is_shut, is_eof_due;
	uint8_t ended[IDS_MAX];
	uint32_t posted, completed;
};

struct rig {
	struct adapter adapter;
	struct fuzzed_stream ends[2];
	uint32_t count;
	uint64_t now_ns;
};

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t region(struct rig *rig, struct fuzzed_stream *e, size_t at, size_t length,
		       uint32_t rights)
{
	const struct mem_owner owner = pd_owner(e->pd);
	const struct weft_region_options options = {
		.addr = (uintptr_t)e->memory + at,
		.length = length,
		.rights = rights,
		.is_one_touch = !(rights & WEFT_BIND) && (at & 1),
	};
	uint32_t tag = 0;

	(void)mem_region_register(&rig->adapter.mem, &owner, &options, &tag);
	return tag;
}

static void register_all(struct rig *rig, struct fuzzed_stream *e)
{
	const uint32_t reading = WEFT_LOCAL_READ | WEFT_REMOTE_READ;

	e->tags[0] = region(rig, e, CANARY, WRITABLE, 0x3f);
	e->tags[1] = region(rig, e, CANARY, WRITABLE, 0x3f);
	e->tags[2] = region(rig, e, CANARY + WRITABLE, FIXED, reading);
	e->tags[3] = region(rig, e, CANARY + 1, WRITABLE - 1, 0x1f); /* one touch */
	e->tags[4] = region(rig, e, CANARY + 1024, 1024, WEFT_REMOTE_WRITE);
	e->tags[5] = region(rig, e, CANARY + 4096, 4096, WEFT_LOCAL_WRITE | WEFT_REMOTE_READ);
}

static void end_open(struct rig *rig, struct fuzzed_stream *e, const struct iwarp_terms *terms)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 50 };
	struct weft_qp_options qp = { .sges_max = SEGMENTS, .send_max = 16, .recv_max = 16 };
	const struct iwarp_config config = {
		.terms = *terms,
		.close_wait_ns = 100,
		.attention = &e->attention,
		.owner = e,
	};

	e->terms = *terms;
	list_init(&e->attention);
	for (size_t i = 0; i < MEMORY; i++)
		e->memory[i] = (uint8_t)(i * 11 + 3);
	memcpy(e->at_first, e->memory, MEMORY);
	e->in.bytes = malloc(PIPE_MAX);
	CHECK(e->in.bytes);
	CHECK(pd_create(&rig->adapter, &(struct weft_pd_options){ 0 }, &e->pd) == WEFT_OK);
	CHECK(cq_create(&rig->adapter, &(struct weft_cq_options){ .entries_max = CQ_MAX },
			&e->cq) == WEFT_OK);
	qp.send_cq = e->cq;
	qp.recv_cq = e->cq;
	CHECK(qp_create(e->pd, &qp, &loopback_transport, &e->qp) == WEFT_OK);
	CHECK(qp_modify(e->qp, &attr, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	register_all(rig, e);
	CHECK(iwarp_create(e->qp, &config, &e->stream) == WEFT_OK);
}

static void drain(struct fuzzed_stream *e)
{
	struct weft_completion c;
	uint32_t count;

	while (cq_poll(e->cq, &c, 1, &count) == WEFT_OK && count == 1) {
		CHECK((c.status == WEFT_SUCCESS) == (c.reason == WEFT_OK));
		CHECK(c.id < e->posted && !e->ended[c.id]);
		e->ended[c.id] = 1;
		e->completed++;
	}
}

/* Memory never granted for writing, and memory after its queue pair has failed, is unchanged. */
static void check_memory(struct fuzzed_stream *e)
{
	const size_t behind = CANARY + WRITABLE;

	CHECK(memcmp(e->memory, e->at_first, CANARY) == 0);
	CHECK(memcmp(e->memory + behind, e->at_first + behind, MEMORY - behind) == 0);
	if (e->is_failed)
		CHECK(memcmp(e->memory, e->at_error, MEMORY) == 0);
	else if (e->qp->state == WEFT_QPS_ERROR || e->qp->state == WEFT_QPS_RESET)
		memcpy(e->at_error, e->memory, MEMORY);
	e->is_failed = e->qp->state == WEFT_QPS_ERROR || e->qp->state == WEFT_QPS_RESET;
}

static void end_close(struct rig *rig, struct fuzzed_stream *e)
{
	struct mem_table *mem = &rig->adapter.mem;

	qp_destroy(e->qp);
	if (e->stream)
		iwarp_destroy(e->stream);
	CHECK(list_is_empty(&e->attention));
	drain(e);
	CHECK(e->completed == e->posted);
	CHECK(cq_destroy(e->cq) == WEFT_OK);
	for (uint32_t i = 0; i < mem->tags_max; i++)
		(void)mem_region_deregister(mem, e->pd->number,
					    mem_tag(i, mem->entries[i].instance));
	CHECK(pd_destroy(e->pd) == WEFT_OK);
	free(e->in.bytes);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void pipe_put(struct pipe *p, const uint8_t *bytes, size_t length)
{
	if (p->at > 0 && p->length + length > PIPE_MAX) {
		memmove(p->bytes, p->bytes + p->at, p->length - p->at);
		p->length -= p->at;
		p->at = 0;
	}
	if (p->length + length > PIPE_MAX)
		return;
	memcpy(p->bytes + p->length, bytes, length);
	p->length += length;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool move_in(struct rig *rig, struct fuzzed_stream *e, size_t max)
{
	struct span_list l;
	size_t n, done = 0;

	iwarp_want(e->stream, rig->now_ns, &l);
	CHECK(l.length <= READY_MAX);
	n = least(least(l.length, max), e->in.length - e->in.at);
	if (n == 0) {
		if (l.length == 0 || !e->is_eof_due || e->in.at < e->in.length)
			return false;
		e->is_eof_due = false;
		iwarp_eof(e->stream, rig->now_ns);
		return true;
	}
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		memcpy(l.spans[i].bytes, e->in.bytes + e->in.at + done, k);
		done += k;
	}
	e->in.at += n;
	iwarp_got(e->stream, rig->now_ns, &l, n);
	return true;
}

static bool move_out(struct rig *rig, struct fuzzed_stream *e, size_t max)
{
	struct span_list l;
	size_t n, done = 0;

	iwarp_have(e->stream, rig->now_ns, &l);
	CHECK(l.length <= READY_MAX && (l.length == 0 || !e->is_shut));
	n = least(l.length, max);
	if (n == 0)
		return false;
	for (uint32_t i = 0; e->out && done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		pipe_put(e->out, l.spans[i].bytes, k);
		done += k;
	}
	iwarp_sent(e->stream, rig->now_ns, n);
	return true;
}

static bool act(struct rig *rig, struct fuzzed_stream *e)
{
	struct fuzzed_stream *other = &rig->ends[e == &rig->ends[0]];

	switch (iwarp_action(e->stream)) {
	case IWARP_NOTHING:
		return false;
	case IWARP_SHUT:
		CHECK(!e->is_shut);
		e->is_shut = true;
		other->is_eof_due = true;
		return true;
	case IWARP_CLOSE:
		other->is_eof_due = true;
		break;
	case IWARP_ABORT:
		if (other->stream)
			iwarp_lost(other->stream);
		break;
	}
	iwarp_destroy(e->stream);
	e->stream = NULL;
	return true;
}

/* Moves at most max bytes at a time each way, so many times. */
static void move(struct rig *rig, size_t max, uint32_t rounds)
{
	bool has_moved = true;

	for (uint32_t round = 0; round < rounds && has_moved; round++) {
		has_moved = false;
		for (uint32_t i = 0; i < rig->count; i++) {
			struct fuzzed_stream *e = &rig->ends[i];

			while (adapter_progress(&rig->adapter, rig->now_ns))
				continue;
			if (!e->stream)
				continue;
			while (iwarp_attend(&e->attention))
				continue;
			if (iwarp_due(e->stream) <= rig->now_ns)
				iwarp_expire(e->stream, rig->now_ns);
			has_moved |= move_in(rig, e, max);
			has_moved |= move_out(rig, e, max);
			has_moved |= act(rig, e);
		}
	}
	for (uint32_t i = 0; i < rig->count; i++) {
		check_memory(&rig->ends[i]);
		drain(&rig->ends[i]);
	}
}

/* ---- FPDUs with any fields ------------------------------------------------------------------ */

static uint32_t some_tag(struct rd *r, const struct fuzzed_stream *e)
{
	uint8_t how = rd_u8(r);

	if (how < 220)
		return e->tags[how % TAGS];
	return how < 240 ? e->tags[how % TAGS] + 1 : rd_u32(r);
}

static uint64_t some_addr(struct rd *r, const struct fuzzed_stream *e)
{
	uint16_t how = rd_u16(r);

	if (how < 0xf000)
		return (uintptr_t)e->memory + CANARY + how % (WRITABLE + FIXED);
	return how < 0xf800 ? (uintptr_t)e->memory + how % MEMORY : rd_u64(r);
}

static uint32_t some_length(struct rd *r)
{
	uint8_t how = rd_u8(r);

	if (how < 128)
		return how;
	return how < 250 ? 64U * (how - 100) : rd_u32(r);
}

static void put_marked(struct fuzzed_stream *e, const uint8_t *bytes, size_t length,
		       uint64_t *first)
{
	for (size_t i = 0; i < length; i++) {
		if (e->terms.takes_markers && e->in_position % MPA_MARKER_EVERY == 0) {
			bool is_front = e->in_position == *first;
			uint8_t marker[MPA_MARKER_BYTES];
			struct wr w = wr_of(marker, sizeof(marker));

			mpa_marker_encode(is_front ? 0 : (uint16_t)(e->in_position - *first), &w);
			pipe_put(&e->in, marker, sizeof(marker));
			e->in_position += sizeof(marker);
			*first += is_front ? sizeof(marker) : 0;
		}
		pipe_put(&e->in, &bytes[i], 1);
		e->in_position++;
	}
}

static void put_fpdu(struct fuzzed_stream *e, const uint8_t *ulpdu, uint32_t length)
{
	static const uint8_t pad[4];
	uint8_t head[2] = { (uint8_t)(length >> 8), (uint8_t)length }, crc[MPA_CRC_BYTES];
	size_t from = e->in.length;
	uint64_t first = e->in_position;

	if (e->in.length + 2 * length + 64 > PIPE_MAX)
		return;
	put_marked(e, head, sizeof(head), &first);
	put_marked(e, ulpdu, length, &first);
	put_marked(e, pad, mpa_pad(length), &first);
	mpa_crc_encode(
		crc32c_end(crc32c_add(CRC32C_BEGIN, e->in.bytes + from, e->in.length - from)), crc);
	/* A marker may come in front of the CRC and is then missing in it: a bad frame, once. */
	put_marked(e, crc, sizeof(crc), &first);
}

static void put_body(struct rd *r, struct fuzzed_stream *e, enum rdmap_opcode opcode, struct wr *w)
{
	if (opcode == RDMAP_READ_REQUEST) {
		rdmap_read_request_encode(
			&(struct rdmap_read_request){
				.size = some_length(r),
				.source_stag = some_tag(r, e),
				.source_to = some_addr(r, e),
			},
			w);
	} else if (opcode == RDMAP_ATOMIC_REQUEST) {
		rdmap_atomic_request_encode(
			&(struct rdmap_atomic_request){
				.opcode = (enum rdmap_atomic)(rd_u8(r) % 4),
				.stag = some_tag(r, e),
				.to = some_addr(r, e) & ~UINT64_C(7),
				.add_swap = rd_u64(r),
			},
			w);
	} else if (opcode == RDMAP_ATOMIC_RESPONSE) {
		wr_u32(w, rd_u8(r) % 4);
		wr_u64(w, rd_u64(r));
	} else {
		static const uint32_t lengths[] = { 0, 8, 64, 900, 3000, 5000 };
		uint32_t length = lengths[rd_u8(r) % 6];

		memset(w->at, 0xd7, length);
		w->at += length;
	}
}

/* A message of one segment, nearly always numbered right. */
static void put_segment(struct rd *r, struct fuzzed_stream *e)
{
	static const uint8_t queues[RDMAP_OPCODE_COUNT] = {
		[RDMAP_READ_REQUEST] = RDMAP_QN_REQUEST,
		[RDMAP_ATOMIC_REQUEST] = RDMAP_QN_REQUEST,
		[RDMAP_TERMINATE] = RDMAP_QN_TERMINATE,
		[RDMAP_ATOMIC_RESPONSE] = RDMAP_QN_ATOMIC_RESPONSE,
	};
	uint8_t how = rd_u8(r), odd = rd_u8(r), ulpdu[8192];
	enum rdmap_opcode opcode = (enum rdmap_opcode)(how % RDMAP_OPCODE_COUNT);
	bool is_tagged = opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE;
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));

	if (is_tagged) {
		ddp_tagged_encode(
			&(struct ddp_tagged){
				.is_last = odd % 16 != 1,
				.ulp = rdmap_control_encode(opcode),
				.stag = some_tag(r, e),
				.to = some_addr(r, e),
			},
			&w);
	} else {
		uint32_t qn = queues[opcode];

		ddp_untagged_encode(
			&(struct ddp_untagged){
				.is_last = odd % 16 != 1,
				.ulp = rdmap_control_encode(opcode),
				.ulp32 = some_tag(r, e),
				.qn = odd == 2 ? rd_u32(r) : qn,
				.msn = ++e->msn[qn] + (odd == 3),
				.mo = odd == 4 ? rd_u32(r) : 0,
			},
			&w);
		e->msn[qn] -= odd % 16 == 1;
	}
	put_body(r, e, opcode, &w);
	if (odd == 5)
		ulpdu[rd_u8(r) % 18] ^= rd_u8(r);
	put_fpdu(e, ulpdu, (uint32_t)(w.at - ulpdu));
}

/* ---- What else happens ---------------------------------------------------------------------- */

static uint32_t some_segments(struct rd *r, const struct fuzzed_stream *e,
			      struct weft_sge *segments)
{
	uint32_t count = rd_u8(r) % (SEGMENTS + 1);

	for (uint32_t i = 0; i < count; i++) {
		segments[i].tag = some_tag(r, e);
		segments[i].addr = some_addr(r, e);
		segments[i].length = some_length(r);
	}
	return count;
}

static void post_send(struct rd *r, struct fuzzed_stream *e, const struct fuzzed_stream *peer)
{
	struct weft_sge segments[SEGMENTS];
	struct weft_send_wr wr = { .id = e->posted, .sges = segments };
	uint32_t posted;

	wr.opcode = (enum weft_opcode)(rd_u8(r) % WEFT_OP_BIND);
	wr.flags = (rd_u8(r) & (WEFT_FENCE | WEFT_SOLICITED)) | WEFT_SIGNALLED;
	wr.sge_count = some_segments(r, e, segments);
	wr.remote_tag = some_tag(r, peer);
	wr.remote_addr = some_addr(r, peer);
	wr.invalidate_tag = some_tag(r, peer);
	wr.compare_add = 1;
	e->posted += qp_post_send(e->qp, &wr, 1, &posted) == WEFT_OK;
}

static void post_recv(struct rd *r, struct fuzzed_stream *e)
{
	struct weft_sge segments[SEGMENTS];
	struct weft_recv_wr wr = { .id = e->posted, .sges = segments };
	uint32_t posted;

	wr.sge_count = some_segments(r, e, segments);
	e->posted += qp_post_recv(e->qp, &wr, 1, &posted) == WEFT_OK;
}

static void put_raw(struct rd *r, struct fuzzed_stream *e)
{
	uint32_t length = rd_u8(r);

	for (uint32_t i = 0; i < length && !r->is_short; i++) {
		uint8_t byte = rd_u8(r);

		pipe_put(&e->in, &byte, 1);
		e->in_position++;
	}
}

/* Changes a byte on its way. */
static void spoil(struct rd *r, struct fuzzed_stream *e)
{
	size_t left = e->in.length - e->in.at;

	if (left > 0)
		e->in.bytes[e->in.at + rd_u16(r) % left] ^= rd_u8(r);
}

static void change(struct rig *rig, struct rd *r, struct fuzzed_stream *e)
{
	uint8_t what = rd_u8(r);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		(void)mem_region_deregister(&rig->adapter.mem, e->pd->number,
					    e->tags[what / 8 % TAGS]);
		break;
	case 3: {
		struct weft_qp_attr attr = { .state = (enum weft_qp_state)(what / 8 % 7) };

		(void)qp_modify(e->qp, &attr, WEFT_QP_STATE);
		break;
	}
	case 4:
		e->is_eof_due = true;
		break;
	case 5:
		if (e->stream)
			iwarp_lost(e->stream);
		break;
	case 6:
		(void)qp_disconnect(e->qp);
		break;
	default:
		rig->now_ns += what;
	}
}

static void step(struct rig *rig, struct rd *r)
{
	static const size_t sizes[] = { 1, 3, 17, 64, 700, 1500, 5000, SIZE_MAX };
	uint8_t what = rd_u8(r);
	struct fuzzed_stream *e = &rig->ends[what % rig->count], *peer = &rig->ends[rig->count - 1];
	bool is_alone = rig->count == 1;

	if (e == peer)
		peer = &rig->ends[0];
	switch (what / 16) {
	case 0:
	case 1:
	case 2:
		post_recv(r, e);
		break;
	case 3:
	case 4:
	case 5:
		post_send(r, e, peer);
		break;
	case 6:
		change(rig, r, e);
		break;
	case 7:
		spoil(r, e);
		break;
	case 8:
		if (is_alone)
			put_raw(r, e);
		break;
	case 9:
	case 10:
	case 11:
	case 12:
		if (is_alone)
			put_segment(r, e);
		else
			post_send(r, e, peer);
		break;
	default:
		break;
	}
	move(rig, sizes[what / 2 % 8], what < 0x80 ? 2 : 40);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct adapter_config config = {
		.options = { .tags_max = 32,
			     .translations_max = 64,
			     .qps_max = 2,
			     .cqs_max = 2,
			     .srqs_max = 1,
			     .pds_max = 2 },
	};
	struct rig *rig = calloc(1, sizeof(*rig));
	struct rd r = rd_of(data, size);
	uint8_t how = rd_u8(&r), depth = rd_u8(&r);
	struct iwarp_terms terms = {
		.is_initiator = how & 1,
		.has_crc = how & 2,
		.sends_markers = (how & 12) == 12,
		.takes_markers = (how & 12) == 12,
		.ird = depth % 4,
		.ord = depth % 4,
		.rtr = (enum iwarp_rtr)(how >> 4 & 3),
	};

	CHECK(rig && adapter_init(&rig->adapter, &config) == WEFT_OK);
	rig->count = 1 + (how >> 7);
	if (terms.ird == 0 && terms.rtr == IWARP_RTR_READ)
		terms.rtr = IWARP_RTR_WRITE;
	end_open(rig, &rig->ends[0], &terms);
	if (rig->count == 2) {
		terms.is_initiator = !terms.is_initiator;
		end_open(rig, &rig->ends[1], &terms);
		rig->ends[0].out = &rig->ends[1].in;
		rig->ends[1].out = &rig->ends[0].in;
	}
	for (uint32_t i = 0; i < STEPS_MAX && !r.is_short; i++)
		step(rig, &r);
	move(rig, SIZE_MAX, 1000);
	for (uint32_t i = 0; i < rig->count; i++)
		end_close(rig, &rig->ends[i]);
	CHECK(adapter_fini(&rig->adapter) == WEFT_OK);
	free(rig);
	return 0;
}
