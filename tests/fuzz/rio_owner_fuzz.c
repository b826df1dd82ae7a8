/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An owner's core under a history that the input writes: which peers come and leave, what they say
 * (well sealed or not at all), which lists lie in their memory, how fetches and commands end, and
 * how time goes by. A judge that knows what was said, and the rules, checks that
 *
 *	- a request that was taken is answered once, while its requester is here, and in time;
 *	- nothing is commanded that the rules deny, that no requester asked for, or twice; nor for a
 *	  requester that the unit was not told of, or on memory of others that it may not name;
 *	- decisions are written down before anything comes of them, each once;
 *	- in the end no timer, request, command or list slot is left.
 */
#include <string.h>

#include "base/check.h"
#include "rio_owner_judge.h"

/* ---- They come and go ----------------------------------------------------------------------- */

static void leave(int end)
{
	struct owner_peer *e = &w.ends[end];

	if (!e->is_here)
		return;
	e->is_here = e->is_away = e->has_devices = false;
	rio_owner_left(w.owner, e->number, WEFT_OK);
	for (uint32_t i = 0; i < w.wish_count; i++)
		w.wishes[i].is_open = w.wishes[i].is_open && w.wishes[i].end != end;
	if (!is_unit(end))
		return;
	memset(e->knows, 0, sizeof(e->knows));
	for (uint32_t i = 0; i < w.command_count;) {
		if (w.commands[i].unit == end)
			w.commands[i] = w.commands[--w.command_count];
		else
			i++;
	}
}

static void come(int end)
{
	struct owner_peer *e = &w.ends[end];
	struct rio_handshake c = { .requests_max = COMMANDS };
	enum weft_reason r;

	c.address = (struct rio_address){ .family = 4, .port = 7, .ip = { 127, 0, 0, 1 } };
	/* The second unit takes short lists only. */
	c.list_max = end == REQUESTERS + 1 ? 200 : RIO_COMMAND_LIST_MAX;
	c.greet.peer.platform = e->platform;
	c.greet.peer.role = is_unit(end) ? RIO_IOUNIT : RIO_REQUESTER;
	memset(c.greet.session.send_key, ++w.sessions, RIO_KEY_BYTES);
	memset(c.greet.session.receive_key, ++w.sessions, RIO_KEY_BYTES);
	r = rio_owner_came(w.owner, &c, is_unit(end) ? (uint32_t)(end - REQUESTERS) + 1 : 0,
			   &e->number);
	if (e->is_here)
		CHECK(r == WEFT_R_RIO_TWICE);
	else
		CHECK(r == WEFT_OK || r == WEFT_R_LIMIT);
	if (r != WEFT_OK)
		return;
	e->is_here = true;
	e->session = c.greet.session;
	memcpy(e->session.send_key, c.greet.session.receive_key, RIO_KEY_BYTES);
	memcpy(e->session.receive_key, c.greet.session.send_key, RIO_KEY_BYTES);
}

/* ---- What they say -------------------------------------------------------------------------- */

/* True: it was taken. Else it has been sent away. */
static bool said(int end, const struct rio_msg *m)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length = rio_session_close(&w.ends[end].session, m, bytes, sizeof(bytes));
	bool is_away = w.ends[end].is_away;
	enum weft_reason r;

	if (length == 0)
		return false;
	r = rio_owner_take(w.owner, w.ends[end].number, bytes, length, w.now_ns);
	if (is_away)
		CHECK(r != WEFT_OK); /* it is heard no more */
	return r == WEFT_OK;
}

static bool say(int end, const struct rio_msg *m)
{
	bool is_taken = w.ends[end].is_here && said(end, m);

	if (w.ends[end].is_here && !is_taken)
		leave(end);
	return is_taken;
}

