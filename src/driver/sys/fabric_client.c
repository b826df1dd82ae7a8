/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/fabric_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/sys/memory_file.h"
#include "driver/sys/system_reason.h"

struct unix_names fabric_socket_names(const char *fabric)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	if (!fabric)
		fabric = getenv("WEFT_FABRIC");
	if (!fabric || *fabric == '\0')
		fabric = "fabric";
	(void)snprintf(names.usual, sizeof(names.usual), "weft/fabric/%.40s", fabric);
	return names;
}

const char *fabric_client_node(void)
{
	const char *node = getenv("WEFT_NODE");

	return node && *node ? node : NULL;
}

enum weft_reason fabric_client_connect(const char *fabric, int *fd)
{
	struct unix_names names = fabric_socket_names(fabric);

	*fd = unix_names_connect(&names);
	if (*fd == -ECONNREFUSED || *fd == -EACCES)
		return WEFT_R_FABRIC_ABSENT;
	return *fd < 0 ? system_reason(-*fd) : WEFT_OK;
}

/* ---- Questions ------------------------------------------------------------------------------ */

/* The descriptor goes along; -1: none does. */
static int send_with(int fd, struct iovec *parts, int count, int along)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr h = { .msg_iov = parts, .msg_iovlen = (size_t)count };

	if (along >= 0) {
		struct cmsghdr *c;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &along, sizeof(along));
	}
	return sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int wait_for(int fd, short what)
{
	struct pollfd p = { .fd = fd, .events = what };
	int r;

	do {
		r = poll(&p, 1, FABRIC_PATIENCE_MS);
	} while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : r < 0 ? -errno : -ETIMEDOUT;
}

static enum weft_reason ask_by(int fd, const struct fabric_msg *ask, int along)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	struct iovec part = { bytes, fabric_msg_encode(ask, bytes) };
	int r = send_with(fd, &part, 1, along);

	while (r == -EAGAIN && wait_for(fd, POLLOUT) == 0)
		r = send_with(fd, &part, 1, along);
	return r == 0 ? WEFT_OK : WEFT_R_FABRIC_ABSENT;
}

static enum weft_reason answer_from(int fd, struct fabric_msg *answer)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	enum weft_reason reason;
	size_t used;
	ssize_t n;

	if (wait_for(fd, POLLIN) != 0)
		return WEFT_R_FABRIC_ABSENT;
	n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n <= 0)
		return WEFT_R_FABRIC_ABSENT;
	reason = fabric_msg_decode(answer, bytes, (size_t)n, &used);
	return reason == WEFT_OK ? (enum weft_reason)answer->reason : reason;
}

enum weft_reason fabric_client_ask(int fd, const struct fabric_msg *ask, struct fabric_msg *answer)
{
	enum weft_reason reason = ask_by(fd, ask, -1);

	return reason == WEFT_OK ? answer_from(fd, answer) : reason;
}

enum weft_reason fabric_client_ask_aside(int fd, const struct fabric_msg *ask,
					 struct fabric_msg *answer)
{
	enum weft_reason reason;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return system_reason(errno);
	reason = ask_by(fd, ask, ends[1]);
	close(ends[1]);
	if (reason == WEFT_OK)
		reason = answer_from(ends[0], answer);
	close(ends[0]);
	return reason;
}

enum weft_reason fabric_client_ask_once(const struct fabric_msg *ask, struct fabric_msg *answer)
{
	enum weft_reason reason;
	int fd;

	reason = fabric_client_connect(NULL, &fd);
	if (reason != WEFT_OK)
		return reason;
	reason = fabric_client_ask(fd, ask, answer);
	close(fd);
	return reason;
}

enum weft_reason fabric_client_port(uint32_t port, struct fabric_msg_port *p)
{
	return fabric_client_look(fabric_client_node(), port, p);
}

