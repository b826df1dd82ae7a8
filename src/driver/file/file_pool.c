/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/file/file_inside.h"

int file_pool_init(struct file_pool *p)
{
	p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->event_fd < 0)
		return -errno;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	list_init(&p->todo);
	list_init(&p->done);
	return 0;
}

void file_pool_fini(struct file_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->count; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	close(p->event_fd);
}

/* Called with the lock held: the descriptor is readable exactly while the list is not empty. */
static void done_add(struct file_pool *p, struct store_request *r)
{
	const uint64_t one = 1;

	if (list_is_empty(&p->done))
		CHECK(write(p->event_fd, &one, sizeof(one)) == sizeof(one));
	list_add_tail(&p->done, &r->link);
	atomic_fetch_add_explicit(&p->done_count, 1, memory_order_release);
}

static void *worker(void *arg)
{
	struct file_store *f = arg;
	struct file_pool *p = &f->pool;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct store_request *r;

		while (list_is_empty(&p->todo) && !p->is_ending) {
			p->idle++;
			pthread_cond_wait(&p->wake, &p->lock);
			p->idle--;
		}
		if (list_is_empty(&p->todo))
			break;
		r = CONTAINER_OF(list_pop(&p->todo), struct store_request, link);
		p->todo_count--;
		pthread_mutex_unlock(&p->lock);
		file_work(f, r);
		pthread_mutex_lock(&p->lock);
		done_add(p, r);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Signals are for the program's own threads. */
static bool worker_start(struct file_store *f)
{
	struct file_pool *p = &f->pool;
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&p->threads[p->count], NULL, worker, f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	p->count += err == 0;
	return err == 0;
}

void file_pool_put(struct file_store *f, struct store_request *r)
{
	struct file_pool *p = &f->pool;
	bool needs_more;

	pthread_mutex_lock(&p->lock);
	list_add_tail(&p->todo, &r->link);
	p->todo_count++;
	needs_more = p->todo_count > p->idle && p->count < FILE_THREADS_MAX;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	if (!needs_more || worker_start(f) || p->count > 0)
		return;
	/* There is no thread and none can be created: do the work here. */
	pthread_mutex_lock(&p->lock);
	list_remove(&r->link);
	p->todo_count--;
	pthread_mutex_unlock(&p->lock);
	file_work(f, r);
	pthread_mutex_lock(&p->lock);
	done_add(p, r);
	pthread_mutex_unlock(&p->lock);
}

void file_pool_take(struct file_pool *p, struct list *done)
{
	uint64_t signs;

	if (atomic_load_explicit(&p->done_count, memory_order_acquire) == 0)
		return;
	pthread_mutex_lock(&p->lock);
	while (!list_is_empty(&p->done))
		list_add_tail(done, list_pop(&p->done));
	atomic_store_explicit(&p->done_count, 0, memory_order_relaxed);
	CHECK(read(p->event_fd, &signs, sizeof(signs)) == sizeof(signs));
	pthread_mutex_unlock(&p->lock);
}
