/* SPDX-License-Identifier: BSD-2-Clause */
/* A virtual machine's side of vhost-user, played: its memory, its rings, its messages, its lies. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

/* After <sys/socket.h>. */
#include <linux/sockios.h>

#include "descriptors.h"
#include "live/lan/lan_bed.h"
#include "wire/vhost_user.h"

enum {
	MEMORY = 1 << 20,
	SIZE = 64, /* of the rings */
	/* Where things are in the guest's memory. */
	RING_BYTES = 4096,
	RX = 0,
	TX = 1,
	BUFFERS = 65536,
	BUFFER = 2048,
	HEADER = 12,
	NEXT = 1,
	WRITE = 2,
	INDIRECT = 4,
};

/* Addresses of the guest, and of the process of its machine. */
#define GUEST UINT64_C(0x100000000)
#define USER UINT64_C(0x7f0000000000)
#define F_MRG (UINT64_C(1) << 15)
#define F_EVENT (UINT64_C(1) << 29)
#define F_PROTOCOL (UINT64_C(1) << 30)
#define F_1 (UINT64_C(1) << 32)
#define F_GUEST_CSUM UINT64_C(2)

struct machine {
	struct lan_bed *bed;
	struct lan_port *port;
	int peer, memory, kick[2], call[2];
	uint8_t *at;
	uint64_t features;
	uint16_t made[2], seen[2]; /* chains made available, and found used */
};

static uint8_t *ring_at(struct machine *m, int ring)
{
	return m->at + (size_t)ring * 4 * RING_BYTES;
}

static void put16(uint8_t *at, uint16_t v)
{
	memcpy(at, &v, sizeof(v));
}

static uint16_t get16(const uint8_t *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* Sends a message, with a descriptor or without (-1). */
static void say(struct machine *m, uint32_t request, const void *body, uint32_t size, int fd)
{
	uint8_t bytes[VHOST_MESSAGE_MAX];
	const uint32_t head[3] = { request, VHOST_VERSION, size };
	union {
		struct cmsghdr header;
		uint8_t room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { bytes, VHOST_HEADER_BYTES + size };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(bytes, head, sizeof(head));
	if (size > 0)
		memcpy(bytes + VHOST_HEADER_BYTES, body, size);
	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int));
		control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						   .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	MUST_EQ(sendmsg(m->peer, &msg, MSG_NOSIGNAL), VHOST_HEADER_BYTES + size);
}

static void say_u64(struct machine *m, uint32_t request, uint64_t value, int fd)
{
	say(m, request, &value, sizeof(value), fd);
}

static void say_state(struct machine *m, uint32_t request, uint32_t index, uint32_t number)
{
	const uint32_t s[2] = { index, number };

	say(m, request, s, sizeof(s), -1);
}

static void say_memory(struct machine *m, struct vhost_region r)
{
	uint64_t body[5] = { 1, r.guest, r.length, r.user, r.offset };

	say(m, VHOST_SET_MEM_TABLE, body, sizeof(body), m->memory);
}

static void say_address(struct machine *m, uint32_t ring, uint64_t at)
{
	uint64_t body[5] = { ring, at, at + 2 * RING_BYTES, at + RING_BYTES, 0 };

	say(m, VHOST_SET_VRING_ADDR, body, sizeof(body), -1);
}

/* Connects, with memory that can be sealed or not. */
static struct machine *machine_make(unsigned int memory_flags)
{
	struct machine *m = calloc(1, sizeof(*m));
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	REQUIRE(m != NULL);
	m->bed = lan_bed_make();
	m->port = lan_bed_open(m->bed, "vhost-user:%s/v");
	snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/v", m->bed->folder);
	m->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(m->peer >= 0 && connect(m->peer, (const void *)&un, sizeof(un)) == 0);
	m->memory = memfd_create("guest", MFD_CLOEXEC | memory_flags);
	REQUIRE(m->memory >= 0 && ftruncate(m->memory, MEMORY) == 0);
	m->at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, m->memory, 0);
	REQUIRE(m->at != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		m->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		m->call[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}
	return m;
}

