/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AMB-39: a tag may be retired while data that was sent under it is not acknowledged. If the peer
 * retires it, by its one touch or a Send with Invalidate, the data is found by its address and goes
 * again. If the owner does, the memory is the owner's again, and the request fails (SEND-15).
 */
#include <string.h>

#include "ib/conn.h"
#include "ib_bed.h"

enum { MTU = 256, SOURCE_AT = 4096, BYTES = 3 * MTU, SPARE_AT = 512 };

/* How the source is registered, and so how a peer retires it. */
enum way { ONE_TOUCH, BY_QUEUE, WAYS };

static uint32_t psn(uint32_t n)
{
	return (PSN_OURS + n) & IBA_PSN_MASK;
}

static uint32_t source_open(struct ib_bed *b, enum way way)
{
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options o = {
		.addr = (uintptr_t)b->memory + SOURCE_AT,
		.length = BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
		.is_one_touch = way == ONE_TOUCH,
	};
	uint32_t tag;

	if (way == ONE_TOUCH) {
		MUST(mem_region_register(&b->adapter.mem, &owner, &o, &tag));
		return tag;
	}
	MUST(mem_tag_reserve(&b->adapter.mem, b->pd->number, &tag));
	MUST(mem_region_register_reserved(&b->adapter.mem, &owner, &o, tag));
	return tag;
}

/* Three packets are on their way, and nothing was heard of them. */
static void send_unheard(struct ib_bed *b, uint32_t tag)
{
	const struct weft_sge s = { (uintptr_t)b->memory + SOURCE_AT, BYTES, tag };
	const struct weft_send_wr wr = {
		.id = 1, .opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1
	};

	bed_post(b, wr, 0, 0);
	for (int i = 0; i < 3; i++)
		bed_next(b);
	bed_silent(b);
}

/* The peer's own use of it ends the tag; what lies there stays as it is. */
static void retire_by_peer(struct ib_bed *b, uint32_t tag, enum way way)
{
	uint32_t next = b->conn->resp.psn;
	struct iba_packet p = way == ONE_TOUCH ? peer_reth(b, IBA_WRITE_ONLY, next, SOURCE_AT, 8)
					       : peer_op(IBA_SEND_ONLY_INV, next);
	const struct weft_sge s = { (uintptr_t)b->memory + SOURCE_AT, 8, tag };
	const struct stretch use = { .sges = &s, .count = 1, .kind = MEM_LOCAL_READ };

	if (way == ONE_TOUCH) {
		p.r_key = tag;
		MUST(bed_put(b, p, b->memory + SOURCE_AT, 8));
	} else {
		p.inv_r_key = tag;
		bed_recv(b, 9, SPARE_AT, 8);
		MUST(bed_put(b, p, b->memory, 8));
		bed_completed(b, 9, WEFT_SUCCESS);
	}
	bed_expect_ack(b, 0, next);
	REQUIRE(qp_segments_check(b->qp, &use) != WEFT_OK); /* nothing new can be sent from it */
}

static void complain(struct ib_bed *b, uint32_t n)
{
	MUST(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(n), 0), NULL, 0));
}

static void expect_gone(struct ib_bed *b)
{
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	EXPECT_EQ(b->qp->reason, WEFT_R_SOURCE_GONE);
	bed_silent(b);
}

TEST(test_send_09_send_10_what_a_peer_retired_is_sent_again)
{
	for (enum way way = 0; way < WAYS; way++) {
		struct ib_bed *b = bed_open(NULL, WEFT_RC);
		uint32_t tag = source_open(b, way);

		send_unheard(b, tag);
		retire_by_peer(b, tag, way);
		complain(b, 1);
		for (uint32_t n = 1; n < 3; n++) {
			struct bed_packet *p = bed_expect(
				b, n == 2 ? IBA_SEND_LAST : IBA_SEND_MIDDLE, psn(n));

			EXPECT_MEM(p->payload, b->memory + SOURCE_AT + n * MTU, MTU);
		}
		MUST(bed_put(b, peer_ack(IBA_CREDITS_UNUSED, psn(2), 1), NULL, 0));
		bed_completed(b, 1, WEFT_SUCCESS);
		if (way == ONE_TOUCH)
			MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
		bed_close(b);
	}
}

static enum weft_reason access_retired(struct ib_bed *b, enum mem_kind kind, uint32_t tag)
{
	const struct mem_access a = {
		.addr = (uintptr_t)b->memory + SOURCE_AT,
		.length = 8,
		.tag = tag,
		.pd = b->pd->number,
		.kind = kind,
	};
	struct mem_grant grant;

	return mem_access_retired(&b->adapter.mem, &a, b->pd->space, &grant);
}

/* And read only, by a tag that a peer retired: no other is granted that way. */
TEST(test_send_15_only_what_a_peer_retired_is_read)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	uint32_t tag = source_open(b, ONE_TOUCH);

	retire_by_peer(b, tag, ONE_TOUCH);
	EXPECT_EQ(access_retired(b, MEM_LOCAL_READ, tag), WEFT_OK);
	EXPECT_EQ(access_retired(b, MEM_LOCAL_WRITE, tag), WEFT_R_TAG_INVALID);
	EXPECT_EQ(access_retired(b, MEM_LOCAL_READ, b->tag), WEFT_R_TAG_INVALID);
	EXPECT_EQ(access_retired(b, MEM_LOCAL_READ, UINT32_MAX), WEFT_R_TAG_INVALID);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
	bed_close(b);
}

TEST(test_send_15_what_its_owner_took_back_is_not)
{
	for (int is_spent = 0; is_spent < 2; is_spent++) {
		for (enum way way = 0; way < WAYS; way++) {
			struct ib_bed *b = bed_open(NULL, WEFT_RC);
			uint32_t tag = source_open(b, way);

			if (is_spent && way == BY_QUEUE) { /* its owner has nothing left to give */
				MUST(mem_tag_release(&b->adapter.mem, b->pd->number, tag));
				bed_close(b);
				continue;
			}
			send_unheard(b, tag);
			if (is_spent)
				retire_by_peer(b, tag, way);
			if (way == ONE_TOUCH)
				MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
			else
				MUST(mem_tag_release(&b->adapter.mem, b->pd->number, tag));
			complain(b, 1);
			expect_gone(b);
			bed_close(b);
		}
	}
}

/* Another region has the entry by now: of the one before nothing is known any more. */
TEST(test_send_15_an_entry_that_serves_another_region_does_not_tell)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	uint32_t tag = source_open(b, BY_QUEUE), others[512], count = 0;

	send_unheard(b, tag);
	retire_by_peer(b, tag, BY_QUEUE);
	do {
		REQUIRE(count < sizeof(others) / sizeof(others[0]));
		others[count] = source_open(b, ONE_TOUCH);
	} while (weft_tag_index(others[count++]) != weft_tag_index(tag));
	retire_by_peer(b, others[count - 1], ONE_TOUCH);
	complain(b, 1);
	expect_gone(b);
	while (count > 0)
		MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, others[--count]));
	bed_close(b);
}
