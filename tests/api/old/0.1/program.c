/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of version 0.1: compiled with the headers beside it, run with today's library. It fills
 * in every struct that programs give and looks at every one that the library fills, most of them
 * with a canary behind, which a library that takes the struct for a larger one would write over.
 *
 * Says "good", or the line of what is not as it was.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/rio.h>
#include <weft/roce.h>

#define MUST(fact) must((fact), __LINE__, #fact)

/* A struct that the library fills, and what must stay as it is behind it. */
#define GUARDED(type)                                                                              \
	struct {                                                                                   \
		struct type is;                                                                    \
		uint64_t canary;                                                                   \
	}

enum { CANARY = 0x5a5a5a5a, BYTES = 4096, SECOND_NS = 1000000000 };

static void must(bool is_true, int line, const char *fact)
{
	if (is_true)
		return;
	printf("line %d: %s\n", line, fact);
	exit(1);
}

/* An adapter with a queue pair and memory. */
struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct weft_qp *qp;
	uint32_t tag;
	_Alignas(8) uint8_t memory[BYTES];
};

static void side_open(struct side *s, enum weft_qp_service service)
{
	const struct weft_adapter_options adapter = { .tags_max = 64, .qps_max = 8 };
	const struct weft_pd_options domain = { .is_privileged = true };
	const struct weft_cq_options queue = { .entries_max = 32, .context = s };
	const struct weft_srq_options shared = { .recv_max = 8, .sges_max = 2, .context = s };
	const struct weft_region_options region = {
		.addr = (uintptr_t)s->memory,
		.length = BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE | WEFT_BIND,
	};
	struct weft_qp_options pair = { .service = service, .send_max = 16, .context = s };

	MUST(weft_adapter_open(&adapter, &s->adapter) == WEFT_OK);
	if (service == WEFT_UD)
		MUST(weft_roce_open(s->adapter) == WEFT_OK);
	MUST(weft_pd_create(s->adapter, &domain, &s->pd) == WEFT_OK);
	MUST(weft_cq_create(s->adapter, &queue, &s->cq) == WEFT_OK);
	MUST(weft_srq_create(s->pd, &shared, &s->srq) == WEFT_OK);
	MUST(weft_region_register(s->pd, &region, &s->tag) == WEFT_OK);
	pair.send_cq = pair.recv_cq = s->cq;
	pair.srq = s->srq;
	MUST(weft_qp_create(s->pd, &pair, &s->qp) == WEFT_OK);
}

static void side_close(struct side *s)
{
	MUST(weft_qp_destroy(s->qp) == WEFT_OK);
	MUST(weft_srq_destroy(s->srq) == WEFT_OK);
	MUST(weft_region_deregister(s->pd, s->tag) == WEFT_OK);
	MUST(weft_cq_destroy(s->cq) == WEFT_OK);
	MUST(weft_pd_destroy(s->pd) == WEFT_OK);
	MUST(weft_adapter_close(s->adapter) == WEFT_OK);
}

static struct weft_completion completion_of(struct side *s)
{
	GUARDED(weft_completion) c[2] = { { .canary = CANARY } };
	uint32_t count = 0;

	while (count == 0)
		MUST(weft_cq_poll(s->cq, &c[0].is, 1, &count) == WEFT_OK);
	MUST(c[0].canary == CANARY && c[0].is.reserved[1] == 0);
	MUST(c[0].is.status == WEFT_SUCCESS);
	return c[0].is;
}

static void await(struct side *s, enum weft_event_kind kind)
{
	GUARDED(weft_event) e = { .canary = CANARY };
	bool has_event = true;

	do
		MUST(weft_event_next(s->adapter, 30ULL * SECOND_NS, &e.is, &has_event) == WEFT_OK &&
		     has_event);
	while (e.is.kind != kind);
	MUST(e.canary == CANARY && e.is.reserved[1] == 0);
}

/* ---- Memory and requests of one adapter ------------------------------------------------------ */

