/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "driver/sys/clock.h"

/* An access that is under way in a thread. */
struct access {
	jmp_buf missing;
	uintptr_t first, second; /* two ranges, */
	uint64_t length;	 /* each of that length */
};

static _Thread_local struct access *volatile current __attribute__((tls_model("initial-exec")));

/* Whether this thread lets the signals through: blocked, a fault would end the process. */
static _Thread_local bool has_unblocked __attribute__((tls_model("initial-exec")));

/*
 * Memory of a process normally lies below usual_end. For a non-canonical address x86-64 reports no
 * fault address, and a sanitizer faults elsewhere; so the kernel copies ranges above usual_end.
 * arm64 ignores the top byte of an address, so nothing above high_end is accessed.
 */
static atomic_uint_fast64_t usual_end = UINT64_C(1) << 47;
static const uint64_t high_end = UINT64_C(1) << 55;

/* Accesses that were left because memory was missing. */
static atomic_uint_fast64_t faults;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users; /* guarded by the lock */

/* How often to look whether the program has installed handlers of its own, and the last look. */
static const uint64_t renew_ns = UINT64_C(100) * 1000 * 1000;
static atomic_uint_fast64_t looked_ns;

static const int signals[] = { SIGSEGV, SIGBUS };

enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

/*
 * The handler has several entries, which differ only in the action of the program that each was
 * installed over and passes on to. The program may hold the address of any: a handler of its own
 * that was installed over an entry may call it, and may be taken away by putting it back. So an
 * entry keeps its action for good. A handler reads it without the lock: it was written before the
 * entry was installed.
 */
enum { ENTRIES = 16 };

static struct sigaction before[SIGNALS][ENTRIES];
static int used[SIGNALS]; /* entries that have an action; guarded by the lock */

/* Handlers that serve once (SA_RESETHAND) and have: the action is SIG_DFL until it is set anew. */
static atomic_bool is_spent[SIGNALS][ENTRIES];

/* ---- The handler ---------------------------------------------------------------------------- */

static bool is_part(uintptr_t at, uintptr_t start, uint64_t length)
{
	return at - start < length;
}

/* Whether the access met a missing page. */
static bool is_missing(const struct access *a, const siginfo_t *info)
{
	uintptr_t at = (uintptr_t)info->si_addr;

	return info->si_code > 0 &&
	       (is_part(at, a->first, a->length) || is_part(at, a->second, a->length));
}

static void end_by_default(int number)
{
	struct sigaction none = { .sa_handler = SIG_DFL };

	(void)sigaction(number, &none, NULL);
}

/* As the kernel calls a handler: with the signals blocked that its action names. */
static void call_handler(const struct sigaction *a, int number, siginfo_t *info, void *context)
{
	sigset_t mask = a->sa_mask, was;

	if (!(a->sa_flags & SA_NODEFER))
		sigaddset(&mask, number);
	pthread_sigmask(SIG_BLOCK, &mask, &was);
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(number, info, context);
	else
		a->sa_handler(number);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

static bool is_handler(const struct sigaction *a)
{
	return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
}

/* As the kernel does: of threads that fault at a time, one gets a handler that serves once. */
static struct sigaction take_action(int i, int entry)
{
	struct sigaction a = before[i][entry];

	if (is_handler(&a) && (a.sa_flags & SA_RESETHAND) &&
	    atomic_exchange(&is_spent[i][entry], true))
		a.sa_handler = SIG_DFL;
	return a;
}

/* Not ours: as if this handler were not there. */
static void pass_on(int entry, int number, siginfo_t *info, void *context)
{
	struct sigaction a = take_action(number == SIGBUS, entry);
	bool is_sent = info->si_code <= 0; /* by a process: what interrupted does not fault again */

	if (is_handler(&a)) {
		call_handler(&a, number, info, context);
		return;
	}
	if (is_sent && a.sa_handler == SIG_IGN)
		return;
	end_by_default(number);
	if (is_sent)
		(void)raise(number);
}

static _Noreturn void leave(struct access *a)
{
	longjmp(a->missing, 1);
}

/*
 * The thread goes on in leave(), as if the access had called it, when the handler returns. The
 * kernel then gives it back what the handler does not have: its signal mask, alternate stack,
 * protection keys and modes of floating point.
 */
static void go_on_in_leave(struct access *a, ucontext_t *context)
{
	mcontext_t *m = &context->uc_mcontext;
#if defined(__x86_64__)
	enum { RED_ZONE = 128, DIRECTION = 0x400 };

	m->gregs[REG_RSP] = ((m->gregs[REG_RSP] - RED_ZONE) & -16) - 8;
	m->gregs[REG_EFL] &= ~DIRECTION;
	m->gregs[REG_RDI] = (greg_t)(uintptr_t)a;
	m->gregs[REG_RIP] = (greg_t)(uintptr_t)leave;
#elif defined(__aarch64__)
	m->sp &= -UINT64_C(16);
	m->regs[0] = (uintptr_t)a;
	m->pc = (uintptr_t)leave;
#else
#error "the registers of this processor are not known"
#endif
}

static void on_fault(int entry, int number, siginfo_t *info, void *context)
{
	struct access *a = current;

	if (a && is_missing(a, info)) {
		current = NULL;
		atomic_fetch_add(&faults, 1);
		go_on_in_leave(a, context);
		return;
	}
	/* The program's handler may never return. */
	current = NULL;
	pass_on(entry, number, info, context);
	current = a;
}

/* Each is a function of its own address. */
#define ENTRY(n)                                                                                   \
	static void entry_##n(int number, siginfo_t *info, void *context)                          \
	{                                                                                          \
		on_fault(n, number, info, context);                                                \
	}

ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)
ENTRY(6)
ENTRY(7)
ENTRY(8)
ENTRY(9)
ENTRY(10)
ENTRY(11)
ENTRY(12)
ENTRY(13)
ENTRY(14)
ENTRY(15)

