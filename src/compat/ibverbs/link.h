/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's RDMA netlink would report of our device and its one port. Plain data, as
 * compat/sysfs gets it from a libibverbs that it finds at run time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LINK_NAME = 64, LINK_VERSION = 32, LINK_INTERFACE = 16 };

struct weftv_link {
	uint32_t index; /* unique in the network namespace */
	uint32_t interface_index;
	uint64_t guid; /* in host byte order */
	uint64_t capabilities;
	uint8_t node_type;	/* enum ibv_node_type */
	uint8_t state;		/* enum ibv_port_state */
	uint8_t physical_state; /* as in ibv_port_attr */
	bool is_roce, is_in_fabric;
	char name[LINK_NAME];
	char version[LINK_VERSION];
	char interface[LINK_INTERFACE];
};

/*
 * The present devices, in the order of ibv_get_device_list(); the caller frees the list. Returns
 * their number, or -errno.
 */
int weftv_links(struct weftv_link **links);
