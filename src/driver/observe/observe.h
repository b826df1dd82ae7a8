/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a user observes what an adapter does, without the program's help:
 *
 *	observe.c   reads the environment; state that the adapters of a process share
 *	record.c    captures of connections and packets (WEFT_PCAP)
 *	tracing.c   writes trace events to a file (WEFT_TRACE)
 *	log.c       prints a few of these events on stderr (WEFT_LOG)
 *	stat.c      counters for other processes (WEFT_STAT)
 *	faults.c    injected faults (WEFT_FAULTS)
 *	policy.c    which policy the user wants (WEFT_POLICY), and who shall work (WEFT_SERVE)
 *
 * Each costs one test of a pointer when it is off.
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

/* The observation of one adapter. */
struct observed {
	struct adapter *core;
	pthread_mutex_t *lock;	     /* of the adapter */
	uint32_t number;	     /* among the adapters of the process */
	struct observer *observer;   /* NULL: neither traced nor logged */
	struct recording *recording; /* NULL: connections are not captured */
	bool is_recorded_by_environment;
	struct fault_plan faults; /* of WEFT_FAULTS; used if core->faults is set */
	struct list faults_link;  /* guarded by observe_lock() */
};

/* Starts what the environment asks for, for a new adapter; ends it before the adapter closes. */
void observe_open(struct observed *o);
void observe_close(struct observed *o);

/* Called periodically by the adapter's thread: writes buffered records within about a second. */
void observe_tick(struct observed *o);

/* In a child of fork(), with observe_lock() held: drops all, which belongs to the parent. */
void observe_forget(void);

/* See struct fork_part. */
void observe_lock_reset(void);

/* Prints once, whatever WEFT_LOG says, that a variable asks for something impossible, and why. */
void observe_complain(const char *variable, const char *value, const char *why);

/* The value of a variable; NULL if it is empty, or not to be trusted (setuid). */
const char *observe_wish(const char *variable);

/* The lock of the state that the adapters of a process share. */
void observe_lock(void);
void observe_unlock(void);

/* ---- tracing.c and log.c --------------------------------------------------------------------- */

enum log_level { LOG_UNSET = 0, LOG_OFF, LOG_ERROR, LOG_INFO };

/* The level of that name; LOG_UNSET: there is none, and log_level_unknown says so. */
enum log_level log_level_named(const char *name);
extern const char log_level_unknown[];

/* What WEFT_LOG says. A level that does not exist is reported once, and counts as error. */
enum log_level log_level_wished(void);

/* Starts to trace the adapter to a file (path, or NULL) and to the log, if either is wanted. */
int observer_open(struct observed *o, const char *path, enum log_level level);
void observer_close(struct observed *o);

/* In a child of fork(): drops the files, which belong to the parent. */
void traces_forget(void);

/* Writes and logs the trace events since the last call. The adapter's lock is held. */
void observe_drain(struct observed *o);

/* Traces an event of a connection to an address, or of a listener there; nothing if off. */
void observe_address(struct observed *o, const struct weft_address *of, struct trace_event event);

/* Prints a line on stderr, if the level includes this event. */
void log_event(struct observed *o, enum log_level level, const struct trace_event *e);

/* ---- faults.c -------------------------------------------------------------------------------- */

/*
 * Reads WEFT_FAULTS, and prints what it asks for: *plan is NULL if it is nothing. If it cannot be
 * parsed, the adapter does not open: a test without its faults would pass for the wrong reason.
 */
enum weft_reason faults_open(struct observed *o, struct fault_plan **plan);

void faults_close(struct observed *o);

/* At exit(): prints how many faults were injected. In a child of fork(): drops the counts. */
void faults_tell(void);
void faults_forget(void);

/* ---- policy.c -------------------------------------------------------------------------------- */

/* The policy of that name. False: there is none, and policy_unknown says so. */
bool policy_named(const char *name, enum weft_policy *policy);
extern const char policy_unknown[];

/*
 * What WEFT_POLICY says; else the open one. One that does not exist is reported once, and refused
 * (WEFT_R_BAD_ARGUMENT): a program that was to be confined would not be.
 */
enum weft_reason policy_wished(enum weft_policy *policy);

/* The same of WEFT_PROFILE: host or io; else none (SYS-04). */
bool profile_named(const char *name, enum weft_profile *profile);
extern const char profile_unknown[];
enum weft_reason profile_wished(enum weft_profile *profile);

/* What `on` or `off` means. False: it is neither, and *is_on stays. */
bool switch_named(const char *name, bool *is_on);

/*
 * What variables ask for. A value that means nothing is reported once, and counts as the default;
 * the text says which that is.
 */
extern const char serve_unknown[], crc_unknown[], near_unknown[];

/* WEFT_SERVE: weft's thread does all of the work, see weft_adapter_serve(). Default: no. */
bool serve_wished(void);
/* WEFT_STRIPE: in a fabric, messages go by both paths of a connection (FAB-21). Default: no. */
bool stripe_wished(void);
/* WEFT_CRC: iWARP asks for a CRC, which both ends must forgo. Default: yes. */
bool crc_wished(void);

/* How packets of RoCE go to adapters of this host. */
enum near_wish {
	NEAR_WISH_ON,	  /* by shared memory, and Writes and Reads straight to memory */
	NEAR_WISH_OFF,	  /* by UDP */
	NEAR_WISH_PACKETS /* by shared memory, as packets only */
};

/* The wish of that name. False: there is none. */
bool near_named(const char *name, enum near_wish *wish);
/* WEFT_NEAR. Default: on. */
enum near_wish near_wished(void);

/* ---- record.c ------------------------------------------------------------------------------- */

/* A captured stream. Guarded by the adapter's lock and the recording's. */
struct record {
	struct recording *recording; /* NULL: not captured */
	struct observed *of;
	struct list link; /* of the recording */
	struct weft_address local, remote;
	struct capture_stream stream;
};

/*
 * A recording to a file, shared by all callers that name the same path. Returns 0 or a negative
 * errno. It ends with its last reference, unless is_kept: then it stays open for the next caller.
 * recording_put() returns the errno that stopped it, or 0.
 */
int recording_get(const char *path, bool is_kept, struct recording **r);
int recording_put(struct recording *r);

/* Writes the buffer out, if that was last done a while ago. */
void recording_flush(struct recording *r, uint64_t now_ns);

/* At exit(): writes out all recordings. In a child of fork(): drops them. */
void recordings_flush(void);
void recordings_forget(void);

/* TCP is connected between record->local and ->remote: captures it if the adapter is captured. */
void record_open(struct record *record, struct observed *of, bool is_initiator);
void record_close(struct record *record, bool is_reset);

/* For a captured stream: n bytes have moved; one direction has ended, with is_reset both. */
void record_bytes(struct record *record, const struct span_list *l, size_t n, bool is_outgoing);
void record_end(struct record *record, bool is_outgoing, bool is_reset);

/* Stops the capture of the adapter's streams, which go on. */
void record_leave_all(struct observed *of);

/*
 * For a captured adapter: a RoCE packet has arrived; these packets were sent. A packet between two
 * captured adapters is recorded by each that sees it: it may be lost on the way.
 */
void record_packet_in(struct observed *o, const struct ib_in *in);
void record_packets_out(struct observed *o, const struct ib_out *outs, uint32_t count);
