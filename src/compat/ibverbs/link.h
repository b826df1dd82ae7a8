/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's RDMA netlink tells of a device and its one port, of ours. Plain data: also for
 * compat/sysfs, which asks a libibverbs that it finds at run time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LINK_NAME = 64, LINK_VERSION = 32, LINK_INTERFACE = 16 };

struct weftv_link {
	uint32_t index; /* no other device of the network namespace has it */
	uint32_t interface_index;
	uint64_t guid; /* in the processor's order */
	uint64_t capabilities;
	uint8_t node_type;	/* enum ibv_node_type */
	uint8_t state;		/* enum ibv_port_state */
	uint8_t physical_state; /* as ibv_port_attr has it */
	bool is_roce;
	char name[LINK_NAME];
	char version[LINK_VERSION];
	char interface[LINK_INTERFACE];
};

/*
 * The devices that are there now, in the order of ibv_get_device_list(); to be freed. How many, or
 * -errno.
 */
int weftv_links(struct weftv_link **links);
