/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iser_wire roce|iwarp dial ADDRESS:PORT | listen: a queue pair for a script (iser_wire.py), which
 * says line by line what it is to do, and is told what happens. It holds to no rule of iSER.
 *
 *	send HEX		a Send of these bytes
 *	send HEX TAG		the same with Invalidate
 *	write TAG ADDR LENGTH	RDMA Write from the first bytes of the memory that is lent
 *	read TAG ADDR LENGTH	RDMA Read
 *	fill BYTE LENGTH	into the memory that is lent
 *	put HEX			the same
 *	show LENGTH		what is in it: memory HEX
 *
 * It says, a line each:
 *
 *	lent READ WRITE ADDR	one piece of memory, with a tag for Reads only and one for Writes
 *	port NUMBER		listen: where; it takes one connection after the other
 *	up
 *	got HEX [TAG]		a Send came; TAG: which it has invalidated
 *	done REASON [HEX]	what was asked for, in its order; the bytes of a Read
 *	down REASON
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/least.h"
#include "roles/rdma_end.h"
#include "wire/iser.h"

enum {
	MESSAGES = 64,
	MESSAGE = 16384,
	LENT = 1 << 20,
	LINE = 2 * MESSAGE + 256,
	ID_SEND = MESSAGES,
	WAIT_NS = 1000000000
};

/* All memory that the adapter may reach. */
static struct {
	uint8_t receives[MESSAGES][MESSAGE], sends[MESSAGES][MESSAGE];
	uint8_t fetched[LENT], lent[LENT];
} memory;

static struct weft_adapter *adapter;
static struct weft_pd *pd;
static struct weft_cq *cq;
static uint32_t tag, read_tag, write_tag;
static enum rdma_wire wire;
static struct rdma_listener listener;
static struct rdma_end end;
static struct weft_qp *qp; /* NULL: there is no connection */
static uint64_t sent, fetching;

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, weft_reason_text(r));
	exit(1);
}

static void say_hex(const char *word, const void *bytes, uint32_t length)
{
	const uint8_t *at = bytes;

	printf("%s ", word);
	for (uint32_t i = 0; i < length; i++)
		printf("%02x", at[i]);
}

/* ---- The queue pair ------------------------------------------------------------------------- */

static const struct rdma_terms *terms(void)
{
	static const struct iser_private mine = { .lacks_zero_based = true };
	static uint8_t private_data[ISER_PRIVATE_BYTES];
	static const struct rdma_terms t = { .private_data = private_data,
					     .private_bytes = sizeof(private_data),
					     .reads_in = 16,
					     .reads_out = 16 };

	iser_private_encode(&mine, private_data);
	return &t;
}

static void receive_post(uint32_t i)
{
	const struct weft_sge sge = { (uintptr_t)memory.receives[i], MESSAGE, tag };
	const struct weft_recv_wr wr = { .id = i, .sges = &sge, .sge_count = 1 };

	(void)weft_qp_post_recv(qp, &wr, 1, NULL);
}

static void qp_open(void)
{
	const struct weft_qp_options o = { .send_cq = cq,
					   .recv_cq = cq,
					   .service = WEFT_RC,
					   .send_max = MESSAGES,
					   .recv_max = MESSAGES,
					   .context = &end.object };

	rdma_end_init(&end, wire);
	must(weft_qp_create(pd, &o, &qp), "queue pair");
	sent = 0;
}

static void qp_close(void)
{
	uint32_t number = weft_qp_number(qp);

	rdma_end_close(&end);
	must(weft_qp_destroy(qp), "end of the queue pair");
	(void)weft_cq_forget(cq, number);
	qp = NULL;
}

static void post(struct weft_send_wr *wr, const void *from, uint32_t length)
{
	const struct weft_sge sge = { (uintptr_t)from, length, tag };
	enum weft_reason r;

	wr->id = ID_SEND + sent++ % MESSAGES;
	wr->flags = WEFT_SIGNALLED;
	wr->sges = &sge;
	wr->sge_count = 1;
	r = qp ? weft_qp_post_send(qp, wr, 1, NULL) : WEFT_R_PEER_GONE;
	if (r != WEFT_OK)
		printf("done %s\n", weft_reason_name(r));
}

/* ---- What is asked for ---------------------------------------------------------------------- */

static uint32_t bytes_of(const char *hex, uint8_t *to)
{
	uint32_t count = 0;
	unsigned int byte;

	for (; count < MESSAGE && sscanf(hex, "%2x", &byte) == 1; hex += 2)
		to[count++] = (uint8_t)byte;
	return count;
}

static void take_line(char *line)
{
	struct weft_send_wr wr = { 0 };
	char *word = strtok(line, " "), *first = strtok(NULL, " ");
	char *second = strtok(NULL, " "), *third = strtok(NULL, " ");
	uint32_t number = first ? (uint32_t)strtoul(first, NULL, 0) : 0;

	if (!word || !first)
		return;
	wr.remote_tag = number;
	wr.remote_addr = second ? strtoull(second, NULL, 0) : 0;
	if (strcmp(word, "send") == 0) {
		uint8_t *message = memory.sends[sent % MESSAGES];

		wr = (struct weft_send_wr){ .opcode = second ? WEFT_OP_SEND_INVALIDATE
							     : WEFT_OP_SEND };
		wr.invalidate_tag = second ? (uint32_t)strtoul(second, NULL, 0) : 0;
		post(&wr, message, bytes_of(first, message));
	} else if (strcmp(word, "write") == 0 && third) {
		wr.opcode = WEFT_OP_WRITE;
		post(&wr, memory.lent, least((uint32_t)strtoul(third, NULL, 0), LENT));
	} else if (strcmp(word, "read") == 0 && third) {
		wr.opcode = WEFT_OP_READ;
		fetching = least((uint32_t)strtoul(third, NULL, 0), LENT);
		post(&wr, memory.fetched, (uint32_t)fetching);
	} else if (strcmp(word, "fill") == 0 && second) {
		memset(memory.lent, (int)number, least((uint32_t)wr.remote_addr, LENT));
	} else if (strcmp(word, "put") == 0) {
		(void)bytes_of(first, memory.lent);
	} else if (strcmp(word, "show") == 0) {
		say_hex("memory", memory.lent, least(number, LENT));
		printf("\n");
	}
}

