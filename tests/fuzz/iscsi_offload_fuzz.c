/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream core of a queue pair in iSCSI mode against a target that sends what the input says:
 * raw bytes, or PDUs with any fields, digests that fit, and task tags that mostly exist. Meanwhile
 * commands and control PDUs are posted, memory is taken back, commands are ended, the queue pair
 * changes state, the connection ends.
 *
 * Whatever comes: nothing crashes, every posted request ends in exactly one completion, memory that
 * no command may write stays as it was, and so does all of it once the queue pair is in Error; what
 * is sent are PDUs; and no entry of a command is left at the end.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "iscsi/offload/offload.h"
#include "loopback/loopback.h"
#include "wire/iscsi.h"

enum {
	CANARY = 256,  /* before and after what is registered */
	SOURCE = 4096, /* registered for reading only */
	SINK = 8192,
	RECEIVES = 4096,
	AT_SINK = CANARY + SOURCE,
	AT_RECEIVES = AT_SINK + SINK,
	MEMORY = AT_RECEIVES + RECEIVES + CANARY,
	RECEIVE_BYTES = 512,
	COMMANDS = 8,
	STEPS_MAX = 200,
	IDS_MAX = 4 * STEPS_MAX,
	PIPE_MAX = 1 << 16,
	OUT_MAX = 1 << 18
};

struct rig {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct list attention;
	struct iscsi_offload *stream;
	struct weft_iscsi_terms terms;
	uint64_t now_ns;
	uint32_t source, sink, receives;
	uint32_t ids[COMMANDS], next; /* Command IDs that were given lately */
	uint32_t stat_sn;
	bool is_failed;
	uint8_t ended[IDS_MAX];
	uint32_t posted, completed;
	size_t in_length, in_at, out_length, out_at;
	uint8_t memory[MEMORY], at_first[MEMORY], at_error[MEMORY];
	/* From here on it is not set to zero. */
	uint8_t in[PIPE_MAX], out[OUT_MAX];
};

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t region(struct rig *rig, size_t at, size_t length, uint32_t rights)
{
	const struct mem_owner owner = pd_owner(rig->pd);
	const struct weft_region_options options = {
		.addr = (uintptr_t)rig->memory + at,
		.length = length,
		.rights = rights,
	};
	uint32_t tag = 0;

	(void)mem_region_register(&rig->adapter.mem, &owner, &options, &tag);
	return tag;
}

static void rig_open(struct rig *rig, struct rd *r)
{
	const struct adapter_config config = {
		.options = { .tags_max = 12,
			     .translations_max = 64,
			     .qps_max = 2,
			     .cqs_max = 2,
			     .srqs_max = 1,
			     .pds_max = 2 },
		.secret = { 1, 2 },
	};
	uint8_t how = rd_u8(r);
	const struct weft_qp_attr attr = { .receiver_wait_ns = 50,
					   .on_failure = how & 1 ? WEFT_FAIL_DRAIN
								 : WEFT_FAIL_TERMINATE };
	struct weft_qp_options qp = {
		.service = WEFT_ISCSI, .send_max = 16, .recv_max = 16, .outstanding_max = COMMANDS
	};
	const struct iscsi_offload_config stream = { .close_wait_ns = 100,
						     .attention = &rig->attention };

	rig->terms = (struct weft_iscsi_terms){
		.has_header_digest = how & 2,
		.has_data_digest = how & 4,
		.is_unsolicited_on = how & 8,
		.is_immediate_off = how & 16,
		.send_bytes_max = how & 32 ? 512 : 2048,
		.recv_bytes_max = 2048,
		.first_burst_bytes = how & 64 ? 1024 : 0,
	};
	list_init(&rig->attention);
	for (size_t i = 0; i < MEMORY; i++)
		rig->memory[i] = (uint8_t)(i * 11 + 3);
	memcpy(rig->at_first, rig->memory, MEMORY);
	CHECK(adapter_init(&rig->adapter, &config) == WEFT_OK);
	CHECK(pd_create(&rig->adapter, &(struct weft_pd_options){ 0 }, &rig->pd) == WEFT_OK);
	CHECK(cq_create(&rig->adapter, &(struct weft_cq_options){ .entries_max = IDS_MAX },
			&rig->cq) == WEFT_OK);
	qp.send_cq = rig->cq;
	qp.recv_cq = rig->cq;
	CHECK(qp_create(rig->pd, &qp, &loopback_transport, &rig->qp) == WEFT_OK);
	CHECK(qp_modify(rig->qp, &attr, WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE) == WEFT_OK);
	rig->source = region(rig, CANARY, SOURCE, WEFT_LOCAL_READ);
	rig->sink = region(rig, AT_SINK, SINK, WEFT_LOCAL_WRITE | WEFT_LOCAL_READ);
	rig->receives = region(rig, AT_RECEIVES, RECEIVES, WEFT_LOCAL_WRITE);
	CHECK(iscsi_offload_create(rig->qp, &stream, &rig->stream) == WEFT_OK);
	CHECK(iscsi_offload_set(rig->qp, &rig->terms) == WEFT_OK);
}

