/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of the interoperation tests over RoCE that go without a connection manager: the queue
 * pairs are told of each other over TCP. In the guest it runs on the kernel's rxe, on this machine
 * on weft's libibverbs.
 *
 *	pair listen ADDR PORT DEVICE GID_INDEX [OPTION...]
 *	pair dial ADDR PORT DEVICE GID_INDEX [OPTION...] OP[:BYTES]...
 *
 * The dialling side acts. After each operation that went well it asks the other end, over TCP,
 * whether that found the right bytes at the right place and nothing beyond. Operations:
 *
 *	send sendimm write writeimm read   one message
 *	writes reads sends                 MANY at a time, one signaled
 *	fadd cswap                         atomics, one after the other on the same word
 *	late                               a Send whose receive is posted too late
 *	badwrite badread oobwrite oobread badatomic oddatomic
 *	norecv                             a Send for which no receive is posted
 *
 * Options: --mtu BYTES, --depth N (Reads and atomics at a time), --uc. Payload is a pattern that
 * depends on length and number. Status 1 if something was not as it should be.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = (1 << 20) + 64,
	MANY = 12,
	REGION = 2 * MESSAGE_MAX,
	WORD = REGION - 64, /* the atomics' */
	QUEUE = 64,
	WAIT_S = 25,
	LATE_US = 100000,
	IMMEDIATE = 0x12345678,
	WRONG = 0x00a5a500,
};

static struct {
	int mtu, depth;
	bool is_uc;
} options = { .mtu = 1024, .depth = 4 };

struct qp_address {
	char gid[33];
	uint32_t qpn, psn, rkey;
	uint64_t addr;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *qp;
static struct ibv_mr *region_mr, *local_mr;
static uint8_t *region, *local;
static struct qp_address ours, theirs;
static FILE *to, *from; /* the other end, over TCP */
static uint64_t word_expected;
static bool is_bad;

static void die(const char *what)
{
	printf("failed %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t pattern(uint32_t bytes, uint32_t i, uint32_t number)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + bytes + number * 31);
}

static void fill(uint8_t *at, uint32_t bytes, uint32_t number)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = pattern(bytes, i, number);
}

static bool is_right(const uint8_t *at, uint32_t bytes, uint32_t number)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != pattern(bytes, i, number)) {
			printf("bad at %u of %u, message %u\n", i, bytes, number);
			return false;
		}
	}
	return true;
}

static bool is_zero(const uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != 0) {
			printf("written beyond, at %u\n", i);
			return false;
		}
	}
	return true;
}

/* ---- Verbs ---------------------------------------------------------------------------------- */

static void device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	}
	if (!context)
		die("open the device");
}

static void objects_make(int gid_index)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr wish = { .cap = { .max_send_wr = QUEUE,
						  .max_recv_wr = QUEUE,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = options.is_uc ? IBV_QPT_UC : IBV_QPT_RC };
	union ibv_gid gid;

	region = aligned_alloc(4096, REGION);
	local = aligned_alloc(4096, REGION);
	memset(region, 0, REGION);
	memset(local, 0, REGION);
	pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, QUEUE, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, QUEUE, NULL, NULL, 0);
	region_mr = ibv_reg_mr(pd, region, REGION, all);
	local_mr = ibv_reg_mr(pd, local, REGION, IBV_ACCESS_LOCAL_WRITE);
	wish.send_cq = send_cq;
	wish.recv_cq = recv_cq;
	qp = ibv_create_qp(pd, &wish);
	if (!region_mr || !local_mr || !qp || ibv_query_gid(context, 1, gid_index, &gid))
		die("make objects");
	for (int i = 0; i < 16; i++)
		sprintf(ours.gid + 2 * i, "%02x", gid.raw[i]);
	ours.qpn = qp->qp_num;
	ours.psn = 0xfffff0; /* it wraps soon */
	ours.rkey = region_mr->rkey;
	ours.addr = (uintptr_t)region;
}

static enum ibv_mtu mtu_of(int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	for (; bytes > 256; bytes /= 2)
		mtu++;
	return mtu;
}

