/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/device.h"
#include "driver/sys/system_reason.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <weft/rio.h>

#include "driver/file/file_store.h"
#include "driver/sys/clock.h"
#include "roles/iscsi_store.h"
#include "roles/rio_store.h"

enum {
	REQUESTS_MAX = 128,
	MEM_BLOCK_BYTES = 512,
	NS_PER_MS = 1000000,
	NS_PER_S = 1000000000,
	WAIT_MS = 1000,
	URL_MAX = 4096
};

struct device {
	int epoll_fd;
	struct store_plan plan;
	struct store *stores[STORE_NODES_MAX]; /* of the plan's nodes; NULL: not open */
	void *memory[STORE_NODES_MAX];
};

struct store *device_store(const struct device *d)
{
	return d->stores[0];
}

const struct store_plan *device_plan(const struct device *d)
{
	return &d->plan;
}

const struct store *device_node(const struct device *d, uint32_t i)
{
	return d->stores[i];
}

int device_descriptor(const struct device *d)
{
	return d->epoll_fd;
}

/* Saturating add to the present time. */
static uint64_t end_of(uint64_t wait_ns)
{
	uint64_t now_ns = clock_ns();

	return now_ns + wait_ns < now_ns ? UINT64_MAX : now_ns + wait_ns;
}

/* Waits until a member may have completed a request, or until a deadline of the store or end_ns. */
static void wait_for(struct device *d, struct store *s, uint64_t end_ns)
{
	uint64_t due_ns = store_due(s) < end_ns ? store_due(s) : end_ns, now_ns = clock_ns();
	struct pollfd p = { .fd = d->epoll_fd, .events = POLLIN };
	int wait_ms = WAIT_MS;

	if (due_ns <= now_ns)
		wait_ms = 0;
	else if ((due_ns - now_ns) / NS_PER_MS < WAIT_MS)
		wait_ms = (int)((due_ns - now_ns) / NS_PER_MS) + 1;
	(void)poll(&p, 1, wait_ms);
	now_ns = clock_ns();
	if (store_due(s) <= now_ns)
		store_expire(s, now_ns);
}

/*
 * Waits for the mirror's own requests. Bound: the mirror starts nothing new but one flush and the
 * marks after it, so each member completes a few more requests. False: a member still has a request
 * at end_ns, so its memory cannot be freed.
 */
static bool settle(struct device *d, struct store *s, uint64_t end_ns)
{
	while (!store_settle(s, clock_ns())) {
		if (clock_ns() >= end_ns)
			return false;
		wait_for(d, s, end_ns);
	}
	return true;
}

static enum weft_reason mem_make(struct device *d, uint32_t i)
{
	const struct store_node *n = &d->plan.nodes[i];
	struct mem_store_config c = { .size_bytes = n->size_bytes,
				      .block_bytes = n->block_bytes ? n->block_bytes
								    : MEM_BLOCK_BYTES,
				      .is_readonly = n->is_readonly };
	void *bytes;

	if (n->size_bytes == 0 || n->size_bytes > SIZE_MAX)
		return WEFT_R_STORE_SIZE;
	/* Pages are allocated when touched, so a large device costs nothing up front. */
	bytes = mmap(NULL, (size_t)n->size_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return WEFT_R_NO_MEMORY;
	d->memory[i] = bytes;
	c.bytes = bytes;
	return mem_store_create(&c, &d->stores[i]);
}

static enum weft_reason file_make(struct device *d, uint32_t i, int *error)
{
	const struct store_node *n = &d->plan.nodes[i];
	struct epoll_event event = { .events = EPOLLIN };
	char path[PATH_MAX];
	struct file_store_config c = { .path = path,
				       .size_bytes = n->size_bytes,
				       .block_bytes = n->block_bytes,
				       .is_readonly = n->is_readonly,
				       .is_direct = n->is_direct,
				       .engine = n->engine,
				       .wait_ns = n->wait_ns };
	enum weft_reason reason;

	if (n->path_length >= sizeof(path)) {
		*error = ENAMETOOLONG;
		return WEFT_R_STORE_OPEN;
	}
	memcpy(path, n->path, n->path_length);
	path[n->path_length] = '\0';
	reason = file_store_open(&c, &d->stores[i], error);
	if (reason != WEFT_OK)
		return reason;
	if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, file_store_descriptor(d->stores[i]), &event) <
	    0) {
		*error = errno;
		return system_reason(*error);
	}
	return WEFT_OK;
}

/* why: set if there is more to say than the reason. */
static enum weft_reason rio_make(struct device *d, uint32_t i, char why[RIO_STORE_WHY])
{
	const struct store_node *n = &d->plan.nodes[i];
	struct epoll_event event = { .events = EPOLLIN };
	char path[PATH_MAX], name[WEFT_RIO_NAME_MAX + 1];
	enum weft_reason reason;

