/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connections of a part of a fabric (roles/fabric_trunks.h), at the other end of which is a
 * part that has a key, and tells what it likes.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cursor.h"
#include "driver/sys/clock.h"
#include "driver/sys/socket.h"
#include "fabric/along.h"
#include "fabric/node.h"
#include "rio/names.h"
#include "roles/fabric_trunks.h"
#include "roles/key_file.h"
#include "test.h"

static const char topology_text[] =
	"Switch 4 \"S1\"\n[1] \"H1\"[1]\n[2] \"S2\"[2]\n[3] \"S3\"[3]\n\n"
	"Switch 4 \"S2\"\n[1] \"H2\"[1]\n\nSwitch 4 \"S3\"\n\n"
	"Hca 1 \"H1\"\n\nHca 1 \"H2\"\n";
/* Cables in the order of their first ends. */
enum { OF_H1 = 0, TO_B = 1, TO_C = 2, OF_H2 = 3, S1 = 0, PATIENCE_MS = 20000 };

static const uint64_t patience_ns = UINT64_C(20000000000);

struct bed {
	char folder[64], parts[128];
	struct topology t;
	struct fabric_cut a, b, c;
	struct fabric *fabric;
	struct fabric_trunks *trunks;
	char said[4096];
	uint64_t begin_ns;
	uint64_t now_ns; /* of the last turn */
	bool is_still;	 /* time goes on by time_pass() alone */
};

static void hear(void *context, const char *line)
{
	struct bed *b = context;
	size_t at = strlen(b->said);

	(void)snprintf(b->said + at, sizeof(b->said) - at, "%s\n", line);
}

/* ---- Two parts, and a third ----------------------------------------------------------------- */

static uint16_t port_free(void)
{
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } }, found;
	int fd;

	MUST(socket_listen(&at, &fd));
	socket_addresses(fd, &found, NULL);
	socket_close(fd, false);
	return found.port;
}

static void key_make(const struct bed *b, const char *name, char text[RIO_KEY_DIGITS + 1])
{
	char path[160], why[KEY_FILE_WHY];
	uint8_t key[RIO_KEY_BYTES];

	(void)snprintf(path, sizeof(path), "%s/%s.key", b->folder, name);
	REQUIRE(key_file_make(path, key, why));
	rio_key_write(key, text);
}

static void cut_open(const struct bed *b, const char *name, struct fabric_cut *c)
{
	const struct fabric_cut_files files = { .parts = b->parts, .name = name };
	char why[CONFIG_FILE_WHY] = "";

	if (!fabric_cut_open(c, &b->t, &files, why))
		harness_note("%s", why);
	REQUIRE(c->parts);
}

static void files_make(struct bed *b)
{
	char keys[3][RIO_KEY_DIGITS + 1];
	uint32_t line;
	FILE *to;

	(void)snprintf(b->folder, sizeof(b->folder), "/tmp/trunk-test-XXXXXX");
	REQUIRE(mkdtemp(b->folder));
	(void)snprintf(b->parts, sizeof(b->parts), "%s/parts", b->folder);
	key_make(b, "a", keys[0]);
	key_make(b, "b", keys[1]);
	key_make(b, "c", keys[2]);
	to = fopen(b->parts, "w");
	REQUIRE(to);
	fprintf(to, "part a %s 127.0.0.1:%u\npart b %s\npart c %s\n", keys[0], port_free(), keys[1],
		keys[2]);
	fputs("nodes a S1\nnodes a H1\nnodes c S3\nnodes b *\n", to);
	REQUIRE(fclose(to) == 0);
	MUST(topology_parse(&b->t, topology_text, sizeof(topology_text) - 1, &line));
	cut_open(b, "a", &b->a);
	cut_open(b, "b", &b->b);
	cut_open(b, "c", &b->c);
}

static void bed_open(struct bed *b)
{
	struct fabric_cfg cfg = fabric_cfg_live();
	struct fabric_trunks_config config = { .tell = hear, .context = b, .cut = &b->a };

	memset(b, 0, sizeof(*b));
	b->begin_ns = clock_ns();
	files_make(b);
	cfg.linear_max = 64;
	cfg.are_here = b->a.are_here;
	MUST(fabric_open(&b->t, &cfg, &b->fabric));
	config.fabric = b->fabric;
	MUST(fabric_trunks_open(&config, &b->trunks));
}

static void bed_close(struct bed *b)
{
	static const char *const names[] = { "a.key", "b.key", "c.key", "parts" };
	char path[160];

	fabric_trunks_close(b->trunks);
	fabric_close(b->fabric);
	fabric_cut_close(&b->a);
	fabric_cut_close(&b->b);
	fabric_cut_close(&b->c);
	topology_fini(&b->t);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", b->folder, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(b->folder);
}

