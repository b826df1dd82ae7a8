/* SPDX-License-Identifier: BSD-2-Clause */
#include "process_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "child.h"

enum { BYTES_MAX = 4096 };

/* The child is a copy of this process: its bytes lie at the same address. */
static uint8_t bytes[BYTES_MAX];

static int wait_for_end(void *context)
{
	(void)context;
	for (;;)
		(void)pause();
	return 0;
}

static bool write_all(pid_t pid, uint32_t size, uint32_t count)
{
	const struct iovec here = { bytes, size };

	for (uint32_t i = 0; i < count; i++) {
		if (process_vm_writev(pid, &here, 1, &here, 1, 0) != (ssize_t)size)
			return false;
	}
	return true;
}

static bool latency(struct net_figure *f, const struct net_ask *ask)
{
	struct child c;
	uint64_t start_ns, end_ns;
	bool is_written;

	memset(bytes, 1, sizeof(bytes));
	if (ask->size_bytes > BYTES_MAX || child_fork(&c, wait_for_end, NULL) < 0) {
		snprintf(f->why, sizeof(f->why), "no child for %u bytes", ask->size_bytes);
		return false;
	}
	is_written = write_all(c.pid, ask->size_bytes, ask->warm_count + 1);
	start_ns = child_clock_ns();
	is_written = is_written && write_all(c.pid, ask->size_bytes, ask->count);
	end_ns = child_clock_ns();
	if (!is_written)
		snprintf(f->why, sizeof(f->why), "process_vm_writev: %s", strerror(errno));
	child_kill(&c);
	f->value = (double)(end_ns - start_ns) / ask->count;
	snprintf(f->how, sizeof(f->how), "process_vm_writev() of %u bytes to a child, %u times",
		 ask->size_bytes, ask->count);
	return is_written;
}

const struct net_peer process_peer = {
	.name = "process",
	.title = "process_vm_writev()",
	.latency = latency,
};
