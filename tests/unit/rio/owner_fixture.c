/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/rio/owner_fixture.h"

#include <string.h>

#include "test.h"

static bool is_unit(int end)
{
	return end >= BED_UNIT;
}

void bed_open(struct owner_bed *b)
{
	memset(b, 0, sizeof(*b));
	b->config = (struct rio_owner_config){
		.self = { 1, 1 },
		.requesters_max = BED_REQUESTERS,
		.iounits_max = BED_UNITS,
		.requests_max = BED_REQUESTS,
		.lists_max = BED_LISTS,
		.lists = b->lists,
		.lists_address = BED_LISTS_ADDRESS,
		.timeout_ns = BED_TIMEOUT_NS,
	};
	memset(b->config.secret, 0x5e, sizeof(b->config.secret));
	for (int i = 0; i < BED_ENDS; i++) {
		struct bed_end *e = &b->ends[i];

		e->platform.unit = is_unit(i) ? 2U + (uint32_t)(i - BED_UNIT) : 7U + (uint32_t)i;
		e->platform.process = 1;
		e->requests_max = BED_COMMANDS;
		e->list_max = RIO_COMMAND_LIST_MAX;
		e->address = (struct rio_address){ .family = 4,
						   .port = (uint16_t)(7000 + i),
						   .ip = { 127, 0, 0, 1 } };
	}
}

void bed_start(struct owner_bed *b)
{
	REQUIRE(rio_owner_create(&b->config, &b->policy, &b->owner) == WEFT_OK);
}

void bed_close(struct owner_bed *b)
{
	rio_owner_destroy(b->owner);
}

void bed_allow(struct owner_bed *b, struct rio_rule rule)
{
	REQUIRE(rio_policy_add(&b->policy, &rule) == WEFT_OK);
}

void bed_allow_all(struct owner_bed *b)
{
	bed_allow(b, (struct rio_rule){ .operations = 1U << SGL_READ | 1U << SGL_WRITE |
						      1U << SGL_FLUSH | 1U << SGL_WRITE_ZEROES |
						      1U << SGL_DISCARD });
}

/* ---- They come and go ----------------------------------------------------------------------- */

enum weft_reason bed_try_come(struct owner_bed *b, int end)
{
	static uint8_t sessions;
	struct bed_end *e = &b->ends[end];
	struct rio_handshake c = { .address = e->address,
				   .requests_max = e->requests_max,
				   .list_max = e->list_max };
	enum weft_reason r;

	c.greet.peer.platform = e->platform;
	c.greet.peer.role = is_unit(end) ? RIO_IOUNIT : RIO_REQUESTER;
	memset(c.greet.session.send_key, ++sessions, RIO_KEY_BYTES);
	memset(c.greet.session.receive_key, ++sessions, RIO_KEY_BYTES);
	c.greet.session.sent = c.greet.session.received = 2;
	r = rio_owner_came(b->owner, &c, is_unit(end) ? (uint32_t)(end - BED_UNIT) + 1 : 0,
			   &e->number);
	if (r != WEFT_OK)
		return r;
	e->is_here = true;
	e->is_sent_away = false;
	e->session = c.greet.session;
	memcpy(e->session.send_key, c.greet.session.receive_key, RIO_KEY_BYTES);
	memcpy(e->session.receive_key, c.greet.session.send_key, RIO_KEY_BYTES);
	return WEFT_OK;
}

void bed_come(struct owner_bed *b, int end)
{
	REQUIRE(bed_try_come(b, end) == WEFT_OK);
}

void bed_leave(struct owner_bed *b, int end)
{
	REQUIRE(b->ends[end].is_here);
	b->ends[end].is_here = false;
	rio_owner_left(b->owner, b->ends[end].number, WEFT_R_STREAM_LOST);
}

enum weft_reason bed_try_say(struct owner_bed *b, int end, const struct rio_msg *m)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length = rio_session_close(&b->ends[end].session, m, bytes, sizeof(bytes));

	REQUIRE(length > 0);
	return rio_owner_take(b->owner, b->ends[end].number, bytes, length, b->now_ns);
}

void bed_say(struct owner_bed *b, int end, const struct rio_msg *m)
{
	REQUIRE(bed_try_say(b, end, m) == WEFT_OK);
}

