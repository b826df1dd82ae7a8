/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/turns.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The shortest time slice that the kernel's scheduler knows. */
static const uint64_t turn_ns = 100 * 1000;

/* The kernel's struct sched_attr, whose header cannot be included beside the library's. */
struct turns {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

void turns_ask_short(void)
{
	struct turns attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != SCHED_OTHER)
		return;
	attr.runtime_ns = turn_ns;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