enum weft_reason fabric_client_look(const char *node, uint32_t port, struct fabric_msg_port *p)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_PORT, .where.port = port }, answer;
	enum weft_reason reason;

	if (!node || strlen(node) >= sizeof(ask.where.node))
		return WEFT_R_FABRIC_NODE;
	memcpy(ask.where.node, node, strlen(node) + 1);
	ask.value = fabric_client_node() && strcmp(node, fabric_client_node()) == 0;
	reason = fabric_client_ask_once(&ask, &answer);
	if (reason == WEFT_OK && answer.kind != FABRIC_MSG_IS_PORT)
		return WEFT_R_FABRIC_ASK;
	if (reason == WEFT_OK)
		*p = answer.port;
	return reason;
}

/* ---- MADs ----------------------------------------------------------------------------------- */

/* A file in memory with the bytes; the reader can trust that it does not shrink. */
static int file_of(const uint8_t *bytes, size_t length)
{
	int fd = memfd_create("weft-mad", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < length;) {
		ssize_t n = write(fd, bytes + done, length - done);

		if (n <= 0) {
			close(fd);
			return -ENOMEM;
		}
		done += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -EINVAL;
}

int fabric_frame_send(int fd, const struct fabric_msg *m, const uint8_t *frame, uint32_t length)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	struct iovec parts[2] = { { bytes, fabric_msg_encode(m, bytes) },
				  { (void *)(uintptr_t)frame, length } };

	return send_with(fd, parts, 2, -1);
}

int fabric_mad_send(int fd, struct fabric_msg *m, const uint8_t *mad)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	struct iovec parts[2] = { { bytes, 0 }, { (void *)(uintptr_t)mad, m->mad.length } };
	int file = -1, r;

	m->mad.is_in_file = m->mad.length > FABRIC_MSG_MAD_MAX;
	if (m->mad.is_in_file) {
		file = file_of(mad, m->mad.length);
		if (file < 0)
			return file;
	}
	parts[0].iov_len = fabric_msg_encode(m, bytes);
	r = send_with(fd, parts, m->mad.is_in_file ? 1 : 2, file);
	if (file >= 0)
		close(file);
	return r;
}

/* Of several descriptors only the first is let in. */
static int descriptor_in(struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

int fabric_packet_receive(int fd, struct fabric_packet *p, bool is_peek)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { p->bytes, sizeof(p->bytes) };
	struct msghdr h = { .msg_iov = &part, .msg_iovlen = 1 };
	size_t used;
	ssize_t n;

	h.msg_control = is_peek ? NULL : control.bytes;
	h.msg_controllen = is_peek ? 0 : CMSG_LEN(sizeof(int));
	p->file = -1;
	n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | (is_peek ? MSG_PEEK : 0));
	if (n < 0)
		return -errno;
	p->file = descriptor_in(&h);
	if (n == 0) {
		fabric_packet_done(p); /* an empty message may have brought one */
		return -EPIPE;
	}
	if ((h.msg_flags & MSG_TRUNC) ||
	    fabric_msg_decode(&p->m, p->bytes, (size_t)n, &used) != WEFT_OK) {
		fabric_packet_done(p);
		return -EPROTO;
	}
	p->tail = p->bytes + used;
	p->tail_bytes = (size_t)n - used;
	return 0;
}

void fabric_packet_done(struct fabric_packet *p)
{
	if (p->file >= 0)
		close(p->file);
	p->file = -1;
}

/* A file that is not sealed might block, or change: it is not read. */
static int read_file(int fd, uint8_t *to, size_t length)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_WRITE))
		return -EPROTO;
	for (size_t done = 0; done < length;) {
		ssize_t n = pread(fd, to + done, length - done, (off_t)done);

		if (n <= 0)
			return -EPROTO;
		done += (size_t)n;
	}
	return 0;
}

int fabric_packet_mad(const struct fabric_packet *p, uint8_t *mad, size_t room)
{
	size_t want = p->m.mad.length < room ? p->m.mad.length : room;

	if (p->m.mad.is_in_file)
		return p->file < 0 ? -EPROTO : read_file(p->file, mad, want);
	if (p->tail_bytes != p->m.mad.length)
		return -EPROTO;
	memcpy(mad, p->tail, want);
	return 0;
}

int fabric_msg_send(int fd, const struct fabric_msg *m)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	struct iovec part = { bytes, fabric_msg_encode(m, bytes) };

	return send_with(fd, &part, 1, -1);
}
