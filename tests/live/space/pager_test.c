/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09: a page that takes long to come. It is the test that brings it, by userfaultfd, when all
 * else has been looked at: only the request that needs the page waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/loop/adapter_lock.h"
#include "live/roce/roce_way.h"
#include "live/space/live_space.h"
#include "lone_pages.h"
#include "own_network.h"

enum { BYTES = 1 << 16, PART = 10000 };

/* ---- A slow page ----------------------------------------------------------------------------- */

/* -1: this machine gives none. */
static int slow_open(const struct side *s)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)s->end.node.memory, s->bytes },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -1;
	REQUIRE(ioctl(fd, UFFDIO_API, &api) == 0);
	REQUIRE(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	return fd;
}

/* Waits until the kernel asks for a page. False: it did not within so much time. */
static bool slow_is_asked(int fd, int timeout_ms, uint64_t *addr)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&p, 1, timeout_ms) != 1 || read(fd, &msg, sizeof(msg)) != sizeof(msg))
		return false;
	REQUIRE(msg.event == UFFD_EVENT_PAGEFAULT);
	*addr = msg.arg.pagefault.address & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	return true;
}

/* What the page held before it went away. */
static void slow_bring(int fd, uint64_t addr, uint8_t value)
{
	static _Alignas(65536) uint8_t page[65536];
	struct uffdio_copy copy = { .dst = addr,
				    .src = (uintptr_t)page,
				    .len = (uint64_t)sysconf(_SC_PAGESIZE) };

	memset(page, value, copy.len);
	REQUIRE(ioctl(fd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
}

/* ---- Another connection of the same adapters ------------------------------------------------ */

struct steady {
	struct tcp_end near, far; /* copies, with nodes of their own */
};

static void steady_open(struct steady *s, struct live_pair *p)
{
	s->near = p->near.end;
	s->far = p->far.end;
	node_open(s->near.adapter, &s->near.node, NULL);
	node_open(s->far.adapter, &s->far.node, NULL);
	if (p->way == OVER_TCP)
		tcp_ends_connect(&s->near, &s->far, NULL);
	else
		roce_start_both(s->near.node.qp, s->far.node.qp);
}

static void steady_close(struct steady *s)
{
	node_close(&s->near.node, NULL);
	node_close(&s->far.node, NULL);
}

static void expect_steady(struct steady *s)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ };

	for (uint32_t i = 0; i < 20; i++) {
		struct weft_sge seg = node_seg(&s->near.node, 0, 5000);
		struct weft_send_wr wr = node_wr(opcodes[i % 2], i, &seg, &s->far.node);
		struct weft_completion c;

		REQUIRE(node_post(&s->near.node, &wr));
		REQUIRE(node_take(s->near.node.cq, &c) && c.id == i);
	}
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const struct slow_case {
	enum weft_opcode opcode;
	bool is_far; /* the slow page is the far side's */
} cases[] = {
	{ WEFT_OP_WRITE, true },  { WEFT_OP_READ, true },  { WEFT_OP_SEND, true },
	{ WEFT_OP_WRITE, false }, { WEFT_OP_READ, false }, { WEFT_OP_SEND, false },
};

static void bring_all(int fd, struct weft_cq *cq, uint64_t id, uint8_t value)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS, addr;
	struct weft_completion c;
	bool has = false;

	while (!has) {
		REQUIRE(thread_now_ns() < end_ns);
		while (slow_is_asked(fd, 0, &addr))
			slow_bring(fd, addr, value);
		REQUIRE(node_poll(cq, &c, &has));
	}
	REQUIRE(c.status == WEFT_SUCCESS && c.id == id);
}

static void expect_bytes(const struct live_pair *p, const struct slow_case *k)
{
	const uint8_t *to = k->opcode == WEFT_OP_READ ? p->near.end.node.memory
						      : p->far.end.node.memory;
	uint8_t value = (k->opcode == WEFT_OP_READ) == k->is_far ? 2 : 1;

	for (uint32_t i = 0; i < PART; i++)
		REQUIRE(to[i] == value);
}

