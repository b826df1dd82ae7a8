/* SPDX-License-Identifier: BSD-2-Clause */
/* Who waits at a bell, and what its descriptor has to do with it. */
#include "compat/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "test.h"

TEST(test_bell_wait_ends_when_something_was_added)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;
	struct list thing;

	REQUIRE(bell_init(&b) == 0);
	list_init(&thing);
	ear = bell_listen(&b);
	bell_add(&b, &thing);
	EXPECT_EQ(bell_wait(&ear), 0);
	bell_remove(&b, &thing);
	bell_fini(&b);
}

TEST(test_bell_wait_says_at_once_what_is_with_the_descriptor)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;

	REQUIRE(bell_init(&b) == 0);
	REQUIRE(fcntl(b.fd, F_SETFL, O_NONBLOCK) == 0);
	ear = bell_listen(&b);
	EXPECT_EQ(bell_wait(&ear), -EAGAIN);
	bell_fini(&b);
	ear = bell_listen(&b);
	EXPECT_EQ(bell_wait(&ear), -EBADF);
}

/*
 * The thing comes and the bell goes between the two calls, as an event and its channel do: the
 * waiter hears of no error, nor is it told what holds for the next owner of the number.
 */
TEST(test_bell_wait_does_not_look_at_the_descriptor_of_a_bell_that_is_gone)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;
	struct list thing;
	int other;

	REQUIRE(bell_init(&b) == 0);
	list_init(&thing);
	ear = bell_listen(&b);
	bell_add(&b, &thing);
	bell_remove(&b, &thing);
	bell_fini(&b);
	EXPECT_EQ(bell_wait(&ear), 0);
	other = eventfd(0, EFD_NONBLOCK);
	EXPECT_EQ(other, b.fd);
	EXPECT_EQ(bell_wait(&ear), 0);
	close(other);
}

static bool is_readable(const struct bell *b)
{
	struct pollfd p = { .fd = b->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

TEST(test_bell_deferred_rings_later)
{
	struct list things[2];
	struct bell b = { 0 };

	REQUIRE(bell_init(&b) == 0);
	list_init(&things[0]);
	list_init(&things[1]);
	bells_defer();
	bell_add(&b, &things[0]);
	bell_add(&b, &things[1]);
	EXPECT(!is_readable(&b));
	bells_ring();
	EXPECT(is_readable(&b));
	bell_remove(&b, &things[0]);
	EXPECT(is_readable(&b));
	bell_remove(&b, &things[1]);
	EXPECT(!is_readable(&b));
	/* The next one rings at once. */
	bell_add(&b, &things[0]);
	EXPECT(is_readable(&b));
	bell_remove(&b, &things[0]);
	bell_fini(&b);
}

/* Another thread was faster than the bell. */
TEST(test_bell_whose_event_is_gone_does_not_ring)
{
	struct bell b = { 0 };
	struct list thing;

	REQUIRE(bell_init(&b) == 0);
	list_init(&thing);
	bells_defer();
	bell_add(&b, &thing);
	bell_remove(&b, &thing);
	bells_ring();
	EXPECT(!is_readable(&b));
	bell_fini(&b);
}

/* More bells than a thread can keep for later ring at once. */
TEST(test_bell_of_many_all_ring)
{
	enum { MANY = 12 };
	struct bell bells[MANY] = { 0 };
	struct list things[MANY];

	bells_defer();
	for (int i = 0; i < MANY; i++) {
		REQUIRE(bell_init(&bells[i]) == 0);
		list_init(&things[i]);
		bell_add(&bells[i], &things[i]);
	}
	bells_ring();
	for (int i = 0; i < MANY; i++) {
		EXPECT(is_readable(&bells[i]));
		bell_remove(&bells[i], &things[i]);
		bell_fini(&bells[i]);
	}
}

struct ending {
	struct bell bell;
	atomic_bool is_gone;
};

static void *end_bell(void *context)
{
	struct ending *e = context;

	bell_fini(&e->bell);
	atomic_store(&e->is_gone, true);
	return NULL;
}

/* The program destroys what it has taken the last event of, before the bell rings. */
TEST(test_bell_does_not_end_before_it_has_rung)
{
	struct ending e = { .is_gone = false };
	pthread_t thread;
	struct list thing;

	REQUIRE(bell_init(&e.bell) == 0);
	list_init(&thing);
	bells_defer();
	bell_add(&e.bell, &thing);
	bell_remove(&e.bell, &thing);
	REQUIRE(pthread_create(&thread, NULL, end_bell, &e) == 0);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	EXPECT(!atomic_load(&e.is_gone));
	bells_ring();
	pthread_join(thread, NULL);
	EXPECT(atomic_load(&e.is_gone));
}

/* Threads add, ring and take at once, as adapters' threads and a program's do. */
enum { RACERS = 2, RACES = 2000 };

struct race {
	pthread_mutex_t lock;
	struct bell bell;
	struct list things[RACERS];
	atomic_uint added, taken;
};

struct racer {
	struct race *race;
	struct list *thing;
};

static void *race_run(void *context)
{
	const struct racer *r = context;

	/* Bound: the taker takes what is there. */
	for (int i = 0; i < RACES;) {
		bool is_free;

		bells_defer();
		pthread_mutex_lock(&r->race->lock);
		is_free = !list_is_linked(r->thing);
		if (is_free) {
			bell_add(&r->race->bell, r->thing);
			atomic_fetch_add(&r->race->added, 1);
			i++;
		}
		pthread_mutex_unlock(&r->race->lock);
		bells_ring();
		if (!is_free)
			sched_yield();
	}
	return NULL;
}

TEST(test_bell_is_readable_while_threads_race)
{
	struct race race = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct racer racers[RACERS];
	pthread_t threads[RACERS];

	REQUIRE(bell_init(&race.bell) == 0);
	for (int i = 0; i < RACERS; i++) {
		list_init(&race.things[i]);
		racers[i] = (struct racer){ &race, &race.things[i] };
		REQUIRE(pthread_create(&threads[i], NULL, race_run, &racers[i]) == 0);
	}
	while (atomic_load(&race.taken) < RACERS * RACES) {
		struct pollfd p = { .fd = race.bell.fd, .events = POLLIN };

		/* A bell that did not ring would leave it here. */
		REQUIRE(poll(&p, 1, 30000) == 1);
		pthread_mutex_lock(&race.lock);
		while (!list_is_empty(&race.bell.waiting)) {
			bell_remove(&race.bell, race.bell.waiting.next);
			atomic_fetch_add(&race.taken, 1);
		}
		pthread_mutex_unlock(&race.lock);
	}
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(atomic_load(&race.added), atomic_load(&race.taken));
	EXPECT(!is_readable(&race.bell));
	bell_fini(&race.bell);
}
