/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of the InfiniBand transport on arbitrary packets. Queue pairs of RC, UC and UD, one more
 * of RC that is only in RTR, and a peer that sends what the input says: raw bytes, or packets with
 * any fields; with a good ICRC or without. Meanwhile requests are posted, memory is taken back,
 * queue pairs change state, time goes on.
 *
 * Whatever comes: nothing crashes, every posted request ends in exactly one completion, memory that
 * was never granted for writing stays as it was, what is sent has its form and a good ICRC, and one
 * packet makes no more than a bounded number of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ib/ib.h"
#include "loopback/loopback.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

enum {
	CANARY = 256,
	WRITABLE = 12288,
	FIXED = 2048, /* registered for reading only */
	MEMORY = CANARY + WRITABLE + FIXED + CANARY,
	TAGS = 4,
	QPS = 4,
	STEPS_MAX = 200,
	IDS_MAX = 4 * STEPS_MAX,
	MTU = 256,
	OUT_MAX = 1 << 12,
	PEER_QP = 0x4242,
	Q_KEY = 0x11
};

struct fuzz_qp {
	struct weft_qp *qp;
	struct ib_conn *conn;
	struct ib_config config;
	uint32_t psn_in;  /* about where the peer's numbers are */
	uint32_t psn_out; /* of the latest request that went out */
};

struct rig {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct ib_port *port;
	struct fuzz_qp qps[QPS];
	struct weft_ah *ah;
	_Alignas(8) uint8_t memory[MEMORY];
	uint8_t at_first[MEMORY];
	uint32_t tags[TAGS];
	uint64_t now_ns;
	uint8_t ended[IDS_MAX];
	uint32_t posted, completed;
};

/* ---- The input ------------------------------------------------------------------------------ */

struct input {
	const uint8_t *bytes;
	size_t length;
};

static uint8_t take_u8(struct input *in)
{
	if (in->length == 0)
		return 0;
	in->length--;
	return *in->bytes++;
}

