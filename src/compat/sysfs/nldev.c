/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/sysfs/nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <string.h>

/* The one port of a device, as it is counted. */
enum { PORT = 1 };

/* ---- Requests -------------------------------------------------------------------------------- */

/* What a request may name. Other attributes are ignored, as the kernel does. */
struct ask {
	bool has_index, has_name, has_port;
	uint32_t index, port;
	char name[LINK_NAME];
};

static size_t aligned(size_t bytes)
{
	return (bytes + NLMSG_ALIGNTO - 1) & ~(size_t)(NLMSG_ALIGNTO - 1);
}

static bool take_number(uint32_t *to, const uint8_t *from, size_t bytes)
{
	if (bytes < sizeof(*to))
		return false;
	memcpy(to, from, sizeof(*to));
	return true;
}

/* It may end with a zero, and need not. */
static bool take_name(char to[LINK_NAME], const uint8_t *from, size_t bytes)
{
	const uint8_t *end = memchr(from, '\0', bytes);
	size_t length = end ? (size_t)(end - from) : bytes;

	if (length == 0 || length >= LINK_NAME)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

/* False: it is too short or too long for what it is. */
static bool take_attribute(struct ask *a, int type, const uint8_t *value, size_t bytes)
{
	switch (type) {
	case RDMA_NLDEV_ATTR_DEV_INDEX:
		return a->has_index = take_number(&a->index, value, bytes);
	case RDMA_NLDEV_ATTR_PORT_INDEX:
		return a->has_port = take_number(&a->port, value, bytes);
	case RDMA_NLDEV_ATTR_DEV_NAME:
		return a->has_name = take_name(a->name, value, bytes);
	default:
		return true;
	}
}

/* The attributes of a request, whose header is known. False: it is not well-formed. */
static bool take_attributes(struct ask *a, const uint8_t *at, size_t left)
{
	struct nlattr head;

	/* Bound: every attribute has a header. What is shorter fills up the last one. */
	while (left >= sizeof(head)) {
		memcpy(&head, at, sizeof(head));
		if (head.nla_len < sizeof(head) || head.nla_len > left)
			return false;
		if (!take_attribute(a, head.nla_type & NLA_TYPE_MASK, at + sizeof(head),
				    head.nla_len - sizeof(head)))
			return false;
		if (aligned(head.nla_len) >= left)
			return true;
		at += aligned(head.nla_len);
		left -= aligned(head.nla_len);
	}
	return true;
}

/* The device that a request names; NULL: there is none. */
static const struct weftv_link *find(const struct nldev *n, const struct ask *a)
{
	for (size_t i = 0; i < n->count; i++) {
		const struct weftv_link *l = &n->links[i];

		if (a->has_index ? l->index == a->index
				 : a->has_name && strcmp(l->name, a->name) == 0)
			return l;
	}
	return NULL;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* A datagram in the making. What does not fit leaves it full. */
struct answer {
	struct nldev *nldev;
	const struct nlmsghdr *to; /* the request */
	size_t used;
	size_t start; /* of the message that is being made */
	bool is_full;
	uint8_t bytes[NLDEV_ANSWER];
};

static void put_bytes(struct answer *a, const void *from, size_t bytes)
{
	size_t room = sizeof(a->bytes) - a->used;

	if (a->is_full || aligned(bytes) > room) {
		a->is_full = true;
		return;
	}
	memset(a->bytes + a->used, 0, aligned(bytes));
	if (bytes > 0)
		memcpy(a->bytes + a->used, from, bytes);
	a->used += aligned(bytes);
}

static void put_attribute(struct answer *a, int type, const void *value, size_t bytes)
{
	struct nlattr head = { .nla_len = (uint16_t)(sizeof(head) + bytes),
			       .nla_type = (uint16_t)type };

	put_bytes(a, &head, sizeof(head));
	put_bytes(a, value, bytes);
}

static void put_u8(struct answer *a, int type, uint8_t value)
{
	put_attribute(a, type, &value, sizeof(value));
}

static void put_u32(struct answer *a, int type, uint32_t value)
{
	put_attribute(a, type, &value, sizeof(value));
}

static void put_u64(struct answer *a, int type, uint64_t value)
{
	put_attribute(a, type, &value, sizeof(value));
}

static void put_text(struct answer *a, int type, const char *value)
{
	put_attribute(a, type, value, strlen(value) + 1);
}

/* The length is told by message_end(). */
static void message_begin(struct answer *a, int type, int flags)
{
	struct nlmsghdr head = {
		.nlmsg_type = (uint16_t)type,
		.nlmsg_flags = (uint16_t)flags,
		.nlmsg_seq = a->to->nlmsg_seq,
		.nlmsg_pid = a->nldev->port,
	};

	a->start = a->used;
	put_bytes(a, &head, sizeof(head));
}

/* False: it did not fit, and is not there. */
static bool message_end(struct answer *a)
{
	uint32_t bytes = (uint32_t)(a->used - a->start);

	if (a->is_full) {
		a->used = a->start;
		a->is_full = false;
		return false;
	}
	memcpy(a->bytes + a->start + offsetof(struct nlmsghdr, nlmsg_len), &bytes, sizeof(bytes));
	return true;
}

static int answer_send(struct answer *a)
{
	int error = a->used > 0 ? a->nldev->put(a->nldev, a->bytes, a->used) : 0;

	a->used = 0;
	return error;
}

/* ---- What is told ---------------------------------------------------------------------------- */

static void put_link(struct answer *a, const struct weftv_link *l)
{
	put_u32(a, RDMA_NLDEV_ATTR_DEV_INDEX, l->index);
	put_text(a, RDMA_NLDEV_ATTR_DEV_NAME, l->name);
	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
}

static void put_device(struct answer *a, const struct weftv_link *l)
{
	put_link(a, l);
	put_u64(a, RDMA_NLDEV_ATTR_CAP_FLAGS, l->capabilities);
	put_text(a, RDMA_NLDEV_ATTR_FW_VERSION, l->version);
	put_u64(a, RDMA_NLDEV_ATTR_NODE_GUID, l->guid);
	put_u64(a, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, l->guid);
	put_u8(a, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, l->node_type);
	put_u8(a, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	put_text(a, RDMA_NLDEV_ATTR_DEV_PROTOCOL,
		 l->is_in_fabric ? "ib"
		 : l->is_roce	 ? "roce"
				 : "iw");
}

/* The kernel tells LIDs, subnet and capabilities of ports of InfiniBand only, which none is. */
static void put_port(struct answer *a, const struct weftv_link *l)
{
	put_link(a, l);
	put_u8(a, RDMA_NLDEV_ATTR_PORT_STATE, l->state);
	put_u8(a, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, l->physical_state);
	put_u32(a, RDMA_NLDEV_ATTR_NDEV_INDEX, l->interface_index);
	put_text(a, RDMA_NLDEV_ATTR_NDEV_NAME, l->interface);
}

/*
 * A device is of its interface's network namespace and of no other. Registered memory is the
 * program's own, so a fork needs no precautions: the kernel calls that copy on fork.
 */
static void put_system(struct answer *a, const struct weftv_link *l)
{
	enum { EXCLUSIVE = 0, COPIES = 1 };

	(void)l;
	put_u8(a, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, EXCLUSIVE);
	put_u8(a, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, COPIES);
}

static int type_of(int command)
{
	return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
}

static int tell_one(struct answer *a, void (*put)(struct answer *a, const struct weftv_link *l),
		    const struct weftv_link *l)
{
	message_begin(a, a->to->nlmsg_type, 0);
	put(a, l);
	(void)message_end(a);
	return answer_send(a);
}

/* False: it did not fit. */
static bool put_end(struct answer *a, int result)
{
	message_begin(a, NLMSG_DONE, NLM_F_MULTI);
	put_bytes(a, &result, sizeof(result));
	return message_end(a);
}

/* Any number of devices, then the end, which says whether all was well. */
static int tell_all(struct answer *a, void (*put)(struct answer *a, const struct weftv_link *l),
		    const struct weftv_link *links, size_t count, int result)
{
	int error = 0;

	/* Bound: what does not fit behind others is alone the next time. */
	for (size_t i = 0; i < count && !error;) {
		message_begin(a, a->to->nlmsg_type, NLM_F_MULTI);
		put(a, &links[i]);
		if (message_end(a))
			i++;
		else
			error = answer_send(a);
	}
	if (!error && !put_end(a, result)) {
		error = answer_send(a);
		(void)put_end(a, result);
	}
	return error ? error : answer_send(a);
}

/* Says how a request went. Of the request it has the header only, whatever NETLINK_CAP_ACK says. */
static int tell_result(struct answer *a, int result)
{
	struct nlmsgerr body = { .error = result, .msg = *a->to };

	message_begin(a, NLMSG_ERROR, NLM_F_CAPPED);
	put_bytes(a, &body, sizeof(body));
	(void)message_end(a);
	return answer_send(a);
}

/* ---- One request ----------------------------------------------------------------------------- */

/* What an ask led to: an answer that says it all, or one that only NLM_F_ACK wants confirmed. */
struct outcome {
	int result;  /* of the request: 0 or -errno */
	int error;   /* what put() said */
	bool is_end; /* the answer has an end of its own */
};

static struct outcome tell_devices(struct answer *a, const struct ask *ask, bool is_dump)
{
	const struct weftv_link *l = find(a->nldev, ask);
	struct outcome o = { .is_end = is_dump };

	if (is_dump)
		o.error = tell_all(a, put_device, a->nldev->links, a->nldev->count, 0);
	else if (l)
		o.error = tell_one(a, put_device, l);
	else
		o.result = -EINVAL;
	return o;
}

static struct outcome tell_ports(struct answer *a, const struct ask *ask, bool is_dump)
{
	const struct weftv_link *l = find(a->nldev, ask);
	struct outcome o = { .is_end = is_dump };

	if (is_dump)
		o.error = tell_all(a, put_port, l, l ? 1 : 0, l ? 0 : -EINVAL);
	else if (l && ask->has_port && ask->port == PORT)
		o.error = tell_one(a, put_port, l);
	else
		o.result = -EINVAL;
	return o;
}

/* Its header is whole; bytes is what it has with it. 0, or what put() said. */
static int answer_one(struct nldev *n, const struct nlmsghdr *head, const uint8_t *body,
		      size_t bytes)
{
	struct answer a = { .nldev = n, .to = head };
	struct ask ask = { .has_index = false };
	bool is_dump = (head->nlmsg_flags & NLM_F_DUMP) != 0;
	struct outcome o = { .result = -EOPNOTSUPP };

	if (head->nlmsg_type < NLMSG_MIN_TYPE)
		o.result = 0; /* of netlink itself, which has nothing to ask */
	else if (!take_attributes(&ask, body, bytes))
		o.result = -EINVAL;
	else if (head->nlmsg_type == type_of(RDMA_NLDEV_CMD_GET))
		o = tell_devices(&a, &ask, is_dump);
	else if (head->nlmsg_type == type_of(RDMA_NLDEV_CMD_PORT_GET))
		o = tell_ports(&a, &ask, is_dump);
	else if (head->nlmsg_type == type_of(RDMA_NLDEV_CMD_SYS_GET))
		o = (struct outcome){ .error = tell_one(&a, put_system, NULL) };
	if (o.error || o.is_end || (o.result == 0 && !(head->nlmsg_flags & NLM_F_ACK)))
		return o.error;
	return tell_result(&a, o.result);
}

int nldev_answer(struct nldev *n, const void *requests, size_t bytes)
{
	const uint8_t *at = requests;
	struct nlmsghdr head;
	int error = 0;

	/* Bound: every request has a header. */
	while (!error && bytes >= sizeof(head)) {
		memcpy(&head, at, sizeof(head));
		if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > bytes)
			return 0; /* and no answer, as Linux has it */
		if (head.nlmsg_flags & NLM_F_REQUEST)
			error = answer_one(n, &head, at + sizeof(head),
					   head.nlmsg_len - sizeof(head));
		if (aligned(head.nlmsg_len) >= bytes)
			return error;
		at += aligned(head.nlmsg_len);
		bytes -= aligned(head.nlmsg_len);
	}
	return error;
}
