/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/cluster.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

static void must(enum weft_reason r)
{
	if (r != WEFT_OK)
		printf("# refused: %s\n", weft_reason_name(r));
	REQUIRE(r == WEFT_OK);
}

/* ---- Who is who ----------------------------------------------------------------------------- */

/* All secret keys are known here: each is derived from the unit's number. */
static void seed_of(uint32_t unit, uint8_t seed[WEFT_RIO_KEY_BYTES])
{
	memset(seed, (int)(0x40 + unit), WEFT_RIO_KEY_BYTES);
}

struct weft_rio_self cluster_self(uint32_t unit, const struct weft_rio_peer *peers, uint32_t count)
{
	struct weft_rio_self self = {
		.platform = { unit, 1 }, .listen = loopback, .peers = peers, .peer_count = count
	};

	seed_of(unit, self.seed);
	return self;
}

struct weft_rio_peer cluster_peer(uint32_t unit, enum weft_rio_role role,
				  const struct weft_address *at)
{
	struct weft_rio_peer peer = { .platform = { unit, 1 }, .role = role };
	uint8_t seed[WEFT_RIO_KEY_BYTES];

	snprintf(peer.name, sizeof(peer.name), "unit %u", unit);
	seed_of(unit, seed);
	weft_rio_public_key(seed, peer.key);
	if (at)
		peer.address = *at;
	return peer;
}

/* ---- I/O units ------------------------------------------------------------------------------ */

static void *iounit_run(void *iounit)
{
	weft_rio_iounit_run(iounit);
	return NULL;
}

void cluster_begin(struct cluster *c)
{
	static const struct weft_rio_rule everything = { .operations = 0x3e };

	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->owner_options.rules = &everything;
	c->owner_options.rule_count = 1;
}

void cluster_start_iounit(struct cluster *c, int nth)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, NULL);
	struct weft_rio_self self = cluster_self((uint32_t)(FIRST_IOUNIT + nth), &owner, 1);
	char why[WEFT_RIO_WHY_MAX] = "";

	self.spin_ns = c->spin_ns;
	if (c->iounit_at[nth].port != 0)
		self.listen = c->iounit_at[nth];
	must(weft_rio_iounit_open(&self, &c->iounit_options[nth], &c->iounits[nth], why));
	weft_rio_iounit_address(c->iounits[nth], &c->iounit_at[nth]);
	REQUIRE(pthread_create(&c->iounit_threads[nth], NULL, iounit_run, c->iounits[nth]) == 0);
}

void cluster_add_iounit(struct cluster *c, const struct weft_rio_store *stores, uint32_t count)
{
	int nth = (int)c->iounit_count++;

	c->iounit_options[nth].stores = stores;
	c->iounit_options[nth].store_count = count;
	cluster_start_iounit(c, nth);
}

/* A port that is free now, and very likely then. */
void cluster_reserve_iounit(struct cluster *c)
{
	struct weft_adapter *adapter;
	struct weft_listener *listener;

	must(weft_adapter_open(NULL, &adapter));
	must(weft_listener_open(adapter, &loopback, NULL, &listener));
	must(weft_listener_address(listener, &c->iounit_at[c->iounit_count++]));
	must(weft_listener_close(listener));
	must(weft_adapter_close(adapter));
}

void cluster_stop_iounit(struct cluster *c, int nth)
{
	weft_rio_iounit_stop(c->iounits[nth]);
	pthread_join(c->iounit_threads[nth], NULL);
	weft_rio_iounit_close(c->iounits[nth]);
	c->iounits[nth] = NULL;
}

/* ---- Owner ---------------------------------------------------------------------------------- */

void *cluster_owner_run(void *owner)
{
	weft_rio_owner_run(owner);
	return NULL;
}

static void take_note(void *context, const char *line)
{
	struct cluster *c = context;

	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (getenv("CLUSTER_NOTES"))
		printf("# %ld.%03ld %s\n", (long)now.tv_sec % 1000, now.tv_nsec / 1000000, line);
	pthread_mutex_lock(&c->lock);
	if (c->note_count < NOTES_MAX)
		snprintf(c->notes[c->note_count++], sizeof(c->notes[0]), "%s", line);
	pthread_mutex_unlock(&c->lock);
}

bool cluster_noted(struct cluster *c, const char *text)
{
	bool is_there = false;

	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; i < c->note_count; i++)
		is_there |= strstr(c->notes[i], text) != NULL;
	pthread_mutex_unlock(&c->lock);
	return is_there;
}

