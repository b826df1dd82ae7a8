/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams on UDP between processes: all to all, and one that is killed. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/roce/rd_fixture.h"
#include "own_network.h"

enum {
	WORD = 3000, /* bytes of a message: three packets */
	INBOX = 0,   /* a place for each message that comes */
	OUTBOX = QPS_MAX * WORD,
	COUNTER = RD_BYTES - 8,
	PHASES = 4,
	PAIRS = PROCESSES * PROCESSES
};

/* What the processes share. */
static struct table {
	struct card cards[NODES];
	struct weft_usage usage[NODES];
	atomic_uint reached[PHASES];
	atomic_bool is_over;
	atomic_uint written; /* by the bystander */
} * table;

static pid_t children[NODES];

/* A barrier: no process continues before all have arrived. */
static void meet(uint32_t phase, uint32_t count)
{
	uint64_t since = rd_now_ns();

	atomic_fetch_add(&table->reached[phase], 1);
	while (atomic_load(&table->reached[phase]) < count) {
		REQUIRE(rd_now_ns() - since < PATIENCE_NS);
		usleep(200);
	}
}

static void child_start(int self, void (*run)(int self))
{
	children[self] = fork();
	REQUIRE(children[self] >= 0);
	if (children[self] != 0)
		return;
	harness_in_child();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(self);
	_exit(0);
}

