/* SPDX-License-Identifier: BSD-2-Clause */
/* What RDMA netlink says of devices, to whom it may concern, and to requests that are none. */
#include "compat/sysfs/nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { ASKER = 4321, SEQUENCE = 77, DEVICES = 40, MESSAGES_MAX = 64 };

/* One of an answer. */
struct message {
	struct nlmsghdr head;
	uint8_t body[512];
	size_t bytes;
};

/* All that was put, taken apart. */
struct heard {
	struct nldev nldev;
	struct weftv_link links[DEVICES];
	struct message messages[MESSAGES_MAX];
	size_t count;
	size_t datagrams;
	size_t datagrams_max; /* then there is no room */
	size_t longest;
};

static int hear(struct nldev *n, const void *datagram, size_t bytes)
{
	struct heard *h = (struct heard *)(void *)n;
	const uint8_t *at = datagram;

	if (h->datagrams == h->datagrams_max)
		return -ENOBUFS;
	h->datagrams++;
	h->longest = bytes > h->longest ? bytes : h->longest;
	while (bytes > 0) {
		struct message *m = &h->messages[h->count++];

		REQUIRE(h->count < MESSAGES_MAX && bytes >= sizeof(m->head));
		memcpy(&m->head, at, sizeof(m->head));
		REQUIRE(m->head.nlmsg_len >= sizeof(m->head) && m->head.nlmsg_len <= bytes &&
			m->head.nlmsg_len % NLMSG_ALIGNTO == 0);
		m->bytes = m->head.nlmsg_len - sizeof(m->head);
		REQUIRE(m->bytes <= sizeof(m->body));
		memcpy(m->body, at + sizeof(m->head), m->bytes);
		at += m->head.nlmsg_len;
		bytes -= m->head.nlmsg_len;
	}
	return 0;
}

static void devices_make(struct heard *h, size_t count)
{
	memset(h, 0, sizeof(*h));
	h->nldev = (struct nldev){ .links = h->links, .count = count, .port = ASKER, .put = hear };
	h->datagrams_max = SIZE_MAX;
	for (uint32_t i = 0; i < count; i++) {
		struct weftv_link *l = &h->links[i];

		*l = (struct weftv_link){ .index = i + 1,
					  .interface_index = 7,
					  .guid = UINT64_C(0x0200112233445500) + i,
					  .capabilities = UINT64_C(1) << 40 | 1,
					  .node_type = i % 2 ? 4 : 1,
					  .state = 4,
					  .physical_state = 5,
					  .is_roce = i % 2 == 0,
					  .version = "0.1.0",
					  .interface = "eth0" };
		snprintf(l->name, sizeof(l->name), "%s_eth%u", l->is_roce ? "roce" : "iw", i / 2);
	}
}

/* ---- Requests -------------------------------------------------------------------------------- */

struct request {
	uint8_t bytes[256];
	size_t used;
};

static struct request ask(int command, int flags)
{
	struct nlmsghdr head = { .nlmsg_len = sizeof(head),
				 .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
				 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
				 .nlmsg_seq = SEQUENCE };
	struct request r = { .used = sizeof(head) };

	memcpy(r.bytes, &head, sizeof(head));
	return r;
}

static void length_set(struct request *r, uint32_t length)
{
	memcpy(r->bytes, &length, sizeof(length));
}

/* With the length that it says, whatever follows. */
static void attribute_add(struct request *r, int type, const void *value, size_t bytes)
{
	struct nlattr head = { .nla_len = (uint16_t)(sizeof(head) + bytes),
			       .nla_type = (uint16_t)type };

	memcpy(r->bytes + r->used, &head, sizeof(head));
	memcpy(r->bytes + r->used + sizeof(head), value, bytes);
	r->used += sizeof(head) + ((bytes + 3) & ~(size_t)3);
	length_set(r, (uint32_t)r->used);
}

