/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link under a history that the input writes: messages, Writes and packets of another end that
 * keeps no rule, a consumer, and a connection that does its acts when it likes. Judged:
 *
 *	- a packet is told only of an element of an open pool that was not told of before;
 *	- a Write goes to an element that no other Write is under way to;
 *	- nothing is registered when it should not be, nothing is posted after the loss;
 *	- each packet is over once, each pool closed once, and the end comes last.
 */
#include <string.h>

#include "base/check.h"
#include "push/push.h"

enum { POOLS = 4, ELEMENTS = 6, BYTES = 128, SENDS = 3, PACKETS = 8, ACTS = 64, STEPS_MAX = 400 };

static struct {
	struct push_link *l;
	struct rd r;
	uint64_t now_ns;
	uint8_t messages[SENDS * PUSH_MSG_BYTES_MAX], memory[POOLS][ELEMENTS * BYTES];
	bool is_open[POOLS], is_registered[POOLS], is_full[POOLS][ELEMENTS];
	uint64_t acts[ACTS];	       /* under way; not registrations */
	uint64_t targets[ACTS];	       /* of Writes: where to; else 0 */
	uint32_t act_count, under_way; /* packets that are not over */
	uint64_t registering;
	bool is_registering, is_owed, has_ended, is_lost;
} w;

static void pull_events(void)
{
	struct push_event e;

	while (push_event(w.l, &e)) {
		CHECK(!w.has_ended);
		switch (e.kind) {
		case PUSH_EVENT_PACKET:
			CHECK(e.length >= PUSH_FRAME_MIN);
			if (!e.is_returned)
				break;
			CHECK(e.pool < POOLS && e.element < ELEMENTS && w.is_open[e.pool]);
			CHECK(!w.is_full[e.pool][e.element] && e.length <= BYTES);
			CHECK(e.bytes == w.memory[e.pool] + e.element * BYTES);
			w.is_full[e.pool][e.element] = true;
			break;
		case PUSH_EVENT_SENT:
			CHECK(w.under_way-- > 0);
			break;
		case PUSH_EVENT_POOL_CLOSED:
			CHECK(e.pool < POOLS && w.is_open[e.pool] && !w.is_registered[e.pool]);
			w.is_open[e.pool] = false;
			memset(w.is_full[e.pool], 0, sizeof(w.is_full[e.pool]));
			break;
		case PUSH_EVENT_ASKED_CFG:
			w.is_owed = true;
			break;
		case PUSH_EVENT_ENDED:
			w.has_ended = true;
			CHECK(w.act_count == 0 && w.under_way == 0);
			for (int i = 0; i < POOLS; i++)
				CHECK(!w.is_open[i]);
			break;
		default:
			break;
		}
	}
}

static void act_keep(const struct push_act *act)
{
	CHECK(w.act_count < ACTS);
	w.acts[w.act_count] = act->id;
	w.targets[w.act_count] = 0;
	if (act->kind == PUSH_ACT_WRITE) {
		for (uint32_t i = 0; i < w.act_count; i++)
			CHECK(w.targets[i] != act->address + 1);
		w.targets[w.act_count] = act->address + 1;
	}
	w.act_count++;
}

static bool act_one(void)
{
	struct push_act act;
	struct push_msg m;

	if (w.is_registering || !push_act(w.l, w.now_ns, &act))
		return false;
	switch (act.kind) {
	case PUSH_ACT_REGISTER:
		w.is_registering = true;
		w.registering = act.id;
		break;
	case PUSH_ACT_DEREGISTER:
		CHECK(w.is_registered[(uint32_t)act.id]);
		w.is_registered[(uint32_t)act.id] = false;
		push_done(w.l, act.id, WEFT_OK, w.now_ns);
		break;
	case PUSH_ACT_SEND:
		CHECK(!w.is_lost && push_msg_decode(&m, act.bytes, act.length) == WEFT_OK);
		act_keep(&act);
		break;
	default:
		CHECK(!w.is_lost && act.length >= PUSH_FRAME_MIN);
		act_keep(&act);
		break;
	}
	return true;
}

static void done_one(uint32_t which, enum weft_reason reason)
{
	uint64_t id;

	if (w.is_registering) {
		w.is_registering = false;
		w.is_registered[(uint32_t)w.registering] = reason == WEFT_OK;
		push_registered(w.l, w.registering, reason, 7);
		return;
	}
	if (w.act_count == 0)
		return;
	which %= w.act_count;
	id = w.acts[which];
	w.act_count--;
	for (uint32_t i = which; i < w.act_count; i++) {
		w.acts[i] = w.acts[i + 1];
		w.targets[i] = w.targets[i + 1];
	}
	push_done(w.l, id, reason, w.now_ns);
}

static void open_pool(uint8_t how)
{
	struct push_pool_config c = { .elements = 1 + how % ELEMENTS, .element_bytes = BYTES };
	uint32_t index;

	/* The lowest that is free is the one that it gets. */
	for (index = 0; index < POOLS && w.is_open[index]; index++)
		continue;
	if (index == POOLS)
		return;
	c.memory = w.memory[index];
	if (push_pool_open(w.l, &c, &index) == WEFT_OK)
		w.is_open[index] = true;
}

static void give_back(uint8_t which)
{
	uint32_t pool = which % POOLS, element = which / POOLS % ELEMENTS;

	if (!w.is_full[pool][element])
		return;
	w.is_full[pool][element] = false;
	push_return(w.l, pool, element);
}

