/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers on the near path that do not keep to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/near/ring.h"
#include "driver/sys/unix_sockets.h"
#include "unit/driver/near_fixture.h"

/* A connection to the far side by hand. */
static int connect_by_hand(uint8_t adapter_slot)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };
	int fd;

	(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.near.%u", adapter_slot);
	fd = unix_names_connect(&names);
	REQUIRE(fd >= 0);
	return fd;
}

struct offer {
	uint32_t magic;
	uint16_t kind, adapter_slot;
	uint64_t adapter_id, takes_runs;
};

enum { MAGIC = 0x77664e36 /* as near_message.c has it */, OFFER = 1, TAKEN, REFUSED, WAKE };

static const struct offer good_offer = { MAGIC, OFFER, NEAR_SLOT, 1, 0 };

/* Its first bytes. */
static void send_by_hand(int fd, const struct offer *offer, size_t length, int descriptor)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec piece = { (void *)(uintptr_t)offer, length };
	struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (descriptor >= 0) {
		struct cmsghdr *c;

		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &descriptor, sizeof(descriptor));
	}
	REQUIRE(sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)length);
}

static void offer_by_hand(int fd, const struct offer *offer, int descriptor)
{
	send_by_hand(fd, offer, sizeof(*offer), descriptor);
}

/* After its messages, the last of which was of this kind. */
static bool is_closed_after(int fd, uint16_t kind)
{
	struct offer m = { 0 };
	ssize_t n;

	while ((n = recv(fd, &m, sizeof(m), MSG_DONTWAIT)) > 0)
		;
	return m.kind == kind && (n == 0 || (n < 0 && errno != EAGAIN));
}

static void expect_sent_away(const struct offer *offer, int descriptor)
{
	struct end far;
	int fd;

	end_open(&far, FAR_SLOT);
	fd = connect_by_hand(FAR_SLOT);
	offer_by_hand(fd, offer, descriptor);
	REQUIRE(end_look(&far, PATIENCE_MS));
	REQUIRE(is_closed_after(fd, REFUSED) && !near_is_sent_to(far.near));
	MUST_EQ(near_counts(far.near)->refused, 1);
	close(fd);
	end_close(&far);
}

/* A memory file of so many bytes behind the head, sealed as it should be; stays open. */
static int sealed(uint32_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE(fd >= 0 && ftruncate(fd, sysconf(_SC_PAGESIZE) + (off_t)bytes) == 0);
	REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

TEST(test_near_connection_without_a_ring_is_closed)
{
	struct offer offer = good_offer;
	struct ring ring;
	int fd, seals;

	WORLD_OR_SKIP();
	expect_sent_away(&good_offer, -1);
	expect_sent_away(&good_offer, STDIN_FILENO);
	fd = ring_make(&ring, RING_BYTES_MIN);
	REQUIRE(fd >= 0);
	offer.magic++;
	expect_sent_away(&offer, fd);
	offer = good_offer;
	offer.adapter_slot = 0;
	expect_sent_away(&offer, fd);
	offer.adapter_slot = 256;
	expect_sent_away(&offer, fd);
	offer = good_offer;
	offer.kind = TAKEN;
	expect_sent_away(&offer, fd);
	/* Memory that its maker could cut off under the receiver. */
	seals = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(seals >= 0 && ftruncate(seals, lseek(fd, 0, SEEK_END)) == 0);
	expect_sent_away(&good_offer, seals);
	close(seals);
	/* Memory that is not a power of two, or more than there is a reason for. */
	expect_sent_away(&good_offer, sealed(3 * RING_BYTES_MIN));
	expect_sent_away(&good_offer, sealed(2 * RING_BYTES_MAX));
	expect_sent_away(&good_offer, sealed(0));
	close(fd);
	ring_unmap(&ring);
}

/* A descriptor that comes with no first OFFER ends the connection, and is closed. */
static void expect_descriptor_closed(uint16_t kind, size_t length)
{
	struct offer second = good_offer;
	struct end far;
	struct ring ring;
	int fd, descriptor, next;

	second.kind = kind;
	end_open(&far, FAR_SLOT);
	fd = connect_by_hand(FAR_SLOT);
	descriptor = ring_make(&ring, RING_BYTES_MIN);
	REQUIRE(descriptor >= 0);
	offer_by_hand(fd, &good_offer, descriptor);
	REQUIRE(end_look(&far, PATIENCE_MS) && near_is_sent_to(far.near));
	send_by_hand(fd, &second, length, descriptor);
	next = dup(STDIN_FILENO);
	close(next);
	REQUIRE(end_look(&far, PATIENCE_MS));
	REQUIRE(!near_next(far.near) && !near_is_sent_to(far.near));
	REQUIRE(is_closed_after(fd, TAKEN));
	EXPECT_EQ(fcntl(next, F_GETFD), -1);
	close(descriptor);
	close(fd);
	ring_unmap(&ring);
	end_close(&far);
}

TEST(test_near_second_ring_ends_the_connection)
{
	WORLD_OR_SKIP();
	expect_descriptor_closed(OFFER, sizeof(good_offer));
	expect_descriptor_closed(WAKE, sizeof(good_offer));
}

TEST(test_near_descriptor_of_an_empty_message_is_closed)
{
	WORLD_OR_SKIP();
	expect_descriptor_closed(WAKE, 0);
}

/* What a hostile sender writes into a ring ends that ring, and nothing else. */
static void expect_broken(void (*harm)(struct ring *r))
{
	struct end far;
	struct ring ring;
	int fd, descriptor;

	end_open(&far, FAR_SLOT);
	fd = connect_by_hand(FAR_SLOT);
	descriptor = ring_make(&ring, RING_BYTES_MIN);
	REQUIRE(descriptor >= 0);
	offer_by_hand(fd, &good_offer, descriptor);
	close(descriptor);
	REQUIRE(end_look(&far, PATIENCE_MS) && near_is_sent_to(far.near));
	harm(&ring);
	REQUIRE(!near_next(far.near));
	REQUIRE(is_closed_after(fd, TAKEN) && !near_is_sent_to(far.near));
	MUST_EQ(near_counts(far.near)->refused, 1);
	close(fd);
	ring_unmap(&ring);
	end_close(&far);
}

static void put_too_much(struct ring *r)
{
	r->own = r->bytes;
	ring_put(r, 1);
}

static void put_less_than_a_record(struct ring *r)
{
	REQUIRE(ring_room(r, 8));
	ring_put(r, 8);
}

static void put_length(struct ring *r, uint32_t length)
{
	uint8_t *room = ring_room(r, 128);

	REQUIRE(room);
	memset(room, 0, 128);
	memcpy(room, &length, sizeof(length));
	ring_put(r, 128);
}

static void put_a_longer_record(struct ring *r)
{
	put_length(r, 1000);
}

static void put_the_longest_record(struct ring *r)
{
	put_length(r, UINT32_MAX - 47);
}

TEST(test_near_broken_ring_is_closed)
{
	WORLD_OR_SKIP();
	expect_broken(put_too_much);
	expect_broken(put_less_than_a_record);
	expect_broken(put_a_longer_record);
	expect_broken(put_the_longest_record);
}

/* A receiver by hand: what the end connects by, and that connection. */
struct false_receiver {
	struct end near;
	struct ib_path path;
	int listener, fd;
};

static void false_receiver_open(struct false_receiver *f)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };
	bool are_all_foreign;

	(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.near.%u", FAR_SLOT);
	f->listener = unix_names_take(&names, true, &are_all_foreign);
	end_open(&f->near, NEAR_SLOT);
	f->path = path_to_far;
	f->path.near_number = near_reach(f->near.near, FAR_SLOT);
	REQUIRE(f->path.near_number != 0);
	f->fd = accept(f->listener, NULL, NULL);
	REQUIRE(f->fd >= 0);
}

