/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of vhost-user. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "driver/lan/lan_vhost.h"
#include "driver/sys/calls.h"

/* Bits of the features: VIRTIO 1.2 sections 5.1.3 and 6, and vhost-user's own. */
enum {
	BIT_CSUM = 0,
	BIT_GUEST_CSUM = 1,
	BIT_MTU = 3,
	BIT_GUEST_TSO4 = 7,
	BIT_GUEST_TSO6 = 8,
	BIT_GUEST_ECN = 9,
	BIT_HOST_TSO4 = 11,
	BIT_HOST_TSO6 = 12,
	BIT_HOST_ECN = 13,
	BIT_MRG_RXBUF = 15,
	BIT_ANY_LAYOUT = 27,
	BIT_INDIRECT = 28,
	BIT_EVENT_IDX = 29,
	BIT_PROTOCOL = 30,
	BIT_VERSION_1 = 32,
	BIT_PROTOCOL_REPLY_ACK = 3,
	BIT_PROTOCOL_MTU = 4,
};

/* Each reads a piece of a message, or takes one. */
enum { ROUNDS = 64 };

#define BIT(number) (UINT64_C(1) << (number))

static const uint64_t offered = BIT(BIT_CSUM) | BIT(BIT_GUEST_CSUM) | BIT(BIT_MTU) |
				BIT(BIT_GUEST_TSO4) | BIT(BIT_GUEST_TSO6) | BIT(BIT_GUEST_ECN) |
				BIT(BIT_HOST_TSO4) | BIT(BIT_HOST_TSO6) | BIT(BIT_HOST_ECN) |
				BIT(BIT_MRG_RXBUF) | BIT(BIT_ANY_LAYOUT) | BIT(BIT_INDIRECT) |
				BIT(BIT_EVENT_IDX) | BIT(BIT_PROTOCOL) | BIT(BIT_VERSION_1);
static const uint64_t protocol_offered = BIT(BIT_PROTOCOL_REPLY_ACK) | BIT(BIT_PROTOCOL_MTU);

/* A message taken apart. */
struct message {
	struct vhost_header h;
	const uint8_t *body;
};

static void close_fds(struct lan_vhost *v)
{
	for (uint32_t i = 0; i < v->fd_count; i++) {
		if (v->fds[i] >= 0)
			call_close(v->fds[i]);
	}
	v->fd_count = 0;
}

static void ring_stop(struct lan_vhost *v, struct vhost_ring *r)
{
	lan_watch_close(&v->port, &r->kick);
	if (r->call >= 0)
		call_close(r->call);
	r->call = -1;
	r->is_enabled = r->is_placed = false;
}

/* A guest that says none has those of VIRTIO's first version. */
static void features_are(struct lan_vhost *v, uint64_t f)
{
	v->features = f;
	v->form.may_merge = f & BIT(BIT_MRG_RXBUF);
	v->form.header_bytes = f & (BIT(BIT_MRG_RXBUF) | BIT(BIT_VERSION_1))
				       ? VIRTIO_NET_BUFFERS_BYTES
				       : VIRTIO_NET_BYTES;
	for (int i = 0; i < VHOST_RINGS; i++)
		v->rings[i].ring.has_event_idx = f & BIT(BIT_EVENT_IDX);
	v->port.is.takes = (f & BIT(BIT_GUEST_CSUM) ? LAN_CSUM : 0) |
			   (f & BIT(BIT_GUEST_TSO4) ? LAN_TSO4 : 0) |
			   (f & BIT(BIT_GUEST_TSO6) ? LAN_TSO6 : 0) |
			   (f & BIT(BIT_GUEST_ECN) ? LAN_TSO_ECN : 0);
}

void vhost_forget(struct lan_vhost *v)
{
	for (int i = 0; i < VHOST_RINGS; i++) {
		ring_stop(v, &v->rings[i]);
		v->rings[i].ring = (struct lan_vring){ 0 };
	}
	close_fds(v);
	vhost_memory_unmap(&v->memory);
	v->guest.count = 0;
	features_are(v, 0);
	v->protocol = 0;
	v->got = 0;
}

