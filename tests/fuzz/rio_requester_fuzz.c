/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester's core under a history that the input writes: owners come, answer, announce, revoke,
 * talk nonsense and go; I/O units connect and tell; windows open or do not; time goes by. Judged:
 *
 *	- a request ends once, in time, and with no window open; well only if a peer said so;
 *	- the owner is told of it once, with windows that are open, and of no more than it allows;
 *	- a status is taken if it is owed, else the owner is refused;
 *	- an I/O unit connects only if it is announced, with a question that is sealed and new;
 *	- what the owner says is done ends at once if the unit that would tell is not connected;
 *	- in the end no window, list, timer or debt is left.
 */
#include <string.h>

#include "base/check.h"
#include "rio/requester.h"

enum {
	REQUESTS = 4,
	WINDOWS = 10,
	UNITS = 2, /* that may be announced at a time */
	DEVICES = 256,
	NAMES = 3, /* 20.1, 21.1, 22.1 */
	LISTS = 2,
	STEPS_MAX = 500,
	TRACKED = 256,
	FRAGMENTS = 4,
	TAG_SHIFT = 8, /* a window's tag says whose it is */
	TIMEOUT_MS = 1000,
	GRACE_MS = 50,
	MS = 1000 * 1000
};

#define LISTS_ADDRESS UINT64_C(0x7f0000010000)

enum pane { PANE_SHUT, PANE_ASKED, PANE_OPEN };

struct window {
	enum pane state;
	uint32_t tag, handle, length;
	uint64_t address;
	bool is_written;
};

/* A request, as the judge knows it. */
struct tracked {
	uint64_t id, late_ns;
	bool has_ended, is_owed, is_cancelled;
	bool is_well;	/* owner or I/O unit said so */
	int unit;	/* that has its device, when that is known; -1 */
	bool is_unsaid; /* the owner has not been told of it */
};

struct unit {
	bool is_announced, is_connected, is_leaving;
	uint8_t token;	  /* of all its bytes */
	uint64_t counter; /* of the last question that was taken, since it has this token */
	struct rio_session session;
};

static struct {
	struct rio_requester *q;
	uint8_t lists[LISTS * RIO_LIST_BYTES_MAX];
	struct window windows[WINDOWS];
	struct tracked requests[TRACKED];
	uint32_t count, handles;
	bool has_owner;
	uint32_t allowed, owed;
	struct rio_session owner;
	uint8_t owners;
	struct unit units[NAMES];
	uint64_t now_ns, inquiry;
	bool is_inquiring, is_inquired; /* it waits for an answer; the owner was asked */
	struct rd r;
	struct rio_list *check;
} w;

static const struct platform self = { 7, 1 };

static struct platform name_of(int unit)
{
	return (struct platform){ 20 + (uint32_t)unit, 1 };
}

static int unit_by_name(struct platform name)
{
	return name.unit >= 20 && name.unit < 20 + NAMES && name.process == 1 ? (int)name.unit - 20
									      : -1;
}

/* 1 to 6, two of each unit. */
static uint32_t device_of(uint8_t which)
{
	return 1U + which % 6U;
}

static int unit_of_device(uint32_t number)
{
	int unit = number > 0 && number <= 6 ? (int)(number - 1) / 2 : -1;

	return unit >= 0 && w.units[unit].is_announced ? unit : -1;
}

static struct tracked *find(uint64_t id)
{
	for (uint32_t i = 0; i < w.count; i++) {
		if (w.requests[i].id == id)
			return &w.requests[i];
	}
	return NULL;
}

/* ---- Acts ----------------------------------------------------------------------------------- */

static bool is_open(const struct rio_segment *s, bool is_read)
{
	for (uint32_t i = 0; i < WINDOWS; i++) {
		const struct window *v = &w.windows[i];

		if (v->state == PANE_OPEN && v->handle == s->handle && v->address == s->address &&
		    v->length == s->length && v->is_written == is_read)
			return true;
	}
	return false;
}

