/* SPDX-License-Identifier: BSD-2-Clause */
/* How a connection of iSCSI ends, and what is left of it: nothing. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/notice.h"
#include "live/iscsi/live_iscsi.h"

/* All receives are flushed; by the first of them no entry is left (ISCSI-01). */
static void expect_flushed(struct pair *p)
{
	for (int i = 0; i < RECEIVES; i++) {
		struct weft_completion c = node_next(p->c.received);

		MUST_EQ(c.status, WEFT_ERR_FLUSHED);
		if (!p->c.is_beside)
			MUST_EQ(consumer_entries(&p->c), 0);
	}
}

static void open_commands(struct pair *p)
{
	for (int i = 0; i < 8; i++)
		(void)pair_read(p, (size_t)i * 4096, 8, NULL);
	(void)pair_write(p, 65536, 8, NULL);
	MUST_EQ(consumer_entries(&p->c), 9);
}

TEST(test_iscsi_01_iscsi_s1_live_connections_that_end)
{
	static const uint8_t half[20] = { ISCSI_NOP_IN, 0x80 };
	static const enum weft_reason reasons[] = { WEFT_R_STREAM_LOST, WEFT_R_PEER_GONE,
						    WEFT_R_STREAM_CUT };
	const struct weft_iscsi_terms no_immediate = { .is_immediate_off = true };

	for (int way = 0; way < 3; way++) {
		struct weft_iscsi_attr attr;
		struct weft_traffic traffic;
		struct pair p;

		pair_open(&p, NULL, &no_immediate);
		open_commands(&p);
		if (way == 2)
			script_bytes(&p.s, half, sizeof(half));
		script_hang_up(&p.s, way == 0);
		EXPECT_EQ(consumer_await(&p.c, WEFT_EVENT_QP_ERROR), reasons[way]);
		expect_flushed(&p);
		EXPECT_EQ(weft_qp_query_iscsi(p.c.qp, &attr), WEFT_R_QP_UNCONNECTED);
		MUST(weft_qp_traffic(p.c.qp, &traffic)); /* what it carried is still known */
		EXPECT_EQ(traffic.frames_out, 10);
		pair_close(&p);
	}
}

/* The same queue pair, from RESET, on a new connection. */
TEST(test_iscsi_01_live_queue_pair_is_used_again)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct pair p;

	pair_open(&p, NULL, NULL);
	open_commands(&p);
	script_hang_up(&p.s, true);
	EXPECT_EQ(consumer_await(&p.c, WEFT_EVENT_QP_ERROR), WEFT_R_STREAM_LOST);
	expect_flushed(&p);
	MUST(weft_qp_modify(p.c.qp, &reset, WEFT_QP_STATE));
	MUST(weft_qp_modify(p.c.qp, &init, WEFT_QP_STATE));
	consumer_receives(&p.c);
	p.s.terms = (struct weft_iscsi_terms){ 0 };
	script_connect(&p.s, &p.c);
	EXPECT_EQ(consumer_query(&p.c).commands, 0);
	expect_goes_on(&p);
	pair_close(&p);
}

TEST(test_iscsi_live_disconnect_in_good_order)
{
	struct pair p;

	pair_open(&p, NULL, NULL);
	(void)pair_read(&p, 0, 1, NULL);
	MUST(weft_qp_disconnect(p.c.qp));
	EXPECT(script_ended(&p.s));
	expect_flushed(&p);
	pair_close(&p);
}

/* The queue pair, or the whole adapter, goes with commands in progress: the target sees the end. */
TEST(test_iscsi_live_queue_pair_and_adapter_that_go)
{
	const struct weft_iscsi_terms no_immediate = { .is_immediate_off = true };
	struct pair p;

	pair_open(&p, NULL, &no_immediate);
	open_commands(&p);
	consumer_close(&p.c);
	(void)script_ended(&p.s);
	MUST(weft_adapter_close(p.c.adapter));
	script_close(&p.s);
}

/* ---- Processes ------------------------------------------------------------------------------ */

/* A child of fork() has no part in the connection: its end is none of it. */
TEST(test_iscsi_live_fork_leaves_the_connection)
{
	struct pair p;
	uint32_t itt;
	pid_t child;
	int status;

	pair_open(&p, NULL, NULL);
	itt = pair_read(&p, 0, 4, NULL);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0)
		_exit(0);
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	fill_pattern(20);
	script_data_in(&p.s, itt, 0, pattern, 2048);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT_MEM(p.c.memory, pattern, 2048);
	pair_finish(&p, itt);
	expect_goes_on(&p);
	pair_close(&p);
}