static void turn(struct bed *b)
{
	if (!b->is_still)
		b->now_ns = clock_ns() - b->begin_ns;
	(void)fabric_trunks_expire(b->trunks, b->now_ns);
	(void)fabric_trunks_take(b->trunks, b->now_ns);
	fabric_run(b->fabric, b->now_ns);
	(void)fabric_trunks_send(b->trunks);
}

/* From here on; then there are deadlines that have passed. */
static void time_pass(struct bed *b, uint64_t ns)
{
	b->is_still = true;
	b->now_ns += ns;
	turn(b);
	turn(b);
}

static void await_said(struct bed *b, const char *what)
{
	uint64_t until_ns = clock_ns() + patience_ns;

	while (!strstr(b->said, what) && clock_ns() < until_ns)
		turn(b);
	if (!strstr(b->said, what))
		harness_note("said: %s", b->said);
	REQUIRE(strstr(b->said, what));
}

static enum sm_port_state state_of(struct bed *b, uint32_t port)
{
	return fabric_node_at(b->fabric, S1)->ports[port].info.state;
}

/* ---- The other end -------------------------------------------------------------------------- */

struct liar {
	int fd;
	struct rio_handshake handshake;
	struct rio_session session;
};

static void bytes_send(struct liar *l, const uint8_t *bytes, size_t length)
{
	uint8_t head[TRUNK_LENGTH_BYTES];
	struct wr w = wr_of(head, sizeof(head));

	wr_u32(&w, (uint32_t)length);
	REQUIRE(write(l->fd, head, sizeof(head)) == sizeof(head));
	REQUIRE(write(l->fd, bytes, length) == (ssize_t)length);
}

static void exactly(struct bed *b, struct liar *l, uint8_t *bytes, size_t length)
{
	uint64_t until_ns = clock_ns() + patience_ns;

	for (size_t at = 0; at < length;) {
		ssize_t n = read(l->fd, bytes + at, length - at);

		REQUIRE(n != 0 && clock_ns() < until_ns);
		if (n > 0)
			at += (size_t)n;
		else
			turn(b);
	}
}

static size_t record_take(struct bed *b, struct liar *l, uint8_t bytes[TRUNK_RECORD_MAX])
{
	uint8_t head[TRUNK_LENGTH_BYTES];
	struct rd r = rd_of(head, sizeof(head));
	size_t length;

	exactly(b, l, head, sizeof(head));
	length = rd_u32(&r);
	REQUIRE(length > 0 && length <= TRUNK_RECORD_MAX);
	exactly(b, l, bytes, length);
	return length;
}

/* Greets as that part would. */
static void liar_open(struct bed *b, struct liar *l, const struct fabric_cut *as)
{
	static const struct rio_address nowhere;
	static uint8_t bytes[TRUNK_RECORD_MAX];
	uint8_t random[RIO_SEED_BYTES];
	size_t length;

	REQUIRE(getrandom(random, sizeof(random), 0) == sizeof(random));
	MUST(socket_connect(&b->a.parts->parts[0].address, NULL, &l->fd));
	rio_handshake_dial(&l->handshake, &as->identity, &as->parts->known[0], &nowhere, random);
	for (;;) {
		while ((length = rio_handshake_say(&l->handshake, bytes)) > 0) {
			struct pollfd p = { .fd = l->fd, .events = POLLOUT };

			REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
			bytes_send(l, bytes, length);
		}
		if (rio_handshake_is_done(&l->handshake))
			break;
		length = record_take(b, l, bytes);
		MUST(rio_handshake_take(&l->handshake, bytes, length));
	}
	l->session = l->handshake.greet.session;
}

static void liar_close(struct liar *l)
{
	rio_handshake_fini(&l->handshake);
	socket_close(l->fd, false);
}

static void sealed_send(struct liar *l, const uint8_t *from, size_t length)
{
	uint8_t bytes[1024];

	memcpy(bytes, from, length);
	bytes_send(l, bytes, rio_session_tail(&l->session, bytes, length));
}

static void message_send(struct liar *l, const struct trunk_message *m)
{
	uint8_t bytes[512];

	sealed_send(l, bytes, trunk_encode(m, bytes, sizeof(bytes)));
}

static void hello_send(struct bed *b, struct liar *l)
{
	struct trunk_message m = { .kind = TRUNK_HELLO };

	memcpy(m.digest, b->a.digest, sizeof(m.digest));
	message_send(l, &m);
}

