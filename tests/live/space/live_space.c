/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/space/live_space.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/roce/roce_way.h"

/* ---- Connections ---------------------------------------------------------------------------- */

static void side_create_qp(struct side *s, enum weft_qp_service service)
{
	struct node *n = &s->end.node;
	const struct weft_qp_options qp = { .send_cq = n->cq,
					    .recv_cq = n->cq,
					    .service = service };

	MUST(weft_qp_create(n->pd, &qp, &n->qp));
	node_be_patient(n);
}

void side_open(struct side *s, enum way way, uint64_t bytes, enum weft_qp_service service)
{
	const struct weft_space_options space = { .mappings_max = 8,
						  .has_pager = true,
						  .is_handing = s->is_handing,
						  .kind = WEFT_SPACE_PROCESS };
	struct weft_region_options region = { .length = bytes, .rights = ALL_RIGHTS };
	struct node *n = &s->end.node;
	struct weft_pd_options pd = { .is_privileged = s->is_kernel };

	s->bytes = bytes;
	tcp_end_open(&s->end);
	node_close(n, NULL);
	MUST(weft_adapter_claim(s->end.adapter, &pd.authority));
	if (way == OVER_UDP)
		MUST(weft_roce_open(s->end.adapter));
	n->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(n->memory != MAP_FAILED);
	region.addr = (uintptr_t)n->memory;
	MUST(weft_space_create(s->end.adapter, &space, &s->space));
	MUST(weft_space_map(s->space, region.addr, bytes, region.addr));
	pd.space = s->space;
	MUST(weft_pd_create(s->end.adapter, &pd, &n->pd));
	MUST(weft_cq_create(s->end.adapter, NULL, &n->cq));
	MUST(weft_region_register(n->pd, &region, &n->tag));
	side_create_qp(s, service);
}

void side_close(struct side *s)
{
	struct node *n = &s->end.node;

	MUST(weft_qp_destroy(n->qp));
	MUST(weft_region_deregister(n->pd, n->tag));
	MUST(weft_cq_destroy(n->cq));
	MUST(weft_pd_destroy(n->pd));
	MUST(weft_space_destroy(s->space));
	munmap(n->memory, s->bytes);
	MUST(weft_listener_close(s->end.listener));
	MUST(weft_adapter_close(s->end.adapter));
}

static void live_pair_connect(struct live_pair *p)
{
	if (p->way == OVER_TCP)
		tcp_ends_connect(&p->near.end, &p->far.end, NULL);
	else
		roce_start_both(p->near.end.node.qp, p->far.end.node.qp);
}

void live_pair_open(struct live_pair *p, enum way way, uint64_t bytes)
{
	p->way = way;
	side_open(&p->near, way, bytes, WEFT_RC);
	side_open(&p->far, way, bytes, WEFT_RC);
	live_pair_connect(p);
}

void live_pair_connect_anew(struct live_pair *p)
{
	MUST(weft_qp_destroy(p->near.end.node.qp));
	MUST(weft_qp_destroy(p->far.end.node.qp));
	side_create_qp(&p->near, WEFT_RC);
	side_create_qp(&p->far, WEFT_RC);
	live_pair_connect(p);
}

void live_pair_close(struct live_pair *p)
{
	side_close(&p->near);
	side_close(&p->far);
}

void live_pair_expect_placed(struct live_pair *p)
{
	struct node *near = &p->near.end.node, *far = &p->far.end.node;
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 9, NULL, far);
	struct weft_completion c;

	MUST(weft_qp_post_recv(far->qp, &(struct weft_recv_wr){ .id = 10 }, 1, NULL));
	REQUIRE(node_post(near, &wr));
	REQUIRE(node_take(near->cq, &c) && c.id == 9);
	REQUIRE(node_take(far->cq, &c) && c.id == 10);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

uint64_t pages_in_memory(const void *at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), count = (bytes + page - 1) / page, in = 0;
	unsigned char *in_core = malloc(count);

	REQUIRE(in_core && mincore((void *)(uintptr_t)at, bytes, in_core) == 0);
	for (uint64_t i = 0; i < count; i++)
		in += in_core[i] & 1;
	free(in_core);
	return in;
}

uint64_t side_faults(const struct side *s)
{
	struct weft_pins pins;

	MUST(weft_space_query(s->space, &pins));
	MUST_EQ(pins.count, 0);
	return pins.faults;
}

/* ---- Swap ----------------------------------------------------------------------------------- */

enum { SWAP_BYTES = 64 << 20, SWAP_VERSION = 1, PATH_BYTES = 512 };

/*
 * The keeper holds the swap file and the group; it removes both when the leash is let go, or its
 * holder is dead.
 */
