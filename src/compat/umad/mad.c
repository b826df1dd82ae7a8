/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffer of a management datagram, which the caller owns: addresses in it, and its words. */
#include <arpa/inet.h>
#include <infiniband/umad.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int level;

size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((struct ib_user_mad *)umad)->addr;
}

int umad_status(void *umad)
{
	return (int)((struct ib_user_mad *)umad)->status;
}

int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

/* The caller's numbers are in its own byte order, or already in that of the wire. */
int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);

	to->qpn = dqp;
	to->qkey = qkey;
	to->lid = dlid;
	to->sl = (uint8_t)sl;
	return 0;
}

int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htons((uint16_t)dlid), htonl((uint32_t)dqp), sl,
				 htonl((uint32_t)qkey));
}

/* The route of the other address, whose flow label is in the caller's byte order; NULL: none. */
int umad_set_grh(void *umad, void *mad_addr)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);
	const struct ib_mad_addr *from = mad_addr;

	to->grh_present = from != NULL;
	if (!from)
		return 0;
	memcpy(to->gid, from->gid, sizeof(to->gid));
	to->flow_label = htonl(from->flow_label);
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	return 0;
}

/* There is nothing to tell, at any level; it is kept for programs that ask. */
int umad_debug(int wanted)
{
	if (wanted >= 0)
		atomic_store(&level, wanted);
	return atomic_load(&level);
}

void umad_addr_dump(ib_mad_addr_t *addr)
{
	fprintf(stderr, "qpn %u qkey 0x%x lid %u sl %u\n", ntohl(addr->qpn), ntohl(addr->qkey),
		ntohs(addr->lid), addr->sl);
	fprintf(stderr,
		"grh_present %u gid_index %u hop_limit %u traffic_class %u flow_label 0x%x "
		"pkey_index 0x%x\nGid 0x",
		addr->grh_present, addr->gid_index, addr->hop_limit, addr->traffic_class,
		ntohl(addr->flow_label), addr->pkey_index);
	for (size_t i = 0; i < sizeof(addr->gid); i++)
		fprintf(stderr, "%02x", addr->gid[i]);
	fputc('\n', stderr);
}

void umad_dump(void *umad)
{
	const struct ib_user_mad *mad = umad;

	fprintf(stderr, "agent id %u status %x timeout %u\n", mad->agent_id, mad->status,
		mad->timeout_ms);
	umad_addr_dump(umad_get_mad_addr(umad));
}
