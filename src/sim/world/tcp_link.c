/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/tcp_link.h"

#include "base/check.h"
#include "sim/world/sim_trace.h"

enum { ROUNDS_MAX = 32, LEND_PPM = 500000, TAKE_BACK_PPM = 20000 };

static const uint64_t close_wait_ns = UINT64_C(2) * 1000 * 1000 * 1000;

static struct tcp_end *other_end(struct tcp_end *e)
{
	return &e->link->ends[!e->side];
}

/* ---- Life ----------------------------------------------------------------------------------- */

void tcp_link_init(struct tcp_link *l, struct world *w, uint32_t id, uint32_t kind_first)
{
	*l = (struct tcp_link){ .world = w, .id = id, .kind_first = kind_first };
	l->prng.state = prng_next(&w->prng);
	for (uint32_t side = 0; side < 2; side++) {
		l->ends[side].link = l;
		l->ends[side].side = side;
		l->ends[side].due.event = (struct world_event){
			.node = 2 * id + side,
			.kind = kind_first + TCP_DUE,
		};
	}
}

static void pipes_fini(struct tcp_link *l)
{
	if (!l->has_pipes)
		return;
	for (uint32_t side = 0; side < 2; side++)
		sim_stream_fini(&l->ends[side].out);
	l->has_pipes = false;
}

void tcp_link_fini(struct tcp_link *l)
{
	for (uint32_t side = 0; side < 2; side++) {
		struct tcp_end *e = &l->ends[side];

		world_alarm_cancel(l->world, &e->due);
		if (e->stream)
			iwarp_destroy(e->stream);
		e->stream = NULL;
	}
	pipes_fini(l);
}

static int pipe_init(struct tcp_end *e, const struct tcp_dial *dial)
{
	struct tcp_link *l = e->link;
	const struct sim_stream_options o = {
		.id = 2 * l->id + e->side,
		.readable = { .node = 2 * l->id + !e->side, .kind = l->kind_first + TCP_READABLE },
		.writable = { .node = 2 * l->id + e->side, .kind = l->kind_first + TCP_WRITABLE },
		.faults = dial->faults[e->side],
		.bytes_max = dial->bytes_max[e->side],
	};

	return sim_stream_init(&e->out, l->world, &o);
}

int tcp_link_dial(struct tcp_link *l, const struct tcp_dial *dial)
{
	static const uint8_t words[4] = { 'w', 'e', 'f', 't' };
	uint64_t now_ns = l->world->now_ns;

	CHECK(tcp_link_is_over(l));
	pipes_fini(l);
	l->rtr = dial->rtr;
	l->corrupt_ppm = dial->corrupt_ppm;
	for (uint32_t side = 0; side < 2; side++) {
		struct tcp_end *e = &l->ends[side];

		e->phase = TCP_SETUP;
		e->has_request = false;
		e->was_stream = false;
		e->is_blocked = false;
		e->is_readable = false;
		e->is_corrupted = false;
		e->is_deaf = false;
		if (pipe_init(e, dial) < 0)
			return -1;
		if (side == dial->initiator)
			CHECK(mpa_setup_init_initiator(&e->setup, &dial->configs[side],
						       (struct mpa_bytes){ words, sizeof(words) },
						       now_ns) == WEFT_OK);
		else
			mpa_setup_init_responder(&e->setup, &dial->configs[side], now_ns);
	}
	l->has_pipes = true;
	for (uint32_t side = 0; side < 2; side++)
		tcp_end_service(&l->ends[side]);
	return 0;
}

bool tcp_link_is_over(const struct tcp_link *l)
{
	for (uint32_t side = 0; side < 2; side++) {
		if (l->ends[side].phase != TCP_IDLE && l->ends[side].phase != TCP_ENDED)
			return false;
	}
	return true;
}

void tcp_link_reset(struct tcp_link *l)
{
	if (!l->has_pipes)
		return;
	for (uint32_t side = 0; side < 2; side++)
		sim_stream_reset(&l->ends[side].out);
}

void tcp_link_calm(struct tcp_link *l)
{
	l->corrupt_ppm = 0;
	if (!l->has_pipes)
		return;
	for (uint32_t side = 0; side < 2; side++) {
		l->ends[side].out.line.faults = (struct sim_faults){ 0 };
		sim_stream_heal(&l->ends[side].out);
	}
}

/* The end is finished with the connection. */
static void end_leave(struct tcp_end *e, bool is_reset)
{
	if (is_reset)
		tcp_link_reset(e->link);
	else
		sim_stream_close(&e->out);
	e->phase = TCP_ENDED;
	e->has_request = false;
	world_alarm_cancel(e->link->world, &e->due);
	if (e->stream)
		iwarp_destroy(e->stream);
	e->stream = NULL;
}

void tcp_end_abandon(struct tcp_end *e)
{
	e->qp = NULL;
	if (e->phase == TCP_SETUP)
		end_leave(e, true);
}

