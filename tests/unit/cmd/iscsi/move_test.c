/* SPDX-License-Identifier: BSD-2-Clause */
/* weft iscsi read, write and copy between devices that the test plays. */
#include "cmd/iscsi/iscsi_move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

enum { SIZE = 1 << 20, BLOCK = 64 << 10 };

/* A device of memory that counts, and that lies about one byte if it is told to. */
struct played {
	struct store store;
	struct list done;
	uint8_t bytes[SIZE];
	uint32_t counts[STORE_OP_COUNT], fua_writes, most_under_way;
	bool is_lying, is_backwards; /* is_backwards: the last request ends first */
	uint64_t lie_at;
	enum weft_reason flush_reason;
};

static struct played from, to;

static struct played *played_of(struct store *s)
{
	return CONTAINER_OF(s, struct played, store);
}

static void play(struct played *p, struct store_request *r)
{
	if (r->op == STORE_READ) {
		memcpy(r->spans[0].bytes, p->bytes + r->offset, r->length);
		if (p->is_lying && p->lie_at >= r->offset && p->lie_at < r->offset + r->length)
			r->spans[0].bytes[p->lie_at - r->offset] ^= 1;
	} else if (r->op == STORE_WRITE) {
		memcpy(p->bytes + r->offset, r->spans[0].bytes, r->length);
	} else if (r->op == STORE_WRITE_ZEROES) {
		memset(p->bytes + r->offset, 0, r->length);
	}
}

static void submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct played *p = played_of(s);

	(void)now_ns;
	p->counts[r->op]++;
	p->fua_writes += r->op == STORE_WRITE && (r->flags & STORE_FUA);
	if (s->under_way > p->most_under_way)
		p->most_under_way = s->under_way;
	play(p, r);
	store_request_end(r, r->op == STORE_FLUSH ? p->flush_reason : WEFT_OK, 0);
	list_init(&r->link);
	if (p->is_backwards)
		list_push(&p->done, &r->link);
	else
		list_add_tail(&p->done, &r->link);
}

static struct store_request *next_done(struct store *s, uint64_t now_ns)
{
	struct played *p = played_of(s);

	(void)now_ns;
	return list_is_empty(&p->done)
		       ? NULL
		       : CONTAINER_OF(list_pop(&p->done), struct store_request, link);
}

static const struct store_calls calls = {
	.submit = submit,
	.next_done = next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
};

static void played_init(struct played *p)
{
	memset(p, 0, sizeof(*p));
	p->store.calls = &calls;
	p->store.shape = (struct store_shape){ .size_bytes = SIZE,
					       .block_bytes = 512,
					       .can = STORE_CAN_ALL };
	list_init(&p->done);
}

/* From a device with something in it to another, in blocks of 64 KiB. */
static struct move prepare(void)
{
	played_init(&from);
	played_init(&to);
	for (uint32_t i = 0; i < SIZE; i++)
		from.bytes[i] = (uint8_t)(i * 7 + i / 251 + 1);
	return (struct move){ .from = { .store = &from.store, .fd = -1 },
			      .to = { .store = &to.store, .fd = -1 },
			      .length = SIZE,
			      .block = BLOCK,
			      .depth = 4 };
}

TEST(test_move_copies_and_flushes_once)
{
	struct move m = prepare();
	struct move_outcome o;

	from.is_backwards = to.is_backwards = true;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_EQ(o.done_bytes, SIZE);
	EXPECT_EQ(o.zero_bytes, 0);
	EXPECT_MEM(to.bytes, from.bytes, SIZE);
	EXPECT_EQ(to.counts[STORE_FLUSH], 1);
	EXPECT_EQ(to.fua_writes, 0);
	EXPECT_EQ(from.most_under_way, 4);
	EXPECT_EQ(from.counts[STORE_FLUSH], 0);
}

TEST(test_move_takes_other_places_and_fua)
{
	struct move m = prepare();
	struct move_outcome o;

	m.from.at = 4096;
	m.to.at = 8192;
	m.length = 3 * BLOCK + 512;
	m.is_fua = true;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_MEM(to.bytes + 8192, from.bytes + 4096, 3 * BLOCK + 512);
	EXPECT(to.bytes[8191] == 0 && to.bytes[8192 + 3 * BLOCK + 512] == 0);
	EXPECT_EQ(to.fua_writes, 4);
}

