/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requesters and I/O units that come, go, ask, answer, cancel and wait too long, in an order that a
 * seed says. Who checks knows nothing but what was said, and what the rules are.
 */
#include <string.h>

#include "test.h"
#include "unit/rio/owner_fixture.h"

enum {
	SEEDS = HISTORIES(300),
	STEPS = 600,
	WISHES = 512,
	COMMANDS_KEPT = 64,
	MS = 1000 * 1000,
	PLACE_BYTES = 32 << 10
};

/* What a requester has asked for. Its id is its place here, and the handle of its memory. */
struct wish {
	int end;
	bool is_asked, is_flush, is_allowed; /* by the rules of this world */
	bool is_left;			     /* its requester has left: no status is sent */
	int unit;
	uint32_t place; /* of its list, if it lies in the memory */
	uint32_t statuses, commands, allowed_notes, final_notes;
	enum rio_note_kind final;
};

struct command {
	int unit;
	uint64_t id, wish;
};

static struct {
	struct prng prng;
	struct wish wishes[WISHES];
	uint32_t wish_count;
	uint32_t open[BED_REQUESTERS];
	struct command commands[COMMANDS_KEPT];
	uint32_t command_count;
	bool has_met[BED_UNITS][BED_REQUESTERS], has_devices[BED_UNITS];
	uint64_t last_command;
} w;

static struct owner_bed b;
static struct paper p, rest;

static uint32_t below(uint32_t bound)
{
	return prng_below(&w.prng, bound);
}

/* ---- The rules of this world: A reads all, B has unit 0, C reads device 1 of unit 1 --------- */

static bool is_allowed(int end, enum sgl_operation operation, int unit)
{
	if (operation == SGL_FLUSH)
		return end == 1 && unit == 0;
	return end == 0 || (end == 1 && unit == 0) || (end == 2 && unit == 1);
}

static void make_rules(void)
{
	bed_allow(&b, (struct rio_rule){ .requester = { 7, 0 }, .operations = 1 << SGL_READ });
	bed_allow(&b, (struct rio_rule){ .requester = { 8, 1 },
					 .iounit = { 2, 1 },
					 .name = "disk",
					 .name_bytes = 4,
					 .operations = 1 << SGL_READ | 1 << SGL_FLUSH });
	bed_allow(&b, (struct rio_rule){ .requester = { 9, 1 },
					 .iounit = { 3, 1 },
					 .name = "disk",
					 .name_bytes = 4,
					 .operations = 1 << SGL_READ });
}

/* ---- What is heard -------------------------------------------------------------------------- */

static int requester_of(struct platform name)
{
	for (int i = 0; i < BED_REQUESTERS; i++) {
		if (platform_is_same(b.ends[i].platform, name))
			return i;
	}
	return -1;
}

static void hear_command(int unit, const struct heard *h)
{
	struct rio_list *l = bed_list_of(&b, h);
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	struct wish *wish;
	uint32_t under_way = 0;
	uint64_t id = 0;

	rio_walk_start(&walk, l);
	REQUIRE(rio_walk_transaction(&walk, &t));
	REQUIRE(t.device == 1);
	if (rio_walk_segment(&walk, &s))
		id = s.handle;
	rio_list_destroy(l);
	if (t.operation == SGL_FLUSH) { /* which has no segment; its requester has one at a time */
		for (id = w.wish_count - 1; !w.wishes[id].is_flush; id--)
			REQUIRE(id > 0);
	}
	REQUIRE(id < w.wish_count);
	wish = &w.wishes[id];
	REQUIRE(wish->end == requester_of(h->m.request.requester));
	REQUIRE(wish->is_allowed && wish->unit == unit - BED_UNIT);
	REQUIRE(!wish->is_left && wish->statuses == 0 && wish->commands == 0);
	REQUIRE(wish->allowed_notes == 1 && wish->final_notes == 0);
	REQUIRE(w.has_met[unit - BED_UNIT][wish->end]);
	REQUIRE(h->m.request.timeout_ms > 0 && h->m.id > w.last_command);
	wish->commands++;
	w.last_command = h->m.id;
	for (uint32_t i = 0; i < w.command_count; i++)
		under_way += w.commands[i].unit == unit;
	REQUIRE(under_way < BED_COMMANDS && w.command_count < COMMANDS_KEPT);
	w.commands[w.command_count++] = (struct command){ unit, h->m.id, id };
}

