/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program can put into a list: several buffers, immediate data, attributes of its own. */
#include <string.h>
#include <sys/mman.h>

#include "rio/raw.h"
#include "wire/sgl.h"

enum { KIB = 1024, MIB = 1 << 20, LENGTH = 8 * KIB, DEVICE = 1 << 16 | 1, SHARES = 3 };

static struct cluster c;
static uint8_t out[MIB], in[MIB];

/* Three fragments of uneven length, with gaps, of LENGTH bytes in all. */
static void cut(uint8_t *memory, uint32_t tag, struct weft_rio_sge sges[SHARES])
{
	sges[0] = (struct weft_rio_sge){ .memory = memory + 1, .length = 1000, .tag = tag };
	sges[1] = (struct weft_rio_sge){ .memory = memory + 3000, .length = 3096, .tag = tag };
	sges[2] = (struct weft_rio_sge){ .memory = memory + 9000, .length = 4096, .tag = tag };
}

static struct weft_rio_transaction of_cut(enum weft_rio_operation operation, uint32_t device,
					  const struct weft_rio_sge sges[SHARES])
{
	return (struct weft_rio_transaction){ .operation = operation,
					      .device = device,
					      .offset = 4096,
					      .length = LENGTH,
					      .sges = sges,
					      .sge_count = SHARES };
}

static void join(const struct weft_rio_sge sges[SHARES], uint8_t *to)
{
	for (int i = 0; i < SHARES; i++) {
		memcpy(to, sges[i].memory, sges[i].length);
		to += sges[i].length;
	}
}

/* ---- Buffers -------------------------------------------------------------------------------- */

TEST(test_rio_15_a_transaction_has_several_buffers_each_way)
{
	static uint8_t written[LENGTH], read[LENGTH];
	const uint32_t two[] = { 1, 2 }, three[] = { 1, 1, 1 };
	struct weft_rio_sge from[SHARES], to[SHARES];
	struct weft_rio_transaction t;
	struct weft_rio_requester *q;
	uint32_t device;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	cluster_fill(out, sizeof(out), 5);
	cut(out, cluster_memory(q, out, sizeof(out)), from);
	cut(in, cluster_memory(q, in, sizeof(in)), to);
	t = of_cut(WEFT_RIO_WRITE, device, from);
	t.buffers = two;
	t.buffer_count = 2;
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	t = of_cut(WEFT_RIO_READ, device, to);
	t.buffers = three;
	t.buffer_count = 3;
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	join(from, written);
	join(to, read);
	EXPECT_MEM(read, written, LENGTH);
	cluster_close(&c);
}

TEST(test_rio_15_every_fragment_is_of_one_buffer)
{
	static const uint32_t few[] = { 1, 1 }, many[] = { 2, 2 }, empty[] = { 3, 0 };
	const struct {
		const uint32_t *buffers;
		uint64_t count;
	} bad[] = { { few, 2 }, { many, 2 }, { empty, 2 }, { NULL, 1 }, { few, 4 }, { few, 0 } };
	struct weft_rio_requester *q;
	struct weft_rio_sge sges[SHARES];
	struct weft_rio_transaction t;
	uint32_t device;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	cut(in, cluster_memory(q, in, sizeof(in)), sges);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		t = of_cut(WEFT_RIO_READ, device, sges);
		t.buffers = bad[i].buffers;
		t.buffer_count = bad[i].count;
		EXPECT_EQ(cluster_io(q, &t), WEFT_R_BAD_ARGUMENT);
	}
	EXPECT(!cluster_noted(&c, "allowed 7.1"));
	cluster_close(&c);
}

/* ---- Immediate data ------------------------------------------------------------------------- */

static enum weft_reason write_immediate(struct weft_rio_requester *q, uint32_t device,
					const uint8_t *data, uint64_t length)
{
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE,
						.device = device,
						.offset = 4096,
						.length = length,
						.data = data };

	return cluster_io(q, &t);
}

