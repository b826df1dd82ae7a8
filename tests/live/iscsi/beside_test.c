/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One adapter with a queue pair in iSCSI mode, one of iWARP and one of RoCE, in one domain: one
 * table has the memory of all (ISCSI-11), and each connection what is for it.
 */
#include <string.h>

#include "live/iscsi/live_iscsi.h"
#include "live/roce/roce_way.h"
#include "own_network.h"

enum { BYTES = 4096 };

struct all {
	struct pair iscsi; /* beside[0].adapter is its own */
	struct tcp_end near, far;
	struct weft_qp *roce[2];
};

static void all_open(struct all *a)
{
	struct consumer_options options = { 0 };
	struct weft_qp_options rc = { 0 };

	tcp_end_open_with(&a->near, &node_tables, NODE_BYTES);
	tcp_end_open_with(&a->far, &node_tables, NODE_BYTES);
	MUST(weft_roce_open(a->near.adapter));
	MUST(weft_roce_open(a->far.adapter));
	options.beside = a->near.adapter;
	options.domain = &(const struct consumer){ .pd = a->near.node.pd };
	pair_open(&a->iscsi, &options, NULL);
	tcp_ends_connect(&a->near, &a->far, NULL);
	for (int i = 0; i < 2; i++) {
		struct tcp_end *e = i ? &a->far : &a->near;

		rc.send_cq = rc.recv_cq = e->node.cq;
		MUST(weft_qp_create(e->node.pd, &rc, &a->roce[i]));
	}
	roce_start_both(a->roce[0], a->roce[1]);
}

static void all_close(struct all *a)
{
	for (int i = 0; i < 2; i++)
		MUST(weft_qp_destroy(a->roce[i]));
	pair_close(&a->iscsi);
	tcp_end_close(&a->near);
	tcp_end_close(&a->far);
}

/* The other end writes this memory of the adapter by RDMA: its reason. */
static enum weft_reason write_to(struct all *a, struct weft_qp *qp, uint64_t addr, uint32_t tag)
{
	const struct weft_sge s = node_seg(&a->far.node, 0, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 5, &s, &a->near.node);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 6, &s, &a->near.node);
	struct weft_completion c;

	wr.remote_addr = addr;
	wr.remote_tag = tag;
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	/* A Read behind it: when that has ended, the Write has arrived. */
	read.sges = &(const struct weft_sge){ s.addr + BYTES, 8, s.tag };
	(void)weft_qp_post_send(qp, &read, 1, NULL);
	c = node_next(a->far.node.cq);
	if (c.status == WEFT_SUCCESS)
		c = node_next(a->far.node.cq);
	return c.status == WEFT_SUCCESS ? WEFT_OK : c.reason;
}

/* ISCSI-11, ISCSI-09, IWARP-04d: one region is the memory of all three, at a time. */
TEST(test_iscsi_11_iscsi_09_iwarp_04d_live_one_memory_for_three_wires)
{
	const char *why_not = own_network_enter();
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND, .flags = WEFT_SIGNALLED };
	struct weft_iscsi_pdu pdu;
	struct weft_usage usage;
	struct iscsi_pdu read;
	struct weft_sge sge;
	static struct all a;
	uint8_t *memory;
	uint32_t itt, regions;

	if (why_not)
		SKIP(why_not);
	all_open(&a);
	memory = a.near.node.memory;
	MUST(weft_adapter_query(a.near.adapter, &usage));
	regions = usage.regions;
	fill_pattern(31);
	memcpy(a.far.node.memory, pattern, BYTES);
	/* The disk's data goes to a part of the region that peers write to by RDMA. */
	sge = node_seg(&a.near.node, BYTES, BYTES);
	read = read_pdu(&a.iscsi.c, 0, BYTES / BLOCK_BYTES);
	pdu = wr_pdu(&read);
	wr.iscsi = &pdu;
	wr.sges = &sge;
	wr.sge_count = 1;
	MUST(weft_qp_post_send(a.iscsi.c.qp, &wr, 1, NULL));
	expect_sent_well(&a.iscsi.c);
	itt = script_take(&a.iscsi.s, ISCSI_SCSI_COMMAND)->pdu.itt;
	script_data_in(&a.iscsi.s, itt, 0, pattern + 7, BYTES / 2);
	(void)expect_arrival(&a.iscsi.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT_EQ(write_to(&a, a.far.node.qp, (uintptr_t)memory, a.near.node.tag), WEFT_OK);
	EXPECT_EQ(write_to(&a, a.roce[1], (uintptr_t)memory + BYTES * 2, a.near.node.tag), 0);
	script_data_in(&a.iscsi.s, itt, BYTES / 2, pattern + 7 + BYTES / 2, BYTES / 2);
	(void)expect_arrival(&a.iscsi.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT_MEM(memory, pattern, BYTES);
	EXPECT_MEM(memory + BYTES, pattern + 7, BYTES);
	EXPECT_MEM(memory + 2 * BYTES, pattern, BYTES);
	/* One table: a command in progress has one entry of it, and no region more. */
	MUST(weft_adapter_query(a.near.adapter, &usage));
	EXPECT(usage.iscsi_regions == 1 && usage.regions == regions);
	pair_finish(&a.iscsi, itt);
	MUST(weft_adapter_query(a.near.adapter, &usage));
	EXPECT(usage.iscsi_regions == 0 && usage.regions == regions);
	all_close(&a);
}

/* ISCSI-09: the entry of a command is nothing to RDMA, by either wire. */
TEST(test_iscsi_09_live_entries_of_commands_are_not_for_rdma)
{
	const char *why_not = own_network_enter();
	static struct all a;
	enum weft_reason r;
	uint32_t itt;

	if (why_not)
		SKIP(why_not);
	for (int wire = 0; wire < 2; wire++) {
		all_open(&a);
		itt = pair_read(&a.iscsi, 0, 8, NULL);
		memset(a.far.node.memory, 0x5a, BYTES);
		r = write_to(&a, wire ? a.roce[1] : a.far.node.qp, 0, itt);
		EXPECT(r != WEFT_OK);
		EXPECT(a.iscsi.c.memory[0] == 0 && a.iscsi.c.memory[BYTES - 1] == 0);
		expect_goes_on(&a.iscsi);
		pair_finish(&a.iscsi, itt);
		all_close(&a);
	}
}
