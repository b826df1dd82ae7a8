/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of hosts, and the judge of how they end. */
#include <string.h>

#include "base/check.h"
#include "sim/iscsi/iscsi_world.h"

enum {
	FILLER = 0xa5,
	FUA = 0x08,
	KEYS_BYTES = 256,
	REGISTER_BYTES = 24,
	INQUIRY_BYTES = 36,
	AREA_BLOCKS = ISW_BLOCKS / ISW_HOSTS, /* of a host, in private worlds */
	GOOD = 0x00,
	CHECK_CONDITION = 0x02,
	BUSY = 0x08,
	CONFLICT = 0x18,
	PATIENT_S = 100,
	SENSE_ILLEGAL = 0x5,
	SENSE_ATTENTION = 0x6,
	SENSE_MISCOMPARE = 0xe
};

void isw_asks_begin(struct isw_host *h, uint8_t *memory, uint8_t *copies)
{
	for (uint32_t i = 0; i < ISW_ASKS; i++) {
		h->asks[i].memory = memory + (size_t)i * ISW_ASK_BYTES;
		h->asks[i].copy = copies + (size_t)i * ISW_ASK_BYTES;
		h->asks[i].slot = i;
		memcpy(h->asks[i].copy, h->asks[i].memory, ISW_ASK_BYTES);
	}
}

uint32_t isw_asks_open(const struct isw_host *h)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < ISW_ASKS; i++)
		open += h->asks[i].is_used;
	return open;
}

static uint8_t *data_of(struct isw_ask *a)
{
	return a->memory + ISW_GUARD_BYTES;
}

/* ---- Making --------------------------------------------------------------------------------- */

static struct isw_ask *ask_get(struct isw_host *h, enum isw_kind kind)
{
	for (uint32_t i = 0; i < ISW_ASKS; i++) {
		struct isw_ask *a = &h->asks[i], was = *a;

		if (a->is_used)
			continue;
		*a = (struct isw_ask){ .kind = kind,
				       .host = h->index,
				       .slot = was.slot,
				       .memory = was.memory,
				       .copy = was.copy };
		a->request.kind = ISCSI_REQUEST_COMMAND;
		a->request.attr = ISCSI_ATTR_SIMPLE;
		a->unit = isw_draw(h->world, h->world->limits.units);
		memset(a->memory, FILLER, ISW_ASK_BYTES);
		return a;
	}
	return NULL;
}

static void lba_put(struct isw_ask *a, uint8_t short_opcode, uint8_t long_opcode, bool is_long)
{
	uint8_t *cdb = a->request.cdb;

	cdb[0] = is_long ? long_opcode : short_opcode;
	cdb[1] = a->is_fua ? FUA : 0;
	cdb[is_long ? 9 : 5] = (uint8_t)a->lba;
	cdb[is_long ? 13 : 8] = (uint8_t)a->blocks;
}

/* Its memory, in up to three elements. */
static void elements_make(struct iscsi_world *w, struct isw_ask *a)
{
	uint64_t at = (uint64_t)(data_of(a) - w->hosts[a->host].arena);
	uint32_t left = a->request.expected_bytes;

	while (left > 0) {
		bool is_last = a->sge_count + 1 >= w->limits.sges;
		uint32_t n = is_last ? left : 1 + isw_draw(w, left);

		a->sges[a->sge_count++] = (struct weft_sge){ at, n, 0 };
		at += n;
		left -= n;
	}
}

static bool is_written_now(const struct isw_host *h, uint32_t unit, uint32_t lba, uint32_t blocks)
{
	for (uint32_t i = 0; i < ISW_ASKS; i++) {
		const struct isw_ask *a = &h->asks[i];

		if (a->is_used && (a->kind == ISW_WRITE || a->kind == ISW_COMPARE) &&
		    a->unit == unit && a->lba < lba + blocks && lba < a->lba + a->blocks)
			return true;
	}
	return false;
}

