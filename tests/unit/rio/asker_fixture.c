/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/rio/asker_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct platform self = { ASKER, 1 };

void asker_fail(struct asker_world *w, const char *why)
{
	if (!w->failure)
		w->failure = why;
}

struct rio_requester_config asker_config(uint8_t *lists)
{
	return (struct rio_requester_config){ .self = self,
					      .requests_max = ASKER_REQUESTS,
					      .sges_max = ASKER_WINDOWS,
					      .iounits_max = ASKER_UNITS,
					      .devices_max = ASKER_DEVICES,
					      .lists_max = ASKER_LISTS,
					      .lists = lists,
					      .lists_handle = ASKER_HANDLE,
					      .lists_address = ASKER_LISTS_ADDRESS,
					      .timeout_ns = (uint64_t)ASKER_TIMEOUT_MS * NS_PER_MS,
					      .grace_ns = (uint64_t)ASKER_GRACE_MS * NS_PER_MS };
}

void asker_open_with(struct asker_world *w, uint32_t own_requests_max, uint32_t requests_max,
		     uint32_t list_max)
{
	struct rio_requester_config config;

	memset(w, 0, sizeof(*w));
	w->lists = calloc(ASKER_LISTS, RIO_LIST_BYTES_MAX);
	REQUIRE(w->lists != NULL);
	config = asker_config(w->lists);
	config.requests_max = own_requests_max;
	REQUIRE(rio_requester_create(&config, &w->q) == WEFT_OK);
	asker_owner_comes(w, requests_max, list_max);
}

void asker_open(struct asker_world *w, uint32_t requests_max, uint32_t list_max)
{
	asker_open_with(w, ASKER_REQUESTS, requests_max, list_max);
}

void asker_close(struct asker_world *w)
{
	const char *failure = w->failure;

	rio_requester_destroy(w->q);
	free(w->lists);
	EXPECT_STR(failure ? failure : "", "");
}

/* Each owner has keys of his own. */
void asker_owner_comes(struct asker_world *w, uint32_t requests_max, uint32_t list_max)
{
	struct rio_handshake handshake = { .requests_max = requests_max, .list_max = list_max };
	struct rio_session *s = &handshake.greet.session;

	w->owners++;
	memset(s->send_key, 1 + (int)w->owners * 2, sizeof(s->send_key));
	memset(s->receive_key, 2 + (int)w->owners * 2, sizeof(s->receive_key));
	s->sent = 2;
	s->received = 1;
	w->owner = *s;
	memcpy(w->owner.send_key, s->receive_key, RIO_KEY_BYTES);
	memcpy(w->owner.receive_key, s->send_key, RIO_KEY_BYTES);
	w->owner.sent = 1;
	w->owner.received = 2;
	rio_requester_owner_came(w->q, &handshake);
}

enum weft_reason asker_hears(struct asker_world *w, const struct rio_msg *m)
{
	size_t length = rio_session_close(&w->owner, m, w->said, sizeof(w->said));
	enum weft_reason r;

	REQUIRE(length > 0);
	r = rio_requester_take(w->q, w->said, length, w->now_ns);
	memset(w->said, 0xff, sizeof(w->said)); /* what it needs of it, it has copied */
	return r;
}

enum weft_reason asker_status(struct asker_world *w, uint64_t id, enum weft_reason reason)
{
	return asker_hears(w, &(struct rio_msg){ .type = RIO_STATUS,
						 .id = id,
						 .status = { .reason = (uint32_t)reason } });
}

/* ---- What the requester does ---------------------------------------------------------------- */

static void hear(struct asker_world *w, const struct rio_requester_act *act)
{
	struct heard *h = &w->heard[w->heard_count % ASKER_HEARD_MAX];
	struct rio_msg m;

	if (rio_session_open(&w->owner, act->bytes, act->length, &m) != WEFT_OK) {
		asker_fail(w, "the owner cannot read what the requester says");
		return;
	}
	w->heard_count++;
	h->type = m.type;
	h->id = m.id;
	if (m.type != RIO_REQUEST)
		return;
	h->timeout_ms = m.request.timeout_ms;
	h->length = m.request.list.length;
	memcpy(h->list, m.request.list.bytes, h->length);
}

