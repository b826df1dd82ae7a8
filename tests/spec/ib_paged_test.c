/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that comes on demand: a packet asks for the memory of its own bytes and no more, however
 * long the message says that it is. Else one small packet of a peer would fill this host's memory.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, PACKETS = 8, LONG = BED_BYTES };

static const uint8_t data[MTU] = { 6, 5, 4 };

/* A bed whose one region is on demand. */
static struct ib_bed *open_paged(const struct ib_config *config)
{
	struct ib_bed *b = bed_open(config, WEFT_RC);
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options o = {
		.addr = (uintptr_t)b->memory,
		.length = BED_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
		.is_on_demand = true,
	};

	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, b->tag));
	MUST(mem_region_register(&b->adapter.mem, &owner, &o, &b->tag));
	return b;
}

static void expect_asked(const struct ib_bed *b, uint32_t packets)
{
	EXPECT_EQ(b->asked_bytes, packets * MTU);
	EXPECT_EQ(b->asked_most, packets ? MTU : 0);
}

TEST(test_on_demand_a_write_asks_packet_by_packet)
{
	struct ib_bed *b = open_paged(NULL);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, P0, 0, LONG), data, MTU));
	expect_asked(b, 1);
	for (uint32_t i = 1; i < PACKETS; i++) {
		MUST(bed_put(b, peer_op(IBA_WRITE_MIDDLE, P0 + i), data, MTU));
		expect_asked(b, i + 1);
	}
	bed_close(b);
}

/* What is refused asks for nothing, nor does what has come before. */
TEST(test_on_demand_refused_packets_ask_for_nothing)
{
	struct ib_bed *b = open_paged(NULL);

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, P0 + 1, 0, LONG), data, MTU)); /* kept */
	(void)bed_put(b, peer_reth(b, IBA_WRITE_FIRST, P0 - 1, 0, LONG), data, MTU);
	expect_asked(b, 0);
	(void)bed_put(b, peer_reth(b, IBA_WRITE_FIRST, P0, 1, LONG), data, MTU); /* too long */
	expect_asked(b, 0);
	EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
	bed_close(b);
}

TEST(test_on_demand_a_receive_asks_packet_by_packet)
{
	struct ib_bed *b = open_paged(NULL);

	bed_recv(b, 1, 0, LONG);
	expect_asked(b, 0);
	MUST(bed_put(b, peer_op(IBA_SEND_FIRST, P0), data, MTU));
	expect_asked(b, 1);
	MUST(bed_put(b, peer_op(IBA_SEND_MIDDLE, P0 + 1), data, MTU));
	expect_asked(b, 2);
	bed_close(b);
}

TEST(test_on_demand_a_read_is_answered_packet_by_packet)
{
	struct ib_bed *b = open_paged(NULL);

	b->is_held = true;
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0, 0, PACKETS * MTU), NULL, 0));
	expect_asked(b, 0);
	b->is_held = false;
	bed_run(b);
	EXPECT_EQ(b->out_count, PACKETS);
	expect_asked(b, PACKETS);
	bed_close(b);
}

static bool copy(void *to, const void *from, uint64_t length)
{
	memcpy(to, from, length);
	return true;
}

static const struct mem_guard guard = { .copy = copy };

/* SEND-04: what is copied out is counted once, however it is found that it must be. */
TEST(test_send_04_bytes_beside_some_on_demand_are_handed_over_once)
{
	enum { PART = 64, AT = 0x10000 };
	static _Alignas(8) uint8_t frame[4096];
	const struct weft_space_options so = { .memory = frame,
					       .size_bytes = sizeof(frame),
					       .mappings_max = 1,
					       .is_virtual = true,
					       .has_pager = true };
	struct weft_region_options ro = { .addr = AT,
					  .length = sizeof(frame),
					  .rights = WEFT_LOCAL_READ };
	struct ib_bed *b = open_paged(NULL);
	const struct mem_owner owner = pd_owner(b->pd);
	struct weft_sge parts[] = { { AT, PART, 0 }, { (uintptr_t)b->memory, PART, b->tag } };
	struct weft_pins pins;

	b->adapter.mem.demand.guard = &guard; /* from now on it may go */
	MUST(space_create(&b->adapter, &so, &ro.space));
	MUST(mem_space_map(ro.space, AT, sizeof(frame), 0));
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &parts[0].tag));
	bed_post(b,
		 (struct weft_send_wr){
			 .opcode = WEFT_OP_SEND, .id = 2, .sges = parts, .sge_count = 2 },
		 0, 0);
	EXPECT_EQ(bed_expect(b, IBA_SEND_ONLY, PSN_OURS)->p.payload_bytes, 2 * PART);
	mem_pins_query(ro.space->paging, b->now_ns, &pins);
	EXPECT_EQ(pins.bytes_handed, PART);
	EXPECT_EQ(pins.pinned, 0);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 2, WEFT_SUCCESS);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, parts[0].tag));
	MUST(space_destroy(ro.space));
	bed_close(b);
}

/* ---- Whose memory it is ---------------------------------------------------------------------- */

enum { HEADERS = 64 };

/* The headers of a Write's packet, as this process sends it. */
static void write_headers(uint8_t *headers)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_packet p;

	memset(headers, 0, HEADERS);
	bed_post(b,
		 (struct weft_send_wr){ .opcode = WEFT_OP_WRITE,
					.id = 1,
					.remote_addr = 0x5000,
					.remote_tag = 0x77 },
		 0, MTU);
	p = bed_expect(b, IBA_WRITE_ONLY, PSN_OURS)->p;
	REQUIRE(iba_encode(&p, headers) <= HEADERS);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* A request tells the peer an address and a key: another process sends the same bytes. */
TEST(test_vmm_11_no_process_id_travels_in_a_request)
{
	uint8_t ours[HEADERS], theirs[HEADERS];
	int ends[2], status;
	pid_t child;

	REQUIRE(pipe(ends) == 0);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		write_headers(theirs);
		_exit(write(ends[1], theirs, HEADERS) != HEADERS);
	}
	write_headers(ours);
	REQUIRE(read(ends[0], theirs, HEADERS) == HEADERS);
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	close(ends[0]);
	close(ends[1]);
	EXPECT_MEM(ours, theirs, HEADERS);
}