/* Blocks that may be read, or written. False: none now. */
static bool blocks_draw(struct isw_host *h, struct isw_ask *a, uint32_t blocks_max, bool is_write)
{
	struct iscsi_world *w = h->world;
	const struct isw_limits *l = &w->limits;
	bool is_own = is_write && l->is_private;
	uint32_t first = is_own ? h->index * AREA_BLOCKS : 0;
	uint32_t count = is_own ? AREA_BLOCKS : ISW_BLOCKS;

	if (l->hot_blocks > 0 && count > l->hot_blocks)
		count = l->hot_blocks;
	a->blocks = 1 + isw_draw(w, blocks_max < count ? blocks_max : count);
	a->lba = first + isw_draw(w, count - a->blocks + 1);
	if (is_own && is_written_now(h, a->unit, a->lba, a->blocks))
		return false;
	return !is_write || isw_block_has_room(w, a->unit, a->lba, a->blocks);
}

static bool make_read(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;
	struct iscsi_request *r = &a->request;

	if (!blocks_draw(h, a, w->limits.blocks_max, false))
		return false;
	lba_put(a, 0x28, 0x88, isw_draw(w, 2));
	r->direction = ISCSI_READ;
	r->expected_bytes = a->blocks * ISW_BLOCK_BYTES;
	/* Sometimes more or less than the command brings. */
	if (isw_draw(w, 12) == 0 && a->blocks < ISW_BLOCKS)
		r->expected_bytes += 1 + isw_draw(w, ISW_BLOCK_BYTES);
	else if (isw_draw(w, 12) == 0)
		r->expected_bytes -= 1 + isw_draw(w, r->expected_bytes - 1);
	a->in_bytes = r->expected_bytes;
	return true;
}

static bool make_write(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;

	if (!blocks_draw(h, a, w->limits.blocks_max, true))
		return false;
	a->is_fua = isw_draw(w, 3) == 0;
	lba_put(a, 0x2a, 0x8a, isw_draw(w, 2));
	a->request.direction = ISCSI_WRITE;
	a->request.expected_bytes = a->blocks * ISW_BLOCK_BYTES;
	a->serial = ++w->serial;
	for (uint32_t i = 0; i < a->blocks; i++)
		isw_stamp(data_of(a) + (size_t)i * ISW_BLOCK_BYTES, a->serial, a->unit, a->lba + i);
	return true;
}

static bool make_compare(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;

	if (!blocks_draw(h, a, 1, true))
		return false;
	a->expected = h->seen[a->unit][a->lba];
	a->serial = ++w->serial;
	lba_put(a, 0x89, 0x89, true);
	a->request.direction = ISCSI_WRITE;
	a->request.expected_bytes = 2 * ISW_BLOCK_BYTES;
	isw_stamp(data_of(a), a->expected, a->unit, a->lba);
	isw_stamp(data_of(a) + ISW_BLOCK_BYTES, a->serial, a->unit, a->lba);
	return true;
}

/* PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY. */
static bool make_register(struct isw_host *h, struct isw_ask *a)
{
	a->request.cdb[0] = 0x5f;
	a->request.cdb[1] = 0x06;
	a->request.cdb[8] = REGISTER_BYTES;
	a->request.direction = ISCSI_WRITE;
	a->request.expected_bytes = REGISTER_BYTES;
	memset(data_of(a), 0, REGISTER_BYTES);
	data_of(a)[15] = (uint8_t)(1 + h->index);
	return true;
}

static bool make_in(struct isw_ask *a, uint8_t opcode, uint32_t length_at, uint32_t bytes)
{
	a->request.cdb[0] = opcode;
	a->request.cdb[length_at] = (uint8_t)(bytes >> 8);
	a->request.cdb[length_at + 1] = (uint8_t)bytes;
	a->request.direction = ISCSI_READ;
	a->request.expected_bytes = bytes;
	a->in_bytes = bytes;
	return true;
}

/* Some command of this host, and of its unit. */
static bool make_abort(struct isw_host *h, struct isw_ask *a)
{
	uint32_t first = isw_draw(h->world, ISW_ASKS);

	a->request.kind = ISCSI_REQUEST_TASK;
	a->request.function = ISCSI_ABORT_TASK;
	for (uint32_t i = 0; i < ISW_ASKS; i++) {
		struct isw_ask *b = &h->asks[(first + i) % ISW_ASKS];

		if (!b->is_used || b->request.kind != ISCSI_REQUEST_COMMAND)
			continue;
		a->request.task = &b->request;
		a->unit = b->unit;
		return true;
	}
	return false;
}

