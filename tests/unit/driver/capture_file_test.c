/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a capture: when it is written, whose it is, and what happens if it cannot be. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture_fixture.h"
#include "driver/observe/capture.h"
#include "test.h"

static uint8_t much[50000];

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

TEST(test_capture_flush_leaves_a_whole_file)
{
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	EXPECT_EQ(size_of(capture_path()), 0);
	capture_flush(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 3);
	reading_close(&r);
	capture_give(&s, true, much, sizeof(much));
	capture_flush(c);
	capture_flush(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 4);
	reading_close(&r);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 4);
	reading_close(&r);
	unlink(capture_path());
}

/* Written out as the buffer fills, always whole packets. */
TEST(test_capture_full_buffer_is_written)
{
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;

	for (int i = 1; i <= 30; i++) {
		capture_give(&s, true, much, sizeof(much) - (size_t)i);
		if (i == 5)
			EXPECT_EQ(size_of(capture_path()), 0);
		if (i < 6)
			continue;
		reading_open(&r, capture_path());
		EXPECT(r.count >= (size_t)i + 3 - 6);
		reading_close(&r);
	}
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 33);
	reading_close(&r);
	unlink(capture_path());
}

TEST(test_capture_file_that_cannot_be_made)
{
	char longest[PATH_MAX + 10];
	struct capture *c;

	EXPECT_EQ(capture_open("/no/such/directory/file", &c), -ENOENT);
	EXPECT_EQ(capture_open("/", &c), -EISDIR);
	memset(longest, 'x', sizeof(longest));
	longest[PATH_MAX - 1] = '\0';
	EXPECT_EQ(capture_open(longest, &c), -ENAMETOOLONG);
	longest[PATH_MAX - 1] = 'x';
	longest[PATH_MAX] = '\0';
	EXPECT_EQ(capture_open(longest, &c), -ENAMETOOLONG);
}

TEST(test_capture_path_names_the_process)
{
	char given[600], expanded[700];
	struct capture *c;
	struct reading r;
	struct stat st;

	snprintf(given, sizeof(given), "%s.%%p.%%%%p%%", capture_path());
	snprintf(expanded, sizeof(expanded), "%s.%ld.%%%ld%%", capture_path(), (long)getpid(),
		 (long)getpid());
	EXPECT_EQ(capture_open(given, &c), 0);
	capture_close(c);
	reading_open(&r, expanded);
	reading_close(&r);
	/* Other users must not read the captured packets. */
	EXPECT_EQ(stat(expanded, &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0600);
	unlink(expanded);
}

/* Two captures never mix in one file; one after the other begins anew. */
TEST(test_capture_file_has_one_writer)
{
	struct capture_stream s;
	struct capture *c = capture_begin(&s), *other;
	struct reading r;

	capture_give(&s, true, much, sizeof(much));
	capture_flush(c);
	EXPECT_EQ(capture_open(capture_path(), &other), -EBUSY);
	capture_close(c);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 4);
	reading_close(&r);
	EXPECT_EQ(capture_open(capture_path(), &other), 0);
	capture_close(other);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 0);
	reading_close(&r);
	unlink(capture_path());
}

TEST(test_capture_stays_with_the_parent)
{
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;
	const char *path = capture_path();
	int status;
	pid_t child = fork();

	if (child == 0) {
		capture_give(&s, true, much, sizeof(much));
		capture_flush(c);
		_exit(capture_error(c) == -EOWNERDEAD && size_of(path) == 0 ? 0 : 1);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	capture_close(c);
	reading_open(&r, path);
	EXPECT_EQ(r.count, 3);
	reading_close(&r);
	unlink(path);
}

/* ---- files that cannot be written ----------------------------------------------------------- */

TEST(test_capture_full_disk_stops_it)
{
	struct capture_ends ends = ends_ipv4(true);
	struct capture_stream s, late;
	struct capture *c;

	if (access("/dev/full", W_OK) != 0)
		SKIP("there is no /dev/full");
	EXPECT_EQ(capture_open("/dev/full", &c), 0);
	capture_stream_open(c, &s, &ends, 1);
	EXPECT_EQ(capture_error(c), 0);
	for (int i = 0; i < 10; i++)
		capture_give(&s, true, much, sizeof(much));
	EXPECT_EQ(capture_error(c), -ENOSPC);
	capture_give(&s, false, much, sizeof(much));
	capture_stream_open(c, &late, &ends, 1);
	capture_give(&late, true, much, sizeof(much));
	capture_stream_close(&s, true, false, 1);
	capture_stream_close(&s, true, true, 1);
	capture_flush(c);
	EXPECT_EQ(capture_error(c), -ENOSPC);
	capture_close(c);
}

static int signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* A file that may not grow: neither a signal, nor half a packet at its end. */
TEST(test_capture_file_at_its_limit)
{
	struct rlimit before, little;
	struct capture_stream s;
	struct capture *c = capture_begin(&s);
	struct reading r;
	int error;

	signals = 0;
	REQUIRE(signal(SIGXFSZ, count_signal) != SIG_ERR);
	REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
	little = before;
	little.rlim_cur = 60000;
	capture_flush(c);
	capture_give(&s, true, much, 10000);
	capture_flush(c);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
	for (int i = 0; i < 3; i++)
		capture_give(&s, true, much, sizeof(much));
	capture_flush(c);
	error = capture_error(c);
	capture_close(c);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
	REQUIRE(signal(SIGXFSZ, SIG_DFL) == count_signal);
	EXPECT_EQ(error, -EFBIG);
	EXPECT_EQ(signals, 0);
	reading_open(&r, capture_path());
	EXPECT_EQ(r.count, 4);
	reading_close(&r);
	unlink(capture_path());
}

/* A pipe whose reader went away, as when Wireshark reads along and is closed. */
TEST(test_capture_pipe_without_reader)
{
	struct capture *c;
	sigset_t pipe_only, before, pending;
	int reader, error;

	signals = 0;
	unlink(capture_path());
	REQUIRE(mkfifo(capture_path(), 0600) == 0);
	reader = open(capture_path(), O_RDONLY | O_NONBLOCK);
	REQUIRE(reader >= 0 && signal(SIGPIPE, count_signal) != SIG_ERR);
	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	close(reader);
	capture_flush(c);
	error = capture_error(c);
	capture_close(c);
	EXPECT_EQ(error, -EPIPE);
	EXPECT_EQ(signals, 0);

	/* A signal that is pending for the program itself stays pending. */
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
	reader = open(capture_path(), O_RDONLY | O_NONBLOCK);
	EXPECT_EQ(capture_open(capture_path(), &c), 0);
	close(reader);
	raise(SIGPIPE);
	capture_close(c);
	sigpending(&pending);
	EXPECT(sigismember(&pending, SIGPIPE));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	EXPECT_EQ(signals, 1);
	REQUIRE(signal(SIGPIPE, SIG_DFL) == count_signal);
	unlink(capture_path());
}
