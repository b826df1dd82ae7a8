/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent of InfiniBand's CM on arbitrary messages, times and calls. The input is a program: each
 * step lets a message come (one that the agent said itself, changed or not, or one made up), an
 * owner act, or time pass. The agent keeps its limits, tells of every cm_id one end at most,
 * and when it is left alone nothing stays but what is connected.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "cm/ib_cm.h"

enum { CONVS_MAX = 24, HALF_OPEN_MAX = 8, SEEN_MAX = 8, IDS_MAX = 64, STEPS_MAX = 400 };

struct seen {
	uint32_t id;
	bool is_ended;
};

struct play {
	struct ib_cm *cm;
	uint64_t now_ns;
	struct rd in;
	uint8_t said[SEEN_MAX][MAD_BYTES]; /* the latest of the agent */
	uint32_t said_count;
	struct seen ids[IDS_MAX];
	uint32_t id_count;
};

static struct ibcm_ip ip_of(uint8_t who)
{
	return (struct ibcm_ip){ .from = { { 10, 0, 0, (uint8_t)(2 + who % 2) }, 0 },
				 .to = { { 10, 0, 0, 1 }, 0 } };
}

static uint32_t id_of(struct play *p)
{
	uint8_t n = rd_u8(&p->in);

	return p->id_count ? p->ids[n % p->id_count].id : n;
}

static struct seen *seen_of(struct play *p, uint32_t id)
{
	for (uint32_t i = 0; i < p->id_count; i++) {
		if (p->ids[i].id == id)
			return &p->ids[i];
	}
	return NULL;
}

static void seen_add(struct play *p, uint32_t id)
{
	struct seen *s = seen_of(p, id);

	if (!s && p->id_count < IDS_MAX)
		s = &p->ids[p->id_count++];
	if (s)
		*s = (struct seen){ .id = id };
}

static void events(struct play *p)
{
	struct ib_cm_event e;

	while (ib_cm_event(p->cm, &e)) {
		struct seen *s = seen_of(p, e.id);

		CHECK(e.private_bytes <= IB_CM_DATA_MAX && e.info_bytes <= IBCM_INFO_MAX);
		if (e.kind == IB_CM_REQUESTED || e.kind == IB_CM_SIDR_REQUESTED) {
			CHECK(!s || s->is_ended || p->id_count == IDS_MAX);
			seen_add(p, e.id);
		} else if (s && e.kind >= IB_CM_RESOLVED && e.kind <= IB_CM_DISCONNECTED) {
			CHECK(!s->is_ended);
			s->is_ended = true;
		} else if (s && e.kind == IB_CM_RELEASED) {
			CHECK(s->is_ended);
		}
	}
}

static void drain(struct play *p)
{
	struct ib_cm_out out;
	struct ibcm_msg m;
	uint32_t n = 0;

	while (ib_cm_send(p->cm, p->now_ns, &out)) {
		CHECK(ibcm_decode(&m, out.bytes, MAD_BYTES) == WEFT_OK && m.kind == out.kind);
		CHECK(n++ < 2 * CONVS_MAX + 64);
		memcpy(p->said[p->said_count++ % SEEN_MAX], out.bytes, MAD_BYTES);
	}
	CHECK(!ib_cm_has_output(p->cm));
}

