/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets by shared memory between adapters, without anything behind them. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "driver/near/near_board.h"
#include "driver/near/ring.h"
#include "unit/driver/near_fixture.h"

static size_t length_of(uint32_t n)
{
	return 16 + n * 37 % (IBA_PACKET_MAX - 16);
}

/* More than the ring holds, so that packets lie across its end. */
TEST(test_near_packets_come_whole_and_in_order)
{
	enum { PACKETS = 2000 };
	struct pair p;
	uint64_t bytes = 0;

	WORLD_OR_SKIP();
	pair_open(&p);
	for (uint32_t n = 0; n < PACKETS; n++) {
		REQUIRE(put(&p.near, &p.path, n, length_of(n)) == NEAR_SENT);
		bytes += length_of(n);
		if (n % 5 == 4) {
			for (uint32_t k = n - 4; k <= n; k++)
				expect_packet(&p.far, k, length_of(k));
			REQUIRE(!near_next(p.far.near));
		}
	}
	EXPECT(bytes > 2 * RING_BYTES_MAX);
	EXPECT_EQ(near_counts(p.near.near)->packets_out, PACKETS);
	EXPECT_EQ(near_counts(p.far.near)->packets_in, PACKETS);
	EXPECT_EQ(near_counts(p.far.near)->bytes_in, bytes);
	pair_close(&p);
}

TEST(test_near_first_packets_wait_until_the_ring_is_taken)
{
	struct pair p = { .path = path_to_far };

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open(&p.far, FAR_SLOT);
	p.path.near_number = near_reach(p.near.near, FAR_SLOT);
	REQUIRE(put(&p.near, &p.path, 1, 100) == NEAR_FULL);
	EXPECT(!near_has_room(p.near.near));
	EXPECT(!near_is_sent_to(p.far.near));
	REQUIRE(end_look(&p.far, PATIENCE_MS));
	EXPECT(near_is_sent_to(p.far.near));
	/* A program that polls finds it without epoll. */
	EXPECT(near_has_room(p.near.near));
	near_room_used(p.near.near);
	EXPECT(!near_has_room(p.near.near));
	REQUIRE(put(&p.near, &p.path, 1, 100) == NEAR_SENT);
	expect_packet(&p.far, 1, 100);
	pair_close(&p);
}

TEST(test_near_slot_without_an_adapter_is_not_reached)
{
	struct end e;
	struct ib_path path = path_to_far;

	WORLD_OR_SKIP();
	end_open(&e, NEAR_SLOT);
	EXPECT_EQ(near_reach(e.near, FAR_SLOT), 0);
	EXPECT_EQ(near_reach(e.near, 0), 0);
	path.near_number = FAR_SLOT;
	EXPECT_EQ(put(&e, &path, 1, 100), NEAR_LOST);
	EXPECT_EQ(near_counts(e.near)->lost, 1);
	end_close(&e);
}

/* Each ring is of memory that the kernel sets aside. */
TEST(test_near_rings_are_smaller_the_more_there_are)
{
	enum { RECEIVERS = 20, FIRST = 20 };
	struct end near, far[RECEIVERS];
	struct ib_path path = path_to_far;
	uint32_t held[RECEIVERS] = { 0 };

	WORLD_OR_SKIP();
	end_open(&near, NEAR_SLOT);
	for (int i = 0; i < RECEIVERS; i++) {
		end_open(&far[i], (uint8_t)(FIRST + i));
		path.near_number = connect_ends(&near, &far[i], (uint8_t)(FIRST + i));
		while (put(&near, &path, held[i], IBA_PACKET_MAX) == NEAR_SENT)
			held[i]++;
		for (uint32_t n = 0; n < held[i]; n++)
			expect_packet(&far[i], n, IBA_PACKET_MAX);
	}
	EXPECT(held[0] > 3 * held[8] && held[8] > 3 * held[RECEIVERS - 1]);
	EXPECT(held[RECEIVERS - 1] > 1);
	end_close(&near);
	for (int i = 0; i < RECEIVERS; i++)
		end_close(&far[i]);
}

/* ---- Sleep ---------------------------------------------------------------------------------- */

TEST(test_near_receiver_that_rests_is_woken_once)
{
	struct pair p;

	WORLD_OR_SKIP();
	pair_open(&p);
	/* While it is polled no wake-up is sent. */
	near_stand_by(p.far.near, true);
	REQUIRE(put(&p.near, &p.path, 1, 100) == NEAR_SENT);
	EXPECT(!end_look(&p.far, 0));
	EXPECT(!near_rest(p.far.near)); /* a packet is there: no later one wakes it */
	REQUIRE(put(&p.near, &p.path, 2, 100) == NEAR_SENT);
	EXPECT_EQ(near_counts(p.near.near)->wakes, 0);
	expect_packet(&p.far, 1, 100);
	expect_packet(&p.far, 2, 100);
	REQUIRE(!near_next(p.far.near));
	EXPECT(near_rest(p.far.near));
	EXPECT(!end_look(&p.far, 0));
	for (uint32_t n = 2; n < 5; n++)
		REQUIRE(put(&p.near, &p.path, n, 100) == NEAR_SENT);
	EXPECT(end_look(&p.far, PATIENCE_MS));
	EXPECT_EQ(near_counts(p.near.near)->wakes, 1);
	for (uint32_t n = 2; n < 5; n++)
		expect_packet(&p.far, n, 100);
	/* Polled again: the mark of the rest is taken back. */
	REQUIRE(!near_next(p.far.near) && near_rest(p.far.near));
	near_stand_by(p.far.near, true);
	REQUIRE(put(&p.near, &p.path, 6, 100) == NEAR_SENT);
	EXPECT_EQ(near_counts(p.near.near)->wakes, 1);
	pair_close(&p);
}

