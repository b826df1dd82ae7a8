/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/roce_line.h"

#include <endian.h>
#include <string.h>

#include "base/least.h"
#include "driver/roce/roce_near.h"
#include "driver/roce/roce_packets.h"
#include "driver/roce/tun.h"
#include "driver/sys/fabric_address.h"

enum {
	FRAMES_MAX = 64,	   /* taken, then answered; sent, then others are taken */
	RAWS_MAX = FRAMES_MAX / 2, /* of those that are sent */
	MORE_MAX = 16
};

static void watch(void *owner, struct watch *w, uint32_t events)
{
	net_watch(owner, w, events);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void watch_fabric(void *owner, struct watch *w, uint32_t events)
{
	net_watch(((struct roce *)owner)->net, w, events);
}

static void learn(struct roce *r)
{
	_Static_assert((int)SM_PKEYS == (int)IB_PKEYS_MAX, "a port's table is the core's");
	const struct attach_state *state = fabric_attach_state(r->fabric);

	ib_port_set_lid(r->port, state->info.lid, state->info.lmc);
	ib_port_set_p_keys(r->port, state->p_keys);
	r->is_active = state->info.state == SM_PORT_ACTIVE;
}

/* As programs are told of it. */
static uint32_t news_of(const struct roce *r, bool was_active, uint32_t news)
{
	static const struct {
		uint32_t from, to;
	} table[] = {
		{ ATTACH_NEWS_LID, WEFT_PORT_LID },
		{ ATTACH_NEWS_SM, WEFT_PORT_SM },
		{ ATTACH_NEWS_PKEYS, WEFT_PORT_P_KEYS },
		{ ATTACH_NEWS_GIDS, WEFT_PORT_GIDS },
		{ ATTACH_NEWS_REREGISTER, WEFT_PORT_REREGISTER },
	};
	uint32_t told = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		told |= news & table[i].from ? table[i].to : 0;
	if (r->is_active != was_active)
		told |= r->is_active ? WEFT_PORT_ACTIVE : WEFT_PORT_INACTIVE;
	return told;
}

/* The fabric has gone: its last word is that the port is down. */
static void changed(void *owner, uint32_t news)
{
	struct roce *r = owner;
	bool was_active = r->is_active;
	uint32_t told;

	learn(r);
	told = news_of(r, was_active, news);
	if (told == 0 || !r->is_watched)
		return;
	if (told & WEFT_PORT_INACTIVE)
		r->events.state &= ~(uint32_t)WEFT_PORT_ACTIVE;
	r->events.state |= told;
	event_raise(&r->net->adapter->core.events, &r->events, WEFT_EVENT_PORT, WEFT_OK);
}

void roce_line_watch(struct roce *r, void *context)
{
	if (!r->fabric)
		return;
	if (!r->is_watched)
		event_source_init(&r->events, fabric_attach_port(r->fabric), context);
	r->events.context = context;
	r->is_watched = true;
}

enum weft_reason roce_line_open(struct roce *r)
{
	struct fabric_attach_config config = {
		.watch = watch_fabric,
		.changed = changed,
		.owner = r,
	};
	enum weft_reason reason;

	if (!fabric_is_ours(&config.fabric, &config.node))
		return udp_open(&(struct udp_config){ .watch = watch, .owner = r->net }, &r->udp);
	reason = fabric_attach_open(&config, &r->fabric);
	if (reason != WEFT_OK)
		return reason;
	learn(r);
	ib_port_set_striping(r->port, stripe_wished());
	return fabric_attach_port(r->fabric) <= r->net->adapter->core.ports_max
		       ? WEFT_OK
		       : WEFT_R_PROFILE_PORT;
}

void roce_line_close(struct roce *r)
{
	if (r->udp)
		udp_close(r->udp);
	if (r->is_watched)
		event_clear(&r->events);
	if (r->fabric)
		fabric_attach_close(r->fabric);
}

void roce_line_abandon(struct roce *r)
{
	if (r->fabric)
		fabric_attach_abandon(r->fabric);
	else
		udp_abandon(r->udp);
}

uint8_t roce_line_slot(const struct roce *r)
{
	return r->fabric ? fabric_attach_slot(r->fabric) : udp_adapter_slot(r->udp);
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Routes that the connection manager needs: few, and each is looked for again and again. */
static uint32_t route_index(const uint8_t gid[16])
{
	uint32_t n = 0;

	for (int i = 8; i < 16; i++)
		n = n * 31 + gid[i];
	return n % ROCE_ROUTES;
}

static struct roce_route *route_of(struct roce *r, const uint8_t gid[16])
{
	return &r->routes[route_index(gid)];
}

void roce_line_learn(struct roce *r, const struct ib_path *path)
{
	struct roce_route *to;

	if (!r->fabric || !ib_path_is_local(path) || !path->is_ipv6)
		return;
	to = route_of(r, path->to.address);
	to->local = path->local;
	memcpy(to->gid, path->to.address, sizeof(to->gid));
}

void roce_line_tell(struct roce *r, struct weft_path *path)
{
	const struct roce_route *to = r->fabric ? route_of(r, path->to.ip) : NULL;

	if (!to || path->to.family != 6 || memcmp(to->gid, path->to.ip, sizeof(to->gid)) != 0)
		return;
	path->from_lid = to->local.from;
	path->to_lid = to->local.to;
	path->service_level = to->local.level;
}

bool roce_line_has(const struct weft_adapter *a, const struct weft_path *path)
{
	const struct roce *r = a->net ? roce_of(a->net) : NULL;
	const char *fabric, *node;

	return (path->to_lid != 0) == (r ? r->fabric != NULL : fabric_is_ours(&fabric, &node));
}

enum weft_reason roce_line_source(struct roce *r, struct ib_path *path, uint32_t ours,
				  uint32_t theirs)
{
	if (ib_path_is_local(path) != (r->fabric != NULL))
		return WEFT_R_ADDRESS;
	if (r->fabric)
		return WEFT_OK;
	path->from.port = udp_source_port(ours, theirs);
	path->near_number = roce_near_number(r, path, theirs);
	return path->near_number != 0 ? WEFT_OK : udp_source(r->udp, path);
}

/* By UDP each attempt has another source port, so that not all reach a socket that is stopped. */
enum weft_reason roce_line_manage(struct roce *r, struct ib_path *path, uint32_t attempt)
{
	const struct roce_route *to;

	if (!r->fabric) {
		path->from.port = udp_source_port(
			(uint32_t)udp_adapter_slot(r->udp) << 16 | (attempt & 15), IBA_QPN_GSI);
		path->to.port = IBA_UDP_PORT;
		return udp_source(r->udp, path);
	}
	to = route_of(r, path->to.address);
	if (!path->is_ipv6 || memcmp(to->gid, path->to.address, sizeof(to->gid)) != 0)
		return WEFT_R_ADDRESS;
	path->local = to->local;
	path->local.has_grh = true;
	return WEFT_OK;
}

uint32_t roce_line_window(const struct roce *r, uint32_t mtu_bytes)
{
	if (!r->fabric)
		return 0;
	return (uint32_t)least(fabric_attach_window(IBA_HEADERS_MAX + mtu_bytes + IBA_TRAILER_MAX),
			       IB_WINDOW_DEFAULT);
}

void roce_line_expect(struct roce *r, const struct ib_path *path, uint32_t ours, uint32_t theirs,
		      struct udp_flow_ref *flow_ref)
{
	if (!r->fabric && path->near_number == 0)
		udp_flow_open(r->udp, path, ours, theirs, flow_ref);
}

void roce_line_forget(struct roce *r, struct udp_flow_ref *flow_ref)
{
	if (!r->fabric)
		udp_flow_close(r->udp, flow_ref);
}

/* ---- Services and groups -------------------------------------------------------------------- */

/* What the fabric has answered. */
static enum weft_reason asked(struct roce *r, enum weft_reason reason)
{
	if (fabric_attach_was_woken(r->fabric))
		progress_stir(r->net);
	return reason;
}

enum weft_reason roce_line_claim(struct roce *r, uint64_t service_id)
{
	if (service_id == ATTACH_SERVICE_RAW) /* no service, though its number is one */
		return WEFT_R_BAD_ARGUMENT;
	return r->fabric ? asked(r, fabric_attach_claim(r->fabric, service_id))
			 : udp_claim_service(r->udp, service_id);
}

void roce_line_release(struct roce *r, uint64_t service_id)
{
	if (r->fabric)
		fabric_attach_release(r->fabric, service_id);
	else
		udp_release_service(r->udp, service_id);
}

enum weft_reason roce_line_join(struct roce *r, const struct weft_address *group,
				const struct weft_address *at)
{
	if (!r->fabric)
		return udp_join(r->udp, group, at);
	return group->family == 6 ? asked(r, fabric_attach_join(r->fabric, group->ip))
				  : WEFT_R_ADDRESS;
}

void roce_line_leave(struct roce *r, const struct weft_address *group,
		     const struct weft_address *at)
{
	if (r->fabric)
		fabric_attach_leave(r->fabric, group->ip);
	else
		udp_leave(r->udp, group, at);
}

enum weft_reason roce_line_raw(struct roce *r)
{
	enum weft_reason reason = WEFT_OK;

	if (!r->is_raw)
		reason = asked(r, fabric_attach_claim(r->fabric, ATTACH_SERVICE_RAW));
	r->is_raw |= reason == WEFT_OK;
	return reason;
}

/* ---- A bridge ------------------------------------------------------------------------------- */

/*
 * So long a bridge believes what it knows, as a port may get another LID; and so long it asks no
 * more, as the adapter waits for the answer.
 */
static const uint64_t route_ns = UINT64_C(1000) * 1000 * 1000, asking_ns = 10 * 1000 * 1000;

static bool is_in_subnet(const struct roce *r, const uint8_t gid[16])
{
	uint64_t prefix;

	memcpy(&prefix, gid, sizeof(prefix));
	return be64toh(prefix) == fabric_attach_state(r->fabric)->info.subnet_prefix;
}

/* The LID of the port that has the GID; 0: there is none, or it is this one. */
static uint16_t lid_ask(struct roce *r, const uint8_t gid[16])
{
	struct weft_address a = { .family = 6 };
	struct fabric_msg_port p;

	memcpy(a.ip, gid, sizeof(a.ip));
	if (fabric_address_look(&a, &p) != WEFT_OK ||
	    p.port_info.lid == fabric_attach_state(r->fabric)->info.lid)
		return 0;
	return p.port_info.lid;
}

/* WEFT_R_BUSY: the fabric was asked for another one just now. */
static enum weft_reason bridge_route(struct roce *r, const uint8_t gid[16], struct ib_path *path)
{
	struct roce_bridge_route *to = &r->bridge_routes[route_index(gid)];
	uint64_t now_ns = net_look_at_clock(r->net);
	bool is_known = memcmp(to->gid, gid, sizeof(to->gid)) == 0;

	if (!is_in_subnet(r, gid))
		return WEFT_R_PEER_UNKNOWN;
	if (!is_known || now_ns - to->asked_ns >= route_ns) {
		if (now_ns - r->bridge_asked_ns < asking_ns)
			return WEFT_R_BUSY;
		memcpy(to->gid, gid, sizeof(to->gid));
		to->lid = lid_ask(r, gid);
		to->asked_ns = r->bridge_asked_ns = net_look_at_clock(r->net);
	}
	path->local.to = to->lid;
	return to->lid != 0 ? WEFT_OK : WEFT_R_PEER_UNKNOWN;
}

void roce_line_bridge(struct roce *r, const uint8_t *frame, size_t length)
{
	enum weft_reason reason = WEFT_R_PEER_UNKNOWN;
	struct ib_out *out = &r->outs[0];
	struct ib_path path = { 0 };
	struct iba_grh g;

	if (length >= IBA_GRH_BYTES && iba_grh_decode(&g, frame) == WEFT_OK &&
	    g.payload_bytes == length - IBA_GRH_BYTES)
		reason = bridge_route(r, g.to, &path);
	if (reason == WEFT_OK && fabric_attach_begin(r->fabric, out, 1, IBA_PACKET_MAX) == 0)
		reason = WEFT_R_QUEUE_FULL;
	if (reason != WEFT_OK) {
		r->refused++;
		r->refused_for = reason;
		return;
	}
	memcpy(out->room, frame, length);
	ib_raw_frame(r->port, &path, length, out);
	fabric_attach_end(r->fabric, out, 1);
}

void roce_line_flush(struct roce *r)
{
	if (r->fabric)
		fabric_attach_flush(r->fabric);
}

static void raw_take(struct roce *r, const struct ib_in *in)
{
	if (r->tun && !ib_port_wants_raw(r->port, in->bytes, in->length))
		tun_write(r->tun, in->bytes, in->length);
	else
		(void)ib_port_recv_raw(r->port, in->bytes, in->length);
}

/* ---- Frames --------------------------------------------------------------------------------- */

bool roce_line_input(struct roce *r)
{
	const struct ib_in *in = fabric_attach_next(r->fabric);
	uint32_t count = 0;

	if (in)
		net_look_at_clock(r->net);
	for (; in; in = count < FRAMES_MAX ? fabric_attach_next(r->fabric) : NULL) {
		count++;
		if (in->is_raw)
			raw_take(r, in);
		else
			(void)roce_take(r, in);
	}
	return count > 0;
}

/* Middle packets, or acknowledgements, behind one, which are cheaper together. */
static uint32_t send_more(struct roce *r, const struct ib_out *last)
{
	struct ib_more more = { .outs = &r->outs[1], .each = last->spans.length };
	size_t each = more.each - last->route_bytes;
	uint32_t count;

	if (!ib_out_may_have_more(last))
		return 0;
	more.most = fabric_attach_begin(r->fabric, more.outs, MORE_MAX, each);
	for (uint32_t i = 0; i < more.most; i++) {
		more.outs[i].run_bytes = 0;
		more.outs[i].near_number = 0;
	}
	count = more.most > 0 ? ib_port_send_more(r->port, r->net->now_ns, &more) : 0;
	fabric_attach_end(r->fabric, more.outs, count);
	return count;
}

/* Raw datagrams of queue pairs. */
static uint32_t send_raw(struct roce *r, struct ib_out *out)
{
	uint32_t count = 0;

	while (count < RAWS_MAX && fabric_attach_begin(r->fabric, out, 1, IBA_PACKET_MAX) > 0 &&
	       ib_port_send_raw_frame(r->port, out)) {
		fabric_attach_end(r->fabric, out, 1);
		count++;
	}
	return count;
}

bool roce_line_output(struct roce *r)
{
	struct ib_out *out = &r->outs[0];
	uint32_t count = r->is_raw ? send_raw(r, out) : 0;

	/* Once blocked it waits to be told of room, even if there is some by now. */
	while (count < FRAMES_MAX && !fabric_attach_is_blocked(r->fabric) &&
	       ib_port_has_output(r->port)) {
		if (fabric_attach_begin(r->fabric, out, 1, IBA_PACKET_MAX) == 0)
			break;
		out->run_bytes = 0;
		out->near_number = 0;
		out->ipv4_id = 0;
		if (!ib_port_send(r->port, r->net->now_ns, out))
			break;
		fabric_attach_end(r->fabric, out, 1);
		count += 1 + send_more(r, out);
	}
	if (r->is_raw)
		ib_port_keep_raw(r->port);
	fabric_attach_flush(r->fabric);
	if (ib_port_has_pins(r->port))
		(void)net_look_at_clock(r->net);
	ib_port_sent(r->port, r->net->now_ns);
	return count > 0;
}

/* ---- Counters ------------------------------------------------------------------------------- */

struct roce_line_counts roce_line_counts(const struct roce *r)
{
	const struct fabric_attach_counts *f = r->fabric ? fabric_attach_counts(r->fabric) : NULL;
	const struct udp_counts *u = f ? NULL : udp_counts(r->udp);

	if (f)
		return (struct roce_line_counts){
			.bytes_in = f->bytes_in,
			.bytes_out = f->bytes_out,
			.calls_in = f->calls_in,
			.calls_out = f->calls_out,
		};
	return (struct roce_line_counts){
		.bytes_in = u->bytes_in,
		.bytes_out = u->bytes_out,
		.calls_in = u->calls_in,
		.calls_out = u->calls_out,
		.calls_empty = u->calls_empty,
		.handed_in = u->handed_to_us,
		.handed_out = u->handed_on,
		.sent_away = u->sent_away,
		.overruns = udp_overruns(r->udp),
	};
}
