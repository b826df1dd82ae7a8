/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near_message.h"

#include <errno.h>
#include <string.h>

#include "driver/sys/calls.h"

enum { MAGIC = 0x77664e33 }; /* "wfN3": the version of messages, ring and records */

/* Between processes of one host, so in its byte order. */
struct wire_message {
	uint32_t magic;
	uint16_t kind, adapter_slot;
	uint64_t adapter_id;
};

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

bool near_message_send(int fd, const struct near_message *m)
{
	struct wire_message wire = { MAGIC, (uint16_t)m->kind, m->adapter_slot, m->adapter_id };
	union control control = { .bytes = { 0 } };
	struct iovec piece = { &wire, sizeof(wire) };
	struct msghdr header = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (m->descriptor >= 0) {
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &m->descriptor, sizeof(int));
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
	}
	return call_sendmsg(fd, &header) == sizeof(wire);
}

/* The descriptor of a message that brings one, or -1; there is room for no more. */
static int descriptor_of(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static bool is_valid(const struct wire_message *wire)
{
	return wire->magic == MAGIC && wire->kind >= NEAR_OFFER && wire->kind <= NEAR_LEFT &&
	       wire->adapter_slot > 0 && wire->adapter_slot <= UINT8_MAX;
}

void near_message_take(int fd, struct near_message *m)
{
	struct wire_message wire;
	union control control;
	struct iovec piece = { &wire, sizeof(wire) };
	struct msghdr header = { .msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes) };
	ssize_t length = call_recvmsg(fd, &header);

	/* The other end closed with a message of ours unread; its own come after this error. */
	if (length < 0 && errno == ECONNRESET)
		length = call_recvmsg(fd, &header);
	*m = (struct near_message){ .kind = NEAR_CLOSED, .descriptor = -1 };
	if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
		m->kind = NEAR_NONE;
		return;
	}
	if (length <= 0)
		return;
	m->descriptor = descriptor_of(&header);
	if (length == sizeof(wire) && is_valid(&wire) &&
	    (wire.kind == NEAR_OFFER || m->descriptor < 0)) {
		m->kind = (enum near_kind)wire.kind;
		m->adapter_slot = (uint8_t)wire.adapter_slot;
		m->adapter_id = wire.adapter_id;
	} else if (m->descriptor >= 0) {
		call_close(m->descriptor);
		m->descriptor = -1;
	}
}