	if (n->path_length >= sizeof(path) || n->device_length >= sizeof(name) ||
	    n->device_length == 0) {
		snprintf(why, RIO_STORE_WHY, "rio has a path and device=NAME");
		return WEFT_R_STORE_OPEN;
	}
	snprintf(path, sizeof(path), "%.*s", (int)n->path_length, n->path);
	snprintf(name, sizeof(name), "%.*s", (int)n->device_length, n->device);
	reason = rio_store_open(&(struct rio_store_config){ path, name }, &d->stores[i], why);
	if (reason == WEFT_OK &&
	    epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, rio_store_descriptor(d->stores[i]), &event) < 0)
		reason = system_reason(errno);
	return reason;
}

/* why: set if there is more to say than the reason. */
static enum weft_reason iscsi_make(struct device *d, uint32_t i, char why[RIO_STORE_WHY])
{
	const struct store_node *n = &d->plan.nodes[i];
	struct epoll_event event = { .events = EPOLLIN };
	char url[URL_MAX], said[WEFT_ISCSI_WHY_MAX] = "";
	const struct iscsi_store_config c = {
		.url = url,
		.options.retry_ns = n->wait_ns > 0 ? n->wait_ns : WEFT_ISCSI_NO_RETRY,
		.is_readonly = n->is_readonly,
	};
	enum weft_reason reason;

	if (n->path_length >= sizeof(url) - sizeof("iscsi:")) {
		snprintf(why, RIO_STORE_WHY, "at character %u, %s: this URL is too long", n->at + 1,
			 store_kind_name(n->kind));
		return WEFT_R_STORE_OPEN;
	}
	snprintf(url, sizeof(url), "%s:%.*s", store_kind_name(n->kind), (int)n->path_length,
		 n->path);
	reason = iscsi_store_open(&c, &d->stores[i], said);
	if (said[0])
		snprintf(why, RIO_STORE_WHY, "at character %u, %s: %s", n->at + 1,
			 store_kind_name(n->kind), said);
	if (reason == WEFT_OK &&
	    epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, iscsi_store_descriptor(d->stores[i]), &event) < 0)
		reason = system_reason(errno);
	return reason;
}

/* Does a device of this kind outlive the process? */
static bool is_lasting_kind(enum store_kind kind)
{
	return kind == STORE_KIND_FILE || kind == STORE_KIND_RIO || kind == STORE_KIND_ISCSI ||
	       kind == STORE_KIND_ISER;
}

/* Does it have a member, at any depth, that outlives the process? */
static bool is_lasting(const struct device *d, uint32_t i)
{
	for (uint32_t leaf = i + 1; leaf < d->plan.count; leaf++) {
		enum store_kind kind = d->plan.nodes[leaf].kind;
		uint32_t up = leaf;

		while (up != i && up != STORE_NO_NODE)
			up = d->plan.nodes[up].parent;
		if (up == i && is_lasting_kind(kind))
			return true;
	}
	return false;
}

/* The index of the first member with an uncompleted request, from 0. */
static uint32_t stuck_member(const struct device *d, uint32_t mirror)
{
	uint32_t nth = 0;

	for (uint32_t m = mirror + 1; m < d->plan.count; m++) {
		if (d->plan.nodes[m].parent != mirror)
			continue;
		if (d->stores[m] && d->stores[m]->under_way > 0)
			return nth;
		nth++;
	}
	return 0;
}

/* Bound: each member completes one read, and one mark for each member that fails; and end_ns. */
static enum weft_reason mirror_wait(struct device *d, uint32_t i, uint32_t *member)
{
	struct store *mirror = d->stores[i];
	uint64_t end_ns = end_of(d->plan.nodes[i].wait_ns);
	enum weft_reason reason;

	(void)store_next_done(mirror, clock_ns());
	while ((reason = mirror_store_opened(mirror, member)) == WEFT_R_BUSY) {
		if (clock_ns() >= end_ns) {
			mirror_store_refuse(mirror, WEFT_R_STORE_MIRROR_STUCK, stuck_member(d, i));
			continue;
		}
		wait_for(d, mirror, end_ns);
		(void)store_next_done(mirror, clock_ns());
	}
	return reason;
}

static void refuse_member(const struct store_node *mirror, uint32_t member, enum weft_reason reason,
			  char why[RIO_STORE_WHY])
{
	snprintf(why, RIO_STORE_WHY, "at character %u, member %u of the mirror: %s", mirror->at + 1,
		 member + 1, weft_reason_text(reason));
}