static void move_to_rtr(int gid_index)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = mtu_of(options.mtu),
				 .dest_qp_num = theirs.qpn,
				 .rq_psn = theirs.psn,
				 .max_dest_rd_atomic = (uint8_t)options.depth,
				 .min_rnr_timer = 24,
				 .ah_attr = { .is_global = 1, .port_num = 1 } };

	a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	a.ah_attr.grh.hop_limit = 64;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		sscanf(theirs.gid + 2 * i, "%2x", &byte);
		a.ah_attr.grh.dgid.raw[i] = (uint8_t)byte;
	}
	if (!options.is_uc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	errno = ibv_modify_qp(qp, &a, mask);
	if (errno)
		die("move to RTR");
}

static void qp_connect(int gid_index)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_ATOMIC };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	errno = ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		die("move to INIT");
	move_to_rtr(gid_index);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .sq_psn = ours.psn,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 6,
				  .max_rd_atomic = (uint8_t)options.depth };
	if (!options.is_uc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	errno = ibv_modify_qp(qp, &a, mask);
	if (errno)
		die("move to RTS");
}

static void recv_post(uint8_t *at, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)at, bytes, region_mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *refused;

	errno = ibv_post_recv(qp, &wr, &refused);
	if (errno)
		die("post a receive");
}

/* False: nothing came. */
static bool completion_await(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t end = time(NULL) + WAIT_S;
	int got = 0;

	while (got == 0 && time(NULL) < end)
		got = ibv_poll_cq(cq, 1, wc);
	return got > 0;
}

/* ---- The other way, TCP --------------------------------------------------------------------- */

static void say(const char *line)
{
	fprintf(to, "%s\n", line);
	fflush(to);
}

static bool hear(char *line, int size)
{
	if (!fgets(line, size, from))
		return false;
	line[strcspn(line, "\n")] = 0;
	return true;
}

static int socket_open(const char *host, const char *port, bool is_listener)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	int fd, on = 1;

	if (getaddrinfo(host, port, &hints, &at))
		die("resolve");
	fd = socket(at->ai_family, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!is_listener && connect(fd, at->ai_addr, at->ai_addrlen))
		die("connect");
	if (is_listener && (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 1)))
		die("listen");
	return fd;
}

static void wire_open(const char *host, const char *port, bool is_listener)
{
	int fd = socket_open(host, port, is_listener);

	if (is_listener) {
		printf("listening\n");
		fd = accept(fd, NULL, NULL);
	}
	to = fd < 0 ? NULL : fdopen(fd, "w");
	from = fd < 0 ? NULL : fdopen(dup(fd), "r");
	if (!to || !from)
		die("open the other way");
}

static void ends_exchange(void)
{
	char line[200];

	snprintf(line, sizeof(line), "%s %u %u %u %" PRIu64, ours.gid, ours.qpn, ours.psn,
		 ours.rkey, ours.addr);
	say(line);
	if (!hear(line, sizeof(line)) ||
	    sscanf(line, "%32s %u %u %u %" SCNu64, theirs.gid, &theirs.qpn, &theirs.psn,
		   &theirs.rkey, &theirs.addr) != 5)
		die("exchange");
}

/* ---- The listening side --------------------------------------------------------------------- */

static uint32_t place_of(uint32_t bytes)
{
	return bytes & 63;
}

static bool received_is_right(uint32_t bytes, uint32_t count, bool has_immediate)
{
	struct ibv_wc wc;

	for (uint32_t n = 0; n < count; n++) {
		if (!completion_await(recv_cq, &wc)) {
			printf("nothing received\n");
			return false;
		}
		if (wc.status != IBV_WC_SUCCESS || wc.byte_len != bytes) {
			printf("received %u: %s\n", wc.byte_len, ibv_wc_status_str(wc.status));
			return false;
		}
		if (has_immediate != !!(wc.wc_flags & IBV_WC_WITH_IMM) ||
		    (has_immediate && ntohl(wc.imm_data) != IMMEDIATE)) {
			printf("immediate data %x\n", ntohl(wc.imm_data));
			return false;
		}
	}
	return true;
}

static bool all_is_right(uint32_t bytes, uint32_t count, uint32_t stride)
{
	uint8_t *at = region + (count > 1 ? 0 : place_of(bytes));

	for (uint32_t n = 0; n < count; n++) {
		if (!is_right(at + n * stride, bytes, n))
			return false;
		memset(at + n * stride, 0, bytes);
	}
	return is_zero(region, WORD);
}

