/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target of Writes without packets that executes another program, which maps memory at the same
 * address: no byte of a Write reaches it, whatever the writer has noticed by then.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/near/near_world.h"

enum { EXECS = 40, BYTES = 64, PAGE = 4096, FOREIGN = 2, PIPE_FD = 100 };

/* Of both programs. Below all that a sanitizer maps. */
#define PAGE_ADDR UINT64_C(0x20000000)

static const char sign[] = "WEFT_NEAR_EXECUTED";

static void *page_map(void)
{
	void *at = (void *)(uintptr_t)PAGE_ADDR;

	return mmap(at, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at
		       ? at
		       : NULL;
}

/* The program that is executed: when its writer has given up, no byte of the page has changed. */
__attribute__((constructor)) static void executed(void)
{
	static const uint8_t zeros[PAGE];
	const uint8_t *page;
	char byte;

	if (!getenv(sign))
		return;
	page = page_map();
	if (!page || read(PIPE_FD, &byte, 1) != 1)
		_exit(1);
	_exit(memcmp(page, zeros, PAGE) == 0 ? 0 : FOREIGN);
}

struct target {
	bool is_by_thread; /* a second thread executes the program */
	pid_t pid;
	int to[2], from[2];
	struct card card;
};

static void *execute(void *argument)
{
	char *const argv[] = { argument, NULL };

	(void)execv("/proc/self/exe", argv);
	_exit(1);
}

/* Executes itself when it is told to. */
static _Noreturn void target_run(const struct target *t)
{
	char name[] = "near_path";
	struct weft_region_options o = { .addr = PAGE_ADDR,
					 .length = PAGE,
					 .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE };
	struct card peer, own;
	struct weft_roce_attr way;
	pthread_t thread;
	struct end e;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	REQUIRE(page_map());
	end_open(&e, roce_adapter_open());
	own = card_of(&e.node);
	own.addr = PAGE_ADDR;
	MUST(weft_region_register(e.node.pd, &o, &own.tag));
	REQUIRE(write(t->from[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->to[0], &peer, sizeof(peer)) == sizeof(peer));
	way = roce_way(peer.number);
	roce_start(e.node.qp, &way);
	REQUIRE(write(t->from[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->to[0], &peer, sizeof(peer)) == sizeof(peer));
	REQUIRE(dup2(t->to[0], PIPE_FD) == PIPE_FD && setenv(sign, "1", 1) == 0);
	if (t->is_by_thread)
		REQUIRE(pthread_create(&thread, NULL, execute, name) == 0 &&
			pthread_join(thread, NULL) == 0);
	(void)execute(name);
	_exit(1);
}

static void target_start(struct target *t, struct end *peer)
{
	struct card own;
	struct weft_roce_attr way;

	REQUIRE(pipe(t->to) == 0 && pipe(t->from) == 0);
	t->pid = fork();
	REQUIRE(t->pid >= 0);
	if (t->pid == 0)
		target_run(t);
	end_open(peer, roce_adapter_open());
	own = card_of(&peer->node);
	REQUIRE(read(t->from[0], &t->card, sizeof(t->card)) == sizeof(t->card));
	way = roce_way(t->card.number);
	roce_start(peer->node.qp, &way);
	REQUIRE(write(t->to[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(t->from[0], &t->card, sizeof(t->card)) == sizeof(t->card));
}

static void target_end(struct target *t)
{
	int status;

	REQUIRE(write(t->to[1], "", 1) == 1);
	REQUIRE(waitpid(t->pid, &status, 0) == t->pid && WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	for (int i = 0; i < 2; i++) {
		close(t->to[i]);
		close(t->from[i]);
	}
}

static enum weft_status write_to(struct end *e, const struct card *to)
{
	const struct weft_sge s = node_seg(&e->node, 0, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, &e->node);

	wr.remote_addr = to->addr;
	wr.remote_tag = to->tag;
	REQUIRE(node_post(&e->node, &wr));
	return node_next(e->node.cq).status;
}

TEST(test_near_direct_write_never_reaches_a_program_that_the_target_executes)
{
	WORLD_OR_SKIP();
	if (!direct_is_allowed())
		SKIP("the kernel lets no process access memory of another");
	for (int i = 0; i < EXECS; i++) {
		struct target target = { .is_by_thread = i % 4 == 0 };
		struct end e;

		target_start(&target, &e);
		memset(e.node.memory, 7, BYTES);
		for (int k = 0; k < 3; k++)
			MUST_EQ(write_to(&e, &target.card), WEFT_SUCCESS);
		REQUIRE(counts_of(&e).direct >= 2);
		REQUIRE(write(target.to[1], &target.card, sizeof(target.card)) ==
			sizeof(target.card));
		while (write_to(&e, &target.card) == WEFT_SUCCESS)
			continue;
		target_end(&target);
		end_close(&e);
	}
}
