/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near_message.h"

#include <errno.h>
#include <string.h>

#include "driver/sys/calls.h"

enum { MAGIC = 0x77664e36 }; /* "wfN6": the version of messages, ring and records */

/* Between processes of one host, so in its byte order. */
struct wire_message {
	uint32_t magic;
	uint16_t kind, adapter_slot;
	uint64_t adapter_id, takes_runs;
};

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(NEAR_DESCRIPTORS * sizeof(int))];
};

bool near_message_send(int fd, const struct near_message *m)
{
	struct wire_message wire = { MAGIC, (uint16_t)m->kind, m->adapter_slot, m->adapter_id,
				     m->takes_runs };
	union control control = { .bytes = { 0 } };
	struct iovec piece = { &wire, sizeof(wire) };
	struct msghdr header = { .msg_iov = &piece, .msg_iovlen = 1 };
	size_t count = 0;

	while (count < NEAR_DESCRIPTORS && m->descriptors[count] >= 0)
		count++;
	if (count > 0) {
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), m->descriptors, count * sizeof(int));
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	return call_sendmsg(fd, &header) == sizeof(wire);
}

/* There is room for no more. */
static void take_descriptors(struct msghdr *header, struct near_message *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(header);

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(int)) && c->cmsg_len <= CMSG_LEN(sizeof(m->descriptors)))
		memcpy(m->descriptors, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

void near_message_done(const struct near_message *m)
{
	for (int i = 0; i < NEAR_DESCRIPTORS; i++) {
		if (m->descriptors[i] >= 0)
			call_close(m->descriptors[i]);
	}
}

static bool is_valid(const struct wire_message *wire)
{
	if (wire->magic != MAGIC || wire->kind < NEAR_OFFER || wire->kind >= NEAR_UNKNOWN)
		return false;
	if (wire->kind >= NEAR_RINGS)
		return wire->adapter_slot == 0 && wire->adapter_id == 0;
	return wire->adapter_slot > 0 && wire->adapter_slot <= UINT8_MAX && wire->adapter_id != 0;
}

static bool has_descriptors(const struct wire_message *wire)
{
	return wire->kind == NEAR_OFFER || wire->kind == NEAR_TAKEN || wire->kind == NEAR_RINGS;
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
	*m = (struct near_message){ .kind = NEAR_CLOSED, .descriptors = { -1, -1 } };
	if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
		m->kind = NEAR_NONE;
		return;
	}
	if (length < 0)
		return;
	take_descriptors(&header, m);
	if (length == sizeof(wire) && is_valid(&wire) &&
	    (m->descriptors[0] < 0 || has_descriptors(&wire))) {
		m->kind = (enum near_kind)wire.kind;
		m->adapter_slot = (uint8_t)wire.adapter_slot;
		m->takes_runs = wire.takes_runs != 0;
		m->adapter_id = wire.adapter_id;
	} else {
		/* Also at its end, where an empty message may have brought some. */
		m->kind = length > 0 ? NEAR_UNKNOWN : NEAR_CLOSED;
		near_message_done(m);
		m->descriptors[0] = m->descriptors[1] = -1;
	}
}