static void machine_end(struct machine *m)
{
	lan_close(m->port);
	close(m->peer);
	for (int i = 0; i < 2; i++) {
		close(m->kick[i]);
		close(m->call[i]);
	}
	munmap(m->at, MEMORY);
	close(m->memory);
	lan_bed_end(m->bed);
	free(m);
}

static const struct vhost_region all_memory = { GUEST, MEMORY, USER, 0 };

static void rings_start(struct machine *m)
{
	say_memory(m, all_memory);
	for (uint32_t i = 0; i < 2; i++) {
		say_state(m, VHOST_SET_VRING_NUM, i, SIZE);
		say_state(m, VHOST_SET_VRING_BASE, i, 0);
		say_address(m, i, USER + (uint64_t)i * 4 * RING_BYTES);
		say_u64(m, VHOST_SET_VRING_KICK, i, m->kick[i]);
		say_u64(m, VHOST_SET_VRING_CALL, i, m->call[i]);
		say_state(m, VHOST_SET_VRING_ENABLE, i, 1);
	}
	lan_bed_until(m->port, NULL, true);
	(void)lan_news(m->port);
}

static void start(struct machine *m, uint64_t features)
{
	m->features = features;
	say_u64(m, VHOST_SET_FEATURES, features, -1);
	rings_start(m);
}

static struct machine *started(uint64_t features)
{
	struct machine *m = machine_make(MFD_ALLOW_SEALING);

	start(m, features | F_PROTOCOL | F_1);
	return m;
}

static void descriptor(struct machine *m, int ring, uint32_t index, uint64_t address,
		       const uint16_t *rest)
{
	uint8_t *d = ring_at(m, ring) + (size_t)index * 16;
	const uint32_t length = rest[0];

	memcpy(d, &address, sizeof(address));
	memcpy(d + 8, &length, sizeof(length));
	put16(d + 12, rest[1]);
	put16(d + 14, rest[2]);
}

#define DESCRIPTOR(m, ring, index, address, ...)                                                   \
	descriptor(m, ring, index, address, (const uint16_t[]){ __VA_ARGS__ })

static void make_available(struct machine *m, int ring, uint16_t head)
{
	uint8_t *a = ring_at(m, ring) + RING_BYTES;
	const uint64_t once = 1;

	put16(a + 4 + 2 * (size_t)(m->made[ring] % SIZE), head);
	m->made[ring]++;
	__atomic_store_n((uint16_t *)(void *)(a + 2), m->made[ring], __ATOMIC_SEQ_CST);
	MUST_EQ(write(m->kick[ring], &once, sizeof(once)), sizeof(once));
}

static uint64_t buffer_of(int ring, uint32_t index)
{
	return GUEST + BUFFERS + ((uint64_t)ring * SIZE + index) * BUFFER;
}

static uint8_t *bytes_of(struct machine *m, uint64_t address)
{
	return m->at + (address - GUEST);
}

static void until_lost(struct machine *m, enum weft_reason why)
{
	enum { PATIENCE_MS = 20000 };
	struct pollfd p = { .fd = lan_descriptor(m->port), .events = POLLIN };

	/* Down without that reason, it has more to do. */
	for (lan_bed_until(m->port, NULL, false); lan_properties(m->port)->why != why;
	     lan_bed_until(m->port, NULL, false))
		MUST_EQ(poll(&p, 1, PATIENCE_MS), 1);
	MUST_EQ(lan_properties(m->port)->is_up, false);
}

