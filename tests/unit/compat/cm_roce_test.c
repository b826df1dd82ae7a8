/* SPDX-License-Identifier: BSD-2-Clause */
/* What librdmacm does on RoCE devices and not on iWARP's. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

enum { WIRE_BYTES = 512, WIRE_MAX = 1024 };

#define NEEDS_ROCE()                                                                               \
	do {                                                                                       \
		if (!cm_is_roce())                                                                 \
			SKIP("the device is iWARP's");                                             \
	} while (0)

/* In place of libc's, for the libraries as well. */
static atomic_bool is_random_gone;

ssize_t getrandom(void *to, size_t bytes, unsigned int flags)
{
	if (atomic_load(&is_random_gone)) {
		errno = ENOSYS;
		return -1;
	}
	return syscall(SYS_getrandom, to, bytes, flags);
}

/* Both ends, and a request that the far one has not answered. */
static struct rdma_cm_event *request(struct cm_pair *p, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event = cm_request(p, param);

	p->far = event->id;
	return event;
}

static struct ibv_qp_attr attr_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(ibv_query_qp(qp, &attr, 0, &init) == 0);
	return attr;
}

/* ---- What the two ends agree on -------------------------------------------------------------- */

/* Packet numbers that could be guessed would let others in: rather no connection. */
TEST(test_roce_cm_a_request_is_refused_where_no_random_number_is_to_be_had)
{
	enum { NO_RESOURCES = 3 };
	struct rdma_conn_param ask = { .retry_count = 7, .rnr_retry_count = 7 };
	struct cm_pair p = { 0 };
	struct rdma_cm_event *event;
	bool is_answered;

	NEEDS_ROCE();
	p.near_channel = cm_channel();
	p.far_channel = cm_channel();
	p.listener = cm_listener(p.far_channel);
	p.near = cm_dialler(p.near_channel, p.listener);
	REQUIRE(rdma_connect(p.near, &ask) == 0);
	atomic_store(&is_random_gone, true);
	/* The far end looks at what came, and is told of nothing. */
	do {
		struct pollfd both[2] = { { .fd = p.far_channel->fd, .events = POLLIN },
					  { .fd = p.near_channel->fd, .events = POLLIN } };

		REQUIRE(poll(both, 2, -1) > 0);
		is_answered = both[1].revents != 0;
		EXPECT_EQ(rdma_get_cm_event(p.far_channel, &event), -1);
	} while (!is_answered);
	atomic_store(&is_random_gone, false);
	event = cm_event(p.near_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event->status, NO_RESOURCES);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect_none(p.far_channel);
	rdma_destroy_ep(p.near);
	rdma_destroy_ep(p.listener);
	rdma_destroy_event_channel(p.near_channel);
	rdma_destroy_event_channel(p.far_channel);
}

/* fio asks for ten: of eight values the last is for ever, and two would soon be over. */
TEST(test_roce_cm_more_retries_than_there_are_is_all)
{
	struct rdma_conn_param ask = { .retry_count = 10, .rnr_retry_count = 10 };
	struct rdma_cm_event *event;
	struct cm_pair p;

	NEEDS_ROCE();
	event = request(&p, &ask);
	EXPECT_EQ(event->param.conn.retry_count, 7);
	EXPECT_EQ(event->param.conn.rnr_retry_count, 7);
	cm_create_qp(p.far);
	REQUIRE(rdma_accept(p.far, &ask) == 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(p.far_channel, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(attr_of(p.near->qp).rnr_retry, 7);
	EXPECT_EQ(attr_of(p.far->qp).rnr_retry, 7);
	cm_pair_free(&p);
}

TEST(test_roce_cm_queue_pairs_are_as_the_two_ends_have_said)
{
	struct rdma_conn_param ask = { .responder_resources = 3,
				       .initiator_depth = 5,
				       .retry_count = 6,
				       .rnr_retry_count = 2 };
	struct rdma_conn_param say = { .responder_resources = 4,
				       .initiator_depth = 2,
				       .rnr_retry_count = 1 };
	struct ibv_qp_attr near, far;
	struct rdma_cm_event *event;
	struct cm_pair p;

	NEEDS_ROCE();
	event = request(&p, &ask);
	EXPECT_EQ(event->param.conn.retry_count, 6);
	EXPECT_EQ(event->param.conn.rnr_retry_count, 2);
	EXPECT_EQ(event->param.conn.qp_num, p.near->qp->qp_num);
	cm_create_qp(p.far);
	REQUIRE(rdma_accept(p.far, &say) == 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(p.far_channel, RDMA_CM_EVENT_ESTABLISHED);
	near = attr_of(p.near->qp);
	far = attr_of(p.far->qp);
	EXPECT_EQ(near.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(far.qp_state, IBV_QPS_RTS);
	EXPECT_EQ(near.dest_qp_num, p.far->qp->qp_num);
	EXPECT_EQ(far.dest_qp_num, p.near->qp->qp_num);
	EXPECT_EQ(near.sq_psn, far.rq_psn);
	EXPECT_EQ(far.sq_psn, near.rq_psn);
	EXPECT_EQ(near.path_mtu, far.path_mtu);
	EXPECT_EQ(near.max_rd_atomic, 4);
	EXPECT_EQ(near.max_dest_rd_atomic, 2);
	EXPECT_EQ(far.max_rd_atomic, 2);
	EXPECT_EQ(far.max_dest_rd_atomic, 4);
	EXPECT_EQ(near.retry_cnt, 6);
	EXPECT_EQ(far.retry_cnt, 6);
	EXPECT_EQ(near.rnr_retry, 1);
	EXPECT_EQ(far.rnr_retry, 2);
	cm_pair_free(&p);
}

/* Where a REQ and a REP have what they say of their sender's queue pair, behind UDP. */
struct said {
	uint8_t attribute;
	size_t qpn_at, psn_at;
};

enum { MAD_AT = 20, ATTRIBUTE_AT = MAD_AT + 16, MESSAGE_AT = MAD_AT + 24, IP_AND_UDP = 28 };

static const struct said req = { 0x10, MESSAGE_AT + 32, MESSAGE_AT + 44 };
static const struct said rep = { 0x13, MESSAGE_AT + 12, MESSAGE_AT + 20 };

static uint32_t u24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* Sees what goes to any GSI by RoCE, and no other's traffic. -1: it cannot be had. */
static int wire_open(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22), /* port, behind IPv4 */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4791, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP_AND_UDP + 7), /* of the queue pair */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, WIRE_BYTES),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP));

	if (fd >= 0)
		REQUIRE(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0);
	return fd;
}

