/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The guest's end of the interoperation tests: verbs of the Linux kernel, by its own libraries. The
 * other end is tests/interop/siw_peer.c, whose words and whose memory are the same.
 *
 *	verbs listen ADDR PORT [OPTION...]
 *	verbs dial ADDR PORT [OPTION...] OP[:BYTES]...
 *
 * See siw_peer.c for operations and what is printed. Options: --recvs N, --recv-bytes N,
 * --private N, --reject.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = (1 << 20) + 64, /* bytes */
	REGION = 2 * MESSAGE_MAX,     /* first half: written by the peer; second: read by it */
	RECVS_MAX = 16,
	QUEUE = 64,
	ADVERT = 16, /* address, rkey, length: big-endian */
	WAIT_S = 10,
	WRONG = 0x00a5a500, /* makes another key of a good one */
};

static struct options {
	int recvs, recv_bytes, private_bytes;
	bool is_rejecting;
} options = { .recvs = RECVS_MAX, .recv_bytes = MESSAGE_MAX, .private_bytes = 16 };

static struct rdma_cm_id *id;
static struct ibv_mr *region_mr, *local_mr, *recv_mr;
static uint8_t *region, *local, *recvs;
static struct {
	uint64_t addr;
	uint32_t rkey, length;
} theirs;
static bool is_bad; /* something was not as it should be */

static void die(const char *what)
{
	printf("failed %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t pattern(uint32_t bytes, uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + bytes);
}

static void fill(uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = pattern(bytes, i);
}

static const char *judge(const uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != pattern(bytes, i)) {
			is_bad = true;
			return "bad";
		}
	}
	return "good";
}

static void memory_make(void)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	region = aligned_alloc(4096, REGION);
	local = aligned_alloc(4096, MESSAGE_MAX);
	recvs = aligned_alloc(4096, (size_t)RECVS_MAX * MESSAGE_MAX);
	memset(region, 0, MESSAGE_MAX);
	for (uint32_t i = 0; i < MESSAGE_MAX; i++)
		region[MESSAGE_MAX + i] = pattern(0, i);
	region_mr = ibv_reg_mr(id->pd, region, REGION, all);
	/* iWARP: the sink of a Read is written by the peer. */
	local_mr = ibv_reg_mr(id->pd, local, MESSAGE_MAX, all);
	recv_mr = ibv_reg_mr(id->pd, recvs, (size_t)RECVS_MAX * MESSAGE_MAX,
			     IBV_ACCESS_LOCAL_WRITE);
	if (!region_mr || !local_mr || !recv_mr)
		die("register");
}

static void recv_post(uintptr_t slot)
{
	if (rdma_post_recv(id, (void *)slot, recvs + slot * MESSAGE_MAX, (size_t)options.recv_bytes,
			   recv_mr))
		die("post receive");
}

static void advert_put(uint8_t bytes[ADVERT])
{
	uint64_t addr = htobe64((uintptr_t)region);
	uint32_t rkey = htobe32(region_mr->rkey), length = htobe32(REGION);

	memcpy(bytes, &addr, 8);
	memcpy(bytes + 8, &rkey, 4);
	memcpy(bytes + 12, &length, 4);
}

static void advert_get(const uint8_t *bytes)
{
	memcpy(&theirs.addr, bytes, 8);
	memcpy(&theirs.rkey, bytes + 8, 4);
	memcpy(&theirs.length, bytes + 12, 4);
	theirs.addr = be64toh(theirs.addr);
	theirs.rkey = be32toh(theirs.rkey);
	theirs.length = be32toh(theirs.length);
}

/* Private data is an advertisement (from the listening side), then a pattern. */
static void private_print(const struct rdma_conn_param *c, uint32_t skip)
{
	const uint8_t *at = c->private_data;
	uint32_t bytes = c->private_data_len;
	bool has_advert = skip == 0 || bytes >= skip;

	printf("private %u %s\n", bytes,
	       has_advert && at ? judge(at + skip, bytes - skip) : "none");
}

static void connection_event(bool *has_ended)
{
	struct pollfd p = { id->channel->fd, POLLIN, 0 };
	struct rdma_cm_event *event;

	if (poll(&p, 1, 1) <= 0 || rdma_get_cm_event(id->channel, &event))
		return;
	printf("event %s\n", rdma_event_str(event->event));
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		*has_ended = true;
	rdma_ack_cm_event(event);
}

/* ---- The listening side --------------------------------------------------------------------- */

static void written_check(uint32_t bytes)
{
	uint32_t at = bytes & 63;

	printf("written %u %s\n", bytes, judge(region + at, bytes));
	memset(region + at, 0, bytes);
	for (uint32_t i = 0; i < MESSAGE_MAX; i++) {
		if (region[i] != 0) {
			printf("written beyond, at %u\n", i);
			is_bad = true;
			return;
		}
	}
}

