/* SPDX-License-Identifier: BSD-2-Clause */
/* What devices and their ports say of themselves. */
#include "compat/ibverbs/attributes.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compat/ibverbs/ah.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/dm.h"
#include "compat/ibverbs/engine.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/group.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/undeclared.h"
#include "driver/sys/pages.h"

enum {
	COMPLETIONS = 1 << 22,
	MESSAGE_MAX_ROCE = 1 << 30,
	/* Around the payload of a packet: IPv6, UDP, BTH, RETH, immediate data, padding, ICRC. */
	OVERHEAD = 40 + 8 + 12 + 16 + 4 + 3 + 4,
	VENDOR_ID = 0x626d74 /* as other software adapters have it: no hardware vendor */
};

void fill(void *to, size_t bytes, const void *from, size_t known)
{
	memset(to, 0, bytes);
	memcpy(to, from, bytes < known ? bytes : known);
}

unsigned int device_capabilities(const struct device *d)
{
	unsigned int all = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
			   IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_CURR_QP_STATE_MOD;

	if (d->kind != DEVICE_IWARP)
		all |= IBV_DEVICE_XRC | IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_SYS_IMAGE_GUID |
		       IBV_DEVICE_RC_RNR_NAK_GEN;
	if (d->kind == DEVICE_FABRIC)
		all |= IBV_DEVICE_AUTO_PATH_MIG;
	return all;
}

/* What a channel adapter has, and iWARP has not. */
static void tell_channel_adapter(struct ibv_device_attr *attr)
{
	attr->max_sge_rd = WEFT_SGES_MAX;
	attr->max_mcast_grp = GROUPS_MAX;
	attr->max_mcast_qp_attach = GROUPS_MAX;
	attr->max_total_mcast_qp_attach = GROUPS_MAX;
	attr->max_ah = HANDLES_MAX;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.node_guid = ibv_get_device_guid(context->device),
		.sys_image_guid = ibv_get_device_guid(context->device),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = (uint64_t)sysconf(_SC_PAGESIZE),
		.vendor_id = VENDOR_ID,
		.max_qp = (int)engine_qps_max(),
		.max_qp_wr = QUEUE_MAX,
		.device_cap_flags = device_capabilities(device_of(context->device)),
		.max_sge = WEFT_SGES_MAX,
		.max_sge_rd = 1, /* RFC 5040: a Read has one sink */
		.max_cq = ENGINE_OBJECTS,
		.max_cqe = COMPLETIONS,
		.max_mr = ENGINE_TAGS,
		.max_pd = ENGINE_OBJECTS,
		.max_qp_rd_atom = READS_MAX,
		.max_res_rd_atom = READS_MAX * ENGINE_OBJECTS,
		.max_qp_init_rd_atom = READS_MAX,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mw = ENGINE_TAGS,
		.max_srq = ENGINE_OBJECTS,
		.max_srq_wr = QUEUE_MAX,
		.max_srq_sge = WEFT_SGES_MAX,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	if (is_ib(context))
		tell_channel_adapter(attr);
	if (is_in_fabric(context))
		fabric_device_tell(attr);
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", weft_version());
	return 0;
}

/* All memory can be paged on demand: an access brings what it needs, as any of the program does. */
static void tell_paging(const struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
	const uint32_t datagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				   IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t unreliable = datagrams | IBV_ODP_SUPPORT_WRITE;

	if (!pages_can_be_asked())
		return;
	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = unreliable | IBV_ODP_SUPPORT_READ |
							IBV_ODP_SUPPORT_ATOMIC;
	if (!is_ib(context))
		return;
	attr->odp_caps.per_transport_caps.uc_odp_caps = unreliable;
	attr->xrc_odp_caps = attr->odp_caps.per_transport_caps.rc_odp_caps;
	attr->odp_caps.per_transport_caps.ud_odp_caps = datagrams;
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex all = {
		.device_cap_flags_ex = 0,
		.max_dm_size = DM_BYTES_MAX,
	};

	if ((input && input->comp_mask) || attr_bytes < sizeof(all.orig_attr))
		return EINVAL;
	(void)ibv_query_device(context, &all.orig_attr);
	if (is_ib(context))
		all.packet_pacing_caps = (struct ibv_packet_pacing_caps){
			.qp_rate_limit_min = 1,
			.qp_rate_limit_max = UINT32_MAX,
			.supported_qpts = 1U << IBV_QPT_RC | 1U << IBV_QPT_UC,
		};
	tell_paging(context, &all);
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	fill(attr, attr_bytes, &all, sizeof(all));
	return 0;
}

struct interface {
	int mtu;
	bool is_running;   /* it is up, and its link too */
	uint32_t megabits; /* in a second; 0: it does not say */
};

/*
 * The loopback interface says no speed. Programs choose by it: from the slowest UCX concludes that
 * messages of up to 400 KiB are better copied through buffers of its own than read by the receiver.
 */
