/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels. A channel is a bell of notes, under cm_lock(). What a note means is worked out by
 * the thread that takes it, where weft may be called.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"

static struct {
	pthread_mutex_t lock;
	int cancel;		     /* whether the thread that has the lock may be cancelled */
	pthread_cond_t acknowledged; /* an event was, of whichever id */
} cm = { .lock = PTHREAD_MUTEX_INITIALIZER, .acknowledged = PTHREAD_COND_INITIALIZER };

/* A thread that was cancelled while it has a lock would leave it behind. */
static void lock(pthread_mutex_t *mutex, int *cancel)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(mutex);
	*cancel = before;
}

static void unlock(pthread_mutex_t *mutex, const int *cancel)
{
	int before = *cancel;

	pthread_mutex_unlock(mutex);
	pthread_setcancelstate(before, NULL);
}

/*
 * A child that was made by the system call, past fork(), has run no handler. It knows itself by
 * this page, which the kernel empties in children. NULL: a kernel before 4.14, where it cannot.
 */
static volatile bool *mark;

static void notice_fork(void);

void cm_lock(void)
{
	if (__builtin_expect(mark && !*mark, 0))
		notice_fork();
	lock(&cm.lock, &cm.cancel);
}

void cm_unlock(void)
{
	unlock(&cm.lock, &cm.cancel);
}

void id_lock(struct id *id)
{
	lock(&id->calls, &id->calls_cancel);
}

void id_unlock(struct id *id)
{
	unlock(&id->calls, &id->calls_cancel);
}

int cm_result(int result)
{
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

/* ---- Notes ---------------------------------------------------------------------------------- */

bool note_add(struct note *note)
{
	struct channel *c = note->id->channel;

	if (!c)
		return false;
	bell_add(&c->notes, &note->link);
	return true;
}

void note_post(struct id *id, enum note_kind kind, enum rdma_cm_event_type event, int status)
{
	struct note *note = &id->notes[kind];

	if (list_is_linked(&note->link))
		return;
	note->event = event;
	note->status = status;
	(void)note_add(note); /* a program that destroyed the channel wants to hear nothing */
}

void note_withdraw(struct note *note)
{
	if (note->id->channel)
		bell_remove(&note->id->channel->notes, &note->link);
}

void channel_add(struct channel *c, struct id *id)
{
	id->channel = c;
	id->rdma.channel = &c->rdma;
	list_add_tail(&c->ids, &id->channel_link);
}

static void channel_remove(struct id *id, struct list *arrivals)
{
	struct list *notes = &id->channel->notes.waiting, *at = notes->next;

	while (at != notes) {
		struct note *note = CONTAINER_OF(at, struct note, link);

		at = at->next;
		if (note->id != id)
			continue;
		note_withdraw(note);
		if (note->kind > NOTE_OF_ID)
			list_add_tail(arrivals, &note->link);
	}
	list_remove(&id->channel_link);
	id->channel = NULL;
	id->rdma.channel = NULL;
}

/* ---- Channels ------------------------------------------------------------------------------- */

/* All that there are, under cm_lock(). */
static struct list channels;

/*
 * Threads of programs wait at channels that another thread destroys: rping does, when it ends. What
 * they bring is looked up before it is looked at.
 */
static bool channel_is_alive(const struct channel *c)
{
	for (const struct list *at = channels.next; at && at != &channels; at = at->next) {
		if (at == &c->all_link)
			return true;
	}
	return false;
}

/* ---- fork() --------------------------------------------------------------------------------- */

/* The lock is taken after an adapter's, so this is registered before what the driver does. */
static void fork_prepare(void)
{
	if (mark && !*mark)
		notice_fork();
	pthread_mutex_lock(&cm.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&cm.lock);
}

/* What the child takes from its channels is not for the parent to see. */
static void fork_child(void)
{
	for (struct list *at = channels.next; at && at != &channels; at = at->next)
		bell_forked(&CONTAINER_OF(at, struct channel, all_link)->notes);
	ports_forked();
	if (mark)
		*mark = true;
	pthread_mutex_unlock(&cm.lock);
}

/* No other thread runs in such a child that could hold the lock: it is made anew. */
static void notice_fork(void)
{
	pthread_mutex_init(&cm.lock, NULL);
	pthread_cond_init(&cm.acknowledged, NULL);
	pthread_mutex_lock(&cm.lock);
	fork_child();
}

static void mark_process(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
		munmap(page, bytes);
		return;
	}
	mark = page;
	*mark = true;
}

