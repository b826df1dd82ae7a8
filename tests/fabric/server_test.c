/* SPDX-License-Identifier: BSD-2-Clause */
/* The process of a fabric, run by a thread, and what programs ask it (roles/fabric_server.h). */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/roce.h>

#include "driver/fabric/fabric_attach.h"
#include "driver/fabric/fabric_hub.h"
#include "driver/near/ring.h"
#include "driver/sys/fabric_client.h"
#include "fabric/along.h"
#include "roles/fabric_server.h"
#include "test.h"
#include "wire/smp.h"

static const char topology_text[] = "switchguid=0x1000\n"
				    "Switch 4 \"S-1\" # \"leaf\"\n"
				    "[1] \"h1\"[1]\n"
				    "[2] \"h2\"[1]\n"
				    "[3] \"twin-a\"[1]\n"
				    "caguid=0x2000\n"
				    "Hca 2 \"h1\"\n"
				    "Hca 2 \"h2\"\n"
				    "Hca 1 \"twin-a\" # \"twin\"\n"
				    "Hca 1 \"twin-b\" # \"twin\"\n"
				    "Hca 6 \"wide\"\n"
				    "[3] \"S-1\"[4]\n";

static struct {
	struct fabric_server *server;
	pthread_t thread;
} bed;

static void topology_read(struct topology *t)
{
	uint32_t line;

	MUST(topology_parse(t, topology_text, sizeof(topology_text) - 1, &line));
}

static const char *name_of_test(void)
{
	static char name[32];

	(void)snprintf(name, sizeof(name), "server-%ld", (long)getpid());
	return name;
}

static void *run(void *server)
{
	fabric_server_run(server);
	return NULL;
}

static void bed_open(void)
{
	struct topology t;

	topology_read(&t);
	REQUIRE(setenv("WEFT_FABRIC", name_of_test(), 1) == 0);
	MUST(fabric_server_open(&t, &(struct fabric_server_options){ 0 }, &bed.server));
	topology_fini(&t);
	REQUIRE(pthread_create(&bed.thread, NULL, run, bed.server) == 0);
}

static void bed_close(void)
{
	fabric_server_stop(bed.server);
	REQUIRE(pthread_join(bed.thread, NULL) == 0);
	fabric_server_close(bed.server);
}

/* ---- Asking --------------------------------------------------------------------------------- */

static struct fabric_msg asking(enum fabric_msg_kind kind, const char *node, uint32_t port)
{
	struct fabric_msg m = { .kind = kind, .where.port = port };

	(void)snprintf(m.where.node, sizeof(m.where.node), "%s", node);
	return m;
}

static enum weft_reason ask(enum fabric_msg_kind kind, const char *node, uint32_t port,
			    uint64_t value)
{
	struct fabric_msg m = asking(kind, node, port), answer;

	m.value = value;
	return fabric_client_ask_once(&m, &answer);
}

/* A connection; MADs of it are those of the port. */
static int attached(const char *node, uint32_t port)
{
	struct fabric_msg m = asking(FABRIC_MSG_ATTACH, node, port), answer;
	int fd;

	MUST(fabric_client_connect(NULL, &fd));
	MUST(fabric_client_ask(fd, &m, &answer));
	return fd;
}

static enum weft_reason agent_add(int fd, uint8_t mgmt_class, uint8_t version, uint64_t *agent)
{
	struct fabric_msg m = { .kind = FABRIC_MSG_AGENT,
				.agent = { .mgmt_class = mgmt_class,
					   .class_version = version,
					   .methods = { mgmt_class ? 1U << MAD_TRAP : 0 } } },
			  answer;
	enum weft_reason r = fabric_client_ask_aside(fd, &m, &answer);

	*agent = answer.value;
	return r;
}

static void smp_send_for(int fd, uint64_t agent, const struct smp *smp, uint32_t timeout_ms)
{
	uint8_t bytes[MAD_BYTES];
	struct fabric_msg m = {
		.kind = FABRIC_MSG_SEND,
		.mad = { .agent = (uint32_t)agent,
			 .timeout_ms = timeout_ms,
			 .length = MAD_BYTES,
			 .lid = IBA_LID_PERMISSIVE },
	};

	smp_encode(smp, bytes);
	REQUIRE(fabric_mad_send(fd, &m, bytes) == 0);
}

