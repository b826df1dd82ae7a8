/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: what a port cannot leave to its peer is completed here. */
#include <stdlib.h>
#include <string.h>

#include "driver/lan/lan_inside.h"

/* Cuts as many segments as fit. */
static void cut_some(struct lan_cutting *c)
{
	uint8_t *at = c->room;
	uint32_t want;

	c->at = c->end = 0;
	while (c->end < LAN_BATCH_MAX && (want = lan_cut_want(&c->cut)) > 0 &&
	       want <= (size_t)(c->room + sizeof(c->room) - at)) {
		lan_cut_next(&c->cut, at);
		c->segments[c->end++] = (struct lan_frame){ .bytes = at, .length = want };
		at += want;
	}
}

bool lan_send_cut(struct lan_port *port)
{
	struct lan_cutting *c = port->cutting;

	if (!c || !c->is_busy)
		return true;
	/* Bound: each round sends a segment, or is the last. */
	for (;;) {
		if (!port->is.is_up) {
			lan_drop(&port->counts.out, WEFT_R_LAN_DOWN);
			break;
		}
		if (c->at == c->end)
			cut_some(c);
		if (c->end == 0)
			break;
		c->at += port->calls->send(port, c->segments + c->at, c->end - c->at);
		if (c->at < c->end && port->is.is_up)
			return false;
	}
	c->is_busy = false;
	c->at = c->end = 0;
	return true;
}

/* Its bytes in one piece. */
static void join(struct lan_frame *f)
{
	if (f->rest_length == 0)
		return;
	CHECK(f->length <= f->room);
	memcpy(f->bytes + f->length - f->rest_length, f->rest, f->rest_length);
	f->rest_length = 0;
}

/* Sends a frame as segments; what the port does not take now goes by itself later. */
static enum weft_reason cut_frame(struct lan_port *port, struct lan_frame *f)
{
	struct lan_cutting *c = port->cutting;
	enum weft_reason r;

	if (!c)
		c = port->cutting = calloc(1, sizeof(*c));
	if (!c)
		return WEFT_R_NO_MEMORY;
	join(f);
	r = lan_cut_begin(&c->cut, f);
	if (r != WEFT_OK)
		return r;
	c->is_busy = true;
	if (!lan_send_cut(port)) {
		memcpy(c->held, f->bytes, f->length);
		c->cut.bytes = c->held;
	}
	return WEFT_OK;
}

/* What completing a checksum changes of a frame. */
struct unsummed {
	struct virtio_net net;
	uint8_t field[sizeof(uint16_t)];
};

static uint8_t *field_of(const struct lan_frame *f, const struct virtio_net *net)
{
	return f->bytes + net->csum_start + net->csum_offset;
}

static void complete(struct lan_frame *f, struct unsummed *was)
{
	was->net = f->net;
	memcpy(was->field, field_of(f, &f->net), sizeof(was->field));
	lan_checksum(f);
}

/* A frame that is not taken comes again, with the header that its caller has. */
static void restore(struct lan_frame *f, const struct unsummed *was)
{
	if (!(was->net.flags & VIRTIO_NET_NEEDS_CSUM))
		return;
	f->net = was->net;
	memcpy(field_of(f, &f->net), was->field, sizeof(was->field));
}

/* How many frames can go as they are, once their checksums are completed. */
static uint32_t plain_run(struct lan_port *port, struct lan_frame *frames, uint32_t count,
			  struct unsummed were[LAN_BATCH_MAX], enum weft_reason *why)
{
	uint32_t run = 0;

	*why = WEFT_OK;
	while (run < count && run < LAN_BATCH_MAX) {
		struct lan_frame *f = &frames[run];
		uint32_t more;

		*why = port->is.is_up ? lan_frame_check(f) : WEFT_R_LAN_DOWN;
		more = *why == WEFT_OK ? lan_frame_needs(f) & ~port->is.takes : 0;
		if (*why != WEFT_OK || more & ~(uint32_t)LAN_CSUM)
			break;
		if (more & LAN_CSUM || !port->calls->takes_rest)
			join(f);
		were[run].net.flags = 0;
		if (more & LAN_CSUM)
			complete(f, &were[run]);
		run++;
	}
	return run;
}

uint32_t lan_send(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	struct unsummed were[LAN_BATCH_MAX];
	uint32_t done = 0;

	/* Bound: each round takes a frame, or is the last. */
	while (done < count && lan_send_cut(port)) {
		enum weft_reason r;
		uint32_t run = plain_run(port, frames + done, count - done, were, &r);

		if (run > 0) {
			uint32_t taken = port->calls->send(port, frames + done, run);

			for (uint32_t i = taken; i < run; i++)
				restore(&frames[done + i], &were[i]);
			done += taken;
			if (taken < run)
				break;
			continue;
		}
		if (r == WEFT_OK)
			r = cut_frame(port, &frames[done]);
		if (r != WEFT_OK)
			lan_drop(&port->counts.out, r);
		done++;
	}
	return done;
}
