/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * victim.c ADDRESS [PINGS [read]]: with PINGS a client that sends so many messages (0: for ever),
 * awaits the echo of each and prints a line for it; or reads the server's region so many times, as
 * one Read each. Without PINGS a server that takes every connection, echoes what comes, lets its
 * region be read, and goes on whatever happens to any of them.
 */
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 3000, PORT = 7471, DEPTH = 4, CQ_DEPTH = 8192, REGION = 64 << 20, FILL = 0x5a };

static struct rdma_event_channel *events;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static struct ibv_pd *pd;

/* The server's, which tells its peers where it is; a client's, into which it reads. */
static char region[REGION];
static struct ibv_mr *region_mr;

struct place {
	uint64_t address;
	uint32_t key;
};

/* Not freed: a completion of a connection that is gone may still come. */
struct conn {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	char in[BYTES], out[BYTES];
};

static void must(int is_true, const char *what)
{
	if (is_true)
		return;
	perror(what);
	exit(1);
}

static struct conn *conn_new(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct conn *c = calloc(1, sizeof(*c));

	must(c != NULL, "calloc");
	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		completions = ibv_create_comp_channel(id->verbs);
		must(pd && completions, "pd");
		cq = ibv_create_cq(id->verbs, CQ_DEPTH, NULL, completions, 0);
		must(cq && ibv_req_notify_cq(cq, 0) == 0, "cq");
		region_mr = ibv_reg_mr(pd, region, sizeof(region),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
		must(region_mr != NULL, "region");
	}
	attr.send_cq = attr.recv_cq = cq;
	c->id = id;
	id->context = c;
	c->mr = ibv_reg_mr(pd, c->in, sizeof(c->in) + sizeof(c->out), IBV_ACCESS_LOCAL_WRITE);
	must(c->mr != NULL, "ibv_reg_mr");
	if (rdma_create_qp(id, pd, &attr) != 0)
		return NULL;
	must(rdma_post_recv(id, c, c->in, BYTES, c->mr) == 0, "rdma_post_recv");
	return c;
}

static void conn_end(struct conn *c)
{
	rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	c->id = NULL;
}

static void serve_event(struct rdma_cm_event *e)
{
	struct rdma_conn_param take = { .responder_resources = 1, .rnr_retry_count = 7 };
	struct place place = { .address = (uintptr_t)region };
	enum rdma_cm_event_type kind = e->event;
	struct rdma_cm_id *id = e->id;

	rdma_ack_cm_event(e);
	switch (kind) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		take.private_data = &place;
		take.private_data_len = sizeof(place);
		if (conn_new(id))
			place.key = region_mr->rkey;
		if (!place.key || rdma_accept(id, &take) != 0)
			rdma_destroy_id(id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (id->context)
			conn_end(id->context);
		break;
	default:
		break;
	}
}

static int serve_completions(void)
{
	struct ibv_wc wc;
	int count = 0;

	while (cq && ibv_poll_cq(cq, 1, &wc) > 0) {
		struct conn *c = (struct conn *)(uintptr_t)wc.wr_id;

		count++;
		if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV || !c->id)
			continue;
		memcpy(c->out, c->in, BYTES);
		(void)rdma_post_recv(c->id, c, c->in, BYTES, c->mr);
		(void)rdma_post_send(c->id, c, c->out, BYTES, c->mr, IBV_SEND_SIGNALED);
	}
	return count;
}

static void serve(struct sockaddr *at)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	must(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	must(rdma_bind_addr(id, at) == 0 && rdma_listen(id, 128) == 0, "rdma_listen");
	memset(region, FILL, sizeof(region));
	printf("listening\n");
	fflush(stdout);
	for (;;) {
		struct pollfd ready[] = { { .fd = events->fd, .events = POLLIN },
					  { .fd = completions ? completions->fd : -1,
					    .events = POLLIN } };

		must(poll(ready, 2, -1) >= 0, "poll");
		if (ready[0].revents && rdma_get_cm_event(events, &e) == 0)
			serve_event(e);
		if (ready[1].revents) {
			struct ibv_cq *which;
			void *context;

			must(ibv_get_cq_event(completions, &which, &context) == 0, "cq event");
			ibv_ack_cq_events(which, 1);
			must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		}
		while (serve_completions() > 0) {
		}
	}
}

/* Its private data goes to said, unless that is NULL. */
static void expect_event(enum rdma_cm_event_type kind, struct place *said)
{
	struct rdma_cm_event *e;

	must(rdma_get_cm_event(events, &e) == 0, "rdma_get_cm_event");
	if (e->event != kind) {
		fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
		exit(2);
	}
	if (said && e->param.conn.private_data_len >= sizeof(*said))
		memcpy(said, e->param.conn.private_data, sizeof(*said));
	rdma_ack_cm_event(e);
}

static void await(int completions_wanted)
{
	struct ibv_wc wc = { 0 };
	int count = 0;

	while (count < completions_wanted) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n > 0 && wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
			exit(3);
		}
		count += n > 0;
		if (n == 0)
			usleep(100);
	}
}

static void ping_once(struct conn *c, int i)
{
	memset(c->out, i, BYTES);
	must(rdma_post_send(c->id, c, c->out, BYTES, c->mr, IBV_SEND_SIGNALED) == 0, "send");
	await(2); /* the send and the echo */
	must(memcmp(c->in, c->out, BYTES) == 0, "echo");
	must(rdma_post_recv(c->id, c, c->in, BYTES, c->mr) == 0, "rdma_post_recv");
}

static void read_once(struct conn *c, const struct place *from)
{
	region[0] = region[REGION - 1] = 0;
	must(rdma_post_read(c->id, c, region, REGION, region_mr, IBV_SEND_SIGNALED, from->address,
			    from->key) == 0,
	     "read");
	await(1);
	must(region[0] == FILL && region[REGION - 1] == FILL, "what was read");
}

static void ping(struct sockaddr *to, long pings, int is_read)
{
	struct rdma_conn_param ask = { .responder_resources = 1,
				       .initiator_depth = 1,
				       .retry_count = 7,
				       .rnr_retry_count = 7 };
	struct place from = { 0 };
	struct rdma_cm_id *id;
	struct conn *c;

	must(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	must(rdma_resolve_addr(id, NULL, to, 2000) == 0, "rdma_resolve_addr");
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	c = conn_new(id);
	must(c && rdma_connect(id, &ask) == 0, "rdma_connect");
	expect_event(RDMA_CM_EVENT_ESTABLISHED, &from);
	for (long i = 0; pings == 0 || i < pings; i++) {
		if (is_read)
			read_once(c, &from);
		else
			ping_once(c, (int)i);
		printf("%ld\n", i);
		fflush(stdout);
	}
	rdma_disconnect(id);
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
				       .ai_flags = argc == 2 ? RAI_PASSIVE : 0 };
	struct rdma_addrinfo *found = NULL;

	must(argc >= 2 && rdma_getaddrinfo(argv[1], "7471", &hints, &found) == 0, "address");
	events = rdma_create_event_channel();
	must(events != NULL, "rdma_create_event_channel");
	if (argc == 2)
		serve(found->ai_src_addr);
	ping(found->ai_dst_addr, atol(argv[2]), argc > 3);
	return 0;
}
