/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator_fixture.h"
#include "test.h"

#include <string.h>

#define SECOND BENCH_SECOND

/* ---- The port ------------------------------------------------------------------------------- */

static struct bench_pdu *log_next(struct bench *b, const uint8_t bhs[ISCSI_BHS_BYTES])
{
	struct bench_pdu *p = &b->log[b->count];

	REQUIRE(b->count < BENCH_LOG);
	*p = (struct bench_pdu){ 0 };
	b->count++;
	REQUIRE(iscsi_decode(&p->pdu, ISCSI_INITIATOR, rd_of(bhs, ISCSI_BHS_BYTES),
			     ISCSI_DATA_MAX) == WEFT_OK);
	return p;
}

static bool send_control(void *port, const uint8_t bhs[ISCSI_BHS_BYTES], const uint8_t *data,
			 uint32_t data_bytes)
{
	struct bench *b = port;
	struct bench_pdu *p;

	if (b->is_full)
		return false;
	p = log_next(b, bhs);
	REQUIRE(p->pdu.opcode != ISCSI_SCSI_COMMAND && p->pdu.data_bytes == data_bytes);
	REQUIRE(data_bytes <= sizeof(p->data));
	if (data_bytes > 0)
		memcpy(p->data, data, data_bytes);
	p->data_bytes = data_bytes;
	return true;
}

static bool send_command(void *port, const struct iscsi_port_command *c)
{
	struct bench *b = port;
	struct bench_pdu *p;

	if (b->is_full)
		return false;
	REQUIRE(c->slot < BENCH_DEPTH && !b->is_open[c->slot]);
	b->is_open[c->slot] = true;
	p = log_next(b, c->bhs);
	REQUIRE(p->pdu.opcode == ISCSI_SCSI_COMMAND);
	REQUIRE(p->pdu.expected_bytes == c->request->expected_bytes);
	p->slot = c->slot;
	return true;
}

static bool tag(void *port, uint32_t slot, uint32_t *itt)
{
	struct bench *b = port;

	*itt = BENCH_TAG + slot;
	return !b->is_tagless;
}

static bool forget(void *port, uint32_t slot)
{
	struct bench *b = port;

	if (b->cannot_forget)
		return false;
	REQUIRE(b->is_open[slot]);
	b->is_open[slot] = false;
	b->forgets++;
	return true;
}

static void agreed(void *port, const struct iscsi_params *p)
{
	struct bench *b = port;

	b->agreed = *p;
	b->agreements++;
}

static void close_port(void *port)
{
	struct bench *b = port;

	b->closes++;
}

/* ---- The session ---------------------------------------------------------------------------- */

void bench_init(struct bench *b)
{
	*b = (struct bench){
		.config = { .initiator_name = iscsi_word("iqn.2001-04.com.example:host"),
			    .target_name = iscsi_word("iqn.2001-04.com.example:disk"),
			    .isid = { 0x80, 1, 2, 3, 4, 5 },
			    .portal_group_tag = -1,
			    .recovery = { .reconnects_max = 3, .retries_max = 3 } },
		.calls = { .tag_count = 256,
			   .shows_data = true,
			   .send_control = send_control,
			   .send_command = send_command,
			   .tag = tag,
			   .forget = forget,
			   .agreed = agreed,
			   .close = close_port },
		.now_ns = SECOND,
	};
	iscsi_params_init(&b->config.wish);
	iscsi_initiator_limits_init(&b->config.limits);
	b->config.limits.depth = BENCH_DEPTH;
	b->config.limits.requests_max = BENCH_REQUESTS;
	b->config.limits.command_ns = 60 * SECOND;
	b->config.limits.task_ns = 10 * SECOND;
	b->config.limits.ping_after_ns = 1000 * SECOND;
	b->config.limits.ping_ns = 5 * SECOND;
}

void bench_open(struct bench *b)
{
	REQUIRE(iscsi_initiator_create(&b->config, &b->i) == WEFT_OK);
}

void bench_end(struct bench *b)
{
	enum iscsi_initiator_state state;

	iscsi_initiator_end(b->i, WEFT_R_ISCSI_ENDED, b->now_ns);
	state = iscsi_initiator_state(b->i);
	if (state == ISCSI_SESSION_CLOSING || state == ISCSI_SESSION_CONNECTING)
		iscsi_initiator_lost(b->i, WEFT_OK, b->now_ns);
}

void bench_close(struct bench *b)
{
	bench_end(b);
	iscsi_initiator_destroy(b->i);
}

bool bench_event(struct bench *b, enum iscsi_event_kind kind)
{
	while (iscsi_initiator_event(b->i, &b->event)) {
		if (b->event.kind != kind)
			continue;
		memcpy(b->address, b->event.address.at ? b->event.address.at : "",
		       b->event.address.length);
		b->address[b->event.address.length] = 0;
		return true;
	}
	return false;
}

void bench_connect(struct bench *b)
{
	static const uint8_t random[CHAP_RANDOM_BYTES] = { 1 };

	REQUIRE(bench_event(b, ISCSI_EVENT_CONNECT));
	b->stat_sn = 100;
	b->exp_cmd_sn = 1;
	b->max_cmd_sn = 64;
	memset(b->is_open, 0, sizeof(b->is_open));
	bench_clear(b);
	iscsi_initiator_begin(b->i, &b->calls, b, random, b->now_ns);
}

