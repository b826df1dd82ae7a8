/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the port: GIDs and partition keys. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "compat/ibverbs/address.h"
#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/provider.h"
#include "wire/sm_attr.h"

/* RoCE's GIDs are addresses of an interface. */
static bool has_addresses(const struct ibv_context *context)
{
	return is_ib(context) && !is_in_fabric(context);
}

enum { TYPE_V1 = 0, TYPE_V2 = 1 }; /* as files of the kernel are read, which have one of IB too */

static int table_read(struct ibv_context *context, struct gid_table *t)
{
	return gid_table_read(device_of(context->device)->interface, t);
}

/* fe80::, and the device's own number: the form that every program understands. */
static void gid_of_iwarp(struct ibv_context *context, union ibv_gid *gid)
{
	uint64_t guid = ibv_get_device_guid(context->device);

	*gid = (union ibv_gid){ .raw = { 0xfe, 0x80 } };
	memcpy(gid->raw + sizeof(guid), &guid, sizeof(guid));
}

/* 0 or errno: EINVAL: no table is so long; ENODATA: there is no such address now. */
static int gid_read(struct ibv_context *context, uint32_t port_num, uint32_t index,
		    union ibv_gid *gid)
{
	struct gid_table t;
	int error;

	if (is_in_fabric(context))
		return fabric_gid_read(port_num, index, (struct gid *)(void *)gid->raw);
	if (port_num != 1)
		return EINVAL;
	if (!is_ib(context)) {
		gid_of_iwarp(context, gid);
		return index == 0 ? 0 : ENODATA;
	}
	if (index >= GIDS_MAX)
		return EINVAL;
	error = table_read(context, &t);
	if (error)
		return error;
	if (index >= t.count)
		return ENODATA;
	memcpy(gid->raw, t.gids[index].raw, sizeof(gid->raw));
	return 0;
}

int gid_find(struct ibv_context *context, const union ibv_gid *gid, uint8_t *index)
{
	struct gid_table t;
	int error = table_read(context, &t);

	for (uint32_t i = 0; !error && i < t.count; i++) {
		if (memcmp(gid->raw, t.gids[i].raw, sizeof(gid->raw)) == 0) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return error ? error : ENODATA;
}

/* Unused entries of the table are zeros, as in the kernel. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	union ibv_gid found = { { 0 } };
	int error = index < 0 ? EINVAL : gid_read(context, port_num, (uint32_t)index, &found);

	if (error == ENODATA && is_ib(context))
		error = 0;
	if (error) {
		errno = error == ENODATA ? EINVAL : error;
		return -1;
	}
	*gid = found;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	struct ibv_gid_entry all = {
		.gid_index = index,
		.port_num = port_num,
		.gid_type = has_addresses(context) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB,
		.ndev_ifindex = is_in_fabric(context) ? 0 : device_of(context->device)->index,
	};
	int error = flags ? EINVAL : gid_read(context, port_num, index, &all.gid);

	if (error)
		return error;
	fill(entry, entry_bytes, &all, sizeof(all));
	return 0;
}

/* Of all ports, as many as are used. -EINVAL: there is no room for them. */
static ssize_t fabric_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			    size_t entry_bytes)
{
	uint32_t ports = fabric_port_count();
	size_t n = 0;

	for (uint32_t port = 1; port <= ports; port++) {
		for (uint32_t i = 0; i < SM_GUIDS; i++) {
			struct ibv_gid_entry all;
			int error = _ibv_query_gid_ex(context, port, i, &all, 0, sizeof(all));

			if (error == ENODATA)
				continue;
			if (error || n == max)
				return error ? -error : -EINVAL;
			fill((uint8_t *)entries + n++ * entry_bytes, entry_bytes, &all,
			     sizeof(all));
		}
	}
	return (ssize_t)n;
}

/* As many as there are, which must have room. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t entry_bytes)
{
	struct gid_table t = { .count = 1 };
	int error = flags ? EINVAL : 0;

	if (!error && is_in_fabric(context))
		return fabric_table(context, entries, max, entry_bytes);
	if (!error && is_ib(context))
		error = table_read(context, &t);
	if (error)
		return -error;
	if (max < t.count)
		return -EINVAL;
	for (uint32_t i = 0; i < t.count; i++) {
		struct ibv_gid_entry all;

		error = _ibv_query_gid_ex(context, 1, i, &all, 0, sizeof(all));
		if (error == ENODATA) /* it went meanwhile */
			return i;
		if (error)
			return -error;
		fill((uint8_t *)entries + i * entry_bytes, entry_bytes, &all, sizeof(all));
	}
	return t.count;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type)
{
	union ibv_gid gid;

	if (ibv_query_gid(context, port_num, index < GIDS_MAX ? (int)index : -1, &gid) != 0)
		return -1;
	*type = has_addresses(context) && !gid_is_none((const struct gid *)(const void *)&gid)
			? TYPE_V2
			: TYPE_V1;
	return 0;
}

/* ---- Partition keys ------------------------------------------------------------------------- */

/* 0 or errno. By IP there is one, of all. */
int pkey_read(const struct ibv_context *context, uint32_t port_num, uint32_t index, uint16_t *p_key)
{
	if (is_in_fabric(context))
		return fabric_pkey_read(port_num, index, p_key);
	*p_key = 0xffff;
	return port_num == 1 && index == 0 ? 0 : EINVAL;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	uint16_t p_key;
	int error = index < 0 ? EINVAL : pkey_read(context, port_num, (uint32_t)index, &p_key);

	if (error) {
		errno = error;
		return -1;
	}
	*pkey = htobe16(p_key);
	return 0;
}

/* The first that is it. Bound: a table's end is an error. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 one;

	for (int i = 0; ibv_query_pkey(context, port_num, i, &one) == 0; i++) {
		if (one == pkey)
			return i;
	}
	return -1;
}
