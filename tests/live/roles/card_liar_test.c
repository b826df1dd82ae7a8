/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host, as `weft card host` runs it, whose unit is no program of ours: it greets with its key as
 * it should, and then breaks the rules. Each time the host refuses with a reason, its memory is as
 * it was, and it goes on, or dials again.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "live/verbs_fixture.h"
#include "own_network.h"
#include "roles/card_inside.h"

enum { RECEIVES = 32, BUFFERS = RECEIVES + 1, POOLS = 4, TEXT = 8192, NO_POOL = 77 };

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

struct liar {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct rdma_listener listener;
	struct rdma_end end;
	struct weft_qp *qp;
	struct rio_identity self;
	struct rio_known host;
	struct rio_handshake handshake;
	uint8_t buffers[BUFFERS][CARD_MESSAGE_BYTES];
	uint32_t tag, sends;
	/* What the host has said on this connection. */
	bool has_greeted;
	struct push_pool pools[POOLS];
	uint32_t pool_count, flush_replies;
	struct push_statistics statistics;
	bool has_statistics;
};

struct host {
	struct card_file file;
	struct card *card;
	pthread_t thread;
	char socket[256];
	pthread_mutex_t lock; /* guards the rest */
	char said[TEXT];
	/* Memory of its pool, as it must still be when the connection is over. */
	const uint8_t *pool;
	uint8_t *pool_before;
	size_t pool_bytes;
	bool is_changed;
};

static struct liar liar;
static struct host host;

/* ---- The host ------------------------------------------------------------------------------- */

/* By the host's thread. The memory of a connection stays until its end has been told. */
static void tell(void *context, const char *line)
{
	struct host *h = context;
	size_t length;

	pthread_mutex_lock(&h->lock);
	length = strlen(h->said);
	snprintf(h->said + length, sizeof(h->said) - length, "%s\n", line);
	if (h->pool_before && strstr(line, "no longer connected")) {
		h->is_changed = memcmp(h->pool, h->pool_before, h->pool_bytes) != 0;
		free(h->pool_before);
		h->pool_before = NULL;
	}
	pthread_mutex_unlock(&h->lock);
}

static bool has_said(const char *text)
{
	bool has;

	pthread_mutex_lock(&host.lock);
	has = strstr(host.said, text) != NULL;
	pthread_mutex_unlock(&host.lock);
	return has;
}

static void *host_run(void *context)
{
	card_run(((struct host *)context)->card);
	return NULL;
}

static void host_begin(enum rdma_wire wire, const struct weft_address *unit)
{
	static const uint8_t seed[RIO_SEED_BYTES] = { 1 };
	const struct card_options options = { .tell = tell, .context = &host };
	struct config_complaint complaint;
	char text[1024], why[CONFIG_FILE_WHY] = "", key[65];

	memset(&host, 0, sizeof(host));
	pthread_mutex_init(&host.lock, NULL);
	snprintf(host.socket, sizeof(host.socket), "%s/weft-liar-%ld", harness_folder(),
		 (long)getpid());
	for (int i = 0; i < 32; i++)
		snprintf(key + 2 * i, 3, "%02x", liar.self.key[i]);
	snprintf(text, sizeof(text),
		 "role card-host\ncard socket:%s,listen,mac=02:00:00:00:00:07\nwire %s\n"
		 "alive 60s\nunit u 2.1 %s 127.0.0.1:%u\n",
		 host.socket, wire == RDMA_ROCE ? "roce" : "iwarp", key, unit->port);
	REQUIRE(card_config_read(text, strlen(text), &host.file.config, &complaint));
	rio_identity_make(&host.file.self, seed);
	host.file.self.role = RIO_CARD_HOST;
	host.file.self.platform = host.file.config->self;
	host.file.address = *unit;
	liar.host = (struct rio_known){ .platform = host.file.self.platform,
					.role = RIO_CARD_HOST };
	memcpy(liar.host.key, host.file.self.key, RIO_KEY_BYTES);
	REQUIRE(card_open(&host.file, &options, &host.card, why));
	REQUIRE(pthread_create(&host.thread, NULL, host_run, &host) == 0);
}