static void hear_unit(int unit, const struct heard *h)
{
	bool *met = w.has_met[unit - BED_UNIT];

	switch (h->m.type) {
	case RIO_COMMAND:
		hear_command(unit, h);
		break;
	case RIO_GRANT:
		REQUIRE(!met[requester_of(h->m.grant.requester)]);
		met[requester_of(h->m.grant.requester)] = true;
		break;
	case RIO_REVOKE:
		REQUIRE(met[requester_of(h->m.revoked)]);
		met[requester_of(h->m.revoked)] = false;
		break;
	case RIO_CANCEL:
		for (uint32_t i = 0; i < w.command_count; i++) {
			if (w.commands[i].id == h->m.id && w.commands[i].unit == unit)
				return;
		}
		REQUIRE(!"a command that is not under way is cancelled");
		break;
	default:
		REQUIRE(h->m.type == RIO_PONG);
		break;
	}
}

static void hear_requester(int end, const struct heard *h)
{
	struct wish *wish = &w.wishes[h->m.id % WISHES];
	enum weft_reason reason;

	if (h->m.type != RIO_STATUS)
		return;
	reason = (enum weft_reason)h->m.status.reason;
	REQUIRE(h->m.id < w.wish_count && wish->end == end && wish->is_asked && !wish->is_left);
	REQUIRE(++wish->statuses == 1);
	REQUIRE(wish->final_notes == 1); /* written down before */
	if (reason == WEFT_OK)
		REQUIRE(wish->commands == 1);
	if (reason == WEFT_R_RIO_DENIED)
		REQUIRE(!wish->is_allowed);
	w.open[end]--;
}

static void note(const struct rio_note *n)
{
	struct wish *wish = &w.wishes[n->request % WISHES];

	if (n->kind == RIO_NOTE_CAME || n->kind == RIO_NOTE_LEFT)
		return;
	REQUIRE(n->request < w.wish_count && wish->is_asked);
	REQUIRE(platform_is_same(n->who, b.ends[wish->end].platform));
	REQUIRE(wish->final_notes == 0);
	if (n->kind == RIO_NOTE_ALLOWED) {
		REQUIRE(wish->is_allowed && wish->allowed_notes == 0);
		wish->allowed_notes++;
		return;
	}
	wish->final_notes++;
	REQUIRE((n->kind == RIO_NOTE_ENDED) == (wish->allowed_notes == 1));
}

/* One act, and what comes of it. */
static bool act(void)
{
	if (!bed_step(&b))
		return false;
	for (int i = 0; i < BED_ENDS; i++) {
		for (uint32_t k = 0; k < b.ends[i].heard_count; k++) {
			if (i >= BED_UNIT)
				hear_unit(i, &b.ends[i].heard[k]);
			else
				hear_requester(i, &b.ends[i].heard[k]);
		}
	}
	for (uint32_t i = 0; i < b.note_count; i++)
		note(&b.notes[i].note);
	bed_forget(&b);
	return true;
}

/* ---- What happens --------------------------------------------------------------------------- */

static void leave(int end)
{
	if (!b.ends[end].is_here)
		return;
	bed_leave(&b, end);
	if (end >= BED_UNIT) {
		memset(w.has_met[end - BED_UNIT], 0, sizeof(w.has_met[0]));
		w.has_devices[end - BED_UNIT] = false;
		for (uint32_t i = 0; i < w.command_count;) {
			if (w.commands[i].unit == end)
				w.commands[i] = w.commands[--w.command_count];
			else
				i++;
		}
		return;
	}
	w.open[end] = 0;
	for (uint32_t i = 0; i < w.wish_count; i++) {
		if (w.wishes[i].end == end)
			w.wishes[i].is_left = true;
	}
}