TEST(test_lan_vhost_guest_sends)
{
	struct machine *m = started(F_MRG | F_EVENT);
	struct lan_frame wanted = lan_bed_frame(m->bed, 1, 100, 3);
	uint8_t *head = bytes_of(m, buffer_of(TX, 0)), *more = bytes_of(m, buffer_of(TX, 1));

	/* Two buffers; its checksum is left to us. */
	memset(head, 0, HEADER);
	head[0] = VIRTIO_NET_NEEDS_CSUM;
	put16(head + 6, 34);
	put16(head + 8, 16);
	memcpy(head + HEADER, wanted.bytes, 30);
	memcpy(more, wanted.bytes + 30, 70);
	DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), HEADER + 30, NEXT, 1);
	DESCRIPTOR(m, TX, 1, buffer_of(TX, 1), 70, 0, 0);
	make_available(m, TX, 0);
	EXPECT_EQ(lan_bed_receive(m->bed, m->port), 1);
	wanted = lan_bed_frame(m->bed, 1, 100, 3);
	EXPECT_EQ(m->bed->frames[0].length, 100);
	EXPECT_MEM(m->bed->frames[0].bytes, wanted.bytes, 100);
	EXPECT_EQ(m->bed->frames[0].net.flags, VIRTIO_NET_NEEDS_CSUM);
	EXPECT_EQ(m->bed->frames[0].net.csum_start, 34);
	EXPECT_EQ(get16(ring_at(m, TX) + (size_t)2 * RING_BYTES + 2), 1);
	machine_end(m);
}

/* Else its owner would look again and again, and keep a processor busy until the guest is back. */
TEST(test_lan_vhost_guest_that_stopped_has_no_more_frames)
{
	struct machine *m = started(F_MRG);

	memset(bytes_of(m, buffer_of(TX, 0)), 0, HEADER);
	DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), HEADER + 60, 0, 0);
	make_available(m, TX, 0);
	(void)lan_receive(m->port, NULL, 0);
	EXPECT(lan_has_more(m->port));
	say_state(m, VHOST_GET_VRING_BASE, TX, 0);
	(void)lan_receive(m->port, NULL, 0);
	EXPECT(!lan_properties(m->port)->is_up);
	EXPECT_EQ(lan_receive(m->port, m->bed->frames, BED_FRAMES), 0);
	EXPECT(!lan_has_more(m->port));
	/* It goes on where it stopped. */
	say_address(m, TX, USER + 4 * RING_BYTES);
	say_u64(m, VHOST_SET_VRING_KICK, TX, m->kick[TX]);
	say_state(m, VHOST_SET_VRING_ENABLE, TX, 1);
	EXPECT_EQ(lan_bed_receive(m->bed, m->port), 1);
	machine_end(m);
}

TEST(test_lan_vhost_guest_receives_in_merged_buffers)
{
	struct machine *m = started(F_MRG);
	struct lan_frame f = lan_bed_frame(m->bed, 0, 5000, 9), wanted;
	uint8_t *used = ring_at(m, RX) + (size_t)2 * RING_BYTES;
	uint32_t at = 0;
	uint64_t calls;

	/* No room: it is not taken. With room for a part of it neither. */
	EXPECT_EQ(lan_send(m->port, &f, 1), 0);
	for (uint16_t i = 0; i < 3; i++) {
		DESCRIPTOR(m, RX, i, buffer_of(RX, i), BUFFER, WRITE, 0);
		if (i == 1)
			EXPECT_EQ(lan_send(m->port, &f, 1), 0);
		make_available(m, RX, i);
	}
	(void)lan_receive(m->port, m->bed->frames, 0);
	EXPECT_EQ(lan_news(m->port), LAN_NEWS_ROOM);
	EXPECT_EQ(lan_send(m->port, &f, 1), 1);
	EXPECT_EQ(get16(used + 2), 3);
	EXPECT_EQ(get16(bytes_of(m, buffer_of(RX, 0)) + 10), 3);
	wanted = lan_bed_frame(m->bed, 1, 5000, 9);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t length, skip = i == 0 ? HEADER : 0;

		memcpy(&length, used + 4 + 8 * (size_t)i + 4, sizeof(length));
		EXPECT_EQ(length, i < 2 ? BUFFER : 5000 + HEADER - 2 * BUFFER);
		EXPECT_MEM(bytes_of(m, buffer_of(RX, i)) + skip, wanted.bytes + at, length - skip);
		at += length - skip;
	}
	EXPECT_EQ(at, 5000);
	EXPECT_EQ(read(m->call[RX], &calls, sizeof(calls)), sizeof(calls));
	machine_end(m);
}

