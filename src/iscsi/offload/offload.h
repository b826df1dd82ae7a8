/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter's end of a queue pair in iSCSI mode: one TCP connection to a target, as a core. It
 * sends the commands and PDUs of the send queue, moves the data of commands between the connection
 * and their memory, and passes the rest to the receive queue.
 *
 * The owner (driver or simulator) moves the bytes, as iwarp/iwarp.h has it:
 *
 *	iscsi_offload_want()   where to receive; iscsi_offload_got() says how much arrived there
 *	iscsi_offload_have()   what to send; iscsi_offload_sent() says how much was sent
 *	iscsi_offload_due(), iscsi_offload_expire()   the next deadline
 *	iscsi_offload_action() what to do with the TCP connection: pulled, never called back
 *
 * A stream that may have something new for its owner puts itself on the owner's list `attention`,
 * once; iscsi_offload_attend() takes it from there.
 *
 * Memory is asked for when it is used: spans are valid for one want() and got(), or one have() and
 * sent(), with no call in between. Data-In is placed as it comes, before its digest is checked;
 * what fails the digest is never told as placed.
 */
#pragma once

#include <weft/iscsi_qp.h>

#include "base/span.h"
#include "verbs/verbs.h"

struct iscsi_offload;

struct iscsi_offload_config {
	uint64_t close_wait_ns; /* for the target to close its direction, after ours is closed */
	struct list *attention; /* of the owner; must outlive the stream */
	void *owner;		/* returned by iscsi_offload_owner() */
};

/*
 * Makes an ISCSI queue pair in RESET or INIT operational on a new connection. The stream outlives
 * the queue pair's use of it, until the connection is closed.
 */
enum weft_reason iscsi_offload_create(struct weft_qp *qp, const struct iscsi_offload_config *config,
				      struct iscsi_offload **stream);

/* Frees the stream; a queue pair that still uses it fails (WEFT_R_STREAM_LOST). */
void iscsi_offload_destroy(struct iscsi_offload *s);

void *iscsi_offload_owner(const struct iscsi_offload *s);

/* Ends the stream for this reason: the connection is reset. */
void iscsi_offload_refuse(struct iscsi_offload *s, enum weft_reason reason);

/* Takes the first stream off the list; the last stream of the list. NULL: it is empty. */
struct iscsi_offload *iscsi_offload_attend(struct list *attention);
struct iscsi_offload *iscsi_offload_last(const struct list *attention);

/* Puts it back on the list: its owner has not finished with it. */
void iscsi_offload_again(struct iscsi_offload *s);

/* Where to receive. An empty list: nowhere now. */
void iscsi_offload_want(struct iscsi_offload *s, uint64_t now_ns, struct span_list *l);

/* Whether iscsi_offload_want() would return a non-empty list. */
bool iscsi_offload_wants(const struct iscsi_offload *s);

/* n bytes, at most l->length, were received into the list. */
void iscsi_offload_got(struct iscsi_offload *s, uint64_t now_ns, const struct span_list *l,
		       size_t n);

/* Memory that iscsi_offload_want() or iscsi_offload_have() listed is not mapped any more. */
void iscsi_offload_sink_gone(struct iscsi_offload *s);
void iscsi_offload_source_gone(struct iscsi_offload *s);

/* The target closed its direction; the connection was reset or lost. */
void iscsi_offload_eof(struct iscsi_offload *s, uint64_t now_ns);
void iscsi_offload_lost(struct iscsi_offload *s);

/* What to send. An empty list: nothing now. After iscsi_offload_sent() there may be more. */
void iscsi_offload_have(struct iscsi_offload *s, uint64_t now_ns, struct span_list *l);
void iscsi_offload_sent(struct iscsi_offload *s, uint64_t now_ns, size_t n);

/* UINT64_MAX: no deadline. */
uint64_t iscsi_offload_due(const struct iscsi_offload *s);
void iscsi_offload_expire(struct iscsi_offload *s, uint64_t now_ns);

/* As enum iwarp_action. */
enum iscsi_offload_action {
	ISCSI_OFFLOAD_NOTHING = 0,
	ISCSI_OFFLOAD_SHUT,  /* close our direction (FIN), once; bytes may still come */
	ISCSI_OFFLOAD_CLOSE, /* close the connection and destroy the stream */
	ISCSI_OFFLOAD_ABORT  /* the same with a reset */
};

enum iscsi_offload_action iscsi_offload_action(struct iscsi_offload *s);

/* Whether the stream is in use, and not ending. */
bool iscsi_offload_is_open(const struct iscsi_offload *s);

/* The name of a state of TRACE_ISCSI_STATE. Never NULL. */
const char *iscsi_offload_state_name(uint64_t state);

struct iscsi_offload_counts {
	uint64_t pdus_in, pdus_out;
	uint64_t bytes_in, bytes_out; /* of the stream */
	uint64_t data_in, data_out;   /* of these: data segments */
	uint64_t data_copied;	      /* of the data: through our buffer, or inline */
};

struct iscsi_offload_counts iscsi_offload_counts(const struct iscsi_offload *s);

/*
 * For the public calls, of an ISCSI queue pair in any state: see weft_qp_modify_iscsi() and the
 * other calls of <weft/iscsi_qp.h>, whose arguments were checked for NULL and for reserved space.
 */
enum weft_reason iscsi_offload_set(struct weft_qp *qp, const struct weft_iscsi_terms *terms);
enum weft_reason iscsi_offload_query(const struct weft_qp *qp, struct weft_iscsi_attr *attr);
enum weft_reason iscsi_offload_tag(const struct weft_qp *qp, uint32_t command_id, uint32_t *tag);
enum weft_reason iscsi_offload_end(struct weft_qp *qp, uint32_t command_id);
