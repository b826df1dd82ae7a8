/* SPDX-License-Identifier: BSD-2-Clause */
/* What devices and their one port say of themselves. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compat/ibverbs/engine.h"
#include "compat/ibverbs/object.h"
#include "compat/ibverbs/undeclared.h"

enum {
	COMPLETIONS = 1 << 22,
	VENDOR_ID = 0x626d74 /* as other software adapters have it: no hardware vendor */
};

/* The program says how large its struct is: an older one is shorter, a newer one ends in zeros. */
static void fill(void *to, size_t bytes, const void *from, size_t known)
{
	memset(to, 0, bytes);
	memcpy(to, from, bytes < known ? bytes : known);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.node_guid = ibv_get_device_guid(context->device),
		.sys_image_guid = ibv_get_device_guid(context->device),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = (uint64_t)sysconf(_SC_PAGESIZE),
		.vendor_id = VENDOR_ID,
		.max_qp = ENGINE_OBJECTS,
		.max_qp_wr = QUEUE_MAX,
		.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_CURR_QP_STATE_MOD,
		.max_sge = WEFT_SEGMENTS_MAX,
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
		.max_srq_sge = WEFT_SEGMENTS_MAX,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", weft_version());
	return 0;
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex all = {
		.phys_port_cnt_ex = 1,
		.device_cap_flags_ex = 0,
		.max_dm_size = DM_BYTES_MAX,
	};

	if ((input && input->comp_mask) || attr_bytes < sizeof(all.orig_attr))
		return EINVAL;
	(void)ibv_query_device(context, &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	fill(attr, attr_bytes, &all, sizeof(all));
	return 0;
}

struct interface {
	int mtu;
	bool is_running;   /* it is up, and its link too */
	uint32_t megabits; /* in a second; 0: it does not say */
};

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
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		i->is_running = (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
	request.ifr_data = (void *)&link;
	if (ioctl(fd, SIOCETHTOOL, &request) == 0 &&
	    ethtool_cmd_speed(&link) != (uint32_t)SPEED_UNKNOWN)
		i->megabits = ethtool_cmd_speed(&link);
	close(fd);
	return 0;
}

static enum ibv_mtu mtu_of(int bytes)
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

int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes)
{
	enum { PHYSICAL_DISABLED = 3, PHYSICAL_LINK_UP = 5 };
	struct ibv_port_attr all = {
		.max_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.port_cap_flags = 0,
		.max_msg_sz = (uint32_t)WEFT_MESSAGE_MAX,
		.pkey_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	struct interface now;
	int error;

	if (port_num != 1)
		return EINVAL;
	error = interface_look(device_of(context->device)->interface, &now);
	if (error)
		return error;
	all.state = now.is_running ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	all.phys_state = now.is_running ? PHYSICAL_LINK_UP : PHYSICAL_DISABLED;
	all.active_mtu = mtu_of(now.mtu);
	tell_speed(now.megabits, &all);
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

/* ---- Names of the port ---------------------------------------------------------------------- */

/* fe80::, and the device's own number: the form that every program understands. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	uint64_t guid = ibv_get_device_guid(context->device);

	if (port_num != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*gid = (union ibv_gid){ .raw = { 0xfe, 0x80 } };
	memcpy(gid->raw + sizeof(guid), &guid, sizeof(guid));
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
	struct ibv_gid_entry all = {
		.gid_index = index,
		.port_num = port_num,
		.gid_type = IBV_GID_TYPE_IB,
		.ndev_ifindex = (uint32_t)ibv_get_device_index(context->device),
	};

	if (flags || port_num != 1)
		return EINVAL;
	if (index != 0)
		return ENODATA;
	(void)ibv_query_gid(context, 1, 0, &all.gid);
	fill(entry, entry_bytes, &all, sizeof(all));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t entry_bytes)
{
	int error;

	if (flags)
		return -EINVAL;
	if (max == 0)
		return -EINVAL; /* there is one */
	error = _ibv_query_gid_ex(context, 1, 0, entries, 0, entry_bytes);
	return error ? -error : 1;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	(void)context;
	if (port_num != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 only;

	return ibv_query_pkey(context, port_num, 0, &only) == 0 && only == pkey ? 0 : -1;
}

/* ---- Files that describe devices of the kernel ---------------------------------------------- */

const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

/* Ours have none: what programs look for there is told as if they had. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *text, size_t size)
{
	static const char ours[] = "/sys/class/infiniband/iw_";
	char path[IBV_SYSFS_PATH_MAX + 64];
	FILE *f;
	size_t n;

	if (strncmp(dir, ours, sizeof(ours) - 1) == 0) {
		if (strcmp(file, "board_id") != 0)
			return -1;
		return snprintf(text, size, "weft %s", weft_version());
	}
	snprintf(path, sizeof(path), "%s/%s", dir, file);
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
