/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of one host that share the port: each may die, stop or fork, and the others go on. */
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "udp_fixture.h"
#include "wire/ibcm.h"

enum { PORTS = 24, WORKERS = 3, ROUNDS = 20 };

/* A process with an adapter that sends every packet back to where it came from. */
struct worker {
	pid_t pid;
	uint32_t adapter_slot;
};

static struct udp_side mine;
static struct ib_out outs[PORTS];

static void answer(struct udp_side *s, const struct seen *seen)
{
	struct ib_path back = { .is_ipv6 = seen->in.is_ipv6,
				.from = seen->in.to,
				.to = seen->in.from,
				.mtu_bytes = 4096 };
	struct ib_out out;

	/* The payload's first number says to whom. */
	back.from.port = (uint16_t)(0xe000 + seen->psn % 64);
	back.to.port = IBA_UDP_PORT;
	make(&out, &(struct making){ .path = &back,
				     .dest_qp = 1u << 16 | (seen->dest_qp & 0xff),
				     .psn = seen->psn,
				     .payload_bytes = 32 });
	side_send(s, &out, 1);
}

static void work(int ready)
{
	static struct udp_side s;
	uint8_t adapter_slot;

	world_leave();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&s);
	adapter_slot = (uint8_t)s.adapter_slot;
	if (write(ready, &adapter_slot, 1) != 1)
		_exit(1);
	for (;;) {
		if (!side_await(&s, 1))
			_exit(0);
		for (uint32_t i = 0; i < s.count; i++)
			answer(&s, &s.seen[i]);
		side_forget(&s);
	}
}

static struct worker alive[2 * WORKERS]; /* pid 0: none */

/* A test begins: what one before it has left is ended. */
static void workers_end(void)
{
	for (int i = 0; i < 2 * WORKERS; i++) {
		if (alive[i].pid == 0)
			continue;
		kill(alive[i].pid, SIGKILL);
		waitpid(alive[i].pid, NULL, 0);
		alive[i].pid = 0;
	}
}

static void note(pid_t was, struct worker is)
{
	for (int i = 0; i < 2 * WORKERS; i++) {
		if (alive[i].pid == was) {
			alive[i] = is;
			return;
		}
	}
}

static struct worker worker_start(void)
{
	struct worker w = { 0 };
	uint8_t adapter_slot = 0;
	int ready[2];

	REQUIRE(pipe(ready) == 0);
	w.pid = fork();
	REQUIRE(w.pid >= 0);
	if (w.pid == 0) {
		close(ready[0]);
		work(ready[1]);
		_exit(1);
	}
	close(ready[1]);
	REQUIRE(read(ready[0], &adapter_slot, 1) == 1);
	close(ready[0]);
	w.adapter_slot = adapter_slot;
	note(0, w);
	return w;
}

static void worker_kill(struct worker *w)
{
	int status;

	note(w->pid, (struct worker){ 0 });
	REQUIRE(kill(w->pid, SIGKILL) == 0);
	REQUIRE(waitpid(w->pid, &status, 0) == w->pid && WIFSIGNALED(status));
}

/* To each of the workers from many source ports, and all answers back. */
static bool goes_round(const struct worker *workers, uint32_t count, uint32_t base)
{
	static struct ib_path paths[PORTS];
	uint32_t sent = 0;

	side_forget(&mine);
	for (uint32_t i = 0; i < PORTS; i++) {
		const struct worker *w = &workers[i % count];

		paths[i] = path_of("127.0.0.1", "127.0.0.1", (uint16_t)(base + i * 41));
		make(&outs[i], &(struct making){ .path = &paths[i],
						 .dest_qp = w->adapter_slot << 16 | (i % count),
						 .psn = i,
						 .payload_bytes = 32 });
		sent++;
	}
	side_send(&mine, outs, sent);
	return side_await(&mine, sent) && mine.count == sent;
}