void asker_expose(struct asker_world *w, uint32_t id, enum weft_reason reason)
{
	struct pane_of *p = &w->panes[id];

	REQUIRE(p->state == PANE_ASKED);
	p->state = reason == WEFT_OK ? PANE_OPEN : PANE_SHUT;
	p->handle = 0x5000 + ++w->handles;
	w->open_now += reason == WEFT_OK;
	rio_requester_exposed(w->q, id, reason, p->handle);
}

static void expose(struct asker_world *w, const struct rio_requester_act *act)
{
	struct pane_of *p = &w->panes[act->id % ASKER_WINDOWS];

	if (act->id >= ASKER_WINDOWS || p->state != PANE_SHUT) {
		asker_fail(w, "a window is exposed that is not free");
		return;
	}
	*p = (struct pane_of){ .state = PANE_ASKED,
			       .tag = act->tag,
			       .length = act->window_length,
			       .address = act->address,
			       .is_written = act->is_written,
			       .iounit = act->iounit };
	w->opened++;
	if (!w->is_slow)
		asker_expose(w, act->id, WEFT_OK);
}

bool asker_step(struct asker_world *w)
{
	struct rio_requester_act act;

	if (!rio_requester_act(w->q, &act))
		return false;
	switch (act.kind) {
	case RIO_REQUESTER_SAY:
		hear(w, &act);
		break;
	case RIO_REQUESTER_EXPOSE:
		expose(w, &act);
		break;
	case RIO_REQUESTER_CLOSE:
		if (act.id >= ASKER_WINDOWS || w->panes[act.id].state != PANE_OPEN)
			asker_fail(w, "a window is closed that is not open");
		else
			w->panes[act.id].state = PANE_SHUT;
		w->closed++;
		w->open_now--;
		break;
	case RIO_REQUESTER_HANG_UP:
		w->hung_up[w->hung_up_count++ % ASKER_HEARD_MAX] = act.iounit;
		break;
	}
	return true;
}

void asker_run(struct asker_world *w)
{
	int steps = 0;

	while (!w->failure && asker_step(w))
		REQUIRE(++steps < 100000);
}

void asker_wait(struct asker_world *w, uint64_t ns)
{
	w->now_ns += ns;
	rio_requester_expire(w->q, w->now_ns);
	asker_run(w);
}

uint32_t asker_heard(const struct asker_world *w, enum rio_msg_type type)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->heard_count && i < ASKER_HEARD_MAX; i++)
		count += w->heard[i].type == type;
	return count;
}

const struct heard *asker_latest(const struct asker_world *w, enum rio_msg_type type)
{
	const struct heard *latest = NULL;

	REQUIRE(w->heard_count <= ASKER_HEARD_MAX);
	for (uint32_t i = 0; i < w->heard_count; i++) {
		if (w->heard[i].type == type)
			latest = &w->heard[i];
	}
	REQUIRE(latest != NULL);
	return latest;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

struct rio_list *asker_list(struct asker_world *w, const struct heard *heard)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	struct rio_list *list = rio_list_create(&limits);
	struct sgl_chain chain;

	REQUIRE(list != NULL);
	REQUIRE(rio_list_take(list, heard->list, heard->length) == WEFT_OK);
	while (rio_list_wants(list, &chain)) {
		uint64_t at = chain.address - ASKER_LISTS_ADDRESS;

		REQUIRE(platform_is_same(chain.platform, self) && chain.handle == ASKER_HANDLE);
		REQUIRE(at < ASKER_LISTS * RIO_LIST_BYTES_MAX && at % RIO_LIST_BYTES_MAX == 0);
		REQUIRE(rio_list_take(list, w->lists + at, chain.length) == WEFT_OK);
	}
	REQUIRE(rio_list_is_whole(list));
	return list;
}

