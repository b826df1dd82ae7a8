/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round of rping, between the dialling side (D) and the listening side (L):
 *
 *	D  sends where its text lies        L  reads it, then sends anything: go on
 *	D  sends where the text may come    L  writes it there, then sends anything: go on
 *
 * What is sent is 16 bytes, big-endian: address (8), tag (4), length (4).
 */
#include "rping_peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INFO_BYTES = 16 };

struct info {
	uint64_t addr;
	uint32_t tag, bytes;
};

static bool succeeds(struct peer *p, struct weft_send_wr *wr, const char *what)
{
	struct weft_completion done;

	if (!peer_do(p, wr, &done))
		return false;
	if (done.status == WEFT_SUCCESS)
		return true;
	printf("%s %s %s\n", what, weft_status_name(done.status), weft_reason_name(done.reason));
	p->is_bad = true;
	return false;
}

static bool info_send(struct peer *p, const struct info *info)
{
	uint8_t bytes[INFO_BYTES];
	const struct weft_sge segment = { (uintptr_t)bytes, INFO_BYTES, 0 };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_SEND, .flags = WEFT_INLINE, .sges = &segment, .sge_count = 1
	};

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(info->addr >> (56 - 8 * i));
	for (int i = 0; i < 4; i++) {
		bytes[8 + i] = (uint8_t)(info->tag >> (24 - 8 * i));
		bytes[12 + i] = (uint8_t)(info->bytes >> (24 - 8 * i));
	}
	return succeeds(p, &wr, "send");
}

/* False: the connection has ended. */
static bool info_recv(struct peer *p, struct info *info)
{
	struct weft_completion done;
	const uint8_t *at;

	if (!peer_await_recv(p, &done) || done.status != WEFT_SUCCESS)
		return false;
	if (done.byte_count != INFO_BYTES) {
		printf("received %" PRIu32 " bytes\n", done.byte_count);
		p->is_bad = true;
		return false;
	}
	at = p->recvs.bytes + done.id * PEER_MESSAGE_MAX;
	*info = (struct info){ 0 };
	for (int i = 0; i < 8; i++)
		info->addr = info->addr << 8 | at[i];
	for (int i = 0; i < 4; i++) {
		info->tag = info->tag << 8 | at[8 + i];
		info->bytes = info->bytes << 8 | at[12 + i];
	}
	peer_recv_post(p, done.id);
	return true;
}

static bool text_move(struct peer *p, enum weft_opcode opcode, const struct info *theirs,
		      uint32_t bytes)
{
	const struct weft_sge segment = { (uintptr_t)p->local.bytes, bytes, p->local.tag };
	struct weft_send_wr wr = { .opcode = opcode,
				   .sges = &segment,
				   .sge_count = 1,
				   .remote_addr = theirs->addr,
				   .remote_tag = theirs->tag };

	return succeeds(p, &wr, weft_opcode_name(opcode));
}

static bool listen_round(struct peer *p, uint32_t bytes)
{
	static const struct info go_on;
	struct info theirs;

	if (!info_recv(p, &theirs))
		return false;
	if (theirs.bytes != bytes) {
		printf("asked for %" PRIu32 " bytes\n", theirs.bytes);
		p->is_bad = true;
	}
	return text_move(p, WEFT_OP_READ, &theirs, bytes) && info_send(p, &go_on) &&
	       info_recv(p, &theirs) && text_move(p, WEFT_OP_WRITE, &theirs, bytes) &&
	       info_send(p, &go_on);
}

void rping_listen(struct peer *p, const char *at, uint32_t count, uint32_t bytes)
{
	struct weft_request *request = peer_listen(p, at);
	uint32_t rounds = 0;
	enum weft_reason r;

	peer_recv_post(p, 0);
	peer_recv_post(p, 1);
	r = peer_accept(p, request, NULL);
	if (r != WEFT_OK) {
		printf("not connected: %s\n", weft_reason_name(r));
		return;
	}
	peer_print_terms(p);
	while (listen_round(p, bytes))
		rounds++;
	printf("rounds %" PRIu32 "\n", rounds);
	if (rounds != count)
		p->is_bad = true;
	peer_await_end(p);
}

static bool dial_round(struct peer *p, uint32_t round, uint32_t bytes)
{
	uint8_t *source = p->region.bytes, *sink = p->region.bytes + bytes;
	const struct info from = { (uintptr_t)source, p->region.tag, bytes };
	const struct info to = { (uintptr_t)sink, p->region.tag, bytes };
	struct info any;

	for (uint32_t i = 0; i < bytes; i++)
		source[i] = (uint8_t)('A' + (i + round) % 26);
	source[bytes - 1] = 0; /* it is a text: rping writes it back up to its end */
	memset(sink, 1, bytes);
	if (!info_send(p, &from) || !info_recv(p, &any) || !info_send(p, &to) ||
	    !info_recv(p, &any))
		return false;
	return memcmp(source, sink, bytes) == 0;
}

void rping_dial(struct peer *p, const char *to, uint32_t count, uint32_t bytes)
{
	uint32_t rounds = 0;
	enum weft_reason r;

	peer_recv_post(p, 0);
	peer_recv_post(p, 1);
	r = peer_dial(p, to, NULL);
	if (r != WEFT_OK) {
		printf("not connected: %s\n", weft_reason_name(r));
		return;
	}
	peer_print_terms(p);
	while (rounds < count && dial_round(p, rounds, bytes))
		rounds++;
	printf("rounds %" PRIu32 "\n", rounds);
	if (rounds != count)
		p->is_bad = true;
	if (rounds == count)
		peer_must(weft_qp_disconnect(p->qp), "disconnect");
	peer_await_end(p);
}