/* An answer that is not waited for: it is in order with everything else. */
static void verdict_send(void)
{
	const char *word = is_bad ? "bad" : "good";
	struct ibv_sge sge = { (uintptr_t)word, (uint32_t)strlen(word), 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};
	struct ibv_send_wr *refused;

	errno = ibv_post_send(id->qp, &wr, &refused);
	if (errno)
		die("post verdict");
}

static void received(const struct ibv_wc *wc)
{
	const uint8_t *at = recvs + wc->wr_id * MESSAGE_MAX;
	unsigned int bytes;
	char text[32];

	if (wc->status != IBV_WC_SUCCESS) {
		printf("received failed: %s\n", ibv_wc_status_str(wc->status));
		return;
	}
	memcpy(text, at, sizeof(text));
	text[sizeof(text) - 1] = 0;
	if (sscanf(text, "check:%u.", &bytes) == 1) {
		written_check(bytes);
		verdict_send();
	} else {
		printf("received %u %s%s\n", wc->byte_len, judge(at, wc->byte_len),
		       wc->wc_flags & IBV_WC_WITH_INV ? " invalidated" : "");
	}
	recv_post(wc->wr_id);
}

static void serve_events(void)
{
	bool has_ended = false;
	struct ibv_wc wc;

	for (;;) {
		int got = ibv_poll_cq(id->recv_cq, 1, &wc);

		if (got < 0)
			die("poll");
		if (got > 0 && wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		if (got > 0)
			received(&wc);
		else if (has_ended)
			return;
		else
			connection_event(&has_ended);
	}
}

static struct ibv_qp_init_attr qp_wishes(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = QUEUE,
			 .max_recv_wr = QUEUE,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 16 },
		.qp_type = IBV_QPT_RC,
	};
}

static int serve(const char *host, const char *port)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr wishes = qp_wishes();
	struct rdma_cm_id *listener;
	const struct rdma_conn_param *c;
	struct rdma_conn_param answer;
	uint8_t words[256];

	if (rdma_getaddrinfo(host, port, &hints, &at) ||
	    rdma_create_ep(&listener, at, NULL, &wishes) || rdma_listen(listener, 4))
		die("listen");
	printf("listening\n");
	if (rdma_get_request(listener, &id))
		die("request");
	c = &id->event->param.conn;
	private_print(c, 0);
	memory_make();
	advert_put(words);
	fill(words + ADVERT, (uint32_t)options.private_bytes - ADVERT);
	if (options.is_rejecting) {
		if (rdma_reject(id, words, (uint8_t)options.private_bytes))
			die("reject");
		printf("rejected\n");
		return 0;
	}
	for (int i = 0; i < options.recvs; i++)
		recv_post((uintptr_t)i);
	answer = (struct rdma_conn_param){
		.private_data = words,
		.private_data_len = (uint8_t)options.private_bytes,
		.responder_resources = c->responder_resources,
		.initiator_depth = c->initiator_depth,
	};
	if (rdma_accept(id, &answer))
		die("accept");
	printf("connected\n");
	serve_events();
	printf("end\n");
	return is_bad;
}

/* ---- The dialling side ---------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Fills a request in by an operation's name; false: there is none of that name. */
static bool request_make(const char *op, uint32_t bytes, struct ibv_send_wr *wr)
{
	bool has_prefix = starts(op, "bad") || starts(op, "oob") || starts(op, "raw");
	const char *kind = has_prefix ? op + 3 : op;
	uint32_t wrong = starts(op, "bad") ? WRONG : 0;

	wr->wr.rdma.rkey = theirs.rkey ^ wrong;
	wr->wr.rdma.remote_addr = theirs.addr + (bytes & 63);
	if (strcmp(kind, "write") == 0) {
		wr->opcode = IBV_WR_RDMA_WRITE;
	} else if (strcmp(kind, "read") == 0) {
		wr->opcode = IBV_WR_RDMA_READ;
		wr->wr.rdma.remote_addr = theirs.addr + MESSAGE_MAX;
	} else if (strcmp(kind, "send") == 0) {
		wr->opcode = IBV_WR_SEND;
	} else if (strcmp(kind, "inv") == 0 || strcmp(kind, "sendinv") == 0) {
		wr->opcode = IBV_WR_SEND_WITH_INV;
		wr->invalidate_rkey = theirs.rkey ^ wrong;
	} else {
		return false;
	}
	if (starts(op, "oob"))
		wr->wr.rdma.remote_addr = theirs.addr + theirs.length - bytes / 2;
	return true;
}

/* The verdict on a request; NULL: none came. */
static const char *request_do(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *refused;
	time_t end = time(NULL) + WAIT_S;
	struct ibv_wc wc;
	int got = 0;

	errno = ibv_post_send(id->qp, wr, &refused);
	if (errno)
		return "not posted";
	while (got == 0 && time(NULL) < end)
		got = ibv_poll_cq(id->send_cq, 1, &wc);
	if (got <= 0)
		return NULL;
	return wc.status == IBV_WC_SUCCESS ? "success" : ibv_wc_status_str(wc.status);
}