static void number_add(struct request *r, int type, uint32_t value)
{
	attribute_add(r, type, &value, sizeof(value));
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The value of an attribute; NULL: it has none, or one of another length. */
static const void *value_of(const struct message *m, int type, size_t bytes)
{
	size_t at = 0;

	while (at + sizeof(struct nlattr) <= m->bytes) {
		struct nlattr head;

		memcpy(&head, m->body + at, sizeof(head));
		REQUIRE(head.nla_len >= sizeof(head) && head.nla_len <= m->bytes - at);
		if (head.nla_type == type)
			return head.nla_len == sizeof(head) + bytes ? m->body + at + sizeof(head)
								    : NULL;
		at += (head.nla_len + 3U) & ~3U;
	}
	return NULL;
}

static uint64_t number_of(const struct message *m, int type, size_t bytes)
{
	const void *value = value_of(m, type, bytes);
	uint64_t number = 0;

	REQUIRE(value != NULL && bytes <= sizeof(number));
	memcpy(&number, value, bytes); /* the lowest byte comes first on both processors */
	return number;
}

static bool says(const struct message *m, int type, const char *text)
{
	const char *value = value_of(m, type, strlen(text) + 1);

	return value && strcmp(value, text) == 0;
}

/* Of an NLMSG_ERROR or NLMSG_DONE. */
static int result_of(const struct message *m)
{
	int result;

	REQUIRE(m->bytes >= sizeof(result));
	memcpy(&result, m->body, sizeof(result));
	return result;
}

static bool is_from_kernel_to_asker(const struct message *m)
{
	return m->head.nlmsg_seq == SEQUENCE && m->head.nlmsg_pid == ASKER;
}

static void expect_only_error(const struct heard *h, int result)
{
	struct nlmsghdr of;

	EXPECT_EQ(h->count, 1);
	EXPECT_EQ(h->messages[0].head.nlmsg_type, NLMSG_ERROR);
	EXPECT_EQ(result_of(&h->messages[0]), result);
	EXPECT_EQ(h->messages[0].bytes, sizeof(struct nlmsgerr));
	EXPECT(h->messages[0].head.nlmsg_flags & NLM_F_CAPPED);
	EXPECT(is_from_kernel_to_asker(&h->messages[0]));
	memcpy(&of, h->messages[0].body + sizeof(int), sizeof(of));
	EXPECT_EQ(of.nlmsg_seq, SEQUENCE);
}

static void answered(struct heard *h, const struct request *r, size_t devices)
{
	devices_make(h, devices);
	EXPECT_EQ(nldev_answer(&h->nldev, r->bytes, r->used), 0);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

TEST(test_nldev_dump_has_all_devices_and_an_end)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK);
	static struct heard h;
	const struct message *m;

	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 3);
	EXPECT_EQ(h.messages[2].head.nlmsg_type, NLMSG_DONE);
	EXPECT_EQ(result_of(&h.messages[2]), 0);
	for (m = h.messages; m < h.messages + 3; m++)
		EXPECT((m->head.nlmsg_flags & NLM_F_MULTI) && is_from_kernel_to_asker(m));
	m = &h.messages[1];
	EXPECT_EQ(m->head.nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_DEV_INDEX, 4), 2);
	EXPECT(says(m, RDMA_NLDEV_ATTR_DEV_NAME, "iw_eth0"));
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_PORT_INDEX, 4), 1);
	EXPECT(number_of(m, RDMA_NLDEV_ATTR_CAP_FLAGS, 8) == (UINT64_C(1) << 40 | 1));
	EXPECT(says(m, RDMA_NLDEV_ATTR_FW_VERSION, "0.1.0"));
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_NODE_GUID, 8), 0x0200112233445501);
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, 8), 0x0200112233445501);
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, 1), RDMA_NODE_RNIC);
	EXPECT(says(m, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "iw"));
	EXPECT(says(&h.messages[0], RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce"));
}

TEST(test_nldev_dump_of_many_takes_several_datagrams)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	static struct heard h;

	answered(&h, &r, DEVICES);
	EXPECT_EQ(h.count, DEVICES + 1);
	EXPECT(h.datagrams > 1 && h.longest <= NLDEV_ANSWER);
	for (uint32_t i = 0; i < DEVICES; i++)
		EXPECT_EQ(number_of(&h.messages[i], RDMA_NLDEV_ATTR_DEV_INDEX, 4), i + 1);
	EXPECT_EQ(h.messages[DEVICES].head.nlmsg_type, NLMSG_DONE);
	answered(&h, &r, 0);
	EXPECT_EQ(h.count, 1);
	EXPECT_EQ(h.messages[0].head.nlmsg_type, NLMSG_DONE);
}

