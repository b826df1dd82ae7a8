/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote keys in use (RKEY): advertising, denial, address spaces, and one touch (TOUCH). */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { ID = 31, ALL_REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC };

static struct weft_send_wr access_wr(struct pair_end *a, enum weft_opcode opcode,
				     struct weft_sge *s, uint32_t tag, uint64_t remote_offset)
{
	struct weft_send_wr wr = end_wr(a, opcode, ID, s, remote_offset);

	wr.remote_tag = tag;
	return wr;
}

TEST(test_rkey_12_rkey_s1_advertise_by_send_and_be_reached)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_advert offer, got;
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, NULL);
	tag = end_bind(b, DST + 100, 333, WEFT_REMOTE_READ | WEFT_REMOTE_WRITE);
	offer = (struct weft_advert){ b->addr + DST + 100, 333, tag,
				      WEFT_REMOTE_READ | WEFT_REMOTE_WRITE };
	weft_advert_encode(&offer, b->memory + SRC);
	end_post_recv(a, 1, DST, WEFT_ADVERT_BYTES);
	s = end_seg(b, SRC, WEFT_ADVERT_BYTES);
	wr = end_wr(b, WEFT_OP_SEND, 2, &s, 0);
	end_succeeds(b, &wr);
	EXPECT_EQ(end_received(a, 1).byte_count, WEFT_ADVERT_BYTES);

	EXPECT(weft_advert_decode(a->memory + DST, WEFT_ADVERT_BYTES, &got));
	end_fill(a, SRC, 333, 5);
	s = end_seg(a, SRC, (uint32_t)got.length);
	wr = end_wr(a, WEFT_OP_WRITE, 3, &s, 0);
	wr.remote_tag = got.tag;
	wr.remote_addr = got.addr;
	end_succeeds(a, &wr);
	end_holds(b, DST + 100, 333, 5);
	s = end_seg(a, DST + 4096, (uint32_t)got.length);
	wr.opcode = WEFT_OP_READ;
	wr.sges = &s;
	end_succeeds(a, &wr);
	end_holds(a, DST + 4096, 333, 5);
	end_unbind(b, tag);
	pair_close(&p);
}

/* Each way to be wrong is denied, the initiator is told the cause, and memory stays (RKEY-S2). */
TEST(test_rkey_08a_rkey_08b_rkey_09_rkey_s2_wrong_key)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t tag, foreign;
	struct weft_sge s;
	struct weft_send_wr wr;
	struct weft_pd *other;
	struct weft_region_options o = { .length = 64, .rights = ALL_REMOTE };

	pair_open(&p, NULL);
	tag = end_bind(b, DST, 64, ALL_REMOTE);
	MUST(weft_pd_create(b->adapter, &(struct weft_pd_options){ .space = b->space }, &other));
	o.addr = b->addr + DST;
	MUST(weft_region_register(other, &o, &foreign));
	s = end_seg(a, SRC, 64);
	wr = access_wr(a, WEFT_OP_WRITE, &s, tag, DST);
	end_succeeds(a, &wr);
	const struct {
		uint32_t tag;
		enum weft_reason reason;
	} wrong[] = {
		{ tag ^ 0xff, WEFT_R_TAG_INSTANCE },
		{ 0xfffffe00 | (tag & 0xff), WEFT_R_TAG_INDEX },
		{ 0, WEFT_R_TAG_INVALID },
		{ foreign, WEFT_R_TAG_PD },
	};
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		for (int op = 0; op < 2; op++) {
			pair_blank(&p);
			wr = access_wr(a, op ? WEFT_OP_READ : WEFT_OP_WRITE, &s, wrong[i].tag, DST);
			end_refused(a, &wr, wrong[i].reason);
			EXPECT_EQ(end_query(b).reason, wrong[i].reason);
			end_is_blank(b, DST, 64);
			end_is_blank(a, SRC, 64);
			pair_revive(&p);
		}
	}
	MUST(weft_region_deregister(other, foreign));
	MUST(weft_pd_destroy(other));
	end_unbind(b, tag);
	pair_close(&p);
}