static void drain(struct rig *rig)
{
	struct weft_completion c;
	uint32_t count;

	while (cq_poll(rig->cq, &c, 1, &count) == WEFT_OK && count == 1) {
		CHECK(c.status == WEFT_SUCCESS || c.reason != WEFT_OK);
		CHECK(c.id < rig->posted && !rig->ended[c.id]);
		CHECK(!c.has_invalidated || c.command_id != 0);
		rig->ended[c.id] = 1;
		rig->completed++;
	}
}

/* Memory that nothing may write, and memory after the queue pair has failed, is unchanged. */
static void check_memory(struct rig *rig)
{
	const size_t behind = AT_RECEIVES + RECEIVES;
	bool is_failed = rig->qp->state == WEFT_QPS_ERROR || rig->qp->state == WEFT_QPS_RESET;

	CHECK(memcmp(rig->memory, rig->at_first, AT_SINK) == 0);
	CHECK(memcmp(rig->memory + behind, rig->at_first + behind, MEMORY - behind) == 0);
	if (rig->is_failed)
		CHECK(memcmp(rig->memory, rig->at_error, MEMORY) == 0);
	else if (is_failed)
		memcpy(rig->at_error, rig->memory, MEMORY);
	rig->is_failed = is_failed;
}

static void rig_close(struct rig *rig)
{
	struct mem_table *mem = &rig->adapter.mem;
	struct weft_usage usage;

	qp_destroy(rig->qp);
	adapter_usage(&rig->adapter, &usage);
	CHECK(usage.iscsi_regions == 0);
	if (rig->stream)
		iscsi_offload_destroy(rig->stream);
	CHECK(list_is_empty(&rig->attention));
	drain(rig);
	CHECK(rig->completed == rig->posted);
	CHECK(cq_destroy(rig->cq) == WEFT_OK);
	for (uint32_t i = 1; i < mem->tags_max; i++)
		(void)mem_region_deregister(mem, rig->pd->number,
					    mem_tag(i, mem->entries[i].instance));
	CHECK(pd_destroy(rig->pd) == WEFT_OK);
	CHECK(adapter_fini(&rig->adapter) == WEFT_OK);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void put(struct rig *rig, const void *bytes, size_t length)
{
	if (rig->in_length + length > PIPE_MAX) {
		memmove(rig->in, rig->in + rig->in_at, rig->in_length - rig->in_at);
		rig->in_length -= rig->in_at;
		rig->in_at = 0;
	}
	length = least(length, PIPE_MAX - rig->in_length);
	if (length > 0)
		memcpy(rig->in + rig->in_length, bytes, length);
	rig->in_length += length;
}

static bool move_in(struct rig *rig, size_t max)
{
	struct span_list l;
	size_t n, done = 0;

	iscsi_offload_want(rig->stream, rig->now_ns, &l);
	n = least(least(l.length, max), rig->in_length - rig->in_at);
	if (n == 0)
		return false;
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		memcpy(l.spans[i].bytes, rig->in + rig->in_at + done, k);
		done += k;
	}
	rig->in_at += n;
	iscsi_offload_got(rig->stream, rig->now_ns, &l, n);
	return true;
}