/* It is joined; its end of the cable wants a link. */
static void joined(struct bed *b, struct liar *l)
{
	static uint8_t bytes[TRUNK_RECORD_MAX];
	struct trunk_message m = { .kind = TRUNK_LINK,
				   .cable = TO_B,
				   .link = { 1, 0, true, false, 2, 1, 5, 4 } },
			     came;
	size_t used, body, length;

	liar_open(b, l, &b->b);
	hello_send(b, l);
	await_said(b, "part b is joined");
	length = record_take(b, l, bytes);
	MUST(rio_session_tailed(&l->session, bytes, length, &body));
	MUST(trunk_decode(&came, bytes, body, &used));
	REQUIRE(came.kind == TRUNK_HELLO);
	length = record_take(b, l, bytes);
	MUST(rio_session_tailed(&l->session, bytes, length, &body));
	MUST(trunk_decode(&came, bytes, body, &used));
	REQUIRE(came.kind == TRUNK_LINK && came.cable == TO_B && came.link.wants);
	m.link.seen = came.link.life;
	message_send(l, &m);
	while (state_of(b, 2) == SM_PORT_DOWN)
		turn(b);
}

static void expect_end(struct bed *b, const char *how, enum weft_reason reason)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "%s%s", how, weft_reason_text(reason));
	await_said(b, text);
	EXPECT(state_of(b, 2) == SM_PORT_DOWN);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* It does not look at the listener again and again, and has its descriptor back. */
TEST(test_trunk_a_part_without_descriptors_ends_what_connects)
{
	struct liar l;
	struct bed b;

	bed_open(&b);
	for (int i = 0; i < 3; i++) {
		const uint64_t until_ns = clock_ns() + patience_ns;
		struct rlimit was;
		uint8_t byte;
		int fd;

		MUST(socket_connect(&b.a.parts->parts[0].address, NULL, &fd));
		was = along_limit();
		while (recv(fd, &byte, 1, 0) < 0 && errno != ECONNRESET && clock_ns() < until_ns)
			turn(&b);
		EXPECT(clock_ns() < until_ns);
		socket_close(fd, false);
		REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
	}
	joined(&b, &l);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_a_part_that_is_joined_has_its_link_until_it_is_gone)
{
	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	EXPECT(state_of(&b, 2) == SM_PORT_INIT);
	EXPECT(state_of(&b, 3) == SM_PORT_DOWN); /* to part c */
	liar_close(&l);
	expect_end(&b, "part b is gone: ", WEFT_R_PEER_GONE);
	b.said[0] = '\0';
	joined(&b, &l);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_a_part_says_nothing_of_cables_that_are_not_between_both)
{
	static const uint32_t cables[] = { OF_H1, TO_C, OF_H2, 4, UINT32_MAX };

	for (size_t i = 0; i < sizeof(cables) / sizeof(cables[0]); i++) {
		struct trunk_message m = { .kind = TRUNK_ACK, .cable = cables[i] };
		struct bed b;
		struct liar l;

		harness_note("cable %u", cables[i]);
		bed_open(&b);
		joined(&b, &l);
		message_send(&l, &m);
		expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_CABLE);
		liar_close(&l);
		bed_close(&b);
	}
}

TEST(test_trunk_what_is_no_message_ends_the_connection)
{
	static const uint8_t bytes[] = { 9, 9, 9, 9, 9, 9, 9, 9 };

	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	sealed_send(&l, bytes, sizeof(bytes));
	expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_FORM);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_hello_is_the_first_message_and_only_the_first)
{
	struct trunk_message m = { .kind = TRUNK_ACK, .cable = TO_B };
	struct bed b;
	struct liar l;

	bed_open(&b);
	liar_open(&b, &l, &b.b);
	message_send(&l, &m);
	expect_end(&b, "part b cannot be joined: ", WEFT_R_TRUNK_FORM);
	liar_close(&l);
	b.said[0] = '\0';
	joined(&b, &l);
	hello_send(&b, &l);
	expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_FORM);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_what_is_not_sealed_is_not_taken)
{
	uint8_t bytes[64] = { 0 };
	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	bytes_send(&l, bytes, sizeof(bytes));
	expect_end(&b, "part b is gone: ", WEFT_R_RIO_FORGED);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_a_part_of_another_topology_is_refused)
{
	struct trunk_message m = { .kind = TRUNK_HELLO, .digest = { 1 } };
	struct bed b;
	struct liar l;

	bed_open(&b);
	liar_open(&b, &l, &b.b);
	message_send(&l, &m);
	expect_end(&b, "part b cannot be joined: ", WEFT_R_TRUNK_OTHER);
	liar_close(&l);
	bed_close(&b);
}