static void (*const entries[ENTRIES])(int, siginfo_t *, void *) = {
	entry_0, entry_1, entry_2,  entry_3,  entry_4,	entry_5,  entry_6,  entry_7,
	entry_8, entry_9, entry_10, entry_11, entry_12, entry_13, entry_14, entry_15,
};

/* ---- Its installation ----------------------------------------------------------------------- */

static const int our_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;

/* ENTRIES: it is the program's. signal() installs an entry without our flags. */
static int entry_of(const struct sigaction *a)
{
	int entry = 0;

	while (entry < ENTRIES && a->sa_sigaction != entries[entry])
		entry++;
	return entry;
}

/* The C library sets only so much of a mask as there are signals. */
static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
	bool is_same = a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;

	if (!is_handler(a))
		return a->sa_handler == b->sa_handler;
	for (int number = 1; is_same && number < NSIG; number++)
		is_same = sigismember(&a->sa_mask, number) == sigismember(&b->sa_mask, number);
	return is_same;
}

/* With the lock. The entry that passes on to this action; ENTRIES: none is left for it. */
static int entry_over(int i, const struct sigaction *a)
{
	int entry = 0;

	while (entry < used[i] && !is_same(a, &before[i][entry]))
		entry++;
	if (entry == used[i] && entry < ENTRIES)
		before[i][used[i]++] = *a;
	if (entry < ENTRIES)
		atomic_store(&is_spent[i][entry], false);
	return entry;
}

/* With the lock. */
static void install(int i)
{
	struct sigaction now, ours = { .sa_flags = our_flags };
	int entry;

	if (sigaction(signals[i], NULL, &now) < 0)
		return;
	entry = entry_of(&now);
	if (entry < ENTRIES && (now.sa_flags & our_flags) == our_flags)
		return;
	if (entry == ENTRIES)
		entry = entry_over(i, &now);
	if (entry == ENTRIES)
		return;
	ours.sa_sigaction = entries[entry];
	sigemptyset(&ours.sa_mask);
	(void)sigaction(signals[i], &ours, NULL);
}

/* With the lock. A handler that was installed over ours may call ours: then ours stays. */
static void uninstall(int i)
{
	struct sigaction now;
	int entry;

	if (sigaction(signals[i], NULL, &now) < 0)
		return;
	entry = entry_of(&now);
	if (entry == ENTRIES)
		return;
	now = before[i][entry];
	if (atomic_load(&is_spent[i][entry]))
		now.sa_handler = SIG_DFL;
	(void)sigaction(signals[i], &now, NULL);
}