/* A thread may sleep on, which did not see the message that a poll has taken. */
TEST(test_near_poll_that_takes_the_wake_up_leaves_the_rest)
{
	struct pair p;

	WORLD_OR_SKIP();
	pair_open(&p);
	REQUIRE(near_rest(p.far.near));
	for (uint32_t n = 1; n < 4; n++) {
		REQUIRE(put(&p.near, &p.path, n, 100) == NEAR_SENT);
		EXPECT_EQ(near_counts(p.near.near)->wakes, n);
		REQUIRE(end_look(&p.far, PATIENCE_MS));
		expect_packet(&p.far, n, 100);
		REQUIRE(!near_next(p.far.near));
	}
	pair_close(&p);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void expect_ended(struct end *e, uint32_t number, bool is_refused)
{
	struct near_ended ended;

	REQUIRE(near_ended(e->near, &ended));
	MUST_EQ(ended.number, number);
	MUST_EQ(ended.adapter_slot, number & 0xff);
	MUST_EQ(ended.is_refused, is_refused);
	REQUIRE(!near_ended(e->near, &ended));
}

TEST(test_near_last_packets_are_in_the_ring_before_it_is_taken)
{
	struct pair p = { .path = path_to_far };
	uint32_t n = 0;

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open(&p.far, FAR_SLOT);
	p.path.near_number = near_reach(p.near.near, FAR_SLOT);
	REQUIRE(put(&p.near, &p.path, 0, IBA_PACKET_MAX) == NEAR_FULL);
	near_leave(p.near.near);
	EXPECT(near_has_room(p.near.near));
	while (put(&p.near, &p.path, n, IBA_PACKET_MAX) == NEAR_SENT)
		n++;
	EXPECT(near_is_stalled(p.near.near, p.path.near_number)); /* there is no more room */
	end_close(&p.near);
	REQUIRE(n > 0 && end_look(&p.far, PATIENCE_MS));
	take_all(&p, n);
	end_close(&p.far);
}

/* A program may rely on the time that others have until they notice. */
TEST(test_near_adapter_that_closes_is_as_silent_as_over_udp)
{
	struct pair p;
	struct near_ended ended;
	struct ib_path back = path_to_far;

	WORLD_OR_SKIP();
	pair_open(&p);
	back.near_number = connect_ends(&p.far, &p.near, NEAR_SLOT);
	REQUIRE(put(&p.near, &p.path, 1, 100) == NEAR_SENT);
	end_close(&p.near);
	REQUIRE(end_look(&p.far, PATIENCE_MS));
	EXPECT(!near_rest(p.far.near));
	expect_packet(&p.far, 1, 100);
	REQUIRE(!near_next(p.far.near));
	EXPECT(!near_is_sent_to(p.far.near));
	EXPECT(!near_ended(p.far.near, &ended));
	EXPECT_EQ(put(&p.far, &back, 1, 100), NEAR_LOST);
	end_close(&p.far);
}

/* Sends a packet, waits for one if it is to take our ring, and exits when it is told to. */
static _Noreturn void die_run(int gate, bool takes)
{
	struct ib_path path = path_to_far;
	struct end near;
	char byte;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may have failed */
	end_open(&near, NEAR_SLOT);
	path.near_number = near_reach(near.near, FAR_SLOT);
	while (put(&near, &path, 3, 64) != NEAR_SENT)
		REQUIRE(end_look(&near, PATIENCE_MS));
	while (takes && near_rest(near.near)) /* until a packet is there */
		REQUIRE(end_look(&near, PATIENCE_MS));
	(void)!read(gate, &byte, 1);
	_exit(0);
}

static void expect_death(bool takes)
{
	struct ib_path back = path_to_far;
	struct end far;
	struct near_ended ended;
	int status, gate[2];
	pid_t pid;

	REQUIRE(pipe(gate) == 0);
	end_open(&far, FAR_SLOT);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		near_abandon(far.near);
		die_run(gate[0], takes);
	}
	while (near_rest(far.near)) /* until its packet is there */
		REQUIRE(end_look(&far, PATIENCE_MS));
	back.near_number = near_reach(far.near, NEAR_SLOT);
	REQUIRE(back.near_number != 0);
	while (takes && put(&far, &back, 1, 64) != NEAR_SENT)
		REQUIRE(end_look(&far, PATIENCE_MS));
	REQUIRE(write(gate[1], "", 1) == 1);
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	REQUIRE(end_look(&far, PATIENCE_MS));
	if (takes)
		REQUIRE(!near_ended(far.near, &ended));
	expect_packet(&far, 3, 64);
	REQUIRE(!near_next(far.near));
	expect_ended(&far, back.near_number, false);
	close(gate[0]);
	close(gate[1]);
	end_close(&far);
}