/* What a window grants is chosen when binding; each right serves its own operation alone. */
TEST(test_rkey_11_rights_are_chosen_at_bind)
{
	static const struct {
		enum weft_opcode opcode;
		uint32_t right;
		enum weft_reason reason;
	} ops[] = {
		{ WEFT_OP_WRITE, WEFT_REMOTE_WRITE, WEFT_R_RIGHT_REMOTE_WRITE },
		{ WEFT_OP_READ, WEFT_REMOTE_READ, WEFT_R_RIGHT_REMOTE_READ },
		{ WEFT_OP_FETCH_ADD, WEFT_REMOTE_ATOMIC, WEFT_R_RIGHT_REMOTE_ATOMIC },
	};
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr;
		uint32_t tag;

		if (ops[i].opcode == WEFT_OP_FETCH_ADD && !pair_can(PAIR_ATOMICS))
			continue;
		tag = end_bind(b, DST, 64, ops[i].right);
		wr = access_wr(a, ops[i].opcode, &s, tag, DST);
		end_succeeds(a, &wr);
		end_unbind(b, tag);
		tag = end_bind(b, DST, 64, ALL_REMOTE & ~ops[i].right);
		wr = access_wr(a, ops[i].opcode, &s, tag, DST);
		pair_blank(&p);
		end_refused(a, &wr, ops[i].reason);
		end_is_blank(b, DST, 64);
		end_is_blank(a, SRC, 8);
		pair_revive(&p);
		end_unbind(b, tag);
	}
	pair_close(&p);
}

static enum weft_reason try_bind(struct pair_end *e, uint32_t region, uint32_t rights)
{
	struct weft_bind bind = {
		.region_tag = region,
		.addr = e->addr,
		.length = 64,
		.rights = rights,
	};
	enum weft_reason r;

	MUST(weft_window_alloc(e->pd, &bind.window_tag));
	r = weft_window_bind(e->pd, &bind);
	if (r == WEFT_OK)
		MUST(weft_window_unbind(e->pd, bind.tag));
	MUST(weft_window_free(e->pd, r == WEFT_OK ? bind.tag : bind.window_tag));
	return r;
}

TEST(test_rkey_11_never_more_than_the_region)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	uint32_t region;

	pair_open(&p, &(struct pair_options){ .policy = WEFT_POLICY_STRICT });
	for (uint32_t has = 0; has <= 7; has++) {
		region = end_register(b, 0, 64,
				      WEFT_BIND | has * WEFT_REMOTE_READ | WEFT_LOCAL_WRITE |
					      WEFT_LOCAL_READ);
		for (uint32_t wants = 0; wants <= 7; wants++) {
			EXPECT_EQ(try_bind(b, region, wants * WEFT_REMOTE_READ),
				  wants & ~has ? WEFT_R_BIND_RIGHTS : WEFT_OK);
		}
		MUST(weft_region_deregister(b->pd, region));
	}
	pair_close(&p);

	/* Under the open policy a region's local rights are enough for the window's. */
	pair_open(&p, NULL);
	region = end_register(b, 0, 64, WEFT_BIND | WEFT_LOCAL_READ);
	EXPECT_EQ(try_bind(b, region, WEFT_REMOTE_READ), WEFT_OK);
	EXPECT_EQ(try_bind(b, region, WEFT_REMOTE_WRITE), WEFT_R_BIND_RIGHTS);
	EXPECT_EQ(try_bind(b, region, WEFT_REMOTE_ATOMIC), WEFT_R_BIND_RIGHTS);
	MUST(weft_region_deregister(b->pd, region));
	pair_close(&p);
}

