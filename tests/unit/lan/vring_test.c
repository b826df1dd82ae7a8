/* SPDX-License-Identifier: BSD-2-Clause */
/* A guest's ring, and what the guest does between two looks of the device. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "lan/vring.h"

enum {
	MEMORY = 16384,
	SIZE = 8,
	/* Where things are in it. */
	AVAILABLE = 0x400,
	USED = 0x800,
	TABLE = 0xc00,
	BUFFERS = 0x1000,
	BUFFER = 512,
	/* Flags of a descriptor. */
	NEXT = 1,
	WRITE = 2,
	INDIRECT = 4,
};

struct bed {
	struct lan_guest guest;
	struct lan_vring ring;
	uint8_t frame[2 * BUFFER];
	uint16_t made;
	_Alignas(16) uint8_t memory[MEMORY];
};

static struct bed *bed_make(void)
{
	const struct vhost_address where = { .available = AVAILABLE, .used = USED };
	struct bed *b = aligned_alloc(_Alignof(struct bed), sizeof(*b));

	REQUIRE(b != NULL);
	memset(b, 0, sizeof(*b));
	b->guest.count = 1;
	b->guest.regions[0].is.length = MEMORY;
	b->guest.regions[0].at = b->memory;
	b->ring.has_event_idx = true;
	MUST(lan_vring_size(&b->ring, SIZE));
	MUST(lan_vring_place(&b->ring, &b->guest, &where));
	return b;
}

struct descriptor {
	uint64_t at;
	uint32_t length;
	uint16_t flags, next;
};

static void descriptor_put(uint8_t *table, uint32_t index, struct descriptor d)
{
	_Static_assert(sizeof(d) == 16, "as on the ring");
	memcpy(table + (size_t)index * sizeof(d), &d, sizeof(d));
}

static void make_available(struct bed *b, uint16_t head)
{
	memcpy(b->memory + AVAILABLE + 4 + (size_t)b->made++ * 2, &head, sizeof(head));
	memcpy(b->memory + AVAILABLE + 2, &b->made, sizeof(b->made));
}

/* A chain of one buffer, which the device may write or not. */
static void chain_add(struct bed *b, bool is_writable)
{
	descriptor_put(b->memory, b->made,
		       (struct descriptor){ .at = BUFFERS + (uint64_t)b->made * BUFFER,
					    .length = BUFFER,
					    .flags = is_writable ? WRITE : 0 });
	make_available(b, b->made);
}

/* A region may begin anywhere in its file; not all processors load words that are not aligned. */
TEST(test_lan_vring_has_its_parts_where_they_are_aligned_in_memory)
{
	const struct vhost_address where = { .available = AVAILABLE, .used = USED };

	for (uint32_t off = 1; off <= 16; off++) {
		struct bed *b = bed_make();
		enum weft_reason wanted = off < 16 ? WEFT_R_VHOST_ADDRESS : WEFT_OK;

		b->guest.regions[0].is.length = MEMORY - off;
		b->guest.regions[0].at = b->memory + off;
		EXPECT_EQ(lan_vring_place(&b->ring, &b->guest, &where), wanted);
		free(b);
	}
}

/* VIRTIO 1.2 section 2.7.10: the guest did not tell of it, as it was not asked to yet. */
TEST(test_lan_vring_chain_that_came_after_the_look_is_not_missed)
{
	struct bed *b = bed_make();
	struct lan_frame f = { .bytes = b->frame, .room = sizeof(b->frame) };
	bool got = true;

	MUST(lan_vring_receive(&b->ring, &b->guest, VIRTIO_NET_BUFFERS_BYTES, &f, &got));
	EXPECT_EQ(got, false);
	chain_add(b, false);
	EXPECT_EQ(lan_vring_ask_kick(&b->ring), true);
	MUST(lan_vring_receive(&b->ring, &b->guest, VIRTIO_NET_BUFFERS_BYTES, &f, &got));
	EXPECT_EQ(got, true);
	MUST(lan_vring_receive(&b->ring, &b->guest, VIRTIO_NET_BUFFERS_BYTES, &f, &got));
	EXPECT_EQ(got, false);
	EXPECT_EQ(lan_vring_ask_kick(&b->ring), false);
	free(b);
}

/* VIRTIO 1.2 section 5.1.6.2.1: a driver does not say that a checksum was found good. */
TEST(test_lan_vring_guest_leaves_a_checksum_and_vouches_for_none)
{
	struct bed *b = bed_make();
	struct lan_frame f = { .bytes = b->frame, .room = sizeof(b->frame) };
	bool got = false;

	chain_add(b, false);
	b->memory[BUFFERS] = VIRTIO_NET_NEEDS_CSUM | VIRTIO_NET_DATA_VALID;
	MUST(lan_vring_receive(&b->ring, &b->guest, VIRTIO_NET_BUFFERS_BYTES, &f, &got));
	EXPECT_EQ(got, true);
	EXPECT_EQ(f.net.flags, VIRTIO_NET_NEEDS_CSUM);
	free(b);
}

TEST(test_lan_vring_room_that_came_after_the_look_is_not_missed)
{
	const struct lan_vring_form form = { VIRTIO_NET_BUFFERS_BYTES, true };
	struct bed *b = bed_make();
	struct lan_frame f = { .bytes = b->frame, .room = sizeof(b->frame), .length = BUFFER };
	bool done = true;

	/* It takes two buffers, and there is one. */
	chain_add(b, true);
	MUST(lan_vring_send(&b->ring, &b->guest, &form, &f, &done));
	EXPECT_EQ(done, false);
	EXPECT_EQ(lan_vring_ask_kick(&b->ring), false);
	MUST(lan_vring_send(&b->ring, &b->guest, &form, &f, &done));
	EXPECT_EQ(done, false);
	chain_add(b, true);
	EXPECT_EQ(lan_vring_ask_kick(&b->ring), true);
	MUST(lan_vring_send(&b->ring, &b->guest, &form, &f, &done));
	EXPECT_EQ(done, true);
	free(b);
}

/*
 * VIRTIO 1.2 section 2.7.5.3.2: buffers of the ring may come before the table, and the table's own
 * flag for writing says nothing.
 */
TEST(test_lan_vring_table_may_end_a_chain_and_say_that_it_is_writable)
{
	struct bed *b = bed_make();
	struct lan_frame f = { .bytes = b->frame, .room = sizeof(b->frame) };
	bool got = false;

	memset(b->memory + BUFFERS + BUFFER, 0x11, 60);
	memset(b->memory + BUFFERS + 2 * BUFFER, 0x22, 40);
	descriptor_put(b->memory, 0,
		       (struct descriptor){ BUFFERS, VIRTIO_NET_BUFFERS_BYTES, NEXT, 3 });
	descriptor_put(b->memory, 3, (struct descriptor){ TABLE, 32, INDIRECT | WRITE, 0 });
	descriptor_put(b->memory + TABLE, 0, (struct descriptor){ BUFFERS + BUFFER, 60, NEXT, 1 });
	descriptor_put(b->memory + TABLE, 1,
		       (struct descriptor){ .at = BUFFERS + 2 * BUFFER, .length = 40 });
	make_available(b, 0);
	MUST(lan_vring_receive(&b->ring, &b->guest, VIRTIO_NET_BUFFERS_BYTES, &f, &got));
	EXPECT_EQ(got, true);
	EXPECT_EQ(f.length, 100);
	EXPECT_EQ(f.bytes[59], 0x11);
	EXPECT_EQ(f.bytes[60], 0x22);
	free(b);
}
