/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile_raw.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/crc.h"
#include "wire/mpa.h"

enum { NS_PER_MS = 1000000 };

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	REQUIRE(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* ---- The rig -------------------------------------------------------------------------------- */

static struct weft_qp *make_qp(struct rig *r, struct weft_cq *cq)
{
	const struct weft_qp_options options = { .send_cq = cq, .recv_cq = cq };
	struct weft_qp *qp;

	MUST(weft_qp_create(r->pd, &options, &qp));
	return qp;
}

struct weft_qp *rig_qp(struct rig *r)
{
	return make_qp(r, r->cq);
}

void rig_open(struct rig *r, const struct weft_listener_options *options)
{
	const struct weft_address any = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_region_options region = { .length = MEMORY_BYTES, .rights = 0x3f };
	struct weft_listener *listener;
	struct weft_address at;
	enum weft_reason reason;

	*r = (struct rig){ .descriptors = count_descriptors() };
	r->memory = calloc(1, MEMORY_BYTES);
	REQUIRE(r->memory);
	region.addr = (uintptr_t)r->memory;
	MUST(weft_adapter_open(NULL, &r->adapter));
	MUST(weft_pd_create(r->adapter, NULL, &r->pd));
	MUST(weft_cq_create(r->adapter, NULL, &r->cq));
	MUST(weft_cq_create(r->adapter, NULL, &r->near_cq));
	MUST(weft_region_register(r->pd, &region, &r->tag));
	r->near = make_qp(r, r->near_cq);
	r->far = make_qp(r, r->near_cq);
	/* The bystanders meet at a listener of their own. */
	MUST(weft_listener_open(r->adapter, &any, NULL, &listener));
	MUST(weft_listener_address(listener, &at));
	MUST(weft_qp_dial(r->near, &at, NULL));
	r->listener = listener;
	MUST(weft_request_accept(rig_request(r, RAW_MS), r->far, NULL));
	REQUIRE(rig_event(r, r->near, WEFT_EVENT_CONNECTED, &reason));
	REQUIRE(rig_event(r, r->far, WEFT_EVENT_CONNECTED, &reason));
	MUST(weft_listener_close(listener));
	MUST(weft_listener_open(r->adapter, &any, options, &r->listener));
	MUST(weft_listener_address(r->listener, &r->at));
}

static void exchange(struct rig *r, struct weft_qp *from, struct weft_qp *to)
{
	const struct weft_sge there = { (uintptr_t)r->memory + 64, 8, r->tag };
	const struct weft_sge here = { (uintptr_t)r->memory, 8, r->tag };
	const struct weft_recv_wr recv = { .sges = &there, .sge_count = 1 };
	struct weft_send_wr send = {
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED,
		.sges = &here,
		.sge_count = 1,
	};
	struct weft_completion c[2];
	uint32_t count = 0;
	uint64_t end = now_ms() + RAW_MS;

	memset(r->memory + 64, 0, 8);
	memcpy(r->memory, "still ok", 8);
	MUST(weft_qp_post_recv(to, &recv, 1, NULL));
	MUST(weft_qp_post_send(from, &send, 1, NULL));
	while (count < 2 && now_ms() < end) {
		uint32_t n;

		MUST(weft_cq_poll(r->near_cq, c + count, 2 - count, &n));
		count += n;
	}
	EXPECT_EQ(count, 2);
	EXPECT(c[0].status == WEFT_SUCCESS && c[1].status == WEFT_SUCCESS);
	EXPECT_MEM(r->memory + 64, "still ok", 8);
}

void expect_undisturbed(struct rig *r)
{
	exchange(r, r->near, r->far);
	exchange(r, r->far, r->near);
}

void rig_close(struct rig *r)
{
	struct weft_usage usage;

	expect_undisturbed(r);
	MUST(weft_qp_destroy(r->near));
	MUST(weft_qp_destroy(r->far));
	if (r->listener)
		MUST(weft_listener_close(r->listener));
	MUST(weft_region_deregister(r->pd, r->tag));
	MUST(weft_cq_destroy(r->cq));
	MUST(weft_cq_destroy(r->near_cq));
	MUST(weft_pd_destroy(r->pd));
	MUST(weft_adapter_query(r->adapter, &usage));
	EXPECT_EQ(usage.qps, 0);
	MUST(weft_adapter_close(r->adapter));
	free(r->memory);
	EXPECT_EQ(count_descriptors(), r->descriptors);
}

struct weft_request *rig_request(struct rig *r, uint64_t timeout_ms)
{
	struct weft_request *request = NULL;
	uint64_t end = now_ms() + timeout_ms;

	do {
		struct weft_event event;
		bool has_event;

		MUST(weft_listener_next(r->listener, &request));
		if (!request)
			MUST(weft_event_next(r->adapter, NS_PER_MS, &event, &has_event));
	} while (!request && now_ms() < end);
	return request;
}

bool rig_event(struct rig *r, const struct weft_qp *qp, enum weft_event_kind kind,
	       enum weft_reason *reason)
{
	uint64_t end = now_ms() + RAW_MS;

	while (now_ms() < end) {
		struct weft_event event;
		bool has_event;

		MUST(weft_event_next(r->adapter, 10 * NS_PER_MS, &event, &has_event));
		if (!has_event || event.kind != kind || event.number != weft_qp_number(qp))
			continue;
		*reason = event.reason;
		return true;
	}
	return false;
}

void expect_event(struct rig *r, const struct weft_qp *qp, enum weft_event_kind kind,
		  enum weft_reason reason)
{
	enum weft_reason reported = WEFT_REASON_COUNT;

	EXPECT(rig_event(r, qp, kind, &reported));
	EXPECT_STR(weft_reason_name(reported), weft_reason_name(reason));
}

enum weft_reason error_of(struct weft_qp *qp)
{
	struct weft_qp_attr attr;

	MUST(weft_qp_query(qp, &attr));
	return attr.state == WEFT_QPS_ERROR ? attr.reason : WEFT_OK;
}

/* ---- The raw side --------------------------------------------------------------------------- */

/* Nothing of the raw side waits for ever. */
static int raw_socket(void)
{
	const struct timeval limit = { .tv_sec = RAW_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
	return fd;
}

int raw_dial(const struct rig *r)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(r->at.port) };
	int fd = raw_socket();

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	return fd;
}

