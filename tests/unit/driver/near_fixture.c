/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/driver/near_fixture.h"

#include <sys/epoll.h>
#include <unistd.h>

const struct ib_path path_to_far = {
	.from = { .address = { 10, 0, 0, 1 }, .port = 50000 },
	.to = { .address = { 10, 0, 0, 2 }, .port = IBA_UDP_PORT },
	.traffic_class = 0x20,
};

static void end_watch(void *owner, struct watch *w, uint32_t events)
{
	struct end *e = owner;
	struct epoll_event event = { .events = events, .data.ptr = w };
	int what = events == 0 ? EPOLL_CTL_DEL : w->interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (w->interest == events)
		return;
	w->interest = events;
	REQUIRE(epoll_ctl(e->epoll, what, w->fd, &event) == 0);
}

static void open_with(struct end *e, uint8_t adapter_slot, bool takes_runs)
{
	const struct near_config config = { .watch = end_watch,
					    .owner = e,
					    .adapter_slot = adapter_slot,
					    .takes_runs = takes_runs };

	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(e->epoll >= 0);
	MUST(near_open(&config, &e->near));
}

void end_open(struct end *e, uint8_t adapter_slot)
{
	open_with(e, adapter_slot, false);
}

void end_open_for_runs(struct end *e, uint8_t adapter_slot)
{
	open_with(e, adapter_slot, true);
}

void end_close(struct end *e)
{
	near_close(e->near);
	close(e->epoll);
}

bool end_look(struct end *e, int timeout_ms)
{
	struct epoll_event event;
	bool has_come = false;

	while (epoll_wait(e->epoll, &event, 1, has_come ? 0 : timeout_ms) == 1) {
		struct watch *w = event.data.ptr;

		w->ready(w, event.events);
		has_come = true;
	}
	return has_come;
}

void end_look_once(struct end *e)
{
	struct epoll_event event;
	struct watch *w;

	REQUIRE(epoll_wait(e->epoll, &event, 1, PATIENCE_MS) == 1);
	w = event.data.ptr;
	w->ready(w, event.events);
}

uint32_t connect_ends(struct end *from, struct end *to, uint8_t to_slot)
{
	uint32_t number = near_reach(from->near, to_slot);

	REQUIRE(number != 0);
	REQUIRE(end_look(to, PATIENCE_MS) && end_look(from, PATIENCE_MS));
	return number;
}

void pair_open(struct pair *p)
{
	end_open(&p->near, NEAR_SLOT);
	end_open(&p->far, FAR_SLOT);
	p->path = path_to_far;
	p->path.near_number = connect_ends(&p->near, &p->far, FAR_SLOT);
}

void pair_close(struct pair *p)
{
	end_close(&p->near);
	end_close(&p->far);
}

enum near_sent put(struct end *e, const struct ib_path *path, uint32_t n, size_t length)
{
	static uint8_t bytes[IBA_PACKET_MAX];
	static struct ib_out out;
	enum near_sent sent;

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(n * 31 + i);
	out.path = path;
	out.ecn = IB_ECN_ECT0;
	out.has_icrc = n % 2;
	out.spans = (struct span_list){ .count = 2, .length = length };
	out.spans.spans[0] = (struct span){ bytes, length / 3 };
	out.spans.spans[1] = (struct span){ bytes + length / 3, length - length / 3 };
	sent = near_send(e->near, 0, &out);
	near_flush(e->near);
	return sent;
}

void expect_packet(struct end *e, uint32_t n, size_t length)
{
	const struct ib_in *in = near_next(e->near);

	REQUIRE(in && in->length == length);
	for (size_t i = 0; i < length; i++)
		REQUIRE(in->bytes[i] == (uint8_t)(n * 31 + i));
	REQUIRE(in->is_near && in->has_no_icrc == (n % 2 == 0));
	REQUIRE(!in->is_ipv6 && in->to.port == IBA_UDP_PORT && in->from.port == 50000);
	REQUIRE(in->from.address[3] == 1 && in->to.address[3] == 2);
	REQUIRE(in->traffic_class == (0x20 | IB_ECN_ECT0) && in->hop_limit == IB_HOP_LIMIT);
}

uint32_t fill(struct pair *p)
{
	uint32_t n = 0;

	while (put(&p->near, &p->path, n, IBA_PACKET_MAX) == NEAR_SENT)
		n++;
	REQUIRE(n > 10);
	return n;
}

void take_all(struct pair *p, uint32_t packets)
{
	for (uint32_t i = 0; i < packets; i++)
		expect_packet(&p->far, i, IBA_PACKET_MAX);
	REQUIRE(!near_next(p->far.near));
}
