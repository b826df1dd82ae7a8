/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/attach_end.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "test.h"

static void end_watch(void *owner, struct watch *w, uint32_t events)
{
	struct end *e = owner;

	w->interest = events;
	e->watch = events ? w : NULL;
}

static void end_changed(void *owner, uint32_t news)
{
	struct end *e = owner;

	e->news |= news;
	e->has_gone |= news == 0;
}

struct fabric_attach_config end_config(struct end *e, const char *node, uint32_t port)
{
	return (struct fabric_attach_config){
		.watch = end_watch,
		.changed = end_changed,
		.owner = e,
		.fabric = fabric_bed_name(),
		.node = node,
		.port = port,
	};
}

enum weft_reason end_try(struct end *e, const char *node, uint32_t port)
{
	const struct fabric_attach_config config = end_config(e, node, port);

	*e = (struct end){ .news = 0 };
	return fabric_attach_open(&config, &e->attach);
}

void end_open(struct end *e, int node)
{
	fabric_bed_open();
	MUST(end_try(e, node ? "right" : "left", 0));
}

void end_look(struct end *e)
{
	struct pollfd p = { .events = POLLIN };

	REQUIRE(e->watch);
	p.fd = e->watch->fd;
	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	e->watch->ready(e->watch, EPOLLIN);
}

uint32_t end_frame(uint8_t *bytes, uint16_t from, uint16_t to, uint32_t qp, const uint8_t *gid)
{
	static const uint8_t payload[8] = "payload";
	struct iba_frame f = {
		.lrh = { .from = from, .to = to },
		.has_grh = gid != NULL,
		.grh = { .next_header = IBA_GRH_NEXT_BTH },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = qp,
			    .payload = payload,
			    .payload_bytes = sizeof(payload) },
	};

	if (gid)
		memcpy(f.grh.to, gid, 16);
	return iba_frame_encode(&f, bytes);
}

bool end_post(struct end *e, const uint8_t *frame, uint32_t length, bool has_grh)
{
	struct ib_out out = { .route_bytes = has_grh ? IB_ROUTE_BYTES_MAX : IBA_LRH_BYTES };

	if (fabric_attach_begin(e->attach, &out, 1, IBA_PACKET_MAX) == 0)
		return false;
	memcpy(out.room - out.route_bytes, frame, length);
	out.spans = (struct span_list){ .count = 1, .length = length - IBA_VCRC_BYTES };
	fabric_attach_end(e->attach, &out, 1);
	fabric_attach_flush(e->attach);
	return true;
}

const struct ib_in *end_next(struct end *e)
{
	const struct ib_in *in = fabric_attach_next(e->attach);

	while (!in) {
		if (fabric_attach_rest(e->attach))
			end_look(e);
		in = fabric_attach_next(e->attach);
	}
	return in;
}

uint16_t end_lid(const struct end *e)
{
	return fabric_attach_state(e->attach)->info.lid;
}

uint32_t end_qp(const struct end *e)
{
	return (uint32_t)fabric_attach_slot(e->attach) << 16 | 5;
}

void end_send(struct end *from, const struct end *to)
{
	uint8_t frame[IBA_FRAME_MAX];

	REQUIRE(end_post(from, frame,
			 end_frame(frame, end_lid(from), end_lid(to), end_qp(to), NULL), false));
}

static uint64_t wanted;

bool hub_has_refused(const struct fabric_hub_counts *n)
{
	return n->refused >= wanted;
}

bool hub_has_lost(const struct fabric_hub_counts *n)
{
	return n->lost >= wanted;
}

bool hub_has_adapters(const struct fabric_hub_counts *n)
{
	return n->adapters == wanted;
}

bool hub_has_held(const struct fabric_hub_counts *n)
{
	return n->held >= wanted;
}

bool hub_has_broken(const struct fabric_hub_counts *n)
{
	return n->broken >= wanted;
}

bool hub_has_untaken(const struct fabric_hub_counts *n)
{
	return n->untaken >= wanted;
}

bool hub_await(bool (*is_so)(const struct fabric_hub_counts *n), uint64_t count)
{
	wanted = count;
	return fabric_bed_await(is_so);
}

uint32_t end_fill(struct end *from, const struct end *to)
{
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length = end_frame(frame, end_lid(from), end_lid(to), end_qp(to), NULL), sent = 0;
	const uint64_t held = fabric_bed_counts().held;
	bool is_held = false;

	for (;;) {
		if (end_post(from, frame, length, false)) {
			sent++;
			continue;
		}
		if (fabric_attach_rest(from->attach) && is_held)
			return sent;
		is_held = fabric_bed_counts().held > held;
	}
}