bool vhost_is_ready(const struct lan_vhost *v)
{
	for (int i = 0; i < VHOST_RINGS; i++) {
		const struct vhost_ring *r = &v->rings[i];

		/* Without vhost-user's own features rings are enabled by themselves. */
		if (r->kick.fd < 0 || !r->is_placed ||
		    !(r->is_enabled || !(v->features & BIT(BIT_PROTOCOL))))
			return false;
	}
	return true;
}

static bool answer(struct lan_vhost *v, const uint8_t *bytes, uint32_t length)
{
	return call_send(v->peer.fd, bytes, length) == (ssize_t)length;
}

static enum weft_reason answer_u64(struct lan_vhost *v, uint32_t request, uint64_t value)
{
	uint8_t bytes[VHOST_MESSAGE_MAX];

	return answer(v, bytes, vhost_u64_reply(bytes, request, value)) ? WEFT_OK
									: WEFT_R_LAN_ENDED;
}

static enum weft_reason set_features(struct lan_vhost *v, const struct message *m)
{
	uint64_t f;

	if (!vhost_u64_decode(&f, m->body, m->h.size) || f & ~offered)
		return WEFT_R_VHOST_MESSAGE;
	features_are(v, f);
	return WEFT_OK;
}

static enum weft_reason set_protocol(struct lan_vhost *v, const struct message *m)
{
	uint64_t f;

	if (!vhost_u64_decode(&f, m->body, m->h.size) || f & ~protocol_offered)
		return WEFT_R_VHOST_MESSAGE;
	v->protocol = f;
	return WEFT_OK;
}

struct placing {
	struct lan_vhost *v;
	struct vhost_ring *ring;
	enum weft_reason why;
};

static void place_work(void *argument)
{
	struct placing *p = argument;

	p->why = lan_vring_place(&p->ring->ring, &p->v->guest, &p->ring->where);
}

static enum weft_reason place(struct lan_vhost *v, struct vhost_ring *r)
{
	struct placing p = { v, r, WEFT_OK };

	return vhost_memory_touch(&v->memory, place_work, &p) ? p.why : WEFT_R_VHOST_MEMORY;
}

/* Rings stay where their addresses say, in the new memory. */
static enum weft_reason place_again(struct lan_vhost *v)
{
	for (int i = 0; i < VHOST_RINGS; i++) {
		struct vhost_ring *r = &v->rings[i];
		uint16_t used = r->ring.used, told = r->ring.told;
		enum weft_reason why;

		if (!r->is_placed)
			continue;
		why = place(v, r);
		if (why != WEFT_OK)
			return why;
		r->ring.used = used;
		r->ring.told = told;
	}
	return WEFT_OK;
}

static enum weft_reason set_memory(struct lan_vhost *v, const struct message *m)
{
	struct vhost_region regions[VHOST_REGIONS_MAX];
	struct lan_guest g = { 0 };
	enum weft_reason r;

	if (!vhost_regions_decode(regions, &g.count, m->body, m->h.size) || v->fd_count != g.count)
		return WEFT_R_VHOST_MESSAGE;
	for (uint32_t i = 0; i < g.count; i++)
		g.regions[i].is = regions[i];
	if (!lan_guest_is_good(&g))
		return WEFT_R_VHOST_MEMORY;
	vhost_memory_unmap(&v->memory);
	v->guest.count = 0;
	r = vhost_memory_map(&v->memory, &g, v->fds);
	if (r != WEFT_OK)
		return r;
	v->guest = g;
	return place_again(v);
}

static enum weft_reason set_number(struct lan_vhost *v, const struct message *m, uint32_t request)
{
	struct vhost_state s;
	struct vhost_ring *r;

	if (!vhost_state_decode(&s, m->body, m->h.size))
		return WEFT_R_VHOST_MESSAGE;
	if (s.index >= VHOST_RINGS)
		return WEFT_R_VHOST_RING;
	r = &v->rings[s.index];
	/* A ring that is in use keeps its size and its place. */
	if (r->is_placed && r->kick.fd >= 0 && request != VHOST_SET_VRING_ENABLE)
		return WEFT_R_VHOST_RING;
	switch (request) {
	case VHOST_SET_VRING_NUM:
		r->is_placed = false;
		return lan_vring_size(&r->ring, s.number);
	case VHOST_SET_VRING_BASE:
		r->ring.seen = (uint16_t)s.number;
		return s.number <= UINT16_MAX ? WEFT_OK : WEFT_R_VHOST_RING;
	default:
		r->is_enabled = s.number == 1;
		return s.number <= 1 ? WEFT_OK : WEFT_R_VHOST_MESSAGE;
	}
}

