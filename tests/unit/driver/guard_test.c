/* SPDX-License-Identifier: BSD-2-Clause */
/* The guard: accesses that survive missing pages, beside handlers of the program's own. */
#include "driver/sys/guard.h"

#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/sys/clock.h"
#include "test.h"

static uint8_t *page_of(int protection)
{
	uint8_t *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), protection,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(page != MAP_FAILED);
	return page;
}

static void page_end(uint8_t *page)
{
	munmap(page, (size_t)sysconf(_SC_PAGESIZE));
}

/* ---- Accesses ------------------------------------------------------------------------------- */

TEST(test_vmm_04_a_copy_from_or_to_a_missing_page_fails)
{
	uint8_t *gone = page_of(PROT_NONE), *there = page_of(PROT_READ | PROT_WRITE);

	guard_open();
	memset(there, 7, 100);
	EXPECT(!fault_guard.copy(there, gone, 100));
	EXPECT(!fault_guard.copy(gone, there, 100));
	EXPECT(fault_guard.copy(there + 200, there, 100));
	EXPECT_MEM(there + 200, there, 100);
	EXPECT(fault_guard.copy(there + 1, there, 100)); /* as memmove() */
	EXPECT_EQ(there[100], 7);
	guard_close();
	page_end(gone);
	page_end(there);
}

TEST(test_vmm_04_a_page_past_the_end_of_its_file_is_missing)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int file = memfd_create("weft", 0);
	uint8_t byte, *memory;

	REQUIRE(file >= 0 && ftruncate(file, (off_t)page) == 0);
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	REQUIRE(memory != MAP_FAILED);
	guard_open();
	EXPECT(fault_guard.copy(&byte, memory, 1));
	REQUIRE(ftruncate(file, 0) == 0);
	EXPECT(!fault_guard.copy(&byte, memory, 1)); /* SIGBUS */
	guard_close();
	page_end(memory);
	close(file);
}

static void write_to(void *argument)
{
	*(volatile uint8_t *)argument = 1;
}

TEST(test_vmm_04_a_call_that_meets_a_missing_page_is_left)
{
	uint8_t *gone = page_of(PROT_READ), *there = page_of(PROT_READ | PROT_WRITE);

	guard_open();
	EXPECT(!fault_guard.run(gone, 1, write_to, gone));
	EXPECT(fault_guard.run(there, 1, write_to, there));
	EXPECT_EQ(there[0], 1);
	guard_close();
	page_end(gone);
	page_end(there);
}

static bool has_run;

static void note_run(void *argument)
{
	(void)argument;
	has_run = true;
}

/* What no process can have mapped. x86-64 does not say at which address such an access failed. */
TEST(test_vmm_04_an_address_that_no_process_has_is_missing)
{
	static const uint64_t starts[] = {
		(UINT64_C(1) << 47) - 1, /* one byte below what is canonical */
		UINT64_C(0x900000000000),     (UINT64_C(1) << 55) - 64, (UINT64_C(1) << 56) - 64,
		UINT64_C(0xdead000000000000), UINT64_MAX - 64,		UINT64_MAX,
	};
	uint8_t bytes[64];

	guard_open();
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		void *at = (void *)(uintptr_t)starts[i]; /* NOLINT: none that can be had */

		EXPECT(!fault_guard.copy(bytes, at, sizeof(bytes)));
		EXPECT(!fault_guard.copy(at, bytes, sizeof(bytes)));
		EXPECT(!fault_guard.run(at, sizeof(bytes), write_to, at));
	}
	guard_close();
}

/* arm64 ignores the topmost byte of an address: there, such an access could go well. */
TEST(test_vmm_04_an_address_with_a_topmost_byte_is_not_accessed)
{
	uint8_t byte = 1, copy = 0;
	uint64_t high = UINT64_C(0x5a) << 56;

	guard_open();
	has_run = false;
	EXPECT(!fault_guard.run((void *)((uintptr_t)&byte | high), 1, note_run, NULL));
	EXPECT(!has_run);
	EXPECT(!fault_guard.copy(&copy, (void *)((uintptr_t)&byte | high), 1));
	EXPECT_EQ(copy, 0);
	guard_close();
}

enum { STACK_BYTES = 64 * 1024 };

