/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a program of another language, whose runtime handles SIGSEGV itself: once the file
 * $WEFT_BEGIN is there, a thread opens an adapter and has memory accessed that is protected, again
 * and again. After ROUNDS refusals it makes the file $WEFT_DONE, and goes on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

enum { ROUNDS = 1000 };

static void must(bool is_true)
{
	static const char text[] = "under_fire: a call failed\n";

	if (is_true)
		return;
	(void)!write(2, text, sizeof(text) - 1);
	_exit(3);
}

struct side {
	struct weft_pd *pd;
	struct weft_cq *cq;
};

/* A Write to the memory, by new queue pairs: it is refused. */
static void fire(const struct side *s, const void *memory, uint32_t tag)
{
	const struct weft_qp_options o = { .send_cq = s->cq, .recv_cq = s->cq };
	static uint64_t word;
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_WRITE,
		.flags = WEFT_INLINE | WEFT_SIGNALLED,
		.sges = &(struct weft_sge){ (uintptr_t)&word, sizeof(word), 0 },
		.sge_count = 1,
		.remote_addr = (uintptr_t)memory,
		.remote_tag = tag,
	};
	struct weft_completion c;
	struct weft_qp *near, *far;
	uint32_t count = 0;

	must(weft_qp_create(s->pd, &o, &near) == WEFT_OK);
	must(weft_qp_create(s->pd, &o, &far) == WEFT_OK);
	must(weft_qp_connect(near, far) == WEFT_OK);
	must(weft_qp_post_send(near, &wr, 1, NULL) == WEFT_OK);
	while (count == 0)
		must(weft_cq_poll(s->cq, &c, 1, &count) == WEFT_OK);
	must(c.status == WEFT_ERR_REMOTE_ACCESS);
	must(weft_qp_destroy(near) == WEFT_OK && weft_qp_destroy(far) == WEFT_OK);
}

static void *fire_run(void *argument)
{
	const struct timespec soon = { .tv_nsec = 1000000 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct weft_region_options o = { .addr = (uintptr_t)memory,
					       .length = page,
					       .rights = WEFT_REMOTE_WRITE | WEFT_LOCAL_WRITE };
	struct weft_adapter *adapter;
	struct side s;
	uint32_t tag;

	(void)argument;
	while (access(getenv("WEFT_BEGIN"), F_OK) != 0)
		nanosleep(&soon, NULL);
	must(memory != MAP_FAILED);
	must(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	must(weft_pd_create(adapter, NULL, &s.pd) == WEFT_OK);
	must(weft_cq_create(adapter, &(struct weft_cq_options){ .entries_max = 64 }, &s.cq) ==
	     WEFT_OK);
	must(weft_region_register(s.pd, &o, &tag) == WEFT_OK);
	must(mprotect(memory, page, PROT_NONE) == 0);
	for (int i = 0;; i++) {
		fire(&s, memory, tag);
		if (i == ROUNDS)
			must(close(open(getenv("WEFT_DONE"), O_WRONLY | O_CREAT, 0600)) == 0);
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (getenv("WEFT_BEGIN"))
		must(pthread_create(&thread, NULL, fire_run, NULL) == 0);
}