static bool move_out(struct rig *rig, size_t max)
{
	struct span_list l;
	size_t n, done = 0;

	iscsi_offload_have(rig->stream, rig->now_ns, &l);
	n = least(l.length, max);
	if (n == 0)
		return false;
	for (uint32_t i = 0; done < n; i++) {
		size_t k = least(l.spans[i].length, n - done);

		if (rig->out_length + k <= OUT_MAX)
			memcpy(rig->out + rig->out_length, l.spans[i].bytes, k);
		rig->out_length += k;
		done += k;
	}
	iscsi_offload_sent(rig->stream, rig->now_ns, n);
	return true;
}

/* What has left are PDUs of an initiator, with digests that fit. */
static void read_out(struct rig *rig)
{
	while (rig->out_length <= OUT_MAX && rig->out_length - rig->out_at >= ISCSI_BHS_BYTES) {
		const uint8_t *at = rig->out + rig->out_at, *data = at;
		uint32_t header = iscsi_header_bytes(at), bytes = iscsi_data_bytes(at);
		uint32_t whole = iscsi_pdu_bytes(at, rig->terms.has_header_digest,
						 rig->terms.has_data_digest);
		struct iscsi_pdu pdu;

		if (rig->out_length - rig->out_at < whole)
			return;
		CHECK(iscsi_decode(&pdu, ISCSI_INITIATOR, rd_of(at, header),
				   rig->terms.send_bytes_max) == WEFT_OK);
		data += header;
		if (rig->terms.has_header_digest) {
			CHECK(iscsi_header_check(at, header, data) == WEFT_OK);
			data += ISCSI_DIGEST_BYTES;
		}
		bytes += iscsi_pad(bytes);
		if (rig->terms.has_data_digest && bytes > 0)
			CHECK(iscsi_data_check(crc32c_add(CRC32C_BEGIN, data, bytes),
					       data + bytes) == WEFT_OK);
		rig->out_at += whole;
	}
}

static void act(struct rig *rig)
{
	switch (iscsi_offload_action(rig->stream)) {
	case ISCSI_OFFLOAD_NOTHING:
	case ISCSI_OFFLOAD_SHUT:
		return;
	case ISCSI_OFFLOAD_CLOSE:
	case ISCSI_OFFLOAD_ABORT:
		iscsi_offload_destroy(rig->stream);
		rig->stream = NULL;
	}
}

static void move(struct rig *rig, size_t max, uint32_t rounds)
{
	bool has_moved = true;

	for (uint32_t round = 0; round < rounds && has_moved; round++) {
		for (uint32_t i = 0; adapter_progress(&rig->adapter, rig->now_ns); i++)
			CHECK(i < 10000); /* or it waits by trying */
		if (!rig->stream)
			break;
		while (iscsi_offload_attend(&rig->attention))
			continue;
		if (iscsi_offload_due(rig->stream) <= rig->now_ns)
			iscsi_offload_expire(rig->stream, rig->now_ns);
		has_moved = move_in(rig, max);
		has_moved |= move_out(rig, max);
		act(rig);
		if (!rig->stream)
			break;
	}
	check_memory(rig);
	read_out(rig);
	drain(rig);
}

/* ---- The target ----------------------------------------------------------------------------- */

/* Mostly the tag of a command that was posted lately. */
static uint32_t some_itt(struct rig *rig, struct rd *r)
{
	uint8_t how = rd_u8(r);
	uint32_t tag = 0;

	if (how < 200 && iscsi_offload_tag(rig->qp, rig->ids[how % COMMANDS], &tag) == WEFT_OK)
		return how % 16 == 15 ? tag - 1 : tag;
	if (how < 220)
		return how % 2 ? rig->sink : rig->source;
	return how < 240 ? how % 8 : rd_u32(r);
}

static uint32_t some_offset(struct rd *r)
{
	uint8_t how = rd_u8(r);

	if (how < 128)
		return 0;
	return how < 240 ? 16U * (how - 128U) : rd_u32(r);
}