static void nap(void)
{
	usleep(1000);
}

void cluster_wait_note(struct cluster *c, const char *text)
{
	int left = 20000;

	while (!cluster_noted(c, text) && --left > 0)
		nap();
	if (left == 0)
		printf("# never noted: %s\n", text);
	REQUIRE(left > 0);
}

uint32_t cluster_notes(struct cluster *c)
{
	uint32_t count;

	pthread_mutex_lock(&c->lock);
	count = c->note_count;
	pthread_mutex_unlock(&c->lock);
	return count;
}

void cluster_wait_notes(struct cluster *c, uint32_t count)
{
	int left = 20000;

	while (cluster_notes(c) < count && --left > 0)
		nap();
	REQUIRE(left > 0);
}

void cluster_own(struct cluster *c, const struct weft_rio_self *self)
{
	c->owner_options.note = take_note;
	c->owner_options.context = c;
	must(weft_rio_owner_open(self, &c->owner_options, &c->owner));
	weft_rio_owner_address(c->owner, &c->owner_at);
	REQUIRE(pthread_create(&c->owner_thread, NULL, cluster_owner_run, c->owner) == 0);
}

void cluster_start_owner(struct cluster *c)
{
	struct weft_rio_peer peers[IOUNITS_MAX + REQUESTERS_MAX] = { 0 };
	struct weft_rio_self self = cluster_self(OWNER_UNIT, peers, 0);

	self.spin_ns = c->spin_ns;
	for (uint32_t i = 0; i < c->iounit_count; i++)
		peers[self.peer_count++] = cluster_peer(FIRST_IOUNIT + i, WEFT_RIO_IOUNIT,
							&c->iounit_at[i]);
	for (uint32_t i = 0; i < REQUESTERS_MAX; i++)
		peers[self.peer_count++] = cluster_peer(FIRST_REQUESTER + i, WEFT_RIO_REQUESTER,
							NULL);
	if (c->owner_at.port != 0)
		self.listen = c->owner_at;
	cluster_own(c, &self);
}

void cluster_stop_owner(struct cluster *c)
{
	weft_rio_owner_stop(c->owner);
	pthread_join(c->owner_thread, NULL);
	weft_rio_owner_close(c->owner);
	c->owner = NULL;
}

/* ---- Requesters ----------------------------------------------------------------------------- */

struct weft_rio_requester *cluster_requester(struct cluster *c, int nth)
{
	const struct weft_rio_peer owner = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, &c->owner_at);
	struct weft_rio_self self = cluster_self((uint32_t)(FIRST_REQUESTER + nth), &owner, 1);

	self.spin_ns = c->spin_ns;
	if (!c->requesters[nth])
		must(weft_rio_requester_open(&self, &c->requester_options, &c->requesters[nth]));
	return c->requesters[nth];
}

struct waiting {
	struct cluster *c;
	int nth;
};

static void *requester_wait(void *context)
{
	struct waiting w = *(struct waiting *)context;
	struct weft_rio_result ended;
	uint32_t count;

	free(context);
	while (!atomic_load(&w.c->is_over))
		weft_rio_request_wait(w.c->requesters[w.nth], SECONDS / 50, &ended, 1, &count);
	return NULL;
}

void cluster_requester_waits(struct cluster *c, int nth)
{
	struct waiting *w = malloc(sizeof(*w));

	REQUIRE(w);
	*w = (struct waiting){ c, nth };
	REQUIRE(pthread_create(&c->waiting_threads[nth], NULL, requester_wait, w) == 0);
	c->is_waiting[nth] = true;
}

struct weft_rio_device cluster_device(struct weft_rio_requester *q, const char *name)
{
	struct weft_rio_device d = { 0 };

	must(weft_rio_device_find(q, name, PATIENCE, &d));
	return d;
}

void cluster_close_requester(struct cluster *c, int nth)
{
	weft_rio_requester_close(c->requesters[nth]);
	c->requesters[nth] = NULL;
}

enum weft_reason cluster_io(struct weft_rio_requester *q, const struct weft_rio_transaction *t)
{
	return weft_rio_request_do(
		q, &(struct weft_rio_request){ .transactions = t, .transaction_count = 1 }, NULL);
}

static enum weft_reason move(struct weft_rio_requester *q, enum weft_rio_operation operation,
			     const struct cluster_move *m)
{
	const struct weft_rio_sge segment = { .memory = m->bytes,
					      .length = m->length,
					      .tag = m->tag };

	return cluster_io(q, &(struct weft_rio_transaction){ .operation = operation,
							     .device = m->device,
							     .offset = m->offset,
							     .length = m->length,
							     .sges = &segment,
							     .sge_count = 1 });
}

