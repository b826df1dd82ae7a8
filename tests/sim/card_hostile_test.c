/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host or a unit that breaks the rules, on connections of real adapters: what it sends is refused
 * with a reason, nothing is written, and the other host notices nothing. The world judges memory.
 */
#include "sim/card/card_world.h"
#include "test.h"

#include <string.h>

enum { HOST = 0, UNIT = 1, OTHER = 2, STEPS = 200000, NO_POOL = 200 };

/* Each test has four turns: over both wires, and with either end as the liar. */
enum { TURNS = 4 };

static uint32_t liar, honest;

static void step(struct card_world *w)
{
	REQUIRE(card_world_step(w));
}

/* All are greeted, have sent for a while, and pause. */
static void begin(struct card_world *w, int turn)
{
	const struct cdw_choice c = {
		.has_wire = true,
		.has_mode = true,
		.has_model = true,
		.wire = turn / 2 == 0 ? CDW_ROCE : CDW_IWARP,
		.mode = PUSH_MODE_RDMA,
		.model = CDW_PUSH_PUSH,
		.is_plain = true,
		.is_hostile = true,
	};

	liar = turn % 2 == 0 ? HOST : UNIT;
	honest = liar ^ 1;
	REQUIRE(card_world_open(w, 1, &c) == 0);
	while (w->opens < CDW_ENDS || w->packets < 20)
		step(w);
	w->limits.burst = 0;
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		while (w->ends[i].busy > 0 || w->ends[i].kept_count > 0)
			step(w);
	}
}

/* The world goes on, and ends well; the other host has had one connection only. */
static void end(struct card_world *w, uint32_t other_serial, uint64_t packets)
{
	w->limits.burst = 4;
	while (card_world_step(w)) {
		if (w->phase < CDW_CLOSE)
			EXPECT_EQ(w->ends[OTHER].serial, other_serial);
	}
	EXPECT_STR(card_world_failure(w), "");
	EXPECT(w->packets > packets + 20);
	card_world_close(w);
}

/* The liar posts this itself, past its link. */
static void post(struct card_world *w, struct weft_send_wr wr, const void *bytes, uint32_t length)
{
	struct cdw_end *e = &w->ends[liar];
	const uint32_t at = CDW_AT_PACKETS + (CDW_PACKETS - 1) * CDW_PACKET_BYTES;
	const struct weft_sge s = { cdw_addr(e, at), length, e->tag };
	uint32_t posted = 0;

	REQUIRE(e->slots[CDW_PACKETS - 1] == 0);
	if (bytes)
		memcpy(cdw_at(e, at), bytes, length);
	wr.id = CDW_WORK_HOSTILE;
	wr.flags = WEFT_SIGNALLED;
	wr.sges = &s;
	wr.sge_count = length > 0;
	MUST(qp_post_send(e->qps[0], &wr, 1, &posted));
	e->sends++;
	cdw_node_turn(cdw_node_of(e));
}

/* ---- Writes that the adapter refuses ----------------------------------------------------- */

/* The connection ends, and the host may come again. */
static void writes(struct card_world *w, uint64_t addr, uint32_t handle)
{
	uint32_t serial = w->ends[liar].serial, other = w->ends[OTHER].serial;
	uint64_t packets = w->packets;
	uint8_t bytes[64];

	memset(bytes, 0xee, sizeof(bytes));
	post(w,
	     (struct weft_send_wr){
		     .opcode = WEFT_OP_WRITE, .remote_addr = addr, .remote_tag = handle },
	     bytes, sizeof(bytes));
	w->limits.burst = 4;
	for (int i = 0; i < STEPS && w->ends[liar].serial == serial; i++)
		step(w);
	EXPECT(w->ends[liar].serial > serial);
	end(w, other, packets);
}

TEST(test_push_14_card_a_write_with_a_wrong_handle_writes_nothing)
{
	for (int i = 0; i < TURNS; i++) {
		struct card_world w;
		const struct cdw_pool *p;

		begin(&w, i);
		p = &w.ends[honest].book.pools[0];
		writes(&w, cdw_addr(&w.ends[honest], p->at), p->handle ^ 1);
	}
}

TEST(test_push_14_card_a_write_beyond_its_pool_writes_nothing)
{
	for (int i = 0; i < TURNS; i++) {
		struct card_world w;
		const struct cdw_pool *p;

		begin(&w, i);
		p = &w.ends[honest].book.pools[0];
		writes(&w, cdw_addr(&w.ends[honest], p->at + p->elements * p->element_bytes - 63),
		       p->handle);
	}
}

/* PUSH-05: even with the handle of the other host's link. */
TEST(test_push_05_card_a_write_into_the_pool_of_another_host_writes_nothing)
{
	for (int i = 0; i < TURNS; i++) {
		struct card_world w;
		const struct cdw_pool *p;

		begin(&w, i);
		p = &w.ends[OTHER + honest].book.pools[0];
		writes(&w, cdw_addr(&w.ends[OTHER + honest], p->at), p->handle);
	}
}

