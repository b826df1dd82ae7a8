/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_bed.h"

#include <stdlib.h>
#include <string.h>

#include "loopback/loopback.h"

enum {
	ALL_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE |
		     WEFT_REMOTE_ATOMIC | WEFT_BIND
};

static struct ib_bed the_bed;

struct ib_config bed_config(void)
{
	struct ib_config k = {
		.path = { .mtu_bytes = 256, .hop_limit = 64 },
		.peer_qp = PEER_QP,
		.psn_send = PSN_OURS,
		.psn_recv = PSN_PEERS,
		.reads_out = 2,
		.reads_in = 2,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.rnr_timer_code = 9,
	};

	memcpy(k.path.from.address, (uint8_t[]){ 192, 0, 2, 1 }, 4);
	memcpy(k.path.to.address, (uint8_t[]){ 192, 0, 2, 2 }, 4);
	k.path.from.port = 0xc123;
	k.path.to.port = IBA_UDP_PORT;
	return k;
}

static struct ib_bed *bed_make(const struct ib_config *config, struct weft_qp_options qo);

struct ib_bed *bed_open(const struct ib_config *config, enum weft_qp_service service)
{
	struct ib_bed *b = bed_open_receiving(config, service);

	MUST(ib_start(b->conn, &b->config));
	return b;
}

struct ib_bed *bed_open_receiving(const struct ib_config *config, enum weft_qp_service service)
{
	return bed_make(config, (struct weft_qp_options){ .service = service });
}

struct ib_bed *bed_open_xrc(uint32_t domain)
{
	struct ib_bed *b = bed_make(
		NULL, (struct weft_qp_options){ .is_xrc = true, .xrc_domain = domain });

	MUST(ib_start(b->conn, &b->config));
	return b;
}

/* All is there. */
static bool is_there(uint64_t addr, uint64_t length, bool is_written)
{
	struct ib_bed *b = &the_bed;

	(void)is_written;
	REQUIRE(addr >= (uintptr_t)b->memory && length <= BED_BYTES);
	REQUIRE(addr - (uintptr_t)b->memory <= BED_BYTES - length);
	b->asked++;
	b->asked_bytes += length;
	b->asked_most = length > b->asked_most ? length : b->asked_most;
	return true;
}

static struct ib_bed *bed_make(const struct ib_config *config, struct weft_qp_options qo)
{
	struct ib_bed *b = &the_bed;
	const struct adapter_config ac = {
		.options = { .tags_max = 32, .translations_max = 256, .qps_max = 8 },
		.secret = { 3, 4 },
		.is_there = is_there,
	};
	const struct weft_cq_options co = { .entries_max = 256 };

	*b = (struct ib_bed){ .config = config ? *config : bed_config() };
	b->memory = aligned_alloc(4096, BED_BYTES);
	b->shadow = malloc(BED_BYTES);
	b->out = malloc(BED_OUT_MAX * sizeof(*b->out));
	REQUIRE(b->memory && b->shadow && b->out);
	for (size_t i = 0; i < BED_BYTES; i++)
		b->memory[i] = (uint8_t)(i * 7 + i / 256);
	bed_note(b);
	MUST(adapter_init(&b->adapter, &ac));
	MUST(pd_create(&b->adapter, &(struct weft_pd_options){ .is_privileged = true }, &b->pd));
	MUST(cq_create(&b->adapter, &co, &b->cq));
	qo.send_cq = qo.recv_cq = b->cq;
	qo.sges_max = WEFT_SGES_MAX;
	qo.inline_max_bytes = WEFT_INLINE_MAX;
	qo.is_every_send_signalled = true;
	MUST(qp_create(b->pd, &qo, &loopback_transport, &b->qp));
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options ro = {
		.addr = (uintptr_t)b->memory,
		.length = BED_BYTES,
		.rights = ALL_RIGHTS,
	};
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &b->tag));
	b->port = ib_port_create(&(struct ib_port_config){ .adapter = &b->adapter });
	REQUIRE(b->port);
	MUST(ib_create(b->port, b->qp, &b->config, &b->conn));
	return b;
}

