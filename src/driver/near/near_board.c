/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near_board.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/sys/calls.h"
#include "driver/sys/memory_file.h"

enum { SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* The version of this memory: "wfB2", and what it is made of. */
static const uint64_t magic = UINT64_C(0x77664232) << 32 | sizeof(struct near_board);

static void *memory_make(size_t bytes, bool is_read_only, int *fd)
{
	const int seals = SIZE_SEALS | (is_read_only ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
	void *at;

	*fd = memory_file_make(bytes);
	if (*fd < 0)
		return NULL;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (at != MAP_FAILED && fcntl(*fd, F_ADD_SEALS, seals) == 0 &&
	    madvise(at, bytes, MADV_DONTFORK) == 0)
		return at;
	if (at != MAP_FAILED)
		(void)munmap(at, bytes);
	call_close(*fd);
	*fd = -1;
	return NULL;
}

bool near_shown_open(struct near_shown *s, enum weft_policy policy, int thread_number)
{
	*s = (struct near_shown){ .board_fd = -1, .marks_fd = -1 };
	if (getrandom(&s->token, sizeof(s->token), 0) != sizeof(s->token))
		return false;
	s->board = memory_make(sizeof(*s->board), true, &s->board_fd);
	if (!s->board)
		return false;
	s->marks = memory_make(sizeof(*s->marks), false, &s->marks_fd);
	if (!s->marks) {
		near_shown_close(s);
		return false;
	}
	s->board->token = s->token;
	s->board->token_addr = (uintptr_t)&s->token;
	s->board->policy = policy;
	s->board->thread_number = thread_number;
	s->board->magic = magic;
	return true;
}

void near_shown_abandon(struct near_shown *s)
{
	if (s->board_fd >= 0)
		call_close(s->board_fd);
	if (s->marks_fd >= 0)
		call_close(s->marks_fd);
	*s = (struct near_shown){ .board_fd = -1, .marks_fd = -1 };
}

void near_shown_close(struct near_shown *s)
{
	if (s->board)
		(void)munmap(s->board, sizeof(*s->board));
	if (s->marks)
		(void)munmap(s->marks, sizeof(*s->marks));
	near_shown_abandon(s);
}

/* NULL: it is not what it should be. */
static void *memory_map(int fd, size_t bytes, int rights)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *at;

	if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS || fstat(fd, &st) < 0 ||
	    st.st_size != (off_t)bytes)
		return NULL;
	at = mmap(NULL, bytes, rights, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	(void)madvise(at, bytes, MADV_DONTFORK);
	return at;
}

/* Not by the C library: a sanitizer would look at memory of the other process in its own. */
int near_seen_move(const struct near_seen *s, uint64_t addr, void *bytes, size_t length,
		   bool is_write)
{
	const struct iovec local = { bytes, length };
	const struct iovec remote = { (void *)(uintptr_t)addr, length };
	ssize_t moved = syscall(is_write ? SYS_process_vm_writev : SYS_process_vm_readv,
				(long)s->number, &local, 1L, &remote, 1L, 0L);

	return moved == (ssize_t)length ? 0 : moved < 0 ? errno : EFAULT;
}

/*
 * The thread is one of the process, but not its first, which has the number of the process. It has
 * the token where its board says: it is the one, and lets us.
 */
static bool is_process(const struct near_seen *s, pid_t pid)
{
	uint64_t token = 0;

	return s->board->magic == magic && s->number != pid &&
	       syscall(SYS_tgkill, (long)pid, (long)s->number, 0L) == 0 &&
	       near_seen_move(s, s->board->token_addr, &token, sizeof(token), false) == 0 &&
	       token == s->board->token;
}

bool near_seen_open(struct near_seen *s, const int fds[2], pid_t pid)
{
	*s = (struct near_seen){ 0 };
	if (pid <= 0)
		return false;
	s->board = memory_map(fds[0], sizeof(*s->board), PROT_READ);
	s->marks = memory_map(fds[1], sizeof(*s->marks), PROT_READ | PROT_WRITE);
	s->number = s->board ? s->board->thread_number : 0;
	if (s->board && s->marks && is_process(s, pid))
		return true;
	near_seen_close(s);
	return false;
}

void near_seen_close(struct near_seen *s)
{
	if (s->board)
		(void)munmap((void *)(uintptr_t)s->board, sizeof(*s->board));
	if (s->marks)
		(void)munmap(s->marks, sizeof(*s->marks));
	*s = (struct near_seen){ 0 };
}