TEST(test_lan_vhost_frame_beyond_one_buffer_is_dropped_without_merging)
{
	struct machine *m = started(0);
	struct lan_frame f = lan_bed_frame(m->bed, 0, 5000, 9);

	DESCRIPTOR(m, RX, 0, buffer_of(RX, 0), BUFFER, WRITE, 0);
	make_available(m, RX, 0);
	EXPECT_EQ(lan_send(m->port, &f, 1), 1);
	EXPECT_EQ(lan_counts(m->port)->out.drops[WEFT_R_LAN_LONG], 1);
	f = lan_bed_frame(m->bed, 0, 100, 9);
	EXPECT_EQ(lan_send(m->port, &f, 1), 1);
	EXPECT_EQ(lan_counts(m->port)->out.frames, 1);
	machine_end(m);
}

TEST(test_lan_vhost_guest_is_told_only_when_it_wants)
{
	struct machine *m = started(F_MRG | F_EVENT);
	uint8_t *event = ring_at(m, RX) + RING_BYTES + 4 + 2 * (size_t)SIZE;
	struct lan_frame f;
	uint64_t calls;

	put16(event, 1); /* of the second frame */
	for (uint16_t i = 0; i < 3; i++) {
		DESCRIPTOR(m, RX, i, buffer_of(RX, i), BUFFER, WRITE, 0);
		make_available(m, RX, i);
		f = lan_bed_frame(m->bed, 0, 60, 1);
		EXPECT_EQ(lan_send(m->port, &f, 1), 1);
		EXPECT_EQ(read(m->call[RX], &calls, sizeof(calls)),
			  i == 1 ? (int)sizeof(calls) : -1);
	}
	machine_end(m);
}

/* Each is a chain of the guest's that sends, and why it ends the connection. */
TEST(test_lan_vhost_refuses_chains_that_lie)
{
	enum { CASES = 10 };

	for (int i = 0; i < CASES; i++) {
		enum weft_reason why = i < 4 ? WEFT_R_VHOST_ADDRESS : WEFT_R_VHOST_CHAIN;
		struct machine *m = started(F_MRG);

		harness_note("case %d", i);
		switch (i) {
		case 0: /* behind the memory */
			DESCRIPTOR(m, TX, 0, GUEST + MEMORY - 99, 100, 0, 0);
			break;
		case 1: /* before it */
			DESCRIPTOR(m, TX, 0, GUEST - 1, 100, 0, 0);
			break;
		case 2: /* round the end of all addresses */
			DESCRIPTOR(m, TX, 0, UINT64_MAX - 10, 100, 0, 0);
			break;
		case 3: /* a table that lies behind the memory */
			DESCRIPTOR(m, TX, 0, GUEST + MEMORY - 16, 32, INDIRECT, 0);
			break;
		case 4: /* a loop */
			DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), 1, NEXT, 0);
			break;
		case 5: /* beyond the table */
			DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), 100, NEXT, SIZE);
			break;
		case 6: /* to be written */
			DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), 100, WRITE, 0);
			break;
		case 7: /* shorter than the header */
			DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), HEADER - 1, 0, 0);
			break;
		case 8: /* a table that is no whole number of descriptors */
			DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), 17, INDIRECT, 0);
			break;
		default: /* a table in a table */
			DESCRIPTOR(m, TX, 0, GUEST + (uint64_t)TX * 4 * RING_BYTES, 16, INDIRECT,
				   0);
			break;
		}
		make_available(m, TX, 0);
		until_lost(m, why);
		machine_end(m);
	}
}

