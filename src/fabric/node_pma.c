/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent of performance management (IBA 16.1): what ports have counted. The plain counters are
 * short and stay at their greatest value; the extended ones have 64 bits, and are reset apart.
 */
#include "fabric/node_inside.h"

#include <string.h>

enum {
	ALL_PORTS = 255,
	CAN_ALL_PORTS = 1 << 8,
	CAN_EXTENDED = 1 << 9,
	CAN_TRANSMIT_WAIT = 1 << 12,
	CAN_QP1_DROPPED = 1 << 15,
	CAN_2_EXTENDED_ERRORS = 1 << 1,
	RESPONSE_TIME = 16,
	SELECT_2 = 16 /* bits of select_2 are from here on */
};

/* One that struct fabric_port_counts has, and one of the attributes. */
struct counter {
	uint8_t select;	     /* its bit in a Set */
	uint8_t bits;	     /* on the wire */
	uint8_t bytes;	     /* of the member */
	uint16_t at, counts; /* in the attribute's struct; in the counts */
};

#define PLAIN(member, select_, bits_)                                                              \
	{                                                                                          \
		.select = select_, .bits = bits_,                                                  \
		.bytes = sizeof(((struct pm_port_counters *)0)->member),                           \
		.at = offsetof(struct pm_port_counters, member),                                   \
		.counts = offsetof(struct fabric_port_counts, member)                              \
	}
#define EXTENDED(member, select_)                                                                  \
	{                                                                                          \
		.select = select_, .bits = 64, .bytes = sizeof(uint64_t),                          \
		.at = offsetof(struct pm_port_counters_extended, member),                          \
		.counts = offsetof(struct fabric_port_counts, member)                              \
	}

static const struct counter plain[] = {
	PLAIN(symbol_errors, 0, 16),
	PLAIN(link_recoveries, 1, 8),
	PLAIN(link_downed, 2, 8),
	PLAIN(receive_errors, 3, 16),
	PLAIN(remote_errors, 4, 16),
	PLAIN(relay_errors, 5, 16),
	PLAIN(transmit_discards, 6, 16),
	PLAIN(transmit_constraint_errors, 7, 8),
	PLAIN(receive_constraint_errors, 8, 8),
	PLAIN(integrity_errors, 9, 4),
	PLAIN(overrun_errors, 10, 4),
	PLAIN(vl15_dropped, 11, 16),
	PLAIN(transmit_data, 12, 32),
	PLAIN(receive_data, 13, 32),
	PLAIN(transmit_packets, 14, 32),
	PLAIN(receive_packets, 15, 32),
	PLAIN(transmit_wait, SELECT_2, 32),
	PLAIN(qp1_dropped, SELECT_2 + 1, 16),
};

static const struct counter extended[] = {
	EXTENDED(transmit_data, 0),
	EXTENDED(receive_data, 1),
	EXTENDED(transmit_packets, 2),
	EXTENDED(receive_packets, 3),
	EXTENDED(unicast_transmit, 4),
	EXTENDED(unicast_receive, 5),
	EXTENDED(multicast_transmit, 6),
	EXTENDED(multicast_receive, 7),
	EXTENDED(symbol_errors, SELECT_2),
	EXTENDED(link_recoveries, SELECT_2 + 1),
	EXTENDED(link_downed, SELECT_2 + 2),
	EXTENDED(receive_errors, SELECT_2 + 3),
	EXTENDED(remote_errors, SELECT_2 + 4),
	EXTENDED(relay_errors, SELECT_2 + 5),
	EXTENDED(transmit_discards, SELECT_2 + 6),
	EXTENDED(transmit_constraint_errors, SELECT_2 + 7),
	EXTENDED(receive_constraint_errors, SELECT_2 + 8),
	EXTENDED(integrity_errors, SELECT_2 + 9),
	EXTENDED(overrun_errors, SELECT_2 + 10),
	EXTENDED(vl15_dropped, SELECT_2 + 11),
	EXTENDED(transmit_wait, SELECT_2 + 12),
	EXTENDED(qp1_dropped, SELECT_2 + 13),
};

/* ---- Members of structs --------------------------------------------------------------------- */

static uint64_t count_get(const struct fabric_port_counts *counts, const struct counter *c)
{
	uint64_t count;

	memcpy(&count, (const unsigned char *)counts + c->counts, sizeof(count));
	return count;
}

static void count_set(struct fabric_port_counts *counts, const struct counter *c, uint64_t count)
{
	memcpy((unsigned char *)counts + c->counts, &count, sizeof(count));
}

static uint64_t value_get(const struct counter *c, const void *from)
{
	const struct mad_field field = { .at = c->at, .size = c->bytes };

	return mad_field_value(&field, from, 0);
}