TEST(test_move_sends_no_zeroes)
{
	struct move m = prepare();
	struct move_outcome o;

	memset(from.bytes + BLOCK, 0, 2 * BLOCK);
	memset(to.bytes, 0xff, SIZE);
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_EQ(o.zero_bytes, 2 * BLOCK);
	EXPECT_EQ(to.counts[STORE_WRITE_ZEROES], 2);
	EXPECT_MEM(to.bytes, from.bytes, SIZE);
	/* A device that cannot make them gets them. */
	m = prepare();
	memset(from.bytes, 0, SIZE);
	memset(to.bytes, 0xff, SIZE);
	to.store.shape.can &= ~(uint32_t)STORE_CAN_WRITE_ZEROES;
	iscsi_move(&m, &o);
	EXPECT_EQ(to.counts[STORE_WRITE_ZEROES], 0);
	EXPECT_EQ(o.zero_bytes, 0);
	EXPECT_MEM(to.bytes, from.bytes, SIZE);
}

TEST(test_move_verify_finds_the_byte_that_differs)
{
	struct move m = prepare();
	struct move_outcome o;

	m.is_verified = true;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_EQ(to.counts[STORE_READ], SIZE / BLOCK);
	m = prepare();
	m.is_verified = true;
	to.is_lying = true;
	to.lie_at = 5 * BLOCK + 77;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_R_STORE_IO);
	EXPECT(o.end == &m.to && strcmp(o.what, "verify") == 0);
	EXPECT_EQ(o.at, 5 * BLOCK + 77);
	EXPECT_EQ(to.counts[STORE_FLUSH], 0);
	/* Also of zeroes. */
	m = prepare();
	m.is_verified = true;
	memset(from.bytes, 0, SIZE);
	to.is_lying = true;
	to.lie_at = 9;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.at, 9);
	EXPECT_EQ(o.reason, WEFT_R_STORE_IO);
}

TEST(test_move_tells_of_a_flush_that_failed)
{
	struct move m = prepare();
	struct move_outcome o;

	to.flush_reason = WEFT_R_STORE_LOST;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_R_STORE_LOST);
	EXPECT(o.end == &m.to && strcmp(o.what, "flush") == 0);
}

/* What a device without a flush refuses, or a read-only one, is told with its place. */
TEST(test_move_ends_what_is_under_way_when_one_is_refused)
{
	struct move m = prepare();
	struct move_outcome o;

	m.to.at = SIZE - 2 * BLOCK;
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_R_STORE_RANGE);
	EXPECT(o.end == &m.to && strcmp(o.what, "write") == 0);
	EXPECT_EQ(o.at, SIZE);
	EXPECT(from.store.under_way == 0 && to.store.under_way == 0);
	EXPECT_EQ(to.counts[STORE_FLUSH], 0);
}

TEST(test_move_to_a_file_keeps_the_order_and_leaves_holes)
{
	char path[] = "/tmp/weft-move-XXXXXX";
	struct move m = prepare();
	static uint8_t back[SIZE];
	struct move_outcome o;

	from.is_backwards = true;
	memset(from.bytes + SIZE - 2 * BLOCK, 0, 2 * BLOCK);
	m.to = (struct move_end){ .fd = mkstemp(path) };
	EXPECT(m.to.fd >= 0);
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_EQ(o.zero_bytes, 2 * BLOCK);
	EXPECT_EQ(lseek(m.to.fd, 0, SEEK_END), SIZE);
	EXPECT_EQ(pread(m.to.fd, back, SIZE, 0), SIZE);
	EXPECT_MEM(back, from.bytes, SIZE);
	/* And from it: what is not a whole block is filled up. */
	EXPECT_EQ(ftruncate(m.to.fd, BLOCK + 100), 0);
	EXPECT_EQ(lseek(m.to.fd, 0, SEEK_SET), 0);
	m.from = m.to;
	m.to = (struct move_end){ .store = &to.store, .fd = -1 };
	memset(to.bytes, 0xff, SIZE);
	iscsi_move(&m, &o);
	EXPECT_EQ(o.reason, WEFT_OK);
	EXPECT_MEM(to.bytes, from.bytes, BLOCK + 100);
	EXPECT(to.bytes[BLOCK + 100] == 0 && to.bytes[BLOCK + 511] == 0 &&
	       to.bytes[BLOCK + 512] == 0xff);
	close(m.from.fd);
	unlink(path);
}
