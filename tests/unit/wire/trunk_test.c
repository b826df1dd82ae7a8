/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trunk.h"

#include <string.h>

#include "test.h"
#include "wire/iba_frame.h"

enum { ROOM = TRUNK_MESSAGE_MAX };

static uint8_t data[IBA_FRAME_MAX];

static struct trunk_message run_of(uint16_t index, uint16_t length, bool is_last)
{
	struct trunk_message m = { .kind = TRUNK_RUN, .cable = 7 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	m.run = (struct trunk_run){
		.lane = 2,
		.credit_lane = 15,
		.hops = 9,
		.is_last = is_last,
		.sequence = 0xfffe,
		.index = index,
		.length = length,
		.data = data,
	};
	m.run.limits[15] = 0x1234;
	return m;
}

static bool is_refused(const struct trunk_message *m)
{
	uint8_t bytes[ROOM];
	struct trunk_message out;
	size_t length = trunk_encode(m, bytes, sizeof(bytes)), used;

	REQUIRE(length > 0);
	return trunk_decode(&out, bytes, length, &used) == WEFT_R_TRUNK_FORM;
}

/* Every byte of it must be there. */
static void expect_same(const struct trunk_message *m, size_t length)
{
	uint8_t bytes[ROOM], again[ROOM];
	struct trunk_message out;
	size_t used = 0;

	EXPECT_EQ(trunk_encode(m, bytes, sizeof(bytes)), length);
	EXPECT_EQ(trunk_encode(m, again, length - 1), 0);
	EXPECT_EQ(trunk_decode(&out, bytes, sizeof(bytes), &used), WEFT_OK);
	EXPECT_EQ(used, length);
	EXPECT(out.kind == m->kind);
	EXPECT_EQ(trunk_encode(&out, again, sizeof(again)), length);
	EXPECT(memcmp(bytes, again, length) == 0);
	for (size_t i = 0; i < length; i++)
		EXPECT_EQ(trunk_decode(&out, bytes, i, &used), WEFT_R_TRUNK_FORM);
}

TEST(test_trunk_messages_are_read_as_they_were_written)
{
	struct trunk_message hello = { .kind = TRUNK_HELLO, .digest = { 1, 2, 3 } };
	struct trunk_message link = { .kind = TRUNK_LINK,
				      .cable = 3,
				      .link = { 5, 6, true, true, 2, 1, 5, 4 } };
	struct trunk_message ack = { .kind = TRUNK_ACK, .cable = 70000 };
	struct trunk_message port = { .kind = TRUNK_PORT,
				      .cable = 9,
				      .port = { .serial = 11, .port = 1 } };
	struct trunk_message run = run_of(0, IBA_FRAME_MAX, true), alive = { .kind = TRUNK_ALIVE };

	ack.run = (struct trunk_run){ .wants_resend = true, .sequence = 77 };
	port.port.info = (struct sm_port_info){ .lid = 7, .lmc = 2, .state = SM_PORT_ACTIVE };
	port.port.guids.guids[1] = 77;
	port.port.pkeys.pkeys[31] = 0x8001;
	for (uint16_t lane = 0; lane < FLIT_LANES; lane++)
		ack.run.limits[lane] = (uint16_t)(lane * 1000);
	expect_same(&hello, 2 + TRUNK_DIGEST_BYTES);
	expect_same(&link, 18);
	expect_same(&ack, 40);
	expect_same(&port, 206);
	expect_same(&run, 17 + IBA_FRAME_MAX);
	expect_same(&alive, 1);
}

TEST(test_trunk_runs_that_no_link_sends_are_refused)
{
	struct trunk_message m = run_of(0, 2 * FLIT_DATA, false);

	EXPECT(!is_refused(&m));
	m = run_of(0, 2 * FLIT_DATA - 1, false); /* a piece within a frame is whole */
	EXPECT(is_refused(&m));
	m = run_of(0, 0, true);
	EXPECT(is_refused(&m));
	m = run_of(47, FLIT_DATA, true); /* beyond the longest frame */
	EXPECT(is_refused(&m));
	m = run_of(0xffff, FLIT_DATA, false);
	EXPECT(is_refused(&m));
	m = run_of(0, FLIT_DATA, false);
	m.run.lane = FLIT_LANES;
	EXPECT(is_refused(&m));
	m = run_of(0, FLIT_DATA, false);
	m.run.limits[0] = 0;
	m.kind = (enum trunk_kind)7;
	EXPECT(is_refused(&m));
}

TEST(test_trunk_links_and_hellos_that_make_no_sense_are_refused)
{
	struct trunk_message m = { .kind = TRUNK_LINK, .link = { 1, 0, true, false, 2, 1, 5, 4 } };
	uint8_t bytes[ROOM];
	struct trunk_message out;
	size_t length, used;

	EXPECT(!is_refused(&m));
	m.link.life = 0;
	EXPECT(is_refused(&m));
	m.link.life = 1;
	m.link.lanes = 0;
	EXPECT(is_refused(&m));
	m.link.lanes = 6;
	EXPECT(is_refused(&m));
	m.link.lanes = 5;
	EXPECT(!is_refused(&m));
	m.link.mtu = 0;
	EXPECT(is_refused(&m));
	m.link.mtu = 6;
	EXPECT(is_refused(&m));
	m = (struct trunk_message){ .kind = TRUNK_PORT };
	EXPECT(is_refused(&m));
	m = (struct trunk_message){ .kind = TRUNK_HELLO };
	length = trunk_encode(&m, bytes, sizeof(bytes));
	bytes[1]++; /* the version */
	EXPECT_EQ(trunk_decode(&out, bytes, length, &used), WEFT_R_TRUNK_FORM);
}