void bed_tell_devices(struct owner_bed *b, int end)
{
	static const struct rio_device devices[2] = {
		{ .number = 1,
		  .block_bytes = 512,
		  .size_bytes = BED_DISK,
		  .flags = RIO_DEVICE_FLUSH | RIO_DEVICE_FUA | RIO_DEVICE_ZEROES,
		  .name = { (const uint8_t *)"disk", 4 } },
		{ .number = 2,
		  .block_bytes = 4096,
		  .size_bytes = BED_DISK,
		  .flags = RIO_DEVICE_READ_ONLY,
		  .name = { (const uint8_t *)"archive", 7 } },
	};
	uint8_t entries[256];
	struct wr w = wr_of(entries, sizeof(entries));

	for (int i = 0; i < 2; i++)
		rio_device_put(&devices[i], &w);
	bed_say(b, end,
		&(struct rio_msg){
			.type = RIO_DEVICES,
			.devices = { .count = 2,
				     .entries = { entries, (size_t)(w.at - entries) } } });
}

void bed_all_come(struct owner_bed *b)
{
	for (int i = 0; i < BED_ENDS; i++)
		bed_come(b, i);
	for (int i = BED_UNIT; i < BED_ENDS; i++)
		bed_tell_devices(b, i);
	bed_run(b);
	bed_forget(b);
}

/* ---- What the owner does -------------------------------------------------------------------- */

static int end_of(const struct owner_bed *b, uint32_t number)
{
	for (int i = 0; i < BED_ENDS; i++) {
		if (b->ends[i].is_here && b->ends[i].number == number)
			return i;
	}
	return -1;
}

static void hear(struct owner_bed *b, const struct rio_owner_act *act)
{
	int end = end_of(b, act->number);
	struct bed_end *e = &b->ends[end];
	struct heard *h;

	REQUIRE(end >= 0);
	h = &e->heard[e->heard_count++];
	REQUIRE(e->heard_count <= BED_HEARD_MAX);
	REQUIRE(act->length <= sizeof(h->bytes));
	memcpy(h->bytes, act->bytes, act->length);
	REQUIRE(rio_session_open(&e->session, h->bytes, act->length, &h->m) == WEFT_OK);
	h->order = b->order;
	h->is_old = false;
}

void bed_fetched(struct owner_bed *b, uint32_t fetch, enum weft_reason reason)
{
	struct bed_fetch f = b->fetches[fetch];

	REQUIRE(fetch < b->fetch_count);
	b->fetches[fetch] = b->fetches[--b->fetch_count];
	if (reason == WEFT_OK) {
		REQUIRE(f.act.remote + f.act.length <= BED_MEMORY);
		memcpy(f.act.bytes, b->ends[f.end].memory + f.act.remote, f.act.length);
	}
	rio_owner_fetched(b->owner, f.act.id, reason);
}

static void begin_fetch(struct owner_bed *b, const struct rio_owner_act *act)
{
	int end = end_of(b, act->number);

	REQUIRE(end >= 0 && !is_unit(end) && b->fetch_count < BED_LISTS);
	REQUIRE(act->bytes >= b->lists && act->bytes + act->length <= b->lists + sizeof(b->lists));
	b->fetches[b->fetch_count++] = (struct bed_fetch){ *act, end };
	if (!b->is_holding)
		bed_fetched(b, b->fetch_count - 1, WEFT_OK);
}

static void expose(struct owner_bed *b, const struct rio_owner_act *act)
{
	struct bed_window *v = &b->windows[act->id];
	int end = end_of(b, act->number);

	REQUIRE(end >= 0 && is_unit(end));
	REQUIRE(act->id < b->config.lists_max && !v->is_open);
	REQUIRE(act->bytes == b->lists + (size_t)act->id * RIO_LIST_BYTES_MAX);
	REQUIRE(act->length > 0 && act->length <= RIO_LIST_BYTES_MAX);
	if (b->expose_reason == WEFT_OK) {
		v->is_open = true;
		v->unit = end;
		v->handle = BED_HANDLE + ++b->exposed;
		v->bytes = act->bytes;
		v->length = act->length;
		memcpy(v->was, v->bytes, v->length);
	}
	rio_owner_exposed(b->owner, act->id, b->expose_reason, v->handle);
}

/* A unit reads exactly the list it was given: the slot is not reused meanwhile. */
static void expect_unchanged(const struct owner_bed *b)
{
	for (uint32_t i = 0; i < BED_LISTS; i++) {
		const struct bed_window *v = &b->windows[i];

		REQUIRE(!v->is_open || memcmp(v->was, v->bytes, v->length) == 0);
	}
}