/* Says what it has to say last. */
static void conn_end(struct ib_bed *b)
{
	bed_run(b);
	REQUIRE(ib_port_event(b->port) == b->conn);
	ib_destroy(b->conn);
}

void bed_reset(struct ib_bed *b)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };

	MUST(qp_modify(b->qp, &reset, WEFT_QP_STATE));
	conn_end(b);
}

void bed_close(struct ib_bed *b)
{
	struct weft_completion c;
	uint32_t count;

	qp_destroy(b->qp);
	b->is_held = false;
	conn_end(b);
	REQUIRE(!ib_port_has_output(b->port) && ib_port_due(b->port) == UINT64_MAX);
	ib_port_destroy(b->port);
	while (cq_poll(b->cq, &c, 1, &count) == WEFT_OK && count > 0)
		b->completed++;
	REQUIRE(b->completed == b->posted);
	MUST(cq_destroy(b->cq));
	(void)mem_region_deregister(&b->adapter.mem, b->pd->number, b->tag);
	MUST(pd_destroy(b->pd));
	MUST(adapter_fini(&b->adapter));
	free(b->memory);
	free(b->shadow);
	free(b->out);
}

/* ---- Packets out ---------------------------------------------------------------------------- */

/* A frame of a fabric: everything in it is right, and the path's. */
static void take_frame(struct ib_bed *b, const struct ib_out *out, uint8_t *bytes, size_t length)
{
	struct bed_packet *to = &b->out[(b->out_first + b->out_count - 1) % BED_OUT_MAX];
	struct iba_frame f;

	iba_vcrc_put(bytes, length + IBA_VCRC_BYTES);
	MUST(iba_frame_decode(&f, bytes, length + IBA_VCRC_BYTES));
	REQUIRE(f.lrh.from == out->path->local.from && f.lrh.to == out->path->local.to);
	REQUIRE(f.lrh.level == out->path->local.level && f.has_grh == out->path->local.has_grh);
	to->grh = f.grh;
	to->p = f.packet;
}

/* Every packet that goes out is one that would be taken: lengths and ICRC are right. */
static void take_out(struct ib_bed *b, const struct ib_out *out)
{
	struct bed_packet *to = &b->out[(b->out_first + b->out_count++) % BED_OUT_MAX];
	uint8_t bytes[IBA_FRAME_MAX];
	const struct iba_icrc_ip ip = {
		.is_ipv6 = out->path->is_ipv6,
		.from = &out->path->from,
		.to = &out->path->to,
		.ipv4_id = out->ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
	};
	size_t length = 0;

	REQUIRE(b->out_count <= BED_OUT_MAX && out->spans.length <= sizeof(bytes));
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(bytes + length, out->spans.spans[i].bytes, out->spans.spans[i].length);
		length += out->spans.spans[i].length;
	}
	REQUIRE(length == out->spans.length);
	REQUIRE(!out->room || (out->spans.count == 1 &&
			       out->spans.spans[0].bytes == out->room - out->route_bytes));
	if (out->route_bytes > 0) {
		take_frame(b, out, bytes, length);
	} else {
		const struct ib_in in = { .bytes = bytes, .length = length, .run = out->run };

		REQUIRE(iba_icrc_differs(iba_icrc_begin(&ip, (uint32_t)length), bytes, length) ==
			0);
		MUST(ib_in_decode(&to->p, &in));
	}
	to->path = *out->path;
	to->ecn = out->ecn;
	if (to->p.payload_bytes > 0)
		memcpy(to->payload, to->p.payload, to->p.payload_bytes);
	to->p.payload = to->payload;
}