static void child_end(int self)
{
	int status;

	REQUIRE(waitpid(children[self], &status, 0) == children[self]);
	children[self] = 0;
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

static void child_kill(int self)
{
	REQUIRE(kill(children[self], SIGKILL) == 0);
	REQUIRE(waitpid(children[self], NULL, 0) == children[self]);
	children[self] = 0;
}

/* What a test before this has left is ended. */
static bool world_open(void)
{
	const char *why_not = own_network_enter();

	for (int i = 0; i < NODES; i++) {
		if (children[i] > 0)
			child_kill(i);
	}
	if (why_not) {
		harness_skip(why_not);
		return false;
	}
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	REQUIRE(table != MAP_FAILED);
	return true;
}

static void world_close(void)
{
	munmap(table, sizeof(*table));
}

/* ---- All to all ----------------------------------------------------------------------------- */

/* Of the messages between two nodes: from process i of the one to process k of the other. */
struct route {
	int from, to;
	uint32_t i, k;
};

/* Which of the other nodes it is. */
static uint32_t rank(int self, int other)
{
	return (uint32_t)(other - (other > self));
}

static void word_of(struct route r, uint8_t word[WORD])
{
	uint32_t seed = ((uint32_t)r.from * NODES + (uint32_t)r.to) * PAIRS + r.i * PROCESSES + r.k;

	for (uint32_t n = 0; n < WORD; n++)
		word[n] = (uint8_t)(seed + n * 3 + (n >> 8));
	word[0] = (uint8_t)r.from;
	word[1] = (uint8_t)r.i;
}

/* Where the node keeps what it has to do with one other's. */
static uint32_t slot(int self, struct route r)
{
	int other = self == r.from ? r.to : r.from;

	return (rank(self, other) * PAIRS + r.i * PROCESSES + r.k) * WORD;
}

static void check_arrived(struct rd_node *n, const struct weft_completion *c, uint32_t seen[])
{
	const uint8_t *word = n->memory + INBOX + c->id * WORD;
	struct route r = { .from = word[0], .to = n->self, .i = word[1] };
	uint8_t expected[WORD];

	REQUIRE(c->byte_count == WORD && r.from < NODES && r.from != n->self && r.i < PROCESSES);
	while (r.k < PROCESSES && n->card.qps[r.k] != c->qp_number)
		r.k++;
	REQUIRE(r.k < PROCESSES);
	EXPECT_EQ(c->src_qp_number, table->cards[r.from].qps[r.i]);
	word_of(r, expected);
	EXPECT_MEM(word, expected, WORD);
	seen[rank(n->self, r.from) * PAIRS + r.i * PROCESSES + r.k]++;
}

static void post_all(struct rd_node *n, enum weft_opcode opcode, uint32_t there)
{
	bool is_atomic = opcode == WEFT_OP_FETCH_ADD;

	for (int to = 0; to < NODES; to++) {
		for (uint32_t p = 0; p < PAIRS && to != n->self; p++) {
			struct route r = { n->self, to, p / PROCESSES, p % PROCESSES };
			uint32_t at = OUTBOX + slot(n->self, r);
			struct rd_word word = {
				.dest = table->cards[to].qps[r.k],
				.opcode = opcode,
				.at = is_atomic ? RD_BYTES - 16 : at,
				.there = there,
				.length = is_atomic ? 8 : WORD,
				.compare_add = 1,
			};

			if (opcode == WEFT_OP_SEND)
				word_of(r, n->memory + at);
			if (opcode == WEFT_OP_WRITE || opcode == WEFT_OP_READ)
				word.there += slot(to, r);
			MUST(rd_post(n, r.i, to, &table->cards[to], &word));
		}
	}
}

static void await_all(struct rd_node *n, uint32_t sent, uint32_t received)
{
	uint32_t seen[QPS_MAX] = { 0 };

	while (sent + received > 0) {
		struct weft_completion c = rd_take(n);

		REQUIRE(c.status == WEFT_SUCCESS);
		if (c.opcode == WEFT_OP_RECV) {
			check_arrived(n, &c, seen);
			received--;
		} else {
			sent--;
		}
	}
	for (uint32_t i = 0; i < QPS_MAX; i++)
		REQUIRE(seen[i] <= 1);
}

/* Sends; then Writes to where they had arrived, reads these back, and counts. */
static void exchange(struct rd_node *n)
{
	uint8_t expected[WORD];
	uint64_t counted;

	for (uint32_t i = 0; i < QPS_MAX; i++)
		rd_receive(n, n->qps[i % PROCESSES], i, INBOX + i * WORD, WORD);
	post_all(n, WEFT_OP_SEND, 0);
	await_all(n, QPS_MAX, QPS_MAX);
	meet(2, NODES);
	memset(n->memory + INBOX, 0, QPS_MAX * WORD);
	rd_look(n);
	meet(3, NODES);
	post_all(n, WEFT_OP_WRITE, INBOX);
	post_all(n, WEFT_OP_FETCH_ADD, COUNTER);
	await_all(n, 2 * QPS_MAX, 0);
	memset(n->memory + OUTBOX, 0, QPS_MAX * WORD);
	post_all(n, WEFT_OP_READ, INBOX);
	await_all(n, QPS_MAX, 0);
	for (int to = 0; to < NODES; to++) {
		for (uint32_t p = 0; p < PAIRS && to != n->self; p++) {
			struct route r = { n->self, to, p / PROCESSES, p % PROCESSES };

			word_of(r, expected);
			EXPECT_MEM(n->memory + OUTBOX + slot(n->self, r), expected, WORD);
		}
	}
	meet(0, 2 * NODES);
	rd_look(n);
	memcpy(&counted, n->memory + COUNTER, 8);
	EXPECT_EQ(counted, QPS_MAX);
}

static void node_by_datagrams(int self)
{
	static struct rd_node n;

	rd_node_open(&n, self);
	for (int i = 0; i < PROCESSES; i++)
		rd_qp_open(&n, RD_KEY, RD_DOMAIN);
	for (int to = 0; to < NODES; to++) {
		if (to != self)
			rd_ee_open(&n, to, TIMEOUT_LONG);
	}
	table->cards[self] = n.card;
	meet(0, NODES);
	for (int to = 0; to < NODES; to++) {
		if (to != self)
			rd_ee_join(&n, to, &table->cards[to]);
	}
	meet(1, NODES);
	MUST(weft_adapter_query(n.adapter, &table->usage[self]));
	exchange(&n);
	meet(1, 2 * NODES); /* the others may be reading still */
	rd_node_close(&n);
}

static void all_to_all(void (*run)(int self))
{
	for (int i = 0; i < NODES; i++)
		child_start(i, run);
	for (int i = 0; i < NODES; i++)
		child_end(i);
}

TEST(test_trn_s1_rd_03_all_to_all_of_processes_takes_3_and_3_contexts)
{
	if (!world_open())
		return;
	all_to_all(node_by_datagrams);
	for (int i = 0; i < NODES; i++) {
		EXPECT_EQ(table->usage[i].qps, PROCESSES);
		EXPECT_EQ(table->usage[i].ees, NODES - 1);
	}
	world_close();
}

/* ---- The same by connections ---------------------------------------------------------------- */

static void connect_rc(struct rd_node *n, int to)
{
	const struct weft_ee_options o = rd_ee_options(TIMEOUT_LONG);

	for (uint32_t p = 0; p < PAIRS; p++) {
		uint32_t i = p / PROCESSES, k = p % PROCESSES;
		uint32_t theirs = rank(to, n->self) * PAIRS + k * PROCESSES + i;
		const struct weft_roce_attr how = {
			.path = o.path,
			.peer_number = table->cards[to].qps[theirs],
			.timeout_code = TIMEOUT_LONG,
			.retries = 7,
			.rnr_retries = WEFT_RNR_RETRY_FOREVER,
			.rnr_timer_code = 10,
		};
		struct weft_qp *qp = n->qps[rank(n->self, to) * PAIRS + p];

		MUST(weft_qp_to_rtr(qp, &how));
		MUST(weft_qp_to_rts(qp, &how));
	}
}

static void node_by_connections(int self)
{
	static struct rd_node n;

	rd_node_open(&n, self);
	for (uint32_t i = 0; i < QPS_MAX; i++)
		rd_qp_new(&n, WEFT_RC);
	table->cards[self] = n.card;
	meet(0, NODES);
	for (int to = 0; to < NODES; to++) {
		if (to != self)
			connect_rc(&n, to);
	}
	MUST(weft_adapter_query(n.adapter, &table->usage[self]));
	meet(1, NODES);
	for (uint32_t i = 0; i < QPS_MAX; i++) {
		const struct weft_sge s = { (uintptr_t)n.memory + i * WORD, WORD, n.tag };
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_SEND, .flags = WEFT_SIGNALLED, .sges = &s, .sge_count = 1
		};

		rd_receive(&n, n.qps[i], i, OUTBOX + i * WORD, WORD);
		memset(n.memory + i * WORD, self + 1, WORD);
		MUST(weft_qp_post_send(n.qps[i], &wr, 1, NULL));
	}
	for (uint32_t i = 0; i < 2 * QPS_MAX; i++)
		REQUIRE(rd_take(&n).status == WEFT_SUCCESS);
	for (uint32_t i = 0; i < QPS_MAX; i++) {
		int from = (int)(i / PAIRS) + (i / PAIRS >= (uint32_t)self);

		REQUIRE(n.memory[OUTBOX + i * WORD] == from + 1);
		REQUIRE(n.memory[OUTBOX + i * WORD + WORD - 1] == from + 1);
	}
	meet(2, NODES);
	rd_node_close(&n);
}

