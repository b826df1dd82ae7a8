/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iscsi_command ADDRESS:PORT TARGET [hold]: writes 64 KiB to LUN 0 of an iSCSI target, and reads
 * them again. The adapter moves the data by itself. docs/iscsi-qp.md explains it.
 * hold: waits for the end of the standard input before it ends, so that it can be looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/iscsi_qp.h>

enum { BLOCK = 512, BYTES = 64 * 1024, RECEIVES = 32, PDU_BYTES = 8192 + 48 };

static uint8_t memory[2 * BYTES + RECEIVES * PDU_BYTES];
static uint8_t *const receives = memory + 2 * BYTES;
static struct weft_cq *cq;
static struct weft_qp *qp;
static uint32_t tag, cmd_sn = 1;

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void put32(uint8_t *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void post_receive(uint64_t n)
{
	const struct weft_sge into = { (uintptr_t)receives + n * PDU_BYTES, PDU_BYTES, tag };
	const struct weft_recv_wr wr = { .id = n, .sges = &into, .sge_count = 1 };

	must(weft_qp_post_recv(qp, &wr, 1, NULL), "post a receive");
}

/* The next PDU for this program, in *bytes; its completion. Requests that were sent pass by. */
static struct weft_completion next(const uint8_t **bytes)
{
	struct weft_completion c;
	uint32_t count;

	do {
		must(weft_cq_poll(cq, &c, 1, &count), "poll");
		if (count > 0)
			must(c.status == WEFT_SUCCESS ? WEFT_OK : c.reason, "a request");
	} while (count == 0 || c.opcode < WEFT_OP_RECV);
	must(c.reason, "the target");
	*bytes = receives + c.id * PDU_BYTES;
	return c;
}

/* One exchange without authentication: RFC 7143 section 11.12. */
static void login(const char *target)
{
	static const struct weft_iscsi_terms defaults;
	struct weft_iscsi_pdu pdu = { .bhs = { 0x43, 0x87, [8] = 0x80, [27] = 1, [19] = 1 } };
	char text[512];
	const uint8_t *answer;
	uint32_t bytes = 1 + (uint32_t)snprintf(text, sizeof(text),
						"InitiatorName=iqn.2026-11.org.example:command%c"
						"SessionType=Normal%cTargetName=%s",
						0, 0, target);
	const struct weft_sge sge = { .addr = (uintptr_t)text, .length = bytes };
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_CONTROL,
				   .flags = WEFT_INLINE,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = 1 };

	put32(pdu.bhs + 4, bytes);
	put32(pdu.bhs + 24, cmd_sn);
	must(weft_qp_post_send(qp, &wr, 1, NULL), "log in");
	post_receive(next(&answer).id);
	if (answer[36] != 0 || (answer[1] & 0x83) != 0x83) {
		fprintf(stderr, "the target refuses the login: 0x%02x%02x\n", answer[36],
			answer[37]);
		exit(1);
	}
	must(weft_qp_modify_iscsi(qp, &defaults), "set the terms");
}

/* A SCSI Command of LUN 0, until its status is there: RFC 7143 section 11.3. Its status. */
static int command(uint8_t code, const uint8_t *data, uint32_t length)
{
	struct weft_iscsi_pdu pdu = { .bhs = { 0x01, 0x80 | 1, [32] = code } };
	const struct weft_sge sge = { (uintptr_t)data, length, tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = length > 0 };
	struct weft_completion c;
	const uint8_t *answer;

	if (length > 0) {
		pdu.bhs[1] |= code == 0x28 ? 0x40 : 0x20; /* R for READ(10), W for WRITE(10) */
		put32(pdu.bhs + 39, length / BLOCK << 16);
	}
	put32(pdu.bhs + 20, length);
	put32(pdu.bhs + 24, cmd_sn++);
	must(weft_qp_post_send(qp, &wr, 1, NULL), "post a command");
	do {
		c = next(&answer);
		post_receive(c.id);
	} while (!c.has_invalidated || c.command_id != pdu.command_id);
	return answer[3];
}

/* copied: until the login had ended. */
static void show(uint64_t copied)
{
	struct weft_iscsi_attr attr;
	struct weft_traffic t;

	must(weft_qp_query_iscsi(qp, &attr), "query");
	must(weft_qp_traffic(qp, &t), "query the connection");
	printf("%llu commands, %llu R2Ts, %llu Data-Ins; %llu bytes placed, %llu sent, %llu copied\n",
	       (unsigned long long)attr.commands, (unsigned long long)attr.r2ts,
	       (unsigned long long)attr.data_ins, (unsigned long long)attr.bytes_placed,
	       (unsigned long long)attr.bytes_sent,
	       (unsigned long long)(t.payload_copied - copied));
	fflush(stdout);
}

static void run(const char *target)
{
	struct weft_traffic before;
	int status;

	for (uint64_t n = 0; n < RECEIVES; n++)
		post_receive(n);
	login(target);
	must(weft_qp_traffic(qp, &before), "query the connection");
	(void)command(0x00, memory, 0); /* TEST UNIT READY: a new session has a unit attention */
	for (int i = 0; i < BYTES; i++)
		memory[i] = (uint8_t)(i * 7 + i / 256);
	status = command(0x2a, memory, BYTES);
	if (status == 0)
		status = command(0x28, memory + BYTES, BYTES);
	show(before.payload_copied);
	if (status != 0 || memcmp(memory, memory + BYTES, BYTES) != 0) {
		fprintf(stderr, "the disk has other bytes, or SCSI status 0x%02x\n", status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct weft_region_options region = { .addr = (uintptr_t)memory, .length = sizeof(memory) };
	struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct weft_qp_options options = { .service = WEFT_ISCSI, .inline_max_bytes = 512 };
	struct weft_adapter *adapter;
	struct weft_address at;
	struct weft_event event;
	struct weft_pd *pd;
	bool has_event;

	if (argc < 3) {
		fprintf(stderr, "usage: iscsi_command ADDRESS:PORT TARGET [hold]\n");
		return 2;
	}
	must(weft_address_parse(argv[1], &at), argv[1]);
	must(weft_adapter_open(NULL, &adapter), "open an adapter");
	must(weft_pd_create(adapter, NULL, &pd), "create a protection domain");
	must(weft_cq_create(adapter, NULL, &cq), "create a completion queue");
	region.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE;
	must(weft_region_register(pd, &region, &tag), "register memory");
	options.send_cq = options.recv_cq = cq;
	options.recv_max = RECEIVES;
	must(weft_qp_create(pd, &options, &qp), "create a queue pair");
	init.receiver_wait_ns = UINT64_C(1000000000); /* for a receive, should there be none */
	must(weft_qp_modify(qp, &init, WEFT_QP_STATE | WEFT_QP_RECEIVER_WAIT), "begin");
	must(weft_qp_dial(qp, &at, NULL), "connect");
	must(weft_event_next(adapter, UINT64_MAX, &event, &has_event), "wait");
	must(event.reason, "connect");
	run(argv[2]);
	while (argc > 3 && getchar() != EOF)
		continue;
	must(weft_qp_destroy(qp), "destroy the queue pair");
	must(weft_region_deregister(pd, tag), "deregister memory");
	must(weft_cq_destroy(cq), "destroy the completion queue");
	must(weft_pd_destroy(pd), "destroy the protection domain");
	must(weft_adapter_close(adapter), "close the adapter");
	return 0;
}