bool bed_step(struct owner_bed *b)
{
	struct rio_owner_act act;

	expect_unchanged(b);
	if (!rio_owner_act(b->owner, &act))
		return false;
	expect_unchanged(b);
	b->order++;
	switch (act.kind) {
	case RIO_OWNER_SAY:
		hear(b, &act);
		break;
	case RIO_OWNER_FETCH:
		begin_fetch(b, &act);
		break;
	case RIO_OWNER_NOTE:
		REQUIRE(b->note_count < BED_NOTES_MAX);
		b->notes[b->note_count++] = (struct bed_note){ act.note, b->order };
		break;
	case RIO_OWNER_SEND_AWAY:
		REQUIRE(end_of(b, act.number) >= 0);
		b->ends[end_of(b, act.number)].is_sent_away = true;
		break;
	case RIO_OWNER_EXPOSE:
		expose(b, &act);
		break;
	case RIO_OWNER_CLOSE:
		REQUIRE(act.id < b->config.lists_max && b->windows[act.id].is_open);
		b->windows[act.id].is_open = false;
		b->closed++;
		break;
	}
	return true;
}

void bed_run(struct owner_bed *b)
{
	int steps = 0;

	while (bed_step(b))
		REQUIRE(++steps < 10000);
}

void bed_forget(struct owner_bed *b)
{
	for (int i = 0; i < BED_ENDS; i++)
		b->ends[i].heard_count = 0;
	b->note_count = 0;
}

struct heard *bed_heard(struct owner_bed *b, int end, enum rio_msg_type type)
{
	for (uint32_t i = 0; i < b->ends[end].heard_count; i++) {
		struct heard *h = &b->ends[end].heard[i];

		if (!h->is_old && h->m.type == type) {
			h->is_old = true;
			return h;
		}
	}
	return NULL;
}

uint32_t bed_count(const struct owner_bed *b, int end, enum rio_msg_type type)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < b->ends[end].heard_count; i++)
		count += b->ends[end].heard[i].m.type == type;
	return count;
}

struct bed_note *bed_note_of(struct owner_bed *b, enum rio_note_kind kind, uint64_t request,
			     uint32_t nth)
{
	for (uint32_t i = 0; i < b->note_count; i++) {
		struct bed_note *n = &b->notes[i];

		if (n->note.kind == kind && n->note.request == request && nth-- == 0)
			return n;
	}
	return NULL;
}

void bed_status(struct owner_bed *b, int unit, uint64_t id, enum weft_reason reason, uint64_t bytes)
{
	bed_say(b, unit,
		&(struct rio_msg){ .type = RIO_STATUS,
				   .id = id,
				   .status = { .reason = (uint32_t)reason,
					       .done_bytes = bytes,
					       .text = { (const uint8_t *)"as it went", 10 } } });
}

void bed_cancel(struct owner_bed *b, int end, uint64_t id)
{
	bed_say(b, end, &(struct rio_msg){ .type = RIO_CANCEL, .id = id });
}

/* Who heard this. */
static int unit_of(const struct owner_bed *b, const struct heard *h)
{
	int unit = BED_UNIT;

	while (h < b->ends[unit].heard || h >= b->ends[unit].heard + BED_HEARD_MAX)
		REQUIRE(++unit < BED_ENDS);
	return unit;
}

/* That he can read by this handle; NULL: none. */
static const struct bed_window *window_of(const struct owner_bed *b, uint32_t handle, int unit)
{
	for (uint32_t i = 0; i < BED_LISTS; i++) {
		const struct bed_window *v = &b->windows[i];

		if (v->is_open && v->handle == handle && v->unit == unit)
			return v;
	}
	return NULL;
}

struct rio_list *bed_list_of(struct owner_bed *b, const struct heard *command)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *l = rio_list_create(&limits);
	struct sgl_chain c;

	REQUIRE(l);
	REQUIRE(rio_list_take(l, command->m.request.list.bytes, command->m.request.list.length) ==
		WEFT_OK);
	while (rio_list_wants(l, &c)) {
		const struct bed_window *v = window_of(b, c.handle, unit_of(b, command));

		REQUIRE(v && platform_is_same(c.platform, b->config.self) && c.length == v->length);
		REQUIRE(c.address - b->config.lists_address == (uint64_t)(v->bytes - b->lists));
		REQUIRE(rio_list_take(l, v->bytes, c.length) == WEFT_OK);
	}
	REQUIRE(rio_list_is_whole(l));
	return l;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static void put(struct paper *p, struct sgl_element e)
{
	p->latest = p->w.at;
	sgl_put(&e, &p->attributes, &p->w);
	REQUIRE(!p->w.is_short);
}

