/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a person sees what an adapter does, without the program's help:
 *
 *	observe.c   what the environment asks for, and what the adapters of a process share
 *	record.c    captures of connections and packets (WEFT_PCAP)
 *	tracing.c   events of the trace on their way to a file (WEFT_TRACE)
 *	log.c       the few of them that become lines on stderr (WEFT_LOG)
 *	stat.c      counters for other processes to ask for (WEFT_STAT)
 *	faults.c    and what goes wrong because somebody asked for that (WEFT_FAULTS)
 *
 * Off, each costs a test of one pointer.
 *
 * Locks, in the order they are taken: an adapter's, the process's, a recording's.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/list.h"
#include "base/trace.h"
#include "driver/observe/capture.h"
#include "verbs/verbs.h"

struct ib_in;
struct ib_out;
struct observer;
struct recording;
struct span_list;

/* What is observed of one adapter. */
struct observed {
	struct adapter *core;
	pthread_mutex_t *lock;	     /* of the adapter */
	uint32_t number;	     /* among the adapters of the process */
	struct observer *observer;   /* NULL: neither traced nor logged */
	struct recording *recording; /* NULL: connections are not captured */
	bool is_recorded_by_environment;
	struct fault_plan faults; /* of WEFT_FAULTS; core->faults says whether */
	struct list faults_link;  /* observe_lock() guards it */
};

/* An adapter has been opened: it gets what the environment asks for. It is about to be closed. */
void observe_open(struct observed *o);
void observe_close(struct observed *o);

/* Called now and then by the adapter's thread: what waits is written within about a second. */
void observe_tick(struct observed *o);

/* In a child of fork(), with observe_lock() held: all that is observed is the parent's. */
void observe_forget(void);

/* See struct fork_part. */
void observe_lock_reset(void);

/* What the environment asked for cannot be had: said once, whatever WEFT_LOG says. */
void observe_complain(const char *variable, const char *value, int error);

/* The value of a variable; NULL where it is empty, or not to be trusted. */
const char *observe_wish(const char *variable);

/* The lock of what the adapters of a process share. */
void observe_lock(void);
void observe_unlock(void);

/* ---- tracing.c and log.c --------------------------------------------------------------------- */

enum log_level { LOG_UNSET = 0, LOG_OFF, LOG_ERROR, LOG_INFO };

/* What WEFT_LOG says. A level that does not exist is reported once, and counts as error. */
enum log_level log_level_wished(void);

/* Takes the adapter's trace, if anybody wants it: a path, or NULL, and a level. */
int observer_open(struct observed *o, const char *path, enum log_level level);
void observer_close(struct observed *o);

/* In the child of a fork: the files are the parent's. */
void traces_forget(void);

/* Events that nobody has looked at yet are written and told. The adapter's lock is held. */
void observe_drain(struct observed *o);

/* Something happened with a connection to there, or at a listener; nothing while not traced. */
void observe_address(struct observed *o, const struct weft_address *of, struct trace_event event);

/* A line on stderr, if the level has one for this event. */
void log_event(struct observed *o, enum log_level level, const struct trace_event *e);

/* ---- faults.c -------------------------------------------------------------------------------- */

/*
 * Reads what the environment asks for, and says so: *plan is NULL if it is nothing. Without what it
 * asked for a test would pass for no reason: if it cannot be read, the adapter does not open.
 */
enum weft_reason faults_open(struct observed *o, struct fault_plan **plan);

void faults_close(struct observed *o);

/* As the process ends: how many there were. In the child of a fork: they are the parent's. */
void faults_tell(void);
void faults_forget(void);

/* ---- record.c ------------------------------------------------------------------------------- */

/* A stream's part in a capture. The adapter's lock and the recording's guard it. */
struct record {
	struct recording *recording; /* NULL: not captured */
	struct observed *of;
	struct list link; /* of the recording */
	struct weft_address local, remote;
	struct capture_stream stream;
};

/*
 * The recording to a file, which all who name the same path share. Gives 0 or a negative errno. It
 * ends when nobody has it any more, unless it is to be kept: then it waits for the next one. put()
 * gives the errno that stopped it, or 0.
 */
int recording_get(const char *path, bool is_kept, struct recording **r);
int recording_put(struct recording *r);

/* Writes out what waits, if the last time is a while ago. */
void recording_flush(struct recording *r, uint64_t now_ns);

/* All that this process writes, as it ends. In the child of a fork: they are the parent's. */
void recordings_flush(void);
void recordings_forget(void);

/* TCP is connected between its local and remote address: if the adapter is captured, so is it. */
void record_open(struct record *record, struct observed *of, bool is_initiator);
void record_close(struct record *record, bool is_reset);

/* Of a stream that is captured: n bytes have moved; one direction has ended, or by a reset both. */
void record_bytes(struct record *record, const struct span_list *l, size_t n, bool is_outgoing);
void record_end(struct record *record, bool is_outgoing, bool is_reset);

/* No stream of the adapter is captured any more, though it goes on. */
void record_leave_all(struct observed *of);

/*
 * Of an adapter that is captured: a packet of RoCE has arrived; these were sent. Those that go
 * between two adapters are there as often as these see them: one may be lost on its way.
 */
void record_packet_in(struct observed *o, const struct ib_in *in);
void record_packets_out(struct observed *o, const struct ib_out *outs, uint32_t count);