/* The starting PSN in a message about this queue pair that was on the wire; -1: there was none. */
static int64_t psn_said(const uint8_t *packets, size_t count, const struct said *s, uint32_t qpn)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *p = packets + i * WIRE_BYTES + IP_AND_UDP;

		if (u24(p + 5) == 1 && p[ATTRIBUTE_AT + 1] == s->attribute &&
		    u24(p + s->qpn_at) == qpn)
			return u24(p + s->psn_at);
	}
	return -1;
}

/*
 * IBA 12.7.31: the number that an end says is the one from which the other shall number. Both ends
 * would agree as well if each took it for its own, but not with others.
 */
TEST(test_roce_cm_starting_psn_is_the_one_that_its_sender_expects)
{
	static uint8_t packets[WIRE_MAX * WIRE_BYTES];
	struct cm_pair p;
	size_t count = 0;
	int wire;

	NEEDS_ROCE();
	wire = wire_open();
	if (wire < 0)
		SKIP("the wire cannot be looked at: it takes CAP_NET_RAW");
	cm_pair_make(&p);
	while (count < WIRE_MAX &&
	       recv(wire, packets + count * WIRE_BYTES, WIRE_BYTES, MSG_TRUNC) > 0)
		count++;
	close(wire);
	EXPECT_EQ(psn_said(packets, count, &req, p.near->qp->qp_num), attr_of(p.near->qp).rq_psn);
	EXPECT_EQ(psn_said(packets, count, &rep, p.far->qp->qp_num), attr_of(p.far->qp).rq_psn);
	EXPECT_EQ(attr_of(p.near->qp).sq_psn, attr_of(p.far->qp).rq_psn);
	EXPECT_EQ(attr_of(p.far->qp).sq_psn, attr_of(p.near->qp).rq_psn);
	cm_pair_free(&p);
}