TEST(test_near_death_of_a_process_is_told_after_its_packets)
{
	WORLD_OR_SKIP();
	expect_death(true);
}

/* It never took our ring, but that is no refusal. */
TEST(test_near_death_of_a_process_that_took_no_ring_is_told)
{
	WORLD_OR_SKIP();
	expect_death(false);
}

/* The slot has a new owner before the end of the old one was noticed. */
TEST(test_near_slot_that_is_taken_again_is_another_way)
{
	struct pair p;
	uint32_t old, new;

	WORLD_OR_SKIP();
	pair_open(&p);
	old = p.path.near_number;
	(void)connect_ends(&p.far, &p.near, NEAR_SLOT);
	end_close(&p.far);
	end_open(&p.far, FAR_SLOT);
	new = near_reach(p.near.near, FAR_SLOT);
	REQUIRE(new != 0 && new != old);
	/* The new owner sends as well. */
	REQUIRE(near_reach(p.far.near, NEAR_SLOT) != 0);
	REQUIRE(end_look(&p.near, PATIENCE_MS) && end_look(&p.far, PATIENCE_MS));
	REQUIRE(!near_next(p.near.near) && near_is_sent_to(p.near.near));
	EXPECT_EQ(put(&p.near, &p.path, 1, 100), NEAR_LOST);
	p.path.near_number = new;
	REQUIRE(end_look(&p.near, PATIENCE_MS));
	EXPECT_EQ(put(&p.near, &p.path, 1, 100), NEAR_SENT);
	expect_packet(&p.far, 1, 100);
	pair_close(&p);
}

/* ---- Short of descriptors -------------------------------------------------------------------- */

static void expect_refused_with(int descriptors)
{
	struct end near, far;
	struct rlimit was;
	struct ib_path path = path_to_far;

	end_open(&near, NEAR_SLOT);
	end_open(&far, FAR_SLOT);
	path.near_number = near_reach(near.near, FAR_SLOT);
	REQUIRE(put(&near, &path, 1, 100) == NEAR_FULL);
	was = descriptors_leave(descriptors);
	end_look_once(&far);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
	REQUIRE(!near_is_sent_to(far.near) && !near_is_paused(far.near));
	REQUIRE(end_look(&near, PATIENCE_MS));
	expect_ended(&near, path.near_number, true);
	REQUIRE(near_has_room(near.near)); /* those that wait go by UDP */
	REQUIRE(near_counts(far.near)->refused == 1);
	end_close(&near);
	end_close(&far);
}

TEST(test_near_receiver_without_descriptors_refuses)
{
	WORLD_OR_SKIP();
	expect_refused_with(0); /* for the connection */
	expect_refused_with(1); /* for the ring */
}

TEST(test_near_listener_without_a_spare_descriptor_pauses)
{
	struct pair p = { .path = path_to_far };
	struct rlimit was, none;

	WORLD_OR_SKIP();
	end_open(&p.near, NEAR_SLOT);
	end_open(&p.far, FAR_SLOT);
	p.path.near_number = near_reach(p.near.near, FAR_SLOT);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &was) == 0);
	none = (struct rlimit){ 0, was.rlim_max };
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	end_look_once(&p.far);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
	EXPECT(near_is_paused(p.far.near) && !near_is_sent_to(p.far.near));
	EXPECT(!end_look(&p.far, 0)); /* epoll does not watch it */
	near_resume(p.far.near);
	EXPECT(end_look(&p.far, PATIENCE_MS) && end_look(&p.near, PATIENCE_MS));
	EXPECT(near_is_sent_to(p.far.near));
	REQUIRE(put(&p.near, &p.path, 1, 100) == NEAR_SENT);
	expect_packet(&p.far, 1, 100);
	pair_close(&p);
}

/* ---- Short of file size ---------------------------------------------------------------------- */

/* Files in memory count as well: a process that makes one beyond the limit gets SIGXFSZ. */
TEST(test_near_needs_no_file_beyond_the_limit)
{
	struct end near, far;
	struct near_shown shown;
	struct rlimit was, small;
	uint32_t number;
	bool is_shown;

	WORLD_OR_SKIP();
	end_open(&near, NEAR_SLOT);
	end_open(&far, FAR_SLOT);
	REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
	small = (struct rlimit){ 4096, was.rlim_max };
	REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
	number = near_reach(near.near, FAR_SLOT);
	is_shown = near_shown_open(&shown, WEFT_POLICY_OPEN, 0);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
	EXPECT_EQ(number, 0);
	EXPECT(!is_shown && shown.board_fd < 0 && shown.marks_fd < 0);
	REQUIRE(near_reach(near.near, FAR_SLOT) != 0);
	end_close(&near);
	end_close(&far);
}