enum weft_reason cluster_read(struct weft_rio_requester *q, struct cluster_move m)
{
	return move(q, WEFT_RIO_READ, &m);
}

enum weft_reason cluster_write(struct weft_rio_requester *q, struct cluster_move m)
{
	return move(q, WEFT_RIO_WRITE, &m);
}

uint32_t cluster_memory(struct weft_rio_requester *q, void *bytes, uint64_t length)
{
	uint32_t tag = 0;

	must(weft_rio_memory_add(q, bytes, length, &tag));
	return tag;
}

void cluster_fill(void *bytes, size_t length, uint8_t seed)
{
	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(1 + (i * 7 + i / 251 + seed) % 255);
}

/* ---- Files ---------------------------------------------------------------------------------- */

void cluster_file(char text[CLUSTER_TEXT], uint64_t size)
{
	char path[] = "/tmp/weft-cluster-XXXXXX";
	int fd = mkstemp(path);

	REQUIRE(fd >= 0);
	close(fd);
	snprintf(text, CLUSTER_TEXT, "file:%s,size=%llu", path, (unsigned long long)size);
}

static void path_of(const char *text, char path[CLUSTER_TEXT])
{
	REQUIRE(sscanf(text, "file:%127[^,]", path) == 1);
}

void cluster_file_read(const char *text, uint64_t offset, void *bytes, size_t length)
{
	char path[CLUSTER_TEXT];
	int fd;

	path_of(text, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	REQUIRE(pread(fd, bytes, length, (off_t)offset) == (ssize_t)length);
	close(fd);
}

void cluster_file_remove(const char *text)
{
	char path[CLUSTER_TEXT];

	path_of(text, path);
	unlink(path);
}

/* ---- All of it ------------------------------------------------------------------------------ */

void cluster_open(struct cluster *c, const char *text)
{
	cluster_begin(c);
	snprintf(c->store_text, sizeof(c->store_text), "%s", text);
	c->store = (struct weft_rio_store){ .number = 5, .name = "disk", .text = c->store_text };
	cluster_add_iounit(c, &c->store, 1);
	cluster_start_owner(c);
}

void cluster_close(struct cluster *c)
{
	atomic_store(&c->is_over, true);
	for (int i = 0; i < REQUESTERS_MAX; i++) {
		if (c->is_waiting[i])
			pthread_join(c->waiting_threads[i], NULL);
	}
	for (int i = 0; i < REQUESTERS_MAX; i++) {
		if (c->requesters[i])
			cluster_close_requester(c, i);
	}
	if (c->owner)
		cluster_stop_owner(c);
	for (uint32_t i = 0; i < c->iounit_count; i++) {
		if (c->iounits[i])
			cluster_stop_iounit(c, (int)i);
	}
	pthread_mutex_destroy(&c->lock);
}

/* ---- Files of a role ------------------------------------------------------------------------ */

static void role_file_write(const char *folder, const char *name, const char *text)
{
	char path[2 * CLUSTER_TEXT];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void hex(char *text, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void cluster_role_files(char folder[CLUSTER_TEXT], uint32_t unit, const struct weft_address *owner)
{
	const struct weft_rio_self self = cluster_self(unit, NULL, 0);
	const struct weft_rio_peer peer = cluster_peer(OWNER_UNIT, WEFT_RIO_OWNER, NULL);
	char seed[65], key[65], address[WEFT_ADDRESS_TEXT], text[512];

	snprintf(folder, CLUSTER_TEXT, "/tmp/weft-role-XXXXXX");
	REQUIRE(mkdtemp(folder));
	hex(seed, self.seed, sizeof(self.seed));
	snprintf(text, sizeof(text), "weft secret key 1\n%s\n", seed);
	role_file_write(folder, "key", text);
	hex(key, peer.key, sizeof(peer.key));
	weft_address_text(owner, address);
	snprintf(text, sizeof(text),
		 "role requester\nself %u.1\nkey key\nlisten 127.0.0.1:0\nowner boss 1.1 %s %s\n",
		 unit, key, address);
	role_file_write(folder, "conf", text);
}

void cluster_role_files_remove(const char *folder)
{
	static const char *const names[] = { "key", "conf" };
	char path[2 * CLUSTER_TEXT];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}
