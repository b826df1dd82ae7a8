/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/fabric_port.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/engine.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/say.h"
#include "driver/sys/fabric_address.h"

enum {
	LID_MULTICAST_MIN = 0xc000,
	LEVEL_MAX = 15,
	MESSAGE_MAX = 1 << 30,
	HOPS_BACK = 0xff /* IBA 13.5.4.4: as far as it may go */
};

/* 0 or errno. */
static int look(uint32_t port, struct fabric_msg_port *p)
{
	enum weft_reason r = fabric_client_port(port, p);

	if (r == WEFT_OK)
		return 0;
	return r == WEFT_R_FABRIC_NODE ? EINVAL : ENODEV;
}

const char *weftv_node(void)
{
	return fabric_client_node();
}

enum weft_reason weftv_fabric_port(const char *node, uint32_t port, struct fabric_msg_port *p)
{
	return fabric_client_look(node, port, p);
}

enum weft_reason weftv_fabric_look(const struct weft_address *a, struct fabric_msg_port *p)
{
	return fabric_address_look(a, p);
}

enum weft_reason weftv_fabric_own(const struct weft_address *a, struct weft_address *gid)
{
	return fabric_address_own(a, gid);
}

enum weft_reason weftv_fabric_path(const struct weft_address *from, const struct weft_address *to,
				   struct weft_path *path)
{
	return fabric_address_path(from, to, path);
}

/* ---- The node ------------------------------------------------------------------------------- */

int fabric_node_look(struct device *d)
{
	struct fabric_msg_port p;
	int error = look(1, &p);

	if (error)
		return ENODEV;
	d->guid = htobe64(p.node_info.node_guid);
	d->index = p.node + 1;
	return 0;
}

/* An adapter has no more ports than its profile says (SYS-04). */
static uint8_t ports_of(const struct fabric_msg_port *p)
{
	uint32_t most = engine_ports_max();

	return p->node_info.ports < most ? p->node_info.ports : (uint8_t)most;
}

uint8_t fabric_port_count(void)
{
	struct fabric_msg_port p;

	return look(1, &p) == 0 ? ports_of(&p) : 0;
}

void fabric_device_tell(struct ibv_device_attr *attr)
{
	struct fabric_msg_port p;

	if (look(1, &p) != 0)
		return;
	attr->node_guid = htobe64(p.node_info.node_guid);
	attr->sys_image_guid = htobe64(p.node_info.system_guid);
	attr->vendor_id = p.node_info.vendor;
	attr->vendor_part_id = p.node_info.device;
	attr->hw_ver = p.node_info.revision;
	attr->max_pkeys = p.node_info.pkeys;
	attr->phys_port_cnt = ports_of(&p);
	attr->local_ca_ack_delay = 0;
}

/* ---- A port --------------------------------------------------------------------------------- */

static uint16_t keys_of(const struct fabric_msg_port *p)
{
	return p->node_info.pkeys < SM_PKEYS ? p->node_info.pkeys : SM_PKEYS;
}

/* Speeds beyond QDR have numbers of their own (IBA 14.2.5.6). */
static uint8_t speed_of(const struct sm_port_info *i)
{
	enum { FDR = 16 };

	return i->extended_active ? (uint8_t)(i->extended_active * FDR) : i->speed_active;
}

int fabric_port_tell(uint32_t port, struct ibv_port_attr *attr)
{
	struct fabric_msg_port p;
	const struct sm_port_info *i = &p.port_info;
	int error = port >= 1 && port <= FABRIC_PORTS_MAX ? look(port, &p) : EINVAL;

	if (error)
		return error;
	*attr = (struct ibv_port_attr){
		.state = (enum ibv_port_state)i->state,
		.max_mtu = (enum ibv_mtu)i->mtu_cap,
		.active_mtu = (enum ibv_mtu)i->mtu,
		.gid_tbl_len = SM_GUIDS,
		.port_cap_flags = i->capabilities,
		.port_cap_flags2 = i->capabilities_2,
		.max_msg_sz = MESSAGE_MAX,
		.bad_pkey_cntr = i->p_key_violations,
		.qkey_viol_cntr = i->q_key_violations,
		.pkey_tbl_len = keys_of(&p),
		.lid = i->lid,
		.sm_lid = i->sm_lid,
		.lmc = i->lmc,
		.max_vl_num = i->lane_cap,
		.sm_sl = i->sm_level,
		.subnet_timeout = i->subnet_timeout,
		.init_type_reply = i->init_type_reply,
		.active_width = i->width_active,
		.active_speed = speed_of(i),
		.phys_state = i->phys_state,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.flags = 0,
	};
	return 0;
}

enum ibv_mtu fabric_port_mtu(uint32_t port)
{
	struct ibv_port_attr attr;

	if (fabric_port_tell(port, &attr) != 0 || attr.active_mtu < IBV_MTU_256)
		return IBV_MTU_256;
	return attr.active_mtu;
}

/* ---- Names ---------------------------------------------------------------------------------- */

static struct gid gid_of(const struct fabric_msg_port *p, uint32_t index)
{
	uint64_t prefix = htobe64(p->port_info.subnet_prefix),
		 guid = htobe64(p->guids.guids[index]);
	struct gid g = { { 0 } };