TEST(test_trn_s1_rc_05_all_to_all_of_processes_takes_27_queue_pairs)
{
	if (!world_open())
		return;
	all_to_all(node_by_connections);
	for (int i = 0; i < NODES; i++) {
		EXPECT_EQ(table->usage[i].qps, 27);
		EXPECT_EQ(table->usage[i].ees, 0);
	}
	world_close();
}

/* ---- One is killed -------------------------------------------------------------------------- */

enum { ME = 0, VICTIM = 1, BYSTANDER = 2, ALIVE = 3 };

/* A node of these three; it has met the others. */
static void node_of_three(struct rd_node *n, int self)
{
	rd_node_open(n, self);
	for (int i = 0; i < PROCESSES; i++)
		rd_qp_open(n, RD_KEY, RD_DOMAIN);
	for (int to = 0; to < ALIVE; to++) {
		if (to != self)
			rd_ee_open(n, to, to == VICTIM ? TIMEOUT_SHORT : TIMEOUT_LONG);
	}
	table->cards[self] = n->card;
	meet(0, ALIVE);
	for (int to = 0; to < ALIVE; to++) {
		if (to != self)
			rd_ee_join(n, to, &table->cards[to]);
	}
	meet(1, ALIVE);
}

/* Peers reach its memory; it does nothing itself. */
static void victim_run(int self)
{
	static struct rd_node n;

	node_of_three(&n, self);
	for (;;)
		pause();
}

/* Writes to the first node all the time, and then to the one that was killed: that fails. */
static void bystander_run(int self)
{
	struct rd_word word = { .opcode = WEFT_OP_WRITE, .length = WORD };
	static struct rd_node n;

	node_of_three(&n, self);
	while (!atomic_load(&table->is_over)) {
		word.dest = table->cards[ME].qps[0];
		MUST(rd_post(&n, 0, ME, &table->cards[ME], &word));
		REQUIRE(rd_take(&n).status == WEFT_SUCCESS);
		atomic_fetch_add(&table->written, 1);
	}
	word.dest = table->cards[VICTIM].qps[0];
	MUST(rd_post(&n, 1, VICTIM, &table->cards[VICTIM], &word));
	REQUIRE(rd_take(&n).status == WEFT_ERR_PEER_GONE);
	rd_node_close(&n);
}

static void write_to(struct rd_node *n, int to, enum weft_status status)
{
	const struct rd_word word = {
		.opcode = WEFT_OP_WRITE, .id = 99, .length = WORD, .dest = table->cards[to].qps[1]
	};
	struct weft_completion c;

	MUST(rd_post(n, 0, to, &table->cards[to], &word));
	c = rd_take(n);
	EXPECT_EQ(c.id, 99);
	EXPECT_EQ(c.status, status);
}