/* Value 2 comes with the slow pages, 1 lies at the other side. False: there are no slow pages. */
static bool run_case(enum way way, const struct slow_case *k)
{
	static struct live_pair p;
	static struct steady steady;
	struct node *near = &p.near.end.node, *far = &p.far.end.node;
	struct side *slow = k->is_far ? &p.far : &p.near, *fast = k->is_far ? &p.near : &p.far;
	struct weft_sge from, into;
	struct weft_send_wr wr;
	struct weft_completion c;
	bool has;
	uint64_t addr, last;
	int fd;

	live_pair_open(&p, way, BYTES);
	steady_open(&steady, &p);
	fd = slow_open(slow);
	if (fd >= 0) {
		memset(fast->end.node.memory, 1, BYTES);
		from = node_seg(near, 0, PART);
		into = node_seg(far, 0, PART);
		wr = node_wr(k->opcode, 7, &from, far);
		if (k->opcode == WEFT_OP_SEND)
			MUST(weft_qp_post_recv(
				far->qp,
				&(struct weft_recv_wr){ .id = 8, .sges = &into, .sge_count = 1 }, 1,
				NULL));
		REQUIRE(node_post(near, &wr));
		REQUIRE(slow_is_asked(fd, (int)(PATIENCE_NS / 1000000), &addr));
		expect_steady(&steady);
		REQUIRE(node_poll(near->cq, &c, &has));
		/* Over TCP what the kernel took has ended. */
		if (!(way == OVER_TCP && k->is_far && k->opcode != WEFT_OP_READ))
			REQUIRE(!has);
		last = side_faults(slow);
		REQUIRE(last > 0);
		slow_bring(fd, addr, 2);
		if (!has)
			bring_all(fd, near->cq, 7, 2);
		if (k->opcode == WEFT_OP_SEND) {
			bring_all(fd, far->cq, 8, 2);
		} else if (k->opcode == WEFT_OP_WRITE) {
			wr = node_wr(WEFT_OP_SEND, 9, NULL, far);
			MUST(weft_qp_post_recv(far->qp, &(struct weft_recv_wr){ .id = 10 }, 1,
					       NULL));
			REQUIRE(node_post(near, &wr));
			bring_all(fd, far->cq, 10, 2);
		}
		close(fd);
		expect_bytes(&p, k);
	}
	steady_close(&steady);
	live_pair_close(&p);
	return fd >= 0;
}

static void run_all(enum way way)
{
	bool is_slow = true;

	/* The test's own userfaultfd has the memory, which weft would watch by another. */
	REQUIRE(setenv("WEFT_NOTICES", "off", 1) == 0);
	for (size_t k = 0; is_slow && k < sizeof(cases) / sizeof(cases[0]); k++)
		is_slow = run_case(way, &cases[k]);
	unsetenv("WEFT_NOTICES");
	if (!is_slow)
		SKIP("no userfaultfd");
}

TEST(test_vmm_09_only_who_needs_the_page_waits_over_tcp)
{
	run_all(OVER_TCP);
}

TEST(test_vmm_09_only_who_needs_the_page_waits_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_UDP);
}

/* ---- Pages that cannot be had ---------------------------------------------------------------- */

static enum mem_presence pager_answer(struct weft_adapter *a, const uint8_t *page, uint32_t qp)
{
	const struct mem_pager *pager = &a->pager.for_core;
	enum mem_presence presence;

	adapter_enter(a);
	presence = pager->ask(pager->context, (uintptr_t)page, 1, false, qp);
	adapter_leave(a);
	return presence;
}

static void pager_await(struct weft_adapter *a)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	uint32_t count = 1;

	while (count > 0) {
		REQUIRE(thread_now_ns() < end_ns);
		adapter_enter(a);
		count = a->pager.count;
		adapter_leave(a);
	}
}

/* Asks for a page that cannot be had, and waits until the pager has seen that. */
static void pager_fail(struct weft_adapter *a, const uint8_t *page, uint32_t qp)
{
	REQUIRE(pager_answer(a, page, qp) == MEM_AWAY);
	pager_await(a);
}

TEST(test_vmm_03_pager_is_not_asked_where_nothing_is_mapped)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *gone = lone_pages(page);
	struct side s = { 0 };

	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	REQUIRE(munmap(gone, page) == 0);
	EXPECT_EQ(pager_answer(s.end.adapter, gone, weft_qp_number(s.end.node.qp)), MEM_NOWHERE);
	side_close(&s);
}

/* A page may be good by the time that another queue pair asks for it. */
TEST(test_vmm_04_only_the_queue_pair_that_waited_is_denied)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *bad = lone_pages(page);
	struct side s = { 0 };
	uint32_t qp;

	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	qp = weft_qp_number(s.end.node.qp);
	REQUIRE(mprotect(bad, page, PROT_NONE) == 0);
	pager_fail(s.end.adapter, bad, qp);
	pager_fail(s.end.adapter, bad, qp + 1);
	EXPECT_EQ(pager_answer(s.end.adapter, bad, qp + 1), MEM_NOWHERE);
	EXPECT_EQ(pager_answer(s.end.adapter, bad, qp), MEM_NOWHERE);
	/* No queue pair waits for a prefetch, which may be tried again. */
	pager_fail(s.end.adapter, bad, 0);
	pager_fail(s.end.adapter, bad, 0);
	/* Told once: it may be good now. */
	pager_fail(s.end.adapter, bad, qp);
	/* A queue pair that begins anew has not waited, nor has another of its number. */
	MUST(weft_qp_modify(s.end.node.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			    WEFT_QP_STATE));
	pager_fail(s.end.adapter, bad, qp);
	MUST(weft_qp_destroy(s.end.node.qp));
	pager_fail(s.end.adapter, bad, qp);
	MUST(weft_qp_create(
		s.end.node.pd,
		&(struct weft_qp_options){ .send_cq = s.end.node.cq, .recv_cq = s.end.node.cq },
		&s.end.node.qp));
	side_close(&s);
	munmap(bad, page);
}

