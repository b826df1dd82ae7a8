/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/iscsi/live_iscsi.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define TARGET "iqn.2026-11.org.example:disk"

enum { LUN = 0, ALL_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };

/* ---- Life ----------------------------------------------------------------------------------- */

static uint8_t *receive_at(const struct consumer *c, uint32_t n)
{
	return c->memory + DATA_BYTES + (size_t)(n % RECEIVES) * PDU_BYTES;
}

static void post_receive(struct consumer *c)
{
	const struct weft_sge sge = { (uintptr_t)receive_at(c, c->receives), PDU_BYTES, c->tag };
	const struct weft_recv_wr wr = { .id = c->receives, .sges = &sge, .sge_count = 1 };
	enum weft_reason r = weft_qp_post_recv(c->qp, &wr, 1, NULL);

	if (r != WEFT_OK)
		harness_note("%s", weft_reason_name(r));
	REQUIRE(r == WEFT_OK);
	c->receives++;
}

void consumer_receives(struct consumer *c)
{
	for (int i = 0; i < RECEIVES; i++)
		post_receive(c);
}

struct weft_qp *consumer_qp(struct consumer *c, const struct consumer_options *o)
{
	const struct weft_qp_options options = {
		.send_cq = c->sent,
		.recv_cq = c->received,
		.service = WEFT_ISCSI,
		.recv_max = RECEIVES,
		.send_max = 128,
		.inline_max_bytes = 512,
		.outstanding_max = o->outstanding_max ? o->outstanding_max : 64,
	};
	const struct weft_qp_attr attr = { .state = WEFT_QPS_INIT,
					   .receiver_wait_ns = PATIENCE_NS,
					   .on_failure = o->on_failure };
	struct weft_qp *qp;

	MUST(weft_qp_create(c->pd, &options, &qp));
	MUST(weft_qp_modify(qp, &attr, WEFT_QP_STATE | WEFT_QP_RECEIVER_WAIT | WEFT_QP_ON_FAILURE));
	return qp;
}

void consumer_open(struct consumer *c, const struct consumer_options *options)
{
	static const struct consumer_options defaults;
	const struct consumer_options *o = options ? options : &defaults;
	const struct weft_pd_options pd = { .is_privileged = o->is_privileged };
	const struct weft_cq_options cq = { .entries_max = 1024 };
	size_t bytes = DATA_BYTES + (size_t)RECEIVES * PDU_BYTES;
	struct weft_region_options region = { .length = bytes, .rights = ALL_RIGHTS };

	*c = (struct consumer){ .adapter = o->beside, .is_beside = o->beside };
	if (!o->beside)
		MUST(weft_adapter_open(o->adapter ? o->adapter : &node_tables, &c->adapter));
	c->is_in_domain = o->domain;
	if (o->domain)
		c->pd = o->domain->pd;
	else
		MUST(weft_pd_create(c->adapter, &pd, &c->pd));
	MUST(weft_cq_create(c->adapter, &cq, &c->sent));
	MUST(weft_cq_create(c->adapter, &cq, &c->received));
	c->memory = aligned_alloc(4096, bytes);
	REQUIRE(c->memory);
	memset(c->memory, 0, bytes);
	region.addr = (uintptr_t)c->memory;
	MUST(weft_region_register(c->pd, &region, &c->tag));
	c->qp = consumer_qp(c, o);
	consumer_receives(c);
}

void consumer_close(struct consumer *c)
{
	MUST(weft_qp_destroy(c->qp));
	REQUIRE(c->is_beside || consumer_entries(c) == 0);
	MUST(weft_region_deregister(c->pd, c->tag));
	MUST(weft_cq_destroy(c->sent));
	MUST(weft_cq_destroy(c->received));
	if (!c->is_in_domain)
		MUST(weft_pd_destroy(c->pd));
	free(c->memory);
}

