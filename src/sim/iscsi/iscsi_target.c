/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "iscsi/login/text.h"
#include "sim/iscsi/iscsi_iser.h"

enum {
	PORTAL_TAG = 1,
	TRANSFER_BYTES_MAX = 1 << 20,
	TURNS_MAX = 100000,
	REGISTRATIONS = 8,
	LEAVE_MS = 3000
};

static const uint64_t leave_ns = LEAVE_MS * UINT64_C(1000000);

/* ---- What devices are asked ----------------------------------------------------------------- */

static struct isw_probe *probe_of(struct store *s)
{
	return CONTAINER_OF(s, struct isw_probe, store);
}

/* A later write of the same host to this block, acknowledged, that began after this one's end. */
static bool is_late(const struct iscsi_world *w, const struct isw_written *r, uint32_t lba)
{
	for (uint64_t s = r->serial + 1; s <= w->serial; s++) {
		const struct isw_written *later = &w->written[s % ISW_WRITTEN];

		if (later->serial == s && later->host == r->host && later->unit == r->unit &&
		    later->is_sure && later->begin > r->end && later->lba <= lba &&
		    lba < later->lba + later->blocks)
			return true;
	}
	return false;
}

static void judge_block(struct isw_probe *p, const uint8_t *bytes, uint32_t lba)
{
	struct iscsi_world *w = p->world;
	struct isw_written *r;
	uint64_t serial;

	if (!isw_stamp_read(bytes, p->unit, lba, &serial)) {
		isw_fail(w, "unit %u: its device is asked to write to block %u what is no block",
			 p->unit, lba);
		return;
	}
	r = isw_written_find(w, serial);
	if (!r || lba < r->lba || lba >= r->lba + r->blocks) {
		isw_fail(w, "unit %u: its device is asked to write %llu to block %u", p->unit,
			 (unsigned long long)serial, lba);
		return;
	}
	if (r->end != 0 && (r->is_sure || r->is_void))
		isw_fail(w, "unit %u block %u: write %llu was %s, and comes again", p->unit, lba,
			 (unsigned long long)serial, r->is_sure ? "acknowledged" : "refused");
	if (r->end != 0 && is_late(w, r, lba))
		isw_fail(w, "unit %u block %u: write %llu comes after a later one of its host",
			 p->unit, lba, (unsigned long long)serial);
	if (lba == r->lba && ++r->times > 1 && !r->is_repeatable)
		isw_fail(w, "unit %u block %u: write %llu is carried out twice", p->unit, lba,
			 (unsigned long long)serial);
}

/* The blocks that a request writes; how many. */
static uint32_t gather(const struct store_request *r, uint8_t *bytes)
{
	size_t at = 0;

	CHECK(r->length <= ISW_BLOCKS * ISW_BLOCK_BYTES);
	for (uint32_t i = 0; i < r->span_count; i++) {
		memcpy(bytes + at, r->spans[i].bytes, r->spans[i].length);
		at += r->spans[i].length;
	}
	return (uint32_t)(r->length / ISW_BLOCK_BYTES);
}

static void judge_write(struct isw_probe *p, const struct store_request *r)
{
	uint8_t bytes[ISW_BLOCKS * ISW_BLOCK_BYTES];
	uint32_t blocks = gather(r, bytes);

	for (uint32_t i = 0; i < blocks; i++)
		judge_block(p, bytes + (size_t)i * ISW_BLOCK_BYTES,
			    (uint32_t)(r->offset / ISW_BLOCK_BYTES) + i);
}

/* A write has taken effect: its host has not been served since it ended without an answer. */
static void judge_effect(struct isw_probe *p, const struct store_request *r)
{
	uint8_t bytes[ISW_BLOCKS * ISW_BLOCK_BYTES];
	uint32_t blocks = gather(r, bytes), lba = (uint32_t)(r->offset / ISW_BLOCK_BYTES);

	for (uint32_t i = 0; i < blocks; i++) {
		const struct isw_written *by = NULL;
		uint64_t serial;

		if (isw_stamp_read(bytes + (size_t)i * ISW_BLOCK_BYTES, p->unit, lba + i, &serial))
			by = isw_written_find(p->world, serial);
		if (by && by->is_closed)
			isw_fail(p->world,
				 "unit %u block %u: write %llu takes effect after host %u was "
				 "served again",
				 p->unit, lba + i, (unsigned long long)serial, by->host);
	}
}

