/* SPDX-License-Identifier: BSD-2-Clause */
#include "offload_bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "loopback/loopback.h"

static const struct {
	size_t in_max, out_max;
	bool has_digests;
} ways[] = {
	{ SIZE_MAX, SIZE_MAX, false }, { 1, SIZE_MAX, false },
	{ SIZE_MAX, 1, false },	       { 7, 5, false },
	{ SIZE_MAX, SIZE_MAX, true },  { 3, 11, true },
};

enum { WAYS = sizeof(ways) / sizeof(*ways), WAYS_PLAIN = 4, CQ_MAX = 256 };

static struct bed the_bed;

/* ---- Life ----------------------------------------------------------------------------------- */

static bool copy(void *to, const void *from, uint64_t length)
{
	if (!the_bed.is_gone)
		memmove(to, from, length);
	return !the_bed.is_gone;
}

static bool run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	(void)length;
	if (!the_bed.is_gone)
		work(argument);
	return !the_bed.is_gone;
}

static const struct mem_guard guard = { .copy = copy, .run = run };

struct weft_qp *bed_qp(struct bed *b, struct weft_pd *pd)
{
	const struct weft_qp_options options = {
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.service = WEFT_ISCSI,
		.send_max = b->setup.send_max,
		.outstanding_max = b->setup.outstanding_max,
	};
	struct weft_qp *qp;

	MUST(qp_create(pd, &options, &loopback_transport, &qp));
	return qp;
}

static void open_qp(struct bed *b)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = RECEIVER_WAIT_NS,
					   .on_failure = b->setup.on_failure };
	const struct iscsi_offload_config config = {
		.close_wait_ns = CLOSE_WAIT_NS,
		.attention = &b->attention,
		.owner = b,
	};

	b->qp = bed_qp(b, b->pd);
	MUST(qp_modify(b->qp, &attr, WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE));
	MUST(iscsi_offload_create(b->qp, &config, &b->stream));
	REQUIRE(iscsi_offload_owner(b->stream) == b);
	if (!b->setup.is_raw)
		MUST(iscsi_offload_set(b->qp, &b->terms));
}

static uint32_t region(struct bed *b)
{
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options options = {
		.addr = (uintptr_t)b->memory,
		.length = MEMORY_BYTES,
		.rights = ALL_RIGHTS,
	};
	uint32_t tag;

	MUST(mem_region_register(&b->adapter.mem, &owner, &options, &tag));
	return tag;
}

static struct bed *bed_open(const struct setup *setup, size_t way)
{
	struct bed *b = &the_bed;
	const struct weft_pd_options pd = { .is_privileged = setup->is_privileged };
	struct adapter_config config = {
		.options = { .tags_max = setup->tags_max ? setup->tags_max : 32,
			     .translations_max = 256,
			     .qps_max = 8 },
		.secret = { 5, 6 },
		.guard = &guard,
	};

	*b = (struct bed){ .setup = *setup, .way = way, .out_credit = SIZE_MAX, .stat_sn = 77 };
	b->in_max = ways[way].in_max;
	b->out_max = ways[way].out_max;
	b->terms = setup->terms;
	b->terms.has_header_digest |= ways[way].has_digests;
	b->terms.has_data_digest |= ways[way].has_digests;
	list_init(&b->attention);
	b->memory = aligned_alloc(4096, MEMORY_BYTES);
	b->shadow = malloc(MEMORY_BYTES);
	REQUIRE(b->memory && b->shadow);
	for (size_t i = 0; i < MEMORY_BYTES; i++)
		b->memory[i] = (uint8_t)(i * 7 + i / 256);
	bed_note(b);
	MUST(adapter_init(&b->adapter, &config));
	MUST(pd_create(&b->adapter, &pd, &b->pd));
	MUST(pd_create(&b->adapter, &(struct weft_pd_options){ 0 }, &b->other_pd));
	MUST(cq_create(&b->adapter, &(struct weft_cq_options){ .entries_max = CQ_MAX }, &b->cq));
	b->tag = region(b);
	open_qp(b);
	return b;
}

struct bed *bed_first(const struct setup *setup)
{
	static const struct setup defaults;

	return bed_open(setup ? setup : &defaults, 0);
}

