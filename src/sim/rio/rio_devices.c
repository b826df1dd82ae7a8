/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices of the I/O units: simulated disks, single, striped or mirrored, and memory, behind
 * filters that delay and fail. A spy in front of each device tells the model of every request of
 * the core. The disks outlive the unit; everything else is rebuilt with it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/rio/rio_world.h"

enum { US = 1000, MS = 1000 * US, STRIPE_BYTES = 8192, MARKS_BYTES = 8192, JOBS = 32 };

/* ---- The spy -------------------------------------------------------------------------------- */

static struct rw_spy *spy_of(struct store *s)
{
	return CONTAINER_OF(s, struct rw_spy, store);
}

static void spy_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct rw_spy *spy = spy_of(s);

	rw_trace(spy->world, RW_TRACE_STORED, spy->world->devices[spy->device].node,
		 (uint64_t)spy->device << 8 | r->op, r->offset);
	rw_order_begun(spy->world, spy->device,
		       (struct rw_under_way){ r, rw_model_stored(spy->world, spy->device, r) });
	CHECK(store_submit(spy->below, r, now_ns) == WEFT_OK);
}

static struct store_request *spy_next_done(struct store *s, uint64_t now_ns)
{
	struct rw_spy *spy = spy_of(s);
	struct store_request *r = store_next_done(spy->below, now_ns);

	if (r)
		rw_order_done(spy->world, spy->device, r);
	return r;
}

static uint64_t spy_due(const struct store *s)
{
	return store_due(CONTAINER_OF(s, struct rw_spy, store)->below);
}

static void spy_expire(struct store *s, uint64_t now_ns)
{
	store_expire(spy_of(s)->below, now_ns);
}

static struct span spy_memory(struct store *s, uint64_t offset, uint64_t length)
{
	return store_memory(spy_of(s)->below, offset, length);
}

static void spy_destroy(struct store *s)
{
	(void)s;
}

static const struct store_calls spy_calls = {
	.submit = spy_submit,
	.next_done = spy_next_done,
	.due = spy_due,
	.expire = spy_expire,
	.memory = spy_memory,
	.event = store_no_event,
	.destroy = spy_destroy,
};

/* ---- Starting and stopping ------------------------------------------------------------------ */

static void layer(struct rw_device *d, enum weft_reason reason, struct store *store)
{
	CHECK(reason == WEFT_OK && d->layer_count < sizeof(d->layers) / sizeof(d->layers[0]));
	d->layers[d->layer_count++] = store;
}

static void bottom(struct rw_device *d)
{
	struct store *const members[RW_DEVICE_DISKS] = { &d->disks[0].store, &d->disks[1].store };
	const struct joint_config joint = { .members = members,
					    .member_count = d->disk_count,
					    .requests_max = JOBS };
	const struct mem_store_config memory = { .bytes = d->memory,
						 .size_bytes = d->size_bytes,
						 .block_bytes = d->block_bytes };
	const struct mirror_store_config mirror = { .joint = joint, .identity = { 1 } };
	struct store *s = members[0];
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < d->disk_count; i++)
		sim_disk_start(&d->disks[i]);
	if (d->kind == RW_MEMORY) {
		memset(d->memory, 0, (size_t)d->size_bytes);
		r = mem_store_create(&memory, &s);
	} else if (d->kind == RW_STRIPE) {
		r = stripe_store_create(&joint, STRIPE_BYTES, &s);
	} else if (d->kind == RW_MIRROR) {
		r = mirror_store_open(&mirror, &s);
	}
	layer(d, r, s);
}

static void device_start(struct rio_world *w, uint32_t device)
{
	struct rw_device *d = &w->devices[device];
	struct fault_store_config fault = { .error = d->error, .torn = d->torn };
	struct store *s;
	enum weft_reason r;

	d->layer_count = 0;
	bottom(d);
	if (d->delay_ns > 0) {
		r = delay_store_create(d->layers[d->layer_count - 1], d->delay_ns, &s);
		layer(d, r, s);
	}
	fault.seed = prng_next(&w->world.prng);
	if ((d->error > 0 || d->torn > 0) && w->phase == RW_RUN) {
		r = fault_store_create(d->layers[d->layer_count - 1], &fault, &s);
		layer(d, r, s);
	}
	d->spy = (struct rw_spy){ .world = w,
				  .device = device,
				  .below = d->layers[d->layer_count - 1] };
	d->spy.store = (struct store){ .calls = &spy_calls, .shape = d->spy.below->shape };
	d->size_bytes = d->spy.store.shape.size_bytes;
}

uint32_t rw_device_name(const struct rw_device *d, uint8_t name[RIO_DEVICE_NAME_MAX])
{
	static const char begins[] = "device ";
	uint32_t length = sizeof(begins) - 1;

	memcpy(name, begins, length);
	name[length] = (uint8_t)('0' + d->number);
	return length + 1;
}

void rw_devices_start(struct rio_world *w, uint32_t node)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		struct rw_device *d = &w->devices[i];
		uint8_t name[RIO_DEVICE_NAME_MAX + 1] = { 0 };

		if (d->node != node)
			continue;
		device_start(w, i);
		(void)rw_device_name(d, name);
		CHECK(rio_iounit_add_device(w->nodes[node].unit, d->number, (const char *)name,
					    &d->spy.store, w->nodes[node].incarnation) == WEFT_OK);
	}
}

