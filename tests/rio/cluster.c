/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

static void must(enum weft_reason r)
{
	if (r != WEFT_OK)
		printf("# refused: %s\n", weft_reason_name(r));
	REQUIRE(r == WEFT_OK);
}

/* ---- Who is who ----------------------------------------------------------------------------- */

/* Everybody's secret is known here: it is made of the unit's number. */
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
	char why[400] = "";

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
	must(weft_listen(adapter, &loopback, NULL, &listener));
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

static void *owner_run(void *owner)
{
	weft_rio_owner_run(owner);
	return NULL;
}

static void take_note(void *context, const char *line)
{
	struct cluster *c = context;

	if (getenv("CLUSTER_NOTES"))
		printf("# %s\n", line);
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

void cluster_start_owner(struct cluster *c)
{
	struct weft_rio_peer peers[IOUNITS_MAX + REQUESTERS_MAX];
	struct weft_rio_self self = cluster_self(OWNER_UNIT, peers, 0);

	for (uint32_t i = 0; i < c->iounit_count; i++)
		peers[self.peer_count++] = cluster_peer(FIRST_IOUNIT + i, WEFT_RIO_IOUNIT,
							&c->iounit_at[i]);
	for (uint32_t i = 0; i < REQUESTERS_MAX; i++)
		peers[self.peer_count++] = cluster_peer(FIRST_REQUESTER + i, WEFT_RIO_REQUESTER,
							NULL);
	if (c->owner_at.port != 0)
		self.listen = c->owner_at;
	c->owner_options.note = take_note;
	c->owner_options.context = c;
	must(weft_rio_owner_open(&self, &c->owner_options, &c->owner));
	weft_rio_owner_address(c->owner, &c->owner_at);
	REQUIRE(pthread_create(&c->owner_thread, NULL, owner_run, c->owner) == 0);
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
	const struct weft_rio_self self = cluster_self((uint32_t)(FIRST_REQUESTER + nth), &owner,
						       1);

	if (!c->requesters[nth])
		must(weft_rio_requester_open(&self, NULL, &c->requesters[nth]));
	return c->requesters[nth];
}

struct weft_rio_device cluster_device(struct weft_rio_requester *q, const char *name)
{
	struct weft_rio_device d = { 0 };

	must(weft_rio_device_find(q, name, 10 * SECONDS, &d));
	return d;
}

void cluster_close_requester(struct cluster *c, int nth)
{
	weft_rio_requester_close(c->requesters[nth]);
	c->requesters[nth] = NULL;
}

enum weft_reason cluster_io(struct weft_rio_requester *q, const struct weft_rio_transaction *t)
{
	return weft_rio_do(
		q, &(struct weft_rio_request){ .transactions = t, .transaction_count = 1 }, NULL);
}

/* ---- All of it ------------------------------------------------------------------------------ */

void cluster_open(struct cluster *c, const char *text)
{
	const struct weft_rio_store store = { .number = 5, .name = "disk", .text = text };

	cluster_begin(c);
	cluster_add_iounit(c, &store, 1);
	c->iounit_options[0].stores = NULL; /* the text is the caller's */
	cluster_start_owner(c);
}

void cluster_close(struct cluster *c)
{
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