static void come(int end)
{
	enum weft_reason r;

	if (b.ends[end].is_here) {
		REQUIRE(bed_try_come(&b, end) == WEFT_R_RIO_TWICE);
		return;
	}
	r = bed_try_come(&b, end);
	REQUIRE(r == WEFT_OK || r == WEFT_R_LIMIT);
}

/* Where in its memory there is no list of a request that has not ended. */
static uint32_t free_place(int end)
{
	uint32_t used = 0, place = 0;

	for (uint32_t i = 0; i < w.wish_count; i++) {
		if (w.wishes[i].end == end && !w.wishes[i].is_left && w.wishes[i].statuses == 0)
			used |= 1U << w.wishes[i].place;
	}
	while (used & 1U << place)
		place++;
	return place;
}

/* In its message, or in its memory. Now and then it is not good, or names memory of another. */
static void write_list(int end, uint64_t id, uint32_t device, uint32_t pieces)
{
	bool is_chained = pieces > 200 || below(3) == 0;
	struct paper *to = is_chained ? &rest : &p;
	uint64_t at = (uint64_t)w.wishes[id].place * PLACE_BYTES;

	paper_start(&p);
	if (below(2))
		paper_attributes(&p, 8);
	if (is_chained)
		paper_start(&rest);
	paper_platform(to, b.ends[below(20) ? end : 0].platform);
	to->handle = (uint32_t)id;
	paper_read_pieces(to, device, pieces);
	if (below(15))
		paper_last(to);
	if (is_chained) {
		memcpy(b.ends[end].memory + at, rest.bytes, paper_bytes(&rest));
		paper_chain(&p, b.ends[below(15) ? end : 2].platform, at, paper_bytes(&rest));
	}
}

static void ask(int end)
{
	struct wish *wish = &w.wishes[w.wish_count];
	uint64_t id = w.wish_count;
	bool is_flush = end == 1 && w.open[1] == 0 && below(4) == 0;
	uint32_t device;

	if (!b.ends[end].is_here || w.wish_count == WISHES - 1 || w.open[end] == BED_REQUESTS)
		return;
	*wish = (struct wish){ .end = end,
			       .unit = (int)below(BED_UNITS),
			       .place = free_place(end),
			       .is_asked = true,
			       .is_flush = is_flush };
	wish->is_allowed = is_allowed(end, is_flush ? SGL_FLUSH : SGL_READ, wish->unit);
	device = BED_DEVICE(wish->unit, 1);
	w.wish_count++;
	w.open[end]++;
	if (is_flush) {
		paper_start(&p);
		paper_transaction(
			&p, (struct sgl_transaction){ .operation = SGL_FLUSH, .device = device });
		paper_last(&p);
	} else {
		write_list(end, id, device, 32 << below(6));
	}
	REQUIRE(bed_try_ask(&b, end, id, &p, below(3) ? 0 : 1 + below(2000)) == WEFT_OK);
	/* The same again: it must be sent away. */
	if (below(100) == 0) {
		REQUIRE(bed_try_ask(&b, end, id, &p, 0) != WEFT_OK);
		leave(end);
	}
}

static void answer(void)
{
	uint32_t i = below(w.command_count);
	struct command c = w.commands[i];

	w.commands[i] = w.commands[--w.command_count];
	bed_status(&b, c.unit, c.id, below(4) ? WEFT_OK : WEFT_R_STORE_IO, 512);
}

