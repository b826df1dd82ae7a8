/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes with connections by shared memory, of which one is killed, or both: the requester
 * and the target in turn, at a random moment, while it accesses memory of the other, or with a full
 * ring in either direction. The survivor's requests, and its calls that end regions, must be over
 * within NEAR_BOUND_NS. It must have no more memory, descriptors and names than before, and then it
 * connects to a new partner.
 *
 * WEFT_KILLS: how many instead of a few. WEFT_SEED: what they are drawn from; a failure names it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "live/near/near_end.h"

enum { KILLS = 20, TURNS = 6, SAID_EACH = 100 };

enum moment {
	IN_TRAFFIC,
	IN_ACCESS,	     /* the system call by which it accesses memory of the other begins */
	RING_TO_VICTIM_FULL, /* it was stopped before */
	RING_OF_VICTIM_FULL, /* the survivor was stopped, and goes on */
	CONNECTING,
	MOMENTS
};

static const char *const moment_names[] = { "in traffic", "in an access", "with a full ring to it",
					    "with a full ring of its own", "while it connects" };

/* What a process holds. */
struct held {
	int shared_maps, shared_fds; /* of the near path */
	int files;		     /* of /dev/shm, open or mapped */
	int fds;		     /* all others */
	int datagram_fds;	     /* sockets of UDP, of IPv4 */
	int names;		     /* of unix sockets */
};

struct end_process {
	pid_t pid; /* 0: none */
	bool has_rested;
	struct held rest; /* when it had survived for the first time */
};

struct kill_run {
	struct near_stand *stand;
	struct end_process ends[NEAR_ENDS];
	struct prng dice; /* of a round */
	uint64_t seed;
	uint32_t round;
	/* Of the round. */
	uint32_t victims; /* a bit for each */
	bool is_requester_killed;
	enum moment moment;
	/* Of all. */
	uint32_t killed[MOMENTS], in_access;
	struct near_account sums;
};

/* What the reader of a failure has to know. */
__attribute__((format(printf, 2, 3))) static void note(const struct kill_run *r, const char *format,
						       ...)
{
	char more[160];
	va_list args;

	va_start(args, format);
	vsnprintf(more, sizeof(more), format, args);
	va_end(args);
	harness_note("seed %llu, kill %u: %s, %s%s%s", (unsigned long long)r->seed, r->round + 1,
		     r->victims == 3	      ? "both"
		     : r->is_requester_killed ? "the requester"
					      : "the target",
		     moment_names[r->moment], more[0] ? ": " : "", more);
}

/* ---- What is left --------------------------------------------------------------------------- */

static int lines_with(const char *path, const char *word)
{
	FILE *f = fopen(path, "r");
	char line[512];
	int n = 0;

	REQUIRE(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, word) != NULL;
	fclose(f);
	return n;
}

/* Of unix sockets in this network namespace. */
static int names_there(void)
{
	return lines_with("/proc/net/unix", "@weft");
}

/* The only process of this network namespace that has sockets. */
static struct held held_by(pid_t pid)
{
	struct held h = { .names = names_there() };
	char path[64], fd[320], to[256];
	struct dirent *entry;
	DIR *all;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	h.shared_maps = lines_with(path, "weft.near");
	h.files = lines_with(path, "/dev/shm/");
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	all = opendir(path);
	REQUIRE(all);
	while ((entry = readdir(all))) {
		ssize_t n;

		snprintf(fd, sizeof(fd), "%s/%s", path, entry->d_name);
		n = readlink(fd, to, sizeof(to) - 1);
		if (n < 0)
			continue;
		to[n] = 0;
		h.fds++;
		h.shared_fds += strstr(to, "weft.near") != NULL;
		h.files += strstr(to, "/dev/shm/") != NULL;
	}
	closedir(all);
	h.datagram_fds = lines_with("/proc/net/udp", " 07 "); /* bound, not connected */
	h.fds -= h.datagram_fds;
	return h;
}

/*
 * The process has its own board, of two parts, and nothing of its peer. UDP keeps
 * sockets for later packets of the same ports, up to a number.
 */
static bool is_at_rest(const struct end_process *e, const struct held *now)
{
	enum { BOARD = 2, KEPT_MAX = 128 + 32 };

	return now->shared_maps == BOARD && now->shared_fds == BOARD && now->files == 0 &&
	       (!e->has_rested ||
		(now->fds <= e->rest.fds && now->datagram_fds <= e->rest.datagram_fds + KEPT_MAX &&
		 now->names <= e->rest.names));
}

