/* SPDX-License-Identifier: BSD-2-Clause */
/* UD over RoCE: address handles, the way back, groups. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "descriptors.h"
#include "test.h"
#include "unit/compat/loop_fixture.h"
#include "unit/compat/roce_fixture.h"

enum { ROUTE = 40 };

static struct ibv_ah *handle(const struct roce *r)
{
	struct ibv_ah_attr way = roce_way();
	struct ibv_ah *ah = ibv_create_ah(r->pd, &way);

	REQUIRE(ah);
	return ah;
}

static struct ibv_send_wr datagram(struct ibv_ah *ah, uint32_t number, uint32_t key)
{
	return (struct ibv_send_wr){
		.wr_id = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(77),
		.wr.ud = { ah, number, key },
	};
}

static void expect_datagram(struct roce *r, struct ibv_wc *wc)
{
	*wc = roce_wc(&r->far);
	EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc->opcode, IBV_WC_RECV);
	EXPECT_EQ(wc->byte_len, ROUTE + 100);
	EXPECT_EQ(wc->wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	EXPECT_EQ(ntohl(wc->imm_data), 77);
	EXPECT_EQ(wc->src_qp, r->near.qp->qp_num);
	EXPECT_MEM(r->far.memory + ROUTE, r->near.memory, 100);
}

TEST(test_roce_ud_carries_datagrams_and_tells_the_way_back)
{
	struct ibv_ah *ah, *back;
	struct ibv_ah_attr way;
	struct ibv_send_wr wr;
	struct ibv_grh grh;
	struct ibv_wc wc;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	roce_connect(&r);
	ah = handle(&r);
	memset(r.near.memory, 'd', 100);
	roce_recv(&r.far, 7, 0, 1024);
	wr = datagram(ah, r.far.qp->qp_num, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 100), 0);
	EXPECT_EQ(roce_wc(&r.near).status, IBV_WC_SUCCESS);
	expect_datagram(&r, &wc);

	memcpy(&grh, r.far.memory, sizeof(grh));
	EXPECT_EQ(ibv_init_ah_from_wc(r.context, 1, &wc, &grh, &way), 0);
	EXPECT_EQ(way.is_global, 1);
	EXPECT_EQ(way.grh.sgid_index, 0);
	EXPECT_MEM(way.grh.dgid.raw, roce_way().grh.dgid.raw, sizeof(way.grh.dgid.raw));
	EXPECT_EQ(ibv_init_ah_from_wc(r.context, 2, &wc, &grh, &way), -1);
	back = ibv_create_ah_from_wc(r.pd, &wc, &grh, 1);
	REQUIRE(back);
	roce_recv(&r.near, 8, 1024, 1024);
	wr = datagram(back, wc.src_qp, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r.far, &wr, 0, 10), 0);
	EXPECT_EQ(roce_wc(&r.far).status, IBV_WC_SUCCESS);
	EXPECT_EQ(roce_wc(&r.near).byte_len, ROUTE + 10);
	EXPECT_EQ(ibv_destroy_ah(back), 0);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

/* Of a datagram from the device to itself. */
static void expect_level(struct ibv_ah_attr *way, uint8_t level)
{
	struct ibv_send_wr wr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	roce_connect(&r);
	ah = ibv_create_ah(r.pd, way);
	REQUIRE(ah);
	roce_recv(&r.far, 7, 0, 1024);
	wr = datagram(ah, r.far.qp->qp_num, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 100), 0);
	EXPECT_EQ(roce_wc(&r.near).sl, 0);
	expect_datagram(&r, &wc);
	EXPECT_EQ(wc.sl, level);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