static void value_set(const struct counter *c, void *into, uint64_t value)
{
	unsigned char *at = (unsigned char *)into + c->at;
	uint32_t u32 = (uint32_t)value;
	uint16_t u16 = (uint16_t)value;

	if (c->bytes == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else if (c->bytes == sizeof(u32))
		memcpy(at, &u32, sizeof(u32));
	else if (c->bytes == sizeof(u16))
		memcpy(at, &u16, sizeof(u16));
	else
		*at = (unsigned char)value;
}

static uint64_t greatest(const struct counter *c)
{
	return UINT64_MAX >> (64 - c->bits);
}

/* ---- Counters ------------------------------------------------------------------------------- */

/* What one attribute has: its counters, and of each port the counts at the time of their reset. */
struct kind {
	const struct counter *counters;
	uint32_t count;
	bool is_extended;
};

static struct fabric_port_counts *cleared(struct fabric_node_port *p, const struct kind *k)
{
	return k->is_extended ? &p->cleared_extended : &p->cleared;
}

static uint64_t counted(struct fabric_node_port *p, const struct kind *k, const struct counter *c)
{
	uint64_t value = count_get(&p->counts, c) - count_get(cleared(p, k), c);

	return value < greatest(c) ? value : greatest(c);
}

static void port_set(struct fabric_node_port *p, const struct kind *k, uint64_t select,
		     const void *value)
{
	for (const struct counter *c = k->counters; c < k->counters + k->count; c++)
		if (select >> c->select & 1)
			count_set(cleared(p, k), c, count_get(&p->counts, c) - value_get(c, value));
}

static void port_add(struct fabric_node_port *p, const struct kind *k, void *value)
{
	for (const struct counter *c = k->counters; c < k->counters + k->count; c++) {
		uint64_t sum = value_get(c, value) + counted(p, k, c);

		value_set(c, value, sum < greatest(c) ? sum : greatest(c));
	}
}

/* Of all ports of the node it is the sum. */
static uint16_t get(struct fabric_node *n, const struct kind *k, uint8_t port, void *value)
{
	if (port != ALL_PORTS && !node_has_port(n, port))
		return SMP_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i <= n->cfg.ports; i++)
		if ((port == ALL_PORTS || port == i) && node_has_port(n, i))
			port_add(&n->ports[i], k, value);
	return 0;
}

static uint16_t set(struct fabric_node *n, const struct kind *k, uint8_t port, uint64_t select,
		    const void *value)
{
	if (port != ALL_PORTS && !node_has_port(n, port))
		return SMP_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i <= n->cfg.ports; i++)
		if ((port == ALL_PORTS || port == i) && node_has_port(n, i))
			port_set(&n->ports[i], k, select, value);
	return 0;
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static uint16_t class_port_info(struct fabric_node *n, union pm_value *value, bool is_set)
{
	(void)n;
	(void)is_set;
	value->class_port_info = (struct pm_class_port_info){
		.base_version = MAD_BASE_VERSION,
		.class_version = PM_CLASS_VERSION,
		.capabilities = CAN_ALL_PORTS | CAN_EXTENDED | CAN_TRANSMIT_WAIT | CAN_QP1_DROPPED,
		.capabilities_2 = CAN_2_EXTENDED_ERRORS,
		.response_time = RESPONSE_TIME,
	};
	return 0;
}

static uint16_t port_counters(struct fabric_node *n, union pm_value *value, bool is_set)
{
	static const struct kind k = { plain, sizeof(plain) / sizeof(plain[0]), false };
	struct pm_port_counters asked = value->port_counters;
	uint64_t select = asked.select | (uint64_t)asked.select_2 << SELECT_2;
	uint16_t status = is_set ? set(n, &k, asked.port, select, &asked) : 0;

	value->port_counters = (struct pm_port_counters){ .port = asked.port,
							  .select = asked.select,
							  .select_2 = asked.select_2 };
	return status ? status : get(n, &k, asked.port, &value->port_counters);
}

static uint16_t port_counters_extended(struct fabric_node *n, union pm_value *value, bool is_set)
{
	static const struct kind k = { extended, sizeof(extended) / sizeof(extended[0]), true };
	struct pm_port_counters_extended asked = value->port_counters_extended;
	uint64_t select = asked.select | (uint64_t)asked.select_2 << SELECT_2;
	uint16_t status = is_set ? set(n, &k, asked.port, select, &asked) : 0;

	value->port_counters_extended = (struct pm_port_counters_extended){
		.port = asked.port, .select = asked.select, .select_2 = asked.select_2
	};
	return status ? status : get(n, &k, asked.port, &value->port_counters_extended);
}

static uint16_t serve(struct fabric_node *n, const struct mad *m, uint8_t *data)
{
	const struct mad_layout *layout = pm_layout(m->attribute);
	bool is_set = m->method == MAD_SET;
	union pm_value value;
	uint16_t status;

	if (m->class_version != PM_CLASS_VERSION)
		return SMP_STATUS_UNSUPPORTED_VERSION;
	if (m->method != MAD_GET && !is_set)
		return SMP_STATUS_UNSUPPORTED_METHOD;
	if (!layout)
		return SMP_STATUS_UNSUPPORTED_ATTRIBUTE;
	memset(&value, 0, sizeof(value));
	if (mad_layout_decode(layout, &value, data) != WEFT_OK)
		return SMP_STATUS_INVALID_VALUE;
	if (m->attribute == PM_CLASS_PORT_INFO)
		status = class_port_info(n, &value, is_set);
	else if (m->attribute == PM_PORT_COUNTERS)
		status = port_counters(n, &value, is_set);
	else
		status = port_counters_extended(n, &value, is_set);
	if (status == 0)
		mad_layout_encode(layout, &value, data);
	return status;
}

void node_pma_serve(struct node_visit *v, struct mad *m, uint8_t *data)
{
	m->status = serve(v->n, m, data);
	m->method = MAD_GET_RESPONSE;
}
