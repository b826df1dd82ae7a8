/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/fabric_bed.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "driver/sys/fabric_client.h"
#include "test.h"

enum { NODES = 2, QUEUE_MAX = 64, PORT = 1, EVENTS_MAX = 64 };

struct queue {
	bool is_refused; /* until the hub tells of room */
	uint32_t first, count;
	uint32_t lengths[QUEUE_MAX];
	uint8_t frames[QUEUE_MAX][IBA_FRAME_MAX];
};

static struct {
	char name[32];
	pthread_t thread;
	pthread_mutex_t lock;
	struct fabric_hub *hub;
	int listener; /* of programs that ask about ports */
	struct attach_state states[NODES];
	struct queue to[NODES];
	uint64_t frames, crossed, by[BED_PATHS][NODES];
	bool is_cut[BED_PATHS];
	bool is_crossing;
	uint32_t cross_path, cross_to; /* as last asked for */
	int wake;
	atomic_bool has_ended, is_awake;
} bed = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *const node_names[NODES] = { "left", "right" };

/* ---- The fabric ----------------------------------------------------------------------------- */

static bool bed_post(void *owner, uint32_t node, uint32_t port, const uint8_t *bytes,
		     uint32_t length)
{
	struct queue *q = &bed.to[!node];
	uint32_t at = (q->first + q->count) % QUEUE_MAX;
	struct iba_lrh lrh;

	(void)owner;
	REQUIRE(port == PORT && length <= IBA_FRAME_MAX);
	MUST(iba_lrh_decode(&lrh, bytes, length));
	if (bed.is_cut[lrh.to % BED_PATHS])
		return true;
	if (q->count == QUEUE_MAX)
		return false;
	memcpy(q->frames[at], bytes, length);
	q->lengths[at] = length;
	q->count++;
	bed.frames++;
	bed.by[lrh.to % BED_PATHS][!node]++;
	return true;
}

/* Where none waits, and none is lost. */
static bool bed_cross(void *owner, const uint8_t *headers, uint32_t length,
		      struct fabric_hub_way *way)
{
	struct iba_lrh lrh;

	(void)owner;
	REQUIRE(way->port == PORT);
	MUST(iba_lrh_decode(&lrh, headers, length));
	way->node = !way->node;
	way->bytes_max = IBA_FRAME_MAX;
	way->lane = 0;
	bed.cross_path = lrh.to % BED_PATHS;
	bed.cross_to = way->node;
	return bed.is_crossing && bed.to[way->node].count == 0 && !bed.is_cut[bed.cross_path];
}

static void bed_crossed(void *owner, uint64_t frames, uint64_t words, uint64_t flits)
{
	(void)owner;
	REQUIRE(frames > 0 && flits >= frames && words > frames);
	bed.crossed += frames;
	bed.frames += frames;
	bed.by[bed.cross_path][bed.cross_to] += frames;
}

static bool bed_tell(void *owner, uint32_t node, uint32_t port, struct attach_state *state)
{
	(void)owner;
	if (port != PORT)
		return false;
	*state = bed.states[node];
	return true;
}

static enum weft_reason bed_find(void *owner, const char *name, uint32_t *node, uint32_t *port)
{
	(void)owner;
	*port = PORT;
	for (*node = 0; *node < NODES; ++*node) {
		if (strcmp(name, node_names[*node]) == 0)
			return WEFT_OK;
	}
	return strcmp(name, "elsewhere") == 0 ? WEFT_R_FABRIC_PART : WEFT_R_FABRIC_NODE;
}

static bool move(uint32_t node)
{
	struct queue *q = &bed.to[node];
	bool has_moved = false;

	while (q->count > 0 && !q->is_refused) {
		q->is_refused = fabric_hub_deliver(bed.hub, node, PORT, q->frames[q->first],
						   q->lengths[q->first]) == FABRIC_HUB_NO_ROOM;
		if (q->is_refused)
			break;
		q->first = (q->first + 1) % QUEUE_MAX;
		q->count--;
		has_moved = true;
	}
	if (has_moved)
		fabric_hub_room(bed.hub, !node, PORT);
	return has_moved;
}

static bool turn(void)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t node, port;
	bool has_moved;
	int count;

	count = epoll_wait(fabric_hub_fd(bed.hub), events, EVENTS_MAX, 0);
	(void)fabric_hub_hear(bed.hub, events, count);
	has_moved = fabric_hub_run(bed.hub);

	for (node = 0; node < NODES; node++)
		has_moved |= move(node);
	while (fabric_hub_ready(bed.hub, &node, &port)) {
		bed.to[node].is_refused = false;
		has_moved = true;
	}
	fabric_hub_flush(bed.hub);
	return has_moved;
}

/* ---- Questions of programs ------------------------------------------------------------------ */

