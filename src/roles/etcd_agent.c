/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/etcd_agent.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_S = 10, TURNS_A_LEASE = 4 };

struct etcd_agent {
	/* Constant while the thread runs. */
	struct platform self, *wanted;
	struct weft_address own;
	uint32_t wanted_count, lease_s;
	int changed; /* eventfd */
	pthread_t thread;
	/* Used by the thread only. */
	struct etcd *etcd;
	int64_t lease; /* 0: none */
	struct weft_address *found;
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t stop;
	bool is_stopping;
	struct weft_address *addresses;
	char trouble[ETCD_WHY];
};

/* ---- The thread ----------------------------------------------------------------------------- */

/* Renews the lease of the own address, or registers it again if the lease has expired. */
static bool keep_own(struct etcd_agent *a, char why[ETCD_WHY])
{
	if (a->own.family == 0)
		return true;
	if (a->lease != 0 && etcd_keep(a->etcd, a->lease, why))
		return true;
	a->lease = 0;
	if (!etcd_grant(a->etcd, a->lease_s, &a->lease, why))
		return false;
	if (etcd_put(a->etcd, a->self, &a->own, a->lease, why))
		return true;
	a->lease = 0;
	return false;
}

static bool is_same(const struct weft_address *a, const struct weft_address *b)
{
	return a->family == b->family && a->port == b->port && a->scope == b->scope &&
	       memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

/* Makes the results visible to other threads. */
static void publish(struct etcd_agent *a, const char *trouble)
{
	bool is_changed;

	pthread_mutex_lock(&a->lock);
	is_changed = strcmp(a->trouble, trouble) != 0;
	memcpy(a->trouble, trouble, strlen(trouble) + 1);
	for (uint32_t i = 0; i < a->wanted_count; i++) {
		if (a->found[i].family == 0 || is_same(&a->addresses[i], &a->found[i]))
			continue;
		a->addresses[i] = a->found[i];
		is_changed = true;
	}
	pthread_mutex_unlock(&a->lock);
	if (is_changed)
		(void)eventfd_write(a->changed, 1);
}

static void turn(struct etcd_agent *a)
{
	char own_why[ETCD_WHY] = "", find_why[ETCD_WHY] = "";
	bool is_kept = keep_own(a, own_why);

	if (a->wanted_count > 0 &&
	    !etcd_find(a->etcd, a->wanted, a->wanted_count, a->found, find_why))
		memset(a->found, 0, a->wanted_count * sizeof(a->found[0]));
	publish(a, is_kept ? find_why : own_why);
}

/* True: the next round is due. False: the thread must stop. */
static bool wait_turn(struct etcd_agent *a)
{
	uint64_t wait_ns = (uint64_t)a->lease_s * 1000000000 / TURNS_A_LEASE;
	struct timespec until;
	bool is_stopping;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	wait_ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(wait_ns / 1000000000);
	until.tv_nsec = (long)(wait_ns % 1000000000);
	pthread_mutex_lock(&a->lock);
	while (!a->is_stopping && err == 0)
		err = pthread_cond_timedwait(&a->stop, &a->lock, &until);
	is_stopping = a->is_stopping;
	pthread_mutex_unlock(&a->lock);
	return !is_stopping;
}

static void *run(void *context)
{
	struct etcd_agent *a = context;
	char why[ETCD_WHY];

	do
		turn(a);
	while (wait_turn(a));
	if (a->lease != 0)
		(void)etcd_revoke(a->etcd, a->lease, why);
	return NULL;
}

/* ---- From outside --------------------------------------------------------------------------- */

static void agent_free(struct etcd_agent *a)
{
	if (a->etcd)
		etcd_close(a->etcd);
	if (a->changed >= 0)
		close(a->changed);
	pthread_cond_destroy(&a->stop);
	pthread_mutex_destroy(&a->lock);
	free(a->wanted);
	free(a->found);
	free(a->addresses);
	free(a);
}

static struct etcd_agent *agent_make(const struct etcd_agent_config *c)
{
	struct etcd_agent *a = calloc(1, sizeof(*a));
	size_t count = c->wanted_count > 0 ? c->wanted_count : 1;
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->stop, &attr);
	pthread_condattr_destroy(&attr);
	a->self = c->self;
	a->own = c->address;
	a->lease_s = c->lease_s ? c->lease_s : LEASE_S;
	a->wanted_count = c->wanted_count;
	a->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->wanted = calloc(count, sizeof(*a->wanted));
	a->found = calloc(count, sizeof(*a->found));
	a->addresses = calloc(count, sizeof(*a->addresses));
	if (a->changed < 0 || !a->wanted || !a->found || !a->addresses) {
		agent_free(a);
		return NULL;
	}
	if (c->wanted_count > 0)
		memcpy(a->wanted, c->wanted, c->wanted_count * sizeof(*a->wanted));
	return a;
}

/* The thread blocks all signals: they are for the program's own threads. */
static int start_thread(struct etcd_agent *a)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&a->thread, NULL, run, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

bool etcd_agent_start(const struct etcd_agent_config *config, struct etcd_agent **out,
		      char why[ETCD_WHY])
{
	struct etcd_agent *a = agent_make(config);
	int err = a ? 0 : ENOMEM;

	if (a && !etcd_open(&config->etcd, &a->etcd, why)) {
		agent_free(a);
		return false;
	}
	if (a)
		err = start_thread(a);
	if (err != 0) {
		snprintf(why, ETCD_WHY, "etcd: %s", strerror(err));
		if (a)
			agent_free(a);
		return false;
	}
	*out = a;
	return true;
}

void etcd_agent_stop(struct etcd_agent *a)
{
	pthread_mutex_lock(&a->lock);
	a->is_stopping = true;
	pthread_cond_signal(&a->stop);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	agent_free(a);
}

bool etcd_agent_address(struct etcd_agent *a, uint32_t index, struct weft_address *address)
{
	pthread_mutex_lock(&a->lock);
	*address = a->addresses[index];
	pthread_mutex_unlock(&a->lock);
	return address->family != 0;
}

bool etcd_agent_trouble(struct etcd_agent *a, char why[ETCD_WHY])
{
	pthread_mutex_lock(&a->lock);
	memcpy(why, a->trouble, sizeof(a->trouble));
	pthread_mutex_unlock(&a->lock);
	return why[0] != '\0';
}

int etcd_agent_descriptor(const struct etcd_agent *a)
{
	return a->changed;
}

void etcd_agent_seen(struct etcd_agent *a)
{
	eventfd_t count;

	(void)eventfd_read(a->changed, &count);
}