static void bed_close(struct bed *b)
{
	struct mem_table *mem = &b->adapter.mem;
	struct weft_completion c;

	if (b->qp)
		qp_destroy(b->qp);
	if (b->stream)
		iscsi_offload_destroy(b->stream);
	REQUIRE(list_is_empty(&b->attention));
	while (bed_poll(b, &c))
		continue;
	REQUIRE(b->completed == b->posted);
	REQUIRE(bed_entries(b) == 0);
	REQUIRE(mem->atts.used == 0);
	MUST(cq_destroy(b->cq));
	for (uint32_t i = 1; i < mem->tags_max; i++)
		(void)mem_region_deregister(mem, mem->entries[i].pd,
					    mem_tag(i, mem->entries[i].instance));
	MUST(pd_destroy(b->pd));
	MUST(pd_destroy(b->other_pd));
	MUST(adapter_fini(&b->adapter));
	free(b->memory);
	free(b->shadow);
	free(b->in.bytes);
	free(b->out.bytes);
}

struct bed *bed_next(struct bed *b)
{
	struct setup setup = b->setup;
	size_t way = b->way + 1;

	bed_close(b);
	if (way >= (setup.is_plain ? (size_t)WAYS_PLAIN : (size_t)WAYS))
		return NULL;
	return bed_open(&setup, way);
}

/* ---- Moving --------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void pipe_put(struct pipe *p, const void *bytes, size_t length)
{
	if (p->length + length > p->size) {
		p->size = 2 * (p->length + length);
		p->bytes = realloc(p->bytes, p->size);
		REQUIRE(p->bytes);
	}
	if (length > 0)
		memcpy(p->bytes + p->length, bytes, length);
	p->length += length;
}

static bool move_in(struct bed *b)
{
	struct span_list l;
	size_t n, done = 0;

	iscsi_offload_want(b->stream, b->now_ns, &l);
	REQUIRE(iscsi_offload_wants(b->stream) || l.count == 0);
	n = least(least(l.length, b->in_max), b->in.length - b->in.at);
	if (n == 0)
		return false;
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		memcpy(l.spans[i].bytes, b->in.bytes + b->in.at + done, k);
		done += k;
	}
	b->in.at += n;
	iscsi_offload_got(b->stream, b->now_ns, &l, n);
	return true;
}

static bool move_out(struct bed *b)
{
	struct span_list l;
	size_t n, done = 0;

	iscsi_offload_have(b->stream, b->now_ns, &l);
	n = least(least(l.length, b->out_max), b->out_credit);
	if (n == 0)
		return false;
	REQUIRE(!b->is_shut);
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		pipe_put(&b->out, l.spans[i].bytes, k);
		done += k;
	}
	b->out_credit -= b->out_credit == SIZE_MAX ? 0 : n;
	iscsi_offload_sent(b->stream, b->now_ns, n);
	return true;
}

static bool act(struct bed *b)
{
	switch (iscsi_offload_action(b->stream)) {
	case ISCSI_OFFLOAD_NOTHING:
		return false;
	case ISCSI_OFFLOAD_SHUT:
		REQUIRE(!b->is_shut);
		b->is_shut = true;
		return true;
	case ISCSI_OFFLOAD_CLOSE:
		b->is_closed = true;
		break;
	case ISCSI_OFFLOAD_ABORT:
		b->is_aborted = true;
		break;
	}
	iscsi_offload_destroy(b->stream);
	b->stream = NULL;
	return false;
}

void bed_move(struct bed *b)
{
	bool has_moved = true;
	uint32_t rounds = 0;

	while (has_moved) {
		REQUIRE(rounds++ < 4 * 1024 * 1024);
		for (uint32_t i = 0; adapter_progress(&b->adapter, b->now_ns); i++)
			REQUIRE(i < 10000); /* or it waits by trying */
		if (!b->stream)
			return;
		while (iscsi_offload_attend(&b->attention))
			continue;
		has_moved = iscsi_offload_due(b->stream) <= b->now_ns;
		if (has_moved)
			iscsi_offload_expire(b->stream, b->now_ns);
		has_moved |= move_in(b);
		has_moved |= move_out(b);
		has_moved |= act(b);
		/* Whatever is new was put on the list, or the owner would not look. */
		has_moved |= !list_is_empty(&b->attention) || !list_is_empty(&b->adapter.ready);
	}
}

void bed_wait(struct bed *b, uint64_t ns)
{
	b->now_ns += ns;
	bed_move(b);
}

void bed_eof(struct bed *b)
{
	bed_move(b);
	if (b->stream)
		iscsi_offload_eof(b->stream, b->now_ns);
	bed_move(b);
}

void bed_lost(struct bed *b)
{
	iscsi_offload_lost(b->stream);
	bed_move(b);
}