__attribute__((constructor)) static void register_fork(void)
{
	mark_process();
	(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct channel *channel_create(void)
{
	struct channel *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return NULL;
	list_init(&c->ids);
	list_init(&c->all_link);
	r = bell_init(&c->notes);
	if (r != 0) {
		free(c);
		errno = -r;
		return NULL;
	}
	c->rdma.fd = c->notes.fd;
	cm_lock();
	if (!channels.next)
		list_init(&channels);
	list_add_tail(&channels, &c->all_link);
	cm_unlock();
	return c;
}

/* Requests that were taken from weft, and will not be by the program; and other notes. */
static void arrivals_reject(struct list *arrivals)
{
	while (!list_is_empty(arrivals)) {
		struct note *note = CONTAINER_OF(list_pop(arrivals), struct note, link);

		if (note->kind == NOTE_ARRIVAL)
			request_refuse(note->request);
		free(note);
	}
}

void channel_destroy(struct channel *c)
{
	struct list arrivals;

	list_init(&arrivals);
	cm_lock();
	while (!list_is_empty(&c->ids))
		channel_remove(CONTAINER_OF(c->ids.next, struct id, channel_link), &arrivals);
	list_remove(&c->all_link);
	cm_unlock();
	arrivals_reject(&arrivals);
	bell_fini(&c->notes);
	free(c);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *c = channel_create();

	return c ? &c->rdma : NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel)
		channel_destroy(channel_of(channel));
}

/* ---- Taking and acknowledging --------------------------------------------------------------- */

/* Here, where it has nothing, the program's thread may be cancelled if it allows that. */
static int channel_wait(const struct bell_snapshot *snapshot, int cancel)
{
	int r;

	pthread_setcancelstate(cancel, NULL);
	r = bell_wait(snapshot);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return r;
}

/*
 * At a channel that went meanwhile. In the kernel the descriptor stays for those who wait at
 * it, and nothing comes any more; rping, whose thread waits so, takes an error for its own.
 */
static int wait_in_vain(int cancel)
{
	pthread_setcancelstate(cancel, NULL);
	(void)pause();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return -EINTR;
}

/* The first note, as a copy; an id whose note it is cannot go before the event does. */
static bool channel_pop(struct channel *c, struct note *copy)
{
	bool is_there;

	cm_lock();
	is_there = channel_is_alive(c) && !list_is_empty(&c->notes.waiting);
	if (is_there) {
		struct note *note = CONTAINER_OF(c->notes.waiting.next, struct note, link);

		bell_remove(&c->notes, &note->link);
		note->id->events_taken++;
		*copy = *note;
		if (note->kind > NOTE_OF_ID)
			free(note);
	}
	cm_unlock();
	return is_there;
}

static void event_done(struct id *id)
{
	cm_lock();
	id->events_taken--;
	pthread_cond_broadcast(&cm.acknowledged);
	cm_unlock();
}

/* 1 if there is something to take; 0 if not, with what to wait at; or -EBADF. */
static int channel_look(struct channel *c, struct bell_snapshot *snapshot)
{
	int r = -EBADF;

	cm_lock();
	if (channel_is_alive(c)) {
		r = !list_is_empty(&c->notes.waiting);
		*snapshot = bell_listen(&c->notes);
	}
	cm_unlock();
	return r;
}

static int channel_take(struct channel *c, int cancel, struct rdma_cm_event **event)
{
	bool has_waited = false;
	int r = 0;

	while (r == 0) {
		struct taken *taken;
		struct bell_snapshot snapshot;
		struct note note;
		int found = channel_look(c, &snapshot);

		if (found < 0)
			return has_waited ? wait_in_vain(cancel) : found;
		if (found == 0) {
			r = channel_wait(&snapshot, cancel);
			has_waited = true;
			continue;
		}
		taken = calloc(1, sizeof(*taken));
		if (!taken)
			return -ENOMEM;
		if (channel_pop(c, &note)) {
			taken->counted = note.id;
			if (event_make(&note, taken) == 0) {
				*event = &taken->rdma;
				return 0;
			}
			event_done(note.id);
		}
		free(taken);
	}
	return r;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int cancel, r;

	if (!channel || !event)
		return cm_result(-EINVAL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	r = channel_take(channel_of(channel), cancel, event);
	pthread_setcancelstate(cancel, NULL);
	return cm_result(r);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct taken *taken = (struct taken *)(void *)event;

	if (!event)
		return cm_result(-EINVAL);
	event_done(taken->counted);
	free(taken);
	return 0;
}

/* Until the program has acknowledged all events of the id. cm_lock() is held. */
static void await_acknowledged(struct id *id)
{
	int cancel = cm.cancel;

	while (id->events_taken > 0)
		pthread_cond_wait(&cm.acknowledged, &cm.lock);
	cm.cancel = cancel;
}

/* Out of its channel, for good. */
void id_leave_channel(struct id *id)
{
	struct list arrivals;

	list_init(&arrivals);
	cm_lock();
	if (id->channel)
		channel_remove(id, &arrivals);
	await_acknowledged(id);
	cm_unlock();
	arrivals_reject(&arrivals);
}

/* ---- Moving --------------------------------------------------------------------------------- */

static void id_move_notes(struct id *id, struct channel *to)
{
	struct list *notes = &id->channel->notes.waiting, *at = notes->next;

	list_remove(&id->channel_link);
	while (at != notes) {
		struct note *note = CONTAINER_OF(at, struct note, link);

		at = at->next;
		if (note->id != id)
			continue;
		note_withdraw(note);
		bell_add(&to->notes, &note->link);
	}
	channel_add(to, id);
}

int id_migrate(struct id *id, struct channel *to)
{
	struct channel *own_to = NULL, *own_from = NULL;

	if (!to) {
		own_to = channel_create();
		if (!own_to)
			return cm_errno();
		to = own_to;
	}
	id_forget_event(id);
	cm_lock();
	await_acknowledged(id);
	if (id->is_synchronous && id->channel != to)
		own_from = id->channel;
	if (!id->channel)
		channel_add(to, id);
	else if (id->channel != to) /* it may be there already */
		id_move_notes(id, to);
	cm_unlock();
	id->is_synchronous = own_to != NULL;
	if (own_from)
		channel_destroy(own_from);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (!id)
		return cm_result(-EINVAL);
	return cm_result(id_migrate(id_of(id), channel ? channel_of(channel) : NULL));
}
