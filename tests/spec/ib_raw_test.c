/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw datagrams (RAW-01): frames of others, taken by their next header and destination. */
#include <string.h>

#include "rd_world.h"
#include "test.h"
#include "wire/iba_grh.h"

enum { NEXT_TCP = 6, NEXT_UDP = 17, FRAME = IBA_GRH_BYTES + 100 };

static struct ib_conn *raw_open(int node, const struct ib_raw *raw, enum weft_reason expected)
{
	struct weft_qp *qp = qp_open(node, WEFT_UD);
	const struct ib_config k = { .path = { .mtu_bytes = 1024 } };

	MUST(ib_mesh_attach(mesh, qp, &k));
	REQUIRE(ib_raw_bind(qp->stream, raw) == expected);
	return qp->stream;
}

/* As it comes from outside: version 6, a class and a label. */
static void frame_make(uint8_t frame[FRAME], uint8_t next_header, uint8_t to)
{
	const struct iba_grh g = { .traffic_class = 0x12,
				   .flow_label = 0x34567,
				   .payload_bytes = FRAME - IBA_GRH_BYTES,
				   .next_header = next_header,
				   .hop_limit = 9,
				   .from = { 0xfd, [15] = 1 },
				   .to = { 0xfd, [15] = to } };

	iba_grh_encode(&g, frame);
	memset(frame + IBA_GRH_BYTES, next_header, FRAME - IBA_GRH_BYTES);
}

TEST(test_trn_s3_raw_01_raw_02_raw_03_frames_by_next_header_and_destination)
{
	const struct ib_raw tcp = { .next_header = NEXT_TCP, .is_any = true };
	const struct ib_raw udp = { .next_header = NEXT_UDP, .is_any = true };
	const struct ib_raw own = { .next_header = NEXT_UDP, .to = { 0xfd, [15] = 7 } };
	static const struct {
		uint8_t next_header, to, at; /* at: index of the receiver; 3: none */
	} cases[] = { { NEXT_TCP, 5, 0 },
		      { NEXT_UDP, 5, 1 },
		      { NEXT_UDP, 7, 2 },
		      { NEXT_TCP, 7, 0 },
		      { 58, 5, 3 } };
	struct ib_conn *out;
	uint8_t frame[FRAME], wire[IB_RAW_MAX];
	struct weft_completion c;
	size_t length;

	two_nodes();
	(void)raw_open(1, &tcp, WEFT_OK);
	(void)raw_open(1, &udp, WEFT_OK);
	(void)raw_open(1, &own, WEFT_OK);
	(void)raw_open(1, &own, WEFT_R_ADDRESS_IN_USE);
	out = raw_open(0, &(struct ib_raw){ .next_header = 99, .is_any = true }, WEFT_OK);
	EXPECT_EQ(ib_raw_bind(out, &tcp), WEFT_R_BAD_ARGUMENT);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct weft_sge s = { (uintptr_t)nodes[0].memory, FRAME, nodes[0].tag };
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1, .id = i
		};

		frame_make(nodes[0].memory, cases[i].next_header, cases[i].to);
		MUST(weft_qp_post_send(nodes[0].qps[0], &wr, 1, NULL));
		REQUIRE(ib_port_send_raw(port_of(0), wire, &length));
		EXPECT(!ib_port_send_raw(port_of(0), wire, &length));
		sent(0, i, WEFT_SUCCESS);
		/* It left as it was made, and comes as it left. */
		EXPECT_EQ(length, FRAME);
		EXPECT_MEM(wire, nodes[0].memory, FRAME);
		for (uint32_t k = 0; k < 3; k++)
			receive(1, nodes[1].qps[k], k, BYTES / 2 + k * 1000, FRAME);
		memset(nodes[1].memory, 0, BYTES);
		EXPECT_EQ(ib_port_recv_raw(port_of(1), wire, length),
			  cases[i].at < 3 ? WEFT_OK : WEFT_R_PEER_UNKNOWN);
		if (cases[i].at == 3)
			continue;
		c = take(nodes[1].recv_cq);
		EXPECT_EQ(c.id, cases[i].at);
		EXPECT_EQ(c.byte_count, FRAME);
		EXPECT_EQ(c.qp_number, weft_qp_number(nodes[1].qps[c.id]));
		EXPECT_MEM(nodes[1].memory + BYTES / 2 + c.id * 1000, wire, FRAME);
	}
	/* What is no frame is dropped. */
	frame_make(frame, NEXT_TCP, 5);
	EXPECT_EQ(ib_port_recv_raw(port_of(1), frame, IBA_GRH_BYTES - 1), WEFT_R_IB_SHORT);
	EXPECT_EQ(ib_port_recv_raw(port_of(1), frame, FRAME - 1), WEFT_R_IB_LENGTH);
	frame[0] = 0x45;
	EXPECT(ib_port_recv_raw(port_of(1), frame, FRAME) != WEFT_OK);
	world_close();
}

