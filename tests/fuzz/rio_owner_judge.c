/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio_owner_judge.h"

#include <string.h>

#include "base/check.h"

struct owner_world w;

bool is_unit(int end)
{
	return end >= REQUESTERS;
}

static int end_by_number(uint32_t number)
{
	for (int i = 0; i < ENDS; i++) {
		if (w.ends[i].is_here && w.ends[i].number == number)
			return i;
	}
	CHECK(!"an end that is not connected");
	return -1;
}

static int end_by_name(struct platform name)
{
	for (int i = 0; i < ENDS; i++) {
		if (platform_is_same(w.ends[i].platform, name))
			return i;
	}
	return -1;
}

/* ---- The rules: A reads all and may name B's memory, B has half of unit 0's disk ------------ */

void judge_rules(void)
{
	const struct rio_rule reads = { .requester = { 7, 0 }, .operations = 1 << SGL_READ };
	const struct rio_rule half = { .requester = { 8, 1 },
				       .iounit = w.ends[REQUESTERS].platform,
				       .name = "disk",
				       .name_bytes = 4,
				       .operations = 1 << SGL_READ | 1 << SGL_WRITE |
						     1 << SGL_FLUSH,
				       .length = SHARED };
	const struct rio_share share = { { 7, 1 }, { 8, 1 } };

	CHECK(rio_policy_add(&w.policy, &reads) == WEFT_OK);
	CHECK(rio_policy_add(&w.policy, &half) == WEFT_OK);
	CHECK(rio_policy_add_share(&w.policy, &share) == WEFT_OK);
	CHECK(rio_policy_add_watcher(&w.policy, (struct platform){ 9, 1 }) == WEFT_OK);
}

static bool is_allowed(int end, int unit, const struct sgl_transaction *t)
{
	if (end == 0)
		return t->operation == SGL_READ;
	if (end != 1 || unit != 0 || t->device != 1)
		return false;
	return t->operation == SGL_FLUSH ||
	       ((t->operation == SGL_READ || t->operation == SGL_WRITE) && t->offset <= SHARED &&
		t->length <= SHARED - t->offset);
}

static bool may_name(int end, int whose)
{
	return whose == end || (end == 0 && whose == 1);
}

/* ---- What the owner says -------------------------------------------------------------------- */

/* It is open, to this unit, and wide enough. */
static void judge_window(int unit, const struct sgl_chain *c)
{
	const uint64_t at = c->address - LISTS_ADDRESS;
	const struct window *v = &w.windows[at / RIO_LIST_BYTES_MAX];

	CHECK(v->is_open && v->unit == unit && v->handle == c->handle);
	CHECK(at % RIO_LIST_BYTES_MAX == 0 && c->length <= v->length);
}

/* The whole list of a command, as its unit would fetch it: into w.check. */
static void take_list(int unit, const struct rio_bytes *list)
{
	struct sgl_chain c;

	rio_list_clear(w.check);
	CHECK(rio_list_take(w.check, list->bytes, list->length) == WEFT_OK);
	while (rio_list_wants(w.check, &c)) {
		CHECK(platform_is_same(c.platform, (struct platform){ 1, 1 }));
		CHECK(c.address >= LISTS_ADDRESS);
		CHECK(c.address - LISTS_ADDRESS <= sizeof(w.lists) - c.length);
		judge_window(unit, &c);
		CHECK(rio_list_take(w.check, w.lists + (c.address - LISTS_ADDRESS), c.length) ==
		      WEFT_OK);
	}
	CHECK(rio_list_is_whole(w.check));
}