enum weft_reason consumer_await(struct consumer *c, enum weft_event_kind kind)
{
	struct weft_event event;
	bool has_event;

	for (;;) {
		MUST(weft_event_next(c->adapter, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
		if (event.kind == kind)
			return event.reason;
		if (event.kind == WEFT_EVENT_CONNECT_FAILED)
			harness_note("%s", weft_reason_name(event.reason));
		REQUIRE(event.kind != WEFT_EVENT_CONNECT_FAILED);
	}
}

void consumer_connect(struct consumer *c, const struct weft_address *at)
{
	MUST(weft_qp_dial(c->qp, at, NULL));
	REQUIRE(consumer_await(c, WEFT_EVENT_CONNECTED) == WEFT_OK);
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct weft_sge consumer_sge(const struct consumer *c, size_t offset, uint32_t length)
{
	return (struct weft_sge){ (uintptr_t)c->memory + offset, length, c->tag };
}

static struct iscsi_pdu blocks_pdu(struct consumer *c, uint8_t code, uint32_t lba, uint32_t blocks)
{
	return (struct iscsi_pdu){
		.opcode = ISCSI_SCSI_COMMAND,
		.is_final = true,
		.attr = ISCSI_ATTR_SIMPLE,
		.expected_bytes = blocks * BLOCK_BYTES,
		.cmd_sn = ++c->cmd_sn,
		.cdb = { code, 0, (uint8_t)(lba >> 24), (uint8_t)(lba >> 16), (uint8_t)(lba >> 8),
			 (uint8_t)lba, 0, (uint8_t)(blocks >> 8), (uint8_t)blocks },
	};
}

struct iscsi_pdu read_pdu(struct consumer *c, uint32_t lba, uint32_t blocks)
{
	struct iscsi_pdu p = blocks_pdu(c, 0x28, lba, blocks);

	p.is_read = true;
	return p;
}

struct iscsi_pdu write_pdu(struct consumer *c, uint32_t lba, uint32_t blocks)
{
	struct iscsi_pdu p = blocks_pdu(c, 0x2a, lba, blocks);

	p.is_write = true;
	return p;
}

struct weft_iscsi_pdu wr_pdu(const struct iscsi_pdu *p)
{
	struct weft_iscsi_pdu pdu = { 0 };
	struct wr w = wr_of(pdu.bhs, sizeof(pdu.bhs));

	iscsi_encode(p, &w);
	REQUIRE(!w.is_short);
	return pdu;
}

enum weft_reason consumer_try(struct consumer *c, const struct iscsi_pdu *p, size_t offset,
			      uint32_t *command_id)
{
	const struct weft_sge sge = consumer_sge(c, offset, p->expected_bytes);
	struct weft_iscsi_pdu pdu = wr_pdu(p);
	struct weft_send_wr wr = { .id = ++c->id,
				   .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = p->expected_bytes > 0 };
	enum weft_reason r = weft_qp_post_send(c->qp, &wr, 1, NULL);

	*command_id = pdu.command_id;
	return r;
}

uint32_t consumer_command(struct consumer *c, const struct iscsi_pdu *p, size_t offset)
{
	uint32_t id;

	MUST(consumer_try(c, p, offset, &id));
	REQUIRE(id != 0);
	return id;
}

enum weft_reason consumer_control(struct consumer *c, const struct iscsi_pdu *p, const void *data)
{
	const struct weft_sge sge = { (uintptr_t)data, p->data_bytes, 0 };
	struct weft_iscsi_pdu pdu = wr_pdu(p);
	struct weft_send_wr wr = { .id = ++c->id,
				   .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_SIGNALLED | WEFT_INLINE,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = p->data_bytes > 0 };

	return weft_qp_post_send(c->qp, &wr, 1, NULL);
}

/* ---- What comes ----------------------------------------------------------------------------- */

struct arrival consumer_next(struct consumer *c)
{
	struct arrival a = { .completion = node_next(c->received) };
	const uint8_t *bytes = receive_at(c, (uint32_t)a.completion.id);
	uint32_t header_bytes;

	post_receive(c);
	if (a.completion.status != WEFT_SUCCESS)
		return a;
	header_bytes = iscsi_header_bytes(bytes);
	(void)iscsi_decode(&a.pdu, ISCSI_TARGET, rd_of(bytes, header_bytes), ISCSI_DATA_MAX);
	if (a.completion.byte_count > header_bytes)
		a.data = bytes + header_bytes;
	return a;
}

struct arrival expect_arrival(struct consumer *c, enum weft_opcode opcode, enum weft_reason reason)
{
	struct arrival a = consumer_next(c);

	if (a.completion.status != WEFT_SUCCESS || a.completion.opcode != opcode ||
	    a.completion.reason != reason)
		harness_note("%s: %s, %s", weft_opcode_name(a.completion.opcode),
			     weft_status_name(a.completion.status),
			     weft_reason_name(a.completion.reason));
	REQUIRE(a.completion.status == WEFT_SUCCESS && a.completion.opcode == opcode &&
		a.completion.reason == reason);
	return a;
}

void expect_sent_well(struct consumer *c)
{
	struct weft_completion completion = node_next(c->sent);

	if (completion.status != WEFT_SUCCESS)
		harness_note("%s", weft_reason_name(completion.reason));
	REQUIRE(completion.status == WEFT_SUCCESS);
}

void expect_no_arrival(struct consumer *c)
{
	struct weft_completion completion;
	bool has;

	REQUIRE(node_poll(c->received, &completion, &has) && !has);
}

struct weft_iscsi_attr consumer_query(const struct consumer *c)
{
	struct weft_iscsi_attr attr;

	MUST(weft_qp_query_iscsi(c->qp, &attr));
	return attr;
}

uint64_t consumer_entries(const struct consumer *c)
{
	struct weft_usage usage;

	MUST(weft_adapter_query(c->adapter, &usage));
	return usage.iscsi_regions;
}

void consumer_login_begin(struct consumer *c, const char *keys, size_t bytes)
{
	static const char names[] = "InitiatorName=iqn.2026-11.org.example:live\0"
				    "TargetName=" TARGET "\0SessionType=Normal";
	char text[1024];
	struct iscsi_pdu p = {
		.opcode = ISCSI_LOGIN_REQUEST,
		.is_immediate = true,
		.is_final = true,
		.csg = ISCSI_STAGE_OPERATIONAL,
		.nsg = ISCSI_STAGE_FULL_FEATURE,
		.isid = 0x800000000001,
		.itt = 1,
		.cmd_sn = 1,
		.data_bytes = (uint32_t)(sizeof(names) + bytes),
	};

	REQUIRE(p.data_bytes <= sizeof(text));
	memcpy(text, names, sizeof(names));
	if (bytes > 0)
		memcpy(text + sizeof(names), keys, bytes);
	MUST(consumer_control(c, &p, text));
	expect_sent_well(c);
}

void consumer_login_end(struct consumer *c, const struct weft_iscsi_terms *terms)
{
	struct arrival a = expect_arrival(c, WEFT_OP_RECV_ISCSI, WEFT_OK);

	REQUIRE(a.pdu.opcode == ISCSI_LOGIN_RESPONSE && a.pdu.status_class == 0);
	REQUIRE(a.pdu.is_final && a.pdu.nsg == ISCSI_STAGE_FULL_FEATURE);
	MUST(weft_qp_modify_iscsi(c->qp, terms));
	c->cmd_sn = 0;
}

void consumer_login(struct consumer *c, const char *keys, size_t bytes,
		    const struct weft_iscsi_terms *terms)
{
	static const struct weft_iscsi_terms defaults;

	consumer_login_begin(c, keys, bytes);
	consumer_login_end(c, terms ? terms : &defaults);
}
