/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"

enum {
	/* Reads of a hot socket until epoll no longer watches it, see hot.c. */
	ASKED_MANY = 65,
	/* One poll of so many reads another hot socket than the one with the latest input. */
	TURN = 4,
	/* Consecutive empty reads after which a socket is not hot any more. */
	IN_VAIN_MAX = 4096,
	/* Reads of a shared socket when it closes: enough for a full buffer. */
	REST_READS = 1024
};

/* Not an enum: the value would make every constant of it unsigned. */
static const uint32_t not_watched = UINT32_MAX;

/* ---- Watching ------------------------------------------------------------------------------- */

void udp_watch(struct udp *u, struct watch *w, uint32_t events)
{
	if (!u->is_abandoned && w->interest != events)
		u->config.watch(u->config.owner, w, events);
}

void udp_socket_ready(struct udp_socket *s)
{
	if (!list_is_linked(&s->ready_link))
		list_add_tail(&s->udp->ready, &s->ready_link);
}

static void on_ready(struct watch *w, uint32_t events)
{
	(void)events;
	udp_socket_ready(CONTAINER_OF(w, struct udp_socket, watch));
}

void udp_socket_init(struct udp *u, struct udp_socket *s, enum udp_kind kind, int fd)
{
	*s = (struct udp_socket){
		.watch = { .ready = on_ready, .fd = fd },
		.udp = u,
		.kind = kind,
		.ask_for = 1,
	};
	list_init(&s->ready_link);
}

void udp_socket_start(struct udp_socket *s)
{
	udp_watch(s->udp, &s->watch, EPOLLIN);
}

static void cool(struct udp *u, const struct udp_socket *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < u->hot_count; i++) {
		if (u->hot[i] != s)
			u->hot[kept++] = u->hot[i];
	}
	u->hot_count = kept;
}

static void watch_again(struct udp_socket *s)
{
	s->asked = 0;
	udp_socket_start(s);
}

void udp_socket_await(struct udp_socket *s, bool is_awaited)
{
	if (s->is_awaited == is_awaited)
		return;
	s->is_awaited = is_awaited;
	s->udp->awaited += is_awaited ? 1 : UINT32_MAX;
	if (is_awaited)
		udp_socket_ready(s);
}

static uint32_t overruns_of(const struct udp_socket *s)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t length = sizeof(info);

	if (s->watch.fd < 0 || (s->kind != UDP_SHARED && s->kind != UDP_FLOW))
		return 0;
	/* A kernel without SO_MEMINFO leaves it 0. */
	(void)getsockopt(s->watch.fd, SOL_SOCKET, SO_MEMINFO, info, &length);
	return info[SK_MEMINFO_DROPS];
}

void udp_socket_close(struct udp_socket *s)
{
	struct udp *u = s->udp;

	if (s->watch.fd < 0)
		return;
	udp_socket_await(s, false);
	list_remove(&s->ready_link);
	cool(u, s);
	udp_watch(u, &s->watch, 0);
	u->overruns += overruns_of(s);
	call_close(s->watch.fd);
	s->watch.fd = -1;
}

void udp_hot_add(struct udp *u, struct udp_socket *s)
{
	s->in_vain = 0;
	if (u->hot_count > 0 && u->hot[0] == s)
		return;
	cool(u, s);
	if (u->hot_count == UDP_HOT_MAX)
		watch_again(u->hot[--u->hot_count]);
	for (uint32_t i = u->hot_count; i > 0; i--)
		u->hot[i] = u->hot[i - 1];
	u->hot[0] = s;
	u->hot_count++;
}

bool udp_is_hot(const struct udp *u)
{
	return u->hot_count > 0;
}

void udp_ask_all(struct udp *u)
{
	for (uint32_t i = 0; i < u->hot_count; i++) {
		if (u->hot[i]->asked == not_watched)
			udp_socket_ready(u->hot[i]);
	}
}

void udp_ask_shared(struct udp *u)
{
	for (int i = 0; i < 2; i++) {
		struct udp_socket *s = &u->shared[i];

		list_remove(&s->ready_link);
		if (s->watch.fd >= 0)
			list_push(&u->ready, &s->ready_link);
	}
}