static void judge_list(int unit, int end)
{
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;

	rio_walk_start(&walk, w.check);
	while (rio_walk_transaction(&walk, &t)) {
		CHECK((t.device == 1 || t.device == 2) && is_allowed(end, unit, &t));
		CHECK(t.offset <= DISK && t.length <= DISK - t.offset);
		CHECK(t.device == 1 || t.operation == SGL_READ);
		while (rio_walk_segment(&walk, &s)) {
			int whose;

			CHECK(s.where != RIO_OWN); /* no list may name a unit's memory */
			if (s.where == RIO_IMMEDIATE)
				continue;
			whose = end_by_name(s.platform);
			CHECK(whose >= 0 && !is_unit(whose) && may_name(end, whose));
			/* Another may have left since; then the unit refuses it. */
			CHECK(whose != end || w.ends[unit + REQUESTERS].knows[whose]);
		}
	}
}

struct wish *judge_open_wish(int end, uint64_t id)
{
	for (uint32_t i = w.wish_count; i-- > 0;) {
		if (w.wishes[i].is_open && w.wishes[i].end == end && w.wishes[i].id == id)
			return &w.wishes[i];
	}
	return NULL;
}

static void hear_command(int unit, const struct rio_msg *m)
{
	int end = end_by_name(m->request.requester);
	struct wish *wish = judge_open_wish(end, m->request.asked);
	uint32_t under_way = 0;

	CHECK(end >= 0 && !is_unit(end) && wish && w.ends[end].is_here);
	CHECK(wish->commands == 0 && wish->final_notes == 0 && m->id > w.last_command);
	CHECK(m->request.timeout_ms > 0);
	take_list(unit, &m->request.list);
	CHECK(wish->allowed_notes == rio_list_transactions(w.check));
	judge_list(unit - REQUESTERS, end);
	for (uint32_t i = 0; i < w.command_count; i++)
		under_way += w.commands[i].unit == unit;
	CHECK(under_way < COMMANDS && w.command_count < KEPT);
	wish->commands++;
	w.last_command = m->id;
	w.commands[w.command_count++] = (struct command){ unit, end, m->id, wish };
}

static void hear_unit(int unit, const struct rio_msg *m)
{
	bool *knows = w.ends[unit].knows;
	int whose;

	switch (m->type) {
	case RIO_COMMAND:
		hear_command(unit, m);
		break;
	case RIO_GRANT:
		whose = end_by_name(m->grant.requester);
		CHECK(whose >= 0 && !is_unit(whose) && !knows[whose] && w.ends[whose].is_here);
		knows[whose] = true;
		break;
	case RIO_REVOKE:
		whose = end_by_name(m->revoked);
		CHECK(whose >= 0 && !is_unit(whose) && knows[whose]);
		knows[whose] = false;
		break;
	case RIO_CANCEL:
		for (uint32_t i = 0; i < w.command_count; i++) {
			if (w.commands[i].id == m->id && w.commands[i].unit == unit)
				return;
		}
		CHECK(!"a command that is not under way is cancelled");
		break;
	default:
		CHECK(m->type == RIO_PONG);
		break;
	}
}

static void answered(int end, uint64_t id, uint32_t reason, bool is_notified)
{
	struct wish *wish = judge_open_wish(end, id);

	CHECK(wish && wish->final_notes == 1);
	if (reason == 0)
		CHECK(wish->has_ended_well);
	if (is_notified)
		CHECK(wish->is_notified);
	wish->is_open = false;
}

/* C watches, with ids that no request has. */
static void hear_requester(int end, const struct rio_msg *m)
{
	struct rd at;

	switch (m->type) {
	case RIO_STATUS:
		if (m->id < IDS)
			answered(end, m->id, m->status.reason, false);
		else
			CHECK(end != 2 && m->status.reason == WEFT_R_RIO_DENIED);
		break;
	case RIO_NOTIFIED:
		at = rd_of(m->notified.entries.bytes, m->notified.entries.length);
		for (uint32_t i = 0; i < m->notified.count; i++)
			answered(end, rio_notified_next(&at).id, 0, true);
		break;
	case RIO_REPORT:
		CHECK(end == 2 && m->id >= IDS);
		break;
	default:
		CHECK(m->type == RIO_ANNOUNCE || m->type == RIO_REVOKE || m->type == RIO_PONG);
		break;
	}
}