/* It is a whole list, and all own memory in it is in windows that are open. */
static void judge_list(const struct rio_bytes *list)
{
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct sgl_chain c;

	rio_list_clear(w.check);
	CHECK(rio_list_take(w.check, list->bytes, list->length) == WEFT_OK);
	while (rio_list_wants(w.check, &c)) {
		CHECK(platform_is_same(c.platform, self) && c.address >= LISTS_ADDRESS);
		CHECK(c.address - LISTS_ADDRESS <= sizeof(w.lists) - c.length);
		CHECK(rio_list_take(w.check, w.lists + (c.address - LISTS_ADDRESS), c.length) ==
		      WEFT_OK);
	}
	CHECK(rio_list_is_whole(w.check));
	rio_walk_start(&walk, w.check);
	while (rio_walk_transaction(&walk, &t)) {
		while (rio_walk_segment(&walk, &s)) {
			CHECK(s.where != RIO_OWN);
			if (s.where == RIO_REMOTE && platform_is_same(s.platform, self))
				CHECK(is_open(&s, t.operation == SGL_READ));
		}
	}
}

static void hear(const struct rio_requester_act *act)
{
	static uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct tracked *t;
	struct rio_msg m;

	CHECK(w.has_owner && act->length <= sizeof(bytes));
	memcpy(bytes, act->bytes, act->length);
	CHECK(rio_session_open(&w.owner, bytes, act->length, &m) == WEFT_OK);
	t = find(m.id);
	switch (m.type) {
	case RIO_REQUEST:
		CHECK(t && t->is_unsaid && !t->has_ended && m.request.timeout_ms > 0);
		judge_list(&m.request.list);
		t->is_unsaid = false;
		t->is_owed = true;
		CHECK(++w.owed <= w.allowed);
		break;
	case RIO_CANCEL:
		CHECK(t && t->is_owed && !t->is_cancelled);
		t->is_cancelled = true;
		break;
	case RIO_INQUIRE:
		CHECK(w.is_inquiring && !w.is_inquired && !t);
		w.is_inquired = true;
		w.inquiry = m.id;
		break;
	default:
		CHECK(m.type == RIO_PONG);
		break;
	}
}

static void expose(const struct rio_requester_act *act)
{
	struct window *v = &w.windows[act->id];

	CHECK(act->id < WINDOWS && v->state == PANE_SHUT);
	CHECK(act->tag >> TAG_SHIFT < w.count && !w.requests[act->tag >> TAG_SHIFT].has_ended);
	*v = (struct window){ .state = PANE_ASKED,
			      .tag = act->tag,
			      .length = act->window_length,
			      .address = act->address,
			      .is_written = act->is_written };
}

static void lose(int unit)
{
	if (!w.units[unit].is_connected)
		return;
	w.units[unit].is_connected = false;
	rio_requester_lost(w.q, name_of(unit));
}

/* The driver ends the connection, if there is one, and says so. */
static void hang_up(struct platform name)
{
	int i = unit_by_name(name);

	CHECK(i >= 0 && w.units[i].is_leaving);
	w.units[i].is_leaving = false;
	lose(i);
}

static bool act_one(void)
{
	struct rio_requester_act act;

	if (!rio_requester_act(w.q, &act))
		return false;
	switch (act.kind) {
	case RIO_REQUESTER_SAY:
		hear(&act);
		break;
	case RIO_REQUESTER_EXPOSE:
		expose(&act);
		break;
	case RIO_REQUESTER_CLOSE:
		CHECK(act.id < WINDOWS && w.windows[act.id].state == PANE_OPEN);
		w.windows[act.id].state = PANE_SHUT;
		break;
	case RIO_REQUESTER_HANG_UP:
		hang_up(act.iounit);
		break;
	}
	return true;
}