/* What may go together behind a packet. */
static void take_more(struct ib_bed *b, size_t each)
{
	enum { MORE_MAX = 3 };
	struct ib_out outs[MORE_MAX];
	uint8_t rooms[MORE_MAX][IB_ROUTE_BYTES_MAX + IBA_PACKET_MAX];
	uint32_t count;

	for (uint32_t i = 0; i < MORE_MAX; i++)
		outs[i] = (struct ib_out){ .room = rooms[i] + IB_ROUTE_BYTES_MAX,
					   .ipv4_id = IPV4_ID };
	count = ib_port_send_more(
		b->port, b->now_ns,
		&(struct ib_more){ .outs = outs, .most = MORE_MAX, .each = each });
	for (uint32_t i = 0; i < count; i++)
		take_out(b, &outs[i]);
	b->taken_together += count;
}

void bed_run(struct ib_bed *b)
{
	struct ib_out out = { .ipv4_id = IPV4_ID, .near_number = b->config.path.near_number };
	uint8_t room[IB_ROUTE_BYTES_MAX + IBA_PACKET_MAX];
	bool has_moved = true;

	while (has_moved) {
		while (adapter_progress(&b->adapter, b->now_ns))
			;
		/* In pieces, and in one piece. */
		out.room = b->out_count % 2 ? room + IB_ROUTE_BYTES_MAX : NULL;
		out.run_bytes = b->run_bytes;
		has_moved = !b->is_held && ib_port_send(b->port, b->now_ns, &out);
		if (has_moved)
			take_out(b, &out);
		if (has_moved && !b->is_one_by_one && ib_out_may_have_more(&out))
			take_more(b, out.spans.length);
		has_moved |= !list_is_empty(&b->adapter.ready);
	}
}

/* Deadline by deadline. */
void bed_wait(struct ib_bed *b, uint64_t ns)
{
	uint64_t end = b->now_ns + ns;

	while (ib_port_due(b->port) <= end) {
		if (ib_port_due(b->port) > b->now_ns)
			b->now_ns = ib_port_due(b->port);
		ib_port_expire(b->port, b->now_ns);
		bed_run(b);
	}
	b->now_ns = end;
}

struct bed_packet *bed_next(struct ib_bed *b)
{
	struct bed_packet *p = &b->out[b->out_first];

	REQUIRE(b->out_count > 0);
	b->out_first = (b->out_first + 1) % BED_OUT_MAX;
	b->out_count--;
	return p;
}

struct bed_packet *bed_expect(struct ib_bed *b, enum iba_op op, uint32_t psn)
{
	struct bed_packet *p = bed_next(b);

	REQUIRE(p->p.dest_qp == PEER_QP && p->p.p_key == IBA_PKEY_DEFAULT);
	harness_equal_str(__FILE__, __LINE__, iba_opcode_name(p->p.opcode),
			  iba_opcode_name(iba_opcode(b->qp->is_xrc		 ? IBA_XRC
						     : b->qp->service == WEFT_UC ? IBA_UC
										 : IBA_RC,
						     op)));
	REQUIRE(iba_op(p->p.opcode) == op);
	REQUIRE(p->p.psn == psn);
	return p;
}

void bed_expect_ack(struct ib_bed *b, uint8_t syndrome, uint32_t psn)
{
	struct bed_packet *p = bed_expect(b, IBA_ACKNOWLEDGE, psn);

	if (iba_syndrome(syndrome) == IBA_SYNDROME_ACK)
		REQUIRE(iba_syndrome(p->p.syndrome) == IBA_SYNDROME_ACK);
	else
		REQUIRE(p->p.syndrome == syndrome);
}

void bed_silent(struct ib_bed *b)
{
	REQUIRE(b->out_count == 0);
}

/* ---- Packets in ----------------------------------------------------------------------------- */