TEST(test_lan_vhost_refuses_a_head_beyond_the_table_and_too_many_chains)
{
	struct machine *m = started(F_MRG);

	make_available(m, TX, SIZE);
	until_lost(m, WEFT_R_VHOST_CHAIN);
	machine_end(m);
	m = started(F_MRG);
	m->made[TX] = SIZE;
	make_available(m, TX, 0);
	until_lost(m, WEFT_R_VHOST_RING);
	machine_end(m);
}

/* A guest that receives, whose buffers are for reading, or have no room behind the header. */
TEST(test_lan_vhost_refuses_buffers_that_cannot_take_a_frame)
{
	for (int i = 0; i < 2; i++) {
		struct machine *m = started(F_MRG);
		struct lan_frame f = lan_bed_frame(m->bed, 0, 60, 1);

		DESCRIPTOR(m, RX, 0, buffer_of(RX, 0), i ? HEADER : BUFFER, i ? WRITE : 0, 0);
		make_available(m, RX, 0);
		(void)lan_send(m->port, &f, 1);
		EXPECT(!lan_properties(m->port)->is_up);
		EXPECT_EQ(lan_properties(m->port)->why, WEFT_R_VHOST_CHAIN);
		machine_end(m);
	}
}

/* Frames of 13 and of more than 65535 bytes; the next one is good. */
TEST(test_lan_vhost_drops_frames_that_are_too_short_or_too_long)
{
	struct machine *m = started(F_MRG);

	DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), HEADER + 13, 0, 0);
	DESCRIPTOR(m, TX, 1, GUEST, 65535, NEXT, 2);
	DESCRIPTOR(m, TX, 2, GUEST, HEADER + 1, 0, 0);
	DESCRIPTOR(m, TX, 3, buffer_of(TX, 0), HEADER + 14, 0, 0);
	memset(bytes_of(m, buffer_of(TX, 0)), 0, HEADER);
	make_available(m, TX, 0);
	make_available(m, TX, 1);
	make_available(m, TX, 3);
	EXPECT_EQ(lan_bed_receive(m->bed, m->port), 1);
	EXPECT_EQ(m->bed->frames[0].length, 14);
	EXPECT_EQ(lan_counts(m->port)->in.drops[WEFT_R_LAN_SHORT], 1);
	EXPECT_EQ(lan_counts(m->port)->in.drops[WEFT_R_LAN_LONG], 1);
	machine_end(m);
}

/* The machine connects again, with memory as it was at first. */
static void connect_again(struct machine *m)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	close(m->peer);
	snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/v", m->bed->folder);
	m->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST_EQ(connect(m->peer, (const void *)&un, sizeof(un)), 0);
	MUST_EQ(ftruncate(m->memory, MEMORY), 0);
	memset(m->at, 0, MEMORY);
	memset(m->made, 0, sizeof(m->made));
}

static void start_again(struct machine *m, uint64_t features)
{
	connect_again(m);
	start(m, features);
}

static void guest_sends_one(struct machine *m)
{
	memset(bytes_of(m, buffer_of(TX, 0)), 0, HEADER);
	DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), HEADER + 60, 0, 0);
	make_available(m, TX, 0);
	MUST_EQ(lan_bed_receive(m->bed, m->port), 1);
}

/*
 * Files that cannot be sealed (those of DPDK, hugetlbfs) can become shorter: whatever is looked for
 * there next, the guest is lost, and the next one is served.
 */