static bool answer_window(uint32_t from, bool is_good)
{
	for (uint32_t i = 0; i < WINDOWS; i++) {
		uint32_t at = (from + i) % WINDOWS;
		struct window *v = &w.windows[at];

		if (v->state != PANE_ASKED)
			continue;
		v->state = is_good ? PANE_OPEN : PANE_SHUT;
		v->handle = 0x5000 + ++w.handles;
		rio_requester_exposed(w.q, at, is_good ? WEFT_OK : WEFT_R_NO_MEMORY, v->handle);
		return true;
	}
	return false;
}

static bool take_ended(void)
{
	struct rio_ended e;
	struct tracked *t;

	if (!rio_requester_ended(w.q, &e))
		return false;
	t = find(e.id);
	CHECK(t && !t->has_ended && e.context == t);
	t->has_ended = true;
	CHECK(e.reason != 0 || t->is_well);
	for (uint32_t i = 0; i < WINDOWS; i++)
		CHECK(w.windows[i].state == PANE_SHUT ||
		      w.windows[i].tag >> TAG_SHIFT != (uint32_t)(t - w.requests));
	return true;
}

static void take_report(void)
{
	struct rio_reported reported;

	if (!rio_requester_reported(w.q, &reported))
		return;
	CHECK(w.is_inquiring);
	w.is_inquiring = w.is_inquired = false;
}

/* Whatever can happen by itself happens. */
static void drain(void)
{
	uint32_t bound = 100000;

	while (act_one() || answer_window(0, true) || take_ended())
		CHECK(--bound > 0);
}

/* ---- The owner ------------------------------------------------------------------------------ */

static void forget_owner(void)
{
	w.has_owner = false;
	w.owed = 0;
	w.is_inquired = false;
	for (uint32_t i = 0; i < w.count; i++)
		w.requests[i].is_owed = false;
	for (int i = 0; i < NAMES; i++) {
		w.units[i].is_leaving = w.units[i].is_leaving || w.units[i].is_announced;
		w.units[i].is_announced = false;
	}
}

static void owner_leaves(void)
{
	rio_requester_owner_left(w.q);
	forget_owner();
}

static void owner_comes(void)
{
	static const uint32_t rooms[] = { RIO_REQUEST_LIST_MAX, 100, 36, 0 };
	uint8_t how = rd_u8(&w.r);
	struct rio_handshake c = { .requests_max = how % 6, .list_max = rooms[how >> 3 & 3] };
	struct rio_session *s = &c.greet.session;

	memset(s->send_key, ++w.owners, RIO_KEY_BYTES);
	memset(s->receive_key, ++w.owners, RIO_KEY_BYTES);
	forget_owner();
	w.owner = *s;
	memcpy(w.owner.send_key, s->receive_key, RIO_KEY_BYTES);
	memcpy(w.owner.receive_key, s->send_key, RIO_KEY_BYTES);
	w.has_owner = true;
	w.allowed = c.requests_max;
	rio_requester_owner_came(w.q, &c);
}

/* What the requester thinks of it. */
static enum weft_reason said(const struct rio_msg *m)
{
	static uint8_t bytes[RIO_MSG_BYTES_MAX];
	size_t length = rio_session_close(&w.owner, m, bytes, sizeof(bytes));
	enum weft_reason r;

	CHECK(length > 0);
	r = rio_requester_take(w.q, bytes, length, w.now_ns);
	memset(bytes, 0xee, sizeof(bytes)); /* what it needs of it, it has copied */
	return r;
}

/* Any that was ever asked for, or (the last) none. */
static struct tracked *some_request(void)
{
	uint8_t which = rd_u8(&w.r);

	return w.count > 0 && which < 250 ? &w.requests[w.count - 1 - which % w.count % 8 % w.count]
					  : NULL;
}

