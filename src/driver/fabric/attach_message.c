/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/fabric/attach_message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver/sys/calls.h"

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(sizeof(int))];
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
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &m->descriptor, sizeof(int));
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	return call_sendmsg(fd, &header) == (ssize_t)piece.iov_len;
}

/* There is room for one; the kernel closes others. */
static int descriptor_of(struct msghdr *header)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static bool may_have_ring(uint16_t kind)
{
	return kind == ATTACH_ATTACH || kind == ATTACH_ATTACHED;
}

/* Of bytes and a descriptor that have come. */
static void message_read(struct attach_message *m, const void *bytes, size_t length, int descriptor)
{
	struct attach_message v = attach_message_of(ATTACH_UNKNOWN);
	size_t head = bytes_of(ATTACH_WAKE);

	if (length >= head && length <= sizeof(v))
		memcpy(&v, bytes, length);
	v.descriptor = descriptor;
	if (length < head || length > sizeof(v) || v.magic != ATTACH_MAGIC ||
	    v.kind == ATTACH_NONE || v.kind >= ATTACH_UNKNOWN || length != bytes_of(v.kind) ||
	    (descriptor >= 0 && !may_have_ring(v.kind))) {
		if (descriptor >= 0)
			call_close(descriptor);
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
				 .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t length = call_recvmsg(fd, &header);
	bool is_none = length < 0 && (errno == EAGAIN || errno == EINTR);
	int descriptor = length < 0 ? -1 : descriptor_of(&header);

	if (length > 0) {
		message_read(m, &wire, (size_t)length, descriptor);
		return;
	}
	if (descriptor >= 0) /* an empty message has brought it */
		call_close(descriptor);
	*m = attach_message_of(is_none ? ATTACH_NONE : ATTACH_CLOSED);
}