static void smp_send(int fd, uint64_t agent, const struct smp *smp)
{
	smp_send_for(fd, agent, smp, 100);
}

static struct smp directed(uint64_t tid, uint8_t hops, uint8_t first)
{
	return (struct smp){
		.mad = { .mgmt_class = MAD_SUBNET_DIRECTED,
			 .class_version = 1,
			 .method = MAD_GET,
			 .tid = tid,
			 .attribute = SM_NODE_INFO },
		.is_directed = true,
		.hop_count = hops,
		.from = IBA_LID_PERMISSIVE,
		.to = IBA_LID_PERMISSIVE,
		.there = { [1] = first },
	};
}

/* Waits for a MAD. */
static void received(int fd, struct fabric_packet *p)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	REQUIRE(poll(&at, 1, 20000) == 1);
	REQUIRE(fabric_packet_receive(fd, p, false) == 0);
	REQUIRE(p->m.kind == FABRIC_MSG_RECEIVED);
}

/* ---- Names ---------------------------------------------------------------------------------- */

static uint32_t port_of(const char *node, uint32_t port, struct fabric_msg_port *p)
{
	MUST(fabric_client_look(node, port, p));
	return p->node * 100 + p->port;
}

TEST(test_fab_22a_a_node_is_found_by_name_number_and_guid)
{
	struct fabric_msg_port p;
	char guid[32];

	bed_open();
	EXPECT_EQ(port_of("h1", 0, &p), 101);
	EXPECT_EQ(p.node_info.node_guid, 0x2000);
	EXPECT_EQ(p.port_info.state, SM_PORT_INIT);
	EXPECT_EQ(p.is_manager, false);
	EXPECT_EQ(port_of("h1", 2, &p), 102);
	EXPECT_EQ(p.port_info.state, SM_PORT_DOWN);
	EXPECT_EQ(port_of("#1", 1, &p), 101);
	EXPECT_EQ(port_of("0x2000", 0, &p), 101);
	(void)snprintf(guid, sizeof(guid), "0x%llx", (unsigned long long)p.node_info.port_guid + 1);
	EXPECT_EQ(port_of(guid, 0, &p), 102);
	EXPECT_EQ(port_of("leaf", 0, &p), 0);
	EXPECT_EQ(port_of("S-1", 3, &p), 3);
	EXPECT_EQ(port_of("twin-b", 0, &p), 401);
	bed_close();
}

TEST(test_fab_22a_a_node_that_is_not_there_is_refused)
{
	static const char *const names[] = { "",   "absent", "twin", "#6", "#",
					     "0x", "0x77",   "0x0",  "#1x" };
	struct fabric_msg_port p;

	bed_open();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EXPECT_EQ(fabric_client_look(names[i], 0, &p), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(fabric_client_look("h1", 3, &p), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_ATTACH, "h1", 3, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_ATTACH, "absent", 0, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_ATTACH, "leaf", 1, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_ATTACH, "leaf", 0, 0), WEFT_OK);
	EXPECT_EQ(ask(FABRIC_MSG_MANAGER, "absent", 0, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_PART, "absent", 0, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_PART, "h1", 0, 0), WEFT_R_FABRIC_ASK); /* it is not cut */
	bed_close();
}

/* The only cable is at port 3. */
static enum weft_reason open_at_wide(const struct weft_adapter_options *options)
{
	struct weft_adapter *adapter;
	enum weft_reason r;

	MUST(weft_adapter_open(options, &adapter));
	r = weft_roce_open(adapter);
	MUST(weft_adapter_close(adapter));
	return r;
}