/* With an alternate stack that the kernel takes away while a handler runs (SS_AUTODISARM). */
static void fail_on_stack(uint8_t *memory)
{
	enum { DISARM = INT32_MIN };
	const stack_t stack = { .ss_sp = memory, .ss_size = STACK_BYTES, .ss_flags = DISARM };
	const stack_t none = { .ss_flags = SS_DISABLE };
	uint8_t *gone = page_of(PROT_NONE), byte;
	stack_t now;

	REQUIRE(sigaltstack(&stack, NULL) == 0);
	guard_open();
	for (int i = 0; i < 3; i++) {
		EXPECT(!fault_guard.copy(&byte, gone, 1));
		REQUIRE(sigaltstack(NULL, &now) == 0);
		EXPECT(now.ss_sp == stack.ss_sp && now.ss_size == STACK_BYTES);
		EXPECT_EQ(now.ss_flags, stack.ss_flags);
	}
	guard_close();
	REQUIRE(sigaltstack(&none, NULL) == 0);
	page_end(gone);
}

static void *fail_in_thread(void *memory)
{
	fail_on_stack(memory);
	return NULL;
}

/* Below the stack of the thread, and above: the first thread's stack is above all others. */
TEST(test_vmm_04_an_alternate_stack_is_there_after_an_access_that_failed)
{
	_Alignas(16) uint8_t above[STACK_BYTES];
	uint8_t *below = malloc(STACK_BYTES);
	pthread_t thread;

	REQUIRE(below);
	fail_on_stack(below);
	REQUIRE(pthread_create(&thread, NULL, fail_in_thread, above) == 0);
	pthread_join(thread, NULL);
	free(below);
}

/* The kernel runs a handler with other modes of floating point: the thread has its own again. */
TEST(test_vmm_04_rounding_is_as_it_was_after_an_access_that_failed)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	int before = fegetround();

	guard_open();
	REQUIRE(fesetround(FE_UPWARD) == 0);
	EXPECT(!fault_guard.copy(&byte, gone, 1));
	EXPECT_EQ(fegetround(), FE_UPWARD);
	REQUIRE(fesetround(before) == 0);
	guard_close();
	page_end(gone);
}

/* A program blocks all signals in its worker threads: a fault would then end the process. */
static void *blocked_run(void *argument)
{
	sigset_t all;
	uint8_t byte;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 3; i++) {
		if (fault_guard.copy(&byte, argument, 1))
			return argument;
	}
	return NULL;
}

TEST(test_vmm_04_a_thread_that_blocks_all_signals_survives)
{
	uint8_t *gone = page_of(PROT_NONE);
	void *failed = gone;
	pthread_t thread;

	guard_open();
	REQUIRE(pthread_create(&thread, NULL, blocked_run, gone) == 0);
	REQUIRE(pthread_join(thread, &failed) == 0);
	EXPECT(failed == NULL);
	guard_close();
	page_end(gone);
}

/* ---- The program's own handlers ------------------------------------------------------------- */

static sigjmp_buf own;
static volatile int own_calls;
static void *volatile own_address;

static void own_handler(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	own_calls++;
	own_address = info->si_addr;
	siglongjmp(own, 1);
}

static void install(void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigemptyset(&a.sa_mask);
	REQUIRE(sigaction(SIGSEGV, &a, before) == 0);
}

/* As if the last look were old. */
static void renew(void)
{
	static uint64_t ahead_ns;

	ahead_ns += UINT64_C(200) * 1000 * 1000;
	guard_renew(clock_ns() + ahead_ns);
}

/* The program's own fault, which is none of the guard's. */
static void expect_own_fault(uint8_t *gone)
{
	own_calls = 0;
	if (sigsetjmp(own, 1) == 0)
		*(volatile uint8_t *)gone = 1;
	MUST_EQ(own_calls, 1);
	REQUIRE(own_address == gone);
}

TEST(test_vmm_04_a_fault_of_the_program_goes_to_its_handler)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	struct sigaction was, after;

	install(own_handler, &was);
	guard_open();
	for (int i = 0; i < 3; i++) {
		expect_own_fault(gone);
		own_calls = 0;
		EXPECT(!fault_guard.copy(&byte, gone, 1));
		EXPECT_EQ(own_calls, 0);
	}
	guard_close();
	REQUIRE(sigaction(SIGSEGV, NULL, &after) == 0);
	EXPECT(after.sa_sigaction == own_handler);
	expect_own_fault(gone);
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
}