/* A peer's answer to one of the agent's messages, more or less right. */
static void answer(struct play *p)
{
	uint8_t kind = rd_u8(&p->in), which = rd_u8(&p->in), who = rd_u8(&p->in);
	const uint8_t *said = p->said[which % SEEN_MAX];
	struct ibcm_ip ip = ip_of(who);
	uint8_t bytes[MAD_BYTES];
	struct ibcm_msg m, a = { .kind = (enum ibcm_kind)(IBCM_REQ + kind % 11) };

	if (ibcm_decode(&m, said, MAD_BYTES) != WEFT_OK)
		return;
	a.local_id = m.remote_id ? m.remote_id : 100 + who % 4;
	a.remote_id = m.local_id;
	if (a.kind == IBCM_REP)
		a.rep.qpn = rd_u8(&p->in);
	else if (a.kind == IBCM_DREQ)
		a.dreq_remote_qpn = rd_u8(&p->in);
	else if (a.kind == IBCM_MRA)
		a.mra = (struct ibcm_mra){ rd_u8(&p->in) % 3, rd_u8(&p->in) % 32 };
	else if (a.kind == IBCM_REJ)
		a.rej = (struct ibcm_rej){ rd_u8(&p->in) % 3, rd_u8(&p->in) };
	else if (a.kind == IBCM_SIDR_REP)
		a.sidr_rep.request_id = m.kind == IBCM_SIDR_REQ ? m.sidr_req.request_id : 5;
	ibcm_encode(&a, bytes);
	(void)ib_cm_recv(p->cm, p->now_ns, &ip, bytes, sizeof(bytes));
}

/* A request that is nearly right, so that it comes through. */
static void request(struct play *p)
{
	uint8_t who = rd_u8(&p->in), bits = rd_u8(&p->in);
	struct ibcm_ip ip = ip_of(who);
	struct ibcm_msg m = { .kind = bits & 1 ? IBCM_SIDR_REQ : IBCM_REQ };
	uint8_t bytes[MAD_BYTES];

	m.local_id = rd_u8(&p->in) % 16;
	if (bits & 1) {
		m.sidr_req.request_id = m.local_id;
		m.sidr_req.service_id = rd_u8(&p->in) % 4;
	} else {
		m.req = (struct ibcm_req){ .qpn = rd_u8(&p->in) % 16,
					   .service_id = rd_u8(&p->in) % 4,
					   .path_mtu = bits >> 2 & 7,
					   .transport = bits >> 5 & 1,
					   .cm_retries = rd_u8(&p->in) % 16,
					   .remote_timeout = rd_u8(&p->in) % 32,
					   .local_timeout = rd_u8(&p->in) % 32 };
		m.req.primary.ack_timeout = rd_u8(&p->in) % 32;
		m.req.primary.local_gid[10] = m.req.primary.remote_gid[10] = 0xff;
		m.req.primary.local_gid[11] = m.req.primary.remote_gid[11] = 0xff;
		memcpy(m.req.primary.local_gid + 12, ip.from.address, 4);
		memcpy(m.req.primary.remote_gid + 12, ip.to.address, 4);
	}
	ibcm_encode(&m, bytes);
	(void)ib_cm_recv(p->cm, p->now_ns, &ip, bytes, sizeof(bytes));
}

/* Bytes as they are, behind a header that is in order. */
static void noise(struct play *p)
{
	struct mad h = { MAD_CM, IBCM_CLASS_VERSION, MAD_SEND, .tid = 1 };
	struct ibcm_ip ip = ip_of(rd_u8(&p->in));
	uint8_t bytes[MAD_BYTES] = { 0 };

	h.attribute = IBCM_REQ + rd_u8(&p->in) % 12;
	mad_encode(&h, bytes);
	rd_bytes(&p->in, bytes + MAD_HEADER_BYTES, rd_u8(&p->in) % MAD_DATA_BYTES);
	(void)ib_cm_recv(p->cm, p->now_ns, &ip, bytes, sizeof(bytes));
}

static void begin(struct play *p)
{
	uint8_t bits = rd_u8(&p->in);
	struct ibcm_ip to = ip_of(bits);
	struct ibcm_ip ip = { .from = to.to, .to = to.from };
	const struct ib_cm_connect c = { .ip = ip,
					 .end = { .qpn = rd_u8(&p->in) },
					 .mtu_bytes = 1024,
					 .is_plain = bits & 2,
					 .ack_code = bits >> 3,
					 .timeout_ns = (uint64_t)rd_u8(&p->in) << 26 };
	const struct ib_cm_resolve r = { .ip = ip, .service_id = 5 };
	enum weft_reason reason;
	uint32_t id = 0;

	if (bits & 4)
		reason = ib_cm_resolve(p->cm, p->now_ns, &r, &id);
	else
		reason = ib_cm_connect(p->cm, p->now_ns, &c, &id);
	if (reason == WEFT_OK)
		seen_add(p, id);
}