enum { LOOPBACK_MEGABITS = 100000 };

/* 0 or errno. One that has vanished has no link. */
static int interface_look(const char *name, struct interface *i)
{
	struct ethtool_cmd link = { .cmd = ETHTOOL_GSET };
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*i = (struct interface){ 0 };
	if (fd < 0)
		return errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		i->mtu = request.ifr_mtu;
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
		i->is_running = (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
		i->megabits = request.ifr_flags & IFF_LOOPBACK ? LOOPBACK_MEGABITS : 0;
	}
	request.ifr_data = (void *)&link;
	if (ioctl(fd, SIOCETHTOOL, &request) == 0 &&
	    ethtool_cmd_speed(&link) != (uint32_t)SPEED_UNKNOWN)
		i->megabits = ethtool_cmd_speed(&link);
	close(fd);
	return 0;
}

static enum ibv_mtu mtu_below(int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && bytes >= 256 << mtu)
		mtu++;
	return mtu;
}

/* In the words of InfiniBand, as Linux says it of its devices: what is not known is the slowest. */
static void tell_speed(uint32_t megabits, struct ibv_port_attr *attr)
{
	enum { WIDTH_1X = 1, WIDTH_4X = 2, SDR = 1, DDR = 2, FDR10 = 8, EDR = 32 };
	static const struct {
		uint32_t megabits;
		uint8_t width, speed;
	} known[] = {
		{ 1000, WIDTH_1X, SDR },  { 10000, WIDTH_1X, FDR10 }, { 20000, WIDTH_4X, DDR },
		{ 25000, WIDTH_1X, EDR }, { 40000, WIDTH_4X, FDR10 }, { UINT32_MAX, WIDTH_4X, EDR },
	};
	int i = 0;

	while (megabits > known[i].megabits)
		i++;
	attr->active_width = known[i].width;
	attr->active_speed = known[i].speed;
}

enum ibv_mtu port_mtu(const struct ibv_context *context, uint32_t port)
{
	struct interface now;

	if (is_in_fabric(context))
		return fabric_port_mtu(port);
	if (interface_look(device_of(context->device)->interface, &now) != 0)
		return IBV_MTU_256;
	return mtu_below(is_ib(context) ? now.mtu - OVERHEAD : now.mtu);
}

/* Of an interface, which has one. */
static int tell_port(const struct device *d, struct ibv_port_attr *attr)
{
	enum { PHYSICAL_DISABLED = 3, PHYSICAL_LINK_UP = 5 };
	struct interface now;
	int error = interface_look(d->interface, &now);

	if (error)
		return error;
	*attr = (struct ibv_port_attr){
		.state = now.is_running ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.phys_state = now.is_running ? PHYSICAL_LINK_UP : PHYSICAL_DISABLED,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mtu_below(now.mtu),
		.gid_tbl_len = 1,
		.port_cap_flags = 0,
		.max_msg_sz = (uint32_t)WEFT_MESSAGE_MAX,
		.pkey_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	if (d->kind == DEVICE_ROCE) {
		attr->active_mtu = mtu_below(now.mtu - OVERHEAD);
		attr->gid_tbl_len = GIDS_MAX;
		attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
		attr->max_msg_sz = MESSAGE_MAX_ROCE;
		attr->max_vl_num = 1;
	}
	tell_speed(now.megabits, attr);
	return 0;
}

int port_tell(const struct device *d, uint32_t port, struct ibv_port_attr *attr)
{
	if (d->kind == DEVICE_FABRIC)
		return fabric_port_tell(port, attr);
	return port == 1 ? tell_port(d, attr) : EINVAL;
}

int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes)
{
	struct ibv_port_attr all;
	int error = port_tell(device_of(context->device), port_num, &all);

	if (error)
		return error;
	fill(attr, attr_bytes, &all, sizeof(all));
	return 0;
}

#undef ibv_query_port

/* Programs older than the link layer's field bring a struct that ends before it. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)(void *)attr,
			  offsetof(struct ibv_port_attr, link_layer));
}

/* ---- Files that describe devices of the kernel ---------------------------------------------- */

const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

/* Files of our own devices, which programs look for there. */
static int read_our_file(const char *path, char *text, size_t size)
{
	unsigned int mode;
	int n = weftv_sysfs(path, text, size, &mode);

	if (n <= 0 || !S_ISREG(mode))
		return -1;
	if (text[n - 1] == '\n')
		text[--n] = '\0';
	return n;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *text, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX + 64];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (read_our_file(path, text, size) > 0)
		return (int)strlen(text);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(text, 1, size, f);
	(void)fclose(f);
	n -= n > 0 && text[n - 1] == '\n';
	if (n == size)
		return -1; /* no room for its end */
	text[n] = '\0';
	return (int)n;
}