/* By which programs here find nodes there. */
TEST(test_fab_22_a_part_tells_the_addresses_of_its_ports_and_those_alone_are_believed)
{
	enum { H1 = 3, H2 = 4, S3 = 2 };
	struct trunk_message m = {
		.kind = TRUNK_PORT,
		.cable = H2,
		.port = { .serial = 5, .port = 1, .info = { .lid = 77, .state = SM_PORT_ACTIVE } }
	};
	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	EXPECT(!fabric_trunks_knows(b.trunks, H2, 1));
	message_send(&l, &m);
	m.cable = H1; /* which is here */
	m.port.serial = UINT64_MAX;
	message_send(&l, &m);
	m.port.serial = 5;
	m.cable = S3; /* of a part that is not joined: passed on */
	m.port.port = 0;
	message_send(&l, &m);
	while (!fabric_trunks_knows(b.trunks, S3, 0))
		turn(&b);
	EXPECT_EQ(fabric_node_look(b.fabric, H2)->ports[1].info.lid, 77);
	EXPECT_EQ(fabric_node_look(b.fabric, H1)->ports[1].info.lid, 0);
	m.port.serial = 4; /* an earlier one, that was under way for longer */
	m.port.info.lid = 78;
	message_send(&l, &m);
	m.cable = H2;
	m.port.serial = 6;
	m.port.port = 2; /* it has one port */
	message_send(&l, &m);
	expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_FORM);
	EXPECT_EQ(fabric_node_look(b.fabric, H2)->ports[1].info.lid, 77);
	EXPECT_EQ(fabric_node_look(b.fabric, S3)->ports[0].info.lid, 77);
	liar_close(&l);
	bed_close(&b);
}

/* Whatever others have said of its nodes before, with the greatest of serial numbers. */
TEST(test_fab_22_a_part_that_is_joined_is_believed_of_its_own_nodes)
{
	enum { S3 = 2 };
	struct trunk_message m = { .kind = TRUNK_PORT,
				   .cable = S3, /* of part c */
				   .port = { .serial = UINT64_MAX,
					     .info = { .lid = 66, .state = SM_PORT_ACTIVE } } };
	struct bed b;
	struct liar l, c;

	bed_open(&b);
	joined(&b, &l);
	message_send(&l, &m);
	while (!fabric_trunks_knows(b.trunks, S3, 0))
		turn(&b);
	EXPECT_EQ(fabric_node_look(b.fabric, S3)->ports[0].info.lid, 66);
	liar_open(&b, &c, &b.c);
	hello_send(&b, &c);
	await_said(&b, "part c is joined");
	m.port.serial = 5;
	m.port.info.lid = 77;
	message_send(&c, &m);
	m.port.port = 1; /* which has no address: what came before it has been taken */
	message_send(&c, &m);
	await_said(&b, "part c is gone");
	EXPECT_EQ(fabric_node_look(b.fabric, S3)->ports[0].info.lid, 77);
	liar_close(&l);
	liar_close(&c);
	bed_close(&b);
}

/* The other end of the older one may be a process that is gone. */
TEST(test_trunk_a_part_that_comes_again_takes_the_place_of_its_earlier_connection)
{
	struct bed b;
	struct liar first, second;

	bed_open(&b);
	joined(&b, &first);
	liar_open(&b, &second, &b.b);
	hello_send(&b, &second);
	expect_end(&b, "part b is gone: ", WEFT_R_RIO_TWICE);
	await_said(&b, "part b is joined");
	liar_close(&first);
	liar_close(&second);
	bed_close(&b);
}

/* ---- Silence -------------------------------------------------------------------------------- */

static const uint64_t alive_ns = UINT64_C(10000000000);

/* The next message that comes. */
static enum trunk_kind kind_take(struct bed *b, struct liar *l)
{
	static uint8_t bytes[TRUNK_RECORD_MAX];
	size_t length = record_take(b, l, bytes), body, used;
	struct trunk_message m;

	MUST(rio_session_tailed(&l->session, bytes, length, &body));
	MUST(trunk_decode(&m, bytes, body, &used));
	return m.kind;
}

static uint64_t downs_of(struct bed *b, uint32_t port)
{
	return fabric_node_at(b->fabric, S1)->ports[port].counts.link_downed;
}