static pid_t keeper;
static int leash = -1;

/* The memory cgroup of the process, and one below it, whose memory can be reclaimed. */
static char outer_group[PATH_BYTES], inner_group[PATH_BYTES + 32];

static bool put(const char *folder, const char *file, const char *text)
{
	char path[PATH_BYTES + 96];
	int fd;
	bool is_put;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_put = write(fd, text, strlen(text)) > 0;
	close(fd);
	return is_put;
}

static bool move_to(const char *group)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return put(group, "cgroup.procs", pid);
}

/* Of version 1 the line of the controller, else the one of version 2. */
static bool find_group(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_BYTES];
	bool is_found = false;

	while (f && !is_found && fgets(line, sizeof(line), f)) {
		const char *old = strstr(line, ":memory:"), *new = strstr(line, "0::");

		line[strcspn(line, "\n")] = 0;
		is_found = old || new == line;
		if (is_found)
			snprintf(outer_group, sizeof(outer_group), "/sys/fs/cgroup%.*s%.400s",
				 old ? 7 : 0, "/memory", old ? old + 8 : new + 3);
	}
	if (f)
		fclose(f);
	return is_found;
}

/* As mkswap(8) writes it: the header is the first page, its last 10 bytes the signature. */
static bool swap_write(int fd)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	uint32_t *header = calloc(1, page);
	bool is_written = header != NULL;

	if (header) {
		header[256] = SWAP_VERSION; /* behind 1024 bytes for a boot loader */
		header[257] = SWAP_BYTES / page - 1;
		memcpy((char *)header + page - 10, "SWAPSPACE2", 10);
	}
	for (uint32_t at = 0; at < SWAP_BYTES && is_written; at += page) {
		is_written = write(fd, header, page) == (ssize_t)page;
		memset(header, 0, page);
	}
	free(header);
	return is_written;
}

/* 0, or why not. */
static int swap_make(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), why = 0;

	if (fd < 0)
		return errno;
	if (!swap_write(fd) || fsync(fd) != 0 || swapon(path, 0) != 0)
		why = errno ? errno : EIO;
	close(fd);
	return why;
}

static _Noreturn void keep_swap(int told, int held)
{
	char path[64], end;
	int why;

	snprintf(path, sizeof(path), "/tmp/weft-swap-%d", (int)getpid());
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	why = mkdir(inner_group, 0755) == 0 ? swap_make(path) : errno;
	(void)!write(told, &why, sizeof(why));
	close(told);
	while (why == 0 && read(held, &end, 1) < 0 && errno == EINTR)
		;
	if (why == 0)
		(void)swapoff(path);
	unlink(path);
	/* A process that died in it takes a moment to leave. */
	while (rmdir(inner_group) != 0 && errno == EBUSY)
		sched_yield();
	_exit(why != 0);
}

const char *swap_open(void)
{
	static char text[128];
	int told[2], held[2], why = EIO;

	if (!find_group())
		return "there is no memory cgroup";
	snprintf(inner_group, sizeof(inner_group), "%s/weft-%d", outer_group, (int)getpid());
	REQUIRE(pipe2(told, O_CLOEXEC) == 0 && pipe2(held, O_CLOEXEC) == 0);
	keeper = fork();
	REQUIRE(keeper >= 0);
	if (keeper == 0) {
		close(told[0]);
		close(held[1]);
		keep_swap(told[1], held[0]);
	}
	close(told[1]);
	close(held[0]);
	leash = held[1];
	if (read(told[0], &why, sizeof(why)) != sizeof(why))
		why = EIO;
	close(told[0]);
	if (why == 0)
		return NULL;
	swap_close();
	snprintf(text, sizeof(text), "no swap in a memory cgroup: %s", strerror(why));
	return text;
}

void swap_close(void)
{
	close(leash);
	REQUIRE(waitpid(keeper, NULL, 0) == keeper);
}

void swap_enter(void)
{
	REQUIRE(move_to(inner_group));
}

void swap_leave(void)
{
	REQUIRE(move_to(outer_group));
}

/*
 * A page that was written to swap stays in memory beside it, where the next access would find it,
 * until it is written and its group is short of memory.
 */
void swap_press(void *at, uint64_t bytes)
{
	(void)madvise(at, bytes, MADV_PAGEOUT);
	if (!put(inner_group, "memory.force_empty", "0"))
		(void)put(inner_group, "memory.reclaim", "64M");
}

bool swap_out(void *at, uint64_t bytes)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS / 3;

	while (pages_in_memory(at, bytes) > 0 && thread_now_ns() < end_ns)
		swap_press(at, bytes);
	return pages_in_memory(at, bytes) == 0;
}