TEST(test_sys_04_an_io_adapter_has_two_ports_and_one_of_a_host_four)
{
	bed_open();
	REQUIRE(setenv("WEFT_NODE", "wide", 1) == 0);
	EXPECT_EQ(open_at_wide(&(struct weft_adapter_options){ .profile = WEFT_PROFILE_HOST }),
		  WEFT_OK);
	EXPECT_EQ(open_at_wide(&(struct weft_adapter_options){ .profile = WEFT_PROFILE_IO }),
		  WEFT_R_PROFILE_PORT);
	EXPECT_EQ(open_at_wide(&(struct weft_adapter_options){ .ports_max = 2 }),
		  WEFT_R_PROFILE_PORT);
	EXPECT_EQ(open_at_wide(&(struct weft_adapter_options){ .ports_max = 3 }), WEFT_OK);
	REQUIRE(unsetenv("WEFT_NODE") == 0);
	bed_close();
}

/* As one part of a fabric, that is all but the node h2. */
static void part_open(struct fabric_cut *cut)
{
	static uint32_t part_of[6];
	static bool are_here[6] = { true, true, false, true, true, true };
	const struct fabric_server_part part = { .cut = cut };
	struct topology t;

	part_of[2] = 1;
	*cut = (struct fabric_cut){ .part_of = part_of, .are_here = are_here };
	cut->parts = calloc(1, sizeof(*cut->parts));
	REQUIRE(cut->parts);
	cut->parts->part_count = 2;
	cut->parts->alive_ns = UINT64_C(10000000000);
	cut->parts->parts[0].address = (struct weft_address){ .family = 4, .ip = { 127, 0, 0, 1 } };
	topology_read(&t);
	REQUIRE(setenv("WEFT_FABRIC", name_of_test(), 1) == 0);
	MUST(fabric_server_open(&t, &(struct fabric_server_options){ .part = &part }, &bed.server));
	topology_fini(&t);
	REQUIRE(pthread_create(&bed.thread, NULL, run, bed.server) == 0);
}

TEST(test_fab_22a_a_node_that_is_in_another_part_of_the_fabric_is_there_only)
{
	struct fabric_cut cut;
	struct fabric_msg_port p;

	part_open(&cut);
	EXPECT_EQ(fabric_client_look("h2", 0, &p), WEFT_R_FABRIC_PART);
	EXPECT_EQ(ask(FABRIC_MSG_ATTACH, "h2", 0, 0), WEFT_R_FABRIC_PART);
	EXPECT_EQ(ask(FABRIC_MSG_MANAGER, "h2", 0, 0), WEFT_R_FABRIC_PART);
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "h2", 1, 0), WEFT_R_FABRIC_PART);
	EXPECT_EQ(ask(FABRIC_MSG_CAPTURE, "h2", 0, 0), WEFT_R_FABRIC_PART);
	MUST(fabric_client_look("h1", 0, &p));
	EXPECT_EQ(p.port_info.state, SM_PORT_INIT);
	MUST(fabric_client_look("leaf", 2, &p));
	EXPECT_EQ(p.port_info.state, SM_PORT_DOWN); /* the other part is not there */
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "leaf", 2, 0), WEFT_OK);
	bed_close();
	fabric_parts_destroy(cut.parts);
}

TEST(test_fab_22d_a_second_fabric_of_a_name_is_refused)
{
	struct fabric_server *other;
	struct topology t;

	bed_open();
	topology_read(&t);
	EXPECT_EQ(fabric_server_open(&t, &(struct fabric_server_options){ 0 }, &other),
		  WEFT_R_FABRIC_TAKEN);
	MUST(fabric_server_open(&t, &(struct fabric_server_options){ .name = "another" }, &other));
	EXPECT_STR(fabric_server_name(other), "another");
	fabric_server_close(other);
	topology_fini(&t);
	bed_close();
}

TEST(test_fab_22d_a_fabric_whose_adapters_are_anothers_is_refused)
{
	const struct fabric_hub_config config = { .nodes = 1 };
	struct fabric_server *server;
	struct fabric_hub *hub;
	struct topology t;

	MUST(fabric_hub_open(&config, name_of_test(), &hub));
	topology_read(&t);
	EXPECT_EQ(fabric_server_open(&t, &(struct fabric_server_options){ .name = name_of_test() },
				     &server),
		  WEFT_R_FABRIC_TAKEN);
	topology_fini(&t);
	fabric_hub_close(hub);
}

