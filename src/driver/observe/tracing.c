/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace of an adapter, on its way to a file and to the log. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/observe/observe.h"
#include "driver/sys/output.h"
#include "wire/trace_file.h"

enum {
	RING_TRACED = 1 << 14, /* more events than a call causes, unless it flushes huge queues */
	RING_LOGGED = 1 << 10,
	BATCH = 64
};

struct observer {
	struct trace trace;
	uint64_t seen;	  /* events handled */
	int fd;		  /* the file, or -1 */
	int64_t clock_ns; /* wall clock minus adapter clock */
	enum log_level level;
};

/* Kept until the process ends: later adapters append to the same file. */
struct trace_output {
	struct list link;
	int fd;
	char path[]; /* the path as given */
};

/* Guarded by the process's lock. */
static struct list outputs = { &outputs, &outputs };
static int64_t first_clock_ns; /* all adapters use the same offset, so that their times compare */

/* ---- Files ---------------------------------------------------------------------------------- */

static int output_begin(const char *path)
{
	uint8_t head[TRACE_FILE_HEAD_BYTES];
	struct wr w = wr_of(head, sizeof(head));
	int fd = output_open(path), err;

	if (fd < 0)
		return fd;
	trace_file_head_encode((uint32_t)getpid(), &w);
	err = output_write(fd, head, sizeof(head));
	if (err == 0)
		return fd;
	close(fd);
	return err;
}

/* The descriptor for a path, or a negative errno. Called with the process's lock held. */
static int output_get(const char *path)
{
	size_t length = strlen(path) + 1;
	struct trace_output *o;

	for (struct list *at = outputs.next; at != &outputs; at = at->next) {
		o = CONTAINER_OF(at, struct trace_output, link);
		if (strcmp(o->path, path) == 0)
			return o->fd;
	}
	o = calloc(1, sizeof(*o) + length);
	if (!o)
		return -ENOMEM;
	o->fd = output_begin(path);
	if (o->fd < 0) {
		int err = o->fd;

		free(o);
		return err;
	}
	memcpy(o->path, path, length);
	list_init(&o->link);
	list_add_tail(&outputs, &o->link);
	return o->fd;
}

void traces_forget(void)
{
	while (!list_is_empty(&outputs)) {
		struct trace_output *o = CONTAINER_OF(list_pop(&outputs), struct trace_output,
						      link);

		close(o->fd);
		free(o);
	}
}

/* ---- Observers ------------------------------------------------------------------------------ */

int observer_open(struct observed *of, const char *path, enum log_level level)
{
	struct observer *o;
	int err = 0;

	if (!path && level <= LOG_OFF)
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o || trace_init(&o->trace, path ? RING_TRACED : RING_LOGGED) < 0) {
		free(o);
		return -ENOMEM;
	}
	o->level = level;
	o->fd = -1;
	observe_lock();
	if (path)
		o->fd = output_get(path);
	output_clock_follow(&first_clock_ns);
	o->clock_ns = first_clock_ns;
	observe_unlock();
	if (path && o->fd < 0)
		err = o->fd;
	if (o->fd < 0) /* the log needs only these */
		o->trace.only = 1ULL << TRACE_QP_STATE | 1ULL << TRACE_AGREED |
				1ULL << TRACE_CONNECT_FAILED | 1ULL << TRACE_FAULT;
	if (err < 0 && level <= LOG_OFF) {
		trace_fini(&o->trace);
		free(o);
		return err;
	}
	of->observer = o;
	of->core->trace = &o->trace;
	of->core->mem.trace = &o->trace;
	return err;
}

void observer_close(struct observed *of)
{
	if (!of->observer)
		return;
	trace_fini(&of->observer->trace);
	free(of->observer);
	of->observer = NULL;
	of->core->trace = NULL;
}

static void put(const struct observed *of, struct wr *w, const struct trace_event *e)
{
	const struct trace_file_record record = { .adapter = of->number, .event = *e };

	trace_file_record_encode(&record, w);
}

static bool has_room(const struct wr *w, uint32_t records)
{
	return (size_t)(w->end - w->at) >= records * (size_t)TRACE_FILE_RECORD_BYTES;
}

/* Writes the next event, and before it the number of lost events, if any. */
static uint16_t drain_one(struct observed *of, struct wr *w)
{
	struct observer *o = of->observer;
	const struct trace_event *e = trace_at(&o->trace, o->seen);
	uint64_t lost = e ? 0 : o->trace.count - o->seen - o->trace.capacity;
	struct trace_event copy;

	o->seen += lost;
	e = trace_at(&o->trace, o->seen++);
	copy = *e;
	copy.time_ns += (uint64_t)o->clock_ns;
	if (lost > 0)
		put(of, w,
		    &(struct trace_event){
			    .kind = TRACE_LOST, .time_ns = copy.time_ns, .a = lost });
	put(of, w, &copy);
	if (o->level > LOG_OFF)
		log_event(of, o->level, e);
	return e->kind;
}

/* Writes as many events as fit a batch. */
static void drain_batch(struct observed *of)
{
	struct observer *o = of->observer;
	uint8_t bytes[BATCH * TRACE_FILE_RECORD_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));
	uint16_t last = TRACE_NONE;
	int err;

	/*
	 * Write an address together with its event: others may write to the file between calls.
	 */
	while (o->seen < o->trace.count && (last == TRACE_ADDRESS || has_room(&w, 4)))
		last = drain_one(of, &w);
	err = o->fd < 0 ? 0 : output_write(o->fd, bytes, (size_t)(w.at - bytes));
	if (err < 0) {
		observe_complain("WEFT_TRACE", "(its file)", output_words(err));
		o->fd = -1;
	}
}

void observe_drain(struct observed *of)
{
	struct observer *o = of->observer;
	if (o->seen == o->trace.count)
		return;
	output_clock_follow(&o->clock_ns);
	while (o->seen < o->trace.count)
		drain_batch(of);
}

/* Eight bytes of an address, as a number. */
static uint64_t half(const uint8_t *ip)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | ip[i];
	return v;
}

void observe_address(struct observed *o, const struct weft_address *of, struct trace_event event)
{
	uint8_t ip[16] = { 0 };

	if (!o->core->trace)
		return;
	if (of->family == 4) {
		memset(ip + 10, 0xff, 2);
		memcpy(ip + 12, of->ip, 4);
	} else {
		memcpy(ip, of->ip, sizeof(ip));
	}
	trace_add(o->core->trace, (struct trace_event){
					  .kind = TRACE_ADDRESS,
					  .who = event.who,
					  .a = half(ip),
					  .b = half(ip + 8),
				  });
	event.a = event.a << 16 | of->port;
	trace_add(o->core->trace, event);
}