/* A receive whose memory is not its own is at fault, and not the frame: it ends, as UD's does. */
TEST(test_raw_01_a_receive_that_cannot_take_a_frame_ends)
{
	const struct ib_raw udp = { .next_header = NEXT_UDP, .is_any = true };
	const struct weft_sge alien = { (uintptr_t)nodes[1].memory, FRAME, 0xdead };
	const struct weft_recv_wr wr = { .id = 7, .sges = &alien, .sge_count = 1 };
	uint8_t frame[FRAME];
	struct weft_completion c;

	two_nodes();
	(void)raw_open(1, &udp, WEFT_OK);
	frame_make(frame, NEXT_UDP, 5);
	EXPECT_EQ(ib_port_recv_raw(port_of(1), frame, FRAME), WEFT_R_RECEIVER_NOT_READY);
	MUST(weft_qp_post_recv(nodes[1].qps[0], &wr, 1, NULL));
	EXPECT(ib_port_recv_raw(port_of(1), frame, FRAME) != WEFT_OK);
	c = take(nodes[1].recv_cq);
	EXPECT_EQ(c.id, 7);
	EXPECT_EQ(c.status, WEFT_ERR_LOCAL_ACCESS);
	world_close();
}

/* A frame is copied when it is taken: nothing is sent from its memory behind that. */
TEST(test_raw_01_send_05_a_frame_that_was_taken_pins_nothing)
{
	enum { LONG = 1000, ADDR = 0x10000, PAGE = 4096 };
	static _Alignas(8) uint8_t memory[PAGE];
	const struct weft_space_options so = { .memory = memory,
					       .size_bytes = PAGE,
					       .mappings_max = 1 };
	const struct weft_region_options ro = { .addr = ADDR,
						.length = PAGE,
						.rights = WEFT_LOCAL_READ };
	struct weft_sge s = { ADDR, LONG, 0 };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1 };
	struct weft_pd_options po = { 0 };
	struct weft_pd *pd, *own;
	struct weft_space *space;
	struct weft_pins pins;
	uint8_t wire[IB_RAW_MAX];
	size_t length;

	two_nodes();
	MUST(weft_space_create(nodes[0].adapter, &so, &space));
	MUST(weft_space_map(space, ADDR, PAGE, 0));
	po.space = space;
	MUST(weft_pd_create(nodes[0].adapter, &po, &pd));
	MUST(weft_region_register(pd, &ro, &s.tag));
	own = nodes[0].pd;
	nodes[0].pd = pd;
	(void)raw_open(0, &(struct ib_raw){ .next_header = NEXT_TCP, .is_any = true }, WEFT_OK);
	nodes[0].pd = own;
	MUST(weft_qp_post_send(nodes[0].qps[0], &wr, 1, NULL));
	REQUIRE(ib_port_send_raw(port_of(0), wire, &length));
	EXPECT_EQ(length, LONG);
	MUST(weft_space_query(space, &pins));
	EXPECT_EQ(pins.count, 0);
	MUST(weft_qp_destroy(nodes[0].qps[--nodes[0].qp_count]));
	MUST(weft_region_deregister(pd, s.tag));
	MUST(weft_pd_destroy(pd));
	MUST(weft_space_destroy(space));
	world_close();
}