static void false_receiver_close(struct false_receiver *f)
{
	close(f->fd);
	close(f->listener);
	end_close(&f->near);
}

static const struct offer good_taken = { MAGIC, TAKEN, FAR_SLOT, 2, 0 };

/* Says that it took the ring, which is believed once. */
TEST(test_near_receiver_that_takes_the_ring_twice_is_left)
{
	struct false_receiver f;
	struct near_ended ended;

	WORLD_OR_SKIP();
	false_receiver_open(&f);
	offer_by_hand(f.fd, &good_taken, -1);
	REQUIRE(end_look(&f.near, PATIENCE_MS));
	REQUIRE(put(&f.near, &f.path, 1, 100) == NEAR_SENT);
	REQUIRE(!near_ended(f.near.near, &ended));
	offer_by_hand(f.fd, &good_taken, -1);
	REQUIRE(end_look(&f.near, PATIENCE_MS));
	REQUIRE(near_ended(f.near.near, &ended) && ended.number == f.path.near_number);
	EXPECT(!ended.is_refused);
	EXPECT_EQ(put(&f.near, &f.path, 1, 100), NEAR_LOST);
	false_receiver_close(&f);
}

/* It lives, and UDP reaches it: the ring is refused, not its process dead. */
TEST(test_near_receiver_of_another_version_refuses)
{
	struct false_receiver f;
	struct near_ended ended;
	struct offer refused = good_taken;

	WORLD_OR_SKIP();
	refused.magic++;
	refused.kind = REFUSED;
	false_receiver_open(&f);
	offer_by_hand(f.fd, &refused, -1);
	REQUIRE(end_look(&f.near, PATIENCE_MS));
	REQUIRE(near_ended(f.near.near, &ended) && ended.number == f.path.near_number);
	EXPECT(ended.is_refused);
	false_receiver_close(&f);
	/* Messages of another length. */
	false_receiver_open(&f);
	REQUIRE(send(f.fd, "?", 1, MSG_NOSIGNAL) == 1);
	REQUIRE(end_look(&f.near, PATIENCE_MS));
	REQUIRE(near_ended(f.near.near, &ended) && ended.is_refused);
	false_receiver_close(&f);
	/* One that had taken the ring. */
	false_receiver_open(&f);
	offer_by_hand(f.fd, &good_taken, -1);
	offer_by_hand(f.fd, &refused, -1);
	REQUIRE(end_look(&f.near, PATIENCE_MS));
	REQUIRE(near_ended(f.near.near, &ended) && !ended.is_refused);
	false_receiver_close(&f);
}