/* Says to the peer how much was written, for it to look. */
static const char *written_tell(uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)local, 0, local_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	time_t end = time(NULL) + WAIT_S;
	struct ibv_wc wc = { 0 };
	const char *verdict;
	int got = 0;

	sge.length = (uint32_t)snprintf((char *)local, 32, "check:%u.", bytes) + 1;
	verdict = request_do(&wr);
	if (!verdict || strcmp(verdict, "success") != 0)
		return verdict;
	while (got == 0 && time(NULL) < end)
		got = ibv_poll_cq(id->recv_cq, 1, &wc);
	if (got <= 0 || wc.status != IBV_WC_SUCCESS || wc.byte_len != 4) {
		printf("the other end says bad\n");
		is_bad = true;
	}
	recv_post(wc.wr_id);
	return verdict;
}

static void end_await(void)
{
	time_t end = time(NULL) + WAIT_S;
	bool has_ended = false;

	while (!has_ended && time(NULL) < end)
		connection_event(&has_ended);
	if (!has_ended) {
		printf("no end came\n");
		is_bad = true;
	}
}

/* False: the connection has ended, as it may with some operations. */
static bool operation(char *op)
{
	char *colon = strchr(op, ':');
	uint32_t bytes = colon ? (uint32_t)atol(colon + 1) : 64, at;
	struct ibv_sge sge = { .length = bytes, .lkey = local_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = bytes > 0,
				  .send_flags = IBV_SEND_SIGNALED };
	const char *verdict;

	if (colon)
		*colon = 0;
	if (strcmp(op, "end") == 0) {
		end_await();
		return false;
	}
	at = bytes & 31;
	sge.addr = (uintptr_t)local + at;
	if (!request_make(op, bytes, &wr)) {
		printf("no operation %s\n", op);
		is_bad = true;
		return false;
	}
	if (wr.opcode == IBV_WR_RDMA_READ)
		memset(local, 0xee, MESSAGE_MAX);
	else
		fill(local + at, bytes);
	verdict = request_do(&wr);
	if (verdict && strcmp(verdict, "success") == 0 && strcmp(op, "write") == 0)
		verdict = written_tell(bytes);
	printf("%s %u %s", op, bytes, verdict ? verdict : "no completion");
	for (uint32_t i = 0; strcmp(op, "read") == 0 && i < bytes; i++) {
		if (local[at + i] != pattern(0, i)) {
			printf(" bad at %u", i);
			is_bad = true;
			break;
		}
	}
	printf("\n");
	if (verdict && strcmp(verdict, "success") == 0)
		return true;
	end_await();
	return false;
}

static int dial(const char *host, const char *port, int count, char **ops)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr wishes = qp_wishes();
	struct rdma_conn_param wish = { .private_data_len = (uint8_t)options.private_bytes,
					.responder_resources = 4,
					.initiator_depth = 4 };
	const struct rdma_conn_param *c;
	uint8_t words[256];

	if (rdma_getaddrinfo(host, port, &hints, &at) || rdma_create_ep(&id, at, NULL, &wishes))
		die("resolve");
	memory_make();
	for (int i = 0; i < options.recvs; i++)
		recv_post((uintptr_t)i);
	fill(words, (uint32_t)options.private_bytes);
	wish.private_data = words;
	if (rdma_connect(id, &wish)) {
		printf("not connected: %s\n", strerror(errno));
		if (id->event && id->event->param.conn.private_data_len > 0)
			private_print(&id->event->param.conn, ADVERT);
		return 0;
	}
	c = &id->event->param.conn;
	printf("connected ird %u ord %u\n", c->responder_resources, c->initiator_depth);
	private_print(c, ADVERT);
	if (c->private_data_len >= ADVERT)
		advert_get(c->private_data);
	while (count > 0 && operation(*ops)) {
		count--;
		ops++;
	}
	if (count == 0)
		rdma_disconnect(id);
	printf("end\n");
	return is_bad;
}

int main(int argc, char **argv)
{
	int i = 4;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; i < argc && starts(argv[i], "--"); i++) {
		if (strcmp(argv[i], "--reject") == 0)
			options.is_rejecting = true;
		else if (strcmp(argv[i], "--recvs") == 0 && i + 1 < argc)
			options.recvs = atoi(argv[++i]);
		else if (strcmp(argv[i], "--recv-bytes") == 0 && i + 1 < argc)
			options.recv_bytes = atoi(argv[++i]);
		else if (strcmp(argv[i], "--private") == 0 && i + 1 < argc)
			options.private_bytes = atoi(argv[++i]);
		else
			return 2;
	}
	if (argc >= 4 && strcmp(argv[1], "listen") == 0)
		return serve(argv[2], argv[3]);
	if (argc >= 4 && strcmp(argv[1], "dial") == 0)
		return dial(argv[2], argv[3], argc - i, argv + i);
	fprintf(stderr, "usage: verbs listen|dial ADDR PORT [OPTION...] [OP...]\n");
	return 2;
}
