/* SPDX-License-Identifier: BSD-2-Clause */
/* IBA 10.3.1, 11.2.5.2: states of RoCE queue pairs, what each move takes, and what is told. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"
#include "unit/compat/roce_fixture.h"

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_DRIVER };

enum {
	TYPES = sizeof(types) / sizeof(types[0]),
	ATTRIBUTES = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |
		     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		     IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
		     IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		     IBV_QP_DEST_QPN | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_RATE_LIMIT
};

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	REQUIRE(attr.cur_qp_state == attr.qp_state);
	return attr.qp_state;
}

static int set_state(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* The near one goes there from the state before. */
static void step(const struct roce *r, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr;
	int mask = roce_attr(r, to, r->far.qp->qp_num, &attr);

	REQUIRE(ibv_modify_qp(r->near.qp, &attr, mask) == 0);
}

/* Which attributes a move may have beside those that it must. */
static int may_have(enum ibv_qp_type type, enum ibv_qp_state to)
{
	if (to == IBV_QPS_INIT)
		return 0;
	if (type == IBV_QPT_DRIVER)
		return IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY |
		       (to == IBV_QPS_RTR ? IBV_QP_PKEY_INDEX : IBV_QP_MIN_RNR_TIMER);
	if (to == IBV_QPS_RTR)
		return IBV_QP_PKEY_INDEX | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (type == IBV_QPT_UD)
		return IBV_QP_QKEY;
	return IBV_QP_ACCESS_FLAGS | IBV_QP_RATE_LIMIT |
	       (type == IBV_QPT_RC ? IBV_QP_MIN_RNR_TIMER : 0);
}

/* Each that must be there is left out once, each other is added once. */
static void check_move(const struct roce *r, enum ibv_qp_state to)
{
	struct ibv_qp *qp = r->near.qp;
	enum ibv_qp_state from = state_of(qp);
	struct ibv_qp_attr attr;
	int mask = roce_attr(r, to, r->far.qp->qp_num, &attr);

	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
		if (!(ATTRIBUTES & bit) || (may_have(r->type, to) & bit))
			continue;
		EXPECT_EQ(ibv_modify_qp(qp, &attr, mask ^ bit), EINVAL);
		EXPECT_EQ(state_of(qp), from);
	}
	EXPECT_EQ(ibv_modify_qp(qp, &attr, mask | may_have(r->type, to)), 0);
	EXPECT_EQ(state_of(qp), to);
	EXPECT_EQ(qp->state, to);
}

TEST(test_roce_moves_take_the_attributes_of_the_table_and_no_others)
{
	for (int i = 0; i < TYPES; i++) {
		struct roce r;

		roce_make(&r, types[i]);
		for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
			check_move(&r, (enum ibv_qp_state)to);
		roce_free(&r);
	}
}

/* From each state: which others there is a way to, with what it takes. */
TEST(test_roce_moves_that_are_none_are_refused)
{
	static const uint8_t legal[] = {
		[IBV_QPS_RESET] = 1 << IBV_QPS_INIT,
		[IBV_QPS_INIT] = 1 << IBV_QPS_INIT | 1 << IBV_QPS_RTR,
		[IBV_QPS_RTR] = 1 << IBV_QPS_RTS,
		[IBV_QPS_RTS] = 1 << IBV_QPS_RTS | 1 << IBV_QPS_SQD,
		[IBV_QPS_SQD] = 1 << IBV_QPS_RTS | 1 << IBV_QPS_SQD,
	};
	struct roce r;

	roce_make(&r, IBV_QPT_UC);
	for (int from = IBV_QPS_RESET; from <= IBV_QPS_SQD; from++) {
		for (int to = IBV_QPS_INIT; to <= IBV_QPS_SQE; to++) {
			struct ibv_qp_attr attr;
			int mask = roce_attr(&r, (enum ibv_qp_state)to, 1, &attr);

			EXPECT_EQ(state_of(r.near.qp), from);
			if (!(legal[from] & 1 << to))
				EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
		}
		if (from < IBV_QPS_RTS) {
			step(&r, (enum ibv_qp_state)(from + 1));
		} else if (from == IBV_QPS_RTS) {
			EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RTS), 0);
			REQUIRE(set_state(r.near.qp, IBV_QPS_SQD) == 0);
		}
	}
	EXPECT_EQ(set_state(r.near.qp, (enum ibv_qp_state)7), EINVAL);
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RTS), 0);
	EXPECT_EQ(state_of(r.near.qp), IBV_QPS_RTS);
	roce_free(&r);
}

