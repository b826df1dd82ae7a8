/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of an endnode whose other end sends whatever it likes: flits on arbitrary bytes, whose CRC
 * the fuzzer makes right, each preceded by its length; in between frames are posted and taken, the
 * link goes down and up, and time passes. Buffers never hold more than they have room for, and an
 * accepted flit is one that there was room for.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "base/cursor.h"
#include "fabric/end.h"

enum { OP_POST = 200, OP_TAKE, OP_TIME, OP_DOWN, OP_SEND };

static const struct fabric_link_cfg cfg = {
	.lanes = 2, .lane_blocks = FABRIC_FRAME_FLITS, .ack_delay_ns = 10, .resend_ns = 100
};

static void post(struct fabric_end *e, uint8_t level)
{
	static const uint8_t payload[512];
	struct iba_frame f = { .lrh = { .level = level & 1, .to = 2, .from = 1 },
			       .packet = { .opcode = IBA_UD_SEND, .payload = payload } };
	uint8_t bytes[IBA_FRAME_MAX];

	f.packet.payload_bytes = level * 2U;
	(void)fabric_end_post(e, bytes, iba_frame_encode(&f, bytes));
}

static void hear(struct fabric_end *e, uint64_t now_ns, uint8_t *bytes, size_t length)
{
	uint64_t taken = e->link.counts.flits_taken;
	uint32_t room = 0;

	if (length >= FLIT_HEADER_BYTES + FLIT_CRC_BYTES) {
		struct wr crc = wr_of(bytes + length - 4, 4);

		bytes[2] = (uint8_t)(length - FLIT_HEADER_BYTES - FLIT_CRC_BYTES);
		wr_u32(&crc, crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - 4)));
		room = fabric_lane_room(&e->link.in[bytes[0] & 0xf]);
	}
	fabric_link_recv(&e->link, now_ns, bytes, length);
	CHECK(e->link.counts.flits_taken == taken || room > 0);
}

static void act(struct fabric_end *e, uint64_t *now_ns, uint8_t op, uint8_t argument)
{
	uint8_t bytes[IBA_FRAME_MAX];
	struct fabric_run run;

	switch (op) {
	case OP_POST:
		post(e, argument);
		break;
	case OP_TAKE:
		(void)fabric_end_take(e, bytes);
		break;
	case OP_TIME:
		*now_ns += argument;
		fabric_link_expire(&e->link, *now_ns);
		break;
	case OP_DOWN:
		fabric_link_down(&e->link);
		fabric_link_up(&e->link);
		break;
	case OP_SEND:
		fabric_end_forward(e);
		for (int i = 0; i < argument; i++)
			if (!fabric_link_send(&e->link, *now_ns, &run))
				break;
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);
	struct fabric_pool pool;
	struct fabric_end e;
	uint64_t now_ns = 0;

	fabric_pool_init(&pool);
	fabric_end_init(&e, &cfg, &pool);
	e.lane_of[1] = 1;
	fabric_link_up(&e.link);
	while (r.at < r.end) {
		uint8_t bytes[FLIT_BYTES_MAX], op = rd_u8(&r);

		if (op >= OP_POST) {
			act(&e, &now_ns, op, rd_u8(&r));
			continue;
		}
		if (op > FLIT_BYTES_MAX || op > r.end - r.at)
			break;
		rd_bytes(&r, bytes, op);
		hear(&e, now_ns, bytes, op);
	}
	fabric_link_down(&e.link);
	for (int lane = 0; lane < FLIT_LANES; lane++)
		while (e.link.in[lane].blocks_max > 0 && fabric_lane_head(&e.link.in[lane]))
			fabric_lane_pass(&e.link.in[lane]);
	for (int lane = 0; lane < FLIT_LANES; lane++)
		CHECK(fabric_lane_room(&e.link.in[lane]) == e.link.in[lane].blocks_max);
	for (int lane = 0; lane < FLIT_LANES; lane++)
		while (e.out[lane].blocks_max > 0 && fabric_lane_head(&e.out[lane]))
			fabric_lane_pass(&e.out[lane]);
	CHECK(pool.used == 0);
	fabric_pool_fini(&pool);
	return 0;
}