/* In the message, and, as it is too long for one, in a part of the list that the owner reads. */
TEST(test_rio_13d_data_in_the_request_needs_no_memory_and_no_data_connection)
{
	static const uint32_t lengths[] = { 512, 4 * KIB, 128 * KIB };
	struct weft_rio_traffic moved;
	struct weft_rio_requester *q;
	char text[CLUSTER_TEXT];
	uint32_t device;

	cluster_file(text, MIB);
	cluster_open(&c, text);
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	for (uint8_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		cluster_fill(out, lengths[i], (uint8_t)(i + 1));
		EXPECT_EQ(write_immediate(q, device, out, lengths[i]), WEFT_OK);
		cluster_file_read(text, 4096, in, lengths[i]);
		EXPECT_MEM(in, out, lengths[i]);
	}
	weft_rio_requester_traffic(q, &moved);
	EXPECT_EQ(moved.connections, 0);
	EXPECT_EQ(moved.payload_in + moved.payload_out, 0);
	EXPECT(moved.control_out > 132 * KIB);
	cluster_close(&c);
	cluster_file_remove(text);
}

TEST(test_rio_13d_data_in_the_request_is_a_write_of_bounded_length)
{
	struct weft_rio_requester *q;
	struct weft_rio_sge sges[SHARES];
	struct weft_rio_transaction t;
	uint32_t device;

	cluster_open(&c, "mem:1M");
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	cut(in, cluster_memory(q, in, sizeof(in)), sges);
	t = of_cut(WEFT_RIO_WRITE, device, sges);
	t.data = out;
	EXPECT_EQ(cluster_io(q, &t), WEFT_R_BAD_ARGUMENT);
	t.operation = WEFT_RIO_READ;
	t.sge_count = 0;
	EXPECT_EQ(cluster_io(q, &t), WEFT_R_SGL_SEGMENT);
	EXPECT_EQ(write_immediate(q, device, out, 256 * KIB), WEFT_R_SGL_BYTES);
	EXPECT(!cluster_noted(&c, "allowed 7.1"));
	cluster_close(&c);
}

/* ---- Attributes ----------------------------------------------------------------------------- */

/* Memory below 4 GiB. */
static uint8_t *low_memory(void)
{
	const uint64_t first = 0x20000000, step = 0x10000000;

	for (uint64_t at = first; at < UINT32_MAX - step; at += step) {
		void *memory = mmap((void *)(uintptr_t)at, MIB, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (memory == (void *)(uintptr_t)at)
			return memory;
		if (memory != MAP_FAILED)
			munmap(memory, MIB);
	}
	REQUIRE(!"no memory below 4 GiB");
	return NULL;
}

static const struct weft_rio_requester_options narrow = { .address_bytes = 4,
							  .page_bytes = 64 * KIB };

TEST(test_rio_13a_a_requester_with_addresses_of_four_bytes_reads_and_writes)
{
	static uint8_t written[LENGTH], read[LENGTH];
	uint8_t *low = low_memory();
	struct weft_rio_sge from[SHARES], to[SHARES], high[SHARES];
	struct weft_rio_transaction t;
	struct weft_rio_requester *q;
	uint32_t device, tag;

	cluster_begin(&c);
	c.requester_options = narrow;
	c.store = (struct weft_rio_store){ .number = 1, .name = "disk", .text = "mem:1M" };
	cluster_add_iounit(&c, &c.store, 1);
	cluster_start_owner(&c);
	q = cluster_requester(&c, 0);
	device = cluster_device(q, "disk").number;
	cluster_fill(low, MIB, 8);
	tag = cluster_memory(q, low, MIB);
	cut(low, tag, from);
	cut(low + 64 * KIB, tag, to);
	cut(in, cluster_memory(q, in, sizeof(in)), high);
	join(from, written);
	t = of_cut(WEFT_RIO_WRITE, device, from);
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	t = of_cut(WEFT_RIO_READ, device, to);
	EXPECT_EQ(cluster_io(q, &t), WEFT_OK);
	join(to, read);
	EXPECT_MEM(read, written, LENGTH);
	/* Memory that such an address cannot name. */
	if ((uintptr_t)in > UINT32_MAX) {
		t = of_cut(WEFT_RIO_READ, device, high);
		EXPECT_EQ(cluster_io(q, &t), WEFT_R_SGL_WRAP);
	}
	cluster_close(&c);
	munmap(low, MIB);
}

static void open_played(struct raw *owner, struct weft_rio_requester **q)
{
	struct weft_rio_peer peer;
	struct weft_rio_self self;

	raw_open(owner, OWNER_UNIT, RIO_OWNER);
	raw_listen(owner);
	peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &owner->at);
	self = cluster_self(FIRST_REQUESTER, &peer, 1);
	REQUIRE(weft_rio_requester_open(&self, &narrow, q) == WEFT_OK);
	raw_await(owner, FIRST_REQUESTER, RIO_REQUESTER);
}