/* A datagram queue pair needs no address: only the table tells that a state is left out. */
TEST(test_roce_move_that_leaves_out_a_state_is_refused)
{
	struct roce r;

	roce_make(&r, IBV_QPT_UD);
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RTR), EINVAL);
	EXPECT_EQ(state_of(r.near.qp), IBV_QPS_RESET);
	roce_free(&r);
}

TEST(test_roce_reset_and_error_come_from_everywhere)
{
	for (int i = 0; i < TYPES; i++) {
		struct roce r;

		roce_make(&r, types[i]);
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_RTS; from++) {
			roce_to(&r, r.near.qp, (enum ibv_qp_state)from, r.far.qp->qp_num);
			EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RESET), 0);
			EXPECT_EQ(state_of(r.near.qp), IBV_QPS_RESET);
			roce_to(&r, r.near.qp, (enum ibv_qp_state)from, r.far.qp->qp_num);
			EXPECT_EQ(set_state(r.near.qp, IBV_QPS_ERR), 0);
			EXPECT_EQ(state_of(r.near.qp), IBV_QPS_ERR);
			EXPECT_EQ(set_state(r.near.qp, IBV_QPS_ERR), 0);
			EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RESET), 0);
		}
		roce_free(&r);
	}
}

TEST(test_roce_current_state_that_is_not_is_refused)
{
	struct ibv_qp_attr attr;
	struct roce r;
	int mask;

	roce_make(&r, IBV_QPT_RC);
	roce_to(&r, r.near.qp, IBV_QPS_RTR, r.far.qp->qp_num);
	mask = roce_attr(&r, IBV_QPS_RTS, r.far.qp->qp_num, &attr) | IBV_QP_CUR_STATE;
	attr.cur_qp_state = IBV_QPS_RTS;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr.cur_qp_state = IBV_QPS_RTR;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), 0);
	roce_free(&r);
}

TEST(test_roce_attributes_are_returned_as_they_were_set)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, way;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_to(&r, r.near.qp, IBV_QPS_RTS, r.far.qp->qp_num);
	roce_attr(&r, IBV_QPS_RTS, r.far.qp->qp_num, &way);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
	EXPECT_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
	EXPECT_EQ(attr.rq_psn, ROCE_PSN);
	EXPECT_EQ(attr.sq_psn, ROCE_PSN);
	EXPECT_EQ(attr.dest_qp_num, r.far.qp->qp_num);
	EXPECT_EQ(attr.qp_access_flags, way.qp_access_flags);
	EXPECT_MEM(&attr.ah_attr.grh.dgid, &way.ah_attr.grh.dgid, sizeof(union ibv_gid));
	EXPECT_EQ(attr.ah_attr.grh.flow_label, way.ah_attr.grh.flow_label);
	EXPECT_EQ(attr.ah_attr.grh.sgid_index, way.ah_attr.grh.sgid_index);
	EXPECT_EQ(attr.ah_attr.grh.hop_limit, way.ah_attr.grh.hop_limit);
	EXPECT_EQ(attr.ah_attr.grh.traffic_class, way.ah_attr.grh.traffic_class);
	EXPECT_EQ(attr.ah_attr.sl, way.ah_attr.sl);
	EXPECT_EQ(attr.ah_attr.is_global, way.ah_attr.is_global);
	EXPECT_EQ(attr.ah_attr.port_num, way.ah_attr.port_num);
	EXPECT_EQ(attr.port_num, 1);
	EXPECT_EQ(attr.pkey_index, 0);
	EXPECT_EQ(attr.max_rd_atomic, 3);
	EXPECT_EQ(attr.max_dest_rd_atomic, 4);
	EXPECT_EQ(attr.min_rnr_timer, 1);
	EXPECT_EQ(attr.timeout, 8);
	EXPECT_EQ(attr.retry_cnt, 5);
	EXPECT_EQ(attr.rnr_retry, 6);
	EXPECT_EQ(attr.sq_draining, 0);
	EXPECT_EQ(attr.cap.max_send_wr, ROCE_DEPTH);
	EXPECT_EQ(init.qp_type, IBV_QPT_RC);
	/* After a reset nothing of it is left. */
	REQUIRE(set_state(r.near.qp, IBV_QPS_RESET) == 0);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.dest_qp_num | attr.rq_psn | attr.timeout | attr.qp_access_flags, 0);
	EXPECT_EQ(attr.cap.max_send_wr, ROCE_DEPTH);
	roce_free(&r);
}