static uint32_t some_length(struct rd *r)
{
	static const uint32_t lengths[] = { 0, 1, 48, 100, 512, 1024, 2048, 2049 };

	return lengths[rd_u8(r) % 8];
}

static void put_digest(struct rig *rig, uint32_t digest)
{
	uint8_t bytes[ISCSI_DIGEST_BYTES];

	iscsi_digest_encode(digest, bytes);
	put(rig, bytes, sizeof(bytes));
}

static void put_pdu(struct rig *rig, const struct iscsi_pdu *p, uint8_t odd)
{
	static const uint8_t data[4096] = { 0xd7, 0xd7, 0xd7 };
	uint8_t header[ISCSI_HEADER_MAX];
	struct wr w = wr_of(header, sizeof(header));
	uint32_t bytes;

	iscsi_encode(p, &w);
	if (odd == 1)
		header[odd % 48] ^= 0x80;
	bytes = iscsi_data_bytes(header);
	put(rig, header, ISCSI_BHS_BYTES);
	if (rig->terms.has_header_digest)
		put_digest(rig, iscsi_header_digest(header, ISCSI_BHS_BYTES) ^ (odd == 2));
	if (bytes == 0)
		return;
	put(rig, data, bytes + iscsi_pad(bytes));
	if (rig->terms.has_data_digest)
		put_digest(rig,
			   crc32c_end(crc32c_add(CRC32C_BEGIN, data, bytes + iscsi_pad(bytes))) ^
				   (odd == 3));
}

static void target_speaks(struct rig *rig, struct rd *r)
{
	static const uint8_t opcodes[] = { ISCSI_DATA_IN,
					   ISCSI_DATA_IN,
					   ISCSI_R2T,
					   ISCSI_R2T,
					   ISCSI_SCSI_RESPONSE,
					   ISCSI_NOP_IN,
					   ISCSI_LOGIN_RESPONSE,
					   ISCSI_ASYNC,
					   ISCSI_REJECT,
					   ISCSI_TASK_RESPONSE,
					   ISCSI_TEXT_RESPONSE };
	uint8_t how = rd_u8(r), odd = rd_u8(r);
	struct iscsi_pdu p = {
		.opcode = opcodes[how % sizeof(opcodes)],
		.is_final = odd % 32 != 4,
		.has_status = odd & 128,
		.itt = some_itt(rig, r),
		.ttt = odd % 32 == 5 ? ISCSI_TAG_NONE : odd,
		.stat_sn = odd % 32 == 6 ? rd_u32(r) : rig->stat_sn,
		.offset = some_offset(r),
		.data_bytes = some_length(r),
		.desired_bytes = some_length(r),
		.code = how > 240 ? how : 0,
		.tsih = 1,
		.csg = ISCSI_STAGE_OPERATIONAL,
		.nsg = odd & 64 ? ISCSI_STAGE_FULL_FEATURE : 0,
	};

	if (p.opcode != ISCSI_R2T && (p.opcode != ISCSI_DATA_IN || p.has_status))
		rig->stat_sn = p.stat_sn + 1;
	put_pdu(rig, &p, odd);
}

/* ---- The consumer --------------------------------------------------------------------------- */

static void post_command(struct rig *rig, struct rd *r)
{
	static const uint16_t lengths[] = { 0, 1, 512, 1000, 2048, 4096, 3000, 600 };
	uint8_t how = rd_u8(r);
	bool is_read = how & 1;
	uint32_t length = lengths[how >> 1 & 7];
	const struct weft_sge sge = { (uintptr_t)rig->memory +
					      (is_read ? (size_t)AT_SINK : (size_t)CANARY),
				      length, is_read || how >= 250 ? rig->sink : rig->source };
	const struct iscsi_pdu p = { .opcode = ISCSI_SCSI_COMMAND,
				     .is_final = true,
				     .is_read = is_read,
				     .is_write = !is_read,
				     .expected_bytes = length };
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_send_wr wr = { .id = rig->posted,
				   .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = length > 0 };
	struct wr w = wr_of(pdu.bhs, sizeof(pdu.bhs));
	uint32_t posted;

	iscsi_encode(&p, &w);
	if (rig->posted == IDS_MAX || qp_post_send(rig->qp, &wr, 1, &posted) != WEFT_OK)
		return;
	rig->posted++;
	rig->ids[rig->next++ % COMMANDS] = pdu.command_id;
}