/* AMB-12: under the strict policy windows are all that a peer reaches. */
TEST(test_rkey_11_strict_policy_keeps_regions_from_peers)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t tag, sink;

	pair_open(&p, &(struct pair_options){ .policy = WEFT_POLICY_STRICT });
	s = end_seg(a, SRC, 8);
	wr = access_wr(a, WEFT_OP_WRITE, &s, b->tag, DST);
	end_refused(a, &wr, WEFT_R_TAG_REGION_REMOTE);
	pair_revive(&p);
	tag = end_bind(b, DST, 64, ALL_REMOTE);
	wr.remote_tag = tag;
	end_fill(a, SRC, 8, 1);
	end_succeeds(a, &wr);
	end_holds(b, DST, 8, 1);
	/* A Read's sink is a target too (AMB-04): it must be a window that grants remote write. */
	wr.opcode = WEFT_OP_READ;
	end_post(a, &wr);
	end_send_failed(a, ID, WEFT_ERR_LOCAL_ACCESS, WEFT_R_READ_SINK);
	pair_revive(&p);
	sink = end_bind(a, DST, 64, WEFT_REMOTE_WRITE);
	s = end_seg(a, DST, 8);
	s.tag = sink;
	end_succeeds(a, &wr);
	end_holds(a, DST, 8, 1);
	end_unbind(a, sink);
	end_unbind(b, tag);
	pair_close(&p);
}

/* QP-09: the same number means other memory at either end. */
TEST(test_qp_09_addresses_belong_to_their_own_space)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, &(struct pair_options){ .has_spaces = true });
	EXPECT_EQ(a->addr, b->addr);
	end_fill(a, SRC, 500, 1);
	s = end_seg(a, SRC, 500);
	wr = end_wr(a, WEFT_OP_WRITE, ID, &s, SRC);
	EXPECT_EQ(wr.remote_addr, s.addr);
	end_succeeds(a, &wr);
	end_holds(b, SRC, 500, 1);
	end_fill(b, SRC, 500, 2);
	wr.opcode = WEFT_OP_READ;
	end_succeeds(a, &wr);
	end_holds(a, SRC, 500, 2);
	end_post_recv(b, 7, SRC, 500);
	end_fill(a, SRC, 500, 3);
	wr.opcode = WEFT_OP_SEND;
	end_succeeds(a, &wr);
	end_received(b, 7);
	end_holds(b, SRC, 500, 3);
	pair_close(&p);
}

/* A segment that has gone since the registration: denied, and back when it is back. */
TEST(test_rkey_08c_unmapped_after_registering)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, &(struct pair_options){ .has_spaces = true });
	s = end_seg(a, SRC, 64);
	wr = end_wr(a, WEFT_OP_WRITE, ID, &s, DST);
	MUST(weft_space_unmap(b->space, SPACE_ADDR));
	for (int op = 0; op < 2; op++) {
		wr.opcode = op ? WEFT_OP_READ : WEFT_OP_WRITE;
		end_refused(a, &wr, WEFT_R_SPACE_MAPPING);
		end_is_blank(b, DST, 64);
		end_is_blank(a, SRC, 64);
		pair_revive(&p);
	}
	EXPECT(!end_has_event(b, WEFT_EVENT_FAULT, 0));
	/* Half of it is no better than nothing. */
	MUST(weft_space_map(b->space, SPACE_ADDR, DST + 32, 0));
	wr.opcode = WEFT_OP_WRITE;
	end_refused(a, &wr, WEFT_R_SPACE_MAPPING);
	end_is_blank(b, DST, 64);
	pair_revive(&p);
	MUST(weft_space_map(b->space, SPACE_ADDR + DST + 32, END_BYTES - DST - 32, DST + 32));
	end_fill(a, SRC, 64, 4);
	end_succeeds(a, &wr);
	end_holds(b, DST, 64, 4);
	pair_close(&p);
}