TEST(test_lan_vhost_guest_that_cuts_its_memory_short_is_lost_and_no_more)
{
	enum { BUFFERS_GO, ALL_GOES, SENT_TO, PLACED, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct machine *m = machine_make(0);
		struct lan_frame f = lan_bed_frame(m->bed, 1, 60, 1);

		harness_note("way %d", way);
		start(m, F_MRG | F_PROTOCOL | F_1);
		guest_sends_one(m);
		DESCRIPTOR(m, RX, 0, buffer_of(RX, 0), BUFFER, WRITE, 0);
		make_available(m, RX, 0);
		if (way == BUFFERS_GO || way == ALL_GOES)
			make_available(m, TX, 0);
		EXPECT_EQ(ftruncate(m->memory, way == BUFFERS_GO ? BUFFERS : 0), 0);
		if (way == BUFFERS_GO || way == ALL_GOES)
			EXPECT_EQ(lan_receive(m->port, m->bed->frames, BED_FRAMES), 0);
		if (way == SENT_TO)
			(void)lan_send(m->port, &f, 1);
		if (way == PLACED) {
			say_address(m, TX, USER + 4 * RING_BYTES);
			(void)lan_receive(m->port, NULL, 0);
			EXPECT(!lan_properties(m->port)->is_up);
		}
		until_lost(m, WEFT_R_VHOST_MEMORY);
		start_again(m, F_MRG | F_PROTOCOL | F_1);
		guest_sends_one(m);
		machine_end(m);
	}
}

TEST(test_lan_vhost_memory_that_can_be_sealed_is)
{
	struct machine *m = started(F_MRG);

	EXPECT(fcntl(m->memory, F_GET_SEALS) & F_SEAL_SHRINK);
	EXPECT(ftruncate(m->memory, 0) < 0);
	guest_sends_one(m);
	machine_end(m);
}

/* A page of a file system may come late, or never. */
TEST(test_lan_vhost_takes_files_of_memory_only)
{
	struct machine *m = machine_make(MFD_ALLOW_SEALING);
	char path[] = "./weft-lan-file-XXXXXX";
	struct statfs on;

	close(m->memory);
	m->memory = mkstemp(path);
	EXPECT(m->memory >= 0 && unlink(path) == 0);
	EXPECT(ftruncate(m->memory, MEMORY) == 0 && fstatfs(m->memory, &on) == 0);
	if (on.f_type != TMPFS_MAGIC) {
		say_memory(m, all_memory);
		until_lost(m, WEFT_R_VHOST_MEMORY);
	}
	machine_end(m);
	if (on.f_type == TMPFS_MAGIC)
		SKIP("this folder is in memory");
}

