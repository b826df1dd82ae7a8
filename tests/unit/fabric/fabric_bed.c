/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/fabric/fabric_bed.h"

#include <stdlib.h>
#include <string.h>

const struct fabric_link_cfg bed_link = { .lanes = BED_LANES,
					  .lane_blocks = BED_BLOCKS,
					  .run_flits = 1,
					  .ack_delay_ns = 5000,
					  .resend_ns = 50000 };
const struct sim_faults bed_cable = { .delay_min_ns = 100,
				      .delay_max_ns = 100,
				      .rate_bytes_per_s = UINT64_C(1000000000) };

struct fabric_net *bed_open(void)
{
	struct fabric_net *n = malloc(sizeof(*n));

	REQUIRE(n && fabric_net_init(n, 1) == 0);
	return n;
}

void bed_close(struct fabric_net *own_n)
{
	fabric_net_fini(own_n);
	free(own_n);
}

uint32_t bed_end(struct fabric_net *n)
{
	return fabric_net_add_end(n, &bed_link);
}

uint32_t bed_switch(struct fabric_net *n, uint32_t ports)
{
	const struct fabric_switch_cfg cfg = {
		.ports = ports, .linear_max = 64, .multicast_max = 4, .link = bed_link
	};
	int node = fabric_net_add_switch(n, &cfg);

	REQUIRE(node >= 0);
	return (uint32_t)node;
}

uint32_t bed_join(struct fabric_net *n, uint32_t a, uint32_t port_a, uint32_t b, uint32_t port_b)
{
	int cable = fabric_net_join(n, (struct fabric_net_port){ a, port_a },
				    (struct fabric_net_port){ b, port_b }, &bed_cable);

	REQUIRE(cable >= 0);
	return (uint32_t)cable;
}

void bed_rest(struct fabric_net *n)
{
	uint32_t steps = 0;

	while (fabric_net_step(n))
		REQUIRE(++steps < 10000000);
}

void bed_run(struct fabric_net *n, uint64_t ns)
{
	uint64_t until_ns = n->world.now_ns + ns;

	while (n->world.now_ns < until_ns && fabric_net_step(n))
		continue;
}

uint32_t bed_frame(uint8_t bytes[IBA_FRAME_MAX], uint16_t from, uint16_t to, uint8_t level,
		   uint32_t payload_bytes)
{
	static uint8_t payload[IBA_PAYLOAD_MAX];
	struct iba_frame f = {
		.lrh = { .level = level, .to = to, .from = from },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 7,
			    .payload = payload,
			    .payload_bytes = payload_bytes },
	};

	for (uint32_t i = 0; i < payload_bytes; i++)
		payload[i] = (uint8_t)(i * 7 + from);
	return iba_frame_encode(&f, bytes);
}