/* False: there will be no more. */
static bool input_take(void)
{
	static char line[LINE];
	static uint32_t held;
	ssize_t got = read(STDIN_FILENO, line + held, sizeof(line) - 1 - held);
	char *newline;

	if (got <= 0)
		return false;
	held += (uint32_t)got;
	line[held] = '\0';
	while ((newline = strchr(line, '\n')) != NULL) {
		uint32_t taken = (uint32_t)(newline + 1 - line);

		*newline = '\0';
		take_line(line);
		held -= taken;
		memmove(line, newline + 1, held + 1);
	}
	return held < sizeof(line) - 1;
}

/* ---- What happens --------------------------------------------------------------------------- */

static void completed(const struct weft_completion *c)
{
	if (c->id < ID_SEND && c->status == WEFT_SUCCESS) {
		say_hex("got", memory.receives[c->id], c->byte_count);
		if (c->has_invalidated)
			printf(" %u", c->invalidated_tag);
		printf("\n");
		receive_post((uint32_t)c->id);
	} else if (c->id >= ID_SEND) {
		printf("done %s", weft_reason_name(c->reason));
		if (c->opcode == WEFT_OP_READ && c->status == WEFT_SUCCESS)
			say_hex("", memory.fetched, c->byte_count);
		printf("\n");
	}
}

static void completions_take(void)
{
	struct weft_completion c;
	uint32_t count = 1;

	while (weft_cq_poll(cq, &c, 1, &count) == WEFT_OK && count > 0) {
		if (qp && c.qp_number == weft_qp_number(qp))
			completed(&c);
	}
}

static void end_moved(void)
{
	if (end.state == RDMA_UP) {
		for (uint32_t i = 0; i < MESSAGES; i++)
			receive_post(i);
		printf("up\n");
	} else if (end.state == RDMA_DOWN) {
		completions_take();
		printf("down %s\n", weft_reason_name(end.reason));
		/* The queue pair stays until the next one: the peer is to be told why. */
		rdma_end_close(&end);
	}
}

static void requests_take(void)
{
	struct rdma_request request;

	while (rdma_listener_next(&listener, &request)) {
		if (qp && end.state != RDMA_DOWN) {
			rdma_request_reject(&request);
			continue;
		}
		if (qp)
			qp_close();
		qp_open();
		if (rdma_request_accept(&request, &end, qp, terms()) != WEFT_OK)
			qp_close();
	}
}

static void events_take(void)
{
	struct weft_event event;
	bool has_event = false;

	while (weft_event_take(adapter, &event, &has_event) == WEFT_OK && has_event) {
		struct rdma_object *object = event.context;

		if (object && object->kind == RDMA_LISTENER)
			requests_take();
		else if (object == &end.object && qp && rdma_end_event(&end, &event))
			end_moved();
	}
}

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t region(void *at, uint64_t length, uint32_t rights)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)at,
		.length = length,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | rights,
	};
	uint32_t made;

	must(weft_region_register(pd, &o, &made), "memory");
	return made;
}

static void begin(const char *how, const char *where)
{
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };

	must(weft_adapter_open(NULL, &adapter), "adapter");
	must(weft_pd_create(adapter, NULL, &pd), "domain");
	must(weft_cq_create(adapter, &(struct weft_cq_options){ .entries_max = 4 * MESSAGES }, &cq),
	     "completion queue");
	tag = region(&memory, sizeof(memory), 0);
	read_tag = region(memory.lent, LENT, WEFT_REMOTE_READ);
	write_tag = region(memory.lent, LENT, WEFT_REMOTE_WRITE);
	if (wire == RDMA_ROCE)
		must(weft_roce_open(adapter), "RoCE");
	must(weft_adapter_drive(adapter, true), "thread");
	printf("lent %u %u %llu\n", read_tag, write_tag,
	       (unsigned long long)(uintptr_t)memory.lent);
	if (strcmp(how, "listen") == 0) {
		must(rdma_listener_open(&listener, adapter, wire, &at), "listen");
		must(rdma_listener_address(&listener, &at), "address");
		printf("port %u\n", at.port);
		return;
	}
	must(weft_address_parse(where, &at), "address");
	qp_open();
	must(rdma_end_dial(&end, adapter, qp, &at, terms()), "dial");
}

int main(int argc, char **argv)
{
	bool has_input;

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, LINE);
	wire = strcmp(argv[1], "roce") == 0 ? RDMA_ROCE : RDMA_IWARP;
	begin(argv[2], argc > 3 ? argv[3] : "");
	do {
		bool is_woken = false;

		(void)weft_cq_wait(cq, STDIN_FILENO, WAIT_NS, &is_woken);
		completions_take();
		events_take();
		has_input = !is_woken || input_take();
	} while (has_input);
	return 0;
}
