/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/iscsi_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { REQUESTS = 256, BATCH = 32, SEGMENTS = 64, SEGMENT_BYTES_MAX = 1 << 30 };

/* SPC-4 section 4.5: what a unit says of a write that it cannot do. */
enum { KEY_DATA_PROTECT = 7, CODE_WRITE_PROTECTED = 0x27, QUALIFIER_NO_SPACE = 7 };

struct iscsi_store {
	struct store store;
	struct weft_iscsi_session *session;
	bool can_fua;	    /* else there is no cache, or the store says that it cannot */
	bool is_lost;	    /* writes were lost: every flush fails */
	struct list todo;   /* struct store_request: the session had no room */
	struct list failed; /* the same: it did not take them */
	struct weft_iscsi_result ended[BATCH];
	uint32_t count, at; /* of them; the next one */
	char failure[WEFT_ISCSI_WHY_MAX];
};

static struct iscsi_store *iscsi_of(struct store *s)
{
	return CONTAINER_OF(s, struct iscsi_store, store);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static enum weft_iscsi_operation operation_of(enum store_op op)
{
	static const enum weft_iscsi_operation operations[STORE_OP_COUNT] = {
		[STORE_READ] = WEFT_ISCSI_READ,	    [STORE_WRITE] = WEFT_ISCSI_WRITE,
		[STORE_FLUSH] = WEFT_ISCSI_FLUSH,   [STORE_WRITE_ZEROES] = WEFT_ISCSI_WRITE_ZEROES,
		[STORE_DISCARD] = WEFT_ISCSI_UNMAP,
	};

	return operations[op];
}

/* 0: too many segments, which have 32-bit lengths. */
static uint32_t segments_of(const struct store_request *r, struct weft_sge *segments)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->span_count; i++) {
		for (uint64_t at = 0; at < r->spans[i].length; at += segments[count++].length) {
			uint64_t left = r->spans[i].length - at;

			if (count == SEGMENTS)
				return 0;
			segments[count] = (struct weft_sge){
				.addr = (uintptr_t)(r->spans[i].bytes + at),
				.length = (uint32_t)(left < SEGMENT_BYTES_MAX ? left
									      : SEGMENT_BYTES_MAX),
			};
		}
	}
	return count;
}

static enum weft_reason ask(struct iscsi_store *s, struct store_request *r)
{
	struct weft_sge segments[SEGMENTS];
	struct weft_iscsi_request q = { .operation = operation_of(r->op),
					.is_fua = r->flags & STORE_FUA,
					.offset = r->offset,
					.length = r->length,
					.sges = segments,
					.context = r };

	if (s->is_lost && r->op == STORE_FLUSH)
		return WEFT_R_STORE_LOST;
	if (r->op == STORE_READ || r->op == STORE_WRITE) {
		q.sge_count = segments_of(r, segments);
		if (q.sge_count == 0)
			return WEFT_R_STORE_SPANS;
	}
	return weft_iscsi_request_submit(s->session, &q);
}

/* Hands over what waits, in its order, as far as the session has room. */
static void begin_all(struct iscsi_store *s)
{
	while (!list_is_empty(&s->todo)) {
		struct store_request *r = CONTAINER_OF(s->todo.next, struct store_request, link);
		enum weft_reason reason = ask(s, r);

		if (reason == WEFT_R_BUSY)
			return;
		list_remove(&r->link);
		if (reason == WEFT_OK)
			continue;
		snprintf(s->failure, sizeof(s->failure), "%s", weft_reason_text(reason));
		store_request_end(r, reason, 0);
		list_add_tail(&s->failed, &r->link);
	}
}

static void iscsi_submit(struct store *store, struct store_request *r, uint64_t now_ns)
{
	struct iscsi_store *s = iscsi_of(store);
	bool is_alone = list_is_empty(&s->todo);

	(void)now_ns;
	list_init(&r->link);
	list_add_tail(&s->todo, &r->link);
	if (is_alone)
		begin_all(s);
}

/* What users of a store understand without knowing SCSI. */
static enum weft_reason reason_of(const struct weft_iscsi_result *e)
{
	if (e->reason == WEFT_R_ISCSI_WRITES_LOST)
		return WEFT_R_STORE_LOST;
	if (e->reason != WEFT_R_ISCSI_STATUS || e->sense_key != KEY_DATA_PROTECT)
		return e->reason;
	if (e->additional_code == CODE_WRITE_PROTECTED &&
	    e->additional_qualifier == QUALIFIER_NO_SPACE)
		return WEFT_R_STORE_FULL;
	return WEFT_R_STORE_READONLY;
}