static bool make(struct isw_host *h, struct isw_ask *a)
{
	switch (a->kind) {
	case ISW_READ:
		return make_read(h, a);
	case ISW_WRITE:
		return make_write(h, a);
	case ISW_COMPARE:
		return make_compare(h, a);
	case ISW_REGISTER:
		return make_register(h, a);
	case ISW_KEYS:
		a->generation = h->world->units[a->unit].registered;
		return make_in(a, 0x5e, 7, KEYS_BYTES);
	case ISW_INQUIRY:
		return make_in(a, 0x12, 3, INQUIRY_BYTES);
	case ISW_FLUSH:
		a->request.cdb[0] = 0x35;
		return true;
	case ISW_ABORT:
		return make_abort(h, a);
	case ISW_RESET:
		a->request.kind = ISCSI_REQUEST_TASK;
		a->request.function = ISCSI_LU_RESET;
		return true;
	case ISW_PING:
		a->request.kind = ISCSI_REQUEST_PING;
		return true;
	default:
		return true;
	}
}

static void submit(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;

	elements_make(w, a);
	memcpy(a->copy, a->memory, ISW_ASK_BYTES);
	a->request.lun = (uint64_t)a->unit << 48;
	a->request.memory = a;
	a->begin = ++w->tick;
	a->life = w->target_life;
	if (iscsi_initiator_submit(h->session, &a->request, w->world.now_ns) != WEFT_OK)
		return;
	a->is_used = true;
	w->requests++;
	isw_trace(w, ISW_TRACE_ASKED, h->index, a->kind, a->serial);
	if (a->kind == ISW_WRITE || a->kind == ISW_COMPARE)
		isw_write_begin(w, a);
}

void isw_ask(struct isw_host *h)
{
	static const uint8_t weights[ISW_KINDS] = {
		[ISW_READ] = 30,    [ISW_WRITE] = 30, [ISW_FLUSH] = 6, [ISW_COMPARE] = 10,
		[ISW_REGISTER] = 4, [ISW_KEYS] = 3,   [ISW_READY] = 2, [ISW_INQUIRY] = 2,
		[ISW_ABORT] = 6,    [ISW_RESET] = 1,  [ISW_PING] = 3,
	};
	uint32_t sum = 0, lot, kind = 0;
	struct isw_ask *a;

	for (uint32_t i = 0; i < ISW_KINDS; i++)
		sum += weights[i];
	lot = isw_draw(h->world, sum);
	while (lot >= weights[kind])
		lot -= weights[kind++];
	if (h->world->limits.is_calm && (kind == ISW_ABORT || kind == ISW_RESET))
		kind = ISW_READ;
	a = ask_get(h, (enum isw_kind)kind);
	if (a && make(h, a))
		submit(h, a);
	else if (a)
		memcpy(a->copy, a->memory, ISW_ASK_BYTES);
}