static void owner_answers(void)
{
	struct tracked *t = some_request();
	uint8_t how = rd_u8(&w.r);
	bool is_owed = t && t->is_owed;
	struct rio_msg m = { .type = RIO_STATUS,
			     .id = t ? t->id : how,
			     .status = { .reason = how < 128 ? 0 : how, .done_bytes = how } };
	enum weft_reason r;

	if (!w.has_owner)
		return;
	if (how & 1)
		m.status.text = (struct rio_bytes){ (const uint8_t *)"so it is", 8 };
	if (is_owed) {
		t->is_owed = false;
		t->is_well = t->is_well || m.status.reason == 0;
		w.owed--;
	}
	r = said(&m);
	CHECK((r == WEFT_OK) == is_owed);
	if (r != WEFT_OK)
		owner_leaves();
}

/* It went well, and its unit has told: if that is not connected, it has failed. */
static void owner_tells(void)
{
	struct tracked *t = some_request();
	bool is_owed = t && t->is_owed && w.has_owner, has_ended = t && t->has_ended;
	uint8_t entry[RIO_NOTIFIED_ENTRY_BYTES];
	struct wr to = wr_of(entry, sizeof(entry));
	enum weft_reason r;

	if (!w.has_owner)
		return;
	rio_notified_put(&(struct rio_notified_entry){ t ? t->id : 3, 512 }, &to);
	r = said(&(struct rio_msg){ .type = RIO_NOTIFIED,
				    .notified = { 1, { entry, sizeof(entry) } } });
	CHECK((r == WEFT_OK) == is_owed);
	if (r != WEFT_OK) {
		owner_leaves();
		return;
	}
	t->is_owed = false;
	w.owed--;
	if (t->unit < 0)
		t->unit = -2; /* the unit that has it now */
	if (has_ended)
		return;
	drain();
	for (int i = 0; i < NAMES; i++) {
		if (w.units[i].is_connected)
			return;
	}
	CHECK(t->has_ended); /* no unit is connected that could tell */
}

static void announce(uint8_t how, uint8_t token)
{
	int unit = how % NAMES;
	uint8_t entries[128];
	struct wr to = wr_of(entries, sizeof(entries));
	struct rio_msg m = { .type = RIO_ANNOUNCE, .announce = { .iounit = name_of(unit) } };
	uint32_t announced = 0;
	enum weft_reason r;

	if (!w.has_owner)
		return;
	for (uint32_t i = 0; i < (how >> 2) % 3U; i++, m.announce.devices.count++)
		rio_device_put(&(struct rio_device){ .number = (uint32_t)unit * 2 + 1 + i,
						     .block_bytes = 512,
						     .size_bytes = 1 << 20,
						     .name = { (const uint8_t *)"d", 1 } },
			       &to);
	m.announce.devices.entries = (struct rio_bytes){ entries, (size_t)(to.at - entries) };
	memset(m.announce.token, token, RIO_TOKEN_BYTES);
	for (int i = 0; i < NAMES; i++)
		announced += w.units[i].is_announced;
	r = said(&m);
	CHECK((r == WEFT_OK) == (w.units[unit].is_announced || announced < UNITS));
	if (r != WEFT_OK) {
		owner_leaves();
		return;
	}
	/* An owner has no token twice; if it had, what was asked with it may be forgotten. */
	if (!w.units[unit].is_announced || w.units[unit].token != token)
		w.units[unit].counter = 0;
	w.units[unit].is_announced = true;
	w.units[unit].token = token;
}

static void revoke(int unit)
{
	if (!w.has_owner)
		return;
	CHECK(said(&(struct rio_msg){ .type = RIO_REVOKE, .revoked = name_of(unit) }) == WEFT_OK);
	w.units[unit].is_leaving = w.units[unit].is_leaving || w.units[unit].is_announced;
	w.units[unit].is_announced = false;
}

static void report(void)
{
	bool is_good = w.is_inquired;
	uint8_t how = rd_u8(&w.r);
	struct rio_msg m = { .type = how & 1 ? RIO_REPORT : RIO_STATUS, .id = w.inquiry };

	if (!w.has_owner || (how & 1 && how & 2))
		return;
	if (!(how & 1))
		m.status.reason = WEFT_R_RIO_DENIED;
	if (how & 4) {
		m.id += 1 + (how >> 4);
		is_good = false;
	}
	if (!is_good && find(m.id))
		return;
	CHECK((said(&m) == WEFT_OK) == is_good);
	if (is_good)
		w.is_inquired = false;
	else
		owner_leaves();
}