static void port_tell(const struct attach_state *s, uint32_t node, struct fabric_msg *answer)
{
	struct fabric_msg_port *p = &answer->port;

	*answer = (struct fabric_msg){ .kind = FABRIC_MSG_IS_PORT };
	p->node = node;
	p->port = PORT;
	p->node_info = (struct sm_node_info){
		.node_type = SM_NODE_CA,
		.ports = 1,
		.system_guid = s->node_guid,
		.node_guid = s->node_guid,
		.port_guid = s->port_guid,
		.pkeys = SM_PKEYS,
		.vendor = 0x123456,
	};
	(void)snprintf((char *)p->description.text, SM_DESCRIPTION_BYTES, "%s", s->node);
	p->port_info = s->info;
	memcpy(p->guids.guids, s->guids, sizeof(s->guids));
	memcpy(p->pkeys.pkeys, s->p_keys, sizeof(s->p_keys));
}

static bool is_meant(const struct attach_state *s, uint32_t node, const char *name)
{
	if (name[0] == '#')
		return strtoul(name + 1, NULL, 10) == node;
	if (strncmp(name, "0x", 2) == 0)
		return strtoull(name, NULL, 16) == s->port_guid;
	return strcmp(name, node_names[node]) == 0;
}

static struct fabric_msg answer_to(const struct fabric_msg *ask)
{
	struct fabric_msg answer = { .kind = FABRIC_MSG_ANSWER, .reason = WEFT_R_FABRIC_NODE };

	for (uint32_t i = 0; ask->kind == FABRIC_MSG_PORT && i < NODES; i++) {
		if (is_meant(&bed.states[i], i, ask->where.node) && ask->where.port <= PORT)
			port_tell(&bed.states[i], i, &answer);
	}
	return answer;
}

/* Each asks once. */
static void questions_take(void)
{
	static struct fabric_packet packet;
	int fd;

	while ((fd = accept4(bed.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct fabric_msg answer;

		if (poll(&p, 1, 1000) == 1 && fabric_packet_receive(fd, &packet, false) == 0) {
			answer = answer_to(&packet.m);
			(void)fabric_msg_send(fd, &answer);
			fabric_packet_done(&packet);
		}
		close(fd);
	}
}

static void *run(void *arg)
{
	(void)arg;
	while (!atomic_load(&bed.has_ended)) {
		struct pollfd fds[] = { { .fd = fabric_hub_fd(bed.hub), .events = POLLIN },
					{ .fd = bed.wake, .events = POLLIN },
					{ .fd = bed.listener, .events = POLLIN } };
		bool has_more = true;

		pthread_mutex_lock(&bed.lock);
		while (has_more)
			has_more = turn();
		questions_take();
		pthread_mutex_unlock(&bed.lock);
		(void)poll(fds, 3, atomic_load(&bed.is_awake) ? 0 : -1);
	}
	return NULL;
}

/* ---- The test ------------------------------------------------------------------------------- */

static struct attach_state state_of(uint32_t node)
{
	struct attach_state s = {
		.info = {
			.subnet_prefix = UINT64_C(0xfe80000000000000),
			.lid = (uint16_t)(16 + (node << 4)),
			.lmc = BED_LMC,
			.sm_lid = 1,
			.state = SM_PORT_ACTIVE,
			.phys_state = SM_PHYS_LINK_UP,
			.mtu = 4,
			.mtu_cap = 5,
			.width_active = 2,
			.speed_active = 4,
			.extended_active = 2,
			.subnet_timeout = 18,
			.lane_cap = 3,
		},
		.node_guid = 0x100 + node,
		.port_guid = 0x200 + node,
		.guids = { 0x200 + node },
		.p_keys = { IBA_PKEY_DEFAULT },
	};

	(void)snprintf(s.node, sizeof(s.node), "%s", node_names[node]);
	return s;
}

void fabric_bed_open(void)
{
	const struct fabric_hub_config config = {
		.nodes = NODES,
		.cross = bed_cross,
		.crossed = bed_crossed,
		.post = bed_post,
		.tell = bed_tell,
		.find = bed_find,
	};

	struct unix_names names;
	bool are_all_foreign;

	if (bed.hub)
		return;
	(void)snprintf(bed.name, sizeof(bed.name), "test-%d", (int)getpid());
	for (uint32_t i = 0; i < NODES; i++)
		bed.states[i] = state_of(i);
	MUST(fabric_hub_open(&config, bed.name, &bed.hub));
	names = fabric_socket_names(bed.name);
	bed.listener = unix_names_take(&names, true, &are_all_foreign);
	REQUIRE(bed.listener >= 0);
	bed.wake = eventfd(0, EFD_CLOEXEC);
	REQUIRE(bed.wake >= 0);
	atomic_store(&bed.has_ended, false);
	atomic_store(&bed.is_awake, false);
	REQUIRE(pthread_create(&bed.thread, NULL, run, NULL) == 0);
}

void fabric_bed_close(void)
{
	const uint64_t one = 1;

	atomic_store(&bed.has_ended, true);
	REQUIRE(write(bed.wake, &one, sizeof(one)) == sizeof(one));
	REQUIRE(pthread_join(bed.thread, NULL) == 0);
	fabric_hub_close(bed.hub);
	close(bed.wake);
	close(bed.listener);
	bed.hub = NULL;
	bed.frames = bed.crossed = 0;
	memset(bed.by, 0, sizeof(bed.by));
	memset(bed.is_cut, 0, sizeof(bed.is_cut));
	for (int i = 0; i < NODES; i++)
		bed.to[i].first = bed.to[i].count = 0;
}

void fabric_bed_stay_awake(void)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&bed.lock);
	fabric_hub_stay_awake(bed.hub, true);
	atomic_store(&bed.is_awake, true);
	pthread_mutex_unlock(&bed.lock);
	REQUIRE(write(bed.wake, &one, sizeof(one)) == sizeof(one));
}

