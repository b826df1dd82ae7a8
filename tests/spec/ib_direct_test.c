/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads that this end executes in the memory of its peer, into memory that may be unmapped. */
#include "ib_bed.h"

#include <string.h>

enum { NEAR_NUMBER = 0x107, READ_BYTES = 3000, SINK = 5000 };

static uint8_t source[READ_BYTES];
static uint32_t accesses;

/* The host counts changes of the process; the sink was unmapped by all after the first. */
static atomic_uint_fast64_t changes;
static struct mem_watch watch;

static bool is_whole(struct mem_watch *w, const void *bytes, uint64_t length)
{
	(void)w;
	(void)bytes;
	(void)length;
	return false;
}

static bool copy(void *to, const void *from, uint64_t length)
{
	memmove(to, from, length);
	return true;
}

static const struct mem_guard guard = { .copy = copy };

static bool can_access(void *owner, uint32_t near_number)
{
	(void)owner;
	return near_number == NEAR_NUMBER;
}

/* As the kernel would: the thread that unmaps memory has to wait meanwhile. */
static bool access_source(void *owner, struct ib_direct_access *a)
{
	(void)owner;
	REQUIRE(atomic_load(&watch.is_accessing));
	REQUIRE(!a->is_write && a->addr + a->length <= READ_BYTES);
	memcpy(a->bytes, source + a->addr, a->length);
	a->epoch = 1;
	accesses++;
	return true;
}

static bool grant(void *owner, const struct ib_direct_grant *g)
{
	(void)owner;
	(void)g;
	return false;
}

static const struct ib_direct direct = {
	.can_access = can_access,
	.access = access_source,
	.grant = grant,
};

/* With a first request that packets have carried. */
static struct ib_bed *open_near(void)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.path.near_number = NEAR_NUMBER;
	b = bed_open(&config, WEFT_RC);
	ib_port_set_near_icrc(b->port, true);
	atomic_store(&changes, 2);
	watch = (struct mem_watch){ .changes = &changes, .is_whole = is_whole, .since = 2 };
	b->adapter.mem.process.guard = &guard;
	b->adapter.mem.process.watch = &watch;
	memset(source, 0x6b, sizeof(source));
	accesses = 0;
	bed_post(b, (struct weft_send_wr){ .opcode = WEFT_OP_SEND }, 0, 8);
	bed_expect(b, IBA_SEND_ONLY, PSN_OURS);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(IBA_CREDITS_UNUSED), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 0, WEFT_SUCCESS);
	ib_port_set_direct(b->port, &direct);
	return b;
}

static void post_read(struct ib_bed *b)
{
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ, .remote_tag = 0x77 },
		 SINK, READ_BYTES);
}

TEST(test_vmm_04_unmapping_waits_for_a_read_without_packets)
{
	struct ib_bed *b = open_near();

	post_read(b);
	bed_silent(b);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(accesses, 1);
	EXPECT_MEM(b->memory + SINK, source, READ_BYTES);
	EXPECT(!atomic_load(&watch.is_accessing));
	ib_port_set_direct(b->port, NULL);
	bed_close(b);
}

/* What is mapped there now is not what was registered. */
TEST(test_vmm_04_read_without_packets_spares_memory_that_was_unmapped)
{
	struct ib_bed *b = open_near();

	atomic_store(&changes, 4);
	bed_note(b);
	post_read(b);
	bed_expect(b, IBA_READ_REQUEST, iba_psn_add(PSN_OURS, 1));
	EXPECT_EQ(accesses, 0);
	EXPECT(!atomic_load(&watch.is_accessing));
	bed_unchanged(b);
	ib_port_set_direct(b->port, NULL);
	bed_close(b);
}