/* What is not an owner's to say; or not sealed, or no message. */
static void owner_errs(void)
{
	uint8_t how = rd_u8(&w.r);
	size_t length = how;
	struct rio_msg m = { .type = (enum rio_msg_type)(1 + how % (RIO_MSG_TYPE_COUNT - 1)) };

	if (!w.has_owner)
		return;
	if (how & 0x80) {
		if (length > (size_t)(w.r.end - w.r.at))
			length = (size_t)(w.r.end - w.r.at);
		CHECK(rio_requester_take(w.q, w.r.at, length, w.now_ns) != WEFT_OK);
		w.r.at += length;
		owner_leaves();
	} else if (m.type == RIO_PING || m.type == RIO_PONG) {
		CHECK(said(&m) == WEFT_OK);
	} else if (m.type != RIO_STATUS && m.type != RIO_REPORT && m.type != RIO_NOTIFIED) {
		CHECK(said(&m) != WEFT_OK);
		owner_leaves();
	}
}

/* ---- I/O units ------------------------------------------------------------------------------ */

/* With a counter that is new or not, a token that is right or not, to us or not. */
static void dial(int unit, uint8_t how)
{
	struct unit *u = &w.units[unit];
	uint8_t token = how & 0x80 ? (u->token + 1) % 4 : u->token;
	struct rio_data d = { .from = name_of(unit), .to = self };
	uint8_t question[RIO_DATA_BYTES], answer[RIO_DATA_BYTES];
	const struct rio_bytes bytes = { question, sizeof(question) };
	uint8_t key[RIO_TOKEN_BYTES];
	struct platform who;
	enum weft_reason r;

	d.counter = u->counter + 1 - (how & 1);
	if (d.counter == 0)
		return; /* no such question can be read */
	d.to.unit += how & 2;
	memset(key, token, sizeof(key));
	memset(d.nonce, how, sizeof(d.nonce));
	rio_data_encode(&d, question);
	rio_seal(key, question, RIO_DATA_SEALED_BYTES, question + RIO_DATA_SEALED_BYTES);
	question[how & 4 ? rd_u8(&w.r) % RIO_DATA_BYTES : 0] ^= how & 4 ? 1 << (how >> 4) % 8 : 0;
	r = rio_requester_asked(w.q, &bytes, &who, answer);
	if (r != WEFT_OK)
		return;
	CHECK(u->is_announced && !u->is_leaving && token == u->token);
	CHECK(!(how & 7) && platform_is_same(who, name_of(unit)));
	CHECK(rio_seal_is_true(key, answer, RIO_DATA_SEALED_BYTES, answer + RIO_DATA_SEALED_BYTES));
	u->counter = d.counter;
	u->is_connected = true;
	rio_session_of_data(&u->session, key, d.nonce);
}

static void tell(int unit)
{
	struct unit *u = &w.units[unit];
	uint8_t how = rd_u8(&w.r), bytes[256];
	struct tracked *t = some_request();
	struct rio_msg m = { .type = how & 0x40 ? RIO_PING : RIO_STATUS, .id = t ? t->id : how };
	size_t length;
	enum weft_reason r;

	if (!u->is_connected || !u->is_announced)
		return; /* the driver knows no such connection, or ends it */
	m.status.reason = how & 0x20 ? 5 : 0;
	length = rio_session_close(&u->session, &m, bytes, sizeof(bytes));
	bytes[how % length] ^= how >> 7;
	/* It has the first say, so it must have the device. */
	if (t && m.type == RIO_STATUS && m.status.reason == 0 && !(how >> 7))
		t->is_well = t->is_well || t->unit == unit || t->unit < 0;
	r = rio_requester_unit_take(w.q, name_of(unit), bytes, length);
	CHECK((r == WEFT_OK) == (m.type == RIO_STATUS && !(how >> 7)));
	if (r != WEFT_OK)
		lose(unit);
}