	if (guid == 0)
		return g;
	memcpy(g.raw, &prefix, sizeof(prefix));
	memcpy(g.raw + sizeof(prefix), &guid, sizeof(guid));
	return g;
}

int fabric_gid_read(uint32_t port, uint32_t index, struct gid *g)
{
	struct fabric_msg_port p;
	int error = index < SM_GUIDS ? look(port, &p) : EINVAL;

	if (error)
		return error;
	*g = gid_of(&p, index);
	return gid_is_none(g) ? ENODATA : 0;
}

int fabric_gid_find(uint32_t port, const struct gid *g, uint8_t *index)
{
	struct fabric_msg_port p;
	int error = look(port, &p);

	for (uint8_t i = 0; !error && i < SM_GUIDS; i++) {
		struct gid one = gid_of(&p, i);

		if (memcmp(one.raw, g->raw, sizeof(one.raw)) == 0 && !gid_is_none(g)) {
			*index = i;
			return 0;
		}
	}
	return error ? error : ENODATA;
}

int fabric_pkey_read(uint32_t port, uint32_t index, uint16_t *p_key)
{
	struct fabric_msg_port p;
	int error = look(port, &p);

	if (!error && index >= keys_of(&p))
		error = EINVAL;
	if (!error)
		*p_key = p.pkeys.pkeys[index];
	return error;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

static const struct gid *as_gid(const union ibv_gid *gid)
{
	return (const struct gid *)(const void *)gid->raw;
}

/* IBA 11.2.2.1: what makes an address vector none. */
static const char *lack(const struct ibv_ah_attr *attr, const struct fabric_msg_port *p)
{
	if (attr->dlid == 0)
		return "dlid is 0: a path in a fabric has the LID of its end";
	if (attr->dlid == 0xffff)
		return "dlid is the permissive LID, which only subnet management uses";
	if (attr->sl > LEVEL_MAX)
		return "sl is beyond 15";
	if (!attr->is_global)
		return attr->dlid >= LID_MULTICAST_MIN
			       ? "datagrams to a group need a global route: is_global, and its GID"
			       : NULL;
	if (attr->grh.sgid_index >= SM_GUIDS || p->guids.guids[attr->grh.sgid_index] == 0)
		return "the port has no GID with the index of grh.sgid_index";
	if (gid_is_none(as_gid(&attr->grh.dgid)))
		return "grh.dgid is empty";
	if (gid_is_multicast(as_gid(&attr->grh.dgid)) != (attr->dlid >= LID_MULTICAST_MIN))
		return "of dlid and grh.dgid one is of a group";
	return NULL;
}

static void add_global(const struct ibv_ah_attr *attr, const struct fabric_msg_port *p,
		       struct weft_path *path)
{
	struct gid from = gid_of(p, attr->grh.sgid_index);

	path->from.family = path->to.family = 6;
	memcpy(path->from.ip, from.raw, sizeof(from.raw));
	memcpy(path->to.ip, attr->grh.dgid.raw, sizeof(attr->grh.dgid.raw));
	path->traffic_class = attr->grh.traffic_class;
	path->hop_limit = attr->grh.hop_limit;
	path->flow_label = attr->grh.flow_label & 0xfffff;
}

int fabric_path_of(const struct ibv_ah_attr *attr, struct weft_path *path)
{
	struct fabric_msg_port p;
	int error = look(attr->port_num, &p);
	const char *why;

	if (error == EINVAL)
		say("%s: an address is refused: there is no port %u", FABRIC_DEVICE,
		    attr->port_num);
	if (error)
		return error;
	why = lack(attr, &p);
	if (why) {
		say("%s: an address is refused: %s", FABRIC_DEVICE, why);
		return EINVAL;
	}
	*path = (struct weft_path){
		.mtu_bytes = 128U << p.port_info.mtu,
		.service_level = attr->sl,
		.from_lid = (attr->src_path_bits & ((1U << p.port_info.lmc) - 1)) |
			    (attr->port_num > 1 ? p.port_info.lid : 0),
		.to_lid = attr->dlid,
	};
	if (attr->is_global)
		add_global(attr, &p, path);
	return 0;
}

int fabric_path_back(uint8_t port, const struct ibv_wc *wc, const struct ibv_grh *grh,
		     struct ibv_ah_attr *attr)
{
	uint32_t word;

	*attr = (struct ibv_ah_attr){
		.dlid = wc->slid,
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.port_num = port,
	};
	if (port < 1 || port > fabric_port_count())
		return EINVAL;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	word = ntohl(grh->version_tclass_flow);
	if (word >> 28 != 6)
		return EINVAL;
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.traffic_class = (uint8_t)(word >> 20);
	attr->grh.flow_label = word & 0xfffff;
	attr->grh.hop_limit = HOPS_BACK;
	/* What came to a group goes back from the port's own. */
	if (gid_is_multicast(as_gid(&grh->dgid)))
		return 0;
	return fabric_gid_find(port, as_gid(&grh->dgid), &attr->grh.sgid_index);
}