TEST(test_rkey_08d_never_mapped_raises_a_fault)
{
	const uint64_t away = UINT64_C(0x700000000);
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_region_options o = { .addr = away, .length = 8192, .rights = ALL_REMOTE };
	struct weft_sge s;
	struct weft_send_wr wr;
	struct weft_event event;
	uint32_t tag;

	pair_open(&p, &(struct pair_options){ .has_spaces = true });
	MUST(weft_space_map(b->space, away, 4096, DST));
	MUST(weft_space_map(b->space, away + 4096, 4096, WEFT_REAL_NONE));
	MUST(weft_region_register(b->pd, &o, &tag));
	s = end_seg(a, SRC, 64);
	wr = end_wr(a, WEFT_OP_WRITE, ID, &s, 0);
	wr.remote_tag = tag;
	wr.remote_addr = away + 5000;
	end_refused(a, &wr, WEFT_R_SPACE_UNMAPPED);
	event = end_event(b, WEFT_EVENT_FAULT, weft_qp_number(b->qp));
	EXPECT_EQ(event.addr, away + 5000);
	EXPECT_EQ(event.reason, WEFT_R_SPACE_UNMAPPED);
	pair_revive(&p);
	/* The address is that of the first byte without a page, not of the access. */
	wr.remote_addr = away + 4096 - 10;
	end_refused(a, &wr, WEFT_R_SPACE_UNMAPPED);
	EXPECT_EQ(end_event(b, WEFT_EVENT_FAULT, weft_qp_number(b->qp)).addr, away + 4096);
	end_is_blank(b, DST, 4096);
	pair_revive(&p);
	/* The page arrives: the same access works. */
	MUST(weft_space_unmap(b->space, away + 4096));
	MUST(weft_space_map(b->space, away + 4096, 4096, DST + 4096));
	end_fill(a, SRC, 64, 2);
	end_succeeds(a, &wr);
	end_holds(b, DST + 4096 - 10, 64, 2);
	MUST(weft_region_deregister(b->pd, tag));
	pair_close(&p);
}

/* RKEY-S3: a file system's virtual memory, offered by a kernel driver, and asked for by a user. */
TEST(test_rkey_03_rkey_s3_virtual_addresses_are_for_the_kernel)
{
	const uint64_t va = UINT64_C(0xffff800000000000);
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_space_options so = { .size_bytes = 8192,
					 .mappings_max = 4,
					 .is_virtual = true };
	struct weft_region_options o = { .addr = va, .length = 8192, .rights = ALL_REMOTE };
	struct weft_pd *user;
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t tag = 7;

	pair_open(&p, &(struct pair_options){ .is_privileged = true });
	so.memory = b->memory + DST;
	MUST(weft_space_create(b->adapter, &so, &o.space));
	MUST(weft_space_map(o.space, va, 8192, 0));
	MUST(weft_pd_create(b->adapter, NULL, &user));
	EXPECT_EQ(weft_region_register(user, &o, &tag), WEFT_R_REG_VIRTUAL);
	EXPECT_EQ(weft_reason_errno(WEFT_R_REG_VIRTUAL), 22);
	EXPECT_EQ(tag, 7);
	MUST(weft_pd_destroy(user));
	EXPECT_EQ(weft_pd_create(b->adapter, &(struct weft_pd_options){ .space = o.space }, &user),
		  WEFT_R_REG_VIRTUAL);
	/* The user cannot call itself the kernel. */
	EXPECT_EQ(
		weft_pd_create(b->adapter,
			       &(struct weft_pd_options){ .space = o.space, .is_privileged = true },
			       &user),
		WEFT_R_NOT_OWNER);
	MUST(weft_region_register(b->pd, &o, &tag));
	EXPECT_EQ(weft_space_destroy(o.space), WEFT_R_BUSY);
	end_fill(a, SRC, 8192, 6);
	s = end_seg(a, SRC, 8192);
	wr = end_wr(a, WEFT_OP_WRITE, ID, &s, 0);
	wr.remote_tag = tag;
	wr.remote_addr = va;
	end_succeeds(a, &wr);
	end_holds(b, DST, 8192, 6);
	MUST(weft_region_deregister(b->pd, tag));
	MUST(weft_space_destroy(o.space));
	pair_close(&p);
}