/* The mirror is accepted or refused once its members' marks are read. */
static enum weft_reason mirror_make(struct device *d, uint32_t i, const struct joint_config *joint,
				    char why[RIO_STORE_WHY])
{
	const struct store_node *n = &d->plan.nodes[i];
	struct mirror_store_config c = { .joint = *joint,
					 .is_degraded_ok = n->is_degraded_ok,
					 .is_adopting = n->is_adopting };
	enum weft_reason reason;
	uint32_t member;

	if (!is_lasting(d, i))
		return mirror_store_create(joint, &d->stores[i]);
	if (getrandom(c.identity, sizeof(c.identity), 0) != sizeof(c.identity))
		return system_reason(errno);
	reason = mirror_store_open(&c, &d->stores[i]);
	if (reason != WEFT_OK)
		return reason;
	reason = mirror_wait(d, i, &member);
	if (reason != WEFT_OK)
		refuse_member(n, member, reason, why);
	return reason;
}

/* Members have higher indices than their parent, and are made before it. */
static enum weft_reason node_make(struct device *d, uint32_t i, int *error, char why[RIO_STORE_WHY])
{
	const struct store_node *n = &d->plan.nodes[i];
	struct store *members[STORE_MEMBERS_MAX];
	struct joint_config joint = { .members = members, .requests_max = REQUESTS_MAX };

	for (uint32_t m = i + 1; m < d->plan.count; m++) {
		if (d->plan.nodes[m].parent == i)
			members[joint.member_count++] = d->stores[m];
	}
	switch (n->kind) {
	case STORE_KIND_MEM:
		return mem_make(d, i);
	case STORE_KIND_FILE:
		return file_make(d, i, error);
	case STORE_KIND_RIO:
		return rio_make(d, i, why);
	case STORE_KIND_ISCSI:
	case STORE_KIND_ISER:
		return iscsi_make(d, i, why);
	case STORE_KIND_STRIPE:
		return stripe_store_create(&joint, n->unit_bytes, &d->stores[i]);
	case STORE_KIND_MIRROR:
		return mirror_make(d, i, &joint, why);
	case STORE_KIND_DELAY:
		return delay_store_create(members[0], n->delay_ns, &d->stores[i]);
	case STORE_KIND_FAULT:
		return fault_store_create(members[0], &n->fault, &d->stores[i]);
	case STORE_KIND_VOLATILE:
		return volatile_store_create(members[0], &n->cache, &d->stores[i]);
	default:
		return WEFT_R_STORE_TEXT;
	}
}

/*
 * A member that cannot be opened counts as missing if its mirror can do without it. A member in use
 * does not: it may be in use as another member of this very mirror.
 */
static bool is_spared(const struct device *d, uint32_t i, enum weft_reason reason)
{
	uint32_t parent = d->plan.nodes[i].parent;

	return !d->stores[i] && parent != STORE_NO_NODE &&
	       d->plan.nodes[parent].kind == STORE_KIND_MIRROR &&
	       d->plan.nodes[parent].is_degraded_ok && reason != WEFT_R_STORE_IN_USE;
}

static void refuse_text(const struct store_complaint *complaint, struct device_refusal *why)
{
	*why = (struct device_refusal){ .reason = WEFT_R_STORE_TEXT, .at = complaint->at + 1 };
	snprintf(why->text, sizeof(why->text), "at character %u: %s", why->at, complaint->why);
}

static void refuse_node(const struct store_node *n, enum weft_reason reason, int error,
			struct device_refusal *why)
{
	char system[80] = "", buffer[64];

	if (error != 0)
		snprintf(system, sizeof(system), " (%s)",
			 strerror_r(error, buffer, sizeof(buffer)));
	*why = (struct device_refusal){ .reason = reason, .error = error, .at = n->at + 1 };
	snprintf(why->text, sizeof(why->text), "at character %u, %s: %s%s", why->at,
		 store_kind_name(n->kind), weft_reason_text(reason), system);
}

/* The outermost mirror that node i is, or is part of. */
static uint32_t outermost_mirror(const struct device *d, uint32_t i)
{
	uint32_t mirror = STORE_NO_NODE;

	for (; i != STORE_NO_NODE; i = d->plan.nodes[i].parent) {
		if (d->plan.nodes[i].kind == STORE_KIND_MIRROR)
			mirror = i;
	}
	return mirror;
}