/* UCX takes it for what kind of header has the addresses, as mlx5 does. */
TEST(test_roce_ud_tells_the_kind_of_header_by_the_service_level)
{
	struct ibv_context *context = roce_context();
	struct ibv_ah_attr way = roce_way();

	expect_level(&way, 8 | 2);
	way.grh.sgid_index = 1;
	if (ibv_query_gid(context, 1, 1, &way.grh.dgid) == 0 && way.grh.dgid.raw[15] != 0)
		expect_level(&way, 8 | 1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_roce_ud_takes_only_what_has_its_key)
{
	struct ibv_send_wr wrong, good;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	roce_connect(&r);
	ah = handle(&r);
	roce_recv(&r.far, 7, 0, 1024);
	wrong = datagram(ah, r.far.qp->qp_num, ROCE_QKEY + 1);
	good = datagram(ah, r.far.qp->qp_num, 0x80000000); /* its own, which is the same */
	EXPECT_EQ(roce_post(&r.near, &wrong, 0, 10), 0);
	EXPECT_EQ(roce_post(&r.near, &good, 0, 100), 0);
	expect_datagram(&r, &wc);
	EXPECT(roce_is_quiet(&r.far));
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

TEST(test_roce_ud_takes_a_destination_of_builders)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = { .max_send_wr = 2, .max_send_sge = 1 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp_ex *ex;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	REQUIRE(ibv_destroy_qp(r.near.qp) == 0);
	attr.pd = r.pd;
	attr.send_cq = attr.recv_cq = r.near.cq;
	r.near.qp = ibv_create_qp_ex(r.context, &attr);
	REQUIRE(r.near.qp);
	ex = ibv_qp_to_qp_ex(r.near.qp);
	roce_connect(&r);
	ah = handle(&r);
	roce_recv(&r.far, 7, 0, 1024);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htonl(77));
	ibv_wr_set_ud_addr(ex, ah, r.far.qp->qp_num, ROCE_QKEY);
	ibv_wr_set_sge(ex, r.near.mr->lkey, (uintptr_t)r.near.memory, 100);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	expect_datagram(&r, &wc);
	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	EXPECT(!ibv_create_qp_ex(r.context, &attr));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

TEST(test_roce_ud_refuses_what_has_no_destination_or_is_no_datagram)
{
	struct ibv_send_wr wr = datagram(NULL, 1, ROCE_QKEY);
	struct ibv_ah *ah;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	roce_connect(&r);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 10), EINVAL);
	ah = handle(&r);
	wr = datagram(ah, r.far.qp->qp_num, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 4097), EINVAL); /* than a packet has room for */
	wr.opcode = IBV_WR_RDMA_WRITE;
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 10), EOPNOTSUPP);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

TEST(test_roce_address_handles_need_a_global_route_and_hold_their_domain)
{
	struct ibv_ah_attr way = roce_way();
	struct ibv_ah *ah;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	ah = handle(&r);
	EXPECT_EQ(ibv_dealloc_pd(r.pd), EBUSY);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	way.is_global = 0;
	EXPECT(!ibv_create_ah(r.pd, &way));
	EXPECT_EQ(errno, EINVAL);
	roce_free(&r);
}

/* To read the GIDs takes a descriptor. Without one the GID is not said to be missing. */
TEST(test_roce_address_handle_without_descriptors_is_refused_for_that)
{
	struct ibv_ah_attr way = roce_way();
	struct rlimit limit;
	struct ibv_ah *ah;
	struct roce r;
	int error;

	roce_make(&r, IBV_QPT_UD);
	limit = descriptors_end();
	ah = ibv_create_ah(r.pd, &way);
	error = errno;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	EXPECT(!ah);
	EXPECT_EQ(error, EMFILE);
	roce_free(&r);
}

/* IBA annex A17: IPv4 stands at the end of the 40 bytes, IPv6 fills them. */
TEST(test_roce_the_way_back_is_read_of_either_header)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_context *context = roce_context();
	struct ibv_ah_attr way;
	union ibv_gid six;
	struct ibv_grh grh = { .version_tclass_flow = htonl(6U << 28 | 0x20 << 20 | 0x54321) };

	if (ibv_query_gid(context, 1, 1, &six) != 0 || six.raw[15] == 0) {
		EXPECT_EQ(ibv_close_device(context), 0);
		SKIP("loopback has no address of IPv6");
	}
	grh.dgid = six;
	grh.sgid.raw[15] = 9;
	EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &way), 0);
	EXPECT_EQ(way.grh.sgid_index, 1);
	EXPECT_EQ(way.grh.dgid.raw[15], 9);
	EXPECT_EQ(way.grh.traffic_class, 0x20);
	EXPECT_EQ(way.grh.flow_label, 0x54321);
	/* It came to a group: back from an address of the port. */
	memset(grh.dgid.raw, 0xff, sizeof(grh.dgid.raw));
	EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &way), 0);
	EXPECT_EQ(way.grh.sgid_index, 1);
	grh.dgid.raw[0] = 0x20; /* unknown address */
	EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &way), -1);
	grh.version_tclass_flow = 0;
	EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &way), -1);
	wc.wc_flags = 0;
	EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &way), -1);
	EXPECT_EQ(ibv_close_device(context), 0);
}