static enum weft_reason set_address(struct lan_vhost *v, const struct message *m)
{
	struct vhost_address a;
	struct vhost_ring *r;
	enum weft_reason why;

	/* Flags would have writes logged, which was not offered. */
	if (!vhost_address_decode(&a, m->body, m->h.size) || a.flags != 0)
		return WEFT_R_VHOST_MESSAGE;
	if (a.index >= VHOST_RINGS)
		return WEFT_R_VHOST_RING;
	r = &v->rings[a.index];
	r->where = a;
	why = place(v, r);
	r->is_placed = why == WEFT_OK;
	return why;
}

static enum weft_reason get_base(struct lan_vhost *v, const struct message *m)
{
	uint8_t bytes[VHOST_MESSAGE_MAX];
	struct vhost_state s;

	if (!vhost_state_decode(&s, m->body, m->h.size))
		return WEFT_R_VHOST_MESSAGE;
	if (s.index >= VHOST_RINGS)
		return WEFT_R_VHOST_RING;
	s.number = v->rings[s.index].ring.seen;
	ring_stop(v, &v->rings[s.index]);
	return answer(v, bytes, vhost_state_reply(bytes, m->h.request, &s)) ? WEFT_OK
									    : WEFT_R_LAN_ENDED;
}

/*
 * The peer's own end of its connection would hold that open when the peer has gone. A write to what
 * is no eventfd could wait, or end the process (SIGPIPE); an eventfd is a file of no type.
 */
static bool can_be(int fd, bool is_call)
{
	struct stat is;

	return fstat(fd, &is) == 0 && !S_ISSOCK(is.st_mode) &&
	       !(is_call && (is.st_mode & S_IFMT) != 0);
}

/* A ring has a descriptor for its kicks: to poll the guest would keep a processor busy. */
static enum weft_reason set_descriptor(struct lan_vhost *v, const struct message *m)
{
	struct vhost_ring *r;
	uint64_t value;
	bool has_one;

	if (!vhost_u64_decode(&value, m->body, m->h.size))
		return WEFT_R_VHOST_MESSAGE;
	has_one = !(value & VHOST_NO_DESCRIPTOR);
	if (v->fd_count != has_one || (!has_one && m->h.request == VHOST_SET_VRING_KICK))
		return WEFT_R_VHOST_MESSAGE;
	if (has_one && !can_be(v->fds[0], m->h.request == VHOST_SET_VRING_CALL))
		return WEFT_R_VHOST_MESSAGE;
	if ((value & VHOST_INDEX_MASK) >= VHOST_RINGS)
		return WEFT_R_VHOST_RING;
	r = &v->rings[value & VHOST_INDEX_MASK];
	if (m->h.request == VHOST_SET_VRING_ERR)
		return WEFT_OK;
	if (m->h.request == VHOST_SET_VRING_CALL) {
		if (r->call >= 0)
			call_close(r->call);
		r->call = has_one ? v->fds[0] : -1;
		if (has_one)
			(void)fcntl(r->call, F_SETFL, O_NONBLOCK);
	} else {
		lan_watch_close(&v->port, &r->kick);
		/*
		 * Not every descriptor can be polled. It is never read: that could be made to
		 * block. Each kick is an edge.
		 */
		if (!lan_watch_begin(&v->port, &r->kick, v->fds[0], EPOLLIN | EPOLLET))
			return WEFT_R_VHOST_MESSAGE;
	}
	v->fd_count = 0;
	return WEFT_OK;
}

static enum weft_reason set_mtu(struct lan_vhost *v, const struct message *m)
{
	uint64_t mtu;