void isw_ask_audit(struct isw_host *h, uint32_t unit)
{
	struct isw_ask *a = ask_get(h, ISW_READ);

	CHECK(a);
	a->unit = unit;
	a->blocks = ISW_BLOCKS;
	lba_put(a, 0x28, 0x88, false);
	a->request.direction = ISCSI_READ;
	a->request.expected_bytes = a->in_bytes = ISW_BLOCKS * ISW_BLOCK_BYTES;
	a->request.timeout_ns = PATIENT_S * UINT64_C(1000000000);
	submit(h, a);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A byte that must not have changed; ISW_NONE: all are as they were. */
static uint32_t first_changed(const struct isw_ask *a)
{
	uint32_t from = ISW_GUARD_BYTES, to = from + (a->is_used ? a->in_bytes : 0);

	for (uint32_t i = 0; i < ISW_ASK_BYTES; i++)
		if ((i < from || i >= to) && a->memory[i] != a->copy[i])
			return i;
	return ISW_NONE;
}

static void judge_memory(struct iscsi_world *w, const struct isw_ask *a)
{
	uint32_t at;

	if (!a->is_used && memcmp(a->memory, a->copy, ISW_ASK_BYTES) == 0)
		return;
	at = first_changed(a);
	if (at != ISW_NONE)
		isw_fail(w, "host %u: byte %u of memory %u has changed, %s", a->host, at, a->slot,
			 a->is_used ? "and must not" : "after its request had ended");
}

void isw_asks_judge_memory(struct isw_host *h)
{
	for (uint32_t i = 0; i < ISW_ASKS; i++)
		judge_memory(h->world, &h->asks[i]);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static uint8_t sense_key(const struct iscsi_request *r)
{
	return r->sense_bytes > 2 ? r->sense[2] & 0xf : 0;
}

static bool is_success(const struct isw_ask *a)
{
	return a->request.reason == WEFT_OK && a->request.status == GOOD;
}

/* What the end of a write says about its effect. */
static enum isw_end_of_write end_of(const struct isw_ask *a)
{
	const struct iscsi_request *r = &a->request;
	bool is_attention = r->status == CHECK_CONDITION && sense_key(r) == SENSE_ATTENTION;
	bool is_refused = r->status == BUSY || r->status == CONFLICT ||
			  (r->status == CHECK_CONDITION &&
			   (sense_key(r) == SENSE_ILLEGAL || sense_key(r) == SENSE_MISCOMPARE));

	if (is_success(a))
		return ISW_WRITE_SURE;
	if (a->sent == 0)
		return ISW_WRITE_VOID;
	/* What was sent on a former connection may be at the device yet. */
	if (r->reason == WEFT_OK && (a->sent == 1 || a->kind == ISW_COMPARE))
		return is_refused || is_attention ? ISW_WRITE_VOID : ISW_WRITE_CUT;
	return ISW_WRITE_OPEN;
}

static void write_open(struct isw_host *h, const struct isw_ask *a)
{
	if (h->open_count < sizeof(h->open_writes) / sizeof(h->open_writes[0]))
		h->open_writes[h->open_count++] = a->serial;
}

/* Writes that had ended without an answer before this one began have taken effect, or never do. */
static void close_writes(struct isw_host *h, const struct isw_ask *a)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < h->open_count; i++) {
		const struct isw_written *r = isw_written_find(h->world, h->open_writes[i]);

		if (r && r->end > a->begin)
			h->open_writes[left++] = h->open_writes[i];
		else
			isw_write_close(h->world, h->open_writes[i]);
	}
	h->open_count = left;
}

static void judge_residual(struct iscsi_world *w, const struct isw_ask *a)
{
	const struct iscsi_request *r = &a->request;
	uint32_t has = a->blocks * ISW_BLOCK_BYTES;
	uint32_t over = has > r->expected_bytes ? has - r->expected_bytes : 0;
	uint32_t under = has < r->expected_bytes ? r->expected_bytes - has : 0;

	if (r->is_overflow != (over > 0) || r->is_underflow != (under > 0) ||
	    r->residual != over + under)
		isw_fail(w, "host %u: a read of %u bytes of %u has a residual of %u", a->host,
			 r->expected_bytes, has, r->residual);
}

static void judge_read(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;

	judge_residual(w, a);
	for (uint32_t i = 0; i < a->blocks; i++) {
		uint64_t serial;

		if ((i + 1) * ISW_BLOCK_BYTES > a->request.expected_bytes)
			return;
		if (!isw_stamp_read(data_of(a) + (size_t)i * ISW_BLOCK_BYTES, a->unit, a->lba + i,
				    &serial)) {
			isw_fail(w, "host %u: what it reads as unit %u block %u is no block",
				 h->index, a->unit, a->lba + i);
			return;
		}
		isw_read_end(w, a, a->lba + i, serial);
		h->seen[a->unit][a->lba + i] = serial;
		w->bytes += ISW_BLOCK_BYTES;
	}
}

static uint32_t registers_open(const struct iscsi_world *w, uint32_t unit)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < w->limits.hosts; i++)
		for (uint32_t k = 0; k < ISW_ASKS; k++)
			open += w->hosts[i].asks[k].is_used && w->hosts[i].asks[k].unit == unit &&
				w->hosts[i].asks[k].kind == ISW_REGISTER;
	return open;
}