static void use_memory(struct side *s)
{
	const struct weft_space_options space = {
		.memory = s->memory, .size_bytes = BYTES, .mappings_max = 2, .is_virtual = true
	};
	uint64_t page = 0;
	const struct weft_page_list pages = { .pages = &page, .count = 1, .page_size_bytes = 4096 };
	struct weft_region_options listed = { .length = 16, .va = 4096, .pages = &pages };
	struct weft_bind bind = { .region_tag = s->tag,
				  .addr = (uintptr_t)s->memory,
				  .length = 64,
				  .rights = WEFT_REMOTE_WRITE };
	GUARDED(weft_usage) usage = { .canary = CANARY };
	GUARDED(weft_pins) pins = { .canary = CANARY };
	uint32_t tag;

	MUST(weft_space_create(s->adapter, &space, &listed.space) == WEFT_OK);
	MUST(weft_space_query(listed.space, &pins.is) == WEFT_OK && pins.canary == CANARY);
	listed.rights = WEFT_REMOTE_READ;
	MUST(weft_region_register(s->pd, &listed, &tag) == WEFT_OK);
	MUST(weft_region_deregister(s->pd, tag) == WEFT_OK);
	MUST(weft_window_alloc(s->pd, &bind.window_tag) == WEFT_OK);
	MUST(weft_window_bind(s->pd, &bind) == WEFT_OK && bind.tag != 0);
	MUST(weft_window_discard(s->pd, bind.tag) == WEFT_OK);
	MUST(weft_adapter_query(s->adapter, &usage.is) == WEFT_OK && usage.canary == CANARY);
	MUST(usage.is.regions >= 1 && usage.is.spaces == 1 && usage.is.cqs == 1);
	MUST(weft_space_destroy(listed.space) == WEFT_OK);
}

/* Requests of the send queue, in an array: its elements are as large as they were. */
static void use_requests(struct side *to, struct side *from)
{
	const struct weft_sge sge = { .addr = (uintptr_t)from->memory,
				      .length = 8,
				      .tag = from->tag };
	const struct weft_sge sink = { .addr = (uintptr_t)to->memory + 64,
				       .length = 8,
				       .tag = to->tag };
	const struct weft_recv_wr recvs[2] = { { .id = 21, .sges = &sink, .sge_count = 1 },
					       { .id = 22 } };
	struct weft_send_wr sends[3] = {
		{ .id = 11, .opcode = WEFT_OP_WRITE, .flags = WEFT_SIGNALLED, .sges = &sge },
		{ .id = 12, .opcode = WEFT_OP_SEND, .flags = WEFT_SIGNALLED, .sges = &sge },
		{ .id = 13, .opcode = WEFT_OP_DELAY, .flags = WEFT_SIGNALLED, .delay_ns = 1 },
	};
	uint32_t posted = 0;

	sends[0].sge_count = sends[1].sge_count = 1;
	sends[0].remote_tag = to->tag;
	sends[0].remote_addr = (uintptr_t)to->memory;
	memcpy(from->memory, "weft 0.1", 8);
	MUST(weft_srq_post_recv(to->srq, recvs, 2, &posted) == WEFT_OK && posted == 2);
	MUST(weft_qp_post_send(from->qp, sends, 3, &posted) == WEFT_OK && posted == 3);
	for (uint64_t id = 11; id <= 13; id++)
		MUST(completion_of(from).id == id);
	MUST(completion_of(to).id == 21);
	MUST(memcmp(to->memory, "weft 0.1", 8) == 0 && memcmp(to->memory + 64, "weft 0.1", 8) == 0);
}

/* ---- Over TCP -------------------------------------------------------------------------------- */