bool udp_is_shared_asked(const struct udp *u)
{
	return list_is_linked(&u->shared[0].ready_link) || list_is_linked(&u->shared[1].ready_link);
}

/* Mostly the socket that had input last; now and then each of the others. */
static struct udp_socket *next_hot(struct udp *u)
{
	uint32_t turn = u->hot_turn++;
	struct udp_socket *s = u->hot[0];

	if (turn % TURN == 0)
		s = u->hot[turn / TURN % u->hot_count];
	if (++s->in_vain > IN_VAIN_MAX) {
		cool(u, s);
		watch_again(s);
	} else if (u->is_polled && s->asked < ASKED_MANY && ++s->asked == ASKED_MANY) {
		udp_watch(u, &s->watch, 0);
		s->asked = not_watched;
	}
	return s;
}

void udp_stand_by(struct udp *u, bool is_polled)
{
	u->is_polled = is_polled;
	for (uint32_t i = 0; !is_polled && i < u->hot_count; i++)
		watch_again(u->hot[i]);
}

/* Flows that must wait are skipped, and keep their place. */
static struct udp_socket *ready_next(struct udp *u)
{
	for (struct list *at = u->ready.next; at != &u->ready; at = at->next) {
		struct udp_socket *s = CONTAINER_OF(at, struct udp_socket, ready_link);

		if (s->kind != UDP_FLOW ||
		    udp_flow_is_due(CONTAINER_OF(s, struct udp_flow, socket)))
			return s;
	}
	return NULL;
}

/* True: there may be more. */
static bool read_from(struct udp_socket *s)
{
	bool has_more;

	if (s->kind == UDP_LISTENER)
		return udp_listener_accept(s);
	has_more = udp_read(s);
	if (s->kind != UDP_CLIENT || !s->udp->has_client_left)
		return has_more;
	udp_client_close(CONTAINER_OF(s, struct udp_client, socket));
	return false;
}

/* Each socket has one turn; if it has more input, it goes behind the others. */
static void read_ready(struct udp_socket *s)
{
	list_remove(&s->ready_link);
	if (read_from(s))
		udp_socket_ready(s);
}

static void read_hot(struct udp *u)
{
	struct udp_socket *s = next_hot(u);

	if (s->kind != UDP_FLOW || udp_flow_is_due(CONTAINER_OF(s, struct udp_flow, socket)))
		(void)read_from(s);
}

bool udp_fetch(struct udp *u, bool is_hot)
{
	struct udp_socket *s;

	if (u->fetched_next < u->fetched || u->stretch.length > 0 || u->records.at < u->records.end)
		return true;
	(void)udp_hand_flush(u);
	u->fetched = u->fetched_next = 0;
	u->fetches++;
	s = ready_next(u);
	if (s)
		read_ready(s);
	else if (is_hot && u->hot_count > 0)
		read_hot(u);
	return u->fetched > 0 || !list_is_empty(&u->ready);
}

/* ---- Life ----------------------------------------------------------------------------------- */

/* A free slot; else one whose name another user has taken. */
static enum weft_reason take_slot(struct udp *u)
{
	for (uint32_t i = 0; i < 2 * UDP_SLOTS_MAX; i++) {
		const struct udp_owner_key owner_key = {
			.kind = UDP_SLOTS, .adapter_slot = (uint8_t)(1 + i % UDP_SLOTS_MAX)
		};
		int err = udp_listener_open(u, &u->listener, &owner_key, i >= UDP_SLOTS_MAX);

		if (err == -EADDRINUSE)
			continue;
		if (err < 0)
			return socket_reason_of(-err);
		u->adapter_slot = owner_key.adapter_slot;
		return WEFT_OK;
	}
	return WEFT_R_ROCE_SLOTS;
}

static enum weft_reason open_shared(struct udp *u, bool is_ipv6)
{
	int fd = udp_shared_open(is_ipv6);

	if (fd == -EADDRINUSE)
		return WEFT_R_ROCE_PORT;
	/* A host without IPv6 is fine; any other failure is not. */
	if (is_ipv6 && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL))
		return WEFT_OK;
	if (fd < 0)
		return socket_reason_of(-fd);
	udp_socket_init(u, &u->shared[is_ipv6], UDP_SHARED, fd);
	u->shared[is_ipv6].is_ipv6 = is_ipv6;
	return WEFT_OK;
}