static void under_way_set(struct isw_probe *p, const struct store_request *was,
			  const struct store_request *is)
{
	for (uint32_t i = 0; i < ISW_UNDER_WAY; i++) {
		if (p->under_way[i].request != was)
			continue;
		p->under_way[i].request = is;
		p->under_way[i].tick = p->world->tick;
		return;
	}
	isw_fail(p->world, "unit %u: its device has too many requests, or one that it has not",
		 p->unit);
}

void isw_judge_reset(struct iscsi_world *w, const struct isw_ask *a)
{
	const struct isw_probe *p = &w->units[a->unit].probe;

	if (a->life != w->target_life || !w->node)
		return;
	for (uint32_t i = 0; i < ISW_UNDER_WAY; i++)
		if (p->under_way[i].request && p->under_way[i].tick < a->begin)
			isw_fail(w, "unit %u was reset, and its device has a request from before",
				 a->unit);
}

static void probe_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct isw_probe *p = probe_of(s);

	if (r->op == STORE_WRITE)
		judge_write(p, r);
	under_way_set(p, NULL, r);
	if (store_submit(p->below, r, now_ns) != WEFT_OK)
		isw_fail(p->world, "unit %u: its device refuses a request", p->unit);
}

static struct store_request *probe_next_done(struct store *s, uint64_t now_ns)
{
	struct isw_probe *p = probe_of(s);
	struct store_request *r = store_next_done(p->below, now_ns);

	if (r)
		under_way_set(p, r, NULL);
	if (r && r->op == STORE_WRITE && r->reason == WEFT_OK)
		judge_effect(p, r);
	return r;
}

static uint64_t probe_due(const struct store *s)
{
	return store_due(CONTAINER_OF(s, const struct isw_probe, store)->below);
}

static void probe_expire(struct store *s, uint64_t now_ns)
{
	store_expire(probe_of(s)->below, now_ns);
}

static void probe_destroy(struct store *s)
{
	(void)s;
}

static const struct store_calls probe_calls = {
	.submit = probe_submit,
	.next_done = probe_next_done,
	.due = probe_due,
	.expire = probe_expire,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = probe_destroy,
};

/* ---- Units ---------------------------------------------------------------------------------- */

int isw_units_open(struct iscsi_world *w)
{
	const struct isw_limits *l = &w->limits;
	const struct sim_disk_config c = {
		.prng = &w->world.prng,
		.size_bytes = ISW_BLOCKS * ISW_BLOCK_BYTES,
		.block_bytes = ISW_BLOCK_BYTES,
		.latency_max_ns = l->device_ns,
		.stuck_max_ns = l->is_calm ? 0 : 100 * l->device_ns,
		.stuck_ppm = l->is_calm ? 0 : l->device_ppm,
	};

	for (uint32_t i = 0; i < l->units; i++)
		if (sim_disk_open(&w->units[i].disk, &c) < 0)
			return -1;
	return 0;
}

void isw_units_close(struct iscsi_world *w)
{
	for (uint32_t i = 0; i < ISW_UNITS; i++)
		sim_disk_close(&w->units[i].disk);
}

static enum weft_reason unit_start(struct iscsi_world *w, uint32_t i)
{
	struct isw_unit *u = &w->units[i];
	const struct isw_limits *l = &w->limits;
	const struct fault_store_config fault = {
		.seed = prng_next(&w->world.prng),
		.error = w->phase == ISW_RUN ? l->device_ppm * 1000 : 0,
		.torn = w->phase == ISW_RUN ? l->device_ppm * 1000 : 0,
	};
	struct scsi_unit_config c = { .lun = (uint16_t)i,
				      .store = &u->probe.store,
				      .transfer_bytes_max = TRANSFER_BYTES_MAX,
				      .id = 1 + i,
				      .serial = "1" };
	struct store *below = &u->disk.store;
	enum weft_reason r = WEFT_OK;