/* ---- Cables --------------------------------------------------------------------------------- */

static uint8_t state_of(const char *node)
{
	struct fabric_msg_port p;

	MUST(fabric_client_look(node, 1, &p));
	return p.port_info.state;
}

TEST(test_fab_09_cables_are_cut_and_mended)
{
	struct fabric_msg all, answer;

	bed_open();
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "leaf", 1, 0), WEFT_OK);
	EXPECT_EQ(state_of("h1"), SM_PORT_DOWN);
	EXPECT_EQ(state_of("h2"), SM_PORT_INIT);
	EXPECT_EQ(ask(FABRIC_MSG_MEND, "h1", 1, 0), WEFT_OK);
	EXPECT_EQ(state_of("h1"), SM_PORT_INIT);
	all = asking(FABRIC_MSG_CUT, "leaf", 0);
	EXPECT_EQ(fabric_client_ask_once(&all, &answer), WEFT_OK);
	EXPECT_EQ(answer.value, 4);
	EXPECT_EQ(state_of("h2"), SM_PORT_DOWN);
	EXPECT_EQ(ask(FABRIC_MSG_ERRORS, "h1", 1, 1000000), WEFT_OK);
	EXPECT_EQ(ask(FABRIC_MSG_DEGRADE, "h1", 1, 4), WEFT_OK);
	bed_close();
}

TEST(test_fab_09_a_cable_that_is_not_there_is_refused)
{
	bed_open();
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "h1", 2, 0), WEFT_R_FABRIC_CABLE);
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "twin-b", 0, 0), WEFT_R_FABRIC_CABLE);
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "h1", 3, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_CUT, "absent", 1, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_DEGRADE, "h1", 1, 0), WEFT_R_FABRIC_ASK);
	EXPECT_EQ(ask(FABRIC_MSG_DEGRADE, "h1", 1, 65536), WEFT_R_FABRIC_ASK);
	bed_close();
}

/* ---- Datagrams ------------------------------------------------------------------------------ */

TEST(test_sys_01_a_program_asks_its_own_node_and_the_next)
{
	static struct fabric_packet p;
	uint64_t agent;
	struct smp smp;
	int fd;

	bed_open();
	fd = attached("h1", 1);
	MUST(agent_add(fd, MAD_SUBNET_DIRECTED, 1, &agent));
	for (uint8_t hops = 0; hops < 2; hops++) {
		smp = directed(7, hops, 1);
		smp_send(fd, agent, &smp);
		received(fd, &p);
		EXPECT_EQ(p.m.mad.error, 0);
		EXPECT_EQ(p.m.mad.agent, agent);
		EXPECT_EQ(p.tail_bytes, MAD_BYTES);
		MUST(smp_decode(&smp, p.tail, MAD_BYTES));
		EXPECT_EQ(smp.mad.method, MAD_GET_RESPONSE);
		EXPECT_EQ((uint32_t)smp.mad.tid, 7);
		EXPECT_EQ(p.tail[64 + 2], hops == 0 ? SM_NODE_CA : SM_NODE_SWITCH);
	}
	close(fd);
	bed_close();
}

enum { M_KEY = 77 };

static struct smp port_info_of(uint8_t method, const struct sm_port_info *info)
{
	struct smp s = directed(9, 0, 0);

	s.mad.method = method;
	s.mad.attribute = SM_PORT_INFO;
	s.m_key = M_KEY;
	mad_layout_encode(sm_layout(SM_PORT_INFO), info, s.data);
	return s;
}

/* An adapter at the node, as far as it is told what its port is like. */
static struct attach_message attach_at(const char *node)
{
	struct unix_names names = attach_names_of(name_of_test());
	struct attach_message m = attach_message_of(ATTACH_ATTACH);
	struct pollfd at = { .fd = unix_names_connect(&names), .events = POLLIN };
	struct ring r;