static void tell_devices(int end)
{
	static const struct rio_device devices[2] = {
		{ .number = 1,
		  .block_bytes = 512,
		  .size_bytes = DISK,
		  .flags = RIO_DEVICE_FLUSH | RIO_DEVICE_FUA | RIO_DEVICE_ZEROES,
		  .name = { (const uint8_t *)"disk", 4 } },
		{ .number = 2,
		  .block_bytes = 4096,
		  .size_bytes = DISK,
		  .flags = RIO_DEVICE_READ_ONLY,
		  .name = { (const uint8_t *)"archive", 7 } },
	};
	uint8_t entries[256];
	struct wr to = wr_of(entries, sizeof(entries));
	bool is_again = w.ends[end].has_devices, is_taken;

	if (!w.ends[end].is_here)
		return;
	for (int i = 0; i < 2; i++)
		rio_device_put(&devices[i], &to);
	is_taken = say(
		end, &(struct rio_msg){ .type = RIO_DEVICES,
					.devices = { 2, { entries, (size_t)(to.at - entries) } } });
	CHECK(is_taken != is_again);
	w.ends[end].has_devices = w.ends[end].is_here;
}

static void everybody_comes(void)
{
	for (int i = 0; i < ENDS; i++)
		come(i);
	for (int i = REQUESTERS; i < ENDS; i++)
		tell_devices(i);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static struct platform some_platform(int end)
{
	uint8_t which = rd_u8(&w.r);

	if (which < 200)
		return w.ends[end].platform;
	return which < 250 ? w.ends[which % ENDS].platform : (struct platform){ 99, 1 };
}

static void put_element(struct wr *to, int end, const struct sgl_attributes *in)
{
	uint8_t what = rd_u8(&w.r);
	uint32_t length = (uint32_t)rd_u8(&w.r) % 9 * 512, device = rd_u8(&w.r);
	static const uint8_t data[4096];
	struct sgl_element e = { .kind = SGL_DETAIL };

	if (what < 30) {
		e.kind = SGL_PLATFORM;
		e.platform = some_platform(end);
	} else if (what < 50) {
		e.kind = SGL_IMMEDIATE;
		e.immediate.ends_buffer = what & 1;
		e.immediate.length = length;
		e.immediate.data = data;
	} else if (what < 140) {
		e.kind = SGL_TRANSACTION;
		e.transaction.operation = (enum sgl_operation)(what % 6);
		e.transaction.device = (1 + (device >> 1) % 2) << 16 | (1 + device % 2);
		e.transaction.offset = (uint64_t)rd_u8(&w.r) * 512;
		e.transaction.length = e.transaction.operation == SGL_FLUSH ? 0 : length;
	} else {
		e.detail.role = what & 1 ? SGL_SOURCE : SGL_RESULT;
		e.detail.ends_buffer = !(what & 2);
		e.detail.handle = what;
		e.detail.length = length;
		e.detail.address = (uint64_t)what << 16;
	}
	sgl_put(&e, in, to);
}

/* One good transaction, that may be allowed. */
static void put_good(struct wr *to, int end, const struct sgl_attributes *in)
{
	uint8_t how = rd_u8(&w.r);
	bool is_flush = how % 8 == 7, is_write = how % 8 == 6;
	struct sgl_element t = { .kind = SGL_TRANSACTION };
	struct sgl_element d = { .kind = SGL_DETAIL, .detail = { .ends_buffer = true } };

	t.transaction.operation = is_flush ? SGL_FLUSH : is_write ? SGL_WRITE : SGL_READ;
	t.transaction.device = (1 + (how >> 3) % 2U) << 16 | 1;
	t.transaction.length = is_flush ? 0 : 1024;
	t.transaction.offset = is_flush ? 0 : (uint64_t)(how >> 4) * 4096;
	d.detail.role = is_write ? SGL_SOURCE : SGL_RESULT;
	d.detail.length = 1024;
	sgl_put(&(struct sgl_element){ .kind = SGL_PLATFORM, .platform = some_platform(end) }, in,
		to);
	sgl_put(&t, in, to);
	if (!is_flush)
		sgl_put(&d, in, to);
}

/* A sequence of a list; now and then it is anything, or chained further. Its bytes. */
static size_t write_sequence(int end, bool is_first)
{
	struct sgl_attributes in = sgl_attributes_default();
	struct wr to = wr_of(w.list, sizeof(w.list));
	uint8_t how = rd_u8(&w.r);
	uint8_t *latest = w.list;

	if (how == 0) {
		size_t length = (size_t)rd_u8(&w.r) * 4;

		if (length > (size_t)(w.r.end - w.r.at))
			length = 0;
		memcpy(w.list, w.r.at, length);
		w.r.at += length;
		return length;
	}
	if (is_first && how & 1) {
		in.address_bytes = how & 2 ? 4 : 8;
		sgl_put(&(struct sgl_element){ .kind = SGL_ATTRIBUTES, .attributes = in }, &in,
			&to);
	}
	if (how >= 160) { /* the rest, so many bytes, is somewhere else */
		struct sgl_element e = { .kind = SGL_CHAIN,
					 .chain = { .platform = some_platform(end),
						    .handle = how,
						    .length = (1 + rd_u8(&w.r)) * 4U,
						    .address = (uint64_t)how << 12 } };

		sgl_put(&e, &in, &to);
		return (size_t)(to.at - w.list);
	}
	for (uint32_t i = how >> 2 & 3; i > 0; i--)
		put_element(&to, end, &in);
	latest = to.at;
	put_good(&to, end, &in);
	if (how & 0x70) { /* the last element of that is the last of all: 24 or 20 bytes */
		struct rd at = rd_of(latest, (size_t)(to.at - latest));
		struct sgl_element e;

		while (at.at != at.end) {
			latest = (uint8_t *)(uintptr_t)at.at;
			if (sgl_next(&e, &at, &in) != SGL_OK)
				break;
		}
		sgl_set_last(latest);
	}
	return (size_t)(to.at - w.list);
}

static void request(int end)
{
	uint64_t id = rd_u8(&w.r) % IDS;
	uint32_t timeout_ms = rd_u8(&w.r) * 8U;
	size_t length = write_sequence(end, true);
	bool is_known = judge_open_wish(end, id);
	uint32_t open = 0;
	struct wish *wish = &w.wishes[w.wish_count];

	if (!w.ends[end].is_here || w.wish_count == WISHES || length == 0)
		return;
	for (uint32_t i = 0; i < w.wish_count; i++)
		open += w.wishes[i].is_open && w.wishes[i].end == end;
	*wish = (struct wish){ .end = end, .id = id, .is_open = true };
	wish->late_ns = w.now_ns + (uint64_t)(timeout_ms ? timeout_ms : TIMEOUT_MS) * MS;
	w.wish_count++;
	if (!say(end, &(struct rio_msg){ .type = RIO_REQUEST,
					 .id = id,
					 .request = { .timeout_ms = timeout_ms,
						      .list = { w.list, length } } })) {
		w.wish_count--;
		return;
	}
	CHECK(!is_known && open < REQUESTS);
}

/* ---- How things end ------------------------------------------------------------------------- */

/* One of its commands has ended; is_notified: its requester was told by the unit itself. */
static void end_command(uint32_t nth, uint32_t reason, bool is_notified)
{
	struct command c = w.commands[nth];
	uint8_t entry[RIO_NOTIFIED_ENTRY_BYTES];
	struct wr to = wr_of(entry, sizeof(entry));
	struct rio_msg m = { .type = RIO_STATUS,
			     .id = c.id,
			     .status = {
				     .reason = reason, .transaction = reason, .done_bytes = 7 } };

	w.commands[nth] = w.commands[--w.command_count];
	c.wish->has_ended = true;
	c.wish->has_ended_well = reason == 0;
	c.wish->is_notified = is_notified;
	if (is_notified) {
		rio_notified_put(&(struct rio_notified_entry){ c.id, 512 }, &to);
		m = (struct rio_msg){ .type = RIO_NOTIFIED,
				      .notified = { 1, { entry, sizeof(entry) } } };
	}
	CHECK(say(c.unit, &m) || w.ends[c.unit].is_away);
}

static void end_some_command(void)
{
	uint8_t how = rd_u8(&w.r);
	bool is_notified = how & 1;

	if (w.command_count > 0)
		end_command(how / 4 % w.command_count, !is_notified && how & 2 ? how : 0,
			    is_notified);
}

static void end_fetch(uint32_t nth, bool is_good)
{
	struct rio_owner_act f = w.fetches[nth];
	size_t length = 0;

	w.fetches[nth] = w.fetches[--w.fetch_count];
	if (is_good) {
		int end = 0;

		/* It may have left; its memory is read a last time. */
		for (int i = 0; i < REQUESTERS; i++)
			end = w.ends[i].number == f.number ? i : end;
		length = write_sequence(end, false);
		memset(f.bytes, 0, f.length);
		memcpy(f.bytes, w.list, length < f.length ? length : f.length);
	}
	rio_owner_fetched(w.owner, f.id, is_good ? WEFT_OK : WEFT_R_PEER_GONE);
}

/* What is not its to say, or is not sealed, or not a message. */
static void misbehave(int end)
{
	uint8_t how = rd_u8(&w.r);
	size_t length = how;
	struct rio_msg m = { .type = (enum rio_msg_type)(1 + how % (RIO_MSG_TYPE_COUNT - 1)) };

	if (!w.ends[end].is_here)
		return;
	if (how & 0x80) {
		if (length > (size_t)(w.r.end - w.r.at))
			length = (size_t)(w.r.end - w.r.at);
		CHECK(rio_owner_take(w.owner, w.ends[end].number, w.r.at, length, w.now_ns) !=
		      WEFT_OK);
		w.r.at += length;
		leave(end);
		return;
	}
	m.id = (uint64_t)IDS + how;
	/* Of these some are good. */
	if (m.type == RIO_REQUEST || (is_unit(end) && m.type == RIO_DEVICES))
		return;
	(void)say(end, &m);
}

static void pass(uint64_t ms)
{
	w.now_ns += ms * MS;
	rio_owner_expire(w.owner, w.now_ns);
}

/* What was late by now has been answered. */
static void expect_in_time(void)
{
	judge_act_all();
	for (uint32_t i = 0; i < w.wish_count; i++)
		CHECK(!w.wishes[i].is_open || w.wishes[i].late_ns > w.now_ns);
}

static void step(void)
{
	uint8_t what = rd_u8(&w.r);
	int end = what >> 4 & 7, requester = (what >> 4) % REQUESTERS;

	end %= ENDS;
	switch (what & 15) {
	case 0:
		come(end);
		break;
	case 1:
		leave(end);
		break;
	case 2:
		tell_devices(REQUESTERS + (what >> 4) % UNITS);
		break;
	case 3:
		misbehave(end);
		break;
	case 4:
		(void)say(requester,
			  &(struct rio_msg){ .type = RIO_CANCEL, .id = rd_u8(&w.r) % IDS });
		break;
	case 5:
		(void)say(end, &(struct rio_msg){ .type = RIO_PING, .id = what });
		break;
	case 6:
		(void)say(requester, &(struct rio_msg){ .type = RIO_INQUIRE,
							.id = IDS + what,
							.inquire_first = what >> 6 });
		break;
	case 7:
		pass(rd_u8(&w.r) * 8U);
		break;
	case 8:
		pass(rd_u8(&w.r));
		expect_in_time();
		break;
	case 9:
		if (w.fetch_count > 0)
			end_fetch((what >> 4) % w.fetch_count, what < 200);
		break;
	case 10:
		end_some_command();
		break;
	case 11:
	case 12:
		for (uint32_t i = what >> 4; i > 0 && judge_act(); i--)
			continue;
		break;
	default:
		request(requester);
		break;
	}
	for (int i = 0; i < ENDS; i++) {
		if (w.ends[i].is_away && what & 0x40)
			leave(i);
	}
}

/* ---- The end -------------------------------------------------------------------------------- */

static void settle(void)
{
	uint32_t bound = 10000;

	for (;;) {
		judge_act_all();
		for (int i = 0; i < ENDS; i++) {
			if (w.ends[i].is_away)
				leave(i);
		}
		if (w.fetch_count > 0)
			end_fetch(0, false);
		else if (w.command_count > 0)
			end_command(0, 0, false);
		else if (!judge_act())
			break;
		CHECK(--bound > 0);
	}
	for (uint32_t i = 0; i < w.wish_count; i++)
		CHECK(!w.wishes[i].is_open && w.wishes[i].final_notes == 1);
	CHECK(rio_owner_due(w.owner) == UINT64_MAX && !rio_owner_is_inquired(w.owner));
	for (int i = 0; i < ENDS; i++) {
		struct rio_owner_peer p;

		if (!w.ends[i].is_here)
			continue;
		rio_owner_query(w.owner, w.ends[i].number, &p);
		CHECK(p.now == 0);
	}
}

/* A read whose list is too long for the second unit's messages: its bytes. */
static size_t long_read(void)
{
	const struct sgl_attributes in = sgl_attributes_default();
	struct wr to = wr_of(w.list, sizeof(w.list));
	struct sgl_element t = { .kind = SGL_TRANSACTION };
	struct sgl_element d = { .kind = SGL_DETAIL };

	t.transaction.operation = SGL_READ;
	t.transaction.device = 2 << 16 | 1;
	t.transaction.length = 15 * 1024;
	d.detail.role = SGL_RESULT;
	d.detail.length = 1024;
	sgl_put(&(struct sgl_element){ .kind = SGL_PLATFORM, .platform = w.ends[0].platform }, &in,
		&to);
	sgl_put(&t, &in, &to);
	for (int i = 0; i < 15; i++) {
		uint8_t *latest = to.at;

		d.detail.ends_buffer = i == 14;
		sgl_put(&d, &in, &to);
		if (i == 14)
			sgl_set_last(latest);
	}
	return (size_t)(to.at - w.list);
}

static void ask_chained(int end, uint64_t id, size_t length)
{
	const struct sgl_attributes in = sgl_attributes_default();
	uint8_t list[64];
	struct wr to = wr_of(list, sizeof(list));
	struct sgl_element e = { .kind = SGL_CHAIN, .chain = { .length = (uint32_t)length } };

	e.chain.platform = w.ends[end].platform;
	sgl_put(&e, &in, &to);
	w.wishes[w.wish_count++] = (struct wish){
		.end = end, .id = id, .is_open = true, .late_ns = UINT64_MAX
	};
	CHECK(say(end,
		  &(struct rio_msg){ .type = RIO_REQUEST,
				     .id = id,
				     .request = { .list = { list, (size_t)(to.at - list) } } }));
}

/* Nothing was lost on the way: there are slots for two lists, and A has all its requests. */
static void all_is_free(void)
{
	size_t length = long_read();

	for (int i = 0; i < ENDS; i++)
		leave(i);
	judge_act_all();
	w.wish_count = 0;
	everybody_comes();
	judge_act_all();
	for (uint64_t id = 0; id < REQUESTS; id++)
		ask_chained(0, id, length);
	ask_chained(1, 0, length);
	judge_act_all();
	CHECK(w.fetch_count == 2);
	end_fetch(w.fetches[0].number == w.ends[1].number ? 0 : 1, false);
	for (uint32_t done = 0; done < REQUESTS; done++) {
		judge_act_all();
		CHECK(w.fetch_count == 1 && w.fetches[0].length == length);
		memcpy(w.fetches[0].bytes, w.list, length);
		w.fetch_count = 0;
		rio_owner_fetched(w.owner, w.fetches[0].id, WEFT_OK);
		judge_act_all();
		CHECK(w.command_count == 1);
		end_command(0, 0, false);
	}
	settle();
}

static void open_world(const uint8_t *data, size_t size)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_owner_config config = {
		.self = { 1, 1 },
		.requesters_max = REQUESTERS,
		.iounits_max = UNITS,
		.requests_max = REQUESTS,
		.lists_max = LISTS,
		.lists = w.lists,
		.lists_address = LISTS_ADDRESS,
		.timeout_ns = (uint64_t)TIMEOUT_MS * MS,
	};

	if (!w.check)
		w.check = rio_list_create(&limits);
	CHECK(w.check);
	w.r = rd_of(data, size);
	w.policy.count = w.policy.share_count = w.policy.watcher_count = 0;
	w.wish_count = w.command_count = w.fetch_count = 0;
	w.now_ns = w.last_command = 0;
	w.sessions = 0;
	memset(w.ends, 0, sizeof(w.ends));
	memset(w.windows, 0, sizeof(w.windows));
	for (int i = 0; i < ENDS; i++) {
		w.ends[i].platform.unit = is_unit(i) ? 2U + (uint32_t)(i - REQUESTERS)
						     : 7U + (uint32_t)i;
		w.ends[i].platform.process = 1;
		w.ends[i].number = UINT32_MAX;
	}
	judge_rules();
	CHECK(rio_owner_create(&config, &w.policy, &w.owner) == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	open_world(data, size);
	everybody_comes();
	for (uint32_t i = 0; i < STEPS_MAX && !w.r.is_short; i++)
		step();
	settle();
	all_is_free();
	rio_owner_destroy(w.owner);
	return 0;
}