TEST(test_lan_vhost_refuses_memory_that_is_not_there)
{
	static const struct vhost_region bad[] = {
		{ GUEST, MEMORY + 1, USER, 0 },		{ GUEST, MEMORY, USER, 4096 },
		{ UINT64_MAX - 4095, MEMORY, USER, 0 }, { GUEST, 0, USER, 0 },
		{ GUEST, MEMORY, UINT64_MAX - 5, 0 },	{ GUEST, MEMORY, USER, UINT64_MAX - 5 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct machine *m = machine_make(MFD_ALLOW_SEALING);

		harness_note("region %zu", i);
		say_memory(m, bad[i]);
		until_lost(m, WEFT_R_VHOST_MEMORY);
		machine_end(m);
	}
}

TEST(test_lan_vhost_refuses_rings_that_cannot_be)
{
	enum { CASES = 9 };

	for (int i = 0; i < CASES; i++) {
		struct machine *m = machine_make(MFD_ALLOW_SEALING);
		enum weft_reason why = WEFT_R_VHOST_RING;

		harness_note("case %d", i);
		say_memory(m, all_memory);
		switch (i) {
		case 0:
			say_state(m, VHOST_SET_VRING_NUM, 0, 48);
			break;
		case 1:
			say_state(m, VHOST_SET_VRING_NUM, 0, 65536);
			break;
		case 2:
			say_state(m, VHOST_SET_VRING_NUM, 2, SIZE);
			break;
		case 3:
			say_state(m, VHOST_GET_VRING_BASE, 2, 0);
			break;
		case 4: /* of no size yet */
			say_address(m, 0, USER);
			break;
		case 5:
			say_address(m, 2, USER);
			break;
		case 8:
			say_u64(m, VHOST_SET_VRING_KICK, 2, m->kick[0]);
			break;
		default: /* beyond the memory; not aligned */
			say_state(m, VHOST_SET_VRING_NUM, 0, SIZE);
			say_address(m, 0, i == 6 ? USER + MEMORY - 4096 : USER + 8);
			why = WEFT_R_VHOST_ADDRESS;
			break;
		}
		until_lost(m, why);
		machine_end(m);
	}
}

TEST(test_lan_vhost_refuses_messages_that_it_has_not_offered)
{
	static const uint8_t body[VHOST_BODY_MAX] = { 1 };
	static const struct {
		uint32_t request, size;
	} bad[] = {
		{ 0, 0 },
		{ 6, 16 }, /* a log */
		{ 999, 8 },
		{ VHOST_SET_FEATURES, 4 },
		{ VHOST_SET_PROTOCOL_FEATURES, 4 },
		{ VHOST_SET_MEM_TABLE, 8 },
		{ VHOST_SET_MEM_TABLE, 40 }, /* without a descriptor */
		{ VHOST_SET_VRING_NUM, 4 },
		{ VHOST_SET_VRING_ADDR, 8 },
		{ VHOST_GET_VRING_BASE, 4 },
		{ VHOST_SET_VRING_KICK, 4 },
		{ VHOST_SET_VRING_KICK, 8 },
		{ VHOST_NET_SET_MTU, 8 }, /* of 1 */
	};
	const uint32_t logged[10] = { 0, 1 };
	const uint32_t long_one[3] = { VHOST_SET_MEM_TABLE, VHOST_VERSION, VHOST_BODY_MAX + 1 };
	struct machine *m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m = machine_make(MFD_ALLOW_SEALING);
		harness_note("request %u of %u", bad[i].request, bad[i].size);
		say(m, bad[i].request, body, bad[i].size, -1);
		until_lost(m, WEFT_R_VHOST_MESSAGE);
		machine_end(m);
	}
	m = machine_make(MFD_ALLOW_SEALING);
	EXPECT_EQ(send(m->peer, long_one, sizeof(long_one), MSG_NOSIGNAL), sizeof(long_one));
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
	m = machine_make(MFD_ALLOW_SEALING);
	say_u64(m, VHOST_SET_FEATURES, UINT64_C(1) << 34, -1); /* packed rings */
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
	m = machine_make(MFD_ALLOW_SEALING);
	say_u64(m, VHOST_SET_PROTOCOL_FEATURES, 1, -1); /* several queues */
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
	m = machine_make(MFD_ALLOW_SEALING);
	say_state(m, VHOST_SET_VRING_ENABLE, 0, 2);
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
	m = machine_make(MFD_ALLOW_SEALING);
	say(m, VHOST_SET_VRING_ADDR, logged, sizeof(logged), -1);
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
	m = machine_make(MFD_ALLOW_SEALING);
	say_u64(m, VHOST_SET_VRING_KICK, 0, m->memory); /* no eventfd */
	until_lost(m, WEFT_R_VHOST_MESSAGE);
	machine_end(m);
}

/* With its own end in our hands the connection would not end with the machine. */
TEST(test_lan_vhost_takes_no_socket_for_kicks_and_calls)
{
	static const uint32_t requests[] = { VHOST_SET_VRING_KICK, VHOST_SET_VRING_CALL };

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct machine *m = machine_make(MFD_ALLOW_SEALING);

		say_u64(m, requests[i], 0, m->peer);
		until_lost(m, WEFT_R_VHOST_MESSAGE);
		machine_end(m);
	}
}