static void connect_sides(struct side *near, struct side *far)
{
	const struct weft_listener_options listening = { .requests_max = 4, .context = far };
	const struct weft_connect_options dialling = {
		.private_data = "0.1", .private_bytes = 3, .ird = 4, .timeout_ns = 30ULL * SECOND_NS
	};
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	GUARDED(weft_peer) peer = { .canary = CANARY };
	struct weft_listener *listener;
	struct weft_request *request;

	MUST(weft_listener_open(far->adapter, &at, &listening, &listener) == WEFT_OK);
	MUST(weft_listener_address(listener, &at) == WEFT_OK && at.port != 0);
	MUST(weft_qp_dial(near->qp, &at, &dialling) == WEFT_OK);
	await(far, WEFT_EVENT_REQUEST);
	MUST(weft_listener_next(listener, &request) == WEFT_OK && request);
	MUST(weft_request_query(request, &peer.is) == WEFT_OK && peer.canary == CANARY);
	MUST(peer.is.private_bytes == 3 && memcmp(peer.is.private_data, "0.1", 3) == 0);
	MUST(weft_request_accept(request, far->qp, &dialling) == WEFT_OK);
	await(near, WEFT_EVENT_CONNECTED);
	await(far, WEFT_EVENT_CONNECTED);
	MUST(weft_listener_close(listener) == WEFT_OK);
}