/* ---- What is asked for ---------------------------------------------------------------------- */

static void fill_wanted(struct rio_wanted *what, struct rio_fragment *f)
{
	uint8_t how = rd_u8(&w.r);
	static const uint8_t data[4096];

	*what = (struct rio_wanted){ .is = { .operation = (enum sgl_operation)(how % 7),
					     .device = device_of(rd_u8(&w.r)),
					     .offset = (uint64_t)(how >> 4) << 9 },
				     .fragments = f };
	if (how & 8 && what->is.operation == SGL_WRITE) {
		what->immediate = data;
		what->is.length = rd_u8(&w.r) * 16U;
		return;
	}
	if (what->is.operation == SGL_READ || what->is.operation == SGL_WRITE)
		what->fragment_count = 1 + (how >> 3) % FRAGMENTS;
	for (uint32_t i = 0; i < what->fragment_count; i++) {
		uint8_t length = rd_u8(&w.r);

		f[i] = (struct rio_fragment){ .tag = w.count << TAG_SHIFT | i,
					      .length = length * 32U,
					      .address = (uint64_t)length << 33 | length };
		if (length % 16 == 15)
			f[i].platform = (struct platform){ 8, 1 };
		what->is.length += f[i].length;
	}
	what->is.length += how == 0xff; /* it does not add up */
}

static void ask(void)
{
	static struct rio_wanted what[40];
	static struct rio_fragment f[40][FRAGMENTS];
	uint8_t how = rd_u8(&w.r);
	struct rio_ask a = { .wanted = what, .count = how % 3, .context = &w.requests[w.count] };
	uint64_t timeout_ms = how & 0x10 ? rd_u8(&w.r) * 8U : 0, id = 0;
	struct tracked *t = &w.requests[w.count];
	enum weft_reason r;

	if (w.count == TRACKED)
		return;
	if (how > 240) /* a long one */
		a.count = 40;
	for (uint32_t i = 0; i < a.count; i++)
		fill_wanted(&what[i], f[i]);
	a.timeout_ns = timeout_ms * MS;
	r = rio_requester_ask(w.q, &a, w.now_ns, &id);
	memset(f, 0xee, sizeof(f)); /* nothing of it is needed any more */
	if (r != WEFT_OK) {
		CHECK(w.has_owner || r == WEFT_R_RIO_OWNER_LEFT);
		return;
	}
	CHECK(w.has_owner && !find(id));
	*t = (struct tracked){ .id = id,
			       .is_unsaid = true,
			       .unit = unit_of_device(what[0].is.device),
			       .late_ns = w.now_ns + (timeout_ms ? timeout_ms : TIMEOUT_MS) * MS };
	w.count++;
}

static void inquire(void)
{
	enum weft_reason r = rio_requester_inquire(w.q, rd_u8(&w.r));

	if (!w.has_owner)
		CHECK(r == WEFT_R_RIO_OWNER_LEFT);
	else
		CHECK((r == WEFT_OK) == !w.is_inquiring);
	w.is_inquiring = w.is_inquiring || r == WEFT_OK;
}

/* What was late by now has ended. */
static void expect_in_time(void)
{
	rio_requester_expire(w.q, w.now_ns);
	drain();
	for (uint32_t i = 0; i < w.count; i++)
		CHECK(w.requests[i].has_ended ||
		      w.requests[i].late_ns + (uint64_t)GRACE_MS * MS > w.now_ns);
}

/* Its devices are offered while a unit is announced, and only then. */
static void look_at_offers(void)
{
	uint32_t count = rio_requester_offers(w.q);

	CHECK(count <= UNITS * 2);
	for (uint32_t i = 0; i < count; i++) {
		const struct rio_offer o = rio_requester_offer(w.q, i);
		int unit = unit_by_name(o.iounit);

		CHECK(unit >= 0 && w.units[unit].is_announced);
		CHECK(o.device.name.length == 1 && o.device.name.bytes[0] == 'd');
	}
}