/* Each registration is counted by the unit, and was carried out once. */
static void judge_keys(struct iscsi_world *w, struct isw_ask *a)
{
	const struct isw_unit *u = &w->units[a->unit];
	const uint8_t *d = data_of(a);
	uint32_t generation = (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 |
			      d[3];
	uint32_t most = u->registered + u->maybe_registered + registers_open(w, a->unit);

	if (a->life != w->target_life)
		return;
	if (generation < a->generation || generation > most)
		isw_fail(w, "unit %u: %u registrations, not %u to %u", a->unit, generation,
			 a->generation, most);
}

static void registered(struct iscsi_world *w, const struct isw_ask *a)
{
	struct isw_unit *u = &w->units[a->unit];

	if (is_success(a))
		u->registered++;
	else
		u->maybe_registered++;
}

/* What may not end in any other way. */
static void judge_calm(struct iscsi_world *w, const struct isw_ask *a)
{
	const struct iscsi_request *r = &a->request;
	bool is_attention = r->status == CHECK_CONDITION && sense_key(r) == SENSE_ATTENTION;

	if (!w->limits.is_calm || is_success(a) || w->phase == ISW_POWER || is_attention ||
	    (a->kind == ISW_COMPARE && sense_key(r) == SENSE_MISCOMPARE))
		return;
	isw_fail(w, "host %u: a request of kind %u ends with status 0x%02x, sense %x, %s", a->host,
		 a->kind, r->status, sense_key(r), weft_reason_name(r->reason));
}

static void ended_write(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;
	enum isw_end_of_write how = end_of(a);

	isw_write_end(w, a, how);
	if (how == ISW_WRITE_OPEN)
		write_open(h, a);
	if (how != ISW_WRITE_SURE)
		return;
	for (uint32_t i = 0; i < a->blocks; i++)
		h->seen[a->unit][a->lba + i] = a->serial;
	if (a->kind == ISW_COMPARE)
		isw_compare_end(w, a);
	w->bytes += (uint64_t)a->blocks * ISW_BLOCK_BYTES;
}

void isw_ask_ended(struct isw_host *h, struct isw_ask *a)
{
	struct iscsi_world *w = h->world;
	const struct iscsi_request *r = &a->request;

	if (!a->is_used) {
		isw_fail(w, "host %u: request %u has ended twice", h->index, a->slot);
		return;
	}
	w->tick++;
	trace_add(&w->world.trace, (struct trace_event){ .kind = ISW_TRACE_ENDED,
							 .who = h->index,
							 .reason = (uint16_t)r->reason,
							 .a = r->status,
							 .b = a->serial });
	judge_memory(w, a);
	judge_calm(w, a);
	w->succeeded += is_success(a);
	if (a->kind == ISW_WRITE || a->kind == ISW_COMPARE)
		ended_write(h, a);
	else if (a->kind == ISW_REGISTER)
		registered(w, a);
	else if (a->kind == ISW_READ && is_success(a))
		judge_read(h, a);
	if (a->kind == ISW_READ && is_success(a))
		w->audited += w->phase == ISW_AUDIT || w->phase == ISW_POWER;
	else if (a->kind == ISW_FLUSH && is_success(a))
		isw_flush_end(w, a);
	else if (a->kind == ISW_RESET && is_success(a) && r->response == ISCSI_TASK_COMPLETE)
		isw_judge_reset(w, a);
	else if (a->kind == ISW_KEYS && is_success(a))
		judge_keys(w, a);
	if (is_success(a) && r->kind == ISCSI_REQUEST_COMMAND && a->kind != ISW_INQUIRY)
		close_writes(h, a);
	memcpy(a->copy, a->memory, ISW_ASK_BYTES);
	a->is_used = false;
	for (uint32_t i = 0; i < ISW_ASKS; i++)
		if (h->by_slot[i] == a)
			isw_fail(w, "host %u: request %u has ended, and its queue pair has it",
				 h->index, a->slot);
}

void isw_asks_lost(struct isw_host *h)
{
	struct iscsi_world *w = h->world;

	for (uint32_t i = 0; i < ISW_ASKS; i++) {
		struct isw_ask *a = &h->asks[i];

		if (!a->is_used)
			continue;
		w->tick++;
		if (a->kind == ISW_WRITE || a->kind == ISW_COMPARE) {
			isw_write_end(w, a, a->sent > 0 ? ISW_WRITE_OPEN : ISW_WRITE_VOID);
			if (a->sent > 0)
				write_open(h, a);
		} else if (a->kind == ISW_REGISTER && a->sent > 0) {
			w->units[a->unit].maybe_registered++;
		}
		a->is_used = false;
	}
}