/* EINVAL, and a line that says why for who asked for such lines. */
static bool is_refused_and_logged(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int before = dup(STDERR_FILENO), ends[2], error;
	char line[512];
	ssize_t n;

	REQUIRE(before >= 0 && pipe2(ends, O_NONBLOCK) == 0);
	REQUIRE(setenv("WEFT_LOG", "info", 1) == 0);
	REQUIRE(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	error = ibv_modify_qp(qp, attr, mask);
	REQUIRE(dup2(before, STDERR_FILENO) == STDERR_FILENO);
	REQUIRE(unsetenv("WEFT_LOG") == 0);
	n = read(ends[0], line, sizeof(line));
	close(before);
	close(ends[0]);
	close(ends[1]);
	return error == EINVAL && n > 0 && line[n - 1] == '\n';
}

TEST(test_roce_a_state_that_is_not_the_present_one_is_refused)
{
	struct ibv_qp_attr attr;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	(void)roce_attr(&r, IBV_QPS_RTS, r.far.qp->qp_num, &attr);
	attr.cur_qp_state = IBV_QPS_SQD;
	EXPECT(is_refused_and_logged(r.near.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	roce_free(&r);
}

/* Linux takes them for what the device cannot do (1 << 8 and 1 << 9 are FLUSH), and keeps them. */
TEST(test_roce_access_flags_of_other_devices_give_the_peer_nothing)
{
	enum { FLUSH = 3 << 8, OTHER = 1 << 28 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct roce r;
	int mask;

	roce_make(&r, IBV_QPT_RC);
	mask = roce_attr(&r, IBV_QPS_INIT, 0, &attr);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | FLUSH | OTHER;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), 0);
	EXPECT_EQ(ibv_query_qp(r.near.qp, &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
	EXPECT_EQ(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ | FLUSH | OTHER);
	errno = 0;
	EXPECT(!ibv_reg_mr(r.pd, &r, sizeof(r), FLUSH)); /* of memory they are a promise */
	EXPECT_EQ(errno, EOPNOTSUPP);
	roce_free(&r);
}

TEST(test_roce_values_out_of_range_are_refused)
{
	static const struct {
		enum ibv_qp_state to;
		struct ibv_qp_attr attr;
		int mask;
	} wrong[] = {
		{ IBV_QPS_INIT, { .port_num = 2 }, IBV_QP_PORT },
		{ IBV_QPS_INIT, { .pkey_index = 1 }, IBV_QP_PKEY_INDEX },
		{ IBV_QPS_RTR, { .path_mtu = (enum ibv_mtu)0 }, IBV_QP_PATH_MTU },
		{ IBV_QPS_RTR, { .path_mtu = (enum ibv_mtu)6 }, IBV_QP_PATH_MTU },
		{ IBV_QPS_RTR, { .dest_qp_num = 1 << 24 }, IBV_QP_DEST_QPN },
		{ IBV_QPS_RTR, { .max_dest_rd_atomic = 129 }, IBV_QP_MAX_DEST_RD_ATOMIC },
		{ IBV_QPS_RTR, { .min_rnr_timer = 32 }, IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_RTS, { .timeout = 32 }, IBV_QP_TIMEOUT },
		{ IBV_QPS_RTS, { .retry_cnt = 8 }, IBV_QP_RETRY_CNT },
		{ IBV_QPS_RTS, { .rnr_retry = 8 }, IBV_QP_RNR_RETRY },
		{ IBV_QPS_RTS, { .max_rd_atomic = 129 }, IBV_QP_MAX_QP_RD_ATOMIC },
	};
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			struct ibv_qp_attr attr;
			const struct ibv_qp_attr *w = &wrong[i].attr;
			int mask = roce_attr(&r, (enum ibv_qp_state)to, r.far.qp->qp_num, &attr);

			if ((int)wrong[i].to != to)
				continue;
			attr.port_num = wrong[i].mask & IBV_QP_PORT ? w->port_num : attr.port_num;
			attr.path_mtu = wrong[i].mask & IBV_QP_PATH_MTU ? w->path_mtu
									: attr.path_mtu;
			attr.pkey_index = w->pkey_index;
			attr.dest_qp_num |= w->dest_qp_num;
			attr.max_dest_rd_atomic |= w->max_dest_rd_atomic;
			attr.min_rnr_timer |= w->min_rnr_timer;
			attr.timeout |= w->timeout;
			attr.retry_cnt |= w->retry_cnt;
			attr.rnr_retry |= w->rnr_retry;
			attr.max_rd_atomic |= w->max_rd_atomic;
			EXPECT(is_refused_and_logged(r.near.qp, &attr, mask));
		}
		step(&r, (enum ibv_qp_state)to);
	}
	roce_free(&r);
}

/* IBA annex A17: no path without a global route; and no address that the port has not. */
TEST(test_roce_address_vectors_that_lead_nowhere_are_refused)
{
	struct ibv_qp_attr good, attr;
	struct roce r;
	int mask;

	roce_make(&r, IBV_QPT_RC);
	roce_to(&r, r.near.qp, IBV_QPS_INIT, 0);
	mask = roce_attr(&r, IBV_QPS_RTR, r.far.qp->qp_num, &good);
	attr = good;
	attr.ah_attr.is_global = 0;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr = good;
	attr.ah_attr.port_num = 0;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr = good;
	attr.ah_attr.grh.sgid_index = 127;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr = good;
	memset(&attr.ah_attr.grh.dgid, 0, sizeof(attr.ah_attr.grh.dgid));
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr.ah_attr.grh.dgid.raw[15] = 1; /* of IPv6, from one of IPv4 */
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask), EINVAL);
	attr = good;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, mask | IBV_QP_ALT_PATH), EOPNOTSUPP);
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &good, mask), 0);
	roce_free(&r);
}