/* Makes ready for an operation of the other end, before it. */
static void ready(const char *op, uint32_t bytes)
{
	uint32_t count = strcmp(op, "sends") == 0 ? MANY : 1;

	if (strcmp(op, "read") == 0 || strcmp(op, "reads") == 0) {
		count = op[4] ? MANY : 1;
		for (uint32_t n = 0; n < count; n++)
			fill(region + n * bytes, bytes, n);
	} else if (strcmp(op, "late") == 0) {
		say("ready");
		usleep(LATE_US); /* this is what makes it late */
		recv_post(region + place_of(bytes), bytes);
		return;
	} else if (strcmp(op, "writeimm") == 0) {
		recv_post(region, 0);
	} else if (strncmp(op, "send", 4) == 0) {
		for (uint32_t n = 0; n < count; n++)
			recv_post(region + (count > 1 ? n * bytes : place_of(bytes)), bytes);
	}
	say("ready");
}

/* Looks at what an operation did, after it. */
static bool look(const char *op, uint32_t bytes)
{
	bool is_many = op[strlen(op) - 1] == 's', has_immediate = strstr(op, "imm");
	uint32_t count = is_many ? MANY : 1;

	if (strncmp(op, "read", 4) == 0) {
		memset(region, 0, count * bytes);
		return true;
	}
	if (strcmp(op, "fadd") == 0 || strcmp(op, "cswap") == 0) {
		word_expected = strcmp(op, "fadd") == 0 ? word_expected + 0x0102030405060708ULL
							: 0x1122334455667788ULL;
		if (*(uint64_t *)(region + WORD) == word_expected)
			return true;
		printf("word %" PRIx64 "\n", *(uint64_t *)(region + WORD));
		return false;
	}
	if ((strncmp(op, "send", 4) == 0 || strcmp(op, "late") == 0 || has_immediate) &&
	    !received_is_right(bytes, count, has_immediate))
		return false;
	return all_is_right(bytes, count, bytes);
}

static int serve(void)
{
	char line[100], op[32];
	uint32_t bytes;

	while (hear(line, sizeof(line)) && strcmp(line, "end") != 0) {
		if (sscanf(line, "ready %31s %u", op, &bytes) == 2) {
			ready(op, bytes);
		} else if (sscanf(line, "look %31s %u", op, &bytes) == 2) {
			bool is_good = look(op, bytes);

			printf("%s %u %s\n", op, bytes, is_good ? "good" : "bad");
			say(is_good ? "good" : "bad");
			is_bad |= !is_good;
		}
	}
	if (!is_zero(region, WORD))
		is_bad = true;
	printf("end\n");
	return is_bad;
}

/* ---- The dialling side ---------------------------------------------------------------------- */

static struct ibv_send_wr request_of(const char *op, uint32_t bytes, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = sge->length > 0 };

	wr.wr.rdma.rkey = theirs.rkey;
	wr.wr.rdma.remote_addr = theirs.addr + place_of(bytes);
	if (strncmp(op, "bad", 3) == 0)
		wr.wr.rdma.rkey ^= WRONG;
	if (strncmp(op, "oob", 3) == 0)
		wr.wr.rdma.remote_addr = theirs.addr + REGION - bytes / 2;
	if (strstr(op, "write"))
		wr.opcode = strstr(op, "imm") ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	else if (strstr(op, "read"))
		wr.opcode = IBV_WR_RDMA_READ;
	else
		wr.opcode = strstr(op, "imm") ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr.imm_data = htonl(IMMEDIATE);
	if (strcmp(op, "read") == 0)
		wr.wr.rdma.remote_addr = theirs.addr;
	return wr;
}

static const char *post_and_await(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *refused;
	struct ibv_wc wc;

	errno = ibv_post_send(qp, wr, &refused);
	if (errno)
		return "not posted";
	if (!completion_await(send_cq, &wc))
		return "no completion";
	return wc.status == IBV_WC_SUCCESS ? "success" : ibv_wc_status_str(wc.status);
}