	m.descriptor = ring_make(&r, ATTACH_RING_BYTES);
	REQUIRE(at.fd >= 0 && m.descriptor >= 0);
	(void)snprintf(m.node, sizeof(m.node), "%s", node);
	REQUIRE(attach_message_send(at.fd, &m));
	close(m.descriptor);
	ring_unmap(&r);
	REQUIRE(poll(&at, 1, 20000) == 1);
	attach_message_take(at.fd, &m);
	REQUIRE(m.kind == ATTACH_ATTACHED);
	close(m.descriptor);
	close(at.fd);
	return m;
}

/* IBA 14.2.4: a manager's secret, which its datagrams alone get. */
TEST(test_iba_14_2_4_programs_and_adapters_are_not_told_the_m_key_of_a_port)
{
	struct fabric_msg_port p;
	struct fabric_packet came;
	uint64_t agent;
	union sm_value v;
	struct smp s;
	int fd;

	bed_open();
	fd = attached("h1", 1);
	MUST(agent_add(fd, 0, 0, &agent));
	MUST(fabric_client_look("h1", 1, &p));
	p.port_info.m_key = M_KEY;
	p.port_info.state = p.port_info.phys_state = 0;
	s = port_info_of(MAD_SET, &p.port_info);
	smp_send(fd, agent, &s);
	received(fd, &came);
	MUST(smp_decode(&s, came.tail, MAD_BYTES));
	MUST(mad_layout_decode(sm_layout(SM_PORT_INFO), &v, s.data));
	EXPECT(s.mad.status == 0 && v.port_info.m_key == M_KEY);
	fabric_packet_done(&came);
	MUST(fabric_client_look("h1", 1, &p));
	EXPECT_EQ(p.port_info.m_key, 0);
	EXPECT_EQ(attach_at("h1").state.info.m_key, 0);
	close(fd);
	bed_close();
}

TEST(test_sys_01_a_request_without_an_answer_comes_back)
{
	static struct fabric_packet p;
	uint64_t agent;
	struct smp smp;
	int fd;

	bed_open();
	fd = attached("h1", 1);
	MUST(agent_add(fd, MAD_SUBNET_DIRECTED, 1, &agent));
	MUST(ask(FABRIC_MSG_CUT, "h1", 1, 0));
	smp = directed(8, 1, 1);
	smp_send(fd, agent, &smp);
	received(fd, &p);
	EXPECT_EQ(p.m.mad.error, ETIMEDOUT);
	/* A second one of the same transaction is refused at once: both come back. */
	smp_send(fd, agent, &smp);
	smp_send(fd, agent, &smp);
	for (int i = 0; i < 2; i++) {
		received(fd, &p);
		EXPECT_EQ(p.m.mad.error, ETIMEDOUT);
	}
	close(fd);
	bed_close();
}