static void await_nothing_left(const struct kill_run *r, struct end_process *e)
{
	uint64_t end_ns = thread_now_ns() + NEAR_BOUND_NS;
	struct held now = held_by(e->pid);

	while (!is_at_rest(e, &now)) {
		note(r,
		     "%d maps and %d descriptors of shared memory, %d and %d of UDP, %d names; "
		     "at first %d, %d, %d",
		     now.shared_maps, now.shared_fds, now.fds, now.datagram_fds, now.names,
		     e->rest.fds, e->rest.datagram_fds, e->rest.names);
		REQUIRE(thread_now_ns() < end_ns);
		now = held_by(e->pid);
	}
	note(r, "%s", "");
	if (!e->has_rested) {
		e->has_rested = true;
		e->rest = now;
	}
}

static void await_no_names(void)
{
	uint64_t end_ns = thread_now_ns() + NEAR_BOUND_NS;

	while (names_there() > 0)
		REQUIRE(thread_now_ns() < end_ns);
}

/* ---- Processes ------------------------------------------------------------------------------ */

static void pause_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void await_stage(struct kill_run *r, uint32_t end, enum near_stage stage)
{
	const struct near_account *a = &r->stand->ends[end];
	unsigned int wanted = near_stage_of(atomic_load(&r->stand->round), stage);
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;

	while (atomic_load(&a->stage) < wanted) {
		int status;

		REQUIRE(waitpid(r->ends[end].pid, &status, WNOHANG) == 0); /* it says why */
		REQUIRE(thread_now_ns() < end_ns);
		pause_ns(20 * 1000);
	}
}

static void spawn(struct kill_run *r, uint32_t end, enum near_drive drive)
{
	struct end_process *e = &r->ends[end];

	memset(&r->stand->ends[end], 0, sizeof(r->stand->ends[end]));
	*e = (struct end_process){ 0 };
	fflush(NULL);
	e->pid = fork();
	REQUIRE(e->pid >= 0);
	if (e->pid == 0)
		near_end_run(r->stand, end, drive);
	await_stage(r, end, NEAR_RESTS);
}

static void take_account(struct kill_run *r, uint32_t end)
{
	const struct near_account *a = &r->stand->ends[end];
	struct near_account *sums = &r->sums;

	sums->succeeded += a->succeeded;
	sums->failed += a->failed;
	sums->direct += a->direct;
	sums->drain_ns = a->drain_ns > sums->drain_ns ? a->drain_ns : sums->drain_ns;
	sums->unmap_ns = a->unmap_ns > sums->unmap_ns ? a->unmap_ns : sums->unmap_ns;
	sums->deregister_ns = a->deregister_ns > sums->deregister_ns ? a->deregister_ns
								     : sums->deregister_ns;
}

static void kill_end(struct kill_run *r, uint32_t end)
{
	pid_t pid = r->ends[end].pid;
	int status = 0;

	REQUIRE(kill(pid, SIGKILL) == 0);
	while (!WIFSIGNALED(status))
		REQUIRE(waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status));
	MUST_EQ(WTERMSIG(status), SIGKILL);
	r->ends[end].pid = 0;
	take_account(r, end);
}