/* As the owner gets it: attributes first, a flag at the end of each buffer, short addresses. */
TEST(test_rio_13a_rio_15_the_list_on_the_wire_is_as_the_program_asked)
{
	static struct raw owner;
	const uint32_t two[] = { 1, 2 };
	uint8_t *low = low_memory();
	struct sgl_attributes attributes = sgl_attributes_default();
	struct weft_rio_sge sges[SHARES];
	struct weft_rio_transaction t;
	struct weft_rio_requester *q;
	struct sgl_element e;
	struct rio_msg m;
	struct rd at;

	open_played(&owner, &q);
	cut(low, cluster_memory(q, low, MIB), sges);
	t = of_cut(WEFT_RIO_READ, DEVICE, sges);
	t.buffers = two;
	t.buffer_count = 2;
	REQUIRE(weft_rio_request_submit(q, &(struct weft_rio_request){ .transactions = &t,
								       .transaction_count = 1 }) ==
		WEFT_OK);
	REQUIRE(raw_hear(&owner, RIO_REQUEST, &m));
	at = rd_of(m.request.list.bytes, m.request.list.length);
	REQUIRE(sgl_next(&e, &at, &attributes) == SGL_OK && e.kind == SGL_ATTRIBUTES);
	attributes = e.attributes;
	EXPECT_EQ(attributes.address_bytes, 4);
	EXPECT_EQ(attributes.page_shift, 16);
	REQUIRE(sgl_next(&e, &at, &attributes) == SGL_OK && e.kind == SGL_TRANSACTION);
	REQUIRE(sgl_next(&e, &at, &attributes) == SGL_OK && e.kind == SGL_PLATFORM);
	for (int i = 0; i < SHARES; i++) {
		REQUIRE(sgl_next(&e, &at, &attributes) == SGL_OK && e.kind == SGL_DETAIL);
		EXPECT_EQ(e.detail.address, (uintptr_t)sges[i].memory);
		EXPECT_EQ(e.detail.ends_buffer, i != 1);
		EXPECT(e.detail.handle != 0);
	}
	EXPECT(at.at == at.end);
	weft_rio_requester_close(q);
	raw_close(&owner);
	munmap(low, MIB);
}

TEST(test_rio_13a_attributes_that_no_list_has_are_refused)
{
	const struct weft_rio_requester_options bad[] = {
		{ .address_bytes = 5 },	      { .address_bytes = 16 },
		{ .address_bytes = 0x104 },   { .page_bytes = 2048 },
		{ .page_bytes = 4096 + 512 }, { .page_bytes = UINT32_C(1) << 31 },
	};
	const struct weft_rio_peer peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER,
						       &(struct weft_address){ 0 });
	const struct weft_rio_self self = cluster_self(FIRST_REQUESTER, &peer, 1);
	struct weft_rio_requester *q;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(weft_rio_requester_open(&self, &bad[i], &q), WEFT_R_BAD_ARGUMENT);
}