void paper_start(struct paper *p)
{
	p->w = wr_of(p->bytes, sizeof(p->bytes));
	p->attributes = sgl_attributes_default();
	p->handle = 0xa1;
}

size_t paper_bytes(const struct paper *p)
{
	return (size_t)(p->w.at - p->bytes);
}

void paper_attributes(struct paper *p, uint8_t address_bytes)
{
	p->attributes.address_bytes = address_bytes;
	put(p, (struct sgl_element){ .kind = SGL_ATTRIBUTES, .attributes = p->attributes });
}

void paper_chain(struct paper *p, struct platform platform, uint64_t address, size_t length)
{
	put(p, (struct sgl_element){ .kind = SGL_CHAIN,
				     .chain = { platform, 0x77, (uint32_t)length, address } });
}

void paper_platform(struct paper *p, struct platform platform)
{
	put(p, (struct sgl_element){ .kind = SGL_PLATFORM, .platform = platform });
}

void paper_transaction(struct paper *p, struct sgl_transaction t)
{
	put(p, (struct sgl_element){ .kind = SGL_TRANSACTION, .transaction = t });
}

void paper_result(struct paper *p, uint32_t length, bool ends_buffer)
{
	put(p, (struct sgl_element){
		       .kind = SGL_DETAIL,
		       .detail = { SGL_RESULT, ends_buffer, p->handle, length, 0x1000 } });
}

void paper_read(struct paper *p, uint32_t device, uint64_t offset, uint32_t length)
{
	paper_transaction(p, (struct sgl_transaction){ SGL_READ, false, device, offset, length });
	paper_result(p, length, true);
}

void paper_read_pieces(struct paper *p, uint32_t device, uint32_t count)
{
	paper_transaction(p, (struct sgl_transaction){ SGL_READ, false, device, 0, count * 16ULL });
	for (uint32_t i = 0; i < count; i++)
		paper_result(p, 16, i + 1 == count);
}

void paper_last(struct paper *p)
{
	sgl_set_last(p->latest);
}

enum weft_reason bed_try_ask(struct owner_bed *b, int end, uint64_t id, const struct paper *p,
			     uint32_t timeout_ms)
{
	return bed_try_say(
		b, end,
		&(struct rio_msg){ .type = RIO_REQUEST,
				   .id = id,
				   .request = { .timeout_ms = timeout_ms,
						.list = { p->bytes, paper_bytes(p) } } });
}

void bed_ask(struct owner_bed *b, int end, uint64_t id, const struct paper *p)
{
	REQUIRE(bed_try_ask(b, end, id, p, 0) == WEFT_OK);
}

void bed_ask_read(struct owner_bed *b, int end, uint64_t id, uint32_t device)
{
	static struct paper p;

	paper_start(&p);
	paper_platform(&p, b->ends[end].platform);
	paper_read(&p, device, 0, 512);
	paper_last(&p);
	bed_ask(b, end, id, &p);
}

void bed_open_all(struct owner_bed *b)
{
	bed_open(b);
	bed_start(b);
	bed_allow_all(b);
	bed_all_come(b);
}

enum weft_reason bed_ended_with(struct owner_bed *b, int end)
{
	const struct heard *h = bed_heard(b, end, RIO_STATUS);

	return h ? (enum weft_reason)h->m.status.reason : WEFT_REASON_COUNT;
}

uint32_t bed_under_way(struct owner_bed *b, int end)
{
	struct rio_owner_peer q;

	rio_owner_query(b->owner, b->ends[end].number, &q);
	return q.now;
}

size_t bed_write_chained(struct owner_bed *b, int end, struct paper *p, uint32_t pieces)
{
	static struct paper rest;
	const uint64_t at = 64;

	paper_start(&rest);
	paper_platform(&rest, b->ends[end].platform);
	paper_read_pieces(&rest, BED_DEVICE(0, 1), pieces);
	paper_last(&rest);
	memcpy(b->ends[end].memory + at, rest.bytes, paper_bytes(&rest));
	paper_start(p);
	paper_chain(p, b->ends[end].platform, at, paper_bytes(&rest));
	return paper_bytes(&rest);
}

size_t bed_ask_chained(struct owner_bed *b, int end, uint64_t id, uint32_t pieces)
{
	static struct paper p;
	size_t length = bed_write_chained(b, end, &p, pieces);

	bed_ask(b, end, id, &p);
	return length;
}

void bed_status_next(struct owner_bed *b, int unit)
{
	const struct heard *h = bed_heard(b, unit, RIO_COMMAND);

	REQUIRE(h);
	bed_status(b, unit, h->m.id, WEFT_OK, 512);
}
