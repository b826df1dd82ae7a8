/* SPDX-License-Identifier: BSD-2-Clause */
/* A target that the test plays by a script of PDUs, with plain sockets. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/crc.h"
#include "live/iscsi/live_iscsi.h"

enum { FIRST_STAT_SN = 500 };

/* ---- Connections ---------------------------------------------------------------------------- */

void script_bind(struct script *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);

	*s = (struct script){ .fd = -1, .listener = socket(AF_INET, SOCK_STREAM, 0) };
	REQUIRE(s->listener >= 0);
	REQUIRE(bind(s->listener, (struct sockaddr *)&at, size) == 0);
	REQUIRE(getsockname(s->listener, (struct sockaddr *)&at, &size) == 0);
	s->at = (struct weft_address){ .family = 4,
				       .ip = { 127, 0, 0, 1 },
				       .port = ntohs(at.sin_port) };
	s->stat_sn = FIRST_STAT_SN;
}

void script_open(struct script *s)
{
	script_bind(s);
	REQUIRE(listen(s->listener, 8) == 0);
}

void script_close(struct script *s)
{
	if (s->fd >= 0)
		close(s->fd);
	close(s->listener);
}

void script_accept(struct script *s)
{
	const struct timeval patience = { .tv_sec = 30 };

	s->fd = accept(s->listener, NULL, NULL);
	REQUIRE(s->fd >= 0);
	REQUIRE(setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
}

void script_hang_up(struct script *s, bool is_reset)
{
	const struct linger at_once = { .l_onoff = 1 };

	if (is_reset)
		REQUIRE(setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
	REQUIRE(close(s->fd) == 0);
	s->fd = -1;
}

void script_connect_raw(struct script *s, struct consumer *c)
{
	consumer_connect(c, &s->at);
	script_accept(s);
}

void script_login_response(struct script *s)
{
	const struct iscsi_pdu yes = {
		.opcode = ISCSI_LOGIN_RESPONSE,
		.is_final = true,
		.csg = ISCSI_STAGE_OPERATIONAL,
		.nsg = ISCSI_STAGE_FULL_FEATURE,
		.isid = 0x800000000001,
		.tsih = 7,
		.itt = 1,
		.stat_sn = s->stat_sn++,
		.exp_cmd_sn = 1,
		.max_cmd_sn = 64,
	};

	script_pdu(s, &yes, NULL);
}

void script_connect(struct script *s, struct consumer *c)
{
	script_connect_raw(s, c);
	consumer_login_begin(c, NULL, 0);
	(void)script_take(s, ISCSI_LOGIN_REQUEST);
	script_login_response(s);
	consumer_login_end(c, &s->after_login);
	s->terms = s->after_login;
}

/* ---- What it says --------------------------------------------------------------------------- */

void script_bytes(struct script *s, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length > 0) {
		ssize_t n = send(s->fd, at, length, MSG_NOSIGNAL);

		REQUIRE(n > 0);
		at += n;
		length -= (size_t)n;
	}
}

static void say_digest(struct script *s, uint32_t digest)
{
	uint8_t bytes[ISCSI_DIGEST_BYTES];

	iscsi_digest_encode(digest, bytes);
	script_bytes(s, bytes, sizeof(bytes));
}

void script_pdu(struct script *s, const struct iscsi_pdu *p, const void *data)
{
	static const uint8_t zeros[4];
	uint8_t header[ISCSI_HEADER_MAX];
	struct wr w = wr_of(header, sizeof(header));
	size_t header_bytes;

	iscsi_encode(p, &w);
	header_bytes = (size_t)(w.at - header);
	script_bytes(s, header, header_bytes);
	if (s->terms.has_header_digest)
		say_digest(s, iscsi_header_digest(header, header_bytes) ^ s->is_header_bad);
	if (p->data_bytes > 0) {
		script_bytes(s, data, p->data_bytes);
		script_bytes(s, zeros, iscsi_pad(p->data_bytes));
		if (s->terms.has_data_digest)
			say_digest(s,
				   iscsi_data_digest(crc32c_add(CRC32C_BEGIN, data, p->data_bytes),
						     p->data_bytes) ^
					   s->is_data_bad);
	}
	s->is_header_bad = false;
	s->is_data_bad = false;
}

void script_data_in(struct script *s, uint32_t itt, uint32_t offset, const void *data,
		    uint32_t length)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_DATA_IN,
		.is_final = true,
		.itt = itt,
		.offset = offset,
		.data_bytes = length,
	};

	script_pdu(s, &p, data);
}

void script_r2t(struct script *s, uint32_t itt, uint32_t offset, uint32_t length)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_R2T,
		.is_final = true,
		.itt = itt,
		.ttt = 0x1000 + offset,
		.stat_sn = s->stat_sn,
		.offset = offset,
		.desired_bytes = length,
	};

	script_pdu(s, &p, NULL);
}

void script_response(struct script *s, uint32_t itt)
{
	const struct iscsi_pdu p = {
		.opcode = ISCSI_SCSI_RESPONSE,
		.is_final = true,
		.itt = itt,
		.stat_sn = s->stat_sn++,
		.exp_cmd_sn = 1,
		.max_cmd_sn = 64,
	};

	script_pdu(s, &p, NULL);
}

/* ---- What it hears -------------------------------------------------------------------------- */

static void hear(struct script *s, uint8_t *to, size_t length)
{
	while (length > 0) {
		ssize_t n = recv(s->fd, to, length, 0);

		REQUIRE(n > 0);
		to += n;
		length -= (size_t)n;
	}
}

static uint32_t hear_digest(struct script *s)
{
	uint8_t bytes[ISCSI_DIGEST_BYTES];

	hear(s, bytes, sizeof(bytes));
	return iscsi_digest_decode(bytes);
}

const struct said *script_take(struct script *s, enum iscsi_opcode opcode)
{
	static struct said said;
	uint8_t zeros[ISCSI_PAD_MAX];
	uint32_t bytes, data_bytes;

	hear(s, said.header, ISCSI_BHS_BYTES);
	bytes = iscsi_header_bytes(said.header);
	REQUIRE(bytes <= sizeof(said.header));
	hear(s, said.header + ISCSI_BHS_BYTES, bytes - ISCSI_BHS_BYTES);
	if (s->terms.has_header_digest)
		REQUIRE(hear_digest(s) == iscsi_header_digest(said.header, bytes));
	data_bytes = iscsi_data_bytes(said.header);
	REQUIRE(data_bytes <= sizeof(said.data));
	hear(s, said.data, data_bytes);
	hear(s, zeros, iscsi_pad(data_bytes));
	if (s->terms.has_data_digest && data_bytes > 0)
		REQUIRE(hear_digest(s) ==
			iscsi_data_digest(crc32c_add(CRC32C_BEGIN, said.data, data_bytes),
					  data_bytes));
	MUST(iscsi_decode(&said.pdu, ISCSI_INITIATOR, rd_of(said.header, bytes), ISCSI_DATA_MAX));
	MUST_EQ(said.pdu.opcode, opcode);
	return &said;
}

void script_drain(struct script *s)
{
	uint8_t bytes[4096];
	ssize_t n;

	do
		n = recv(s->fd, bytes, sizeof(bytes), 0);
	while (n > 0);
	REQUIRE(n == 0 || errno == ECONNRESET);
}

bool script_ended(struct script *s)
{
	uint8_t byte;
	ssize_t n = recv(s->fd, &byte, 1, 0);

	REQUIRE(n == 0 || (n < 0 && errno == ECONNRESET));
	return n == 0;
}