const char *fabric_bed_name(void)
{
	return bed.name;
}

void fabric_bed_enter(int node)
{
	REQUIRE(setenv("WEFT_FABRIC", bed.name, 1) == 0);
	REQUIRE(setenv("WEFT_NODE", node_names[node], 1) == 0);
}

static struct weft_address gid_of(int node)
{
	struct weft_address a = { .family = 6, .ip = { 0xfe, 0x80, [14] = 2 } };

	a.ip[15] = (uint8_t)node;
	return a;
}

struct weft_path fabric_bed_path(int from, int to, bool has_gids)
{
	struct weft_path p = {
		.mtu_bytes = 1024,
		.service_level = 2,
		.from_lid = 16U + ((uint32_t)from << 4) + 1, /* by its second LID */
		.to_lid = 16U + ((uint32_t)to << 4) + 1,
	};

	if (has_gids) {
		p.from = gid_of(from);
		p.to = gid_of(to);
	}
	return p;
}

void fabric_bed_change(int node, void (*change)(struct attach_state *state), uint32_t news)
{
	pthread_mutex_lock(&bed.lock);
	change(&bed.states[node]);
	fabric_hub_changed(bed.hub, (uint32_t)node, PORT, news);
	pthread_mutex_unlock(&bed.lock);
}

void fabric_bed_hold(void)
{
	pthread_mutex_lock(&bed.lock);
}

void fabric_bed_release(void)
{
	pthread_mutex_unlock(&bed.lock);
}

void fabric_bed_expire(uint64_t now_ns)
{
	const uint64_t one = 1;

	fabric_hub_expire(bed.hub, now_ns);
	REQUIRE(write(bed.wake, &one, sizeof(one)) == sizeof(one));
}

struct fabric_hub_counts fabric_bed_counts(void)
{
	struct fabric_hub_counts counts;

	pthread_mutex_lock(&bed.lock);
	counts = *fabric_hub_counts(bed.hub);
	pthread_mutex_unlock(&bed.lock);
	return counts;
}

bool fabric_bed_await(bool (*is_so)(const struct fabric_hub_counts *counts))
{
	const struct timespec little = { .tv_nsec = 1000000 };
	struct fabric_hub_counts counts;
	bool is_there = false;

	for (int i = 0; i < 20000 && !is_there; i++) {
		if (i > 0)
			nanosleep(&little, NULL);
		counts = fabric_bed_counts();
		is_there = is_so(&counts);
	}
	return is_there;
}

void fabric_bed_let_cross(bool is_crossing)
{
	pthread_mutex_lock(&bed.lock);
	bed.is_crossing = is_crossing;
	pthread_mutex_unlock(&bed.lock);
}

uint64_t fabric_bed_crossed(void)
{
	uint64_t crossed;

	pthread_mutex_lock(&bed.lock);
	crossed = bed.crossed;
	pthread_mutex_unlock(&bed.lock);
	return crossed;
}

uint64_t fabric_bed_frames(void)
{
	uint64_t frames;

	pthread_mutex_lock(&bed.lock);
	frames = bed.frames;
	pthread_mutex_unlock(&bed.lock);
	return frames;
}

uint64_t fabric_bed_frames_by(int path, int to)
{
	uint64_t frames;

	pthread_mutex_lock(&bed.lock);
	frames = bed.by[path][to];
	pthread_mutex_unlock(&bed.lock);
	return frames;
}

void fabric_bed_cut(int path, bool is_cut)
{
	pthread_mutex_lock(&bed.lock);
	bed.is_cut[path] = is_cut;
	pthread_mutex_unlock(&bed.lock);
}