static void stop(pid_t pid)
{
	int status;

	REQUIRE(kill(pid, SIGSTOP) == 0);
	REQUIRE(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

/* ---- Moments -------------------------------------------------------------------------------- */

/* Until the process is about to access memory of another. False: it does not. */
static bool stop_in_access(pid_t pid)
{
	enum { STOPS = 5000, SYSCALL_STOP = SIGTRAP | 0x80 };
	int status = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) < 0)
		return false;
	REQUIRE(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
	for (int left = STOPS; left > 0; left--) {
		struct __ptrace_syscall_info info = { 0 };

		REQUIRE(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
		if (WSTOPSIG(status) == SYSCALL_STOP)
			(void)ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY &&
		    (info.entry.nr == SYS_process_vm_writev ||
		     info.entry.nr == SYS_process_vm_readv))
			return true;
		REQUIRE(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
	}
	return false;
}

/* The one end is stopped: until the other one's requests do not end any more. */
static void await_stuck(const struct near_account *a)
{
	unsigned int before;

	do {
		before = atomic_load(&a->completed);
		pause_ns(3 * 1000 * 1000);
	} while (atomic_load(&a->completed) != before);
}

/* An end that asks has its first answer: the connections work. */
static void await_traffic(struct kill_run *r)
{
	const struct near_plan *plan = &r->stand->plan;
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	uint32_t requesters = 0;

	for (int i = 0; i < NEAR_CONNECTIONS; i++)
		requesters |= plan->requesters[i];
	for (uint32_t i = 0; i < NEAR_ENDS; i++) {
		while ((requesters >> i & 1) && atomic_load(&r->stand->ends[i].completed) == 0) {
			int status;

			REQUIRE(waitpid(r->ends[i].pid, &status, WNOHANG) == 0);
			REQUIRE(thread_now_ns() < end_ns);
			pause_ns(20 * 1000);
		}
	}
}

static void await_moment(struct kill_run *r)
{
	enum { CONNECTING_NS = 1000 * 1000, TRAFFIC_NS = 8 * 1000 * 1000 };
	uint32_t victim = r->victims == 1 ? 0 : 1, survivor = 1 - victim;

	for (uint32_t i = 0; i < NEAR_ENDS; i++)
		await_stage(r, i, r->moment == CONNECTING ? NEAR_HAS_CARDS : NEAR_IS_CONNECTED);
	if (r->moment == CONNECTING) {
		atomic_store(&r->stand->is_killing, true);
		pause_ns(prng_below(&r->dice, CONNECTING_NS));
		return;
	}
	await_traffic(r);
	pause_ns(prng_below(&r->dice, TRAFFIC_NS));
	switch (r->moment) {
	case IN_ACCESS:
		r->in_access += stop_in_access(r->ends[victim].pid);
		break;
	case RING_TO_VICTIM_FULL:
		stop(r->ends[victim].pid);
		await_stuck(&r->stand->ends[survivor]);
		break;
	case RING_OF_VICTIM_FULL:
		stop(r->ends[survivor].pid);
		await_stuck(&r->stand->ends[victim]);
		break;
	default:
		break;
	}
	atomic_store(&r->stand->is_killing, true);
	if (r->stand->plan.is_quiet)
		await_stage(r, survivor, NEAR_IS_QUIET);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* In turn the requester and the target, and at times both. The first end mostly survives. */
static void draw_victims(struct kill_run *r)
{
	static const enum moment of_requester[] = { IN_TRAFFIC, IN_TRAFFIC,	     IN_ACCESS,
						    IN_ACCESS,	RING_OF_VICTIM_FULL, CONNECTING },
				 of_target[] = { IN_TRAFFIC,	      IN_TRAFFIC,
						 IN_TRAFFIC,	      RING_TO_VICTIM_FULL,
						 RING_TO_VICTIM_FULL, CONNECTING };
	uint32_t drawn = prng_below(&r->dice, 6);

	r->is_requester_killed = r->round % 2 == 0;
	r->victims = r->round % TURNS == TURNS - 1 ? 3 : prng_below(&r->dice, 4) == 0 ? 1 : 2;
	r->moment = r->victims == 3	     ? IN_TRAFFIC
		    : r->is_requester_killed ? of_requester[drawn]
					     : of_target[drawn];
	r->killed[r->moment]++;
}

/* One end asks, or both, on each connection that is not idle. */
static void draw_plan(struct kill_run *r)
{
	struct near_plan *plan = &r->stand->plan;
	uint32_t victim = r->victims == 1 ? 0 : 1;
	uint8_t requester = (uint8_t)(1 << (r->is_requester_killed ? victim : 1 - victim));
	bool is_one_way = prng_below(&r->dice, 2) == 0;

	*plan = (struct near_plan){ .seed = prng_next(&r->dice),
				    .has_timeouts = r->moment == CONNECTING,
				    .ending = (enum near_ending)prng_below(&r->dice,
									   NEAR_ENDINGS) };
	for (int i = 0; i < NEAR_CONNECTIONS; i++) {
		plan->traffic[i] = (enum near_traffic)prng_below(&r->dice, NEAR_TRAFFICS);
		plan->requesters[i] = is_one_way || i == 0 ? requester
							   : (uint8_t)(1 + prng_below(&r->dice, 3));
		if (r->moment == IN_ACCESS || (i == 0 && plan->traffic[0] == NEAR_IDLE))
			plan->traffic[i] = NEAR_DIRECT;
		if (r->moment == RING_TO_VICTIM_FULL || r->moment == RING_OF_VICTIM_FULL)
			plan->traffic[i] = NEAR_LARGE;
		plan->depth[i] = plan->traffic[i] == NEAR_DIRECT  ? 1
				 : plan->traffic[i] == NEAR_LARGE ? 32
								  : 1 + prng_below(&r->dice, 32);
		if (plan->traffic[i] == NEAR_IDLE)
			plan->requesters[i] = 0;
	}
}

/* As planned. */
static void round_play(struct kill_run *r)
{
	atomic_store(&r->stand->is_killing, false);
	atomic_store(&r->stand->is_over, false);
	atomic_fetch_add(&r->stand->round, 1);
	await_moment(r);
	for (uint32_t i = 0; i < NEAR_ENDS; i++) {
		if (r->victims >> i & 1)
			kill_end(r, i);
	}
	atomic_store(&r->stand->is_over, true);
	for (uint32_t i = 0; i < NEAR_ENDS; i++) {
		if (r->ends[i].pid == 0)
			continue;
		if (r->moment == RING_OF_VICTIM_FULL)
			REQUIRE(kill(r->ends[i].pid, SIGCONT) == 0);
		await_stage(r, i, NEAR_RESTS);
		await_nothing_left(r, &r->ends[i]);
	}
	if (r->victims == 3)
		await_no_names();
}

static void round_run(struct kill_run *r)
{
	r->dice = (struct prng){ prng_mix(r->seed) + r->round };
	draw_victims(r);
	note(r, "%s", "");
	for (uint32_t i = 0; i < NEAR_ENDS; i++) {
		if (r->ends[i].pid == 0)
			spawn(r, i, (enum near_drive)prng_below(&r->dice, NEAR_DRIVE_COUNT));
	}
	draw_plan(r);
	round_play(r);
}

static void run_open(struct kill_run *r)
{
	r->stand = mmap(NULL, sizeof(*r->stand), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	REQUIRE(r->stand != MAP_FAILED);
}

static void run_close(struct kill_run *r)
{
	for (uint32_t i = 0; i < NEAR_ENDS; i++) {
		if (r->ends[i].pid != 0)
			kill_end(r, i);
	}
	await_no_names();
	REQUIRE(munmap(r->stand, sizeof(*r->stand)) == 0);
}

static void say(const struct kill_run *r, uint32_t kills)
{
	const struct near_account *s = &r->sums;

	printf("# %u of %u kills, seed %llu; ", r->round, kills, (unsigned long long)r->seed);
	for (int i = 0; i < MOMENTS; i++)
		printf("%u %s%s", r->killed[i], moment_names[i], i + 1 < MOMENTS ? ", " : "; ");
	printf("%u at the access itself; %llu requests ended well, %llu not, %llu without packets; "
	       "longest: requests %llu us, deregistration %llu us, munmap() %llu us\n",
	       r->in_access, (unsigned long long)s->succeeded, (unsigned long long)s->failed,
	       (unsigned long long)s->direct, (unsigned long long)s->drain_ns / 1000,
	       (unsigned long long)s->deregister_ns / 1000, (unsigned long long)s->unmap_ns / 1000);
	fflush(stdout);
}

TEST(test_near_peers_killed_at_any_moment_leave_nothing)
{
	const char *wish = getenv("WEFT_KILLS"), *seed = getenv("WEFT_SEED");
	uint32_t kills = wish ? (uint32_t)strtoul(wish, NULL, 10) : KILLS;
	struct kill_run r = { .seed = seed ? strtoull(seed, NULL, 10) : 1 };

	WORLD_OR_SKIP();
	run_open(&r);
	while (r.round < kills) {
		round_run(&r);
		r.round++;
		if (r.round % SAID_EACH == 0 && r.round < kills)
			say(&r, kills);
	}
	run_close(&r);
	say(&r, kills);
}

/* Its adapter is driven by the thread that unmaps, which does nothing else: the mark stays. */
TEST(test_near_munmap_waits_for_no_requester_that_was_killed)
{
	struct kill_run r = { .victims = 2, .is_requester_killed = true, .moment = IN_ACCESS };

	WORLD_OR_SKIP();
	if (!direct_is_allowed())
		SKIP("the kernel lets no process access memory of another");
	run_open(&r);
	spawn(&r, 0, NEAR_DRIVES);
	spawn(&r, 1, NEAR_POLLS);
	draw_plan(&r);
	r.stand->plan.ending = NEAR_UNMAP_FIRST;
	r.stand->plan.is_quiet = true;
	round_play(&r);
	if (r.in_access == 0)
		harness_skip("no access was seen");
	run_close(&r);
}
