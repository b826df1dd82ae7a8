/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/raw.h"

#include <string.h>
#include <time.h>

enum { RECEIVE, SEND };

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECONDS + (uint64_t)ts.tv_nsec;
}

static struct rio_known known_of(uint32_t unit, enum rio_role role)
{
	const struct weft_rio_peer peer = cluster_peer(unit, (enum weft_rio_role)role, NULL);
	struct rio_known k = { .platform = { unit, 1 }, .role = role };

	memcpy(k.key, peer.key, sizeof(k.key));
	return k;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void post_receive(struct raw *r, uint32_t nth)
{
	const struct weft_sge s = { .addr = (uintptr_t)r->recv_bufs[nth],
				    .length = RIO_MSG_BYTES_MAX,
				    .tag = r->tag };

	REQUIRE(weft_qp_post_recv(r->qp,
				  &(struct weft_recv_wr){ .id = (uint64_t)nth << 1 | RECEIVE,
							  .sges = &s,
							  .sge_count = 1 },
				  1, NULL) == WEFT_OK);
}

static void qp_open(struct raw *r)
{
	const struct weft_qp_options options = { .send_cq = r->cq,
						 .recv_cq = r->cq,
						 .send_max = 64,
						 .recv_max = RAW_RECEIVES,
						 .sges_max = 1 };
	const struct weft_qp_attr attr = { .state = WEFT_QPS_INIT,
					   .remote_rights = WEFT_REMOTE_READ };

	REQUIRE(weft_qp_create(r->pd, &options, &r->qp) == WEFT_OK);
	REQUIRE(weft_qp_modify(r->qp, &attr, WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS) == WEFT_OK);
	for (uint32_t i = 0; i < RAW_RECEIVES; i++)
		post_receive(r, i);
	r->early_first = r->early_count = 0;
	r->is_over = false;
}

static uint32_t region(struct raw *r, void *bytes, uint64_t length, uint32_t rights)
{
	uint32_t tag;

	REQUIRE(weft_region_register(r->pd,
				     &(struct weft_region_options){ .addr = (uintptr_t)bytes,
								    .length = length,
								    .rights = rights },
				     &tag) == WEFT_OK);
	return tag;
}

void raw_open(struct raw *r, uint32_t unit, enum rio_role role)
{
	const struct weft_rio_self self = cluster_self(unit, NULL, 0);

	memset(r, 0, sizeof(*r));
	rio_identity_make(&r->self, self.seed);
	r->self.platform = (struct platform){ unit, 1 };
	r->self.role = role;
	REQUIRE(weft_adapter_open(&(struct weft_adapter_options){ 0 }, &r->adapter) == WEFT_OK);
	REQUIRE(weft_pd_create(r->adapter, NULL, &r->pd) == WEFT_OK);
	REQUIRE(weft_cq_create(r->adapter, &(struct weft_cq_options){ .entries_max = 1024 },
			       &r->cq) == WEFT_OK);
	r->tag = region(r, r, sizeof(*r), WEFT_LOCAL_READ | WEFT_LOCAL_WRITE);
	r->handle = region(r, r->memory, sizeof(r->memory), WEFT_REMOTE_READ);
	qp_open(r);
}

void raw_close(struct raw *r)
{
	raw_hang_up(r);
	weft_qp_destroy(r->qp);
	if (r->listener)
		weft_listener_close(r->listener);
	weft_cq_destroy(r->cq);
	weft_region_deregister(r->pd, r->tag);
	weft_region_deregister(r->pd, r->handle);
	weft_pd_destroy(r->pd);
	REQUIRE(weft_adapter_close(r->adapter) == WEFT_OK);
}

void raw_hang_up(struct raw *r)
{
	uint32_t number = weft_qp_number(r->qp);

	weft_qp_destroy(r->qp);
	weft_cq_forget(r->cq, number);
	qp_open(r);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* True: this completion has come; it was not the end. */
static bool next_completion(struct raw *r, struct weft_completion *c)
{
	uint64_t end = now_ns() + 20 * SECONDS;
	struct weft_event e;
	uint32_t count = 0;
	bool has_event;

	while (now_ns() < end) {
		REQUIRE(weft_cq_poll(r->cq, c, 1, &count) == WEFT_OK);
		if (count == 1 && c->status == WEFT_SUCCESS)
			return true;
		r->is_over |= count == 1;
		if (count == 1)
			return false;
		REQUIRE(weft_event_next(r->adapter, SECONDS / 1000, &e, &has_event) == WEFT_OK);
		if (has_event &&
		    (e.kind == WEFT_EVENT_CONNECT_FAILED || e.kind == WEFT_EVENT_QP_ERROR))
			r->is_over = true;
		if (r->is_over)
			return false;
	}
	REQUIRE(!"nothing happens");
	return false;
}

/* The bytes of the next message; NULL: it is over. */
static const uint8_t *next_message(struct raw *r, uint32_t *length)
{
	struct weft_completion c;

	if (r->early_first < r->early_count) {
		c = r->early[r->early_first++];
		*length = c.byte_count;
		return r->recv_bufs[c.id >> 1];
	}
	while (!r->is_over && next_completion(r, &c)) {
		if ((c.id & 1) == RECEIVE) {
			*length = c.byte_count;
			return r->recv_bufs[c.id >> 1];
		}
	}
	return NULL;
}

void raw_expect_end(struct raw *r)
{
	uint32_t length;

	while (next_message(r, &length))
		;
	REQUIRE(r->is_over);
}

/* ---- Saying --------------------------------------------------------------------------------- */

void raw_send(struct raw *r, const uint8_t *bytes, size_t length)
{
	struct weft_sge s = { .addr = (uintptr_t)r->sent,
			      .length = (uint32_t)length,
			      .tag = r->tag };
	struct weft_completion c;

	if (r->is_over)
		return;
	memcpy(r->sent, bytes, length);
	if (weft_qp_post_send(r->qp,
			      &(struct weft_send_wr){ .id = SEND,
						      .opcode = WEFT_OP_SEND,
						      .flags = WEFT_SIGNALLED,
						      .sges = &s,
						      .sge_count = length > 0 },
			      1, NULL) != WEFT_OK)
		return; /* the connection is over, and the waiting test finds out */
	while (next_completion(r, &c)) {
		if ((c.id & 1) == SEND)
			return;
		REQUIRE(r->early_count < RAW_RECEIVES);
		r->early[r->early_count++] = c;
	}
}

size_t raw_seal(struct raw *r, const struct rio_msg *m, uint8_t bytes[RIO_MSG_BYTES_MAX])
{
	size_t length = rio_session_close(&r->session, m, bytes, RIO_MSG_BYTES_MAX);

	REQUIRE(length > 0);
	return length;
}

void raw_say(struct raw *r, const struct rio_msg *m)
{
	uint8_t bytes[RIO_MSG_BYTES_MAX];

	raw_send(r, bytes, raw_seal(r, m, bytes));
}

bool raw_read(struct raw *r, uint32_t handle, uint64_t remote, uint32_t length)
{
	const struct weft_sge s = { .addr = (uintptr_t)r->memory, .length = length, .tag = r->tag };
	struct weft_completion c;

	REQUIRE(length <= RAW_MEMORY && !r->is_over);
	memset(r->memory, 0, length);
	REQUIRE(weft_qp_post_send(r->qp,
				  &(struct weft_send_wr){ .id = SEND,
							  .opcode = WEFT_OP_READ,
							  .flags = WEFT_SIGNALLED,
							  .remote_tag = handle,
							  .remote_addr = remote,
							  .sges = &s,
							  .sge_count = 1 },
				  1, NULL) == WEFT_OK);
	while (next_completion(r, &c)) {
		if ((c.id & 1) == SEND)
			return true;
		REQUIRE(r->early_count < RAW_RECEIVES);
		r->early[r->early_count++] = c;
	}
	return false;
}

bool raw_hear(struct raw *r, enum rio_msg_type type, struct rio_msg *m)
{
	const uint8_t *bytes;
	uint32_t length;

	while ((bytes = next_message(r, &length)) != NULL) {
		REQUIRE(rio_session_open(&r->session, bytes, length, m) == WEFT_OK);
		if (m->type == type)
			return true;
		post_receive(r, (uint32_t)((bytes - r->recv_bufs[0]) / RIO_MSG_BYTES_MAX));
	}
	return false;
}

/* ---- Greeting ------------------------------------------------------------------------------- */

static bool is_connected(struct raw *r)
{
	uint64_t end = now_ns() + 20 * SECONDS;
	struct weft_event e;
	bool has_event;

	while (now_ns() < end) {
		REQUIRE(weft_event_next(r->adapter, SECONDS / 100, &e, &has_event) == WEFT_OK);
		if (has_event && e.kind == WEFT_EVENT_CONNECTED)
			return true;
		if (has_event && e.kind == WEFT_EVENT_CONNECT_FAILED)
			return false;
	}
	REQUIRE(!"neither connected nor not");
	return false;
}

bool raw_connect(struct raw *r, const struct weft_address *to, const struct rio_bytes *words)
{
	const struct weft_connect_options options = {
		.private_data = words ? words->bytes : NULL,
		.private_bytes = words ? (uint32_t)words->length : 0,
	};

	REQUIRE(weft_qp_dial(r->qp, to, &options) == WEFT_OK);
	return is_connected(r);
}

static void greet(struct raw *r)
{
	uint8_t bytes[RIO_GREETING_MAX];
	const uint8_t *heard;
	uint32_t got;
	size_t length;

	for (;;) {
		while ((length = rio_handshake_say(&r->handshake, bytes)) > 0)
			raw_send(r, bytes, length);
		if (rio_handshake_is_done(&r->handshake))
			break;
		heard = next_message(r, &got);
		REQUIRE(heard && rio_handshake_take(&r->handshake, heard, got) == WEFT_OK);
	}
	r->session = r->handshake.greet.session;
}

void raw_greet(struct raw *r, uint32_t unit, enum rio_role role)
{
	/* An address at which no process takes data connections. */
	static const struct rio_address nowhere = { .family = 4,
						    .port = 1,
						    .ip = { 127, 0, 0, 1 } };
	static uint8_t random[RIO_SEED_BYTES];

	random[0]++;
	r->expected = known_of(unit, role);
	rio_handshake_dial(&r->handshake, &r->self, &r->expected, &nowhere, random);
	greet(r);
}

void raw_dial(struct raw *r, const struct weft_address *to, uint32_t unit, enum rio_role role)
{
	REQUIRE(raw_connect(r, to, NULL));
	raw_greet(r, unit, role);
}

void raw_listen(struct raw *r)
{
	REQUIRE(weft_listener_open(r->adapter, &loopback, NULL, &r->listener) == WEFT_OK);
	REQUIRE(weft_listener_address(r->listener, &r->at) == WEFT_OK);
}

void raw_await(struct raw *r, uint32_t unit, enum rio_role role)
{
	static uint8_t random[RIO_SEED_BYTES] = { 0, 1 };
	const struct rio_handshake_limits limits = { 16, RIO_REQUEST_LIST_MAX };
	const struct rio_book book = { &r->expected, 1 };
	struct weft_request *request = NULL;
	uint64_t end = now_ns() + 20 * SECONDS;

	random[0]++;
	r->expected = known_of(unit, role);
	while (!request && now_ns() < end) {
		struct weft_event e;
		bool has_event;

		REQUIRE(weft_event_next(r->adapter, SECONDS / 100, &e, &has_event) == WEFT_OK);
		REQUIRE(weft_listener_next(r->listener, &request) == WEFT_OK);
	}
	REQUIRE(request);
	REQUIRE(weft_request_accept(request, r->qp, &(struct weft_connect_options){ .ird = 16 }) ==
		WEFT_OK);
	REQUIRE(is_connected(r));
	rio_handshake_await(&r->handshake, &r->self, &book, &limits, random);
	greet(r);
}
