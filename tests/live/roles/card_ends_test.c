/* SPDX-License-Identifier: BSD-2-Clause */
/* A unit whose hosts are no programs of ours: they say what `weft card host` never says. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "own_network.h"
#include "roles/card_inside.h"

enum {
	A,
	B,
	A_AGAIN,
	ENDS,
	MESSAGES = 4,
	FRAME = 60,
	FRAME_MAX = 4000,
	NET = PUSH_NET_HEADER_BYTES
};

static const uint8_t mac_a[] = { 2, 0, 0, 0, 0, 0xa }, mac_b[] = { 2, 0, 0, 0, 0, 0xb };

struct unit {
	struct card_file file;
	struct card card;
	struct card_end ends[CARD_ENDS_MAX];
	uint8_t messages[ENDS][MESSAGES * PUSH_MSG_BYTES_MAX];
	uint64_t context;
	char socket[256];
};

/* Host a has no address in the unit's file, b has. */
static struct unit *unit_make(void)
{
	struct unit *u = calloc(1, sizeof(*u));
	struct config_complaint complaint;
	char text[1024], why[LAN_WHY] = "", key_a[65], key_b[65];

	REQUIRE(u != NULL);
	snprintf(u->socket, sizeof(u->socket), "%s/weft-card-%ld", harness_folder(),
		 (long)getpid());
	memset(key_a, 'a', 64);
	memset(key_b, 'b', 64);
	key_a[64] = key_b[64] = '\0';
	snprintf(text, sizeof(text),
		 "role card-unit\nlan socket:%s,listen\nhost a 3.1 %s\n"
		 "host b 3.2 %s 02:00:00:00:00:0b\n",
		 u->socket, key_a, key_b);
	REQUIRE(card_config_read(text, strlen(text), &u->file.config, &complaint));
	u->card.file = &u->file;
	u->card.is_unit = true;
	u->card.ends = u->ends;
	u->card.ends_used = ENDS;
	u->card.epoll = u->card.wake = -1;
	REQUIRE(card_frames_open(&u->card));
	MUST(push_lan_create(CARD_PEERS_MAX, &u->card.lan));
	MUST(lan_open(u->file.config->port.is, &u->card.port, why));
	return u;
}

static void unit_end(struct unit *u)
{
	for (int i = 0; i < ENDS; i++) {
		if (u->ends[i].link)
			push_link_destroy(u->ends[i].link);
	}
	lan_close(u->card.port);
	push_lan_destroy(u->card.lan);
	card_frames_close(&u->card);
	card_config_destroy(u->file.config);
	free(u);
}

/* A request of the host, and what the unit does about it. */
static void ask(struct unit *u, int nth, const struct push_cfg *cfg)
{
	const struct push_msg m = { .function = PUSH_CFG_REQUEST,
				    .context = ++u->context,
				    .cfg = *cfg };
	struct card_end *e = &u->ends[nth];
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct push_event event;
	struct push_act act;

	push_msg_encode(&m, &w);
	MUST(push_take(e->link, bytes, (size_t)(w.at - bytes), 1));
	while (push_event(e->link, &event)) {
		if (event.kind == PUSH_EVENT_ASKED_CFG)
			card_asked(e, event.cfg);
	}
	while (push_act(e->link, 1, &act))
		push_done(e->link, act.id, WEFT_OK, 1);
}

/* A host that is authenticated, and says hello. */
static void host_up(struct unit *u, int nth, const uint8_t *mac, uint64_t features)
{
	struct card_end *e = &u->ends[nth];
	struct push_cfg hello = { .kind = PUSH_HELLO };
	struct push_config config;

	*e = (struct card_end){ .card = &u->card, .state = CARD_UP, .peer = nth == B };
	push_config_init(&config, PUSH_UNIT, PUSH_MODE_RDMA);
	card_hello(&u->card, &config.hello);
	config.packets_max = CARD_FRAMES;
	config.sends_max = MESSAGES;
	config.messages = u->messages[nth];
	config.ping_after_ns = UINT64_MAX;
	MUST(push_link_create(&config, &e->link));
	push_up(e->link, 1);
	push_config_init(&config, PUSH_HOST, PUSH_MODE_RDMA);
	hello.hello = config.hello;
	hello.hello.features = features;
	memcpy(hello.hello.mac, mac, PUSH_MAC_BYTES);
	ask(u, nth, &hello);
}