enum weft_reason bed_put_by(struct ib_bed *b, const struct bed_way *way, struct iba_packet p,
			    const void *payload, uint32_t bytes)
{
	uint8_t buffer[IBA_PACKET_MAX + 64];
	struct ib_in in = {
		.bytes = buffer,
		.from = way->from,
		.to = way->to ? *way->to : b->config.path.from,
		.is_ipv4_word_known = !way->is_ipv4_hidden,
		.ipv4_id = way->ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
		.traffic_class = way->ecn,
		.run = p.run,
	};
	const struct iba_icrc_ip ip = {
		.from = &in.from,
		.to = &in.to,
		.ipv4_id = way->other_id ? way->other_id : way->ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
	};
	uint32_t at, crc;
	enum weft_reason r;

	in.to.port = IBA_UDP_PORT;
	p.pad = iba_pad(bytes);
	at = iba_encode(&p, buffer);
	crc = iba_icrc_begin(&ip, iba_packet_bytes(p.opcode, bytes));
	crc = iba_icrc_add_packet(crc, buffer, at);
	if (bytes > 0) {
		memcpy(buffer + at, payload, bytes);
		crc = crc32_add(crc, payload, bytes);
		at += bytes;
	}
	at += iba_trailer_encode(crc, p.pad, buffer + at);
	in.length = at;
	if (way->change)
		way->change(buffer, &in.length);
	r = ib_port_recv(b->port, b->now_ns, &in);
	if (!b->is_batch)
		bed_run(b);
	return r;
}

enum weft_reason bed_put(struct ib_bed *b, struct iba_packet p, const void *payload, uint32_t bytes)
{
	const struct bed_way way = { .from = b->config.path.to };

	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	return bed_put_by(b, &way, p, payload, bytes);
}

struct iba_packet peer_op(enum iba_op op, uint32_t psn)
{
	return (struct iba_packet){
		.opcode = iba_opcode(IBA_RC, op),
		.psn = psn & IBA_PSN_MASK,
		.is_ack_requested = true,
	};
}

struct iba_packet peer_reth(struct ib_bed *b, enum iba_op op, uint32_t psn, uint64_t offset,
			    uint32_t bytes)
{
	struct iba_packet p = peer_op(op, psn);

	p.va = (uintptr_t)b->memory + offset;
	p.r_key = b->tag;
	p.dma_bytes = bytes;
	return p;
}

struct iba_packet peer_ack(uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	return (struct iba_packet){
		.opcode = iba_opcode(IBA_RC, IBA_ACKNOWLEDGE),
		.psn = psn & IBA_PSN_MASK,
		.syndrome = syndrome,
		.msn = msn,
	};
}

/* ---- Work ----------------------------------------------------------------------------------- */

void bed_post(struct ib_bed *b, struct weft_send_wr wr, uint64_t offset, uint32_t bytes)
{
	const struct weft_sge s = { (uintptr_t)b->memory + offset, bytes, b->tag };
	uint32_t posted;

	if (!wr.sges) {
		wr.sges = &s;
		wr.sge_count = 1;
	}
	MUST(qp_post_send(b->qp, &wr, 1, &posted));
	b->posted++;
	bed_run(b);
}

void bed_recv(struct ib_bed *b, uint64_t id, uint64_t offset, uint32_t bytes)
{
	const struct weft_sge s = { (uintptr_t)b->memory + offset, bytes, b->tag };
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };
	uint32_t posted;

	MUST(qp_post_recv(b->qp, &wr, 1, &posted));
	b->posted++;
	bed_run(b);
}

void bed_completed(struct ib_bed *b, uint64_t id, enum weft_status status)
{
	struct weft_completion *c = &b->completion;
	uint32_t count;

	MUST(cq_poll(b->cq, c, 1, &count));
	REQUIRE(count == 1);
	b->completed++;
	REQUIRE(c->id == id);
	harness_equal_str(__FILE__, __LINE__, weft_status_name(c->status),
			  weft_status_name(status));
	REQUIRE(c->status == status);
}

void bed_incomplete(struct ib_bed *b)
{
	struct weft_completion c;
	uint32_t count;

	MUST(cq_poll(b->cq, &c, 1, &count));
	REQUIRE(count == 0);
}

void bed_note(struct ib_bed *b)
{
	memcpy(b->shadow, b->memory, BED_BYTES);
}

void bed_unchanged(struct ib_bed *b)
{
	REQUIRE(memcmp(b->shadow, b->memory, BED_BYTES) == 0);
}
