/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes do RDMA over TCP: one offers a piece of its memory, the other writes into it, reads
 * it back and says so.
 *
 *	two_processes listen 127.0.0.1:7471
 *	two_processes dial 127.0.0.1:7471
 *
 * With WEFT_PCAP=file.pcapng in the environment the traffic goes to a file for Wireshark, or for
 * `weft dump`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum {
	BYTES = 64,
	REGION_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE
};

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	char memory[BYTES]; /* registered as */
	uint32_t tag;
};

/* Every call says why it was refused. */
static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void side_open(struct side *s)
{
	const struct weft_region_options region = {
		.addr = (uintptr_t)s->memory,
		.length = BYTES,
		.rights = REGION_RIGHTS,
	};
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct weft_qp_options qp = { .service = WEFT_RC };

	must(weft_adapter_open(NULL, &s->adapter), "open an adapter");
	must(weft_pd_create(s->adapter, NULL, &s->pd), "make a protection domain");
	must(weft_region_register(s->pd, &region, &s->tag), "register memory");
	must(weft_cq_create(s->adapter, NULL, &s->cq), "make a completion queue");
	qp.send_cq = s->cq;
	qp.recv_cq = s->cq;
	must(weft_qp_create(s->pd, &qp, &s->qp), "make a queue pair");
	must(weft_qp_modify(s->qp, &init, WEFT_QP_STATE), "prepare the queue pair");
}

static void side_close(struct side *s)
{
	must(weft_qp_destroy(s->qp), "destroy the queue pair");
	must(weft_cq_destroy(s->cq), "destroy the completion queue");
	must(weft_region_deregister(s->pd, s->tag), "deregister memory");
	must(weft_pd_destroy(s->pd), "destroy the protection domain");
	must(weft_adapter_close(s->adapter), "close the adapter");
}

/* Waits until the adapter tells this. */
static void await_event(struct side *s, enum weft_event_kind kind)
{
	struct weft_event event;
	bool has_event;

	do {
		must(weft_event_next(s->adapter, UINT64_MAX, &event, &has_event), "wait");
		if (has_event && event.kind == WEFT_EVENT_CONNECT_FAILED)
			must(event.reason, "connect");
	} while (!has_event || event.kind != kind);
}

static struct weft_completion await_completion(struct side *s)
{
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0)
		must(weft_cq_poll(s->cq, &c, 1, &count), "poll");
	if (c.status != WEFT_SUCCESS)
		must(c.reason, weft_opcode_name(c.opcode));
	return c;
}

/* Does one request, all of our memory, and waits for its end. */
static void request(struct side *s, enum weft_opcode opcode, const struct weft_advert *there)
{
	const struct weft_sge segment = {
		.addr = (uintptr_t)s->memory,
		.length = BYTES,
		.tag = s->tag,
	};
	struct weft_send_wr wr = {
		.opcode = opcode,
		.flags = WEFT_SIGNALLED,
		.sges = &segment,
		.sge_count = 1,
	};

	if (there) {
		wr.remote_addr = there->addr;
		wr.remote_tag = there->tag;
	}
	must(weft_qp_post_send(s->qp, &wr, 1, NULL), "post");
	await_completion(s);
}

static void run_listener(struct side *s, const struct weft_address *at)
{
	const struct weft_advert offer = {
		.addr = (uintptr_t)s->memory,
		.length = BYTES,
		.tag = s->tag,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
	};
	/* The message that ends it brings no bytes, so it needs no room. */
	const struct weft_recv_wr recv = { .id = 1 };
	uint8_t bytes[WEFT_ADVERT_BYTES];
	const struct weft_connect_options options = { .private_data = bytes,
						      .private_bytes = sizeof(bytes) };
	char text[WEFT_ADDRESS_TEXT];
	struct weft_address here;
	struct weft_listener *listener;
	struct weft_request *caller = NULL;

	weft_advert_encode(&offer, bytes);
	must(weft_listener_open(s->adapter, at, NULL, &listener), "listen");
	must(weft_listener_address(listener, &here), "see where it listens");
	weft_address_text(&here, text);
	printf("listener: ready at %s, offering %d bytes under tag %#x\n", text, BYTES, s->tag);
	fflush(stdout);
	must(weft_qp_post_recv(s->qp, &recv, 1, NULL), "post a receive");
	while (!caller) {
		await_event(s, WEFT_EVENT_REQUEST);
		must(weft_listener_next(listener, &caller), "take the request");
	}
	must(weft_request_accept(caller, s->qp, &options), "accept");
	await_event(s, WEFT_EVENT_CONNECTED);
	await_completion(s);
	printf("listener: the peer wrote \"%.*s\" here\n", BYTES, s->memory);
	must(weft_listener_close(listener), "stop listening");
}

static void run_dialler(struct side *s, const struct weft_address *to)
{
	const struct weft_send_wr done = { .opcode = WEFT_OP_SEND, .flags = WEFT_SIGNALLED };
	struct weft_send_wr wr = done;
	struct weft_advert there;
	struct weft_peer peer;

	must(weft_qp_dial(s->qp, to, NULL), "dial");
	await_event(s, WEFT_EVENT_CONNECTED);
	must(weft_qp_peer(s->qp, &peer), "look at the peer");
	if (!weft_advert_decode(peer.private_data, peer.private_bytes, &there)) {
		fprintf(stderr, "the other end offers nothing\n");
		exit(1);
	}
	printf("dialler:  offered %llu bytes under tag %#x\n", (unsigned long long)there.length,
	       there.tag);
	snprintf(s->memory, BYTES, "hello from another process");
	request(s, WEFT_OP_WRITE, &there);
	memset(s->memory, 0, BYTES);
	request(s, WEFT_OP_READ, &there);
	printf("dialler:  read back \"%.*s\"\n", BYTES, s->memory);
	must(weft_qp_post_send(s->qp, &wr, 1, NULL), "say that it is done");
	await_completion(s);
}

int main(int argc, char **argv)
{
	static struct side side;
	struct weft_address address;
	bool is_listener = argc == 3 && strcmp(argv[1], "listen") == 0;

	if (argc != 3 || (!is_listener && strcmp(argv[1], "dial") != 0)) {
		fprintf(stderr, "usage: two_processes listen|dial ADDRESS:PORT\n");
		return 2;
	}
	must(weft_address_parse(argv[2], &address), argv[2]);
	side_open(&side);
	if (is_listener)
		run_listener(&side, &address);
	else
		run_dialler(&side, &address);
	side_close(&side);
	return 0;
}
