/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/fabric/attach_message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver/sys/calls.h"

enum { DESCRIPTORS_MAX = 2 }; /* of a message: a ring, and a bell */

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

struct unix_names attach_names_of(const char *fabric)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	(void)snprintf(names.usual, sizeof(names.usual), "weft/adapters/%.40s", fabric);
	return names;
}

struct attach_message attach_message_of(enum attach_kind kind)
{
	return (struct attach_message){
		.magic = ATTACH_MAGIC,
		.kind = (uint16_t)kind,
		.descriptor = -1,
		.bell = -1,
	};
}

/* A wake-up is only its head. */
static size_t bytes_of(uint16_t kind)
{
	return kind == ATTACH_WAKE ? offsetof(struct attach_message, reason)
				   : sizeof(struct attach_message);
}

bool attach_message_send(int fd, const struct attach_message *m)
{
	union control control = { .bytes = { 0 } };
	struct iovec piece = { (void *)(uintptr_t)m, bytes_of(m->kind) };
	struct msghdr header = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (m->descriptor >= 0) {
		const int descriptors[DESCRIPTORS_MAX] = { m->descriptor, m->bell };
		size_t bytes = (m->bell >= 0 ? 2 : 1) * sizeof(int);

		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(bytes) };
		memcpy(CMSG_DATA(&control.header), descriptors, bytes);
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(bytes);
	}
	return call_sendmsg(fd, &header) == (ssize_t)piece.iov_len;
}

static void descriptors_close(const int descriptors[DESCRIPTORS_MAX])
{
	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		if (descriptors[i] >= 0)
			call_close(descriptors[i]);
	}
}

/* There is room for no more; the kernel closes others. */
static void descriptors_read(struct msghdr *header, int descriptors[DESCRIPTORS_MAX])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(int)) &&
	    c->cmsg_len <= CMSG_LEN(DESCRIPTORS_MAX * sizeof(int)))
		memcpy(descriptors, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

/* Whether so many are those of a message of its kind. */
static bool may_have(uint16_t kind, const int descriptors[DESCRIPTORS_MAX])
{
	if (kind == ATTACH_ATTACHED)
		return true;
	return descriptors[1] < 0 && (kind == ATTACH_ATTACH || descriptors[0] < 0);
}

/* Of bytes and descriptors that have come. */
static void message_read(struct attach_message *m, const void *bytes, size_t length,
			 const int descriptors[DESCRIPTORS_MAX])
{
	struct attach_message v = attach_message_of(ATTACH_UNKNOWN);
	size_t head = bytes_of(ATTACH_WAKE);

	if (length >= head && length <= sizeof(v))
		memcpy(&v, bytes, length);
	v.descriptor = descriptors[0];
	v.bell = descriptors[1];
	if (length < head || length > sizeof(v) || v.magic != ATTACH_MAGIC ||
	    v.kind == ATTACH_NONE || v.kind >= ATTACH_UNKNOWN || length != bytes_of(v.kind) ||
	    !may_have(v.kind, descriptors)) {
		descriptors_close(descriptors);
		v = attach_message_of(ATTACH_UNKNOWN);
	}
	v.node[sizeof(v.node) - 1] = '\0';
	v.state.node[sizeof(v.state.node) - 1] = '\0';
	*m = v;
}

void attach_message_take(int fd, struct attach_message *m)
{
	struct attach_message wire = { .magic = 0 };
	union control control;
	struct iovec piece = { &wire, sizeof(wire) };
	struct msghdr header = { .msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = CMSG_LEN(DESCRIPTORS_MAX * sizeof(int)) };
	ssize_t length = call_recvmsg(fd, &header);
	bool is_none = length < 0 && (errno == EAGAIN || errno == EINTR);
	int descriptors[DESCRIPTORS_MAX] = { -1, -1 };

	if (length >= 0)
		descriptors_read(&header, descriptors);
	if (length > 0) {
		message_read(m, &wire, (size_t)length, descriptors);
		return;
	}
	descriptors_close(descriptors); /* an empty message has brought them */
	*m = attach_message_of(is_none ? ATTACH_NONE : ATTACH_CLOSED);
}