/* A packet of host a for this address, with this header. */
static void packet_to(struct unit *u, const uint8_t *to, const struct virtio_net *net,
		      uint32_t frame_bytes)
{
	uint8_t bytes[NET + FRAME_MAX] = { 0 };
	const struct push_event event = { .kind = PUSH_EVENT_PACKET,
					  .bytes = bytes,
					  .length = NET + frame_bytes };

	virtio_net_encode(net, bytes);
	memcpy(bytes + NET, to, sizeof(mac_b));
	memcpy(bytes + NET + sizeof(mac_b), mac_a, sizeof(mac_a));
	bytes[NET + 12] = 8; /* IPv4 */
	card_packet_came(&u->ends[A], &event);
}

static void packet(struct unit *u, const struct virtio_net *net)
{
	packet_to(u, mac_b, net, FRAME);
}

static uint32_t waits_for_b(const struct unit *u)
{
	struct push_view v;

	push_view(u->ends[B].link, &v);
	return v.waiting;
}

TEST(test_push_14_a_header_that_lies_reaches_no_other_host)
{
	static const struct virtio_net good, lies[] = {
		{ .flags = VIRTIO_NET_NEEDS_CSUM, .csum_start = 60000 },
		{ .flags = VIRTIO_NET_NEEDS_CSUM, .csum_start = 14, .csum_offset = 65535 },
		{ .flags = VIRTIO_NET_NEEDS_CSUM,
		  .csum_start = 34,
		  .csum_offset = 16,
		  .gso_type = VIRTIO_NET_GSO_TCPV4 },
		{ .gso_type = VIRTIO_NET_GSO_TCPV4, .gso_size = 100 },
		{ .gso_type = 9, .gso_size = 100 }
	};
	enum { LIES = sizeof(lies) / sizeof(lies[0]) };

	/* Host b completes nothing by itself: the unit does so for it. */
	for (int has_offload = 0; has_offload < 2; has_offload++) {
		struct unit *u = unit_make();

		host_up(u, A, mac_a, PUSH_FEATURES);
		host_up(u, B, mac_b, has_offload ? PUSH_FEATURES : 0);
		for (int i = 0; i < LIES; i++)
			packet(u, &lies[i]);
		EXPECT_EQ(waits_for_b(u), 0);
		EXPECT_EQ(u->card.counts.dropped_foreign, LIES);
		EXPECT_EQ(u->card.free_frame_count, CARD_FRAMES);
		packet(u, &good);
		EXPECT_EQ(waits_for_b(u), 1);
		unit_end(u);
	}
}

static void peer_connect(struct unit *u, int peer)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", u->socket);
	REQUIRE(connect(peer, (const void *)&at, sizeof(at)) == 0);
	(void)card_port_take(&u->card);
	REQUIRE(lan_properties(u->card.port)->is_up);
}

/*
 * A frame for all stations, whose checksum is left to its receivers, and a LAN that takes none so:
 * what waits for host b is the same frame, and its header says whether its checksum is complete.
 */