/* What `weft card status` would show. */
static void host_status(char text[TEXT])
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft/card/%ld",
			      (long)getpid());
	size_t used = 0;
	ssize_t n = 1;

	REQUIRE(fd >= 0);
	REQUIRE(connect(fd, (const struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ==
		0);
	while (n > 0 && used < TEXT - 1) {
		n = recv(fd, text + used, TEXT - 1 - used, 0);
		REQUIRE(n >= 0);
		used += (size_t)n;
	}
	text[used] = '\0';
	close(fd);
}

/* ---- The unit ------------------------------------------------------------------------------- */

static void receive_post(uint32_t nth)
{
	const struct weft_sge sge = { .addr = (uintptr_t)liar.buffers[nth],
				      .length = CARD_MESSAGE_BYTES,
				      .tag = liar.tag };
	const struct weft_recv_wr wr = { .id = nth, .sges = &sge, .sge_count = 1 };

	(void)weft_qp_post_recv(liar.qp, &wr, 1, NULL); /* refused when the connection is over */
}

/* What lies in the last buffer; it is free again when the request has completed. */
static void post(struct weft_send_wr wr, size_t length)
{
	const struct weft_sge sge = { .addr = (uintptr_t)liar.buffers[RECEIVES],
				      .length = (uint32_t)length,
				      .tag = liar.tag };

	wr.id = RECEIVES;
	wr.flags = WEFT_SIGNALLED;
	wr.sges = &sge;
	wr.sge_count = length > 0;
	MUST(weft_qp_post_send(liar.qp, &wr, 1, NULL));
	liar.sends++;
}

static void turn(void);

static void await_sends(void)
{
	uint64_t since = thread_now_ns();

	while (liar.sends > 0) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		turn();
	}
}

/* Sealed, so that the host takes it for its unit's. */
static void say_bytes(const uint8_t *bytes, size_t length)
{
	await_sends();
	memcpy(liar.buffers[RECEIVES], bytes, length);
	length = rio_session_tail(&liar.handshake.greet.session, liar.buffers[RECEIVES], length);
	post((struct weft_send_wr){ .opcode = WEFT_OP_SEND }, length);
}

static void say(const struct push_msg *m)
{
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	push_msg_encode(m, &w);
	say_bytes(bytes, (size_t)(w.at - bytes));
}

static void hello_make(struct push_hello *hello)
{
	struct push_config config;

	push_config_init(&config, PUSH_UNIT, PUSH_MODE_RDMA);
	*hello = config.hello;
	hello->is_link_up = true;
	memcpy(hello->mac, (const uint8_t[]){ 2, 0, 0, 0, 0, 7 }, PUSH_MAC_BYTES);
}

/* Everything that the host asks for is agreed to. */
static void answer(const struct push_msg *asked)
{
	struct push_msg m = { .function = PUSH_CFG_REPLY,
			      .context = asked->context,
			      .cfg = asked->cfg };

	if (asked->cfg.kind == PUSH_HELLO) {
		hello_make(&m.cfg.hello);
		liar.has_greeted = true;
	}
	say(&m);
}

static void hear(const uint8_t *bytes, size_t length)
{
	struct push_msg m = { 0 };
	struct rd r;

	MUST(push_msg_decode(&m, bytes, length));
	switch (m.function) {
	case PUSH_CFG_REQUEST:
		answer(&m);
		break;
	case PUSH_CFG_REPLY:
		liar.has_statistics |= m.cfg.kind == PUSH_STATISTICS;
		liar.statistics = m.cfg.statistics;
		break;
	case PUSH_RECV_POOL:
		r = rd_of(m.pools.bytes, PUSH_BODY_BYTES_MAX);
		for (uint32_t i = 0; i < m.pools.count && liar.pool_count < POOLS; i++)
			liar.pools[liar.pool_count++] = push_pool_next(&r);
		break;
	case PUSH_FLUSH_REPLY:
		liar.flush_replies++;
		break;
	default:
		break;
	}
}