/* All nodes in an outermost mirror share its deadline; else closing could wait once per node. */
static void close_ends(const struct device *d, uint64_t end_ns[STORE_NODES_MAX])
{
	for (uint32_t i = 0; i < d->plan.count; i++) {
		uint32_t mirror = outermost_mirror(d, i);

		if (mirror == STORE_NO_NODE)
			end_ns[i] = UINT64_MAX;
		else if (mirror == i)
			end_ns[i] = end_of(d->plan.nodes[i].wait_ns);
		else
			end_ns[i] = end_ns[mirror];
	}
}

/*
 * Closes parents before their members. Returns the first stuck node; otherwise the device is freed.
 */
static uint32_t close_nodes(struct device *d, bool is_waiting)
{
	uint64_t end_ns[STORE_NODES_MAX];

	close_ends(d, end_ns);
	for (uint32_t i = 0; i < d->plan.count; i++) {
		if (d->stores[i]) {
			if (!settle(d, d->stores[i], is_waiting ? UINT64_MAX : end_ns[i]))
				return i;
			store_destroy(d->stores[i]);
			d->stores[i] = NULL;
		}
		if (d->memory[i])
			munmap(d->memory[i], (size_t)d->plan.nodes[i].size_bytes);
		d->memory[i] = NULL;
	}
	close(d->epoll_fd);
	free(d);
	return STORE_NO_NODE;
}

static void *close_rest(void *device)
{
	(void)close_nodes(device, true);
	return NULL;
}

/*
 * Leaves stuck requests to a thread: the kernel may still access the device's memory, and the file
 * locks must last as long. False: no thread could be created.
 */
static bool close_later(struct device *d)
{
	sigset_t all, before;
	pthread_t thread;
	bool has_begun;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	has_begun = pthread_create(&thread, NULL, close_rest, d) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (has_begun)
		pthread_detach(thread);
	return has_begun;
}

bool device_close_report(struct device *d, struct device_refusal *why)
{
	uint32_t stuck = close_nodes(d, false);
	uint32_t mirror = stuck;

	if (stuck == STORE_NO_NODE)
		return true;
	while (d->plan.nodes[mirror].kind != STORE_KIND_MIRROR)
		mirror = d->plan.nodes[mirror].parent;
	*why = (struct device_refusal){ .reason = WEFT_R_STORE_MIRROR_STUCK,
					.at = d->plan.nodes[mirror].at + 1 };
	refuse_member(&d->plan.nodes[mirror], stuck_member(d, mirror), why->reason, why->text);
	if (!close_later(d))
		(void)close_nodes(d, true);
	return false;
}

void device_close(struct device *d)
{
	struct device_refusal why;

	(void)device_close_report(d, &why);
}

enum weft_reason device_open(const char *text, struct device **out, struct device_refusal *why)
{
	struct device *d = calloc(1, sizeof(*d));
	struct store_complaint complaint;

	*why = (struct device_refusal){ .reason = WEFT_R_NO_MEMORY, .at = 1 };
	if (!d)
		return why->reason;
	if (!store_plan_read(&d->plan, text, &complaint)) {
		refuse_text(&complaint, why);
		free(d);
		return why->reason;
	}
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0) {
		refuse_node(&d->plan.nodes[0], WEFT_R_DESCRIPTORS, errno, why);
		free(d);
		return why->reason;
	}
	for (uint32_t i = d->plan.count; i-- > 0;) {
		int error = 0;
		char more[RIO_STORE_WHY] = "";
		enum weft_reason reason = node_make(d, i, &error, more);

		if (reason == WEFT_OK)
			continue;
		if (is_spared(d, i, reason))
			continue;
		refuse_node(&d->plan.nodes[i], reason, error, why);
		if (more[0])
			snprintf(why->text, sizeof(why->text), "%s", more);
		if (reason != WEFT_R_STORE_MIRROR_STUCK || !close_later(d))
			device_close(d);
		return reason;
	}
	why->reason = WEFT_OK;
	*out = d;
	return WEFT_OK;
}

void device_event_text(const char *name, const struct store_event *e, char line[DEVICE_EVENT_TEXT])
{
	const char *why = weft_reason_text(e->reason), *more = e->error ? strerror(e->error) : "";
	int n = snprintf(line, DEVICE_EVENT_TEXT, "device %s: member %u of its mirror ", name,
			 e->member + 1);
	size_t room = DEVICE_EVENT_TEXT - (size_t)n;

	if (e->length > 0)
		snprintf(line + n, room,
			 "cannot be read at %" PRIu64 "+%" PRIu64
			 ", so no other can have a copy of that: %s%s%s",
			 e->offset, e->length, why, e->error ? " " : "", more);
	else if (e->reason == WEFT_OK)
		snprintf(line + n, room, "has all the data again");
	else
		snprintf(line + n, room, "is left out from now on: %s%s%s", why,
			 e->error ? " " : "", more);
}