/* A write to it must neither wait nor end this process (SIGPIPE), so it is an eventfd. */
TEST(test_lan_vhost_takes_an_eventfd_for_calls_only)
{
	for (int is_pipe = 0; is_pipe < 2; is_pipe++) {
		struct machine *m = machine_make(MFD_ALLOW_SEALING);
		int ends[2];

		MUST(pipe(ends));
		say_u64(m, VHOST_SET_VRING_CALL, 0, is_pipe ? ends[1] : m->memory);
		until_lost(m, WEFT_R_VHOST_MESSAGE);
		close(ends[0]);
		close(ends[1]);
		machine_end(m);
	}
}

/* It has those of VIRTIO's first version, whatever the guest before had: a header of 10 bytes. */
TEST(test_lan_vhost_guest_that_wants_no_features_has_none)
{
	struct machine *m = started(F_MRG | F_GUEST_CSUM);

	guest_sends_one(m);
	shutdown(m->peer, SHUT_RDWR);
	until_lost(m, WEFT_R_LAN_ENDED);
	for (int is_first = 0; is_first < 2; is_first++) {
		if (is_first)
			m = machine_make(MFD_ALLOW_SEALING);
		else
			connect_again(m);
		rings_start(m);
		EXPECT_EQ(lan_properties(m->port)->takes, 0);
		DESCRIPTOR(m, TX, 0, buffer_of(TX, 0), VIRTIO_NET_BYTES + 60, 0, 0);
		make_available(m, TX, 0);
		EXPECT_EQ(lan_bed_receive(m->bed, m->port), 1);
		EXPECT_EQ(m->bed->frames[0].length, 60);
		machine_end(m);
	}
}

/* Its process has other things to do, too. */
TEST(test_lan_vhost_takes_turns_with_a_machine_that_does_not_stop_talking)
{
	enum { MESSAGES = 200 };
	struct machine *m = machine_make(MFD_ALLOW_SEALING);
	uint32_t turns = 0;
	int left = 1;

	for (int i = 0; i < MESSAGES; i++)
		say(m, VHOST_SET_OWNER, NULL, 0, -1);
	for (; left > 0 && turns < MESSAGES; turns++) {
		(void)lan_receive(m->port, NULL, 0);
		MUST_EQ(ioctl(m->peer, SIOCOUTQ, &left), 0);
	}
	EXPECT_EQ(left, 0);
	EXPECT(turns > 3);
	EXPECT_EQ(lan_properties(m->port)->why, WEFT_R_LAN_DOWN);
	machine_end(m);
}

TEST(test_lan_vhost_ring_in_use_keeps_its_size)
{
	struct machine *m = started(F_MRG);

	say_state(m, VHOST_SET_VRING_NUM, TX, 2 * SIZE);
	until_lost(m, WEFT_R_VHOST_RING);
	machine_end(m);
}

TEST(test_lan_vhost_guest_goes_and_another_comes)
{
	struct machine *m = started(F_MRG);

	EXPECT_EQ(lan_set_mac(m->port, (const uint8_t[]){ 2, 0, 0, 0, 0, 1 }),
		  WEFT_R_LAN_UNSUPPORTED);
	shutdown(m->peer, SHUT_RDWR);
	until_lost(m, WEFT_R_LAN_ENDED);
	start_again(m, F_MRG | F_PROTOCOL | F_1 | F_GUEST_CSUM);
	EXPECT_EQ(lan_properties(m->port)->takes, LAN_CSUM);
	machine_end(m);
}

TEST(test_lan_vhost_without_descriptors_waits_and_goes_on)
{
	struct machine *m = started(F_MRG);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct rlimit before;

	close(m->peer);
	until_lost(m, WEFT_R_LAN_ENDED);
	snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/v", m->bed->folder);
	m->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	before = descriptors_end();
	EXPECT_EQ(connect(m->peer, (const void *)&un, sizeof(un)), 0);
	lan_bed_starved(m->port);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	memset(m->at, 0, MEMORY);
	start(m, F_MRG);
	machine_end(m);
}
