/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of the node of a fabric that this program runs on (weft run --node): its descriptor is a
 * socket to the fabric's process, readable when a datagram has come. Agents, transaction ids,
 * timeouts and segments are that process's. A program that runs on no node has no port to open:
 * neither RoCE nor iWARP has management datagrams for programs.
 *
 * Results and errno are as the manual pages say and as rdma-core's library has them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "driver/sys/fabric_client.h"

enum { MAD_SIZE = 256, VENDOR_FIRST = 0x30, VENDOR_LAST = 0x4f, METHODS = 128, WORD_BITS = 32 };

int umad_init(void)
{
	return 0;
}

int umad_done(void)
{
	return 0;
}

/* ---- Open and closed ------------------------------------------------------------------------ */

/* The number of a port of ours: by its own, or without one the first that is active. */
static int port_number(const char *ca_name, int portnum)
{
	umad_port_t port;
	int r;

	if (!fabric_client_node())
		return -ENODEV;
	r = umad_get_port(ca_name, portnum, &port);
	if (r != 0)
		return r;
	(void)umad_release_port(&port);
	return port.portnum;
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	int port = port_number(ca_name, portnum);

	if (port < 0)
		return port;
	(void)snprintf(path, (size_t)max, "/dev/infiniband/issm%d", port - 1);
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_ATTACH }, answer;
	const char *node = fabric_client_node();
	int port = port_number(ca_name, portnum), fd;

	if (port < 0)
		return port;
	ask.where.port = (uint32_t)port;
	if (strlen(node) >= sizeof(ask.where.node))
		return -ENODEV;
	memcpy(ask.where.node, node, strlen(node) + 1);
	if (fabric_client_connect(NULL, &fd) != WEFT_OK)
		return -EIO;
	if (fabric_client_ask(fd, &ask, &answer) == WEFT_OK)
		return fd;
	close(fd);
	return -EIO;
}

int umad_close_port(int portid)
{
	if (!fabric_client_node())
		return -EINVAL;
	(void)close(portid);
	return 0;
}

int umad_get_fd(int portid)
{
	return fabric_client_node() ? portid : -EINVAL;
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* 0, or a negative errno that is in errno, too. */
static int wait_for(int portid, int timeout_ms)
{
	struct pollfd p = { .fd = portid, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	if (n == 1)
		return 0;
	if (n == 0)
		errno = ETIMEDOUT;
	return n == 0 ? -ETIMEDOUT : -EIO;
}

int umad_poll(int portid, int timeout_ms)
{
	return fabric_client_node() ? wait_for(portid, timeout_ms) : -EINVAL;
}

/* ---- Datagrams ------------------------------------------------------------------------------ */

/* The manual pages of these two say that errno is set, too. */
static int failed(int error)
{
	errno = error;
	return -error;
}

static void from_umad(struct fabric_msg_mad *m, const struct ib_user_mad *u)
{
	m->lid = ntohs(u->addr.lid);
	m->qpn = ntohl(u->addr.qpn);
	m->q_key = ntohl(u->addr.qkey);
	m->pkey_index = u->addr.pkey_index;
	m->level = u->addr.sl;
	m->path_bits = u->addr.path_bits;
	m->has_grh = u->addr.grh_present != 0;
	m->gid_index = u->addr.gid_index;
	m->hop_limit = u->addr.hop_limit;
	m->traffic_class = u->addr.traffic_class;
	m->flow_label = ntohl(u->addr.flow_label);
	memcpy(m->gid, u->addr.gid, sizeof(m->gid));
}

static void to_umad(struct ib_user_mad *u, const struct fabric_msg_mad *m)
{
	*u = (struct ib_user_mad){ .agent_id = m->agent,
				   .status = m->error,
				   .timeout_ms = m->timeout_ms,
				   .retries = m->retries,
				   .length = (uint32_t)sizeof(*u) + m->length };
	u->addr.lid = htons(m->lid);
	u->addr.qpn = htonl(m->qpn);
	u->addr.qkey = htonl(m->q_key);
	u->addr.pkey_index = m->pkey_index;
	u->addr.sl = m->level;
	u->addr.path_bits = m->path_bits;
	u->addr.grh_present = m->has_grh;
	u->addr.gid_index = m->gid_index;
	u->addr.hop_limit = m->hop_limit;
	u->addr.traffic_class = m->traffic_class;
	u->addr.flow_label = htonl(m->flow_label);
	memcpy(u->addr.gid, m->gid, sizeof(m->gid));
}

/* The fabric reads as fast as it can: to wait for it is not to wait for the fabric's nodes. */
static int send_now(int portid, struct fabric_msg *m, const uint8_t *mad)
{
	for (;;) {
		struct pollfd p = { .fd = portid, .events = POLLOUT };
		int r = fabric_mad_send(portid, m, mad);

		if (r != -EAGAIN)
			return r;
		if (poll(&p, 1, FABRIC_PATIENCE_MS) <= 0)
			return -EIO;
	}
}

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	struct fabric_msg m = { .kind = FABRIC_MSG_SEND };
	struct ib_user_mad *u = umad;

	if (!fabric_client_node() || !umad || length < 0)
		return failed(EINVAL);
	u->agent_id = (uint32_t)agentid;
	u->timeout_ms = (uint32_t)timeout_ms;
	u->retries = (uint32_t)retries;
	from_umad(&m.mad, u);
	m.mad.agent = (uint32_t)agentid;
	m.mad.timeout_ms = timeout_ms < 0 ? 0 : (uint32_t)timeout_ms;
	m.mad.retries = retries < 0 ? 0 : (uint32_t)retries;
	m.mad.length = (uint32_t)length;
	if (send_now(portid, &m, u->data) == 0)
		return 0;
	errno = EIO;
	return -EIO;
}

/* For one that is too long: what there is of it, and the length that it needs. */
static int recv_too_long(struct ib_user_mad *u, int *length, const struct fabric_packet *p)
{
	to_umad(u, &p->m.mad);
	if (p->m.mad.length > MAD_SIZE && *length >= MAD_SIZE && p->tail_bytes >= MAD_SIZE)
		memcpy(u->data, p->tail, MAD_SIZE);
	*length = (int)p->m.mad.length;
	return failed(p->m.mad.length > MAD_SIZE ? ENOSPC : EINVAL);
}

/*
 * The fabric has gone. A program that only asks again, as opensm does and writes it down each time,
 * would do nothing else, and could not be ended between two lines of its log.
 */
static void gone_wait(void)
{
	const struct timespec a_while = { .tv_nsec = 100000000 };

	(void)nanosleep(&a_while, NULL);
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	struct ib_user_mad *u = umad;
	struct fabric_packet p;
	int r;

	if (!fabric_client_node() || !umad || !length || *length < 0)
		return failed(EINVAL);
	errno = 0;
	if (timeout_ms != 0) {
		r = wait_for(portid, timeout_ms);
		if (r < 0)
			return r;
	}
	r = fabric_packet_receive(portid, &p, true);
	if (r == -EPIPE)
		gone_wait();
	if (r < 0)
		return failed(r == -EPIPE ? EIO : -r);
	if (p.m.kind != FABRIC_MSG_RECEIVED || p.m.mad.length > INT_MAX)
		return failed(EIO);
	if ((int)p.m.mad.length > *length)
		return recv_too_long(u, length, &p);
	r = fabric_packet_receive(portid, &p, false);
	if (r < 0)
		return failed(-r); /* another thread was faster */
	to_umad(u, &p.m.mad);
	r = fabric_packet_mad(&p, u->data, (size_t)*length);
	fabric_packet_done(&p);
	if (r < 0)
		return failed(EIO);
	*length = (int)p.m.mad.length;
	return (int)p.m.mad.agent;
}

/* ---- Agents --------------------------------------------------------------------------------- */

/* The agent's number, or a negative errno. */
static int add(int portid, const struct fabric_msg_agent *a)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_AGENT, .agent = *a }, answer;
	enum weft_reason reason;

	if (!fabric_client_node())
		return -EINVAL;
	reason = fabric_client_ask_aside(portid, &ask, &answer);
	if (reason == WEFT_R_FABRIC_ABSENT)
		return -EPERM;
	return reason == WEFT_OK ? (int)answer.value : -EINVAL;
}

