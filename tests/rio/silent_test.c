/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that says nothing any more. That TCP really finds it is shown by silent_test.py, where the
 * machine lets a test have a network of its own; here, that TCP is asked to on every connection.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rio/cluster.h"

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	REQUIRE(getsockopt(fd, level, name, &value, &length) == 0);
	return value;
}

static bool is_connected_tcp(int fd)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);

	return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
	       (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/* How a connection is watched. */
struct watched {
	int is_asked, idle_s, again_s, count, silence_ms;
};

static struct watched watched_of(int fd)
{
	return (struct watched){ .is_asked = option(fd, SOL_SOCKET, SO_KEEPALIVE),
				 .idle_s = option(fd, IPPROTO_TCP, TCP_KEEPIDLE),
				 .again_s = option(fd, IPPROTO_TCP, TCP_KEEPINTVL),
				 .count = option(fd, IPPROTO_TCP, TCP_KEEPCNT),
				 .silence_ms = option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) };
}

/* The connections of this process, both ends of each. */
static uint32_t connections(struct watched *of, uint32_t most)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	uint32_t count = 0;

	REQUIRE(d);
	while ((e = readdir(d)) != NULL) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || !is_connected_tcp(fd))
			continue;
		REQUIRE(count < most);
		of[count++] = watched_of(fd);
	}
	closedir(d);
	return count;
}

/* Control connections of both kinds, and the one for data: as dialled and as accepted. */
TEST(test_rio_03_every_connection_is_watched_for_silence)
{
	static struct cluster c;
	static uint8_t memory[4096];
	struct watched ends[16];
	struct weft_rio_requester *q;
	struct cluster_move m = { .bytes = memory, .length = sizeof(memory) };

	REQUIRE(connections(ends, 16) == 0);
	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	m.device = cluster_device(q, "disk").number;
	m.tag = cluster_memory(q, memory, sizeof(memory));
	EXPECT_EQ(cluster_read(q, m), WEFT_OK);
	EXPECT_EQ(connections(ends, 16), 6);
	for (int i = 0; i < 6; i++) {
		EXPECT_EQ(ends[i].is_asked, 1);
		EXPECT_EQ(ends[i].silence_ms, 10000);
		EXPECT_EQ(ends[i].idle_s, 5);
		EXPECT_EQ(ends[i].again_s, 1);
		EXPECT(ends[i].count >= 5);
	}
	cluster_close(&c);
}

/* ---- One connection ------------------------------------------------------------------------- */

static struct weft_adapter *adapter;
static struct weft_pd *pd;
static struct weft_cq *cq;

static struct weft_qp *qp_make(void)
{
	const struct weft_qp_options options = { .send_cq = cq, .recv_cq = cq };
	const struct weft_qp_attr attr = { .state = WEFT_QPS_INIT };
	struct weft_qp *qp;

	REQUIRE(weft_qp_create(pd, &options, &qp) == WEFT_OK);
	REQUIRE(weft_qp_modify(qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	return qp;
}

/* Both ends are connected: each has said so. */
static void connect_with(struct weft_qp *to[2], uint64_t near_ns, uint64_t far_ns)
{
	const struct weft_connect_options near = { .alive_ns = near_ns },
					  far = { .alive_ns = far_ns };
	const struct weft_address any = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_request *request = NULL;
	struct weft_listener *listener;
	struct weft_address at;
	uint32_t connected = 0;

	REQUIRE(weft_listener_open(adapter, &any, NULL, &listener) == WEFT_OK);
	REQUIRE(weft_listener_address(listener, &at) == WEFT_OK);
	REQUIRE(weft_qp_dial(to[0], &at, &near) == WEFT_OK);
	for (int i = 0; i < 1000 && connected < 2; i++) {
		struct weft_event e;
		bool has = false;

		REQUIRE(weft_event_next(adapter, SECONDS, &e, &has) == WEFT_OK);
		if (has && e.kind == WEFT_EVENT_REQUEST) {
			REQUIRE(weft_listener_next(listener, &request) == WEFT_OK && request);
			REQUIRE(weft_request_accept(request, to[1], &far) == WEFT_OK);
		}
		connected += has && e.kind == WEFT_EVENT_CONNECTED;
	}
	REQUIRE(connected == 2);
	REQUIRE(weft_listener_close(listener) == WEFT_OK);
}

/* The two ends, in whatever order they are found: by the time of silence. */
static void watch_both(uint64_t near_ns, uint64_t far_ns, struct watched ends[2])
{
	struct weft_qp *qps[2];

	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	REQUIRE(weft_pd_create(adapter, NULL, &pd) == WEFT_OK);
	REQUIRE(weft_cq_create(adapter, NULL, &cq) == WEFT_OK);
	qps[0] = qp_make();
	qps[1] = qp_make();
	connect_with(qps, near_ns, far_ns);
	REQUIRE(connections(ends, 2) == 2);
	if (ends[0].silence_ms > ends[1].silence_ms) {
		struct watched first = ends[0];

		ends[0] = ends[1];
		ends[1] = first;
	}
	REQUIRE(weft_qp_destroy(qps[0]) == WEFT_OK && weft_qp_destroy(qps[1]) == WEFT_OK);
	REQUIRE(weft_cq_destroy(cq) == WEFT_OK && weft_pd_destroy(pd) == WEFT_OK);
	REQUIRE(weft_adapter_close(adapter) == WEFT_OK);
}

/* Every end for itself, and who does not ask for it is as before. */
TEST(test_a_connection_is_watched_for_silence_if_that_is_wanted)
{
	static const struct {
		uint64_t ns;
		struct watched is;
	} rows[] = {
		{ 1, { 1, 1, 1, 1, 1000 } },
		{ SECONDS, { 1, 1, 1, 1, 1000 } },
		{ SECONDS + 1, { 1, 1, 1, 2, 2000 } },
		{ 8 * SECONDS, { 1, 4, 1, 5, 8000 } },
		{ 60 * SECONDS, { 1, 30, 7, 5, 60000 } },
		{ 3600 * SECONDS, { 1, 1800, 450, 5, 3600000 } },
		{ UINT64_MAX, { 1, 16383, 4095, 5, 32767000 } },
	};
	struct watched ends[2];

	watch_both(0, 0, ends);
	EXPECT(!ends[0].is_asked && !ends[1].is_asked && ends[1].silence_ms == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int is_far = 0; is_far < 2; is_far++) {
			watch_both(is_far ? 0 : rows[i].ns, is_far ? rows[i].ns : 0, ends);
			EXPECT(!ends[0].is_asked && ends[0].silence_ms == 0);
			EXPECT_MEM(&ends[1], &rows[i].is, sizeof(ends[1]));
		}
	}
}