	u->fault = u->delay = NULL;
	u->registered = u->maybe_registered = 0;
	if (l->device_ppm > 0 && !l->is_calm) {
		r = fault_store_create(below, &fault, &u->fault);
		below = r == WEFT_OK ? u->fault : below;
	}
	if (r == WEFT_OK && l->delay_ns > 0) {
		r = delay_store_create(below, l->delay_ns, &u->delay);
		below = r == WEFT_OK ? u->delay : below;
	}
	u->probe = (struct isw_probe){ .store = { .calls = &probe_calls, .shape = below->shape },
				       .below = below,
				       .world = w,
				       .unit = i };
	return r == WEFT_OK ? scsi_unit_add(w->scsi, &c) : r;
}

/* ---- The node's owner ----------------------------------------------------------------------- */

uint32_t isw_portal_of(const char *local)
{
	return strncmp(local, "10.0.0.2", strlen("10.0.0.2")) == 0 ? 1 : 0;
}

static void admit(void *owner, const struct iscsi_peer *peer, uint16_t target,
		  struct iscsi_admission *answer)
{
	struct iscsi_world *w = owner;

	(void)target;
	*answer = (struct iscsi_admission){ .status = ISCSI_STATUS_SUCCESS };
	if (isw_portal_of(peer->local) == 1 || !isw_chance(w, w->limits.redirect_ppm))
		return;
	answer->status = isw_draw(w, 2) ? ISCSI_STATUS_MOVED_TEMPORARILY
					: ISCSI_STATUS_MOVED_PERMANENTLY;
	answer->address = iscsi_word("10.0.0.2:3260,1");
}

static bool tell(void *owner, const struct iscsi_peer *peer, uint16_t target, struct wr *wr)
{
	(void)owner;
	(void)peer;
	(void)target;
	(void)wr;
	return true;
}

static void note(void *owner, const struct iscsi_note *n)
{
	(void)owner;
	(void)n;
}

static const struct iscsi_node_calls node_calls = { admit, tell, note };