void bench_login(struct bench *b)
{
	const struct bench_pdu *request = bench_sent(b, ISCSI_LOGIN_REQUEST);
	struct iscsi_pdu p = {
		.opcode = ISCSI_LOGIN_RESPONSE,
		.is_final = true,
		.csg = ISCSI_STAGE_OPERATIONAL,
		.nsg = ISCSI_STAGE_FULL_FEATURE,
		.tsih = 7,
	};

	REQUIRE(request);
	p.itt = request->pdu.itt;
	p.isid = request->pdu.isid;
	bench_clear(b);
	bench_give(b, &p, -1, NULL, 0);
	REQUIRE(bench_event(b, ISCSI_EVENT_LOGIN));
}

void bench_start(struct bench *b)
{
	bench_init(b);
	bench_open(b);
	bench_connect(b);
	bench_login(b);
}

void bench_clear(struct bench *b)
{
	b->count = 0;
}

const struct bench_pdu *bench_sent(const struct bench *b, uint8_t opcode)
{
	for (uint32_t k = b->count; k-- > 0;)
		if (b->log[k].pdu.opcode == opcode)
			return &b->log[k];
	return NULL;
}

uint32_t bench_count(const struct bench *b, uint8_t opcode)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < b->count; k++)
		count += b->log[k].pdu.opcode == opcode;
	return count;
}

/* ---- The target ----------------------------------------------------------------------------- */

void bench_give_raw(struct bench *b, const struct iscsi_pdu *p, int slot, const void *data,
		    uint32_t data_bytes)
{
	uint8_t bhs[ISCSI_BHS_BYTES];
	struct wr w = wr_of(bhs, sizeof(bhs));
	struct iscsi_pdu pdu = *p;
	struct iscsi_received r = {
		.header = bhs,
		.header_bytes = sizeof(bhs),
		.data = data,
		.data_bytes = data_bytes,
		.has_slot = slot >= 0,
		.slot = (uint32_t)slot,
	};
	bool is_end = p->opcode == ISCSI_SCSI_RESPONSE ||
		      (p->opcode == ISCSI_DATA_IN && p->has_status);

	if (data)
		pdu.data_bytes = data_bytes;
	if (is_end && slot >= 0 && slot < BENCH_DEPTH)
		b->is_open[slot] = false;
	iscsi_encode(&pdu, &w);
	iscsi_initiator_take(b->i, &r, b->now_ns);
}

void bench_give(struct bench *b, const struct iscsi_pdu *p, int slot, const void *data,
		uint32_t data_bytes)
{
	struct iscsi_pdu pdu = *p;

	pdu.stat_sn = b->stat_sn;
	pdu.exp_cmd_sn = b->exp_cmd_sn;
	pdu.max_cmd_sn = b->max_cmd_sn;
	if (!(p->opcode == ISCSI_R2T || (p->opcode == ISCSI_DATA_IN && !p->has_status) ||
	      (p->opcode == ISCSI_NOP_IN && p->itt == ISCSI_TAG_NONE)))
		b->stat_sn++;
	bench_give_raw(b, &pdu, slot, data, data_bytes);
}

void bench_answer(struct bench *b, uint32_t slot, uint8_t status)
{
	struct iscsi_pdu p = {
		.opcode = ISCSI_SCSI_RESPONSE,
		.is_final = true,
		.itt = BENCH_TAG + slot,
		.status = status,
	};

	bench_give(b, &p, (int)slot, NULL, 0);
}

void bench_task_answer(struct bench *b, uint32_t itt, uint8_t response)
{
	struct iscsi_pdu p = {
		.opcode = ISCSI_TASK_RESPONSE,
		.is_final = true,
		.code = response,
		.itt = itt,
	};

	bench_give(b, &p, -1, NULL, 0);
}

void bench_lose(struct bench *b, enum weft_reason reason)
{
	memset(b->is_open, 0, sizeof(b->is_open));
	iscsi_initiator_lost(b->i, reason, b->now_ns);
}

void bench_pass(struct bench *b, uint64_t ns)
{
	uint64_t end_ns = b->now_ns + ns;

	while (iscsi_initiator_due(b->i) <= end_ns) {
		if (b->now_ns < iscsi_initiator_due(b->i))
			b->now_ns = iscsi_initiator_due(b->i);
		iscsi_initiator_expire(b->i, b->now_ns);
	}
	b->now_ns = end_ns;
}

void bench_command(struct iscsi_request *r, uint8_t opcode)
{
	*r = (struct iscsi_request){
		.kind = ISCSI_REQUEST_COMMAND,
		.attr = ISCSI_ATTR_SIMPLE,
		.cdb = { opcode },
	};
	if (opcode == 0x28) {
		r->direction = ISCSI_READ;
		r->expected_bytes = 512;
	} else if (opcode == 0x2a) {
		r->direction = ISCSI_WRITE;
		r->expected_bytes = 512;
	}
}

void bench_submit(struct bench *b, struct iscsi_request *r)
{
	REQUIRE(iscsi_initiator_submit(b->i, r, b->now_ns) == WEFT_OK);
}

void bench_again(struct bench *b)
{
	bench_lose(b, WEFT_R_CONNECT_CLOSED);
	bench_pass(b, 10 * SECOND);
	bench_connect(b);
	bench_login(b);
}