/* ---- The consumer --------------------------------------------------------------------------- */

struct weft_sge bed_sge(const struct bed *b, size_t offset, uint32_t length)
{
	return (struct weft_sge){ (uintptr_t)b->memory + offset, length, b->tag };
}

struct iscsi_pdu command_pdu(struct bed *b, enum mem_way way, uint32_t length)
{
	return (struct iscsi_pdu){
		.opcode = ISCSI_SCSI_COMMAND,
		.is_final = true,
		.is_read = way == MEM_WAY_IN,
		.is_write = way == MEM_WAY_OUT,
		.attr = ISCSI_ATTR_SIMPLE,
		.lun = 0x0001000000000000,
		.expected_bytes = length,
		.cmd_sn = ++b->cmd_sn,
		.cdb = { 0x28, 1, 2, 3 },
	};
}

struct weft_iscsi_pdu wr_pdu(const struct iscsi_pdu *p)
{
	static uint8_t header[ISCSI_HEADER_MAX];
	struct weft_iscsi_pdu pdu = { 0 };
	struct wr w = wr_of(header, sizeof(header));

	iscsi_encode(p, &w);
	memcpy(pdu.bhs, header, sizeof(pdu.bhs));
	pdu.ahs_bytes = (uint32_t)(w.at - header) - ISCSI_BHS_BYTES;
	pdu.ahs = pdu.ahs_bytes > 0 ? header + ISCSI_BHS_BYTES : NULL;
	return pdu;
}

enum weft_reason bed_post(struct bed *b, struct weft_send_wr *wr)
{
	uint32_t posted;
	enum weft_reason r;

	wr->id = ++b->id;
	r = qp_post_send(b->qp, wr, 1, &posted);
	b->posted += posted;
	return r;
}

uint32_t bed_command(struct bed *b, enum mem_way way, uint32_t length)
{
	const struct iscsi_pdu p = command_pdu(b, way, length);
	const struct weft_sge sge = bed_sge(b, 0, length);
	struct weft_iscsi_pdu pdu = wr_pdu(&p);
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = length > 0 };

	MUST(bed_post(b, &wr));
	REQUIRE(pdu.command_id != 0);
	return pdu.command_id;
}

enum weft_reason bed_control(struct bed *b, const struct iscsi_pdu *p, const void *data)
{
	const struct weft_sge sge = { (uintptr_t)data, p->data_bytes, 0 };
	struct weft_iscsi_pdu pdu = wr_pdu(p);
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_SIGNALLED | WEFT_INLINE,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = p->data_bytes > 0 };

	return bed_post(b, &wr);
}

uint8_t *bed_received(const struct bed *b, uint32_t n)
{
	return b->memory + RECEIVES_AT + (size_t)(n % RECEIVES_MAX) * RECEIVE_BYTES;
}

void bed_receive(struct bed *b, uint32_t count)
{
	while (count-- > 0) {
		const struct weft_sge sge = { (uintptr_t)bed_received(b, b->receives),
					      RECEIVE_BYTES, b->tag };
		const struct weft_recv_wr wr = { .id = 1000 + b->receives++,
						 .sges = &sge,
						 .sge_count = 1 };
		uint32_t posted;

		MUST(qp_post_recv(b->qp, &wr, 1, &posted));
		b->posted++;
	}
}

bool bed_poll(struct bed *b, struct weft_completion *c)
{
	uint32_t count;

	MUST(cq_poll(b->cq, c, 1, &count));
	b->completed += count;
	return count > 0;
}

struct weft_completion bed_completion(struct bed *b)
{
	struct weft_completion c;

	REQUIRE(bed_poll(b, &c));
	return c;
}

struct weft_completion expect_receive(struct bed *b, enum weft_opcode opcode,
				      enum weft_reason reason)
{
	struct weft_completion c = bed_completion(b);

	REQUIRE(c.status == WEFT_SUCCESS && c.opcode == opcode && c.reason == reason);
	return c;
}

void expect_no_completion(struct bed *b)
{
	struct weft_completion c;

	REQUIRE(!bed_poll(b, &c));
}

bool is_unchanged(const struct bed *b)
{
	return memcmp(b->memory, b->shadow, RECEIVES_AT) == 0;
}

void bed_note(struct bed *b)
{
	memcpy(b->shadow, b->memory, MEMORY_BYTES);
}

struct weft_iscsi_attr bed_query(const struct bed *b)
{
	struct weft_iscsi_attr attr;

	MUST(iscsi_offload_query(b->qp, &attr));
	return attr;
}

