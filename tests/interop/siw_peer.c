/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft's end of the interoperation tests. The other end is a program of the same words that runs
 * on another implementation (kernel/guest/verbs.c), or rping, see rping_peer.c.
 *
 *	siw_peer listen ADDR:PORT [OPTION...]
 *	siw_peer dial ADDR:PORT [OPTION...] OP[:BYTES]...
 *	siw_peer rping-listen ADDR:PORT COUNT BYTES
 *	siw_peer rping-dial ADDR:PORT COUNT BYTES
 *
 * The dialling side acts, the listening side checks and is silent. Operations:
 *
 *	send write read sendinv        one message; sendinv invalidates what was advertised
 *	badwrite badread badinv        with a tag that was never registered
 *	oobwrite oobread               beyond the end of what was advertised
 *	rawwrite                       a Write that the other end is not told of
 *	reads sends writes             several at a time
 *	end                            waits for the end of the connection
 *
 * The listening side advertises memory by its private data: 16 bytes. Its first half is written,
 * its second half holds what is read. A Write is followed by a Send that says how much was written,
 * and the listening side answers by one that says what it found.
 * Payload is a pattern that depends on the length, so the receiver can check it.
 *
 * One line is printed for each thing that happens; exit status 1 if data was wrong or nothing came.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "rping_peer.h"

enum {
	WRONG = 0x00a5a500, /* makes another tag of a good one */
	MANY = 12,	    /* of `reads`, `sends`, `writes` */
};

struct options {
	struct weft_connect_options connect;
	uint32_t recvs, recv_bytes, private_bytes;
	bool is_rejecting, is_window;
};

struct advert {
	uint64_t addr;
	uint32_t tag, length;
};

/* ---- Bytes ---------------------------------------------------------------------------------- */

static uint8_t pattern(uint32_t bytes, uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + bytes);
}

static void fill(uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = pattern(bytes, i);
}

static const char *judge(struct peer *p, const uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != pattern(bytes, i)) {
			p->is_bad = true;
			return "bad";
		}
	}
	return "good";
}

static void number_put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint64_t number_get(const uint8_t *at, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static void advert_put(const struct advert *a, uint8_t *bytes)
{
	number_put(bytes, a->addr, 8);
	number_put(bytes + 8, a->tag, 4);
	number_put(bytes + 12, a->length, 4);
}

static struct advert advert_get(const uint8_t *bytes)
{
	return (struct advert){ number_get(bytes, 8), (uint32_t)number_get(bytes + 8, 4),
				(uint32_t)number_get(bytes + 12, 4) };
}

/* Private data is an advertisement (from the listening side), then a pattern. */
static void private_print(struct peer *p, const struct weft_peer *w, uint32_t skip)
{
	if (w->private_bytes < skip)
		printf("private %" PRIu32 " none\n", w->private_bytes);
	else
		printf("private %" PRIu32 " %s\n", w->private_bytes,
		       judge(p, w->private_data + skip, w->private_bytes - skip));
}

/* ---- The listening side --------------------------------------------------------------------- */

static void written_check(struct peer *p, uint32_t bytes)
{
	uint32_t at = bytes & 63;

	printf("written %" PRIu32 " %s\n", bytes, judge(p, p->region.bytes + at, bytes));
	memset(p->region.bytes + at, 0, bytes);
	for (uint32_t i = 0; i < PEER_MESSAGE_MAX; i++) {
		if (p->region.bytes[i] != 0) {
			printf("written beyond, at %" PRIu32 "\n", i);
			p->is_bad = true;
			return;
		}
	}
}

/* An answer that is not waited for: it is in order with everything else. */
static void verdict_send(struct peer *p)
{
	const char *word = p->is_bad ? "bad" : "good";
	const struct weft_sge segment = { (uintptr_t)word, (uint32_t)strlen(word), 0 };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_SEND, .flags = WEFT_INLINE, .sges = &segment, .sge_count = 1
	};

	peer_must(weft_qp_post_send(p->qp, &wr, 1, NULL), "post verdict");
}