static void await_writes(uint32_t more)
{
	uint32_t until = atomic_load(&table->written) + more;
	uint64_t since = rd_now_ns();

	while (atomic_load(&table->written) < until) {
		REQUIRE(rd_now_ns() - since < PATIENCE_NS);
		usleep(200);
	}
}

/* The event of the context, and of no other. */
static void await_failure(struct rd_node *n, int to)
{
	struct weft_event e;
	bool has_event = false;

	do {
		MUST(weft_event_next(n->adapter, PATIENCE_NS, &e, &has_event));
		REQUIRE(has_event);
	} while (e.kind != WEFT_EVENT_EE_FAILED);
	EXPECT_EQ(e.number, weft_ee_number(n->ees[to]));
	EXPECT(e.context == &n->ees[to]);
	EXPECT_EQ(e.reason, WEFT_R_PEER_GONE);
}

/* What each queue pair had for the victim ends, the first of each for what happened. */
static void requests_end(struct rd_node *n)
{
	uint32_t gone = 0, flushed = 0;

	while (gone + flushed < 2 * PROCESSES) {
		struct weft_completion c = rd_take(n);

		REQUIRE(c.status == WEFT_ERR_PEER_GONE || c.status == WEFT_ERR_FLUSHED);
		gone += c.status == WEFT_ERR_PEER_GONE;
		flushed += c.status == WEFT_ERR_FLUSHED;
	}
	EXPECT_EQ(gone, PROCESSES);
	EXPECT_EQ(flushed, PROCESSES);
}

static void all_to_rts(struct rd_node *n)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };

	for (uint32_t i = 0; i < n->qp_count; i++) {
		struct weft_qp_attr now;

		MUST(weft_qp_query(n->qps[i], &now));
		if (now.state == WEFT_QPS_SQE)
			MUST(weft_qp_modify(n->qps[i], &rts, WEFT_QP_STATE));
	}
}

/* Another process in its place, with new contexts: the queue pairs go on as they are. */
static void again(struct rd_node *n)
{
	for (uint32_t i = 0; i < PHASES; i++)
		atomic_store(&table->reached[i], ALIVE - 2);
	MUST(weft_ee_destroy(n->ees[VICTIM]));
	rd_ee_open(n, VICTIM, TIMEOUT_LONG);
	table->cards[ME] = n->card;
	child_start(VICTIM, victim_run);
	meet(0, ALIVE);
	rd_ee_join(n, VICTIM, &table->cards[VICTIM]);
	meet(1, ALIVE);
	write_to(n, VICTIM, WEFT_SUCCESS);
	child_kill(VICTIM);
}

TEST(test_rd_02_a_killed_process_fails_its_context_and_disturbs_no_other)
{
	static struct rd_node n;
	struct weft_ee_attr attr;

	if (!world_open())
		return;
	child_start(VICTIM, victim_run);
	child_start(BYSTANDER, bystander_run);
	node_of_three(&n, ME);
	for (int i = 0; i < 10; i++) {
		write_to(&n, VICTIM, WEFT_SUCCESS);
		write_to(&n, BYSTANDER, WEFT_SUCCESS);
	}
	/* No receive is posted there: each message waits for one, and the next behind it. */
	for (uint32_t i = 0; i < 2 * PROCESSES; i++) {
		const struct rd_word word = { .opcode = WEFT_OP_SEND,
					      .length = WORD,
					      .dest = table->cards[VICTIM].qps[0] };

		MUST(rd_post(&n, i / 2, VICTIM, &table->cards[VICTIM], &word));
	}
	child_kill(VICTIM);
	await_writes(10);
	requests_end(&n);
	await_failure(&n, VICTIM);
	MUST(weft_ee_query(n.ees[VICTIM], &attr));
	EXPECT_EQ(attr.reason, WEFT_R_PEER_GONE);
	await_writes(10); /* queue pairs in SQE are served as before */
	all_to_rts(&n);
	write_to(&n, BYSTANDER, WEFT_SUCCESS);
	write_to(&n, VICTIM, WEFT_ERR_PEER_GONE); /* at once */
	all_to_rts(&n);
	MUST(weft_ee_query(n.ees[BYSTANDER], &attr));
	EXPECT_EQ(attr.reason, WEFT_OK);
	atomic_store(&table->is_over, true);
	child_end(BYSTANDER);
	again(&n);
	rd_node_close(&n);
	world_close();
}