TEST(test_udp_processes_of_one_host)
{
	struct worker workers[WORKERS];

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	EXPECT_EQ(mine.adapter_slot, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		workers[i] = worker_start();
	for (uint32_t i = 0; i < ROUNDS; i++)
		EXPECT(goes_round(workers, WORKERS, 0xc000 + i * 1024));
	/* One dies without a word: its slot is free, the others do not notice. */
	worker_kill(&workers[2]);
	for (uint32_t i = 0; i < ROUNDS; i++)
		EXPECT(goes_round(workers, 2, 0xc000 + i * 1024));
	workers[2] = worker_start();
	EXPECT_EQ(workers[2].adapter_slot, 4);
	for (uint32_t i = 0; i < ROUNDS; i++)
		EXPECT(goes_round(workers, WORKERS, 0xc000 + i * 1024));
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_kill(&workers[i]);
	side_close(&mine);
}

/* One that is stopped holds what the kernel gives it, and nothing that has a flow. */
TEST(test_udp_stopped_process_delays_no_flow)
{
	struct worker workers[WORKERS];
	struct udp_flow_ref ears[2 * 16];
	struct ib_path path;
	uint32_t peer = 0x090000;
	int status;

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	for (uint32_t i = 0; i < WORKERS; i++)
		workers[i] = worker_start();
	path = path_of("127.0.0.1", "127.0.0.1", 0);
	for (uint32_t i = 0; i < 16; i++)
		udp_flow_open(mine.udp, &path, 1u << 16 | i, peer | i, &ears[i]);
	EXPECT(kill(workers[1].pid, SIGSTOP) == 0);
	EXPECT(waitpid(workers[1].pid, &status, WUNTRACED) == workers[1].pid);
	for (uint32_t i = 0; i < 16; i++) {
		struct ib_path to_us = path_of("127.0.0.1", "127.0.0.1",
					       udp_source_port(peer | i, 1u << 16 | i));

		make(&outs[0], &(struct making){ .path = &to_us,
						 .dest_qp = 1u << 16 | i,
						 .psn = i,
						 .payload_bytes = 500 });
		side_send(&mine, outs, 1);
	}
	EXPECT(side_await(&mine, 16));
	/* What it held comes when it goes on. */
	side_forget(&mine);
	for (uint32_t i = 0; i < PORTS; i++) {
		struct ib_path to_us = path_of("127.0.0.1", "127.0.0.1",
					       (uint16_t)(0xd000 + i * 41));

		make(&outs[0], &(struct making){ .path = &to_us,
						 .dest_qp = 1u << 16 | i,
						 .psn = i,
						 .payload_bytes = 500 });
		side_send(&mine, outs, 1);
	}
	EXPECT(kill(workers[1].pid, SIGCONT) == 0);
	EXPECT(side_await(&mine, PORTS));
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_kill(&workers[i]);
	side_close(&mine);
}

/* A child gives its copies back: the slot is free when the parent is gone, and not before. */
TEST(test_udp_child_of_fork_holds_nothing)
{
	static struct udp_side other;
	struct worker w;
	uint8_t byte = 0;
	pid_t child;
	int status, go[2], left[2];

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	EXPECT_EQ(udp_claim_service(mine.udp, 77), WEFT_OK);
	w = worker_start();
	EXPECT(goes_round(&w, 1, 0xc000)); /* guests and hosts, senders */
	EXPECT(pipe(go) == 0 && pipe(left) == 0);
	child = fork();
	if (child == 0) {
		world_leave();
		(void)!write(left[1], &byte, 1);
		_exit(read(go[0], &byte, 1) == 1 ? 0 : 1);
	}
	EXPECT(child > 0);
	EXPECT(read(left[0], &byte, 1) == 1);
	EXPECT(goes_round(&w, 1, 0xc000)); /* the parent's are as they were */
	worker_kill(&w);
	side_close(&mine);
	side_open(&other);
	EXPECT_EQ(other.adapter_slot, 1);
	EXPECT_EQ(udp_claim_service(other.udp, 77), WEFT_OK);
	side_close(&other);
	EXPECT(write(go[1], &byte, 1) == 1);
	EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	close(go[0]);
	close(go[1]);
	close(left[0]);
	close(left[1]);
}

/* A service goes with its process. */
TEST(test_iba_12_6_service_of_a_dead_process_is_free)
{
	pid_t child;
	uint8_t byte = 0;
	int ready[2], status;

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	EXPECT(pipe(ready) == 0);
	child = fork();
	if (child == 0) {
		static struct udp_side s;

		world_leave();
		side_open(&s);
		byte = udp_claim_service(s.udp, 99) == WEFT_OK;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	EXPECT(read(ready[0], &byte, 1) == 1 && byte == 1);
	EXPECT_EQ(udp_claim_service(mine.udp, 99), WEFT_R_ADDRESS_IN_USE);
	EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	EXPECT_EQ(udp_claim_service(mine.udp, 99), WEFT_OK);
	close(ready[0]);
	close(ready[1]);
	side_close(&mine);
}

/* Comes to the listener of the slot 1, as one who hands on. */
static int come_to_listener(void)
{
	static const char name[] = "\0weft.roce.place.1";
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, name, sizeof(name) - 1);
	REQUIRE(fd >= 0);
	REQUIRE(connect(fd, (void *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1)) ==
		0);
	return fd;
}

/* A message in no known form is dropped, and its sender stays connected. */
TEST(test_udp_nonsense_at_the_door)
{
	uint8_t bytes[200] = { 0x77, 0x66, 0x48, 0x31, 0xff, 0xff, 0xff, 0xff };
	int fd;

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	fd = come_to_listener();
	for (size_t length = 1; length <= sizeof(bytes); length += 11)
		EXPECT(send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
	EXPECT(side_wait(&mine));
	EXPECT_EQ(mine.count, 0);
	EXPECT_EQ(udp_counts(mine.udp)->malformed, (sizeof(bytes) + 10) / 11);
	/* It leaves, and is not watched for ever. */
	close(fd);
	EXPECT(side_wait(&mine));
	sides_pump((struct udp_side *[]){ &mine }, 1);
	side_close(&mine);
}

/* A connecting process waits until descriptors are free; the listener does not spin meanwhile. */
TEST(test_udp_door_without_descriptors_waits)
{
	uint8_t byte = 0;
	struct rlimit before;
	int fd;

	workers_end();
	WORLD_OR_SKIP();
	side_open(&mine);
	fd = come_to_listener();
	EXPECT(send(fd, &byte, 1, MSG_NOSIGNAL) == 1);
	before = descriptors_end();
	EXPECT(side_wait(&mine));
	EXPECT(!side_is_readable(&mine));
	EXPECT(udp_has_paused_listeners(mine.udp));
	udp_listeners_resume(mine.udp); /* too early */
	EXPECT(side_wait(&mine));
	EXPECT(!side_is_readable(&mine));
	EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
	udp_listeners_resume(mine.udp);
	EXPECT(side_wait(&mine));
	EXPECT(!udp_has_paused_listeners(mine.udp));
	EXPECT_EQ(udp_counts(mine.udp)->malformed, 1);
	close(fd);
	side_close(&mine);
}