static void received(struct peer *p, const struct weft_completion *done)
{
	const uint8_t *at = p->recvs.bytes + done->id * PEER_MESSAGE_MAX;
	uint32_t bytes;
	char text[32];

	if (done->status != WEFT_SUCCESS) {
		if (done->status != WEFT_ERR_FLUSHED)
			printf("received failed: %s %s\n", weft_status_name(done->status),
			       weft_reason_name(done->reason));
		return;
	}
	memcpy(text, at, sizeof(text));
	text[sizeof(text) - 1] = 0;
	if (sscanf(text, "check:%" SCNu32 ".", &bytes) == 1) {
		written_check(p, bytes);
		verdict_send(p);
	} else {
		printf("received %" PRIu32 " %s%s\n", done->byte_count,
		       judge(p, at, done->byte_count), done->has_invalidated ? " invalidated" : "");
	}
	peer_recv_post(p, done->id);
}

static uint32_t window_make(struct peer *p)
{
	struct weft_bind bind = {
		.region_tag = p->region.tag,
		.addr = (uintptr_t)p->region.bytes,
		.length = PEER_REGION_BYTES,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
	};

	peer_must(weft_window_alloc(p->pd, &bind.window_tag), "window");
	peer_must(weft_window_bind(p->pd, &bind), "bind");
	return bind.tag;
}

/* The peer may have invalidated it; then there is nothing to unbind. */
static void window_drop(struct peer *p, uint32_t tag)
{
	(void)weft_window_unbind(p->pd, tag);
	peer_must(weft_window_free(p->pd, tag), "free window");
}

static void listen_accepted(struct peer *p, struct weft_request *request, struct options *o)
{
	enum weft_reason r = peer_accept(p, request, &o->connect);
	struct weft_completion done;

	if (r != WEFT_OK) {
		printf("not connected: %s\n", weft_reason_name(r));
		return;
	}
	peer_print_terms(p);
	while (peer_await_recv(p, &done))
		received(p, &done);
	peer_await_end(p);
}

static void listen_once(struct peer *p, const char *at, struct options *o)
{
	uint8_t words[WEFT_PRIVATE_MAX];
	struct advert mine = { (uintptr_t)p->region.bytes, p->region.tag, PEER_REGION_BYTES };
	struct weft_request *request;
	struct weft_peer w;

	for (uint32_t i = 0; i < PEER_MESSAGE_MAX; i++)
		p->region.bytes[PEER_MESSAGE_MAX + i] = pattern(0, i);
	if (o->is_window)
		mine.tag = window_make(p);
	advert_put(&mine, words);
	fill(words + PEER_ADVERT_BYTES, o->private_bytes - PEER_ADVERT_BYTES);
	o->connect.private_data = words;
	o->connect.private_bytes = o->private_bytes;
	request = peer_listen(p, at);
	peer_must(weft_request_query(request, &w), "query request");
	private_print(p, &w, 0);
	for (uint32_t i = 0; i < o->recvs; i++)
		peer_recv_post(p, i);
	if (o->is_rejecting) {
		peer_must(weft_request_reject(request, &o->connect), "reject");
		printf("rejected\n");
	} else {
		listen_accepted(p, request, o);
	}
	if (o->is_window)
		window_drop(p, mine.tag);
}

/* ---- The dialling side ---------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Fills a request in by an operation's name; false: there is none of that name. */
static bool request_make(const char *op, uint32_t bytes, const struct advert *theirs,
			 struct weft_send_wr *wr)
{
	bool has_prefix = starts(op, "bad") || starts(op, "oob") || starts(op, "raw");
	const char *kind = has_prefix ? op + 3 : op;
	uint32_t wrong = starts(op, "bad") ? WRONG : 0;

	wr->remote_tag = theirs->tag ^ wrong;
	wr->remote_addr = theirs->addr + (bytes & 63);
	if (strcmp(kind, "write") == 0) {
		wr->opcode = WEFT_OP_WRITE;
	} else if (strcmp(kind, "read") == 0) {
		wr->opcode = WEFT_OP_READ;
		wr->remote_addr = theirs->addr + PEER_MESSAGE_MAX;
	} else if (strcmp(kind, "send") == 0) {
		wr->opcode = WEFT_OP_SEND;
	} else if (strcmp(kind, "inv") == 0 || strcmp(kind, "sendinv") == 0) {
		wr->opcode = WEFT_OP_SEND_INVALIDATE;
		wr->invalidate_tag = theirs->tag ^ wrong;
	} else {
		return false;
	}
	if (starts(op, "oob"))
		wr->remote_addr = theirs->addr + theirs->length - bytes / 2;
	return true;
}