/* What ended the last connection says more than that there is none, or no answer by it. */
static void failure_set(struct iscsi_store *s, const struct weft_iscsi_result *e)
{
	bool is_of_connection = e->reason == WEFT_R_ISCSI_GONE ||
				e->reason == WEFT_R_ISCSI_RETRIES ||
				e->reason == WEFT_R_ISCSI_TIMEOUT;
	struct weft_iscsi_info info = { 0 };
	size_t length;

	weft_iscsi_result_text(e, s->failure);
	if (!is_of_connection || weft_iscsi_session_query(s->session, &info) != WEFT_OK ||
	    info.reason == WEFT_OK || info.reason == e->reason)
		return;
	length = strlen(s->failure);
	snprintf(s->failure + length, sizeof(s->failure) - length,
		 " The last connection was lost for %s: %s", weft_reason_name(info.reason),
		 weft_reason_text(info.reason));
}

static struct store_request *take(struct iscsi_store *s, const struct weft_iscsi_result *e)
{
	struct store_request *r = e->context;
	enum weft_reason reason = reason_of(e);

	if (reason != WEFT_OK)
		failure_set(s, e);
	s->is_lost |= reason == WEFT_R_STORE_LOST;
	/* Of several flushes that were under way one is told, and none may succeed. */
	if (reason == WEFT_OK && r->op == STORE_FLUSH && s->is_lost)
		reason = WEFT_R_STORE_LOST;
	store_request_end(r, reason, 0);
	return r;
}

static struct store_request *iscsi_next_done(struct store *store, uint64_t now_ns)
{
	struct iscsi_store *s = iscsi_of(store);

	(void)now_ns;
	if (s->at == s->count) {
		s->at = s->count = 0;
		(void)weft_iscsi_request_wait(s->session, 0, s->ended, BATCH, &s->count);
		if (s->count > 0)
			begin_all(s);
	}
	if (s->at < s->count)
		return take(s, &s->ended[s->at++]);
	if (!list_is_empty(&s->failed))
		return CONTAINER_OF(list_pop(&s->failed), struct store_request, link);
	return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void iscsi_destroy(struct store *store)
{
	struct iscsi_store *s = iscsi_of(store);

	if (s->session)
		weft_iscsi_session_close(s->session);
	free(s);
}

static const struct store_calls iscsi_calls = {
	.submit = iscsi_submit,
	.next_done = iscsi_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = iscsi_destroy,
};

int iscsi_store_descriptor(const struct store *s)
{
	int fd = -1;

	CHECK(s->calls == &iscsi_calls);
	CHECK(weft_iscsi_session_fd(CONTAINER_OF(s, struct iscsi_store, store)->session, &fd) ==
	      WEFT_OK);
	return fd;
}

const char *iscsi_store_failure(const struct store *s)
{
	CHECK(s->calls == &iscsi_calls);
	return CONTAINER_OF(s, struct iscsi_store, store)->failure;
}

/* A unit without FUA is asked to flush behind the write. */
static struct store_shape shape_of(const struct weft_iscsi_info *i, bool is_readonly)
{
	return (struct store_shape){
		.size_bytes = i->size_bytes,
		.block_bytes = i->block_bytes,
		.can = STORE_CAN_FLUSH | STORE_CAN_FUA | (i->can_unmap ? STORE_CAN_DISCARD : 0U) |
		       (i->can_write_zeroes ? STORE_CAN_WRITE_ZEROES : 0U),
		.is_readonly = is_readonly || i->is_readonly,
	};
}

static enum weft_reason shape_take(struct iscsi_store *s, bool is_readonly,
				   char why[WEFT_ISCSI_WHY_MAX])
{
	struct weft_iscsi_info info = { 0 };
	enum weft_reason r = weft_iscsi_session_query(s->session, &info);

	if (r != WEFT_OK)
		return r;
	s->store = (struct store){ .calls = &iscsi_calls, .shape = shape_of(&info, is_readonly) };
	r = store_shape_check(&s->store.shape);
	if (r != WEFT_OK)
		snprintf(why, WEFT_ISCSI_WHY_MAX,
			 "%s The unit has %" PRIu64 " bytes in blocks of %" PRIu32 ".",
			 weft_reason_text(r), info.size_bytes, info.block_bytes);
	return r;
}

enum weft_reason iscsi_store_open(const struct iscsi_store_config *c, struct store **out,
				  char why[WEFT_ISCSI_WHY_MAX])
{
	struct iscsi_store *s = calloc(1, sizeof(*s));
	struct weft_iscsi_options options = c->options;
	enum weft_reason r;

	if (!s)
		return WEFT_R_NO_MEMORY;
	list_init(&s->todo);
	list_init(&s->failed);
	why[0] = '\0';
	options.why = why;
	if (options.requests_max == 0)
		options.requests_max = REQUESTS;
	r = weft_iscsi_session_open(c->url, &options, &s->session);
	if (r == WEFT_OK)
		r = shape_take(s, c->is_readonly, why);
	if (r != WEFT_OK) {
		iscsi_destroy(&s->store);
		return r;
	}
	*out = &s->store;
	return WEFT_OK;
}