/* With the lock. */
static void install_all(uint64_t now_ns)
{
	for (int i = 0; i < SIGNALS; i++)
		install(i);
	atomic_store(&looked_ns, now_ns);
}

/* Another thread's look may be later than this thread's time. */
static bool is_look_due(uint64_t now_ns)
{
	return now_ns >= atomic_load(&looked_ns) + renew_ns;
}

void guard_renew(uint64_t now_ns)
{
	if (!is_look_due(now_ns))
		return;
	pthread_mutex_lock(&lock);
	if (users > 0 && is_look_due(now_ns))
		install_all(now_ns);
	pthread_mutex_unlock(&lock);
}

uint64_t guard_faults(void)
{
	return atomic_load(&faults);
}

/* With the lock. The kernel puts the first thread's stack last, with the bytes of AT_RANDOM. */
static void find_usual_end(void)
{
	uint64_t stack = getauxval(AT_RANDOM);

	while (stack > atomic_load(&usual_end) && atomic_load(&usual_end) < high_end)
		atomic_store(&usual_end, 2 * atomic_load(&usual_end));
}

void guard_open(void)
{
	pthread_mutex_lock(&lock);
	find_usual_end();
	users++;
	install_all(clock_ns());
	pthread_mutex_unlock(&lock);
}

void guard_close(void)
{
	pthread_mutex_lock(&lock);
	if (--users == 0) {
		for (int i = 0; i < SIGNALS; i++)
			uninstall(i);
	}
	pthread_mutex_unlock(&lock);
}

void guard_lock(void)
{
	pthread_mutex_lock(&lock);
}

void guard_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void guard_lock_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	guard_lock();
}

/* ---- Guarded access ------------------------------------------------------------------------- */

static void let_through(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < SIGNALS; i++)
		sigaddset(&set, signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	has_unblocked = true;
}

/* The stores to `current` are volatile: the compiler may move the access across neither. */
static void begin(struct access *a)
{
	if (!has_unblocked)
		let_through();
	current = a;
	atomic_signal_fence(memory_order_seq_cst);
}

static void end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	current = NULL;
}

/* The thread sanitizer cannot be left by a jump: with it, the kernel copies. */
static const bool is_by_kernel = WEFT_CALLS_LIBRARY;

static bool copy_by_kernel(void *to, const void *from, uint64_t length)
{
	struct iovec ours = { to, length }, others = { (void *)(uintptr_t)from, length };
	int error = errno;
	ssize_t n = process_vm_readv(getpid(), &ours, 1, &others, 1, 0);

	errno = error;
	return n >= 0 && (uint64_t)n == length;
}

/* Whether the kernel can read them. */
static bool is_there(const void *bytes, uint64_t length)
{
	uint8_t copy[4096];

	for (uint64_t at = 0; at < length; at += sizeof(copy)) {
		uint64_t left = length - at;

		if (!copy_by_kernel(copy, (const uint8_t *)bytes + at,
				    left < sizeof(copy) ? left : sizeof(copy)))
			return false;
	}
	return true;
}

static bool ends_above(const void *start, uint64_t length, uint64_t limit)
{
	return length > limit || (uintptr_t)start > limit - length;
}

static bool is_unusual(const void *start, uint64_t length)
{
	return is_by_kernel || ends_above(start, length, atomic_load(&usual_end));
}

static bool guard_copy(void *to, const void *from, uint64_t length)
{
	struct access a;

	if (ends_above(to, length, high_end) || ends_above(from, length, high_end))
		return false;
	if (is_unusual(to, length) || is_unusual(from, length))
		return copy_by_kernel(to, from, length);
	a.first = (uintptr_t)to;
	a.second = (uintptr_t)from;
	a.length = length;
	if (setjmp(a.missing))
		return false;
	begin(&a);
	memmove(to, from, length);
	end();
	return true;
}

static bool guard_run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	struct access a;

	if (ends_above(bytes, length, high_end) ||
	    (is_unusual(bytes, length) && !is_there(bytes, length)))
		return false;
	a.first = a.second = (uintptr_t)bytes;
	a.length = length;
	if (setjmp(a.missing))
		return false;
	begin(&a);
	work(argument);
	end();
	return true;
}

const struct mem_guard fault_guard = { .copy = guard_copy, .run = guard_run };