static void greet(void)
{
	/* Bound: a handshake has three messages. */
	for (int i = 0; i < 3; i++) {
		size_t length = rio_handshake_say(&liar.handshake, liar.buffers[RECEIVES]);

		if (length == 0)
			return;
		post((struct weft_send_wr){ .opcode = WEFT_OP_SEND }, length);
		await_sends();
	}
}

static void take(const struct weft_completion *c)
{
	uint8_t *bytes = liar.buffers[c->id];
	size_t body;

	if (c->id == RECEIVES)
		liar.sends--;
	if (c->id == RECEIVES || c->status != WEFT_SUCCESS)
		return;
	if (c->opcode == WEFT_OP_RECV_WRITE_IMM) {
		/* A push of the host's: the liar has no pools. */
	} else if (!rio_handshake_is_done(&liar.handshake)) {
		MUST(rio_handshake_take(&liar.handshake, bytes, c->byte_count));
		greet();
	} else {
		MUST(rio_session_tailed(&liar.handshake.greet.session, bytes, c->byte_count,
					&body));
		hear(bytes, body);
	}
	receive_post((uint32_t)c->id);
}

/* The connection before is forgotten. */
static void accept_host(void)
{
	static const struct rdma_terms terms = { .reads_in = 1, .reads_out = 1 };
	static const struct rio_handshake_limits no_limits;
	static const uint8_t random[RIO_SEED_BYTES] = { 3 };
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT, .remote_rights = 0 };
	struct weft_qp_options options = {
		.send_cq = liar.cq,
		.recv_cq = liar.cq,
		.service = WEFT_RC,
		.send_max = 8,
		.recv_max = RECEIVES,
		.sges_max = 1,
		.context = &liar.end.object,
	};
	const struct rio_book book = { &liar.host, 1 };
	struct rdma_request request;

	if (!rdma_listener_next(&liar.listener, &request))
		return;
	rdma_end_close(&liar.end);
	if (liar.qp)
		MUST(weft_qp_destroy(liar.qp));
	liar.sends = liar.pool_count = liar.flush_replies = 0;
	liar.has_greeted = liar.has_statistics = false;
	rdma_end_init(&liar.end, request.wire);
	MUST(weft_qp_create(liar.pd, &options, &liar.qp));
	MUST(weft_qp_modify(liar.qp, &init, WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS));
	for (uint32_t i = 0; i < RECEIVES; i++)
		receive_post(i);
	rio_handshake_await(&liar.handshake, &liar.self, &book, &no_limits, random);
	MUST(rdma_request_accept(&request, &liar.end, liar.qp, &terms));
}

/* Looks at everything once. */
static void turn(void)
{
	struct weft_completion c;
	struct weft_event event;
	bool has_any = false;

	while (node_poll(liar.cq, &c, &has_any) && has_any) {
		if (liar.qp && c.qp_number == weft_qp_number(liar.qp))
			take(&c);
	}
	MUST(weft_event_next(liar.adapter, 0, &event, &has_any));
	if (has_any && event.context == &liar.end.object)
		(void)rdma_end_event(&liar.end, &event);
	else if (has_any && event.context == &liar.listener.object)
		accept_host();
}

static void await_pools(void)
{
	uint64_t since = thread_now_ns();

	while (!liar.has_greeted || liar.pool_count == 0 || liar.sends > 0) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		turn();
	}
}