TEST(test_vmm_04_a_handler_installed_later_is_called_after_the_guards)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	struct sigaction was;

	guard_open();
	install(own_handler, &was);
	renew();
	expect_own_fault(gone);
	EXPECT(!fault_guard.copy(&byte, gone, 1));
	expect_own_fault(gone);
	guard_close();
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
}

/* A program's handlers, each of which calls what it found when it was installed. */
enum { CHAIN = 3 };

static struct sigaction chain_before[CHAIN];
static volatile int chain_calls[CHAIN];

static void chain_call(int at, int number, siginfo_t *info, void *context)
{
	chain_calls[at]++;
	REQUIRE(chain_calls[at] == 1);
	chain_before[at].sa_sigaction(number, info, context);
}

static void chain_first(int number, siginfo_t *info, void *context)
{
	chain_call(0, number, info, context);
}

static void chain_second(int number, siginfo_t *info, void *context)
{
	chain_call(1, number, info, context);
}

static void chain_third(int number, siginfo_t *info, void *context)
{
	chain_call(2, number, info, context);
}

static void (*const chain[CHAIN])(int, siginfo_t *, void *) = {
	chain_first,
	chain_second,
	chain_third,
};

/* Each found the guard's handler, which was installed anew over it afterwards. */
TEST(test_vmm_04_handlers_that_call_each_other_come_to_an_end)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	struct sigaction was;

	install(own_handler, &was);
	guard_open();
	for (int i = 0; i < CHAIN; i++) {
		install(chain[i], &chain_before[i]);
		renew();
		for (int k = 0; k < CHAIN; k++)
			chain_calls[k] = 0;
		expect_own_fault(gone);
		for (int k = 0; k < CHAIN; k++)
			EXPECT_EQ(chain_calls[k], k <= i);
		EXPECT(!fault_guard.copy(&byte, gone, 1));
	}
	guard_close();
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
}

/* The program puts back what it had found: the guard's handler, and what that had found. */
TEST(test_vmm_04_a_handler_that_was_taken_away_is_not_called)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	struct sigaction was, found, now;

	install(own_handler, &was);
	guard_open();
	for (int i = 0; i < 20; i++) {
		install(chain_first, &found);
		renew();
		REQUIRE(sigaction(SIGSEGV, &found, &now) == 0);
		EXPECT(now.sa_sigaction != chain_first);
		renew();
		chain_calls[0] = 0;
		expect_own_fault(gone);
		EXPECT_EQ(chain_calls[0], 0);
		EXPECT(!fault_guard.copy(&byte, gone, 1));
	}
	guard_close();
	REQUIRE(sigaction(SIGSEGV, NULL, &now) == 0);
	EXPECT(now.sa_sigaction == own_handler);
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
}

/* signal() gives and takes an address alone: the handler would be called without a siginfo. */
TEST(test_vmm_04_a_handler_that_signal_puts_back_is_made_whole)
{
	uint8_t *gone = page_of(PROT_NONE), byte;
	struct sigaction was, now;

	install(own_handler, &was);
	guard_open();
	signal(SIGSEGV, signal(SIGSEGV, SIG_DFL));
	renew();
	expect_own_fault(gone);
	EXPECT(!fault_guard.copy(&byte, gone, 1));
	guard_close();
	REQUIRE(sigaction(SIGSEGV, NULL, &now) == 0);
	EXPECT(now.sa_sigaction == own_handler);
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
}

/* A handler of another signal interrupts a guarded access, and faults by itself. */
static uint8_t *interrupted;

static void interrupt(int number)
{
	(void)number;
	*(volatile uint8_t *)interrupted = 1;
}

static void raise_in(void *argument)
{
	(void)argument;
	raise(SIGUSR1);
}

TEST(test_vmm_04_a_fault_of_another_address_within_an_access_is_the_programs)
{
	uint8_t *gone = page_of(PROT_NONE), *there = page_of(PROT_READ | PROT_WRITE), byte;
	struct sigaction was;

	install(own_handler, &was);
	signal(SIGUSR1, interrupt);
	interrupted = gone;
	guard_open();
	own_calls = 0;
	if (sigsetjmp(own, 1) == 0)
		fault_guard.run(there, 1, raise_in, NULL);
	EXPECT_EQ(own_calls, 1);
	EXPECT(!fault_guard.copy(&byte, gone, 1));
	guard_close();
	signal(SIGUSR1, SIG_DFL);
	sigaction(SIGSEGV, &was, NULL);
	page_end(gone);
	page_end(there);
}