void tcp_end_kill(struct tcp_end *e, bool is_reset)
{
	if (e->phase == TCP_SETUP || e->phase == TCP_STREAM)
		end_leave(e, is_reset);
}

/* ---- Set-up --------------------------------------------------------------------------------- */

static void begin_stream(struct tcp_end *e)
{
	struct iwarp_config config = {
		.terms = *mpa_setup_terms(&e->setup),
		.close_wait_ns = close_wait_ns,
		.attention = e->attention,
		.owner = e,
	};
	enum weft_reason failure = mpa_setup_must_terminate(&e->setup) ? mpa_setup_reason(&e->setup)
								       : WEFT_OK;

	if (config.terms.rtr != IWARP_RTR_NONE && e->link->rtr != IWARP_RTR_NONE)
		config.terms.rtr = e->link->rtr;
	if (!e->qp || iwarp_create(e->qp, &config, &e->stream) != WEFT_OK) {
		end_leave(e, true);
		return;
	}
	e->terms = config.terms;
	e->phase = TCP_STREAM;
	e->was_stream = true;
	e->is_readable = true;
	world_alarm_cancel(e->link->world, &e->due);
	if (failure != WEFT_OK)
		iwarp_refuse(e->stream, failure);
}

static void setup_events(struct tcp_end *e)
{
	while (e->phase == TCP_SETUP) {
		switch (mpa_setup_event(&e->setup)) {
		case MPA_SETUP_NONE:
			return;
		case MPA_SETUP_REQUEST:
			e->has_request = true;
			break;
		case MPA_SETUP_ESTABLISHED:
			begin_stream(e);
			break;
		case MPA_SETUP_REJECTED:
			end_leave(e, false);
			break;
		case MPA_SETUP_FAILED:
			if (mpa_setup_must_terminate(&e->setup))
				begin_stream(e);
			else
				end_leave(e, true);
			break;
		}
	}
}

static void setup_output(struct tcp_end *e)
{
	struct mpa_bytes have = mpa_setup_have(&e->setup);

	while (have.length > 0 && !e->is_blocked) {
		size_t n;

		if (sim_stream_send(&e->out, have.bytes, have.length, &n) == SIM_STREAM_RESET) {
			mpa_setup_eof(&e->setup);
			return;
		}
		mpa_setup_sent(&e->setup, n);
		e->is_blocked = n < have.length;
		have = mpa_setup_have(&e->setup);
	}
}

static void setup_input(struct tcp_end *e)
{
	struct span want = mpa_setup_want(&e->setup);
	size_t n;

	if (want.length == 0 || !e->is_readable)
		return;
	switch (sim_stream_recv(&other_end(e)->out, want.bytes, want.length, &n)) {
	case SIM_STREAM_OK:
		mpa_setup_got(&e->setup, n);
		break;
	case SIM_STREAM_WAIT:
		e->is_readable = false;
		break;
	default:
		mpa_setup_eof(&e->setup);
	}
}

/*
 * A set-up that is sending does not read, and so cannot see that the peer has closed: the peer's
 * kernel answers with a reset. (A stream does read; such a peer just takes no data.)
 */
static bool is_refused(struct tcp_end *e)
{
	return e->is_blocked && other_end(e)->phase == TCP_ENDED;
}

static void setup_service(struct tcp_end *e)
{
	for (int round = 0; round < ROUNDS_MAX && e->phase == TCP_SETUP; round++) {
		if (other_end(e)->out.state == SIM_STREAM_BROKEN || is_refused(e))
			mpa_setup_eof(&e->setup);
		setup_output(e);
		setup_input(e);
		setup_events(e);
	}
	if (e->phase == TCP_SETUP)
		world_alarm_set(e->link->world, &e->due, mpa_setup_due(&e->setup));
}

void tcp_end_answer(struct tcp_end *e, bool accepts)
{
	const struct mpa_answer answer = {
		.ird = e->setup.config.ird,
		.ord = e->setup.config.ord,
	};

	if (!e->has_request)
		return;
	e->has_request = false;
	/* A set-up that has failed meanwhile reports it by its event. */
	if (accepts)
		(void)mpa_setup_accept(&e->setup, &answer, e->link->world->now_ns);
	else
		(void)mpa_setup_reject(&e->setup, (struct mpa_bytes){ 0 }, e->link->world->now_ns);
	tcp_end_service(e);
}

/* ---- The stream ----------------------------------------------------------------------------- */

/* Sends the list; *taken: bytes accepted. */
static enum sim_stream_status send_list(struct tcp_end *e, const struct span_list *l, size_t *taken)
{
	*taken = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct span *s = &l->spans[i];
		size_t n;

		if (sim_stream_send(&e->out, s->bytes, s->length, &n) == SIM_STREAM_RESET)
			return SIM_STREAM_RESET;
		*taken += n;
		if (n < s->length)
			return SIM_STREAM_WAIT;
	}
	return SIM_STREAM_OK;
}