/* Killed in the middle of an answer: the target sees the end of the connection. */
TEST(test_iscsi_live_killed_program)
{
	struct script s;
	pid_t child;
	uint32_t itt;
	int status;

	script_open(&s);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		struct consumer c;
		struct iscsi_pdu write;

		consumer_open(&c, NULL);
		consumer_connect(&c, &s.at);
		consumer_login(&c, NULL, 0, NULL);
		write = write_pdu(&c, 0, DATA_BYTES / BLOCK_BYTES);
		(void)consumer_command(&c, &write, 0);
		for (;;)
			pause();
	}
	script_accept(&s);
	(void)script_take(&s, ISCSI_LOGIN_REQUEST);
	script_login_response(&s);
	itt = script_take(&s, ISCSI_SCSI_COMMAND)->pdu.itt;
	script_r2t(&s, itt, 8192, 262144);
	(void)script_take(&s, ISCSI_DATA_OUT);
	REQUIRE(kill(child, SIGKILL) == 0);
	REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	script_drain(&s);
	script_close(&s);
}

/* ---- Memory that goes ----------------------------------------------------------------------- */

enum { GONE_BYTES = 64 * 1024 };

/* Memory of its own for one command, registered, that is unmapped in its middle. */
static uint8_t *map_and_register(struct pair *p, uint32_t *tag)
{
	struct weft_region_options region = { .length = GONE_BYTES,
					      .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	uint8_t *at = mmap(NULL, GONE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	REQUIRE(at != MAP_FAILED);
	memset(at, 7, GONE_BYTES);
	region.addr = (uintptr_t)at;
	MUST(weft_region_register(p->c.pd, &region, tag));
	return at;
}

/* A command of that memory, which the script has taken: its task tag. */
static uint32_t begin_sge(struct pair *p, const struct iscsi_pdu *scsi, const struct weft_sge *sge)
{
	struct weft_iscsi_pdu pdu = wr_pdu(scsi);
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = sge,
				   .sge_count = 1 };

	MUST(weft_qp_post_send(p->c.qp, &wr, 1, NULL));
	expect_sent_well(&p->c);
	return script_take(&p->s, ISCSI_SCSI_COMMAND)->pdu.itt;
}

static uint32_t begin_on(struct pair *p, const struct iscsi_pdu *scsi, uint8_t *at, uint32_t tag)
{
	const struct weft_sge sge = { (uintptr_t)at, GONE_BYTES, tag };

	return begin_sge(p, scsi, &sge);
}

static const struct weft_iscsi_terms large = { .is_immediate_off = true,
					       .recv_bytes_max = GONE_BYTES };

/* Between two PDUs: what comes for it is refused, and the connection goes on. */
TEST(test_iscsi_live_memory_unmapped_between_pdus)
{
	uint32_t read, write, tags[2];
	struct notice_counts counts;
	struct iscsi_pdu scsi;
	uint8_t *at[2];
	struct pair p;

	pair_open(&p, NULL, &large);
	for (int i = 0; i < 2; i++)
		at[i] = map_and_register(&p, &tags[i]);
	notice_query(&counts);
	if (!counts.is_on) /* then it is found when it is used, as amid a Data-In */
		SKIP("the kernel does not tell of memory that is unmapped");
	scsi = read_pdu(&p.c, 0, GONE_BYTES / BLOCK_BYTES);
	read = begin_on(&p, &scsi, at[0], tags[0]);
	scsi = write_pdu(&p.c, 0, GONE_BYTES / BLOCK_BYTES);
	write = begin_on(&p, &scsi, at[1], tags[1]);
	for (int i = 0; i < 2; i++)
		REQUIRE(munmap(at[i], GONE_BYTES) == 0);
	script_data_in(&p.s, read, 0, pattern, 4096);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_R_MEMORY_GONE);
	script_r2t(&p.s, write, 0, 4096);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_R_MEMORY_GONE);
	expect_goes_on(&p);
	pair_finish(&p, read);
	pair_finish(&p, write);
	for (int i = 0; i < 2; i++)
		(void)weft_region_deregister(p.c.pd, tags[i]);
	pair_close(&p);
}