/* A message of the other end: its header is made good, the rest is of the input. */
static void hear(uint8_t function)
{
	static uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr to = wr_of(bytes, 4);
	size_t length = 12 + rd_u8(&w.r);

	rd_bytes(&w.r, bytes, length);
	wr_u16(&to, function % (PUSH_FUNCTION_COUNT + 1));
	wr_u16(&to, PUSH_VERSION);
	(void)push_take(w.l, bytes, length, w.now_ns);
	pull_events();
}

static void send_packet(uint8_t how)
{
	static const uint8_t bytes[2000];
	const struct push_packet p = { bytes, 14 + how * 6U, how };

	if (push_packet(w.l, &p, w.now_ns) == WEFT_OK)
		CHECK(++w.under_way <= PACKETS);
}

static void answer(uint8_t how)
{
	struct push_cfg c = { .kind = PUSH_HELLO, .reason = how % 4 == 0 };

	if (!w.is_owed)
		return;
	w.is_owed = false;
	c.hello = (struct push_hello){ .mtu = 1500, .queues = 1, .mac = { 2 } };
	push_answer(w.l, &c);
}

static void step(void)
{
	uint8_t what = rd_u8(&w.r), how = rd_u8(&w.r);

	switch (what % 16) {
	case 0:
		open_pool(how);
		break;
	case 1:
		(void)push_pool_close(w.l, how % POOLS);
		break;
	case 2:
		(void)push_pool_release(w.l, how % 5);
		break;
	case 3:
		give_back(how);
		break;
	case 4:
		(void)push_written(
			w.l, (uint32_t)(how % 5) << 24 | (uint32_t)(how / 5 % 8) << 16 | BYTES,
			what, w.now_ns);
		break;
	case 5:
		send_packet(how);
		break;
	case 6:
		done_one(how, how == 255 ? WEFT_R_PEER_GONE : WEFT_OK);
		break;
	case 7:
		answer(how);
		break;
	case 8:
		w.now_ns += (uint64_t)how * 10 * 1000 * 1000;
		push_expire(w.l, w.now_ns);
		break;
	case 9:
		if (how > 250)
			push_end(w.l, w.now_ns);
		if (how == 250) {
			push_lost(w.l, WEFT_R_PEER_GONE);
			w.is_lost = true;
		}
		break;
	case 10:
	case 11:
		for (uint32_t i = 0; i < how % 8U && act_one(); i++)
			continue;
		break;
	default:
		hear(how);
		break;
	}
	pull_events();
}

/* The other end greets as it should; most histories begin so. */
static void greet(enum push_role role, enum push_mode mode, bool is_pull)
{
	static uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct push_msg m = { .function = role == PUSH_UNIT ? PUSH_CFG_REQUEST : PUSH_CFG_REPLY,
			      .context = 1,
			      .cfg = { .kind = PUSH_HELLO } };
	struct wr to = wr_of(bytes, sizeof(bytes));

	m.cfg.hello = (struct push_hello){ .role = role == PUSH_UNIT ? PUSH_HOST : PUSH_UNIT,
					   .mode = mode,
					   .is_pull = is_pull,
					   .mtu = 1500,
					   .queues = 1,
					   .mac = { 2 },
					   .pools_max = POOLS,
					   .elements_max = POOLS * ELEMENTS,
					   .message_bytes_max = PUSH_MSG_BYTES_MAX };
	while (act_one())
		done_one(0, WEFT_OK);
	push_msg_encode(&m, &to);
	CHECK(push_take(w.l, bytes, (size_t)(to.at - bytes), 0) == WEFT_OK);
	pull_events();
	answer(1);
	CHECK(push_link_state(w.l) == PUSH_OPEN);
}

static void open_world(const uint8_t *data, size_t size)
{
	struct push_config c;
	uint8_t how;

	memset(&w, 0, sizeof(w));
	w.r = rd_of(data, size);
	how = rd_u8(&w.r);
	push_config_init(&c, how & 1 ? PUSH_HOST : PUSH_UNIT,
			 how & 2 ? PUSH_MODE_SEND : PUSH_MODE_RDMA);
	c.messages = w.messages;
	c.sends_max = SENDS;
	c.own_pools_max = POOLS;
	c.own_elements_max = POOLS * ELEMENTS;
	c.packets_max = PACKETS;
	c.writes_max = 4;
	c.hello.pools_max = 4;
	c.hello.elements_max = 32;
	c.hello.is_pull = how & 4;
	c.has_immediate = how & 8;
	c.inline_bytes = how & 16 ? 64 : 0;
	c.refusals_max = 0;
	CHECK(push_link_create(&c, &w.l) == WEFT_OK);
	push_up(w.l, 0);
	if (how < 192)
		greet(c.hello.role, c.hello.mode, how & 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t bound = 10000;

	open_world(data, size);
	for (uint32_t i = 0; i < STEPS_MAX && !w.r.is_short && !w.has_ended; i++)
		step();
	push_lost(w.l, WEFT_R_PEER_GONE);
	w.is_lost = true;
	while (!w.has_ended) {
		CHECK(--bound > 0);
		(void)act_one();
		done_one(0, WEFT_OK);
		pull_events();
	}
	CHECK(push_due(w.l) == UINT64_MAX);
	push_link_destroy(w.l);
	return 0;
}