/* Says to the peer how much was written, for it to look. */
static bool written_tell(struct peer *p, uint32_t bytes, struct weft_completion *done)
{
	struct weft_sge segment = { .addr = (uintptr_t)p->local.bytes, .tag = p->local.tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &segment, .sge_count = 1 };
	struct weft_completion answer;

	snprintf((char *)p->local.bytes, 32, "check:%" PRIu32 ".", bytes);
	segment.length = (uint32_t)strlen((const char *)p->local.bytes) + 1;
	if (!peer_do(p, &wr, done))
		return false;
	if (done->status != WEFT_SUCCESS)
		return true;
	if (!peer_await_recv(p, &answer))
		return false;
	if (answer.status != WEFT_SUCCESS || answer.byte_count != 4) {
		printf("the other end says bad\n");
		p->is_bad = true;
	}
	peer_recv_post(p, answer.id);
	return true;
}

/* Whether it went well; if not, it was the last. */
static bool print_done(struct peer *p, const char *op, uint32_t bytes,
		       const struct weft_completion *done)
{
	printf("%s %" PRIu32 " %s", op, bytes, weft_status_name(done->status));
	if (done->status == WEFT_SUCCESS) {
		printf("\n");
		return true;
	}
	printf(" %s\n", weft_reason_name(done->reason));
	peer_await_end(p);
	return false;
}

/* What was read, at some place of ours: byte i of the peer's second half is pattern(0, i). */
static void read_check(struct peer *p, const uint8_t *at, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (at[i] != pattern(0, i)) {
			printf("read bad at %" PRIu32 "\n", i);
			p->is_bad = true;
			return;
		}
	}
}

static bool operation_one(struct peer *p, const char *op, uint32_t bytes,
			  const struct advert *theirs)
{
	uint8_t *at = p->local.bytes + (bytes & 31);
	const struct weft_sge segment = { (uintptr_t)at, bytes, p->local.tag };
	struct weft_send_wr wr = { .sges = &segment, .sge_count = bytes > 0 };
	struct weft_completion done;

	if (!request_make(op, bytes, theirs, &wr)) {
		printf("no operation %s\n", op);
		p->is_bad = true;
		return false;
	}
	if (wr.opcode == WEFT_OP_READ)
		memset(p->local.bytes, 0xee, PEER_MESSAGE_MAX);
	else
		fill(at, bytes);
	if (!peer_do(p, &wr, &done))
		return false;
	if (done.status == WEFT_SUCCESS && strcmp(op, "read") == 0)
		read_check(p, at, bytes);
	if (done.status == WEFT_SUCCESS && strcmp(op, "write") == 0 &&
	    !written_tell(p, bytes, &done))
		return false;
	return print_done(p, op, bytes, &done);
}

/* MANY requests at once, each with a place of its own; the last is signalled. */
static bool operation_many(struct peer *p, const char *op, uint32_t bytes,
			   const struct advert *theirs)
{
	struct weft_send_wr wrs[MANY];
	struct weft_sge segments[MANY];
	struct weft_completion done;
	char one[8];

	snprintf(one, sizeof(one), "%.*s", (int)strlen(op) - 1, op);
	for (uint32_t i = 0; i < MANY; i++) {
		uint8_t *at = p->local.bytes + (size_t)i * bytes;

		segments[i] = (struct weft_sge){ (uintptr_t)at, bytes, p->local.tag };
		wrs[i] = (struct weft_send_wr){ .sges = &segments[i], .sge_count = 1 };
		if (!request_make(one, bytes, theirs, &wrs[i]))
			return false;
		fill(at, bytes);
	}
	peer_must(weft_qp_post_send(p->qp, wrs, MANY - 1, NULL), "post many");
	if (!peer_do(p, &wrs[MANY - 1], &done))
		return false;
	for (uint32_t i = 0; i < MANY && wrs[i].opcode == WEFT_OP_READ; i++)
		read_check(p, p->local.bytes + (size_t)i * bytes, bytes);
	if (wrs[0].opcode == WEFT_OP_WRITE && !written_tell(p, bytes, &done))
		return false;
	return print_done(p, op, bytes, &done);
}

