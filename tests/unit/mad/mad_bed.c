/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/mad/mad_bed.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "wire/rmpp.h"

enum { DATA_AT = 56, MOVES_MAX = 10000000 };

void bed_open(struct mad_bed *b, uint64_t seed)
{
	*b = (struct mad_bed){ .now_ns = 1 };
	b->prng = (struct prng){ seed };
	for (int i = 0; i < BED_PORTS; i++) {
		b->port[i] = mad_port_create();
		REQUIRE(b->port[i]);
	}
}

void bed_close(struct mad_bed *b)
{
	for (int i = 0; i < BED_PORTS; i++)
		mad_port_destroy(b->port[i]);
}

static bool move_one(struct mad_bed *b, uint32_t from)
{
	struct mad_datagram d;

	if (!mad_next(b->port[from], b->now_ns, &d))
		return false;
	b->sent++;
	if (prng_below(&b->prng, 100) < b->lost_of_100)
		return true;
	d.address.lid = (uint16_t)(BED_LID + from);
	if (b->wire && !b->wire(b, from, &d))
		return true;
	b->refused += !mad_recv(b->port[1 - from], b->now_ns, &d);
	return true;
}

void bed_move(struct mad_bed *b)
{
	uint32_t moves = 0;

	for (bool has_any = true; has_any;) {
		REQUIRE(++moves < MOVES_MAX);
		has_any = move_one(b, 0);
		has_any |= move_one(b, 1);
	}
}

void bed_run(struct mad_bed *b, uint32_t deadlines_max)
{
	bed_move(b);
	for (uint32_t i = 0; i < deadlines_max; i++) {
		uint64_t due[BED_PORTS] = { mad_due(b->port[0]), mad_due(b->port[1]) };
		uint64_t next = due[0] < due[1] ? due[0] : due[1];

		if (next == UINT64_MAX)
			return;
		b->now_ns = b->now_ns > next ? b->now_ns : next;
		mad_expire(b->port[0], b->now_ns);
		mad_expire(b->port[1], b->now_ns);
		bed_move(b);
	}
}

uint32_t bed_agent(struct mad_bed *b, uint32_t at, uint8_t method)
{
	struct mad_agent_attr a = { .owner = BED_PROGRAM,
				    .mgmt_class = MAD_SUBNET_ADMIN,
				    .class_version = 2,
				    .rmpp_version = RMPP_VERSION };
	uint32_t agent;

	if (method)
		a.methods[method / 32] = UINT32_C(1) << method % 32;
	MUST(mad_agent_add(b->port[at], &a, &agent));
	return agent;
}

static uint8_t pattern(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
}

enum weft_reason bed_send(struct mad_bed *b, uint32_t at, uint32_t agent, const struct mad *m,
			  uint32_t length)
{
	struct mad_request r = { .agent = agent,
				 .address = { .lid = (uint16_t)(BED_LID + 1 - at), .qpn = 1 },
				 .length = length,
				 .timeout_ns = 1000000000,
				 .retries = 2 };
	uint8_t *bytes = calloc(1, length < MAD_BYTES ? MAD_BYTES : length);
	enum weft_reason reason;

	REQUIRE(bytes);
	for (uint32_t i = DATA_AT; i < length; i++)
		bytes[i] = pattern(i);
	mad_encode(m, bytes);
	if (length > MAD_BYTES)
		rmpp_encode(&(struct rmpp){ .version = RMPP_VERSION,
					    .type = RMPP_DATA,
					    .flags = RMPP_ACTIVE },
			    bytes);
	r.bytes = bytes;
	reason = mad_send(b->port[at], &r);
	free(bytes);
	return reason;
}

struct mad_message *bed_take(struct mad_bed *b, uint32_t at)
{
	struct mad_message *m = mad_take(b->port[at]);

	REQUIRE(m);
	return m;
}

bool bed_is_pattern(const struct mad_message *m, uint32_t length)
{
	if (m->length != length)
		return false;
	for (uint32_t i = DATA_AT; i < length; i++) {
		if (m->bytes[i] != pattern(i))
			return false;
	}
	return true;
}
