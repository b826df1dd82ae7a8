/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four nodes with three processes each, and every process talks with every process of the other
 * nodes: by reliable datagrams, and by connections. Says what each takes.
 *
 *	$ rd_all_to_all
 *	reliable datagrams: 108 messages, a node has 3 queue pairs and 3 end-to-end contexts
 *	connections:        108 messages, a node has 27 queue pairs and 0 end-to-end contexts
 *
 * Here a node is a process of this host, with an adapter; its processes are no more than a queue
 * pair each. How nodes learn each other's numbers is their own affair: here, by shared memory.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/roce.h>

enum {
	N = 4,
	M = 3,
	PAIRS = M * M,		    /* of processes of two nodes */
	MESSAGES = PAIRS * (N - 1), /* of a node, each way */
	KEY = 0x1234,
	RETRIES = 7,
	TIMEOUT = 17, /* half a second */
	RNR_TIMER = 10
};

struct word {
	uint32_t node, process, qp;
};

struct node {
	uint32_t self;
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qps[MESSAGES];
	struct weft_ee *ees[N];
	struct word in[MESSAGES], out[MESSAGES];
	uint32_t tag;
};

/* What all nodes know. */
static struct table {
	atomic_uint met;
	struct {
		uint32_t qps[MESSAGES], ees[N];
		uint32_t qp_count, ee_count; /* in use, as the adapter says */
		uint32_t arrived;
	} nodes[N];
} * table;

static struct node node;

static const struct weft_path path = {
	.from = { .family = 4, .ip = { 127, 0, 0, 1 } },
	.to = { .family = 4, .ip = { 127, 0, 0, 1 } },
	.mtu_bytes = 1024,
};

/* Every call says why it was refused. */
static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

/* All processes come as far as this before one goes on. */
static void meet(uint32_t times)
{
	atomic_fetch_add(&table->met, 1);
	while (atomic_load(&table->met) < times * N)
		usleep(1000);
}

/* Which of the other nodes it is. */
static uint32_t rank(uint32_t self, uint32_t other)
{
	return other - (other > self);
}

static void node_open(uint32_t self)
{
	const struct weft_region_options region = {
		.addr = (uintptr_t)&node,
		.length = sizeof(node),
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	};

	node.self = self;
	must(weft_adapter_open(NULL, &node.adapter), "open an adapter");
	must(weft_roce_open(node.adapter), "open RoCE's port");
	must(weft_pd_create(node.adapter, NULL, &node.pd), "make a protection domain");
	must(weft_region_register(node.pd, &region, &node.tag), "register memory");
	must(weft_cq_create(node.adapter, NULL, &node.cq), "make a completion queue");
}

static void qp_open(uint32_t i, enum weft_qp_service service)
{
	const struct weft_qp_options options = {
		.service = service,
		.send_cq = node.cq,
		.recv_cq = node.cq,
	};

	must(weft_qp_create(node.pd, &options, &node.qps[i]), "make a queue pair");
	table->nodes[node.self].qps[i] = weft_qp_number(node.qps[i]);
}

/* Of RD: the peers are what requests and contexts name. Of RC: it is said here. */
static void qp_start(uint32_t i, uint32_t peer_number)
{
	const struct weft_roce_attr how = {
		.path = path,
		.peer_number = peer_number,
		.q_key = KEY,
		.rnr_timer_code = RNR_TIMER,
		.timeout_code = TIMEOUT,
		.retries = RETRIES,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};

	must(weft_qp_to_rtr(node.qps[i], &how), "take a queue pair to RTR");
	must(weft_qp_to_rts(node.qps[i], &how), "take a queue pair to RTS");
}

static void receive(uint32_t qp, uint32_t slot)
{
	const struct weft_sge s = { (uintptr_t)&node.in[slot], sizeof(struct word), node.tag };
	const struct weft_recv_wr wr = { .id = slot, .sges = &s, .sge_count = 1 };

	must(weft_qp_post_recv(node.qps[qp], &wr, 1, NULL), "post a receive");
}