static uint32_t take_u16(struct input *in)
{
	uint32_t high = take_u8(in);

	return high << 8 | take_u8(in);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t region(struct rig *rig, size_t at, size_t length, uint32_t rights)
{
	const struct mem_owner owner = pd_owner(rig->pd);
	const struct weft_region_options options = {
		.addr = (uintptr_t)rig->memory + at,
		.length = length,
		.rights = rights,
		.is_one_touch = at & 1,
	};
	uint32_t tag = 0;

	CHECK(mem_region_register(&rig->adapter.mem, &owner, &options, &tag) == WEFT_OK);
	return tag;
}

static const struct inet_end here = { { 192, 0, 2, 1 }, 0xc123 };
static const struct inet_end there = { { 192, 0, 2, 2 }, IBA_UDP_PORT };

static void qp_connect_again(struct rig *rig, struct fuzz_qp *q, bool is_started)
{
	CHECK(ib_create(rig->port, q->qp, &q->config, &q->conn) == WEFT_OK);
	q->psn_in = q->config.psn_recv;
	q->psn_out = q->config.psn_send;
	if (is_started)
		CHECK(ib_start(q->conn, &q->config) == WEFT_OK);
}

static void qp_open(struct rig *rig, int i, struct input *in)
{
	static const enum weft_qp_service services[QPS] = { WEFT_RC, WEFT_UC, WEFT_UD, WEFT_RC };
	const struct weft_qp_options o = { .send_cq = rig->cq,
					   .recv_cq = rig->cq,
					   .service = services[i],
					   .send_max = 16,
					   .recv_max = 16 };
	struct fuzz_qp *q = &rig->qps[i];
	uint8_t how = take_u8(in);

	CHECK(qp_create(rig->pd, &o, &loopback_transport, &q->qp) == WEFT_OK);
	q->config = (struct ib_config){
		.path = { .from = here, .to = there, .mtu_bytes = MTU },
		.peer_qp = PEER_QP,
		.psn_send = 0xfffff0,
		.psn_recv = 0xfffff8,
		.reads_out = how & 3,
		.reads_in = how >> 2 & 3,
		.timeout_code = 1,
		.retries = how >> 4 & 3,
		.rnr_retries = how >> 5 & 7,
		.window_packets = how & 1 ? 2 : 0,
		.q_key = Q_KEY,
		.rate_bps = how & 0x80 ? 100 * 1000 * 1000 : 0,
	};
	qp_connect_again(rig, q, i != 3);
}

static void rig_open(struct rig *rig, struct input *in)
{
	const struct adapter_config ac = {
		.options = { .tags_max = 32, .translations_max = 256, .qps_max = 8 },
	};
	const struct weft_path path = { .from = { .family = 4, .ip = { 192, 0, 2, 1 } },
					.to = { .family = 4, .ip = { 192, 0, 2, 2 } } };
	const uint32_t reading = WEFT_LOCAL_READ | WEFT_REMOTE_READ;

	for (size_t i = 0; i < MEMORY; i++)
		rig->memory[i] = (uint8_t)(i * 11 + 3);
	memcpy(rig->at_first, rig->memory, MEMORY);
	CHECK(adapter_init(&rig->adapter, &ac) == WEFT_OK);
	CHECK(pd_create(&rig->adapter, &(struct weft_pd_options){ 0 }, &rig->pd) == WEFT_OK);
	CHECK(cq_create(&rig->adapter, &(struct weft_cq_options){ .entries_max = 1024 },
			&rig->cq) == WEFT_OK);
	rig->tags[0] = region(rig, CANARY, WRITABLE, 0x3f);
	rig->tags[1] = region(rig, CANARY + WRITABLE, FIXED, reading);
	rig->tags[2] = region(rig, CANARY + 1, WRITABLE - 1, 0x1f); /* one touch */
	rig->tags[3] = region(rig, CANARY + 1024, 1024, WEFT_REMOTE_WRITE);
	rig->port = ib_port_create(&(struct ib_port_config){ .adapter = &rig->adapter });
	CHECK(rig->port && ah_create(rig->pd, &path, &rig->ah) == WEFT_OK);
	for (int i = 0; i < QPS; i++)
		qp_open(rig, i, in);
}

/* ---- Checks --------------------------------------------------------------------------------- */

static void drain(struct rig *rig)
{
	struct weft_completion c;
	uint32_t count;

	while (cq_poll(rig->cq, &c, 1, &count) == WEFT_OK && count == 1) {
		CHECK((c.status == WEFT_SUCCESS) == (c.reason == WEFT_OK));
		CHECK(c.id < rig->posted && !rig->ended[c.id]);
		rig->ended[c.id] = 1;
		rig->completed++;
	}
}

static void check_memory(const struct rig *rig)
{
	const size_t behind = CANARY + WRITABLE;

	CHECK(memcmp(rig->memory, rig->at_first, CANARY) == 0);
	CHECK(memcmp(rig->memory + behind, rig->at_first + behind, MEMORY - behind) == 0);
}

static void check_out(struct rig *rig, const struct ib_out *out)
{
	const struct iba_icrc_ip ip = { .is_ipv6 = out->path->is_ipv6,
					.from = &out->path->from,
					.to = &out->path->to,
					.ipv4_id = out->ipv4_id,
					.ipv4_fragment = IBA_IPV4_DF };
	uint8_t bytes[IBA_PACKET_MAX];
	struct iba_packet p = { 0 };
	size_t length = 0;

	CHECK(out->spans.length <= sizeof(bytes));
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(bytes + length, out->spans.spans[i].bytes, out->spans.spans[i].length);
		length += out->spans.spans[i].length;
	}
	CHECK(length == out->spans.length && iba_decode(&p, bytes, length) == WEFT_OK);
	CHECK(iba_icrc_differs(iba_icrc_begin(&ip, (uint32_t)length), bytes, length) == 0);
	if (!(iba_form(p.opcode)->traits & IBA_REQUEST))
		return;
	rig->qps[iba_service(p.opcode) == IBA_UC].psn_out = p.psn;
}