/* A mirror also has requests of its own. */
static bool is_busy(const struct rw_device *d)
{
	bool is_busy = d->spy.store.under_way > 0;

	for (uint32_t i = 0; i < d->disk_count; i++)
		is_busy = is_busy || d->disks[i].store.under_way > 0;
	return is_busy;
}

/* The layers return all requests in progress, which are forgotten with the unit. */
static void device_stop(struct rio_world *w, struct rw_device *d)
{
	for (uint32_t i = 0; i < d->disk_count; i++)
		sim_disk_stop(&d->disks[i]);
	/* Bound: every request below fails, and none is added. */
	while (is_busy(d)) {
		store_expire(&d->spy.store, STORE_NEVER - 1);
		while (store_next_done(&d->spy.store, w->world.now_ns))
			continue;
	}
	while (d->layer_count > 0)
		store_destroy(d->layers[--d->layer_count]);
}

void rw_devices_stop(struct rio_world *w, uint32_t node)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		if (w->devices[i].node == node)
			device_stop(w, &w->devices[i]);
	}
	rw_model_cut(w, node);
}

void rw_devices_stick(struct rio_world *w)
{
	uint32_t device = rw_draw(w, w->device_count);
	struct rw_device *d = &w->devices[device];
	uint64_t until_ns = w->world.now_ns + rw_draw_ns(w, w->limits.stuck_ns);

	if (d->disk_count == 0 || !w->nodes[d->node].is_up)
		return;
	rw_trace(w, RW_TRACE_STUCK, d->node, device, until_ns);
	sim_disk_stick(&d->disks[rw_draw(w, d->disk_count)], until_ns);
	rw_node_wake(w, d->node);
}

/* Never both members at a time: a mirror does not survive that. */
void rw_devices_sicken(struct rio_world *w)
{
	uint32_t device = rw_draw(w, w->device_count), member = rw_draw(w, RW_DEVICE_DISKS);
	uint64_t until_ns = w->world.now_ns + rw_draw_ns(w, w->limits.sick_ns);
	struct rw_device *d = &w->devices[device];

	if (d->kind != RW_MIRROR || d->disks[1 - member].sick_until_ns > w->world.now_ns)
		return;
	rw_trace(w, RW_TRACE_SICK, d->node, device, until_ns);
	sim_disk_sicken(&d->disks[member], until_ns);
}

void rw_devices_heal(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		for (uint32_t k = 0; k < w->devices[i].disk_count; k++)
			sim_disk_sicken(&w->devices[i].disks[k], 0);
	}
}

/* ---- What the seed has for them ------------------------------------------------------------- */

static int device_draw(struct rio_world *w, uint32_t node, uint32_t number)
{
	struct rw_device *d = &w->devices[w->device_count++];
	struct sim_disk_config disk = { .prng = &w->world.prng };

	*d = (struct rw_device){ .node = node, .number = number };
	d->owner_number = (node - w->limits.requesters) << RIO_OWNER_UNIT_SHIFT | number;
	d->kind = (enum rw_device_kind)rw_draw(w, 4);
	if (w->hazards & RW_HAZARD_MIRROR && rw_draw(w, 2) == 0)
		d->kind = RW_MIRROR;
	d->block_bytes = rw_draw(w, 4) == 0 ? 4096 : 512;
	d->size_bytes = (uint64_t)STRIPE_BYTES * (1 + rw_draw(w, 6));
	d->disk_count = d->kind == RW_MEMORY ? 0 : d->kind == RW_DISK ? 1 : RW_DEVICE_DISKS;
	d->delay_ns = rw_draw(w, 4) == 0 ? 1 + rw_draw_ns(w, 20 * (uint64_t)MS) : 0;
	if (!w->limits.is_calm && rw_draw(w, 3) == 0) {
		d->error = rw_draw(w, 100 * MS);
		d->torn = rw_draw(w, 100 * MS);
	}
	disk.size_bytes = d->size_bytes + (d->kind == RW_MIRROR ? MARKS_BYTES : 0);
	disk.block_bytes = d->block_bytes;
	disk.latency_max_ns = (uint64_t)US << rw_draw(w, 15);
	disk.stuck_ppm = w->limits.stuck_ppm;
	disk.stuck_max_ns = w->limits.stuck_ns;
	for (uint32_t i = 0; i < d->disk_count; i++) {
		if (sim_disk_open(&d->disks[i], &disk) < 0)
			return -1;
	}
	d->memory = calloc(1, (size_t)d->size_bytes);
	return d->memory ? 0 : -1;
}

int rw_devices_draw(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->limits.units; i++) {
		uint32_t count = 1 + rw_draw(w, RW_UNIT_DEVICES);

		for (uint32_t k = 0; k < count; k++) {
			if (device_draw(w, 1 + w->limits.requesters + i, 1 + k) < 0)
				return -1;
		}
	}
	return 0;
}

void rw_devices_close(struct rio_world *w)
{
	for (uint32_t i = 0; i < w->device_count; i++) {
		for (uint32_t k = 0; k < w->devices[i].disk_count; k++)
			sim_disk_close(&w->devices[i].disks[k]);
		free(w->devices[i].memory);
	}
}
