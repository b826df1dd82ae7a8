/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever a program sends to RDMA netlink, the answers are messages, and none is too long. */
#include <linux/netlink.h>
#include <string.h>

#include "base/check.h"
#include "compat/sysfs/nldev.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int judge(struct nldev *n, const void *datagram, size_t bytes)
{
	const uint8_t *at = datagram;
	struct nlmsghdr head;

	CHECK(bytes > 0 && bytes <= NLDEV_ANSWER);
	while (bytes > 0) {
		CHECK(bytes >= sizeof(head));
		memcpy(&head, at, sizeof(head));
		CHECK(head.nlmsg_len >= sizeof(head) && head.nlmsg_len <= bytes);
		CHECK(head.nlmsg_len % NLMSG_ALIGNTO == 0 && head.nlmsg_pid == n->port);
		at += head.nlmsg_len;
		bytes -= head.nlmsg_len;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { DEVICES = 30 };
	static struct weftv_link links[DEVICES];
	struct nldev n = { .links = links, .count = DEVICES, .port = 1, .put = judge };

	for (uint32_t i = 0; i < DEVICES; i++) {
		links[i].index = i;
		memset(links[i].name, 'n', sizeof(links[i].name) - 1);
		memset(links[i].interface, 'i', i % sizeof(links[i].interface));
	}
	CHECK(nldev_answer(&n, data, size) == 0);
	return 0;
}