/* An access that x86-64 reports without its address. */
static void interrupt_nowhere(int number)
{
	(void)number;
	*(volatile uint8_t *)(uintptr_t)UINT64_C(0xdead000000000000) = 1;
}

TEST(test_vmm_04_a_fault_without_an_address_within_an_access_is_the_programs)
{
	uint8_t *there = page_of(PROT_READ | PROT_WRITE);
	struct sigaction was;

	install(own_handler, &was);
	signal(SIGUSR1, interrupt_nowhere);
	guard_open();
	own_calls = 0;
	if (sigsetjmp(own, 1) == 0)
		fault_guard.run(there, 1, raise_in, NULL);
	EXPECT_EQ(own_calls, 1);
	guard_close();
	signal(SIGUSR1, SIG_DFL);
	sigaction(SIGSEGV, &was, NULL);
	page_end(there);
}

/* ---- No handler ----------------------------------------------------------------------------- */

/* The signal that ends a child that does this. After a good end it calls abort(). */
static int ended_by(void (*act)(uint8_t *gone), void (*action)(int))
{
	uint8_t *gone = page_of(PROT_NONE);
	pid_t child = fork();
	int status;

	REQUIRE(child >= 0);
	if (child == 0) {
		const struct rlimit no_core = { 0, 0 };

		harness_in_child();
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, action);
		guard_open();
		act(gone);
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	page_end(gone);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void fault(uint8_t *gone)
{
	*(volatile uint8_t *)gone = 1;
}

static void send_to_itself(uint8_t *gone)
{
	(void)gone;
	kill(getpid(), SIGSEGV);
}

TEST(test_vmm_04_without_a_handler_a_fault_ends_the_program)
{
	EXPECT_EQ(ended_by(fault, SIG_DFL), SIGSEGV);
	EXPECT_EQ(ended_by(fault, SIG_IGN), SIGSEGV);
	EXPECT_EQ(ended_by(send_to_itself, SIG_DFL), SIGSEGV);
	EXPECT_EQ(ended_by(send_to_itself, SIG_IGN), 0);
}

/*
 * Handlers beyond those that the guard can tell apart stay on top. Here they call the guard's, so
 * accesses are guarded all the same.
 */
static void install_many(uint8_t *gone)
{
	struct sigaction a = { .sa_sigaction = chain_first, .sa_flags = SA_SIGINFO };
	uint8_t byte;

	install(own_handler, NULL);
	renew();
	install(chain_first, &chain_before[0]);
	for (int i = 1; i < 20; i++) {
		sigaddset(&a.sa_mask, i); /* another action each time */
		REQUIRE(sigaction(SIGSEGV, &a, NULL) == 0);
		renew();
	}
	expect_own_fault(gone);
	chain_calls[0] = 0;
	if (!fault_guard.copy(&byte, gone, 1))
		abort();
}

TEST(test_vmm_04_any_number_of_handlers_comes_to_an_end)
{
	EXPECT_EQ(ended_by(install_many, SIG_DFL), SIGABRT);
}

/* A handler that serves once is gone after that. The guard is not. */
static void install_once(void)
{
	struct sigaction a = { .sa_sigaction = own_handler, .sa_flags = SA_SIGINFO | SA_RESETHAND };

	REQUIRE(sigaction(SIGSEGV, &a, NULL) == 0);
	renew();
}

static void access_after_once(uint8_t *gone)
{
	uint8_t byte;

	for (int i = 0; i < 3; i++) {
		install_once();
		expect_own_fault(gone);
		REQUIRE(!fault_guard.copy(&byte, gone, 1));
	}
	abort();
}

static void fault_after_once(uint8_t *gone)
{
	install_once();
	expect_own_fault(gone);
	if (sigsetjmp(own, 1) == 0)
		fault(gone);
}

static void close_after_once(uint8_t *gone)
{
	struct sigaction now;

	install_once();
	expect_own_fault(gone);
	guard_close();
	REQUIRE(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
	abort();
}

TEST(test_vmm_04_a_handler_that_serves_once_leaves_the_guard)
{
	EXPECT_EQ(ended_by(access_after_once, SIG_IGN), SIGABRT);
	EXPECT_EQ(ended_by(fault_after_once, SIG_IGN), SIGSEGV);
	EXPECT_EQ(ended_by(close_after_once, SIG_IGN), SIGABRT);
}