static const char *atomic_do(const char *op)
{
	struct ibv_sge sge = { (uintptr_t)local, 8, local_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	uint64_t before = word_expected;
	const char *verdict;

	wr.wr.atomic.remote_addr = theirs.addr + WORD + (strcmp(op, "oddatomic") == 0 ? 4 : 0);
	wr.wr.atomic.rkey = theirs.rkey ^ (strcmp(op, "badatomic") == 0 ? WRONG : 0);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 0x0102030405060708ULL;
	if (strcmp(op, "cswap") == 0) {
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.compare_add = before;
		wr.wr.atomic.swap = 0x1122334455667788ULL;
	}
	verdict = post_and_await(&wr);
	if (strcmp(verdict, "success") != 0)
		return verdict;
	if (*(uint64_t *)local != before) {
		printf("fetched %" PRIx64 " and not %" PRIx64 "\n", *(uint64_t *)local, before);
		is_bad = true;
	}
	word_expected = strcmp(op, "cswap") == 0 ? wr.wr.atomic.swap
						 : before + wr.wr.atomic.compare_add;
	return verdict;
}

static const char *many_do(const char *op, uint32_t bytes)
{
	struct ibv_sge sge[MANY];
	struct ibv_send_wr wr[MANY];

	for (uint32_t n = 0; n < MANY; n++) {
		sge[n] = (struct ibv_sge){ (uintptr_t)local + n * bytes, bytes, local_mr->lkey };
		wr[n] = request_of(op, bytes, &sge[n]);
		wr[n].wr.rdma.remote_addr = theirs.addr + n * bytes;
		wr[n].next = n + 1 < MANY ? &wr[n + 1] : NULL;
		if (wr[n].opcode != IBV_WR_RDMA_READ)
			fill(local + n * bytes, bytes, n);
	}
	wr[MANY - 1].send_flags = IBV_SEND_SIGNALED;
	return post_and_await(wr);
}

static const char *one_do(const char *op, uint32_t bytes)
{
	uint8_t *at = local + (bytes & 31);
	struct ibv_sge sge = { (uintptr_t)at, bytes, local_mr->lkey };
	struct ibv_send_wr wr = request_of(op, bytes, &sge);

	wr.send_flags = IBV_SEND_SIGNALED;
	if (wr.opcode != IBV_WR_RDMA_READ)
		fill(at, bytes, 0);
	return post_and_await(&wr);
}

static bool is_atomic(const char *op)
{
	return strstr(op, "atomic") || strcmp(op, "fadd") == 0 || strcmp(op, "cswap") == 0;
}

/* False: the queue pair is of no more use. */
static bool operation(char *op)
{
	char *colon = strchr(op, ':'), line[100];
	uint32_t bytes = colon ? (uint32_t)atol(colon + 1) : 64, count;
	const char *verdict;
	bool is_many;

	if (colon)
		*colon = 0;
	is_many = op[strlen(op) - 1] == 's';
	count = is_many ? MANY : 1;
	memset(local, 0, MESSAGE_MAX);
	snprintf(line, sizeof(line), "ready %s %u", op, bytes);
	say(line);
	hear(line, sizeof(line));
	verdict = is_atomic(op) ? atomic_do(op) : is_many ? many_do(op, bytes) : one_do(op, bytes);
	printf("%s %u %s\n", op, bytes, verdict);
	if (strcmp(verdict, "success") != 0)
		return false;
	if (strncmp(op, "read", 4) == 0) {
		for (uint32_t n = 0; n < count; n++)
			is_bad |= !is_right(local + (is_many ? n * bytes : bytes & 31), bytes, n);
	}
	snprintf(line, sizeof(line), "look %s %u", op, bytes);
	say(line);
	if (!hear(line, sizeof(line)) || strcmp(line, "good") != 0) {
		printf("the other end says bad\n");
		is_bad = true;
	}
	return true;
}

int main(int argc, char **argv)
{
	bool is_listener = argc > 1 && strcmp(argv[1], "listen") == 0;
	int i = 6, gid_index;
	char word[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--uc") == 0)
			options.is_uc = true;
		else if (strcmp(argv[i], "--mtu") == 0 && i + 1 < argc)
			options.mtu = atoi(argv[++i]);
		else if (strcmp(argv[i], "--depth") == 0 && i + 1 < argc)
			options.depth = atoi(argv[++i]);
		else
			return 2;
	}
	if (argc < 6) {
		fprintf(stderr,
			"usage: pair listen|dial ADDR PORT DEVICE GID [OPTION...] [OP...]\n");
		return 2;
	}
	gid_index = atoi(argv[5]);
	device_open(argv[4]);
	objects_make(gid_index);
	wire_open(argv[2], argv[3], is_listener);
	ends_exchange();
	qp_connect(gid_index);
	say("connected");
	if (!hear(word, sizeof(word)))
		die("connect");
	printf("%s\n", word);
	if (is_listener)
		return serve();
	for (; i < argc && operation(argv[i]); i++)
		;
	say("end");
	printf("end\n");
	return is_bad;
}