TEST(test_push_02_push_05_a_checksum_is_complete_for_hosts_and_lan_or_for_neither)
{
	static const uint8_t everyone[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	static const struct virtio_net left = { .flags = VIRTIO_NET_NEEDS_CSUM,
						.csum_start = 34,
						.csum_offset = 6 };
	enum { FIELD = 34 + 6 };
	struct unit *u = unit_make();
	int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	uint8_t got[4 + FRAME];
	uint32_t n = 0;

	host_up(u, A, mac_a, PUSH_FEATURES);
	host_up(u, B, mac_b, PUSH_FEATURES);
	peer_connect(u, peer);
	packet_to(u, everyone, &left, FRAME);
	MUST_EQ(waits_for_b(u), 1);
	MUST_EQ(read(peer, got, sizeof(got)), sizeof(got));
	EXPECT(got[4 + FIELD] == 0xff && got[4 + FIELD + 1] == 0xff); /* of zeroes */
	while (n < CARD_FRAMES - 1 && u->card.frames[n].users == 0)
		n++;
	EXPECT_EQ(u->card.frames[n].bytes[0], 0);
	EXPECT_MEM(u->card.frames[n].bytes + NET, got + 4, FRAME);
	close(peer);
	unit_end(u);
}

/* Host b takes none of its frames: it holds no more buffers of the unit than are free. */
TEST(test_push_05_push_24_no_host_has_all_buffers_of_the_unit)
{
	static const struct virtio_net good;
	struct unit *u = unit_make();

	host_up(u, A, mac_a, PUSH_FEATURES);
	host_up(u, B, mac_b, PUSH_FEATURES);
	for (uint32_t i = 0; i < 2 * CARD_FRAMES; i++)
		packet(u, &good);
	EXPECT_EQ(u->ends[B].frames_held, CARD_FRAMES / 2);
	EXPECT_EQ(waits_for_b(u), CARD_FRAMES / 2);
	EXPECT_EQ(u->card.free_frame_count, CARD_FRAMES / 2);
	EXPECT_EQ(u->ends[B].dropped_greedy, 2 * CARD_FRAMES - CARD_FRAMES / 2);
	EXPECT_EQ(u->card.counts.dropped_busy, 0);
	unit_end(u);
}

/* A guest of host b would not look at the checksum. */
TEST(test_push_05_a_host_cannot_say_that_a_checksum_was_found_good)
{
	enum { COALESCED = 4 /* of virtio-net, from a device only */ };
	static const struct virtio_net header = { .flags = VIRTIO_NET_DATA_VALID | COALESCED };
	struct unit *u = unit_make();
	uint32_t n = 0;

	host_up(u, A, mac_a, PUSH_FEATURES);
	host_up(u, B, mac_b, PUSH_FEATURES);
	packet(u, &header);
	MUST_EQ(waits_for_b(u), 1);
	while (n < CARD_FRAMES - 1 && u->card.frames[n].users == 0)
		n++;
	EXPECT_EQ(u->card.frames[n].users, 1);
	EXPECT_EQ(u->card.frames[n].bytes[0], 0);
	unit_end(u);
}

/* virtio-net's header, and all that needs it, are agreed on one by one. */
TEST(test_push_09_what_a_host_has_not_agreed_to_is_completed)
{
	static const struct virtio_net left = { .flags = VIRTIO_NET_NEEDS_CSUM,
						.csum_start = 34,
						.csum_offset = 6 };

	for (int has_csum = 0; has_csum < 2; has_csum++) {
		struct unit *u = unit_make();
		uint32_t n = 0;

		host_up(u, A, mac_a, PUSH_FEATURES);
		host_up(u, B, mac_b,
			PUSH_FEATURE_NET_HEADER | (has_csum ? PUSH_FEATURE_GUEST_CSUM : 0));
		packet(u, &left);
		MUST_EQ(waits_for_b(u), 1);
		while (n < CARD_FRAMES - 1 && u->card.frames[n].users == 0)
			n++;
		EXPECT_EQ(u->card.frames[n].bytes[0], has_csum ? VIRTIO_NET_NEEDS_CSUM : 0);
		EXPECT_EQ(u->card.frames[n].bytes[NET + 40], has_csum ? 0 : 0xff);
		unit_end(u);
	}
}

/* Of 1500 bytes and two headers is the longest, where segments are not left to the host. */
TEST(test_push_24_frames_that_are_too_long_for_a_host_are_counted)
{
	static const struct virtio_net complete;
	struct unit *u = unit_make();
	size_t length;
	char *shown;

	host_up(u, A, mac_a, PUSH_FEATURES);
	host_up(u, B, mac_b, 0);
	packet_to(u, mac_b, &complete, 1518);
	EXPECT_EQ(waits_for_b(u), 1);
	packet_to(u, mac_b, &complete, 1519);
	packet_to(u, mac_b, &complete, FRAME_MAX);
	EXPECT_EQ(waits_for_b(u), 1);
	shown = card_report(&u->card, &length);
	REQUIRE(shown != NULL);
	EXPECT(strstr(shown, " too_long=2 ") != NULL);
	free(shown);
	unit_end(u);
}

TEST(test_push_05_a_connection_that_is_over_takes_nothing_from_the_next)
{
	const struct push_cfg filter = { .kind = PUSH_SET_FILTER,
					 .filter = { .flags = PUSH_FILTER_ALL_GROUPS } };
	struct unit *u = unit_make();
	uint8_t frame[FRAME] = { 0 };
	const struct push_data of_lan = { frame, sizeof(frame) };
	struct push_lan_route route;
	uint32_t host = PUSH_LAN_WIRE;

	host_up(u, A, mac_a, 0);
	u->ends[A].state = CARD_DYING; /* what was posted is not flushed yet */
	host_up(u, A_AGAIN, mac_a, 0);
	card_closed(&u->ends[A]);
	ask(u, A_AGAIN, &filter);
	memcpy(frame, mac_a, sizeof(mac_a));
	MUST(push_lan_route(u->card.lan, PUSH_LAN_WIRE, &of_lan, &route));
	EXPECT(push_lan_next(u->card.lan, &route, &host));
	EXPECT_EQ(host, 0);
	card_closed(&u->ends[A_AGAIN]);
	MUST(push_lan_route(u->card.lan, PUSH_LAN_WIRE, &of_lan, &route));
	EXPECT(!push_lan_next(u->card.lan, &route, &host));
	unit_end(u);
}

TEST(test_push_05_no_host_takes_an_address_that_is_kept_for_another)
{
	struct push_cfg mac = { .kind = PUSH_SET_MAC };
	struct unit *u = unit_make();

	host_up(u, A, mac_b, 0);
	EXPECT_EQ(push_link_state(u->ends[A].link), PUSH_GREETING);
	push_link_destroy(u->ends[A].link);
	host_up(u, A, mac_a, 0);
	memcpy(mac.mac, mac_b, sizeof(mac_b));
	ask(u, A, &mac);
	EXPECT(memcmp(push_agreed(u->ends[A].link)->mac, mac_a, sizeof(mac_a)) == 0);
	host_up(u, B, mac_a, 0);
	EXPECT_EQ(push_link_state(u->ends[B].link), PUSH_OPEN);
	EXPECT(memcmp(push_agreed(u->ends[B].link)->mac, mac_b, sizeof(mac_b)) == 0);
	unit_end(u);
}

struct lines {
	uint32_t count;
	char last[512];
};

static void line_take(void *context, const char *line)
{
	struct lines *l = context;

	l->count++;
	snprintf(l->last, sizeof(l->last), "%s", line);
}

/* A host that asks for an address of another one again and again. */
TEST(test_push_09_refused_addresses_do_not_flood_the_log)
{
	enum { ASKED = 100, SECOND_NS = 1000000000 };
	struct push_cfg mac = { .kind = PUSH_SET_MAC };
	struct unit *u = unit_make();
	struct lines lines = { 0 };
	size_t length;
	char *shown;

	host_up(u, A, mac_a, 0);
	u->card.options = (struct card_options){ line_take, &lines };
	u->card.now_ns = SECOND_NS;
	memcpy(mac.mac, mac_b, sizeof(mac_b));
	for (uint32_t i = 0; i < ASKED; i++)
		ask(u, A, &mac);
	EXPECT_EQ(lines.count, LINES_A_SECOND);
	EXPECT(strstr(lines.last, "a asked for set MAC: refused: ") != NULL);
	EXPECT_EQ(card_lines_expire(&u->card), 2 * (uint64_t)SECOND_NS);
	u->card.now_ns = 2 * (uint64_t)SECOND_NS;
	EXPECT_EQ(card_lines_expire(&u->card), UINT64_MAX);
	EXPECT_EQ(lines.count, LINES_A_SECOND + 1);
	EXPECT_STR(lines.last, "80 more lines about requests in that second");
	/* Lines of another kind are not kept from the log by these. */
	card_tell(&u->card, CARD_LINE_LINK, "here");
	EXPECT_STR(lines.last, "here");
	shown = card_report(&u->card, &length);
	REQUIRE(shown != NULL);
	EXPECT(strstr(shown, " refused_requests=100 untold=80 ") != NULL);
	free(shown);
	unit_end(u);
}

/* The port says so where frames of the LAN are looked for; nothing else may happen then. */
TEST(test_push_02_push_24_what_is_held_goes_when_the_port_has_room)
{
	static const uint8_t mac_lan[] = { 2, 0, 0, 0, 0, 0xc };
	static const struct virtio_net good;
	struct unit *u = unit_make();
	uint8_t bytes[4096];
	int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	host_up(u, A, mac_a, PUSH_FEATURES);
	peer_connect(u, peer);
	for (int i = 0; i < 1 << 16 && u->card.held_count == 0; i++)
		packet_to(u, mac_lan, &good, FRAME);
	EXPECT_EQ(u->card.held_count, 1);
	(void)card_port_take(&u->card);
	EXPECT(u->card.is_port_full);
	while (read(peer, bytes, sizeof(bytes)) > 0)
		continue;
	(void)card_port_take(&u->card);
	EXPECT(!u->card.is_port_full);
	EXPECT_EQ(u->card.held_count, 0);
	EXPECT_EQ(u->card.free_frame_count, CARD_FRAMES);
	close(peer);
	unit_end(u);
}

/* A host that has advertised one element of 256 bytes. */
static void advertise(struct card_end *e)
{
	const struct push_pool pool = { .handle = 1, .elements = 1, .element_bytes = 256 };
	struct push_msg m = { .function = PUSH_RECV_POOL, .context = 1 };
	uint8_t entry[PUSH_POOL_BYTES], bytes[PUSH_MSG_BYTES_MAX];
	struct wr into = wr_of(entry, sizeof(entry)), w = wr_of(bytes, sizeof(bytes));

	push_pool_put(&pool, &into);
	m.pools.count = 1;
	m.pools.bytes = entry;
	push_msg_encode(&m, &w);
	MUST(push_take(e->link, bytes, (size_t)(w.at - bytes), 1));
}

/* Once, after two seconds; and that it goes on. */
TEST(test_push_24_a_host_that_returns_no_element_is_named)
{
	static const struct virtio_net good;
	const uint64_t since_ns = 1, long_ns = UINT64_C(2000000000);
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[B];
	struct lines lines = { 0 };
	uint64_t at_ns = since_ns;
	struct push_act act;
	size_t length;
	char *shown;

	host_up(u, A, mac_a, PUSH_FEATURES);
	host_up(u, B, mac_b, PUSH_FEATURES);
	e->deadline_ns = UINT64_MAX;
	u->card.options = (struct card_options){ line_take, &lines };
	packet(u, &good);
	/* Until none of its messages is free, the link asks for elements. */
	do {
		EXPECT(push_act(e->link, at_ns, &act));
		at_ns = push_due(e->link);
	} while (at_ns != UINT64_MAX);
	u->card.now_ns = since_ns + long_ns - 1;
	EXPECT_EQ(card_end_expire(e), since_ns + long_ns);
	EXPECT_EQ(lines.count, 0);
	u->card.now_ns++;
	EXPECT_EQ(card_end_expire(e), UINT64_MAX);
	EXPECT_STR(lines.last, "b takes no packets: 1 wait for an element");
	u->card.now_ns += long_ns;
	(void)card_end_expire(e);
	EXPECT_EQ(lines.count, 1);
	shown = card_report(&u->card, &length);
	REQUIRE(shown != NULL);
	EXPECT(strstr(shown, " waiting=1 waits_ms=4000 ") != NULL);
	free(shown);
	advertise(e);
	EXPECT(push_act(e->link, u->card.now_ns, &act) && act.kind == PUSH_ACT_WRITE);
	(void)card_end_expire(e);
	EXPECT_EQ(lines.count, 2);
	EXPECT_STR(lines.last, "b takes packets again");
	/* What waits at the end is over, and was not taken. */
	packet(u, &good);
	EXPECT(!push_act(e->link, u->card.now_ns, &act));
	u->card.now_ns += long_ns;
	(void)card_end_expire(e);
	push_end(e->link, u->card.now_ns);
	(void)card_end_expire(e);
	EXPECT_EQ(lines.count, 3);
	EXPECT_STR(lines.last, "b takes no packets: 1 wait for an element");
	unit_end(u);
}

/* Who looks at the unit's state has it ask; what the host answers stands in the next report. */
TEST(test_push_16h_a_report_asks_what_a_host_has_counted)
{
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[A];
	struct push_msg asked = { 0 };
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct push_event event;
	struct push_act act;
	size_t length;
	char *shown;

	host_up(u, A, mac_a, PUSH_FEATURES);
	card_say(e);
	EXPECT(!push_act(e->link, 1, &act));
	shown = card_report(&u->card, &length);
	REQUIRE(shown != NULL);
	EXPECT(strstr(shown, "peer_age_ms") == NULL);
	free(shown);
	card_say(e);
	EXPECT(push_act(e->link, 1, &act) && act.kind == PUSH_ACT_SEND);
	MUST(push_msg_decode(&asked, act.bytes, act.length));
	EXPECT(asked.function == PUSH_CFG_REQUEST && asked.cfg.kind == PUSH_STATISTICS);
	push_done(e->link, act.id, WEFT_OK, 1);
	asked.function = PUSH_CFG_REPLY;
	asked.cfg.statistics = (struct push_statistics){ .packets_in = 7, .dropped = 3 };
	push_msg_encode(&asked, &w);
	u->card.now_ns = UINT64_C(5000000);
	MUST(push_take(e->link, bytes, (size_t)(w.at - bytes), 1));
	EXPECT(push_event(e->link, &event) && event.kind == PUSH_EVENT_ANSWER);
	card_answered(e, event.cfg);
	u->card.now_ns *= 2;
	shown = card_report(&u->card, &length);
	REQUIRE(shown != NULL);
	EXPECT(strstr(shown, " peer_age_ms=5 peer_packets_in=7 ") != NULL);
	EXPECT(strstr(shown, " peer_dropped=3 ") != NULL);
	free(shown);
	unit_end(u);
}

/* The host writes a packet, and flushes the pool before the LAN has taken it. */
TEST(test_push_17_a_pool_is_flushed_while_its_packets_wait)
{
	static uint8_t memory[2 * 256], pool[] = { 0, 0, 0, 0 };
	const struct push_pool_config own = { .memory = memory,
					      .elements = 2,
					      .element_bytes = 256 };
	const struct push_immediate used = { .element_bytes = 256 };
	const struct push_msg release = { .function = PUSH_RELEASE_REQUEST,
					  .references = { .bytes = pool, .count = 1 } };
	struct card_packet waiting[2];
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[A];
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct push_act act;
	uint32_t index;

	host_up(u, A, mac_a, 0);
	e->to_say = 0;
	e->waiting = waiting;
	e->element_count = 2;
	MUST(push_pool_open(e->link, &own, &index));
	while (push_act(e->link, 1, &act)) {
		if (act.kind == PUSH_ACT_REGISTER)
			push_registered(e->link, act.id, WEFT_OK, 1);
		else
			push_done(e->link, act.id, WEFT_OK, 1);
	}
	MUST(push_written(e->link, push_immediate_encode(&used), FRAME, 1));
	(void)card_end_work(e);
	EXPECT_EQ(e->waiting_count, 1);
	push_msg_encode(&release, &w);
	MUST(push_take(e->link, bytes, (size_t)(w.at - bytes), 1));
	while (push_act(e->link, 1, &act))
		push_done(e->link, act.id, WEFT_OK, 1);
	(void)card_end_work(e);
	EXPECT(card_packets_give(e));
	EXPECT_EQ(e->waiting_count, 0);
	EXPECT_EQ(u->card.free_frame_count, CARD_FRAMES);
	unit_end(u);
}

/* A queue pair in RESET, where it takes no request. */
struct adapter {
	struct weft_adapter *is;
	struct weft_pd *pd;
	struct weft_cq *cq;
};

static void qp_open(struct adapter *a, struct card_end *e)
{
	struct weft_qp_options options = {
		.service = WEFT_RC, .send_max = 2, .recv_max = 1, .sges_max = 1
	};

	MUST(weft_adapter_open(NULL, &a->is));
	MUST(weft_pd_create(a->is, NULL, &a->pd));
	MUST(weft_cq_create(a->is, NULL, &a->cq));
	options.send_cq = options.recv_cq = a->cq;
	rdma_end_init(&e->rdma, RDMA_IWARP);
	MUST(weft_qp_create(a->pd, &options, &e->qp));
}

static void qp_close(struct adapter *a, struct card_end *e)
{
	MUST(weft_qp_destroy(e->qp));
	MUST(weft_cq_destroy(a->cq));
	MUST(weft_pd_destroy(a->pd));
	MUST(weft_adapter_close(a->is));
}

TEST(test_push_24_a_request_that_a_queue_pair_does_not_take_is_over)
{
	static const struct push_msg ask_it = { .function = PUSH_CFG_REQUEST,
						.cfg = { .kind = PUSH_PING } };
	static uint8_t buffers[MESSAGES * CARD_MESSAGE_BYTES];
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[A];
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct adapter adapter;

	host_up(u, A, mac_a, 0);
	qp_open(&adapter, e);
	e->messages = u->messages[A];
	e->buffers = buffers;
	e->to_say = 0;
	push_msg_encode(&ask_it, &w);
	MUST(push_take(e->link, bytes, (size_t)(w.at - bytes), 1));
	(void)card_end_work(e);
	EXPECT_EQ(e->state, CARD_DYING);
	EXPECT_EQ(push_link_state(e->link), PUSH_ENDED);
	qp_close(&adapter, e);
	unit_end(u);
}

/* A Write of no bytes needs no handle, so a peer can make one before it has proved its key. */
TEST(test_push_05_writes_before_the_greeting_is_over_win_no_time)
{
	const struct weft_completion write = { .id = CARD_WORK_RECEIVE,
					       .status = WEFT_SUCCESS,
					       .opcode = WEFT_OP_RECV_WRITE_IMM };
	static uint8_t buffers[MESSAGES * CARD_MESSAGE_BYTES];
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[A];
	struct adapter adapter;

	*e = (struct card_end){ .card = &u->card,
				.buffers = buffers,
				.state = CARD_GREETING,
				.posted_receives = 1,
				.deadline_ns = 5 };
	qp_open(&adapter, e);
	card_end_completed(e, &write);
	EXPECT_EQ(e->deadline_ns, 5);
	qp_close(&adapter, e);
	unit_end(u);
}

/* Sockets and guests: two of them share a unit. */
TEST(test_push_09_hosts_whose_ports_have_no_address_have_one_each)
{
	static const struct platform platforms[] = { { 3, 1 }, { 3, 2 }, { 4, 1 } };
	struct unit *u = unit_make();
	struct push_hello hellos[3] = { 0 };

	u->card.is_unit = false;
	for (int i = 0; i < 3; i++) {
		u->file.config->self = platforms[i];
		card_hello(&u->card, &hellos[i]);
		EXPECT_EQ(hellos[i].mac[0], 2);
		for (int k = 0; k < i; k++)
			EXPECT(memcmp(hellos[k].mac, hellos[i].mac, PUSH_MAC_BYTES) != 0);
	}
	unit_end(u);
}

/* No host of ours asks for one: the unit's port carries no longer ones. */
TEST(test_push_09_a_host_cannot_have_longer_frames_than_the_lan)
{
	struct push_cfg longer = { .kind = PUSH_SET_MTU, .mtu = 1501 };
	struct unit *u = unit_make();

	host_up(u, A, mac_a, 0);
	ask(u, A, &longer);
	EXPECT_EQ(push_agreed(u->ends[A].link)->mtu, 1500);
	EXPECT_EQ(u->card.counts.refused_requests, 1);
	longer.mtu = 1400;
	ask(u, A, &longer);
	EXPECT_EQ(push_agreed(u->ends[A].link)->mtu, 1400);
	longer.mtu = 1500;
	ask(u, A, &longer);
	EXPECT_EQ(push_agreed(u->ends[A].link)->mtu, 1500);
	EXPECT_EQ(u->card.counts.refused_requests, 1);
	unit_end(u);
}

/* The host is told to stop while it waits for channel 1 of Send mode, which comes up just then. */
TEST(test_push_07_a_host_that_stops_takes_no_second_connection)
{
	const struct weft_event connected = { .kind = WEFT_EVENT_CONNECTED };
	struct unit *u = unit_make();
	struct card_end *e = &u->ends[A];
	struct push_config config;

	*e = (struct card_end){ .card = &u->card, .state = CARD_UP };
	push_config_init(&config, PUSH_HOST, PUSH_MODE_SEND);
	config.messages = u->messages[A];
	MUST(push_link_create(&config, &e->link));
	rdma_end_init(&e->data.rdma, RDMA_IWARP);
	e->data.rdma.state = RDMA_CONNECTING;
	e->data.rdma.is_active = true;
	push_end(e->link, 1);
	card_data_event(e, &connected);
	EXPECT_EQ(push_link_state(e->link), PUSH_ENDING);
	unit_end(u);
}

/* As a TAP interface of a user: it has another address than the unit gives, and no frame passes. */
TEST(test_push_09_an_address_that_cannot_be_set_is_told)
{
	const char *why_not = own_network_enter();
	struct unit *u;
	struct card_end *e;
	struct lines lines = { 0 };
	char why[LAN_WHY] = "";

	if (why_not)
		SKIP(why_not);
	u = unit_make();
	e = &u->ends[A];
	host_up(u, A, mac_a, 0);
	lan_close(u->card.port);
	MUST(lan_open("packet:lo", &u->card.port, why));
	u->card.is_unit = false;
	u->card.options = (struct card_options){ line_take, &lines };
	card_opened(e);
	EXPECT(strstr(lines.last, " cannot have this MAC address: ") != NULL);
	EXPECT_EQ(lines.count, 2);
	EXPECT_EQ(lan_properties(u->card.port)->mtu, push_agreed(e->link)->mtu);
	unit_end(u);
}

/* What the LAN of a unit carried once does not bind the host for ever. */
TEST(test_push_09_a_host_has_longer_frames_again_when_its_next_unit_agrees)
{
	struct push_cfg shorter = { .kind = PUSH_SET_MTU, .mtu = 1300 };
	struct unit *u = unit_make();
	struct push_hello hello = { 0 };

	host_up(u, A, mac_a, 0);
	ask(u, A, &shorter);
	u->card.is_unit = false;
	card_opened(&u->ends[A]);
	EXPECT_EQ(lan_properties(u->card.port)->mtu, 1300);
	card_hello(&u->card, &hello);
	EXPECT_EQ(hello.mtu, 1500);
	/* Twice shorter, it is still the unit that says so. */
	u->card.is_unit = true;
	shorter.mtu = 1200;
	ask(u, A, &shorter);
	u->card.is_unit = false;
	card_opened(&u->ends[A]);
	EXPECT_EQ(lan_properties(u->card.port)->mtu, 1200);
	card_hello(&u->card, &hello);
	EXPECT_EQ(hello.mtu, 1500);
	/* But what its own user sets, holds. */
	MUST(lan_set_mtu(u->card.port, 1400));
	card_hello(&u->card, &hello);
	EXPECT_EQ(hello.mtu, 1400);
	unit_end(u);
}