static void owner_does(uint8_t what)
{
	uint8_t how;

	switch (what % 8) {
	case 0:
		owner_comes();
		break;
	case 1:
		owner_leaves();
		break;
	case 2:
		owner_errs();
		break;
	case 3:
		how = rd_u8(&w.r);
		announce(how, rd_u8(&w.r) % 4);
		break;
	case 4:
		revoke((what >> 3) % NAMES);
		break;
	case 5:
		report();
		break;
	case 6:
		owner_tells();
		break;
	default:
		owner_answers();
		break;
	}
}

static void step(void)
{
	uint8_t what = rd_u8(&w.r), more = what >> 4;
	struct tracked *t;

	switch (what & 15) {
	case 0:
	case 1:
	case 2:
		owner_does(rd_u8(&w.r));
		break;
	case 3:
		dial(more % NAMES, rd_u8(&w.r));
		break;
	case 4:
		tell(more % NAMES);
		break;
	case 5:
		lose(more % NAMES);
		break;
	case 6:
		t = some_request();
		rio_requester_cancel(w.q, t ? t->id : more);
		break;
	case 7:
		w.now_ns += (uint64_t)rd_u8(&w.r) * 4 * MS;
		rio_requester_expire(w.q, w.now_ns);
		break;
	case 8:
		w.now_ns += (uint64_t)rd_u8(&w.r) * MS;
		expect_in_time();
		break;
	case 9:
		(void)answer_window(more, more < 14);
		break;
	case 10:
		(void)take_ended();
		take_report();
		break;
	case 11:
		inquire();
		break;
	case 12:
	case 13:
		for (; more > 0 && act_one(); more--)
			continue;
		break;
	default:
		ask();
		break;
	}
	look_at_offers();
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void open_world(const uint8_t *data, size_t size)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *check = w.check ? w.check : rio_list_create(&limits);
	const struct rio_requester_config config = {
		.self = self,
		.requests_max = REQUESTS,
		.sges_max = WINDOWS,
		.iounits_max = UNITS,
		.devices_max = DEVICES,
		.lists_max = LISTS,
		.lists = w.lists,
		.lists_handle = 0x11570000,
		.lists_address = LISTS_ADDRESS,
		.timeout_ns = (uint64_t)TIMEOUT_MS * MS,
		.grace_ns = (uint64_t)GRACE_MS * MS,
	};

	CHECK(check);
	memset(w.windows, 0, sizeof(w.windows));
	memset(w.units, 0, sizeof(w.units));
	w.count = w.handles = w.owed = 0;
	w.has_owner = w.is_inquiring = w.is_inquired = false;
	w.owners = 0;
	w.now_ns = w.inquiry = 0;
	w.check = check;
	w.r = rd_of(data, size);
	CHECK(rio_requester_create(&config, &w.q) == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	open_world(data, size);
	owner_comes();
	/* Mostly two units are here from the beginning, with two devices each. */
	for (uint8_t i = 0; i < 2 && rd_u8(&w.r) < 200; i++) {
		announce(9 + i, 0);
		dial(i, 0);
	}
	for (uint32_t i = 0; i < STEPS_MAX && !w.r.is_short; i++)
		step();
	owner_leaves();
	drain();
	take_report();
	for (uint32_t i = 0; i < w.count; i++)
		CHECK(w.requests[i].has_ended);
	for (uint32_t i = 0; i < WINDOWS; i++)
		CHECK(w.windows[i].state == PANE_SHUT);
	CHECK(rio_requester_is_idle(w.q) && rio_requester_due(w.q) == UINT64_MAX);
	CHECK(!w.is_inquiring && rio_requester_offers(w.q) == 0);
	rio_requester_destroy(w.q);
	return 0;
}
