/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/wire/push_fixture.h"

#define CONTEXT UINT64_C(0x0102030405060708)

static const struct push_hello hello = {
	.role = PUSH_HOST,
	.mode = PUSH_MODE_RDMA,
	.is_link_up = true,
	.mtu = 9000,
	.queues = 2,
	.features = PUSH_FEATURE_NET_HEADER | PUSH_FEATURE_CSUM | PUSH_FEATURE_HOST_TSO4,
	.mac = { 2, 0, 0, 0, 0, 7 },
	.pools_max = 16,
	.elements_max = 4096,
	.message_bytes_max = 2048,
};
static const struct push_filter filter = {
	.flags = PUSH_FILTER_ALL_GROUPS,
	.vlan_count = 2,
	.group_count = 1,
	.vlans = { 7, 4094 },
	.groups = { { 0x33, 0x33, 0, 0, 0, 1 } },
};
static const struct push_statistics statistics = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

static const uint8_t pools[] = {
	0, 0, 0,    7, 0,    0,	   0xa1, 5,
	0, 0, 1,    0, 0,    0,	   1,	 0, /* pool 7, handle, 256 of 256 bytes */
	0, 0, 0x7f, 0, 0x12, 0x34, 0,	 0,
	0, 0, 0,    0, 0,    0,	   0,	 9, /* address, context */
};
static const uint8_t runs[] = { 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 3 };
static const uint8_t references[] = { 0, 0, 0, 7, 0, 0, 1, 44 };
static const uint8_t used[] = { 0, 0, 1, 44, 0, 0, 0, 5, 0, 1, 0x86, 0xa0, 0, 0, 5, 0xea };

#define CFG(which, ...)                                                                            \
	{                                                                                          \
		.function = which, .context = CONTEXT, .cfg = { __VA_ARGS__ }                      \
	}

static const struct {
	const char *name;
	struct push_msg m;
} messages[PUSH_FIXTURES] = {
	{ "pools", { .function = PUSH_RECV_POOL, .context = CONTEXT, .pools = { 1, pools } } },
	{ "get", { .function = PUSH_RECV_POOL_GET, .context = CONTEXT, .get = { 1514, 3 } } },
	{ "update",
	  { .function = PUSH_RECV_POOL_UPDATE, .context = CONTEXT, .runs = { 1, runs } } },
	{ "flush",
	  { .function = PUSH_FLUSH_REQUEST, .context = CONTEXT, .references = { 2, references } } },
	{ "flush_reply", { .function = PUSH_FLUSH_REPLY, .context = CONTEXT } },
	{ "data",
	  { .function = PUSH_SEND_DATA,
	    .context = CONTEXT,
	    .data = { (const uint8_t *)"a small packet", 14 } } },
	{ "indicate", { .function = PUSH_RDMA_INDICATE, .context = CONTEXT, .used = { 1, used } } },
	{ "release",
	  { .function = PUSH_RELEASE_REQUEST,
	    .context = CONTEXT,
	    .references = { 1, references } } },
	{ "pull", { .function = PUSH_PULL, .context = CONTEXT, .pull = { 7, 5, 1 } } },
	{ "hello", CFG(PUSH_CFG_REQUEST, .kind = PUSH_HELLO) },
	{ "set_mac", CFG(PUSH_CFG_REQUEST, .kind = PUSH_SET_MAC, .mac = { 2, 0, 0, 0, 0, 7 }) },
	{ "set_mtu", CFG(PUSH_CFG_REQUEST, .kind = PUSH_SET_MTU, .mtu = 1500) },
	{ "set_filter", CFG(PUSH_CFG_REQUEST, .kind = PUSH_SET_FILTER) },
	{ "set_offers", CFG(PUSH_CFG_REQUEST, .kind = PUSH_SET_OFFERS,
			    .offers = { PUSH_FEATURE_NET_HEADER, 1 }) },
	{ "link", CFG(PUSH_CFG_REQUEST, .kind = PUSH_LINK, .link = { true, 25000 }) },
	{ "statistics", CFG(PUSH_CFG_REQUEST, .kind = PUSH_STATISTICS) },
	{ "statistics_reply", CFG(PUSH_CFG_REPLY, .kind = PUSH_STATISTICS) },
	{ "ping", CFG(PUSH_CFG_REQUEST, .kind = PUSH_PING, .ping = { 70000, 69990 }) },
	{ "refusal", CFG(PUSH_CFG_REPLY, .kind = PUSH_SET_MAC, .reason = 77) },
};

struct push_msg push_fixture(int nth, const char **name)
{
	struct push_msg m = messages[nth].m;

	*name = messages[nth].name;
	if (m.function == PUSH_CFG_REQUEST && m.cfg.kind == PUSH_HELLO)
		m.cfg.hello = hello;
	else if (m.function == PUSH_CFG_REQUEST && m.cfg.kind == PUSH_SET_FILTER)
		m.cfg.filter = filter;
	else if (m.function == PUSH_CFG_REPLY && m.cfg.kind == PUSH_STATISTICS)
		m.cfg.statistics = statistics;
	return m;
}

struct push_cell push_fixture_cell(int nth, const char **name)
{
	static const char *const names[] = { "first", "middle", "last", "single" };
	static uint8_t data[PUSH_CELL_DATA];
	struct push_cell c = { .to = { { 2, 0, 0, 0, 0, 7 }, 0x12 },
			       .from = { { 2, 0, 0, 0, 0, 9 }, 0x34 },
			       .packet = 5,
			       .cell = (uint32_t)nth % 3,
			       .packet_bytes = nth == 3 ? 64 : 600,
			       .is_write = nth < 3,
			       .has_immediate = nth == 2,
			       .address = UINT64_C(0x7f0012340000),
			       .handle = 0xa105,
			       .immediate = 0x07050100,
			       .packet_crc = 0x11223344,
			       .data = data };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	*name = names[nth];
	return c;
}