TEST(test_vmm_04_failure_that_was_undone_is_forgotten)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *bad = lone_pages(page);
	struct side s = { 0 };
	uint32_t qp;

	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	qp = weft_qp_number(s.end.node.qp);
	REQUIRE(mprotect(bad, page, PROT_NONE) == 0);
	pager_fail(s.end.adapter, bad, qp);
	REQUIRE(mprotect(bad, page, PROT_READ | PROT_WRITE) == 0);
	bad[0] = 1;
	EXPECT_EQ(pager_answer(s.end.adapter, bad, qp), MEM_HERE);
	REQUIRE(madvise(bad, page, MADV_DONTNEED) == 0);
	EXPECT_EQ(pager_answer(s.end.adapter, bad, qp), MEM_AWAY);
	side_close(&s);
	munmap(bad, page);
}

/* It ends while the kernel looks for its page. */
static void end_while_paging(struct side *s, int fd)
{
	const uint32_t qp = weft_qp_number(s->end.node.qp);
	struct weft_adapter *a = s->end.adapter;
	uint8_t *page = s->end.node.memory;
	struct uffdio_range range = { (uintptr_t)page, (uint64_t)sysconf(_SC_PAGESIZE) };
	uint64_t addr;

	REQUIRE(pager_answer(a, page, qp) == MEM_AWAY);
	REQUIRE(slow_is_asked(fd, (int)(PATIENCE_NS / 1000000), &addr));
	adapter_enter(a);
	pager_forget_qp(a, qp);
	adapter_leave(a);
	REQUIRE(mprotect(page, range.len, PROT_NONE) == 0);
	REQUIRE(ioctl(fd, UFFDIO_WAKE, &range) == 0);
	pager_await(a);
	EXPECT_EQ(pager_answer(a, page, qp), MEM_AWAY);
	pager_await(a);
	REQUIRE(mprotect(page, range.len, PROT_READ | PROT_WRITE) == 0);
}

TEST(test_vmm_04_failure_for_a_queue_pair_that_ended_is_not_kept)
{
	struct side s = { 0 };
	int fd;

	REQUIRE(setenv("WEFT_NOTICES", "off", 1) == 0);
	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	fd = slow_open(&s);
	if (fd >= 0) {
		end_while_paging(&s, fd);
		close(fd);
	}
	side_close(&s);
	unsetenv("WEFT_NOTICES");
	if (fd < 0)
		SKIP("no userfaultfd");
}

/* ---- Where the pager may not look ------------------------------------------------------------ */

enum { CHILD_WELL = 0, CHILD_SKIP = 77 };

/* As container engines do it. */
static bool forbid_mincore(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static enum weft_status read_far(struct live_pair *p)
{
	struct weft_sge s = node_seg(&p->near.end.node, 0, 64);
	struct weft_send_wr wr = node_wr(WEFT_OP_READ, 7, &s, &p->far.end.node);

	REQUIRE(node_post(&p->near.end.node, &wr));
	return node_next(p->near.end.node.cq).status;
}

static int forbidden_child(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	static struct live_pair p;

	if (!forbid_mincore())
		return CHILD_SKIP;
	live_pair_open(&p, OVER_TCP, BYTES);
	if (read_far(&p) != WEFT_SUCCESS) /* never touched */
		return 1;
	memset(p.far.end.node.memory, 3, page);
	if (read_far(&p) != WEFT_SUCCESS || p.near.end.node.memory[0] != 3)
		return 2;
	if (mprotect(p.far.end.node.memory, page, PROT_NONE) != 0)
		return 3;
	if (read_far(&p) != WEFT_ERR_REMOTE_ACCESS)
		return 4;
	return CHILD_WELL;
}

TEST(test_vmm_09_pages_are_used_where_mincore_is_forbidden)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(forbidden_child());
	REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIP)
		SKIP("this system has no seccomp filters");
	EXPECT_EQ(status, CHILD_WELL);
}