static void liar_begin(enum rdma_wire wire)
{
	static const uint8_t seed[RIO_SEED_BYTES] = { 2 };
	const struct weft_cq_options cq = { .entries_max = 256 };
	const struct weft_region_options region = { .addr = (uintptr_t)liar.buffers,
						    .length = sizeof(liar.buffers),
						    .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	struct weft_address at = loopback;

	memset(&liar, 0, sizeof(liar));
	MUST(weft_adapter_open(NULL, &liar.adapter));
	if (wire == RDMA_ROCE)
		MUST(weft_roce_open(liar.adapter));
	MUST(weft_pd_create(liar.adapter, NULL, &liar.pd));
	MUST(weft_cq_create(liar.adapter, &cq, &liar.cq));
	MUST(weft_region_register(liar.pd, &region, &liar.tag));
	rio_identity_make(&liar.self, seed);
	liar.self.role = RIO_CARD_UNIT;
	liar.self.platform = (struct platform){ 2, 1 };
	rdma_end_init(&liar.end, wire);
	MUST(rdma_listener_open(&liar.listener, liar.adapter, wire, &at));
	MUST(rdma_listener_address(&liar.listener, &at));
	host_begin(wire, &at);
	await_pools();
}

static void liar_end(void)
{
	card_stop(host.card);
	rdma_end_close(&liar.end); /* no reply to its flush: it is gone */
	pthread_join(host.thread, NULL);
	card_close(host.card);
	card_config_destroy(host.file.config);
	rdma_listener_close(&liar.listener);
	MUST(weft_qp_destroy(liar.qp));
	MUST(weft_region_deregister(liar.pd, liar.tag));
	MUST(weft_cq_destroy(liar.cq));
	MUST(weft_pd_destroy(liar.pd));
	MUST(weft_adapter_close(liar.adapter));
}

#define LIAR_OR_SKIP(wire)                                                                         \
	do {                                                                                       \
		const char *why_not = own_network_enter();                                         \
		if (why_not)                                                                       \
			SKIP(why_not);                                                             \
		liar_begin(wire);                                                                  \
	} while (0)

/* ---- Writes, which end the connection ------------------------------------------------------- */

/* The host is of this process, so its memory can be looked at. */
static void watch_pool(const struct push_pool *p)
{
	pthread_mutex_lock(&host.lock);
	host.pool = (const uint8_t *)(uintptr_t)p->address;
	host.pool_bytes = (size_t)p->elements * p->element_bytes;
	host.pool_before = malloc(host.pool_bytes);
	REQUIRE(host.pool_before != NULL);
	memcpy(host.pool_before, host.pool, host.pool_bytes);
	pthread_mutex_unlock(&host.lock);
}

static void expect_end(enum weft_reason reason)
{
	uint64_t since = thread_now_ns();
	char line[512];

	snprintf(line, sizeof(line), "u is no longer connected: %s", weft_reason_text(reason));
	while (!has_said("is no longer connected") && thread_now_ns() - since < PATIENCE_NS)
		turn();
	if (!has_said(line))
		EXPECT_STR(host.said, line);
	EXPECT(!host.is_changed);
	/* It dials again, and all begins anew. */
	liar.has_greeted = false;
	await_pools();
}

/* Into memory that the host has told of, but as it may not be. */
static void write_in_vain(struct push_pool p, uint64_t offset, uint32_t handle,
			  enum weft_reason reason)
{
	const struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE,
					 .remote_addr = p.address + offset,
					 .remote_tag = handle };

	await_sends();
	watch_pool(&p);
	memset(liar.buffers[RECEIVES], 0xee, 64);
	post(wr, 64);
	expect_end(reason);
	liar_end();
}

TEST(test_push_14_card_liar_with_a_wrong_handle)
{
	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		LIAR_OR_SKIP(wire);
		write_in_vain(liar.pools[0], 0, liar.pools[0].handle ^ 1, WEFT_R_TAG_INSTANCE);
	}
}

TEST(test_push_14_card_liar_beyond_the_pool)
{
	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		const struct push_pool *p = &liar.pools[0];

		LIAR_OR_SKIP(wire);
		write_in_vain(*p, (uint64_t)p->elements * p->element_bytes - 63, p->handle,
			      WEFT_R_RANGE_BOUNDS);
	}
}

TEST(test_push_17_card_liar_pushes_after_the_flush_reply)
{
	static const uint8_t first[] = { 0, 0, 0, 0 };
	const struct push_msg release = { .function = PUSH_RELEASE_REQUEST,
					  .context = 1,
					  .references = { .bytes = first, .count = 1 } };

	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		uint64_t since = thread_now_ns();

		LIAR_OR_SKIP(wire);
		say(&release);
		while (liar.flush_replies == 0) {
			REQUIRE(thread_now_ns() - since < PATIENCE_NS);
			turn();
		}
		write_in_vain(liar.pools[0], 0, liar.pools[0].handle, WEFT_R_TAG_INVALID);
	}
}