TEST(test_roce_cm_options_of_the_id_are_its_queue_pairs)
{
	uint8_t timeout = 15, class = 0x68;
	struct rdma_event_channel *near, *far;
	struct rdma_cm_id *listener, *id, *accepted;
	struct ibv_qp_attr attr;

	NEEDS_ROCE();
	near = cm_channel();
	far = cm_channel();
	listener = cm_listener(far);
	id = cm_dialler(near, listener);
	REQUIRE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1) == 0);
	REQUIRE(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 1) == 0);
	REQUIRE(rdma_connect(id, NULL) == 0);
	accepted = cm_accept(far);
	cm_expect(near, RDMA_CM_EVENT_ESTABLISHED);
	attr = attr_of(id->qp);
	EXPECT_EQ(attr.timeout, 15);
	EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x68);
	attr = attr_of(accepted->qp);
	EXPECT_EQ(attr.timeout, 15);
	EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x68);
	rdma_destroy_ep(id);
	rdma_destroy_ep(accepted);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_roce_cm_private_data_that_does_not_fit_is_refused)
{
	static const uint8_t data[255];
	struct rdma_conn_param much = { .private_data = data, .private_data_len = 57 };
	struct rdma_cm_event *event;
	struct cm_pair p;

	NEEDS_ROCE();
	p.near_channel = cm_channel();
	p.far_channel = cm_channel();
	p.listener = cm_listener(p.far_channel);
	p.near = cm_dialler(p.near_channel, p.listener);
	EXPECT_EQ(rdma_connect(p.near, &much), -1);
	EXPECT_EQ(errno, EINVAL);
	much.private_data_len = 56;
	EXPECT_EQ(rdma_connect(p.near, &much), 0);
	event = cm_event(p.far_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	p.far = event->id;
	EXPECT_EQ(rdma_reject(p.far, data, 149), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_pair_free(&p);
}

/* ---- Other services -------------------------------------------------------------------------- */

static void create_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};

	REQUIRE(rdma_create_qp(id, NULL, &attr) == 0);
}

static uint8_t from[64], to[64];