static bool is_open(const struct asker_world *w, const struct rio_segment *s, bool is_read)
{
	for (uint32_t i = 0; i < ASKER_WINDOWS; i++) {
		const struct pane_of *p = &w->panes[i];

		if (p->state == PANE_OPEN && p->handle == s->handle && p->address == s->address &&
		    p->length == s->length && p->is_written == is_read)
			return true;
	}
	return false;
}

bool asker_list_is_open(struct asker_world *w, const struct heard *heard)
{
	struct rio_list *list = asker_list(w, heard);
	struct sgl_transaction t;
	struct rio_segment s;
	struct rio_walk walk;
	bool is_good = true;

	rio_walk_start(&walk, list);
	while (rio_walk_transaction(&walk, &t)) {
		while (rio_walk_segment(&walk, &s)) {
			if (s.where == RIO_OWN)
				is_good = false;
			if (s.where == RIO_REMOTE && platform_is_same(s.platform, self))
				is_good = is_good && is_open(w, &s, t.operation == SGL_READ);
		}
	}
	rio_list_destroy(list);
	return is_good;
}

/*
 * ---- Asking -----------------------------------------------------------------------------------
 */

struct rio_fragment asker_own(uint64_t address, uint32_t length)
{
	return (struct rio_fragment){ .tag = ASKER_TAG, .length = length, .address = address };
}

struct sgl_transaction asker_transaction(enum sgl_operation operation, uint64_t length)
{
	return (struct sgl_transaction){
		.operation = operation, .device = ASKER_DEVICE, .offset = 1 << 20, .length = length
	};
}

struct rio_wanted asker_wanted(enum sgl_operation operation, const struct rio_fragment *f,
			       uint32_t count)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < count; i++)
		length += f[i].length;
	return (struct rio_wanted){ .is = asker_transaction(operation, length),
				    .fragments = f,
				    .fragment_count = count };
}

enum weft_reason asker_ask(struct asker_world *w, const struct rio_wanted *what, uint32_t count,
			   uint64_t *id)
{
	const struct rio_ask a = { .wanted = what, .count = count, .context = w };

	return rio_requester_ask(w->q, &a, w->now_ns, id);
}

uint64_t asker_read(struct asker_world *w, uint32_t fragments)
{
	struct rio_fragment f[ASKER_WINDOWS];
	struct rio_wanted what;
	uint64_t id;

	for (uint32_t i = 0; i < fragments; i++)
		f[i] = asker_own(0x10000 + i * 0x2000, 4096);
	what = asker_wanted(SGL_READ, f, fragments);
	REQUIRE(asker_ask(w, &what, 1, &id) == WEFT_OK);
	return id;
}

void asker_expect_ended(struct asker_world *w, uint64_t id, uint32_t reason)
{
	struct rio_ended e;

	REQUIRE(rio_requester_ended(w->q, &e));
	REQUIRE(e.id == id);
	REQUIRE(e.reason == reason);
	REQUIRE(e.context == w);
	REQUIRE(!rio_requester_ended(w->q, &e));
}

bool asker_has_ended(struct asker_world *w)
{
	struct rio_ended e;

	return rio_requester_ended(w->q, &e);
}

uint32_t asker_pane(const struct asker_world *w)
{
	uint32_t i = 0;

	while (i < ASKER_WINDOWS && w->panes[i].state != PANE_ASKED)
		i++;
	REQUIRE(i < ASKER_WINDOWS);
	return i;
}

enum weft_reason asker_ask_long(struct asker_world *w, uint32_t bytes, uint64_t *id)
{
	static const uint8_t data[RIO_LIST_BYTES_MAX];
	const struct rio_wanted what = { .is = asker_transaction(SGL_WRITE, bytes),
					 .immediate = data };

	return asker_ask(w, &what, 1, id);
}