static void use_iwarp(void)
{
	static struct side near, far;
	GUARDED(weft_traffic) traffic = { .canary = CANARY };
	GUARDED(weft_qp_attr) attr = { .canary = CANARY };

	side_open(&near, WEFT_RC);
	side_open(&far, WEFT_RC);
	use_memory(&near);
	connect_sides(&near, &far);
	use_requests(&far, &near);
	MUST(weft_qp_query(near.qp, &attr.is) == WEFT_OK && attr.canary == CANARY);
	MUST(attr.is.state == WEFT_QPS_RTS && attr.is.send_max == 16);
	attr.is.receiver_wait_ns = SECOND_NS;
	MUST(weft_qp_modify(near.qp, &attr.is, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	MUST(weft_qp_traffic(near.qp, &traffic.is) == WEFT_OK && traffic.canary == CANARY);
	MUST(traffic.is.messages_out >= 2 && traffic.is.reserved[7] == 0);
	side_close(&near);
	side_close(&far);
}

/* ---- Over UDP -------------------------------------------------------------------------------- */

static const struct weft_path to_itself = {
	.from = { .family = 4, .ip = { 127, 0, 0, 1 } },
	.to = { .family = 4, .ip = { 127, 0, 0, 1 } },
	.mtu_bytes = 1024,
	.hop_limit = 64,
};

static void use_datagrams(struct side *s)
{
	const struct weft_roce_attr roce = { .path = to_itself, .q_key = 5 };
	const struct weft_raw_options raw = { .next_header = 58 };
	const struct weft_sge sge = { .addr = (uintptr_t)s->memory, .length = 8, .tag = s->tag };
	const struct weft_sge sink = { .addr = (uintptr_t)s->memory + 64,
				       .length = 64,
				       .tag = s->tag };
	const struct weft_recv_wr recv = { .id = 41, .sges = &sink, .sge_count = 1 };
	struct weft_send_wr send = { .id = 42, .opcode = WEFT_OP_SEND, .sges = &sge };
	GUARDED(weft_roce_counts) counts = { .canary = CANARY };
	struct weft_ah *ah;

	MUST(weft_qp_to_rtr(s->qp, &roce) == WEFT_OK);
	MUST(weft_qp_to_rts(s->qp, &roce) == WEFT_OK);
	MUST(weft_qp_modify_roce(s->qp, &roce, WEFT_ROCE_Q_KEY) == WEFT_OK);
	MUST(weft_qp_to_raw(s->qp, &raw) == WEFT_R_RAW_CLOSED);
	MUST(weft_ah_create(s->pd, &to_itself, &ah) == WEFT_OK);
	send.ah = ah;
	send.sge_count = 1;
	send.dest_qp_number = weft_qp_number(s->qp);
	send.remote_q_key = 5;
	memcpy(s->memory, "weft 0.1", 8);
	MUST(weft_srq_post_recv(s->srq, &recv, 1, NULL) == WEFT_OK);
	MUST(weft_qp_post_send(s->qp, &send, 1, NULL) == WEFT_OK);
	MUST(completion_of(s).id == 41 && memcmp(s->memory + 64 + 40, "weft 0.1", 8) == 0);
	MUST(weft_roce_query(s->adapter, &counts.is) == WEFT_OK && counts.canary == CANARY);
	MUST(counts.is.messages_in == 1 && counts.is.reserved[7] == 0);
	MUST(weft_ah_destroy(ah) == WEFT_OK);
}

static void use_connection_manager(struct side *s)
{
	struct weft_cm_service_options serving = { .at = to_itself.to,
						   .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_cm_id_options asking = { .path = to_itself, .port_space = WEFT_PORT_SPACE_TCP };
	const struct weft_cm_id_offer offer = { .qp_number = weft_qp_number(s->qp),
						.psn = 7,
						.private_data = "0.1",
						.private_bytes = 3 };
	GUARDED(weft_cm_id_news) news = { .canary = CANARY };
	struct weft_cm_service *service;
	struct weft_cm_id *ours, *theirs = NULL;

	MUST(weft_cm_service_open(s->adapter, &serving, &service) == WEFT_OK);
	MUST(weft_cm_service_address(service, &asking.path.to) == WEFT_OK);
	MUST(weft_cm_id_open(s->adapter, &asking, &offer, &ours) == WEFT_OK);
	while (!theirs)
		MUST(weft_cm_service_next(service, NULL, &theirs) == WEFT_OK);
	MUST(weft_cm_id_next(theirs, &news.is) == WEFT_OK && news.canary == CANARY);
	MUST(news.is.kind == WEFT_CM_REQUEST && news.is.psn == 7);
	MUST(memcmp(news.is.private_data, "0.1", 3) == 0 && news.is.reserved[7] == 0);
	MUST(weft_cm_id_close(theirs) == WEFT_OK && weft_cm_id_close(ours) == WEFT_OK);
	MUST(weft_cm_service_close(service) == WEFT_OK);
}

static void use_roce(void)
{
	static struct side s;
	const struct weft_ee_options options = { .path = to_itself, .rdd = 3, .psn_send = 9 };
	GUARDED(weft_ee_attr) attr = { .canary = CANARY };
	struct weft_ee *ee;

	side_open(&s, WEFT_UD);
	use_datagrams(&s);
	use_connection_manager(&s);
	MUST(weft_ee_create(s.adapter, &options, &ee) == WEFT_OK);
	MUST(weft_ee_query(ee, &attr.is) == WEFT_OK && attr.canary == CANARY);
	MUST(attr.is.rdd == 3 && attr.is.number == weft_ee_number(ee));
	MUST(weft_ee_destroy(ee) == WEFT_OK);
	side_close(&s);
}

/* ---- Directed I/O ---------------------------------------------------------------------------- */

enum { REQUESTER, OWNER, IOUNIT, ROLES };

/* Who they are; each knows the others. */
static struct weft_rio_peer peers[ROLES];
static struct weft_rio_self selves[ROLES];

static void roles_know(void)
{
	for (uint32_t i = 0; i < ROLES; i++) {
		selves[i] = (struct weft_rio_self){
			.platform = { i + 1, 1 },
			.listen = { .family = 4, .ip = { 127, 0, 0, 1 } },
			.peers = peers,
			.peer_count = ROLES,
		};
		memset(selves[i].seed, (int)i + 1, sizeof(selves[i].seed));
		peers[i] = (struct weft_rio_peer){ .platform = selves[i].platform,
						   .role = (enum weft_rio_role)(i + 1) };
		weft_rio_public_key(selves[i].seed, peers[i].key);
	}
}

static void *iounit_run(void *iounit)
{
	MUST(weft_rio_iounit_run(iounit) == WEFT_OK);
	return NULL;
}

static void *owner_run(void *owner)
{
	MUST(weft_rio_owner_run(owner) == WEFT_OK);
	return NULL;
}

static void use_requester(struct weft_rio_requester *q, uint8_t memory[BYTES])
{
	GUARDED(weft_rio_device) device = { .canary = CANARY };
	GUARDED(weft_rio_result) result = { .canary = CANARY };
	GUARDED(weft_rio_traffic) traffic = { .canary = CANARY };
	struct weft_rio_member members[8];
	struct weft_rio_sge sge = { .memory = memory, .length = 512 };
	struct weft_rio_transaction both[2] = {
		{ .operation = WEFT_RIO_WRITE, .length = 512, .sges = &sge, .sge_count = 1 },
		{ .operation = WEFT_RIO_FLUSH },
	};
	const struct weft_rio_request request = { .transactions = both, .transaction_count = 2 };
	uint32_t count = 0;

	MUST(weft_rio_device_find(q, "disk", 30ULL * SECOND_NS, &device.is) == WEFT_OK);
	MUST(device.canary == CANARY && device.is.size_bytes == 1 << 20);
	MUST(weft_rio_memory_add(q, memory, BYTES, &sge.tag) == WEFT_OK);
	both[0].device = both[1].device = device.is.number;
	MUST(weft_rio_request_do(q, &request, &result.is) == WEFT_OK);
	MUST(result.canary == CANARY && result.is.done_bytes == 512);
	weft_rio_requester_traffic(q, &traffic.is);
	MUST(traffic.canary == CANARY && traffic.is.connections >= 1);
	MUST(weft_rio_requester_inquire(q, 30ULL * SECOND_NS, members, 8, &count) == WEFT_OK);
	MUST(count >= 4 && members[0].kind == WEFT_RIO_IS_OWNER && members[0].is_here);
	MUST(weft_rio_memory_remove(q, sge.tag) == WEFT_OK);
}

static void use_rio(void)
{
	static uint8_t memory[BYTES];
	const struct weft_rio_store disk = { .number = 1, .name = "disk", .text = "mem:1M" };
	const struct weft_rio_iounit_options unit = { .stores = &disk,
						      .store_count = 1,
						      .pieces_max = 4 };
	const struct weft_rio_rule rule = {
		.device = "disk", .operations = 1 << WEFT_RIO_WRITE | 1 << WEFT_RIO_FLUSH
	};
	const struct weft_rio_platform anyone = { 0, 0 };
	const struct weft_rio_owner_options owning = {
		.rules = &rule, .rule_count = 1, .watchers = &anyone, .watcher_count = 1
	};
	const struct weft_rio_requester_options asking = { .requests_max = 4, .sges_max = 16 };
	struct weft_rio_requester *requester;
	struct weft_rio_iounit *iounit;
	struct weft_rio_owner *owner;
	pthread_t threads[2];

	roles_know();
	MUST(weft_rio_iounit_open(&selves[IOUNIT], &unit, &iounit, NULL) == WEFT_OK);
	weft_rio_iounit_address(iounit, &peers[IOUNIT].address);
	MUST(weft_rio_owner_open(&selves[OWNER], &owning, &owner) == WEFT_OK);
	weft_rio_owner_address(owner, &peers[OWNER].address);
	MUST(weft_rio_requester_open(&selves[REQUESTER], &asking, &requester) == WEFT_OK);
	MUST(pthread_create(&threads[0], NULL, iounit_run, iounit) == 0);
	MUST(pthread_create(&threads[1], NULL, owner_run, owner) == 0);
	use_requester(requester, memory);
	weft_rio_requester_close(requester);
	weft_rio_owner_stop(owner);
	weft_rio_iounit_stop(iounit);
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
	weft_rio_owner_close(owner);
	weft_rio_iounit_close(iounit);
}

int main(void)
{
	MUST(WEFT_VERSION_MAJOR == 0 && WEFT_VERSION_MINOR == 1);
	MUST(weft_version_number() >= WEFT_VERSION_NUMBER);
	use_iwarp();
	use_roce();
	use_rio();
	puts("good");
	return 0;
}