/* False: no more operations. */
static bool operation(struct peer *p, const char *text, const struct advert *theirs)
{
	uint32_t bytes = 64;
	char op[16];

	if (sscanf(text, "%15[^:]:%" SCNu32, op, &bytes) < 1)
		return false;
	if (strcmp(op, "end") == 0) {
		peer_await_end(p);
		return false;
	}
	return (op[strlen(op) - 1] == 's' ? operation_many : operation_one)(p, op, bytes, theirs);
}

static void dial(struct peer *p, const char *to, struct options *o, char **ops)
{
	uint8_t words[WEFT_PRIVATE_MAX];
	struct advert theirs = { 0 };
	struct weft_peer w;
	enum weft_reason r;

	fill(words, o->private_bytes);
	o->connect.private_data = words;
	o->connect.private_bytes = o->private_bytes;
	for (uint32_t i = 0; i < o->recvs; i++)
		peer_recv_post(p, i);
	r = peer_dial(p, to, &o->connect);
	if (r != WEFT_OK)
		printf("not connected: %s\n", weft_reason_name(r));
	else
		peer_print_terms(p);
	peer_must(weft_qp_peer(p->qp, &w), "peer");
	private_print(p, &w, PEER_ADVERT_BYTES);
	if (r != WEFT_OK)
		return;
	if (w.private_bytes >= PEER_ADVERT_BYTES)
		theirs = advert_get(w.private_data);
	while (*ops && operation(p, *ops, &theirs))
		ops++;
	if (!*ops) {
		peer_must(weft_qp_disconnect(p->qp), "disconnect");
		peer_await_end(p);
	}
}

/* ---- The command line ----------------------------------------------------------------------- */

/* Takes one option; how many words it was, 0: not an option. */
static int option_take(char **argv, struct options *o)
{
	const char *name = argv[0];
	uint32_t value = argv[1] ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;

	if (strcmp(name, "--reject") == 0)
		o->is_rejecting = true;
	else if (strcmp(name, "--window") == 0)
		o->is_window = true;
	else if (strcmp(name, "--crc-off") == 0)
		o->connect.is_crc_off = true;
	else if (strcmp(name, "--markers") == 0)
		o->connect.wants_markers = true;
	else if (strcmp(name, "--client-server") == 0)
		o->connect.is_client_server = true;
	else if (strcmp(name, "--rev") == 0)
		o->connect.mpa_revision = (uint8_t)value;
	else if (strcmp(name, "--recvs") == 0)
		o->recvs = value;
	else if (strcmp(name, "--recv-bytes") == 0)
		o->recv_bytes = value;
	else if (strcmp(name, "--private") == 0)
		o->private_bytes = value;
	else if (strcmp(name, "--depth") == 0)
		o->connect.ird = o->connect.ord = value;
	else
		return 0;
	return strcmp(name, "--rev") == 0 || starts(name, "--recv") ||
			       strcmp(name, "--private") == 0 || strcmp(name, "--depth") == 0
		       ? 2
		       : 1;
}

static int usage(void)
{
	fprintf(stderr, "usage: siw_peer listen|dial ADDR:PORT [OPTION...] [OP...]\n"
			"       siw_peer rping-listen|rping-dial ADDR:PORT COUNT BYTES\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct options o = { .recvs = PEER_RECVS_MAX,
			     .recv_bytes = PEER_MESSAGE_MAX,
			     .private_bytes = PEER_ADVERT_BYTES };
	struct peer p;
	int at = 3, taken;

	if (argc < 3)
		return usage();
	while (argv[at] && (taken = option_take(argv + at, &o)) > 0)
		at += taken;
	peer_open(&p);
	p.recv_bytes = o.recv_bytes;
	if (strcmp(argv[1], "listen") == 0)
		listen_once(&p, argv[2], &o);
	else if (strcmp(argv[1], "dial") == 0)
		dial(&p, argv[2], &o, argv + at);
	else if (argc == 5 && strcmp(argv[1], "rping-listen") == 0)
		rping_listen(&p, argv[2], (uint32_t)atol(argv[3]), (uint32_t)atol(argv[4]));
	else if (argc == 5 && strcmp(argv[1], "rping-dial") == 0)
		rping_dial(&p, argv[2], (uint32_t)atol(argv[3]), (uint32_t)atol(argv[4]));
	else
		return usage();
	peer_close(&p);
	return p.is_bad ? 1 : 0;
}