TEST(test_nldev_no_room_ends_the_answer)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	static struct heard h;

	devices_make(&h, DEVICES);
	h.datagrams_max = 1;
	EXPECT_EQ(nldev_answer(&h.nldev, r.bytes, r.used), -ENOBUFS);
	EXPECT_EQ(h.datagrams, 1);
}

TEST(test_nldev_device_by_index_or_name_and_confirmed_if_asked)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	static struct heard h;

	number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 2);
	EXPECT(says(&h.messages[0], RDMA_NLDEV_ATTR_DEV_NAME, "roce_eth0"));
	EXPECT_EQ(h.messages[0].head.nlmsg_flags, 0);
	EXPECT_EQ(h.messages[1].head.nlmsg_type, NLMSG_ERROR);
	EXPECT_EQ(result_of(&h.messages[1]), 0);
	r = ask(RDMA_NLDEV_CMD_GET, 0);
	attribute_add(&r, RDMA_NLDEV_ATTR_DEV_NAME, "iw_eth0", sizeof("iw_eth0"));
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 1);
	EXPECT_EQ(number_of(&h.messages[0], RDMA_NLDEV_ATTR_DEV_INDEX, 4), 2);
}

TEST(test_nldev_port_of_a_device)
{
	struct request r = ask(RDMA_NLDEV_CMD_PORT_GET, 0);
	static struct heard h;
	const struct message *m = &h.messages[0];

	number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 2);
	number_add(&r, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 1);
	EXPECT(says(m, RDMA_NLDEV_ATTR_DEV_NAME, "iw_eth0"));
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_PORT_STATE, 1), 4);
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 1), 5);
	EXPECT_EQ(number_of(m, RDMA_NLDEV_ATTR_NDEV_INDEX, 4), 7);
	EXPECT(says(m, RDMA_NLDEV_ATTR_NDEV_NAME, "eth0"));
	/* As Linux has it on Ethernet. */
	EXPECT(!value_of(m, RDMA_NLDEV_ATTR_LID, 4) && !value_of(m, RDMA_NLDEV_ATTR_LMC, 1));
}

TEST(test_nldev_ports_of_a_device_dumped)
{
	struct request r = ask(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP);
	static struct heard h;

	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 1);
	EXPECT_EQ(h.messages[0].head.nlmsg_type, NLMSG_DONE);
	EXPECT_EQ(result_of(&h.messages[0]), -EINVAL);
	number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 2);
	EXPECT(says(&h.messages[0], RDMA_NLDEV_ATTR_DEV_NAME, "roce_eth0"));
	EXPECT_EQ(result_of(&h.messages[1]), 0);
}

TEST(test_nldev_system_is_exclusive_and_copies_on_fork)
{
	struct request r = ask(RDMA_NLDEV_CMD_SYS_GET, 0);
	static struct heard h;

	answered(&h, &r, 0);
	EXPECT_EQ(h.count, 1);
	EXPECT_EQ(number_of(&h.messages[0], RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1), 0);
	EXPECT_EQ(number_of(&h.messages[0], RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1), 1);
}

TEST(test_nldev_refuses_what_there_is_not)
{
	static struct heard h;
	struct request r = ask(RDMA_NLDEV_CMD_GET, 0);

	answered(&h, &r, 2); /* which device? */
	expect_only_error(&h, -EINVAL);
	number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 3);
	answered(&h, &r, 2);
	expect_only_error(&h, -EINVAL);
	for (uint32_t port = 0; port < 3; port += 2) {
		r = ask(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK);
		number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
		number_add(&r, RDMA_NLDEV_ATTR_PORT_INDEX, port);
		answered(&h, &r, 2);
		expect_only_error(&h, -EINVAL);
	}
}

TEST(test_nldev_refuses_what_is_not_served)
{
	static struct heard h;

	for (int command = 0; command < 1024; command++) {
		struct request r = ask(command, command % 2 ? NLM_F_DUMP : NLM_F_ACK);

		if (command == RDMA_NLDEV_CMD_GET || command == RDMA_NLDEV_CMD_PORT_GET ||
		    command == RDMA_NLDEV_CMD_SYS_GET)
			continue;
		answered(&h, &r, 2);
		expect_only_error(&h, -EOPNOTSUPP);
	}
}