uint64_t bed_entries(const struct bed *b)
{
	struct weft_usage usage;

	adapter_usage(&b->adapter, &usage);
	return usage.iscsi_regions;
}

/* ---- The target ----------------------------------------------------------------------------- */

void target_bytes(struct bed *b, const void *bytes, size_t length)
{
	pipe_put(&b->in, bytes, length);
}

static void put_digest(struct bed *b, uint32_t digest)
{
	uint8_t bytes[ISCSI_DIGEST_BYTES];

	iscsi_digest_encode(digest, bytes);
	pipe_put(&b->in, bytes, sizeof(bytes));
}

void target_pdu(struct bed *b, const struct iscsi_pdu *p, const void *data)
{
	static const uint8_t zeros[4];
	uint8_t header[ISCSI_HEADER_MAX];
	struct wr w = wr_of(header, sizeof(header));
	size_t header_bytes;

	iscsi_encode(p, &w);
	header_bytes = (size_t)(w.at - header);
	pipe_put(&b->in, header, header_bytes);
	if (b->terms.has_header_digest)
		put_digest(b, iscsi_header_digest(header, header_bytes) ^ b->is_header_bad);
	if (p->data_bytes > 0) {
		pipe_put(&b->in, data, p->data_bytes);
		pipe_put(&b->in, zeros, iscsi_pad(p->data_bytes));
		if (b->terms.has_data_digest)
			put_digest(b,
				   iscsi_data_digest(crc32c_add(CRC32C_BEGIN, data, p->data_bytes),
						     p->data_bytes) ^
					   b->is_data_bad);
	}
	b->is_header_bad = false;
	b->is_data_bad = false;
}

void target_data_in(struct bed *b, uint32_t itt, uint32_t offset, const void *data, uint32_t length)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_DATA_IN,
		.is_final = true,
		.itt = itt,
		.offset = offset,
		.data_bytes = length,
	};

	target_pdu(b, &p, data);
}

void target_r2t(struct bed *b, uint32_t itt, uint32_t ttt, uint32_t offset, uint32_t length)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_R2T,
		.is_final = true,
		.itt = itt,
		.ttt = ttt,
		.lun = 0x0001000000000000,
		.stat_sn = b->stat_sn,
		.offset = offset,
		.desired_bytes = length,
	};

	target_pdu(b, &p, NULL);
}

void target_response(struct bed *b, uint32_t itt)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_SCSI_RESPONSE,
		.is_final = true,
		.itt = itt,
		.stat_sn = b->stat_sn++,
	};

	target_pdu(b, &p, NULL);
}

/* Looks at bytes that the core sent. NULL: there are not so many. */
static const uint8_t *peek(const struct bed *b, size_t at, size_t length)
{
	if (b->out.length - b->out.at < at + length)
		return NULL;
	return b->out.bytes + b->out.at + at;
}

const struct sent *target_next(struct bed *b)
{
	static struct sent s;
	const uint8_t *bhs = peek(b, 0, ISCSI_BHS_BYTES), *data;
	uint32_t whole, header_bytes, data_at;

	if (!bhs)
		return NULL;
	header_bytes = iscsi_header_bytes(bhs);
	whole = iscsi_pdu_bytes(bhs, b->terms.has_header_digest, b->terms.has_data_digest);
	if (!peek(b, 0, whole))
		return NULL;
	memcpy(s.header, bhs, header_bytes);
	MUST(iscsi_decode(&s.pdu, ISCSI_INITIATOR, rd_of(s.header, header_bytes), ISCSI_DATA_MAX));
	data_at = header_bytes;
	if (b->terms.has_header_digest) {
		MUST(iscsi_header_check(bhs, header_bytes, bhs + header_bytes));
		data_at += ISCSI_DIGEST_BYTES;
	}
	data = bhs + data_at;
	REQUIRE(s.pdu.data_bytes <= sizeof(s.data));
	memcpy(s.data, data, s.pdu.data_bytes);
	if (b->terms.has_data_digest && s.pdu.data_bytes > 0) {
		uint32_t bytes = s.pdu.data_bytes + iscsi_pad(s.pdu.data_bytes);

		MUST(iscsi_data_check(crc32c_add(CRC32C_BEGIN, data, bytes), data + bytes));
	}
	b->out.at += whole;
	return &s;
}

const struct sent *expect_sent(struct bed *b, enum iscsi_opcode opcode)
{
	const struct sent *s = target_next(b);

	REQUIRE(s && s->pdu.opcode == opcode);
	return s;
}