int raw_listen(int backlog, struct weft_address *at)
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	socklen_t length = sizeof(here);
	int fd = raw_socket();

	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(bind(fd, (struct sockaddr *)&here, sizeof(here)) == 0);
	REQUIRE(listen(fd, backlog) == 0);
	REQUIRE(getsockname(fd, (struct sockaddr *)&here, &length) == 0);
	*at = (struct weft_address){
		.family = 4,
		.ip = { 127, 0, 0, 1 },
		.port = ntohs(here.sin_port),
	};
	return fd;
}

int raw_accept(int listener)
{
	const struct timeval limit = { .tv_sec = RAW_MS / 1000 };
	int fd = accept(listener, NULL, NULL);

	REQUIRE(fd >= 0);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	return fd;
}

void raw_send(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length > 0) {
		ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

		if (n < 0) /* the other end may have left already */
			return;
		at += n;
		length -= (size_t)n;
	}
}

void raw_recv(int fd, void *bytes, size_t length)
{
	uint8_t *at = bytes;

	while (length > 0) {
		ssize_t n = recv(fd, at, length, 0);

		REQUIRE(n > 0);
		at += n;
		length -= (size_t)n;
	}
}

bool raw_ends(int fd)
{
	uint64_t end = now_ms() + RAW_MS;
	uint8_t bytes[4096];

	while (now_ms() < end) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE)))
			return true;
	}
	return false;
}

void raw_reset(int fd)
{
	const struct linger reset = { .l_onoff = 1 };

	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
	close(fd);
}

void raw_start(int fd, const struct start *s)
{
	uint8_t frame[START_BYTES + 4] = "MPA ID ... Frame";
	size_t length = START_BYTES;

	memcpy(frame + 7, s->kind, 3);
	frame[16] = s->flags;
	frame[17] = s->revision;
	frame[18] = (uint8_t)(s->private_bytes >> 8);
	frame[19] = (uint8_t)s->private_bytes;
	if (s->flags & 0x10) {
		for (int i = 0; i < 2; i++) {
			frame[length++] = (uint8_t)(s->words[i] >> 8);
			frame[length++] = (uint8_t)s->words[i];
		}
	}
	raw_send(fd, frame, length);
}

void raw_request(int fd)
{
	raw_start(fd, &(struct start){ "Req", 0x50, 2, 4, { 8, 8 } });
}

int raw_connect(struct rig *r, struct weft_qp *qp)
{
	uint8_t reply[START_BYTES + 4];
	struct weft_request *request;
	enum weft_reason reason;
	int fd = raw_dial(r);

	raw_request(fd);
	request = rig_request(r, RAW_MS);
	REQUIRE(request);
	MUST(weft_request_accept(request, qp, NULL));
	raw_recv(fd, reply, sizeof(reply));
	REQUIRE(memcmp(reply, "MPA ID Rep Frame", 16) == 0);
	REQUIRE(rig_event(r, qp, WEFT_EVENT_CONNECTED, &reason));
	return fd;
}

void raw_fpdu(int fd, const void *ulpdu, uint32_t length)
{
	size_t all = mpa_fpdu_bytes(length), covered = all - MPA_CRC_BYTES;
	uint8_t *fpdu = calloc(1, all);

	REQUIRE(fpdu);
	fpdu[0] = (uint8_t)(length >> 8);
	fpdu[1] = (uint8_t)length;
	memcpy(fpdu + 2, ulpdu, length);
	mpa_crc_encode(crc32c_end(crc32c_add(CRC32C_BEGIN, fpdu, covered)), fpdu + covered);
	raw_send(fd, fpdu, all);
	free(fpdu);
}