/* ---- Messages, which are refused and counted ------------------------------------------------ */

/* The host has refused the last one, and only that; it answers as before. */
static void expect_refused(uint32_t refused, enum weft_reason reason)
{
	const struct push_msg ask = { .function = PUSH_CFG_REQUEST,
				      .context = 1000 + refused,
				      .cfg = { .kind = PUSH_STATISTICS } };
	uint64_t since = thread_now_ns();
	char text[TEXT], field[64];

	liar.has_statistics = false;
	say(&ask);
	while (!liar.has_statistics) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		turn();
	}
	EXPECT_EQ(liar.statistics.refused, refused);
	host_status(text);
	snprintf(field, sizeof(field), " refused_for=%s ", weft_reason_name(reason));
	if (!strstr(text, field))
		EXPECT_STR(text, field);
	EXPECT(!has_said("no longer connected"));
}

static void say_used(struct push_used u, uint32_t times)
{
	uint8_t entries[2 * PUSH_USED_BYTES];
	struct wr to = wr_of(entries, sizeof(entries));

	for (uint32_t i = 0; i < times; i++)
		push_used_put(&u, &to);
	say(&(struct push_msg){ .function = PUSH_RDMA_INDICATE, .used = { times, entries } });
}

static void say_update(uint32_t pool)
{
	uint8_t entries[PUSH_RUN_BYTES];
	struct wr to = wr_of(entries, sizeof(entries));
	const struct push_run run = { pool, 0, 1 };

	push_run_put(&run, &to);
	say(&(struct push_msg){ .function = PUSH_RECV_POOL_UPDATE, .runs = { 1, entries } });
}

TEST(test_push_14_push_24_card_liar_indicates_what_it_may_not)
{
	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		uint32_t size;

		LIAR_OR_SKIP(wire);
		size = liar.pools[0].element_bytes;
		say_used((struct push_used){ NO_POOL, 0, size, 60 }, 1);
		expect_refused(1, WEFT_R_PUSH_POOL);
		say_used((struct push_used){ 0, 9999, size, 60 }, 1);
		expect_refused(2, WEFT_R_PUSH_ELEMENT);
		say_used((struct push_used){ 0, 5, size - 1, 60 }, 1);
		expect_refused(3, WEFT_R_PUSH_SIZE);
		say_used((struct push_used){ 0, 5, size, size + 1 }, 1);
		expect_refused(4, WEFT_R_PUSH_RANGE);
		/* Twice: the second time it is the host's. All of the message is refused. */
		say_used((struct push_used){ 0, 5, size, 60 }, 2);
		expect_refused(5, WEFT_R_PUSH_NOT_FREE);
		liar_end();
	}
}

TEST(test_push_16c_push_18_card_liar_says_what_no_unit_says)
{
	static const uint8_t function[12] = { 0, 99, 0, 1 }, version[12] = { 0, 5, 0, 2 };

	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		LIAR_OR_SKIP(wire);
		say_update(NO_POOL);
		expect_refused(1, WEFT_R_PUSH_POOL);
		say_bytes(function, sizeof(function));
		expect_refused(2, WEFT_R_PUSH_FUNCTION);
		say_bytes(version, sizeof(version));
		expect_refused(3, WEFT_R_PUSH_VERSION);
		say(&(struct push_msg){ .function = PUSH_FLUSH_REPLY, .context = 1 << 30 });
		expect_refused(4, WEFT_R_PUSH_REPLY);
		liar_end();
	}
}

/* A message without the seal ends the connection: it may be of another sender. */
TEST(test_push_18_card_liar_without_a_seal)
{
	static const uint8_t bare[12 + RIO_TAIL_BYTES] = { 0, 5, 0, 1 };

	for (enum rdma_wire wire = RDMA_IWARP; wire <= RDMA_ROCE; wire++) {
		LIAR_OR_SKIP(wire);
		await_sends();
		memcpy(liar.buffers[RECEIVES], bare, sizeof(bare));
		post((struct weft_send_wr){ .opcode = WEFT_OP_SEND }, sizeof(bare));
		expect_end(WEFT_R_RIO_FORGED);
		liar_end();
	}
}