static void send_one(struct rdma_cm_id *near, struct rdma_cm_id *far)
{
	struct ibv_mr *from_mr = rdma_reg_msgs(near, from, sizeof(from));
	struct ibv_mr *to_mr = rdma_reg_msgs(far, to, sizeof(to));
	struct ibv_wc wc;

	REQUIRE(from_mr && to_mr);
	memset(from, 0x3c, sizeof(from));
	memset(to, 0, sizeof(to));
	REQUIRE(rdma_post_recv(far, NULL, to, sizeof(to), to_mr) == 0);
	REQUIRE(rdma_post_send(near, NULL, from, sizeof(from), from_mr, 0) == 0);
	REQUIRE(rdma_get_send_comp(near, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	REQUIRE(rdma_get_recv_comp(far, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	EXPECT_MEM(to, from, sizeof(to));
	rdma_dereg_mr(from_mr);
	rdma_dereg_mr(to_mr);
}

/* The whole way, in a port space and with queue pairs of a type. */
static void connect_and_send(enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *listener, *id, *accepted;
	struct rdma_cm_event *event;

	REQUIRE(rdma_create_id(far, &listener, NULL, ps) == 0);
	REQUIRE(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0);
	REQUIRE(rdma_listen(listener, 1) == 0);
	at.sin_port = rdma_get_src_port(listener);
	REQUIRE(rdma_create_id(near, &id, NULL, ps) == 0);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000) == 0);
	cm_expect(near, RDMA_CM_EVENT_ADDR_RESOLVED);
	REQUIRE(rdma_resolve_route(id, 1000) == 0);
	cm_expect(near, RDMA_CM_EVENT_ROUTE_RESOLVED);
	create_qp(id, type);
	REQUIRE(rdma_connect(id, NULL) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	accepted = event->id;
	EXPECT_EQ(accepted->ps, ps);
	EXPECT_EQ(accepted->qp_type, type);
	create_qp(accepted, type == IBV_QPT_RC ? IBV_QPT_UC : IBV_QPT_RC);
	EXPECT(rdma_accept(accepted, NULL) < 0 && errno == EINVAL); /* of another service */
	rdma_destroy_qp(accepted);
	create_qp(accepted, type);
	REQUIRE(rdma_accept(accepted, NULL) == 0);
	REQUIRE(rdma_ack_cm_event(event) == 0);
	cm_expect(near, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(far, RDMA_CM_EVENT_ESTABLISHED);
	send_one(id, accepted);
	rdma_destroy_ep(id);
	cm_expect(far, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(accepted);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_roce_cm_connects_unreliable_queue_pairs)
{
	NEEDS_ROCE();
	connect_and_send(RDMA_PS_TCP, IBV_QPT_UC);
}

TEST(test_roce_cm_connects_in_the_port_space_of_infiniband)
{
	NEEDS_ROCE();
	connect_and_send(RDMA_PS_IB, IBV_QPT_RC);
}

/* ---- Queue pairs of the program's own -------------------------------------------------------- */

TEST(test_roce_cm_attributes_are_known_when_the_other_end_is)
{
	enum {
		RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdma_cm_event *event;
	struct cm_pair p;
	int mask;

	NEEDS_ROCE();
	event = request(&p, NULL);
	EXPECT_EQ(rdma_init_qp_attr(p.near, &attr, &mask), -1); /* no answer yet */
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_init_qp_attr(p.far, &attr, &mask), 0);
	EXPECT_EQ(mask, RTR);
	EXPECT_EQ(attr.dest_qp_num, p.near->qp->qp_num);
	attr.qp_state = IBV_QPS_RTS;
	EXPECT_EQ(rdma_init_qp_attr(p.far, &attr, &mask), 0);
	EXPECT_EQ(mask, RTS);
	EXPECT_EQ(attr.retry_cnt, 7);
	attr.qp_state = IBV_QPS_SQD;
	EXPECT_EQ(rdma_init_qp_attr(p.far, &attr, &mask), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_pair_free(&p);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* IBA 12.9.8.4: as Linux tells it, and once. */
TEST(test_roce_cm_tells_of_the_end_of_the_time_wait)
{
	struct cm_pair p;

	NEEDS_ROCE();
	cm_pair_make(&p);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.near_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	cm_expect(p.far_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	cm_expect_none(p.near_channel);
	cm_expect_none(p.far_channel);
	cm_pair_free(&p);
}

/* This program once more, as another process: dials, and ends without a word of its own. */
static const char child_variable[] = "CM_TEST_LEAVE";

__attribute__((constructor)) static void child(void)
{
	const char *port = getenv(child_variable);
	struct rdma_event_channel *channel;
	struct rdma_cm_id seen = { 0 };

	if (!port)
		return;
	channel = cm_channel();
	seen.route.addr.src_sin = cm_loopback((uint16_t)atoi(port));
	REQUIRE(rdma_connect(cm_dialler(channel, &seen), NULL) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	exit(0);
}

TEST(test_roce_cm_tells_of_a_peer_that_ended_without_disconnecting)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
	char port[8];
	int status;
	pid_t pid;

	NEEDS_ROCE();
	channel = cm_channel();
	listener = cm_listener(channel);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	REQUIRE(setenv(child_variable, port, 1) == 0);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "child", NULL);
		_exit(1);
	}
	REQUIRE(unsetenv(child_variable) == 0);
	id = cm_accept(channel);
	cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(channel);
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* Where WEFT_DEVICES names both kinds, the peer decides: WEFT_DEVICES narrows what it has. */
TEST(test_rdma_listen_takes_requests_of_both_kinds_of_devices)
{
	struct rdma_event_channel *near, *far;
	struct rdma_cm_id *listener, *roce, *iwarp, *accepted;

	if (!cm_is_roce() || getenv("WEFT_DEVICES"))
		SKIP("the devices are of one kind");
	near = cm_channel();
	far = cm_channel();
	REQUIRE(setenv("WEFT_DEVICES", "roce_*,iw_*", 1) == 0);
	listener = cm_listener(far);
	EXPECT_EQ(listener->verbs->device->transport_type, IBV_TRANSPORT_IB);
	roce = cm_dialler(near, listener);
	EXPECT(roce->verbs == listener->verbs);
	REQUIRE(setenv("WEFT_DEVICES", "iw_*", 1) == 0);
	iwarp = cm_dialler(near, listener);
	REQUIRE(unsetenv("WEFT_DEVICES") == 0);
	EXPECT_EQ(iwarp->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
	REQUIRE(rdma_connect(iwarp, NULL) == 0);
	accepted = cm_accept(far);
	EXPECT(accepted->verbs == iwarp->verbs);
	cm_expect(near, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(far, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(accepted);
	REQUIRE(rdma_connect(roce, NULL) == 0);
	accepted = cm_accept(far);
	EXPECT(accepted->verbs == roce->verbs);
	rdma_destroy_ep(accepted);
	rdma_destroy_ep(iwarp);
	rdma_destroy_ep(roce);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

/* cmtime measures without queue pairs: Linux carries whatever number the program gives. */
TEST(test_roce_cm_connects_numbers_that_are_of_no_queue_pair)
{
	enum { NEAR_NUMBER = 1000, FAR_NUMBER = 2000 };
	struct rdma_conn_param param = { .qp_num = NEAR_NUMBER };
	struct rdma_cm_id *listener, *id, *accepted;
	struct rdma_event_channel *near, *far;
	struct rdma_cm_event *event;

	NEEDS_ROCE();
	near = cm_channel();
	far = cm_channel();
	listener = cm_listener(far);
	id = cm_resolved(near, listener);
	REQUIRE(rdma_connect(id, &param) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(event->param.conn.qp_num, NEAR_NUMBER);
	accepted = event->id;
	REQUIRE(rdma_ack_cm_event(event) == 0);
	param.qp_num = FAR_NUMBER;
	REQUIRE(rdma_accept(accepted, &param) == 0);
	event = cm_event(near);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(event->param.conn.qp_num, FAR_NUMBER);
	REQUIRE(rdma_ack_cm_event(event) == 0);
	REQUIRE(rdma_establish(id) == 0);
	cm_expect(far, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(rdma_disconnect(id), 0);
	cm_expect(near, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(far, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(accepted), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}