static void init(struct udp *u, const struct udp_config *config)
{
	u->config = *config;
	list_init(&u->flows);
	list_init(&u->services);
	list_init(&u->groups);
	list_init(&u->clients);
	list_init(&u->local_peers);
	list_init(&u->ready);
	list_init(&u->senders);
	for (uint32_t i = 0; i < UDP_SENDER_BUCKETS; i++)
		list_init(&u->sender_buckets[i]);
	for (int i = 0; i < 2; i++)
		udp_socket_init(u, &u->shared[i], UDP_SHARED, -1);
	udp_socket_init(u, &u->listener, UDP_LISTENER, -1);
}

enum weft_reason udp_open(const struct udp_config *config, struct udp **opened)
{
	struct udp *u = calloc(1, sizeof(*u));
	enum weft_reason r;

	if (!u)
		return WEFT_R_NO_MEMORY;
	init(u, config);
	u->buffers = malloc((size_t)UDP_BUFFERS * UDP_BUFFER_BYTES);
	/* The port first: only its user may claim slots. */
	r = u->buffers ? open_shared(u, false) : WEFT_R_NO_MEMORY;
	if (r == WEFT_OK)
		r = open_shared(u, true);
	if (r == WEFT_OK)
		r = take_slot(u);
	if (r != WEFT_OK) {
		udp_close(u);
		return r;
	}
	for (int i = 0; i < 2; i++) {
		if (u->shared[i].watch.fd >= 0)
			udp_socket_start(&u->shared[i]);
	}
	udp_socket_start(&u->listener);
	*opened = u;
	return WEFT_OK;
}

void udp_hand_on_rest(struct udp *u)
{
	for (int i = 0; i < 2; i++) {
		struct udp_socket *s = &u->shared[i];
		bool has_more = s->watch.fd >= 0;

		if (has_more)
			udp_shared_shut(s->watch.fd, i == 1);
		for (int reads = 0; has_more && reads < REST_READS; reads++) {
			while (udp_next(u))
				;
			has_more = udp_read(s);
		}
		while (udp_next(u))
			;
	}
}

void udp_close(struct udp *u)
{
	if (!u->is_abandoned && u->buffers)
		udp_hand_on_rest(u);
	udp_flows_close(u);
	udp_groups_close(u);
	udp_senders_close(u);
	udp_local_peers_close(u);
	for (int i = 0; i < 2; i++)
		udp_socket_close(&u->shared[i]);
	udp_listener_close(&u->listener);
	free(u->buffers);
	free(u);
}

/* Without epoll_ctl(), which would change the parent's epoll too. */
void udp_abandon(struct udp *u)
{
	u->is_abandoned = true;
	for (struct list *at = u->flows.next; at != &u->flows; at = at->next)
		udp_socket_close(&CONTAINER_OF(at, struct udp_flow, link)->socket);
	for (struct list *at = u->services.next; at != &u->services; at = at->next)
		udp_listener_close(&CONTAINER_OF(at, struct udp_service, link)->socket);
	udp_senders_close(u);
	udp_local_peers_close(u);
	for (int i = 0; i < 2; i++)
		udp_socket_close(&u->shared[i]);
	udp_listener_close(&u->listener);
}

uint8_t udp_adapter_slot(const struct udp *u)
{
	return u->adapter_slot;
}

const struct udp_counts *udp_counts(const struct udp *u)
{
	return &u->counts;
}

uint64_t udp_overruns(const struct udp *u)
{
	uint64_t sum = u->overruns + overruns_of(&u->shared[0]) + overruns_of(&u->shared[1]);

	for (struct list *at = u->flows.next; at != &u->flows; at = at->next)
		sum += overruns_of(&CONTAINER_OF(at, struct udp_flow, link)->socket);
	return sum;
}

/* A hash: each input bit affects all bits that are kept. */
uint16_t udp_source_port(uint32_t sender_qp, uint32_t receiver_qp)
{
	uint32_t v = sender_qp >> 16 << 12 | receiver_qp >> 16 << 4 | (sender_qp & 15);

	return (uint16_t)(0xc000 | v * UINT32_C(0x9e3779b1) >> 18);
}