void isw_judge_login(struct iscsi_world *w, const struct isw_host *h)
{
	struct iscsi_view v;
	uint32_t at = 0, sessions = 0;

	while (w->node && iscsi_node_view(w->node, &at, &v))
		sessions += v.tsih != 0 && strcmp(v.initiator, h->name) == 0;
	if (sessions > 1)
		isw_fail(w, "host %u has %u sessions at the target", h->index, sessions);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason node_start(struct iscsi_world *w)
{
	const struct isw_limits *l = &w->limits;
	struct iscsi_target_config t = { .name = iscsi_word(ISW_TARGET_NAME),
					 .alias = iscsi_word(""),
					 .scsi = w->scsi,
					 .portal_group_tag = PORTAL_TAG,
					 .wish = l->target_wish };
	struct iscsi_node_config c;
	enum weft_reason r;
	uint16_t index;

	iscsi_node_config_init(&c, l->sessions);
	c.targets_max = 1;
	c.connections_max = ISW_LINKS;
	c.texts_max = 4;
	c.window_max = l->window;
	c.tasks_max = l->sessions * l->window + 8;
	c.memory_bytes = 2 * (uint64_t)ISCSI_TRANSFER_MAX;
	c.login_wait_ns = 2 * UINT64_C(1000000000);
	c.ping_after_ns = l->target_ping_ns;
	c.ping_wait_ns = l->target_ping_ns;
	c.calls = &node_calls;
	c.owner = w;
	r = iscsi_node_create(&c, &w->node);
	return r == WEFT_OK ? iscsi_target_add(w->node, &t, &index) : r;
}

int isw_target_start(struct iscsi_world *w)
{
	struct scsi_target_config c = { .name = ISW_TARGET_NAME,
					.port = 1,
					.units_max = ISW_UNITS,
					.nexuses_max = w->limits.sessions + ISW_LINKS,
					.registrations_max = REGISTRATIONS };

	CHECK(!w->node);
	w->is_leaving = false;
	w->target_life++;
	if (scsi_target_create(&c, &w->scsi) != WEFT_OK)
		return -1;
	for (uint32_t i = 0; i < w->limits.units; i++) {
		if (w->units[i].disk.is_off)
			sim_disk_start(&w->units[i].disk);
		if (unit_start(w, i) != WEFT_OK)
			return -1;
	}
	if (node_start(w) != WEFT_OK || (w->is_iser && isw_iser_target_start(w) < 0))
		return -1;
	isw_trace(w, ISW_TRACE_TARGET_STARTED, 0, w->target_life, 0);
	return 0;
}

static void target_destroy(struct iscsi_world *w)
{
	struct iscsi_node_counts counts;

	iscsi_node_counts(w->node, &counts);
	if (!iscsi_node_is_idle(w->node) || counts.tasks != 0 || counts.memory_used != 0 ||
	    counts.sessions != 0 || counts.connections != 0 || counts.texts != 0)
		isw_fail(w,
			 "the target ends with %u sessions, %u connections, %u tasks, %u texts, "
			 "%u bytes of memory",
			 counts.sessions, counts.connections, counts.tasks, counts.texts,
			 (uint32_t)counts.memory_used);
	else
		iscsi_node_destroy(w->node);
	w->node = NULL;
	if (w->is_iser)
		isw_iser_target_stop(w);
	world_alarm_cancel(&w->world, &w->target_due);
	scsi_target_destroy(w->scsi);
	for (uint32_t i = 0; i < w->limits.units; i++) {
		struct isw_unit *u = &w->units[i];

		if (u->delay)
			store_destroy(u->delay);
		if (u->fault)
			store_destroy(u->fault);
	}
}

void isw_target_stop(struct iscsi_world *w, bool is_power)
{
	uint64_t now_ns = w->world.now_ns;

	if (!w->node)
		return;
	if (!is_power) {
		if (!w->is_leaving)
			iscsi_node_end(w->node, now_ns, leave_ns);
		w->is_leaving = true;
		return;
	}
	w->stops++;
	isw_trace(w, ISW_TRACE_TARGET_STOPPED, 0, 1, 0);
	for (uint32_t i = 0; i < w->limits.units; i++)
		sim_disk_stop(&w->units[i].disk);
	for (uint32_t i = 0; i < ISW_LINKS; i++)
		isw_link_leave(&w->links[i], ISCSI_TARGET, 1 + isw_draw(w, 2));
	/* What its devices have comes back as failed: the process is gone, and sends nothing. */
	for (uint32_t turn = 0; !iscsi_node_is_idle(w->node) && turn < TURNS_MAX; turn++) {
		uint64_t due_ns = iscsi_node_due(w->node);

		if (due_ns != UINT64_MAX && due_ns > now_ns)
			now_ns = due_ns;
		iscsi_node_expire(w->node, now_ns);
		iscsi_node_run(w->node, now_ns);
	}
	target_destroy(w);
	isw_power_failed(w);
}

bool isw_target_run(struct iscsi_world *w)
{
	struct iscsi_connection *c;
	bool has_run = false;

	if (!w->node)
		return false;
	if (w->is_iser)
		has_run = isw_iser_target_run(w);
	iscsi_node_run(w->node, w->world.now_ns);
	while ((c = iscsi_node_attend(w->node)) != NULL) {
		isw_link_serve(iscsi_connection_owner(c), ISCSI_TARGET);
		has_run = true;
	}
	world_alarm_set(&w->world, &w->target_due, iscsi_node_due(w->node));
	if (!has_run && w->is_leaving && iscsi_node_is_idle(w->node)) {
		isw_trace(w, ISW_TRACE_TARGET_STOPPED, 0, 0, 0);
		target_destroy(w);
		world_schedule(&w->world, 1 + isw_draw_ns(w, w->limits.away_ns),
			       (struct world_event){ .kind = ISW_EV_TARGET_START });
	}
	return has_run;
}