static void something(void)
{
	int end = (int)below(BED_ENDS), requester = (int)below(BED_REQUESTERS);
	int unit = BED_UNIT + (int)below(BED_UNITS);
	uint32_t what = below(100);

	if (what < 40) {
		ask(requester);
	} else if (what < 60 && w.command_count > 0) {
		answer();
	} else if (what < 75 && b.fetch_count > 0) {
		bed_fetched(&b, below(b.fetch_count), below(8) ? WEFT_OK : WEFT_R_PEER_GONE);
	} else if (what < 82) {
		come(end);
	} else if (what < 88) {
		if (b.ends[unit].is_here && !w.has_devices[unit - BED_UNIT]) {
			bed_tell_devices(&b, unit);
			w.has_devices[unit - BED_UNIT] = true;
		}
	} else if (what < 90) {
		leave(end);
	} else if (what < 95 && w.wish_count > 0) {
		uint64_t id = w.wish_count - 1 - below(w.wish_count < 8 ? w.wish_count : 8);

		if (b.ends[requester].is_here)
			bed_cancel(&b, requester, id);
	} else if (what < 96) {
		if (b.ends[end].is_here)
			bed_say(&b, end, &(struct rio_msg){ .type = RIO_PING, .id = what });
	} else {
		b.now_ns += (uint64_t)below(300) * MS;
		rio_owner_expire(b.owner, b.now_ns);
	}
	for (int i = 0; i < BED_REQUESTERS; i++) {
		if (b.ends[i].is_here && b.ends[i].is_sent_away)
			leave(i);
	}
}

/* All requests end, whichever peers are still connected. */
static void settle(void)
{
	int rounds = 0;

	while (act() || b.fetch_count > 0 || w.command_count > 0) {
		REQUIRE(++rounds < 100000);
		if (b.fetch_count > 0)
			bed_fetched(&b, 0, WEFT_OK);
		if (w.command_count > 0)
			answer();
	}
	for (uint32_t i = 0; i < w.wish_count; i++) {
		REQUIRE(w.wishes[i].final_notes == 1);
		REQUIRE(w.wishes[i].is_left || w.wishes[i].statuses == 1);
	}
	REQUIRE(rio_owner_due(b.owner) == UINT64_MAX);
	for (int i = 0; i < BED_ENDS; i++)
		REQUIRE(!b.ends[i].is_here || bed_under_way(&b, i) == 0);
}

/* All slots are free: each requester has a long list at a unit, and as many requests as it may. */
static void all_is_free(void)
{
	for (int i = 0; i < BED_ENDS; i++) {
		if (b.ends[i].is_here)
			bed_leave(&b, i);
	}
	bed_run(&b);
	bed_forget(&b);
	b.policy.count = 0;
	bed_allow_all(&b);
	b.is_holding = false;
	bed_all_come(&b);
	for (int i = 0; i < BED_REQUESTERS; i++)
		(void)bed_ask_chained(&b, i, 1, MANY);
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, BED_UNIT, RIO_COMMAND), 3U);
	for (int i = 0; i < BED_REQUESTERS; i++) {
		for (uint64_t id = 2; id <= BED_REQUESTS; id++)
			bed_ask_read(&b, i, id, BED_DEVICE(1, 1));
	}
	bed_run(&b);
	EXPECT_EQ(bed_count(&b, BED_UNIT + 1, RIO_COMMAND), (uint32_t)BED_COMMANDS);
}

TEST(test_rio_03_rio_04_every_request_ends_once_as_peers_come_and_go)
{
	uint32_t commanded = 0, chained = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		memset(&w, 0, sizeof(w));
		w.prng.state = seed;
		bed_open(&b);
		b.ends[BED_UNIT + 1].list_max = 300;
		b.is_holding = true;
		bed_start(&b);
		make_rules();
		for (int i = 0; i < STEPS; i++) {
			something();
			for (uint32_t k = below(4); k > 0; k--)
				chained += act() && b.fetch_count > 0;
		}
		settle();
		for (uint32_t i = 0; i < w.wish_count; i++)
			commanded += w.wishes[i].commands;
		all_is_free();
		bed_close(&b);
	}
	/* It was about something. */
	EXPECT(commanded > SEEDS * 10);
	EXPECT(chained > SEEDS);
}