static const union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 7, 7, 7 } };

TEST(test_roce_ud_takes_what_is_sent_to_its_group)
{
	enum { GROUP_QP = 0xffffff };
	struct ibv_ah_attr way = roce_way();
	struct ibv_send_wr wr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	roce_connect(&r);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &way.grh.dgid, 0), EINVAL); /* no group */
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &group, 0), 0);
	way.grh.dgid = group;
	ah = ibv_create_ah(r.pd, &way);
	REQUIRE(ah);
	roce_recv(&r.far, 7, 0, 1024);
	wr = datagram(ah, GROUP_QP, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 100), 0);
	expect_datagram(&r, &wc);
	EXPECT_EQ(ibv_detach_mcast(r.far.qp, &group, 0), 0);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
	roce_free(&r);
}

static void send_to_group(struct roce *r)
{
	enum { GROUP_QP = 0xffffff };
	struct ibv_ah_attr way = roce_way();
	struct ibv_send_wr wr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	way.grh.dgid = group;
	ah = ibv_create_ah(r->pd, &way);
	REQUIRE(ah);
	roce_recv(&r->far, 7, 0, 1024);
	wr = datagram(ah, GROUP_QP, ROCE_QKEY);
	EXPECT_EQ(roce_post(&r->near, &wr, 0, 100), 0);
	expect_datagram(r, &wc);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

/* Attached in any state, until it is detached (perftest attaches in RESET). */
TEST(test_roce_ud_is_in_its_group_before_it_receives_and_after_a_reset)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	EXPECT_EQ(ibv_detach_mcast(r.far.qp, &group, 0), EINVAL);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &group, 0), 0);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &group, 0), 0);
	roce_connect(&r);
	send_to_group(&r);
	EXPECT_EQ(ibv_modify_qp(r.far.qp, &reset, IBV_QP_STATE), 0);
	roce_to(&r, r.far.qp, IBV_QPS_RTS, 0);
	send_to_group(&r);
	EXPECT_EQ(ibv_modify_qp(r.far.qp, &reset, IBV_QP_STATE), 0);
	EXPECT_EQ(ibv_detach_mcast(r.far.qp, &group, 0), 0);
	EXPECT_EQ(ibv_detach_mcast(r.far.qp, &group, 0), EINVAL);
	roce_to(&r, r.far.qp, IBV_QPS_INIT, 0);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &group, 0), 0);
	roce_free(&r);
}

/* Better than to send what does not arrive. */
TEST(test_roce_groups_of_ipv6_are_refused_on_loopback)
{
	static const union ibv_gid six = { .raw = { 0xff, 5, [15] = 7 } };
	struct ibv_context *context = roce_context();
	union ibv_gid own;
	bool has_six = ibv_query_gid(context, 1, 1, &own) == 0 && own.raw[15] != 0;
	struct roce r;

	EXPECT_EQ(ibv_close_device(context), 0);
	roce_make(&r, IBV_QPT_UD);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &six, 0), has_six ? EOPNOTSUPP : EADDRNOTAVAIL);
	roce_free(&r);
}

TEST(test_roce_groups_are_of_datagrams)
{
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	EXPECT_EQ(ibv_attach_mcast(r.far.qp, &group, 0), EINVAL);
	EXPECT_EQ(ibv_detach_mcast(r.far.qp, &group, 0), EINVAL);
	roce_free(&r);
}

/* RFC 1112 section 6.4. */
TEST(test_roce_hardware_addresses_of_groups_and_of_itself)
{
	static const uint8_t of_group[6] = { 1, 0, 0x5e, 7, 7, 7 }, none[6];
	struct ibv_context *context = roce_context();
	struct ibv_ah_attr way = roce_way();
	uint8_t mac[6];
	uint16_t vid = 0;

	EXPECT_EQ(ibv_resolve_eth_l2_from_gid(context, &way, mac, &vid), 0);
	EXPECT_MEM(mac, none, sizeof(mac)); /* loopback's */
	EXPECT_EQ(vid, 0xffff);
	way.grh.dgid = group;
	EXPECT_EQ(ibv_resolve_eth_l2_from_gid(context, &way, mac, &vid), 0);
	EXPECT_MEM(mac, of_group, sizeof(mac));
	EXPECT_EQ(ibv_close_device(context), 0);
}