static void methods_from(struct fabric_msg_agent *a, const long *mask)
{
	const unsigned int bits = CHAR_BIT * sizeof(long);

	for (unsigned int method = 0; mask && method < METHODS; method++) {
		if ((unsigned long)mask[method / bits] >> method % bits & 1)
			a->methods[method / WORD_BITS] |= UINT32_C(1) << method % WORD_BITS;
	}
}

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	struct fabric_msg_agent a = { .mgmt_class = (uint8_t)mgmt_class,
				      .class_version = (uint8_t)mgmt_version,
				      .rmpp_version = rmpp_version };

	methods_from(&a, method_mask);
	return add(portid, &a);
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)])
{
	struct fabric_msg_agent a = { .mgmt_class = (uint8_t)mgmt_class,
				      .class_version = 1,
				      .rmpp_version = rmpp_version };

	if (mgmt_class < VENDOR_FIRST || mgmt_class > VENDOR_LAST)
		return -EINVAL;
	memcpy(a.oui, oui, sizeof(a.oui));
	methods_from(&a, method_mask);
	return add(portid, &a);
}

/* This one's errors are positive. */
int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	struct fabric_msg_agent a;
	int r;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->flags & ~(uint32_t)UMAD_USER_RMPP || attr->oui >> 24) {
		attr->flags = UMAD_USER_RMPP; /* those that there are */
		return EINVAL;
	}
	a = (struct fabric_msg_agent){
		.mgmt_class = attr->mgmt_class,
		.class_version = attr->mgmt_class_version,
		.rmpp_version = attr->flags & UMAD_USER_RMPP ? 0 : attr->rmpp_version,
		.oui = { (uint8_t)(attr->oui >> 16), (uint8_t)(attr->oui >> 8),
			 (uint8_t)attr->oui },
		.methods = { (uint32_t)attr->method_mask[0],
			     (uint32_t)(attr->method_mask[0] >> WORD_BITS),
			     (uint32_t)attr->method_mask[1],
			     (uint32_t)(attr->method_mask[1] >> WORD_BITS) },
	};
	r = add(port_fd, &a);
	if (r < 0)
		return -r;
	*agent_id = (uint32_t)r;
	return 0;
}

int umad_unregister(int portid, int agentid)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_AGENT_REMOVE, .value = (uint64_t)agentid },
			  answer;

	if (!fabric_client_node() || agentid < 0)
		return -EINVAL;
	return fabric_client_ask_aside(portid, &ask, &answer) == WEFT_OK ? 0 : -EINVAL;
}