static void call(struct play *p)
{
	uint8_t what = rd_u8(&p->in) % 8;
	uint32_t id = id_of(p);
	const struct ib_cm_accept accept = { .end = { .qpn = 2 + rd_u8(&p->in) } };
	const struct ib_cm_reject reject = { .code = 28 };
	const struct ib_cm_answer sidr = { .qpn = 7 };
	const struct ibcm_bytes none = { 0 };

	switch (what) {
	case 0:
		(void)ib_cm_ready(p->cm, p->now_ns, id, none);
		break;
	case 1:
		(void)ib_cm_accept(p->cm, p->now_ns, id, &accept);
		break;
	case 2:
		(void)ib_cm_reject(p->cm, p->now_ns, id, &reject);
		break;
	case 3:
	case 4:
		(void)ib_cm_established(p->cm, p->now_ns, id);
		break;
	case 5:
		(void)ib_cm_disconnect(p->cm, p->now_ns, id, none);
		break;
	case 6:
		(void)ib_cm_answer(p->cm, p->now_ns, id, &sidr);
		break;
	default:
		ib_cm_forget(p->cm, p->now_ns, id);
		break;
	}
}

static void pass(struct play *p)
{
	uint64_t due = ib_cm_due(p->cm);

	if (due != UINT64_MAX && due > p->now_ns)
		p->now_ns = due;
	ib_cm_expire(p->cm, p->now_ns);
	CHECK(ib_cm_due(p->cm) > p->now_ns);
}

static void step(struct play *p)
{
	const struct ib_cm_counts *c = ib_cm_counts(p->cm);
	uint8_t what = rd_u8(&p->in);

	switch (what % 8) {
	case 0:
		request(p);
		break;
	case 1:
		answer(p);
		break;
	case 2:
		noise(p);
		break;
	case 3:
		begin(p);
		break;
	case 4:
		pass(p);
		break;
	case 5:
		p->now_ns += (uint64_t)rd_u8(&p->in) << 22;
		ib_cm_expire(p->cm, p->now_ns);
		break;
	default:
		call(p);
		break;
	}
	/* Most owners listen at once. */
	if (what & 0x10)
		events(p);
	if (what & 0x20)
		drain(p);
	CHECK(c->cm_ids <= CONVS_MAX && c->half_open <= HALF_OPEN_MAX);
	CHECK(c->timewait + c->half_open <= c->cm_ids);
}

/* The owner leaves everything: in bounded time nothing is left. */
static void finish(struct play *p)
{
	events(p);
	for (uint32_t i = 0; i < p->id_count; i++)
		ib_cm_forget(p->cm, p->now_ns, p->ids[i].id);
	drain(p);
	if (p->id_count == IDS_MAX)
		return; /* there may be some whose ids were not kept */
	for (uint32_t n = 0; ib_cm_due(p->cm) != UINT64_MAX; n++) {
		CHECK(n < 100 * CONVS_MAX);
		pass(p);
		events(p);
		drain(p);
	}
	CHECK(ib_cm_counts(p->cm)->cm_ids == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ib_cm_config config = { .adapter_slot = 3,
						    .key = { 1, 2 },
						    .cm_ids_max = CONVS_MAX,
						    .half_open_max = HALF_OPEN_MAX };
	struct play p = { .now_ns = 1, .in = rd_of(data, size) };

	p.cm = ib_cm_create(&config);
	CHECK(p.cm);
	for (int i = 0; i < STEPS_MAX && p.in.at < p.in.end; i++)
		step(&p);
	finish(&p);
	ib_cm_destroy(p.cm);
	return 0;
}
