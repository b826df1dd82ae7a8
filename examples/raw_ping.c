/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw datagrams: a program that is a host of its own on IPv6 and answers pings.
 *
 *	raw_ping weft0 fd00::2 &
 *	ip address add fd00::1/64 dev weft0; ip link set weft0 up
 *	ping fd00::2
 *
 * At a node of a fabric lid:N takes the place of the interface, and is a bridge there.
 *
 * It needs CAP_NET_ADMIN, or a weft0 made for the user (see weft_raw_open()); a network namespace
 * of one's own will do: unshare -rn. It ends after as many answers as its third argument says.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

enum {
	FRAME_MAX = 1500,
	SLOTS = 16,
	HEADER = 40,
	ICMP6 = 58,
	ECHO_REQUEST = 128,
	ECHO_REPLY = 129
};

static uint8_t frames[SLOTS][FRAME_MAX];
static struct weft_ah *bridge; /* of answers in a fabric */

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void receive(struct weft_qp *qp, uint32_t tag, uint64_t slot)
{
	const struct weft_sge s = { (uintptr_t)frames[slot], FRAME_MAX, tag };
	const struct weft_recv_wr wr = { .id = slot, .sges = &s, .sge_count = 1 };

	must(weft_qp_post_recv(qp, &wr, 1, NULL), "receive");
}

/* Back to where it came from; the checksum does not care which address is whose. */
static void turn_round(uint8_t *frame)
{
	uint32_t sum = (uint32_t)frame[HEADER + 2] << 8 | frame[HEADER + 3];
	uint8_t from[16];

	memcpy(from, frame + 8, sizeof(from));
	memcpy(frame + 8, frame + 24, sizeof(from));
	memcpy(frame + 24, from, sizeof(from));
	frame[HEADER] = ECHO_REPLY;
	/* RFC 1624: a word has grown by 0x100, so its complement's sum falls by as much. */
	sum = sum >= 0x100 ? sum - 0x100 : sum + 0xffff - 0x100;
	frame[HEADER + 2] = (uint8_t)(sum >> 8);
	frame[HEADER + 3] = (uint8_t)sum;
}

/* What came in a slot. True: it is answered, and the slot is in use until that has left. */
static bool answer(struct weft_qp *qp, uint32_t tag, const struct weft_completion *c)
{
	uint8_t *frame = frames[c->id];
	const struct weft_sge s = { (uintptr_t)frame, c->byte_count, tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND,
				   .flags = WEFT_SIGNALLED,
				   .id = c->id,
				   .sges = &s,
				   .sge_count = 1,
				   .ah = bridge };

	if (c->byte_count < HEADER + 8 || frame[HEADER] != ECHO_REQUEST)
		return false;
	turn_round(frame);
	must(weft_qp_post_send(qp, &wr, 1, NULL), "answer");
	return true;
}

/* The next completion, however long it takes. */
static struct weft_completion next_of(struct weft_adapter *adapter, struct weft_cq *cq)
{
	struct weft_completion c;
	struct weft_event e;
	uint32_t taken;
	bool has_event;

	for (;;) {
		must(weft_cq_poll(cq, &c, 1, &taken), "polling");
		if (taken == 1)
			return c;
		must(weft_cq_arm(cq, WEFT_ARM_NEXT), "arming");
		must(weft_cq_poll(cq, &c, 1, &taken), "polling"); /* came meanwhile */
		if (taken == 1)
			return c;
		must(weft_event_next(adapter, UINT64_MAX, &e, &has_event), "waiting");
	}
}

int main(int count, char **words)
{
	const struct weft_roce_attr roce = { .path.mtu_bytes = 4096 };
	struct weft_raw_options raw = { .next_header = ICMP6, .to.family = 6 };
	struct weft_region_options memory = { .addr = (uintptr_t)frames,
					      .length = sizeof(frames),
					      .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	struct weft_qp_options options = { .service = WEFT_UD };
	unsigned long left = count == 4 ? strtoul(words[3], NULL, 10) : 0;
	struct weft_path path = { .mtu_bytes = 2048 };
	struct weft_adapter *adapter;
	struct weft_completion c;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint32_t tag;

	if ((count != 3 && count != 4) || inet_pton(AF_INET6, words[2], raw.to.ip) != 1) {
		fprintf(stderr, "usage: raw_ping INTERFACE ADDRESS [PINGS]\n");
		return 2;
	}
	must(weft_adapter_open(NULL, &adapter), "adapter");
	must(weft_pd_create(adapter, NULL, &pd), "protection domain");
	if (sscanf(words[1], "lid:%" SCNu32, &path.to_lid) == 1)
		must(weft_ah_create(pd, &path, &bridge), words[1]);
	else
		must(weft_raw_open(adapter, words[1]), words[1]);
	must(weft_cq_create(adapter, NULL, &cq), "completion queue");
	must(weft_region_register(pd, &memory, &tag), "registration");
	options.send_cq = options.recv_cq = cq;
	must(weft_qp_create(pd, &options, &qp), "queue pair");
	must(weft_qp_to_rtr(qp, &roce), "receiving");
	must(weft_qp_to_rts(qp, &roce), "sending");
	must(weft_qp_to_raw(qp, &raw), "raw");
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		receive(qp, tag, slot);
	printf("answers pings to %s by %s\n", words[2], words[1]);
	fflush(stdout);
	for (;;) {
		c = next_of(adapter, cq);
		if (c.opcode == WEFT_OP_RECV && answer(qp, tag, &c))
			continue;
		if (c.opcode == WEFT_OP_SEND && left > 0 && --left == 0)
			break;
		receive(qp, tag, c.id);
	}
	if (bridge)
		must(weft_ah_destroy(bridge), "address handle");
	must(weft_qp_destroy(qp), "queue pair");
	must(weft_region_deregister(pd, tag), "registration");
	must(weft_cq_destroy(cq), "completion queue");
	must(weft_pd_destroy(pd), "protection domain");
	must(weft_adapter_close(adapter), "adapter");
	return 0;
}