/* Lends buffers to a stream that needs them, and takes unused ones back, at random times. */
static void change_buffers(struct tcp_end *e)
{
	if (iwarp_is_cramped(e->stream) && prng_chance(&e->link->prng, LEND_PPM)) {
		struct iwarp_buffers *buffers = iwarp_buffers_create();

		if (buffers)
			iwarp_lend(e->stream, buffers);
	} else if (prng_chance(&e->link->prng, TAKE_BACK_PPM)) {
		iwarp_buffers_destroy(iwarp_take_back(e->stream));
	}
}

static void stream_output(struct tcp_end *e)
{
	uint64_t now_ns = e->link->world->now_ns;

	change_buffers(e);
	for (int round = 0; round < ROUNDS_MAX && !e->is_blocked; round++) {
		struct span_list l;
		enum sim_stream_status status;
		size_t n;

		iwarp_have(e->stream, now_ns, &l);
		if (l.count == 0)
			return;
		status = send_list(e, &l, &n);
		if (status == SIM_STREAM_RESET) {
			iwarp_lost(e->stream);
			return;
		}
		if (n > 0)
			iwarp_sent(e->stream, now_ns, n);
		e->is_blocked = status == SIM_STREAM_WAIT;
	}
}

/* Flips a bit of the bytes just received, as a bad line would. */
static void corrupt(struct tcp_end *e, const struct span_list *l, size_t n)
{
	struct tcp_link *link = e->link;
	uint32_t at;

	if (!e->terms.has_crc || n == 0 || !prng_chance(&link->prng, link->corrupt_ppm))
		return;
	at = prng_below(&link->prng, (uint32_t)n);
	trace_add(&link->world->trace, (struct trace_event){ .kind = SIM_TRACE_CORRUPTED,
							     .who = 2 * link->id + !e->side,
							     .a = n,
							     .b = at });
	link->corruptions++;
	e->is_corrupted = true;
	for (uint32_t i = 0; i < l->count; i++) {
		if (at < l->spans[i].length) {
			l->spans[i].bytes[at] ^= (uint8_t)(1U << prng_below(&link->prng, 8));
			return;
		}
		at -= (uint32_t)l->spans[i].length;
	}
}

static enum sim_stream_status recv_list(struct tcp_end *e, const struct span_list *l, size_t *got)
{
	enum sim_stream_status status = SIM_STREAM_OK;

	*got = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct span *s = &l->spans[i];
		size_t n;

		status = sim_stream_recv(&other_end(e)->out, s->bytes, s->length, &n);
		*got += n;
		if (status != SIM_STREAM_OK || n < s->length)
			break;
	}
	/* The status after these bytes is reported next time. */
	return *got > 0 ? SIM_STREAM_OK : status;
}

static void stream_input(struct tcp_end *e)
{
	uint64_t now_ns = e->link->world->now_ns;

	for (int round = 0; round < ROUNDS_MAX && e->is_readable && !e->is_deaf; round++) {
		struct span_list l;
		size_t n;

		iwarp_want(e->stream, now_ns, &l);
		if (l.count == 0)
			return;
		switch (recv_list(e, &l, &n)) {
		case SIM_STREAM_OK:
			corrupt(e, &l, n);
			iwarp_got(e->stream, now_ns, &l, n);
			break;
		case SIM_STREAM_WAIT:
			e->is_readable = false;
			break;
		case SIM_STREAM_EOF:
			iwarp_eof(e->stream, now_ns);
			return;
		case SIM_STREAM_RESET:
			iwarp_lost(e->stream);
			return;
		}
	}
}

static void stream_service(struct tcp_end *e)
{
	/* Detected without reading, as poll() reports errors. */
	if (e->out.state == SIM_STREAM_BROKEN || other_end(e)->out.state == SIM_STREAM_BROKEN)
		iwarp_lost(e->stream);
	stream_input(e);
	stream_output(e);
	switch (iwarp_action(e->stream)) {
	case IWARP_NOTHING:
		break;
	case IWARP_SHUT:
		sim_stream_close(&e->out);
		break;
	case IWARP_CLOSE:
		end_leave(e, false);
		return;
	case IWARP_ABORT:
		end_leave(e, true);
		return;
	}
	world_alarm_set(e->link->world, &e->due, iwarp_due(e->stream));
}

void tcp_end_service(struct tcp_end *e)
{
	if (e->phase == TCP_SETUP)
		setup_service(e);
	if (e->phase == TCP_STREAM)
		stream_service(e);
}

void tcp_end_event(struct tcp_end *e, enum tcp_event event)
{
	if (event == TCP_READABLE)
		e->is_readable = true;
	else if (event == TCP_WRITABLE)
		e->is_blocked = false;
	else if (e->phase == TCP_STREAM)
		iwarp_expire(e->stream, e->link->world->now_ns);
	else if (e->phase == TCP_SETUP)
		mpa_setup_expire(&e->setup, e->link->world->now_ns);
	tcp_end_service(e);
}
