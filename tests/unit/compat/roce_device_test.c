/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCE devices as they describe themselves, beside those of iWARP. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"
#include "unit/compat/roce_fixture.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *text, size_t size);

static const uint8_t loopback[16] = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 };

/* Programs that take the first connect by number, which iWARP cannot. */
TEST(test_roce_devices_come_first_one_for_each_of_iwarp)
{
	int count, roce = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	REQUIRE(list && count >= 2);
	while (roce < count && strncmp(list[roce]->name, "roce_", 5) == 0)
		roce++;
	EXPECT_EQ(roce * 2, count);
	for (int i = 0; i < roce; i++) {
		EXPECT_EQ(list[i]->node_type, IBV_NODE_CA);
		EXPECT_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
		EXPECT_EQ(list[roce + i]->node_type, IBV_NODE_RNIC);
		EXPECT_EQ(list[roce + i]->transport_type, IBV_TRANSPORT_IWARP);
		EXPECT_STR(list[i]->name + 5, list[roce + i]->name + 3);
	}
	ibv_free_device_list(list);
}

/* As the kernel numbers RDMA devices, apart from interfaces. */
TEST(test_roce_devices_have_other_indices_than_those_of_iwarp)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	REQUIRE(list && count >= 2);
	for (int i = 0; i < count; i++) {
		EXPECT(ibv_get_device_index(list[i]) > 0);
		for (int k = 0; k < i; k++)
			EXPECT(ibv_get_device_index(list[i]) != ibv_get_device_index(list[k]));
	}
	ibv_free_device_list(list);
}