static void run(struct rig *rig)
{
	struct ib_out out = { .ipv4_id = 7 };
	struct ib_mad mad;
	uint32_t count = 0;
	bool has_moved = true;

	while (has_moved) {
		while (adapter_progress(&rig->adapter, rig->now_ns))
			;
		has_moved = ib_port_send(rig->port, rig->now_ns, &out);
		if (has_moved)
			check_out(rig, &out);
		CHECK(++count < OUT_MAX);
		has_moved |= !list_is_empty(&rig->adapter.ready);
	}
	(void)ib_port_mad(rig->port, &mad);
	drain(rig);
	check_memory(rig);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

enum { IS_RUN = 0x80 }; /* of how a packet comes */

static void put(struct rig *rig, uint8_t *bytes, size_t length, uint8_t how)
{
	struct ib_in in = { .bytes = bytes,
			    .length = length,
			    .from = there,
			    .to = here,
			    .is_ipv4_word_known = how & 1,
			    .ipv4_fragment = IBA_IPV4_DF,
			    .traffic_class = how >> 1 & IB_ECN_MASK };
	const struct iba_icrc_ip ip = { .from = &in.from,
					.to = &in.to,
					.ipv4_fragment = IBA_IPV4_DF };

	if (how & IS_RUN) { /* of two packets, by shared memory */
		in.run = 1;
		in.is_ipv4_word_known = true;
	}
	in.from.port = 0xc999;
	in.to.port = IBA_UDP_PORT;
	if ((how & 0x18) == 0x18 && length >= IBA_BTH_BYTES)
		memcpy(in.to.address, (uint8_t[]){ 239, 1, 1, 1 }, 4);
	if ((how & 0x60) != 0x60 && length >= IBA_BTH_BYTES + IBA_ICRC_BYTES) {
		uint32_t crc = iba_icrc_begin(&ip, (uint32_t)length);

		crc = iba_icrc_add_packet(crc, bytes, length - IBA_ICRC_BYTES);
		(void)iba_trailer_encode(crc, 0, bytes + length - IBA_ICRC_BYTES);
	}
	(void)ib_port_recv(rig->port, rig->now_ns, &in);
}

static void put_raw(struct rig *rig, struct input *in)
{
	uint8_t bytes[512], how = take_u8(in);
	size_t length = take_u8(in);

	for (size_t i = 0; i < length; i++)
		bytes[i] = take_u8(in);
	put(rig, bytes, length, how);
}

static uint32_t psn_of(struct fuzz_qp *q, const struct iba_form *f, uint8_t delta)
{
	uint32_t *at = f->traits & IBA_RESPONSE ? &q->psn_out : &q->psn_in;
	uint32_t psn = iba_psn_add(*at, (uint32_t)(int8_t)(delta < 0xf0 ? delta & 1 : delta));

	if (!(f->traits & IBA_RESPONSE))
		*at = iba_psn_add(psn, 1);
	return psn;
}

static void put_packet(struct rig *rig, struct input *in)
{
	static const uint8_t services[QPS] = { IBA_RC, IBA_UC, IBA_UD, IBA_RC };
	uint8_t who = take_u8(in), how = take_u8(in), op = take_u8(in) & 0x1f, what = take_u8(in);
	struct fuzz_qp *q = &rig->qps[who % QPS];
	struct iba_packet p = {
		.opcode = who & 0x80 ? IBA_CNP : iba_opcode(services[who % QPS], op),
		.dest_qp = q->qp->number,
		.p_key = IBA_PKEY_DEFAULT,
		.is_ack_requested = who & 0x10,
		.is_solicited = who & 0x20,
		.q_key = who & 0x40 ? IBA_QKEY_GSI : Q_KEY,
		.src_qp = 9,
		.r_key = rig->tags[what % TAGS],
		.inv_r_key = rig->tags[what % TAGS],
		.dma_bytes = take_u16(in),
		.syndrome = take_u8(in),
		.msn = take_u8(in),
		.swap_add = what,
	};
	uint8_t bytes[IBA_PACKET_MAX];
	uint32_t payload = take_u16(in) % (MTU + 8), at;

	if (iba_form(p.opcode)->kind == IBA_KIND_NONE)
		return;
	p.psn = psn_of(q, iba_form(p.opcode), take_u8(in));
	p.va = (uintptr_t)rig->memory + take_u16(in);
	if (who & 0x08)
		p.dest_qp = who & 0x40 ? IBA_QPN_GSI : IBA_QPN_MULTICAST;
	if (what & 0x80)
		payload = how & IS_RUN ? 2 * MTU : MTU;
	if (!(iba_form(p.opcode)->traits & IBA_PAYLOAD))
		payload = 0;
	p.pad = iba_pad(payload);
	at = iba_encode(&p, bytes);
	memset(bytes + at, what, payload + p.pad);
	at += payload + p.pad + IBA_ICRC_BYTES;
	put(rig, bytes, at, how);
}

static void post(struct rig *rig, struct input *in)
{
	uint8_t who = take_u8(in), what = take_u8(in);
	struct fuzz_qp *q = &rig->qps[who % QPS];
	const struct weft_sge s = { (uintptr_t)rig->memory + CANARY + what, take_u16(in) & 0xfff,
				    rig->tags[who >> 4 & 1] };
	uint32_t posted = 0;

	if (rig->posted == IDS_MAX)
		return;
	if (who & 0x08) {
		const struct weft_recv_wr wr = { .id = rig->posted, .sges = &s, .sge_count = 1 };

		(void)qp_post_recv(q->qp, &wr, 1, &posted);
	} else {
		struct weft_send_wr wr = { .id = rig->posted,
					   .opcode = (enum weft_opcode)(what % WEFT_OP_BIND),
					   .flags = WEFT_SIGNALLED,
					   .sges = &s,
					   .sge_count = 1,
					   .dest_qp_number = 9,
					   .ah = who & 0x40 ? rig->ah : NULL,
					   .remote_q_key = what };

		(void)qp_post_send(q->qp, &wr, 1, &posted);
	}
	rig->posted += posted;
}

static void forget(struct rig *rig, struct ib_conn *c)
{
	for (int i = 0; i < QPS; i++) {
		if (rig->qps[i].conn == c)
			rig->qps[i].conn = NULL;
	}
	ib_destroy(c);
}

static void hear_ends(struct rig *rig)
{
	struct ib_conn *c;

	while ((c = ib_port_event(rig->port)) != NULL)
		forget(rig, c);
}

static void change_state(struct rig *rig, struct input *in)
{
	uint8_t who = take_u8(in), to = take_u8(in) % WEFT_QPS_COUNT;
	struct fuzz_qp *q = &rig->qps[who % QPS];
	const struct weft_qp_attr attr = { .state = (enum weft_qp_state)to };

	if (who & 0x80 && q->conn) {
		(void)ib_adjust(q->conn, &q->config, take_u16(in) & 0x3ff);
		return;
	}
	if (who & 0x40 && q->conn && q->qp->state == WEFT_QPS_RTR) {
		(void)ib_start(q->conn, &q->config);
		return;
	}
	if (to == WEFT_QPS_RTR && q->qp->state <= WEFT_QPS_INIT) {
		if (q->conn)
			forget(rig, q->conn);
		qp_connect_again(rig, q, who & 1);
		return;
	}
	if (to != WEFT_QPS_RTR)
		(void)qp_modify(q->qp, &attr, WEFT_QP_STATE);
}

static void pass_time(struct rig *rig, struct input *in)
{
	rig->now_ns += (uint64_t)take_u16(in) << (take_u8(in) & 15);
	if (ib_port_due(rig->port) <= rig->now_ns)
		ib_port_expire(rig->port, rig->now_ns);
}

static void other(struct rig *rig, struct input *in)
{
	const struct ib_group group = { .address = { 239, 1, 1, 1 } };
	const struct ib_mad mad = { .path = rig->qps[0].config.path };
	struct fuzz_qp *q = &rig->qps[2];
	uint8_t what = take_u8(in);

	switch (what & 7) {
	case 0:
		if (q->conn)
			(void)ib_join(q->conn, &group);
		break;
	case 1:
		if (q->conn)
			ib_leave(q->conn, &group);
		break;
	case 2:
		(void)ib_port_mad_send(rig->port, &mad);
		break;
	case 3:
		(void)mem_region_deregister(&rig->adapter.mem, rig->pd->number,
					    rig->tags[what >> 4 & 3]);
		break;
	case 4:
		if (rig->ah)
			ah_destroy(rig->ah);
		rig->ah = NULL;
		break;
	default:
		if (rig->qps[what >> 4 & 3].conn)
			ib_peer_left(rig->qps[what >> 4 & 3].conn, WEFT_R_PEER_GONE);
	}
}

static void rig_close(struct rig *rig)
{
	for (int i = 0; i < QPS; i++)
		qp_destroy(rig->qps[i].qp);
	run(rig);
	hear_ends(rig);
	CHECK(rig->completed == rig->posted);
	CHECK(ib_port_due(rig->port) == UINT64_MAX && !ib_port_has_output(rig->port));
	ib_port_destroy(rig->port);
	for (int i = 0; i < TAGS; i++)
		(void)mem_region_deregister(&rig->adapter.mem, rig->pd->number, rig->tags[i]);
	if (rig->ah)
		ah_destroy(rig->ah);
	CHECK(cq_destroy(rig->cq) == WEFT_OK && pd_destroy(rig->pd) == WEFT_OK);
	CHECK(adapter_fini(&rig->adapter) == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct input in = { bytes, length };
	struct rig *rig = calloc(1, sizeof(*rig));

	CHECK(rig);
	rig_open(rig, &in);
	for (int i = 0; i < STEPS_MAX && in.length > 0; i++) {
		uint8_t step = take_u8(&in);

		switch (step & 7) {
		case 0:
			put_raw(rig, &in);
			break;
		case 1:
		case 2:
		case 3:
			put_packet(rig, &in);
			break;
		case 4:
		case 5:
			post(rig, &in);
			break;
		case 6:
			step & 0x80 ? change_state(rig, &in) : other(rig, &in);
			break;
		default:
			pass_time(rig, &in);
		}
		run(rig);
		hear_ends(rig);
	}
	rig_close(rig);
	free(rig);
	return 0;
}
