/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/teller.h"

#include <pthread.h>

#include "base/list.h"
#include "compat/bell.h"

int teller_init(struct teller *t)
{
	int error = -bell_init(&t->bell);

	if (!error)
		pthread_mutex_init(&t->lock, NULL);
	return error;
}

void teller_fini(struct teller *t)
{
	bell_fini(&t->bell);
	pthread_mutex_destroy(&t->lock);
}

int teller_take(struct teller *t, struct list **link)
{
	/* Bound: each round waits for an event, which another thread may be faster to take. */
	for (;;) {
		struct bell_snapshot snapshot;
		int error;

		pthread_mutex_lock(&t->lock);
		if (!list_is_empty(&t->bell.waiting)) {
			*link = t->bell.waiting.next;
			bell_remove(&t->bell, *link);
			return 0;
		}
		snapshot = bell_listen(&t->bell);
		pthread_mutex_unlock(&t->lock);
		error = -bell_wait(&snapshot);
		if (error)
			return error;
	}
}