TEST(test_roce_device_is_a_channel_adapter)
{
	struct ibv_context *context = roce_context();
	struct ibv_device_attr_ex attr;

	REQUIRE(ibv_query_device_ex(context, NULL, &attr) == 0);
	EXPECT(attr.orig_attr.max_ah > 0 && attr.orig_attr.max_mcast_grp > 0);
	EXPECT_EQ(attr.orig_attr.max_sge_rd, attr.orig_attr.max_sge);
	EXPECT_EQ(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	EXPECT(attr.orig_attr.device_cap_flags & IBV_DEVICE_RC_RNR_NAK_GEN);
	EXPECT(attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC);
	EXPECT(ibv_is_qpt_supported(attr.packet_pacing_caps.supported_qpts, IBV_QPT_RC));
	EXPECT(!ibv_is_qpt_supported(attr.packet_pacing_caps.supported_qpts, IBV_QPT_UD));
	EXPECT_EQ(ibv_close_device(context), 0);
	context = loop_context();
	REQUIRE(ibv_query_device_ex(context, NULL, &attr) == 0);
	EXPECT_EQ(attr.orig_attr.max_ah, 0);
	EXPECT_EQ(attr.orig_attr.max_sge_rd, 1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_roce_port_is_ethernet_with_addresses_for_gids)
{
	struct ibv_context *context = roce_context();
	struct ibv_port_attr port;
	__be16 key;

	REQUIRE(ibv_query_port(context, 1, &port) == 0);
	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
	EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
	EXPECT_EQ(port.lid, 0);
	EXPECT_EQ(port.sm_lid, 0);
	EXPECT(port.gid_tbl_len > 1);
	EXPECT(port.port_cap_flags & IBV_PORT_IP_BASED_GIDS);
	EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
	EXPECT_EQ(ibv_query_pkey(context, 1, 0, &key), 0);
	EXPECT_EQ(key, 0xffff);
	EXPECT_EQ(ibv_query_pkey(context, 1, 1, &key), -1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_roce_gids_are_of_version_2_and_name_the_interface)
{
	struct ibv_context *context = roce_context();
	struct ibv_gid_entry entry, table[128];
	union ibv_gid gid;
	ssize_t count;

	EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	EXPECT_MEM(gid.raw, loopback, sizeof(loopback));
	EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	EXPECT_MEM(entry.gid.raw, loopback, sizeof(loopback));
	EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	EXPECT_EQ(entry.ndev_ifindex, if_nametoindex("lo"));
	count = ibv_query_gid_table(context, table, 128, 0);
	REQUIRE(count >= 1);
	EXPECT_MEM(table[0].gid.raw, loopback, sizeof(loopback));
	for (ssize_t i = 0; i < count; i++) {
		EXPECT_EQ(table[i].gid_index, i);
		EXPECT_EQ(table[i].gid_type, IBV_GID_TYPE_ROCE_V2);
	}
	EXPECT_EQ(ibv_query_gid_table(context, table, (size_t)count - 1, 0), -EINVAL);
	/* Behind the last the table goes on, with nothing in it. */
	EXPECT_EQ(ibv_query_gid_ex(context, 1, (uint32_t)count, &entry, 0), ENODATA);
	EXPECT_EQ(ibv_query_gid(context, 1, (int)count, &gid), 0);
	EXPECT_EQ(gid.global.subnet_prefix | gid.global.interface_id, 0);
	EXPECT_EQ(ibv_query_gid_ex(context, 1, 128, &entry, 0), EINVAL);
	EXPECT_EQ(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	EXPECT_EQ(ibv_query_gid(context, 1, 128, &gid), -1);
	EXPECT_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_iwarp_gid_is_as_before)
{
	struct ibv_context *context = loop_context();
	struct ibv_gid_entry entry, table[1];
	union ibv_gid gid;

	EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
	EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_IB);
	EXPECT_EQ(entry.gid.raw[0], 0xfe);
	EXPECT_EQ(entry.gid.global.interface_id, ibv_get_device_guid(context->device));
	EXPECT_EQ(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
	EXPECT_EQ(ibv_query_gid(context, 1, 1, &gid), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_query_gid_table(context, table, 1, 0), 1);
	EXPECT_EQ(ibv_query_gid_table(context, table, 0, 0), -EINVAL);
	EXPECT_EQ(ibv_close_device(context), 0);
}

static const char *file(const struct ibv_device *device, const char *name)
{
	static char text[256];

	return ibv_read_sysfs_file(device->ibdev_path, name, text, sizeof(text)) < 0 ? "-" : text;
}

/* What UCX and others read of a device of the kernel. */
TEST(test_roce_files_under_sys_say_the_same)
{
	struct ibv_context *context = roce_context();
	const struct ibv_device *d = context->device;

	EXPECT_STR(file(d, "node_type"), "1: CA");
	EXPECT_STR(file(d, "ports/1/link_layer"), "Ethernet");
	EXPECT_STR(file(d, "ports/1/state"), "4: ACTIVE");
	EXPECT_STR(file(d, "ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:7f00:0001");
	EXPECT_STR(file(d, "ports/1/gids/127"), "0000:0000:0000:0000:0000:0000:0000:0000");
	EXPECT_STR(file(d, "ports/1/gids/128"), "-");
	EXPECT_STR(file(d, "ports/1/gids/0x"), "-");
	EXPECT_STR(file(d, "ports/1/gid_attrs/types/0"), "RoCE v2");
	EXPECT_STR(file(d, "ports/1/gid_attrs/types/127"), "-");
	EXPECT_STR(file(d, "ports/1/gid_attrs/ndevs/0"), "lo");
	EXPECT_STR(file(d, "ports/1/pkeys/0"), "0xffff");
	EXPECT_STR(file(d, "ports/1/pkeys/1"), "-");
	EXPECT_STR(file(d, "ports/1/lid"), "0x0");
	EXPECT_STR(file(d, "ports/1/rate"), "100 Gb/sec (4X EDR)");
	EXPECT_STR(file(d, "device/numa_node"), "-1");
	EXPECT_STR(file(d, "ports/1"), "-");
	EXPECT_STR(file(d, "nothing"), "-");
	EXPECT(strncmp(file(d, "board_id"), "weft ", 5) == 0);
	EXPECT_EQ(ibv_close_device(context), 0);
	context = loop_context();
	EXPECT_STR(file(context->device, "node_type"), "4: RNIC");
	EXPECT_STR(file(context->device, "ports/1/gid_attrs/types/0"), "IB/RoCE v1");
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_roce_queue_pairs_of_other_services_are_refused)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = r.near.cq,
			.recv_cq = r.near.cq,
			.cap = { .max_send_wr = 1, .max_send_sge = 1 },
			.qp_type = types[i],
		};

		errno = 0;
		EXPECT(!ibv_create_qp(r.pd, &attr));
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	roce_free(&r);
}