/* What weft fabric top is told. */
static void report_read(char *text, size_t size)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft/fabric-run/%ld",
			 (long)getpid());
	size_t length = 0;
	ssize_t got;

	REQUIRE(connect(fd, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0);
	while ((got = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(fd);
}

static void await_report(const char *words)
{
	static char text[65536];

	for (int i = 0; i < 20000; i++) {
		report_read(text, sizeof(text));
		if (strstr(text, words))
			return;
		(void)poll(NULL, 0, 1);
	}
	fprintf(stderr, "%s", text);
	REQUIRE(false);
}

TEST(test_sys_01_requests_without_an_answer_are_counted_until_they_end)
{
	uint64_t agent;
	struct smp smp;
	int fd;

	bed_open();
	fd = attached("h1", 1);
	MUST(agent_add(fd, MAD_SUBNET_DIRECTED, 1, &agent));
	MUST(ask(FABRIC_MSG_CUT, "h1", 1, 0));
	await_report(" unanswered=0 ");
	for (uint64_t tid = 1; tid <= 3; tid++) {
		smp = directed(tid, 1, 1);
		smp_send_for(fd, agent, &smp, 100000);
	}
	await_report(" unanswered=3 ");
	close(fd);
	await_report(" unanswered=0 ");
	bed_close();
}

TEST(test_sys_01_agents_are_of_their_program)
{
	struct fabric_msg remove = { .kind = FABRIC_MSG_AGENT_REMOVE }, answer;
	struct fabric_msg attach = asking(FABRIC_MSG_ATTACH, "h1", 1);
	uint64_t agent, other;
	int fd, second, guest;

	bed_open();
	fd = attached("h1", 1);
	second = attached("h1", 1);
	MUST(agent_add(fd, MAD_SUBNET_LID, 1, &agent));
	EXPECT_EQ(agent_add(second, MAD_SUBNET_LID, 1, &other), WEFT_R_MAD_METHOD_TAKEN);
	EXPECT_EQ(agent_add(second, MAD_SUBNET_LID, 99, &other), WEFT_R_MAD_AGENT);
	remove.value = agent;
	EXPECT_EQ(fabric_client_ask_aside(second, &remove, &answer), WEFT_R_MAD_AGENT);
	EXPECT_EQ(fabric_client_ask_aside(fd, &attach, &answer), WEFT_R_FABRIC_ASK);
	EXPECT_EQ(fabric_client_ask_aside(fd, &remove, &answer), WEFT_OK);
	EXPECT_EQ(agent_add(second, MAD_SUBNET_LID, 1, &other), WEFT_OK);
	/* With its program it goes. */
	close(second);
	for (int i = 0; i < 20000 && agent_add(fd, MAD_SUBNET_LID, 1, &agent) != WEFT_OK; i++)
		agent = UINT64_MAX;
	EXPECT(agent != UINT64_MAX);
	for (int i = 1; i < 32; i++)
		EXPECT_EQ(agent_add(fd, 0, 0, &agent), WEFT_OK);
	EXPECT_EQ(agent_add(fd, 0, 0, &agent), WEFT_R_MAD_AGENT);
	MUST(fabric_client_connect(NULL, &guest));
	EXPECT_EQ(agent_add(guest, MAD_SUBNET_LID, 1, &other), WEFT_R_MAD_AGENT);
	close(guest);
	close(fd);
	bed_close();
}

TEST(test_sys_01_a_port_is_its_managers_as_long_as_that_is_there)
{
	struct fabric_msg manage = asking(FABRIC_MSG_MANAGER, "h1", 1), answer;
	struct fabric_msg_port p;
	int fd;

	bed_open();
	MUST(fabric_client_connect(NULL, &fd));
	MUST(fabric_client_ask(fd, &manage, &answer));
	MUST(fabric_client_look("h1", 1, &p));
	EXPECT_EQ(p.is_manager, true);
	EXPECT_EQ(p.port_info.capabilities & 2, 2);
	EXPECT_EQ(fabric_client_ask(fd, &manage, &answer), WEFT_R_FABRIC_ASK);
	close(fd);
	for (int i = 0; i < 20000 && p.is_manager; i++)
		MUST(fabric_client_look("h1", 1, &p));
	EXPECT_EQ(p.is_manager, false);
	bed_close();
}

/* ---- Captures ------------------------------------------------------------------------------- */

TEST(test_fab_15_frames_of_a_port_go_to_a_capture)
{
	static struct fabric_packet p;
	struct fabric_msg capture = asking(FABRIC_MSG_CAPTURE, "h1", 1), answer;
	uint64_t agent;
	struct smp smp;
	int fd, tap;

	bed_open();
	EXPECT_EQ(ask(FABRIC_MSG_CAPTURE, "absent", 0, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_CAPTURE, "h1", 3, 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(ask(FABRIC_MSG_CAPTURE, "h1", 2, 0), WEFT_R_FABRIC_CABLE);
	MUST(fabric_client_connect(NULL, &tap));
	MUST(fabric_client_ask(tap, &capture, &answer));
	EXPECT_EQ(fabric_client_ask(tap, &capture, &answer), WEFT_R_FABRIC_ASK);
	fd = attached("h1", 1);
	MUST(agent_add(fd, MAD_SUBNET_DIRECTED, 1, &agent));
	smp = directed(9, 1, 1);
	smp_send(fd, agent, &smp);
	received(fd, &p);
	/* The request and its answer; nothing of other ports. */
	for (int i = 0; i < 2; i++) {
		struct iba_frame f;

		REQUIRE(fabric_packet_receive(tap, &p, false) == 0);
		EXPECT_EQ(p.m.kind, FABRIC_MSG_FRAME);
		EXPECT(p.m.value > 0);
		EXPECT_EQ(iba_frame_decode(&f, p.tail, p.tail_bytes), WEFT_OK);
		EXPECT_EQ(f.lrh.lane, IBA_LANE_MANAGEMENT);
	}
	EXPECT_EQ(fabric_packet_receive(tap, &p, false), -EAGAIN);
	close(tap);
	close(fd);
	bed_close();
}

/* ---- Adapters ------------------------------------------------------------------------------- */

static void attach_watch(void *owner, struct watch *w, uint32_t events)
{
	(void)owner;
	w->interest = events;
}

/* No subnet manager was there: the port is in Init. */
TEST(test_fab_07_what_an_adapter_may_not_send_is_counted_at_its_port)
{
	const struct fabric_attach_config config = {
		.watch = attach_watch, .fabric = name_of_test(), .node = "h1", .port = 1
	};
	struct ib_out out = { .route_bytes = IBA_LRH_BYTES };
	struct fabric_attach *a;

	bed_open();
	MUST(fabric_attach_open(&config, &a));
	await_report(" dropped=0 said=h1\n");
	REQUIRE(fabric_attach_begin(a, &out, 1, IBA_PACKET_MAX) == 1);
	memset(out.room - out.route_bytes, 0, 100);
	out.spans = (struct span_list){ .count = 1, .length = 100 };
	fabric_attach_end(a, &out, 1);
	fabric_attach_flush(a);
	await_report(" dropped=1 said=h1\n");
	fabric_attach_close(a);
	bed_close();
}

/* ---- Bad programs --------------------------------------------------------------------------- */

static bool is_gone(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&at, 1, 20000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

TEST(test_sys_01_descriptors_of_a_program_that_talks_nonsense_are_closed)
{
	static const uint8_t nonsense[] = { 1, 99, 0, 0, 7 };

	bed_open();
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = along_descriptors();
		int fd;

		MUST(fabric_client_connect(NULL, &fd));
		along_send(fd, nonsense, i / 2 * sizeof(nonsense), 1 + i % 2);
		EXPECT(is_gone(fd));
		close(fd);
		EXPECT_EQ(along_descriptors(), before);
	}
	bed_close();
}

/* It does not look at the listener again and again, and has its descriptor back. */
TEST(test_sys_01_a_fabric_without_descriptors_ends_what_connects)
{
	struct unix_names names;
	struct rlimit was;
	int fds[3];

	bed_open();
	names = fabric_socket_names(NULL);
	for (int i = 0; i < 3; i++)
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	was = along_limit();
	for (int i = 0; i < 3; i++) {
		along_connect(fds[i], &names);
		EXPECT(is_gone(fds[i]));
	}
	REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	EXPECT_EQ(ask(FABRIC_MSG_PORT, "h1", 1, 0), WEFT_OK);
	bed_close();
}

TEST(test_sys_01_a_program_that_talks_nonsense_is_left_alone)
{
	static const uint8_t nonsense[] = { 1, 99, 0, 0, 7 };
	struct fabric_msg mail = { .kind = FABRIC_MSG_SEND, .mad = { .length = 24 } };
	struct fabric_msg frame = { .kind = FABRIC_MSG_FRAME }, answer;
	uint8_t mad[24] = { 0 };
	int fd, quiet;

	bed_open();
	quiet = attached("h1", 1);
	MUST(fabric_client_connect(NULL, &fd));
	REQUIRE(send(fd, nonsense, sizeof(nonsense), 0) == sizeof(nonsense));
	EXPECT(is_gone(fd));
	close(fd);
	/* What it may say, but not there: it goes on. */
	MUST(fabric_client_connect(NULL, &fd));
	REQUIRE(fabric_mad_send(fd, &mail, mad) == 0);
	EXPECT_EQ(fabric_client_ask(fd, &frame, &answer), WEFT_R_FABRIC_ASK);
	close(fd);
	EXPECT_EQ(ask(FABRIC_MSG_PORT, "h1", 1, 0), WEFT_OK);
	close(quiet);
	bed_close();
}