static struct wish *noted_wish(const struct rio_note *n)
{
	int end = end_by_name(n->who);

	/* The latest of this id whose end is not written down: it may have left meanwhile. */
	for (uint32_t i = 0; i < w.wish_count; i++) {
		struct wish *wish = &w.wishes[i];

		if (wish->end == end && wish->id == n->request && wish->final_notes == 0)
			return wish;
	}
	CHECK(!"the log has a request that no requester made");
	return NULL;
}

static void note(const struct rio_note *n)
{
	struct wish *wish;

	if (n->kind == RIO_NOTE_CAME || n->kind == RIO_NOTE_LEFT || n->kind == RIO_NOTE_WATCH)
		return;
	wish = noted_wish(n);
	if (n->kind == RIO_NOTE_ALLOWED) {
		struct sgl_transaction t = n->is;
		int unit = (int)(t.device >> RIO_OWNER_UNIT_SHIFT) - 1;

		t.device &= 0xffff;
		CHECK(is_allowed(wish->end, unit, &t) && wish->commands == 0);
		wish->allowed_notes++;
		return;
	}
	CHECK((n->kind == RIO_NOTE_ENDED) == (wish->allowed_notes > 0));
	CHECK(n->kind != RIO_NOTE_ENDED || wish->allowed_notes == n->transactions);
	CHECK(n->kind == RIO_NOTE_ENDED || n->reason != WEFT_OK);
	wish->final_notes++;
}

static void hear(const struct rio_owner_act *act)
{
	int end = end_by_number(act->number);
	static uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct rio_msg m;

	CHECK(act->length <= sizeof(bytes));
	memcpy(bytes, act->bytes, act->length);
	CHECK(rio_session_open(&w.ends[end].session, bytes, act->length, &m) == WEFT_OK);
	if (is_unit(end))
		hear_unit(end, &m);
	else
		hear_requester(end, &m);
}

static void begin_fetch(const struct rio_owner_act *act)
{
	CHECK(!is_unit(end_by_number(act->number)) && w.fetch_count < LISTS);
	CHECK(act->bytes >= w.lists && act->length > 0 &&
	      act->bytes + act->length <= w.lists + sizeof(w.lists));
	for (uint32_t i = 0; i < w.fetch_count; i++)
		CHECK(w.fetches[i].bytes != act->bytes && w.fetches[i].id != act->id);
	w.fetches[w.fetch_count++] = *act;
}

static void expose(const struct rio_owner_act *act)
{
	struct window *v = &w.windows[act->id];
	int end = end_by_number(act->number);

	CHECK(act->id < LISTS && !v->is_open && is_unit(end));
	CHECK(act->bytes == w.lists + (size_t)act->id * RIO_LIST_BYTES_MAX && act->length > 0 &&
	      act->length <= RIO_LIST_BYTES_MAX);
	*v = (struct window){ true, end, HANDLE + ++w.exposed, act->length };
	rio_owner_exposed(w.owner, act->id, WEFT_OK, v->handle);
}

bool judge_act(void)
{
	struct rio_owner_act act;

	if (!rio_owner_act(w.owner, &act))
		return false;
	switch (act.kind) {
	case RIO_OWNER_SAY:
		hear(&act);
		break;
	case RIO_OWNER_FETCH:
		begin_fetch(&act);
		break;
	case RIO_OWNER_NOTE:
		note(&act.note);
		break;
	case RIO_OWNER_SEND_AWAY:
		w.ends[end_by_number(act.number)].is_away = true;
		break;
	case RIO_OWNER_EXPOSE:
		expose(&act);
		break;
	case RIO_OWNER_CLOSE:
		CHECK(act.id < LISTS && w.windows[act.id].is_open);
		w.windows[act.id].is_open = false;
		break;
	}
	return true;
}

void judge_act_all(void)
{
	uint32_t bound = 100000;

	while (judge_act())
		CHECK(--bound > 0);
}