/* Its host answers for it: TCP sees nothing (FAB-13). */
TEST(test_trunk_a_part_that_says_nothing_is_gone_when_its_time_is_over)
{
	struct bed b;
	struct liar l;
	uint64_t downs;

	bed_open(&b);
	joined(&b, &l);
	downs = downs_of(&b, 2);
	time_pass(&b, alive_ns - 1);
	EXPECT(state_of(&b, 2) == SM_PORT_INIT);
	time_pass(&b, 1);
	expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_SILENT);
	EXPECT_EQ(downs_of(&b, 2), downs + 1);
	liar_close(&l);
	b.said[0] = '\0';
	joined(&b, &l);
	EXPECT(state_of(&b, 2) == SM_PORT_INIT);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_a_part_that_only_says_that_it_is_there_stays)
{
	const struct trunk_message m = { .kind = TRUNK_ALIVE };
	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	for (int i = 0; i < 5; i++) {
		struct pollfd p = { .fd = fabric_trunks_fd(b.trunks), .events = POLLIN };

		time_pass(&b, alive_ns - 1);
		EXPECT(state_of(&b, 2) == SM_PORT_INIT);
		message_send(&l, &m);
		REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
		turn(&b);
	}
	liar_close(&l);
	bed_close(&b);
}

/* What others said while this process was stopped counts, however long that was. */
TEST(test_trunk_a_part_that_was_stopped_itself_takes_nobody_for_gone)
{
	const struct trunk_message m = { .kind = TRUNK_ALIVE };
	struct pollfd p = { .events = POLLIN };
	struct bed b;
	struct liar l;

	bed_open(&b);
	joined(&b, &l);
	time_pass(&b, 0);
	message_send(&l, &m);
	p.fd = fabric_trunks_fd(b.trunks);
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	time_pass(&b, 60 * alive_ns);
	EXPECT(state_of(&b, 2) == SM_PORT_INIT);
	EXPECT(!strstr(b.said, "gone"));
	time_pass(&b, alive_ns);
	expect_end(&b, "part b is gone: ", WEFT_R_TRUNK_SILENT);
	liar_close(&l);
	bed_close(&b);
}

TEST(test_trunk_a_part_that_has_nothing_to_say_says_that_it_is_there)
{
	struct bed b;
	struct liar l;
	uint64_t due_ns;

	bed_open(&b);
	joined(&b, &l);
	time_pass(&b, 0);
	for (int i = 0; i < 3; i++) {
		due_ns = fabric_trunks_expire(b.trunks, b.now_ns);
		EXPECT(due_ns > b.now_ns && due_ns <= b.now_ns + alive_ns / 4);
		time_pass(&b, due_ns - b.now_ns);
		while (kind_take(&b, &l) != TRUNK_ALIVE)
			REQUIRE(i == 0); /* it had said other things before */
	}
	liar_close(&l);
	bed_close(&b);
}

/* One would take the other for gone. */
TEST(test_trunk_parts_that_wait_for_different_times_do_not_join)
{
	static uint8_t digest[TRUNK_DIGEST_BYTES];
	struct fabric_cut other;
	struct bed b;
	FILE *to;

	bed_open(&b);
	memcpy(digest, b.b.digest, sizeof(digest));
	to = fopen(b.parts, "a");
	REQUIRE(to && fputs("alive 9s\n", to) >= 0 && fclose(to) == 0);
	cut_open(&b, "b", &other);
	EXPECT(memcmp(digest, other.digest, sizeof(digest)) != 0);
	EXPECT(memcmp(digest, b.a.digest, sizeof(digest)) == 0);
	fabric_cut_close(&other);
	bed_close(&b);
}

/* A key that is known, of a part that no cable joins with this one: c as b sees it. */
TEST(test_trunk_a_part_that_no_cable_joins_is_refused)
{
	struct fabric_trunks_config config;
	struct fabric_cfg cfg = fabric_cfg_live();
	struct bed b;
	struct liar l;

	bed_open(&b);
	fabric_trunks_close(b.trunks);
	fabric_close(b.fabric);
	for (uint32_t i = 0; i < b.t.node_count; i++) { /* as if S3 were here, too */
		b.a.are_here[i] |= b.a.part_of[i] == b.c.self;
		if (b.a.are_here[i])
			b.a.part_of[i] = b.a.self;
	}
	cfg.linear_max = 64;
	cfg.are_here = b.a.are_here;
	MUST(fabric_open(&b.t, &cfg, &b.fabric));
	config = (struct fabric_trunks_config){
		.tell = hear, .context = &b, .cut = &b.a, .fabric = b.fabric
	};
	MUST(fabric_trunks_open(&config, &b.trunks));
	liar_open(&b, &l, &b.c);
	await_said(&b, "refused a connection from 127.0.0.1");
	EXPECT(strstr(b.said, weft_reason_text(WEFT_R_TRUNK_OTHER)));
	liar_close(&l);
	bed_close(&b);
}