static void post_control(struct rig *rig, struct rd *r)
{
	uint32_t length = rd_u8(r) % 60;
	const struct weft_sge sge = { (uintptr_t)rig->memory, length, 0 };
	const struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
				     .is_immediate = true,
				     .itt = 7,
				     .ttt = ISCSI_TAG_NONE,
				     .data_bytes = length };
	struct weft_iscsi_pdu pdu = { 0 };
	struct weft_send_wr wr = { .id = rig->posted,
				   .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_SIGNALLED | WEFT_INLINE,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = 1 };
	struct wr w = wr_of(pdu.bhs, sizeof(pdu.bhs));
	uint32_t posted;

	iscsi_encode(&p, &w);
	if (rig->posted < IDS_MAX && qp_post_send(rig->qp, &wr, 1, &posted) == WEFT_OK)
		rig->posted++;
}

static void post_receive(struct rig *rig, struct rd *r)
{
	uint8_t how = rd_u8(r);
	const struct weft_sge sge = { (uintptr_t)rig->memory + AT_RECEIVES +
					      (size_t)(how % (RECEIVES / RECEIVE_BYTES)) *
						      RECEIVE_BYTES,
				      how == 255 ? 40 : RECEIVE_BYTES, rig->receives };
	const struct weft_recv_wr wr = { .id = rig->posted, .sges = &sge, .sge_count = 1 };
	uint32_t posted;

	if (rig->posted < IDS_MAX && qp_post_recv(rig->qp, &wr, 1, &posted) == WEFT_OK)
		rig->posted++;
}

/* What happens seldom. */
static void disturb(struct rig *rig, struct rd *r)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	uint8_t how = rd_u8(r);

	if (how < 60)
		(void)qp_modify(rig->qp, &rts, WEFT_QP_STATE);
	else if (how < 160)
		(void)iscsi_offload_end(rig->qp, rig->ids[how % COMMANDS]);
	else if (how < 200)
		rig->now_ns += how;
	else if (how < 210)
		(void)iscsi_offload_set(rig->qp, &rig->terms);
	else if (how < 220)
		(void)mem_region_deregister(&rig->adapter.mem, rig->pd->number, rig->sink);
	else if (how < 225)
		(void)qp_disconnect(rig->qp);
	else if (how < 230 && rig->stream)
		iscsi_offload_eof(rig->stream, rig->now_ns);
	else if (how < 235 && rig->stream)
		iscsi_offload_lost(rig->stream);
}

static void step(struct rig *rig, struct rd *r)
{
	static const size_t maxima[] = { SIZE_MAX, 1, 7, 100, 1000, SIZE_MAX, SIZE_MAX, 48 };
	uint8_t how = rd_u8(r), raw[16];

	switch (how % 8) {
	case 0:
	case 1:
		post_command(rig, r);
		break;
	case 2:
	case 3:
		target_speaks(rig, r);
		break;
	case 4:
		post_receive(rig, r);
		break;
	case 5:
		move(rig, maxima[how >> 5], 1 + how);
		break;
	case 6:
		if (how < 128) {
			post_control(rig, r);
		} else if (how > 250) {
			rd_bytes(r, raw, sizeof(raw));
			put(rig, raw, sizeof(raw));
		} else {
			target_speaks(rig, r);
		}
		break;
	default:
		disturb(rig, r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct rig the_rig;
	struct rig *rig = &the_rig;
	struct rd r = rd_of(bytes, length);

	memset(rig, 0, offsetof(struct rig, in));
	rig_open(rig, &r);
	for (int i = 0; i < STEPS_MAX && !r.is_short; i++)
		step(rig, &r);
	move(rig, SIZE_MAX, 100);
	rig_close(rig);
	return 0;
}
