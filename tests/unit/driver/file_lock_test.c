/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that was killed while its disk is stuck: the next process that opens the file waits
 * until the last of its writes has ended. The disk is a file system that is frozen: what writes to
 * it waits and cannot be killed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/driver/store_run.h"

enum { BLOCK = 512, LOOP_BYTES = 8 << 20 };

static char folder[64], disk[100];
static int frozen = -1;

/* A test that fails leaves no process behind that cannot end. */
static void thaw_at_exit(void)
{
	if (frozen >= 0)
		(void)ioctl(frozen, FITHAW, 0);
}

/* A loop device on a file in the folder: a descriptor that keeps it, or -1. */
static int loop_open(char name[32])
{
	struct loop_config c = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, fd, err;
	char path[100];

	if (control < 0)
		return -1;
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	snprintf(name, 32, "/dev/loop%d", number);
	fd = number < 0 ? -1 : open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/image", folder);
	c.fd = (uint32_t)open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	err = ftruncate((int)c.fd, LOOP_BYTES) < 0 || ioctl(fd, LOOP_CONFIGURE, &c) < 0;
	close((int)c.fd);
	if (!err)
		return fd;
	close(fd);
	return -1;
}

/* A file system of its own; false: not to be had here. */
static bool disk_mount(int *loop)
{
	char name[32], command[120];

	store_folder_make(folder);
	snprintf(disk, sizeof(disk), "%s.disk", folder);
	*loop = loop_open(name);
	if (*loop >= 0) {
		snprintf(command, sizeof(command), "mkfs.ext4 -q -F %s >/dev/null 2>&1", name);
		if (system(command) == 0 && mkdir(disk, 0700) == 0) {
			if (mount(name, disk, "ext4", 0, NULL) == 0)
				return true;
			(void)rmdir(disk);
		}
		close(*loop);
	}
	store_folder_remove(folder);
	return false;
}

static void disk_unmount(int loop)
{
	REQUIRE(umount2(disk, 0) == 0);
	REQUIRE(rmdir(disk) == 0);
	close(loop);
	store_folder_remove(folder);
}

/* Writes when it is told to, which never ends. */
static void child(const char *text, int go, int ready)
{
	struct device_refusal why;
	uint8_t bytes[BLOCK];
	struct store_run run;
	struct device *d;

	if (device_open(text, &d, &why) != WEFT_OK)
		fprintf(stderr, "%s\n", why.text);
	if (why.reason != WEFT_OK || write(ready, "x", 1) != 1 || read(go, bytes, 1) != 1)
		_exit(1);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	memset(bytes, 7, sizeof(bytes));
	(void)store_run_op(&run, STORE_WRITE, 0, bytes, BLOCK);
	_exit(2);
}

/* Does some thread of the process wait where it cannot be killed? */
static bool is_stuck(pid_t pid)
{
	char path[64], line[400];
	struct dirent *entry;
	bool is_found = false;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		FILE *f;

		snprintf(line, sizeof(line), "%s/%s/stat", path, entry->d_name);
		f = fopen(line, "re");
		if (f && fgets(line, sizeof(line), f) && strrchr(line, ')'))
			is_found |= strrchr(line, ')')[2] == 'D';
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return is_found;
}

/* Beside the process that waits for it. */
static pid_t thaw(void)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(ioctl(frozen, FITHAW, 0) < 0);
	return pid;
}

static void play(const char *engine)
{
	char text[200];
	int go[2], ready[2], status;
	struct device_refusal why;
	uint8_t bytes[BLOCK];
	struct store_run run;
	struct device *d;
	uint64_t begin_ms;
	pid_t pid, thawer;

	frozen = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	REQUIRE(frozen >= 0 && pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0);
	snprintf(text, sizeof(text), "file:%s/disk,size=64k,%s", disk, engine);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		child(text, go[0], ready[1]);
	close(go[0]);
	close(ready[1]);
	REQUIRE(read(ready[0], bytes, 1) == 1);
	REQUIRE(ioctl(frozen, FIFREEZE, 0) == 0);
	REQUIRE(write(go[1], "x", 1) == 1);
	begin_ms = store_run_clock();
	while (!is_stuck(pid))
		REQUIRE(waitpid(pid, &status, WNOHANG) == 0 && store_run_may_wait(begin_ms));
	REQUIRE(kill(pid, SIGKILL) == 0);
	/* It is dead for its user, and its write is on the way. */
	REQUIRE(device_open(text, &d, &why) == WEFT_R_STORE_IN_USE);
	thawer = thaw();
	snprintf(text, sizeof(text), "file:%s/disk,wait=60s", disk);
	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	run = (struct store_run){ device_store(d), device_descriptor(d), 0 };
	/* The old write has landed or never will: it does not undo what is written now. */
	REQUIRE(!is_stuck(pid));
	memset(bytes, 9, sizeof(bytes));
	REQUIRE(store_run_op(&run, STORE_WRITE, 0, bytes, BLOCK) == WEFT_OK);
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	REQUIRE(store_run_op(&run, STORE_READ, 0, bytes, BLOCK) == WEFT_OK);
	REQUIRE(bytes[0] == 9);
	device_close(d);
	REQUIRE(waitpid(thawer, &status, 0) == thawer && status == 0);
	close(go[1]);
	close(ready[0]);
	close(frozen);
	frozen = -1;
	snprintf(text, sizeof(text), "%s/disk", disk);
	REQUIRE(unlink(text) == 0);
}

TEST(test_file_store_waits_for_the_writes_of_a_killed_process)
{
	int loop;

	if (!disk_mount(&loop))
		SKIP("a file system cannot be mounted here");
	REQUIRE(atexit(thaw_at_exit) == 0);
	play("threads");
	if (store_has_uring())
		play("uring");
	disk_unmount(loop);
}