TEST(test_nldev_is_silent_where_the_kernel_is)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	uint16_t none = 0, noop = NLMSG_NOOP;
	static struct heard h;

	for (size_t bytes = 0; bytes < sizeof(struct nlmsghdr); bytes++) {
		devices_make(&h, 2);
		EXPECT_EQ(nldev_answer(&h.nldev, r.bytes, bytes), 0);
		EXPECT_EQ(h.count, 0);
	}
	memcpy(r.bytes + offsetof(struct nlmsghdr, nlmsg_type), &noop, sizeof(noop));
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 0);
	r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	memcpy(r.bytes + offsetof(struct nlmsghdr, nlmsg_flags), &none, sizeof(none));
	answered(&h, &r, 2);
	EXPECT_EQ(h.count, 0);
}

/* Linux: a message that is shorter than its header, or than it says, ends the datagram. */
TEST(test_nldev_ignores_messages_whose_length_lies)
{
	static const uint32_t lengths[] = { 0, 1, 15, 25, 28, 0x7fffffff, 0xffffffff };
	const struct request first = ask(RDMA_NLDEV_CMD_SYS_GET, 0);
	static struct heard h;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct request r = ask(RDMA_NLDEV_CMD_GET, NLM_F_ACK), both = first;

		number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
		length_set(&r, lengths[i]);
		answered(&h, &r, 2);
		EXPECT_EQ(h.count, 0);
		memcpy(both.bytes + both.used, r.bytes, r.used);
		both.used += r.used;
		answered(&h, &both, 2);
		EXPECT_EQ(h.count, 1); /* the answer to the first */
	}
}

TEST(test_nldev_refuses_attributes_whose_length_lies)
{
	static const uint16_t lengths[] = { 0, 3, 9, 0xffff };
	static struct heard h;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct request r = ask(RDMA_NLDEV_CMD_GET, 0);

		number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
		memcpy(r.bytes + sizeof(struct nlmsghdr), &lengths[i], sizeof(lengths[i]));
		answered(&h, &r, 2);
		expect_only_error(&h, -EINVAL);
	}
}

TEST(test_nldev_refuses_values_of_a_wrong_length)
{
	char name[LINK_NAME + 1];
	static struct heard h;
	struct request r = ask(RDMA_NLDEV_CMD_GET, 0);

	attribute_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, "\1\0", 2);
	answered(&h, &r, 2);
	expect_only_error(&h, -EINVAL);
	memset(name, 'x', sizeof(name));
	for (size_t bytes = LINK_NAME; bytes <= sizeof(name); bytes++) {
		r = ask(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
		attribute_add(&r, RDMA_NLDEV_ATTR_DEV_NAME, name, bytes);
		answered(&h, &r, 2);
		expect_only_error(&h, -EINVAL);
	}
}

TEST(test_nldev_several_requests_in_one_datagram)
{
	struct request one = ask(RDMA_NLDEV_CMD_SYS_GET, 0), r = one;
	static struct heard h;

	memcpy(r.bytes + r.used, one.bytes, one.used);
	r.used += one.used;
	answered(&h, &r, 1);
	EXPECT_EQ(h.count, 2);
}

/* Whatever the bytes are, answers are well-formed, which hear() and value_of() see to. */
TEST(test_nldev_answers_any_bytes_well_formed)
{
	static struct heard h;
	uint64_t some = 1;

	for (int round = 0; round < 20000; round++) {
		struct request r = ask(round % 11, round % 3 ? NLM_F_ACK : NLM_F_DUMP);
		uint8_t *exact;

		number_add(&r, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
		number_add(&r, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
		for (int changes = round % 4; changes >= 0; changes--) {
			some = some * UINT64_C(6364136223846793005) + 1442695040888963407;
			r.bytes[(some >> 33) % r.used] = (uint8_t)(some >> 56);
		}
		/* Exactly as long: a sanitizer sees who looks further. */
		exact = malloc(r.used);
		REQUIRE(exact != NULL);
		memcpy(exact, r.bytes, r.used);
		devices_make(&h, 3);
		EXPECT_EQ(nldev_answer(&h.nldev, exact, r.used), 0);
		free(exact);
		for (size_t i = 0; i < h.count; i++) {
			EXPECT_EQ(h.messages[i].head.nlmsg_pid, ASKER);
			if (h.messages[i].head.nlmsg_type >= NLMSG_MIN_TYPE)
				(void)value_of(&h.messages[i], RDMA_NLDEV_ATTR_MAX, 0);
		}
	}
}
