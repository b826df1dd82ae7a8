/* SPDX-License-Identifier: BSD-2-Clause */
/* By which thread the memory of a process is accessed. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/near/near_board.h"
#include "test.h"

struct second {
	pthread_t thread;
	sem_t has_begun, is_over;
	int number;
};

static void *second_run(void *argument)
{
	struct second *s = argument;

	s->number = (int)syscall(SYS_gettid);
	sem_post(&s->has_begun);
	while (sem_wait(&s->is_over) < 0)
		continue;
	return NULL;
}

static void second_start(struct second *s)
{
	REQUIRE(sem_init(&s->has_begun, 0, 0) == 0 && sem_init(&s->is_over, 0, 0) == 0);
	REQUIRE(pthread_create(&s->thread, NULL, second_run, s) == 0);
	while (sem_wait(&s->has_begun) < 0)
		continue;
}

static void second_end(struct second *s)
{
	sem_post(&s->is_over);
	REQUIRE(pthread_join(s->thread, NULL) == 0);
}

/* Whether a board that names this thread is taken for that of this process. */
static bool is_seen(int thread_number)
{
	struct near_shown shown;
	struct near_seen seen;
	bool is_taken;

	REQUIRE(near_shown_open(&shown, WEFT_POLICY_OPEN, thread_number));
	is_taken = near_seen_open(&seen, (int[2]){ shown.board_fd, shown.marks_fd }, getpid());
	if (is_taken)
		near_seen_close(&seen);
	near_shown_close(&shown);
	return is_taken;
}

static bool is_allowed(void)
{
	struct second s;
	bool is_taken;

	second_start(&s);
	is_taken = is_seen(s.number);
	second_end(&s);
	return is_taken;
}

/* The first thread has the number of the process, which stays when another program is executed. */
TEST(test_near_board_names_a_thread_that_no_program_outlives)
{
	if (!is_allowed())
		SKIP("the kernel lets no process access memory of another");
	EXPECT(!is_seen(getpid()));
	EXPECT(!is_seen(0));
}

/* The child has the token at the same address: it is a copy of this process. */
TEST(test_near_board_that_names_another_process_is_not_taken)
{
	struct near_shown shown;
	struct near_seen seen;
	pid_t child;

	if (!is_allowed())
		SKIP("the kernel lets no process access memory of another");
	REQUIRE(near_shown_open(&shown, WEFT_POLICY_OPEN, 0));
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	shown.board->thread_number = child;
	EXPECT(!near_seen_open(&seen, (int[2]){ shown.board_fd, shown.marks_fd }, getpid()));
	REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
	near_shown_close(&shown);
}