TEST(test_push_17_card_a_write_after_the_flush_reply_writes_nothing)
{
	for (int i = 0; i < TURNS; i++) {
		struct card_world w;
		struct cdw_pool old;

		begin(&w, i);
		old = w.ends[honest].book.pools[0];
		MUST(push_pool_close(w.ends[honest].link, 0));
		cdw_node_turn(cdw_node_of(&w.ends[honest]));
		for (int k = 0; k < STEPS && w.ends[honest].book.pools[0].handle == old.handle; k++)
			step(&w);
		EXPECT(w.messages[PUSH_FLUSH_REQUEST] == 1 && w.messages[PUSH_FLUSH_REPLY] == 1);
		writes(&w, cdw_addr(&w.ends[honest], old.at), old.handle);
	}
}

/* ---- Messages and indications that the link refuses -------------------------------------- */

/* The link goes on. */
static void refused(struct card_world *w, enum weft_reason reason)
{
	uint64_t before = w->refused;

	for (int i = 0; i < STEPS && w->refused == before; i++)
		step(w);
	EXPECT_EQ(w->refused, before + 1);
	EXPECT_EQ(w->refused_for, reason);
	EXPECT_EQ(push_link_state(w->ends[liar].link), PUSH_OPEN);
	EXPECT_EQ(push_link_state(w->ends[honest].link), PUSH_OPEN);
}

static void say(struct card_world *w, const struct push_msg *m, enum weft_reason reason)
{
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr to = wr_of(bytes, sizeof(bytes));

	push_msg_encode(m, &to);
	post(w, (struct weft_send_wr){ .opcode = WEFT_OP_SEND }, bytes, (uint32_t)(to.at - bytes));
	refused(w, reason);
}

static void say_used(struct card_world *w, struct push_used u, uint32_t times,
		     enum weft_reason reason)
{
	uint8_t entries[2 * PUSH_USED_BYTES];
	struct wr to = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < times; i++)
		push_used_put(&u, &to);
	say(w, &(struct push_msg){ .function = PUSH_RDMA_INDICATE, .used = { times, entries } },
	    reason);
}

/* Of the honest end's pool 0, an element that is the liar's. */
static struct push_used good(const struct card_world *w)
{
	const struct cdw_pool *p = &w->ends[honest].book.pools[0];
	uint32_t element = 0;

	while (p->elements_of[element].turn != CDW_INITIATORS)
		element++;
	return (struct push_used){ 0, element, p->element_bytes, 64 };
}

TEST(test_push_14_push_24_card_indications_that_are_wrong_are_refused)
{
	for (int i = 0; i < TURNS; i++) {
		struct card_world w;
		struct push_used u;

		begin(&w, i);
		u = good(&w);
		say_used(&w, (struct push_used){ NO_POOL, 0, 64, 64 }, 1, WEFT_R_PUSH_POOL);
		say_used(&w, (struct push_used){ 0, 9999, u.element_bytes, 64 }, 1,
			 WEFT_R_PUSH_ELEMENT);
		say_used(&w, (struct push_used){ 0, u.element, u.element_bytes - 1, 64 }, 1,
			 WEFT_R_PUSH_SIZE);
		say_used(&w,
			 (struct push_used){ 0, u.element, u.element_bytes, u.element_bytes + 1 },
			 1, WEFT_R_PUSH_RANGE);
		say_used(&w, good(&w), 2, WEFT_R_PUSH_NOT_FREE);
		post(&w, (struct weft_send_wr){ .opcode = WEFT_OP_WRITE_IMM, .imm = 0xc8000040 },
		     NULL, 0);
		refused(&w, WEFT_R_PUSH_POOL);
		end(&w, w.ends[OTHER].serial, w.packets);
	}
}

TEST(test_push_18_card_messages_that_are_wrong_are_refused)
{
	for (int i = 0; i < TURNS; i++) {
		static const uint8_t function[12] = { 0, 99, 0, 1 }, version[12] = { 0, 5, 0, 2 };
		uint8_t entries[PUSH_RUN_BYTES];
		struct wr to = wr_of(entries, sizeof(entries));
		const struct push_run run = { NO_POOL, 0, 1 };
		struct card_world w;

		begin(&w, i);
		push_run_put(&run, &to);
		say(&w,
		    &(struct push_msg){ .function = PUSH_RECV_POOL_UPDATE, .runs = { 1, entries } },
		    WEFT_R_PUSH_POOL);
		say(&w, &(struct push_msg){ .function = PUSH_FLUSH_REPLY, .context = 1 << 30 },
		    WEFT_R_PUSH_REPLY);
		post(&w, (struct weft_send_wr){ .opcode = WEFT_OP_SEND }, function,
		     sizeof(function));
		refused(&w, WEFT_R_PUSH_FUNCTION);
		post(&w, (struct weft_send_wr){ .opcode = WEFT_OP_SEND }, version, sizeof(version));
		refused(&w, WEFT_R_PUSH_VERSION);
		end(&w, w.ends[OTHER].serial, w.packets);
	}
}