TEST(test_roce_attributes_that_may_change_while_requests_are_sent_do)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .min_rnr_timer = 9,
				    .qp_access_flags = 0,
				    .rate_limit = 100000 };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr,
				IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS | IBV_QP_RATE_LIMIT),
		  0);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.min_rnr_timer, 9);
	EXPECT_EQ(attr.qp_access_flags, 0);
	EXPECT_EQ(attr.rate_limit, 100000);
	attr.timeout = 10;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, IBV_QP_TIMEOUT), EINVAL);
	roce_free(&r);
}

TEST(test_roce_rate_limit_is_of_connections)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 5000 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct roce r;
	struct loop l;

	roce_make(&r, IBV_QPT_RC);
	EXPECT_EQ(ibv_modify_qp_rate_limit(r.near.qp, &limit), 0);
	roce_connect(&r);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.rate_limit, 5000);
	limit.rate_limit = 0;
	EXPECT_EQ(ibv_modify_qp_rate_limit(r.near.qp, &limit), 0);
	limit.comp_mask = 1;
	EXPECT_EQ(ibv_modify_qp_rate_limit(r.near.qp, &limit), EINVAL);
	roce_free(&r);
	roce_make(&r, IBV_QPT_UD);
	limit.comp_mask = 0;
	EXPECT_EQ(ibv_modify_qp_rate_limit(r.near.qp, &limit), EOPNOTSUPP);
	roce_free(&r);
	loop_make(&l);
	EXPECT_EQ(ibv_modify_qp_rate_limit(l.near, &limit), EOPNOTSUPP);
	loop_free(&l);
}

/* IBA 10.3.1.5: drained, what else stands still may change. */
TEST(test_roce_sqd_tells_when_it_is_drained_and_then_lets_more_change)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	roce_expect_event(r.context, IBV_EVENT_SQ_DRAINED);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
	EXPECT_EQ(attr.sq_draining, 0);
	attr.timeout = 12;
	attr.retry_cnt = 2;
	attr.max_rd_atomic = 1;
	attr.ah_attr.grh.hop_limit = 9;
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr,
				IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_MAX_QP_RD_ATOMIC |
					IBV_QP_AV),
		  0);
	EXPECT_EQ(ibv_modify_qp(r.near.qp, &attr, IBV_QP_PATH_MTU), EINVAL);
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RTS), 0);
	REQUIRE(ibv_query_qp(r.near.qp, &attr, ~0, &init) == 0);
	EXPECT_EQ(attr.timeout, 12);
	EXPECT_EQ(attr.retry_cnt, 2);
	EXPECT_EQ(attr.max_rd_atomic, 1);
	EXPECT_EQ(attr.ah_attr.grh.hop_limit, 9);
	/* A program that does not ask for the event gets none. */
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_SQD), 0);
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RTS), 0);
	EXPECT(roce_has_no_event(r.context));
	roce_free(&r);
}

TEST(test_roce_receives_are_posted_from_init_on_and_sends_from_rts_on)
{
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	EXPECT_EQ(ibv_post_recv(r.near.qp, &recv, &bad_recv), EINVAL);
	roce_to(&r, r.near.qp, IBV_QPS_INIT, 0);
	EXPECT_EQ(ibv_post_recv(r.near.qp, &recv, &bad_recv), 0);
	EXPECT_EQ(ibv_post_send(r.near.qp, &send, &bad_send), EINVAL);
	EXPECT_EQ(set_state(r.near.qp, IBV_QPS_RESET), 0);
	EXPECT(roce_is_quiet(&r.near)); /* of what was queued nothing is told */
	roce_to(&r, r.near.qp, IBV_QPS_RTR, r.far.qp->qp_num);
	EXPECT_EQ(ibv_post_send(r.near.qp, &send, &bad_send), EINVAL);
	roce_free(&r);
}