	if (!vhost_u64_decode(&mtu, m->body, m->h.size) || mtu < LAN_MTU_MIN || mtu > LAN_MTU_MAX)
		return WEFT_R_VHOST_MESSAGE;
	lan_mtu_is(&v->port, (uint32_t)mtu);
	return WEFT_OK;
}

/* *is_answered: the request has an answer of its own. */
static enum weft_reason take(struct lan_vhost *v, const struct message *m, bool *is_answered)
{
	switch (m->h.request) {
	case VHOST_GET_FEATURES:
		*is_answered = true;
		return answer_u64(v, m->h.request, offered);
	case VHOST_GET_PROTOCOL_FEATURES:
		*is_answered = true;
		return answer_u64(v, m->h.request, protocol_offered);
	case VHOST_GET_QUEUE_NUM:
		*is_answered = true;
		return answer_u64(v, m->h.request, 1);
	case VHOST_GET_VRING_BASE:
		*is_answered = true;
		return get_base(v, m);
	case VHOST_SET_FEATURES:
		return set_features(v, m);
	case VHOST_SET_PROTOCOL_FEATURES:
		return set_protocol(v, m);
	case VHOST_SET_OWNER:
	case VHOST_RESET_OWNER:
		return WEFT_OK;
	case VHOST_SET_MEM_TABLE:
		return set_memory(v, m);
	case VHOST_SET_VRING_NUM:
	case VHOST_SET_VRING_BASE:
	case VHOST_SET_VRING_ENABLE:
		return set_number(v, m, m->h.request);
	case VHOST_SET_VRING_ADDR:
		return set_address(v, m);
	case VHOST_SET_VRING_KICK:
	case VHOST_SET_VRING_CALL:
	case VHOST_SET_VRING_ERR:
		return set_descriptor(v, m);
	case VHOST_NET_SET_MTU:
		return set_mtu(v, m);
	default:
		return WEFT_R_VHOST_MESSAGE;
	}
}

/* Receives up to so many bytes of the message, and descriptors with its first. */
static ssize_t receive(struct lan_vhost *v, uint32_t length)
{
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(v->fds))];
	} control;
	struct iovec part = { v->message + v->got, length };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = call_recvmsg(v->peer.fd, &m);

	for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		close_fds(v);
		v->fd_count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(v->fds, CMSG_DATA(c), v->fd_count * sizeof(int));
	}
	if (n > 0)
		v->got += (uint32_t)n;
	return n;
}

static enum weft_reason take_message(struct lan_vhost *v, const struct vhost_header *h)
{
	const struct message m = { *h, v->message + VHOST_HEADER_BYTES };
	bool is_answered = false;
	enum weft_reason r = take(v, &m, &is_answered);

	v->got = 0;
	close_fds(v);
	if (!is_answered && h->flags & VHOST_NEED_REPLY &&
	    v->protocol & BIT(BIT_PROTOCOL_REPLY_ACK)) {
		enum weft_reason said = answer_u64(v, h->request, r != WEFT_OK);

		return r != WEFT_OK ? r : said;
	}
	return r;
}

enum weft_reason vhost_messages(struct lan_vhost *v)
{
	/* The next turn takes what is left: a peer that does not stop talking is not alone here. */
	for (uint32_t rounds = 0; rounds < ROUNDS; rounds++) {
		struct vhost_header h = { 0 };
		uint32_t want = VHOST_HEADER_BYTES;
		ssize_t n;

		if (v->got >= VHOST_HEADER_BYTES) {
			vhost_header_decode(&h, v->message);
			if (h.size > VHOST_BODY_MAX ||
			    (h.flags & VHOST_VERSION_MASK) != VHOST_VERSION ||
			    h.flags & VHOST_REPLY)
				return WEFT_R_VHOST_MESSAGE;
			want += h.size;
		}
		if (v->got >= VHOST_HEADER_BYTES && v->got == want) {
			enum weft_reason r = take_message(v, &h);

			if (r != WEFT_OK)
				return r;
			continue;
		}
		n = receive(v, want - v->got);
		if (n == 0)
			return WEFT_R_LAN_ENDED;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? WEFT_OK : WEFT_R_LAN_ENDED;
	}
	return WEFT_OK;
}