/* While a Data-In is placed: the rest of it has no place, and the connection ends. */
TEST(test_iscsi_live_memory_unmapped_amid_a_data_in)
{
	struct iscsi_pdu in = { .opcode = ISCSI_DATA_IN,
				.is_final = true,
				.data_bytes = GONE_BYTES };
	uint8_t header[ISCSI_BHS_BYTES], *at;
	struct wr w = wr_of(header, sizeof(header));
	struct iscsi_pdu scsi;
	struct weft_traffic t;
	struct pair p;
	uint32_t tag;

	pair_open(&p, NULL, &large);
	at = map_and_register(&p, &tag);
	scsi = read_pdu(&p.c, 0, GONE_BYTES / BLOCK_BYTES);
	in.itt = begin_on(&p, &scsi, at, tag);
	iscsi_encode(&in, &w);
	script_bytes(&p.s, header, sizeof(header));
	script_bytes(&p.s, pattern, GONE_BYTES / 2);
	do
		MUST(weft_qp_traffic(p.c.qp, &t));
	while (t.payload_in < GONE_BYTES / 2);
	REQUIRE(munmap(at, GONE_BYTES) == 0);
	script_bytes(&p.s, pattern, 1024);
	EXPECT_EQ(consumer_await(&p.c, WEFT_EVENT_QP_ERROR), WEFT_R_MEMORY_GONE);
	expect_flushed(&p);
	(void)weft_region_deregister(p.c.pd, tag);
	pair_close(&p);
}

/* While an R2T is answered, which waits for the target to read. */
TEST(test_iscsi_live_memory_unmapped_amid_data_out)
{
	enum { BYTES = 16 * 1024 * 1024 };
	struct weft_region_options region = { .length = BYTES, .rights = WEFT_LOCAL_READ };
	struct iscsi_pdu scsi;
	struct weft_sge sge;
	struct pair p;
	uint32_t itt;

	pair_open(&p, NULL, &large);
	sge.addr = (uintptr_t)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
	sge.length = BYTES;
	region.addr = sge.addr;
	MUST(weft_region_register(p.c.pd, &region, &sge.tag));
	scsi = write_pdu(&p.c, 0, 1);
	scsi.expected_bytes = BYTES;
	itt = begin_sge(&p, &scsi, &sge);
	script_r2t(&p.s, itt, 0, BYTES);
	(void)script_take(&p.s, ISCSI_DATA_OUT);
	REQUIRE(munmap((void *)(uintptr_t)sge.addr, BYTES) == 0);
	script_drain(&p.s);
	EXPECT_EQ(consumer_await(&p.c, WEFT_EVENT_QP_ERROR), WEFT_R_MEMORY_GONE);
	(void)weft_region_deregister(p.c.pd, sge.tag);
	pair_close(&p);
}

/* ---- Damage --------------------------------------------------------------------------------- */

TEST(test_iscsi_live_digests)
{
	const struct weft_iscsi_terms digests = { .has_header_digest = true,
						  .has_data_digest = true,
						  .is_immediate_off = true };
	struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN, .is_final = true, .itt = ISCSI_TAG_NONE };
	struct arrival a;
	uint32_t itt;
	struct pair p;

	pair_open(&p, NULL, &digests);
	expect_goes_on(&p);
	itt = pair_write(&p, 0, 16, NULL);
	memcpy(p.c.memory, pattern, 8192);
	script_r2t(&p.s, itt, 0, 8192);
	EXPECT_MEM(script_take(&p.s, ISCSI_DATA_OUT)->data, pattern, 8192);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
	pair_finish(&p, itt);
	/* A data digest that is wrong is the consumer's to decide on. */
	itt = pair_read(&p, 0, 16, NULL);
	p.s.is_data_bad = true;
	script_data_in(&p.s, itt, 0, pattern, 8192);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_DATA_DIGEST);
	EXPECT_EQ(a.completion.byte_count, ISCSI_BHS_BYTES);
	EXPECT_EQ(consumer_query(&p.c).data_ins, 1);
	script_data_in(&p.s, itt, 0, pattern, 8192);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	pair_finish(&p, itt);
	/* One of a header ends it: nothing behind it can be told apart. */
	nop.stat_sn = p.s.stat_sn;
	p.s.is_header_bad = true;
	script_pdu(&p.s, &nop, NULL);
	EXPECT_EQ(consumer_await(&p.c, WEFT_EVENT_QP_ERROR), WEFT_R_ISCSI_HEADER_DIGEST);
	pair_close(&p);
}