/* From process i here to process k there. A connection's request needs no destination. */
static void send(uint32_t qp, uint32_t to, uint32_t i, uint32_t k)
{
	uint32_t slot = rank(node.self, to) * PAIRS + i * M + k;
	const struct weft_sge s = { (uintptr_t)&node.out[slot], sizeof(struct word), node.tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED,
		.sges = &s,
		.sge_count = 1,
		.ee = node.ees[to],
		.dest_qp_number = node.ees[to] ? table->nodes[to].qps[k] : 0,
		.remote_q_key = KEY,
	};

	node.out[slot] = (struct word){ node.self, i, weft_qp_number(node.qps[qp]) };
	must(weft_qp_post_send(node.qps[qp], &wr, 1, NULL), "post a Send");
}

/* Each message is here once, and is what its sender, whom the completion names, has said. */
static void await_all(void)
{
	uint32_t seen[N][M] = { { 0 } };

	for (uint32_t left = 2 * MESSAGES; left > 0;) {
		struct weft_completion c;
		const struct word *w;
		uint32_t count;

		must(weft_cq_poll(node.cq, &c, 1, &count), "poll");
		if (count == 0)
			continue;
		left--;
		must(c.reason, "a request");
		if (c.opcode != WEFT_OP_RECV)
			continue;
		w = &node.in[c.id];
		if (w->node < N && w->process < M && w->qp == c.src_qp_number &&
		    seen[w->node][w->process]++ < M)
			table->nodes[node.self].arrived++;
	}
}

static void by_datagrams(void)
{
	const struct weft_ee_options options = {
		.path = path,
		.timeout_code = TIMEOUT,
		.retries = RETRIES,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};

	for (uint32_t i = 0; i < M; i++) {
		qp_open(i, WEFT_RD);
		qp_start(i, 0);
	}
	for (uint32_t to = 0; to < N; to++) {
		if (to == node.self)
			continue;
		must(weft_ee_create(node.adapter, &options, &node.ees[to]), "make a context");
		table->nodes[node.self].ees[to] = weft_ee_number(node.ees[to]);
	}
	meet(1);
	for (uint32_t to = 0; to < N; to++) {
		if (to != node.self)
			must(weft_ee_connect(node.ees[to], table->nodes[to].ees[node.self], 0),
			     "connect a context");
	}
	for (uint32_t slot = 0; slot < MESSAGES; slot++)
		receive(slot % M, slot);
	meet(2);
	for (uint32_t to = 0; to < N; to++) {
		for (uint32_t p = 0; p < PAIRS && to != node.self; p++)
			send(p / M, to, p / M, p % M);
	}
}

static void by_connections(void)
{
	for (uint32_t i = 0; i < MESSAGES; i++)
		qp_open(i, WEFT_RC);
	meet(1);
	for (uint32_t to = 0; to < N; to++) {
		for (uint32_t p = 0; p < PAIRS && to != node.self; p++) {
			uint32_t ours = rank(node.self, to) * PAIRS + p;
			uint32_t theirs = rank(to, node.self) * PAIRS + p % M * M + p / M;

			qp_start(ours, table->nodes[to].qps[theirs]);
			receive(ours, ours);
		}
	}
	meet(2);
	for (uint32_t to = 0; to < N; to++) {
		for (uint32_t p = 0; p < PAIRS && to != node.self; p++)
			send(rank(node.self, to) * PAIRS + p, to, p / M, p % M);
	}
}

static void node_run(uint32_t self, void (*talk)(void))
{
	struct weft_usage usage;

	alarm(60); /* whatever the others do, or do not */
	node_open(self);
	talk();
	await_all();
	must(weft_adapter_query(node.adapter, &usage), "ask the adapter");
	table->nodes[self].qp_count = usage.qps;
	table->nodes[self].ee_count = usage.ees;
	meet(3); /* who has got everything may be waited for by another */
}

static bool run(const char *name, void (*talk)(void))
{
	uint32_t arrived = 0;
	bool is_good = true;
	int status;

	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (table == MAP_FAILED)
		return false;
	for (uint32_t i = 0; i < N; i++) {
		if (fork() == 0) {
			node_run(i, talk);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		is_good = is_good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	for (uint32_t i = 0; i < N; i++)
		arrived += table->nodes[i].arrived;
	printf("%-19s %u messages, a node has %u queue pairs and %u end-to-end contexts\n", name,
	       arrived, table->nodes[0].qp_count, table->nodes[0].ee_count);
	return is_good && arrived == N * MESSAGES;
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0); /* children have no copy to print */
	return run("reliable datagrams:", by_datagrams) && run("connections:", by_connections) ? 0
											       : 1;
}
