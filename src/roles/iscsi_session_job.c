/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the program (jobs), and the commands that they become (parts): as many as the unit's
 * limits ask for, sent as there is room, and sent again where the unit asks for that.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "base/least.h"
#include "driver/sys/clock.h"
#include "roles/iscsi_session_inside.h"

enum {
	PARTS_MIN = 16,
	ATTEMPTS_MAX = 5, /* after a unit attention and its like */
	BOUNCE_MAX = 256 * 1024,
	BLOCKS_UNSAID = 65536, /* of WRITE SAME and UNMAP, where the unit names no limit */
	KEY_ILLEGAL = 5,
	KEY_ATTENTION = 6,
	KEY_ABORTED = 0xb
};

static const uint64_t busy_ns = 50 * 1000 * 1000;

/* ---- Life ----------------------------------------------------------------------------------- */

enum weft_reason session_jobs_open(struct weft_iscsi_session *s, uint32_t requests_max)
{
	list_init(&s->free_jobs);
	list_init(&s->hungry_jobs);
	list_init(&s->ended_jobs);
	list_init(&s->free_parts);
	list_init(&s->later_parts);
	s->job_count = requests_max;
	s->part_count = requests_max > PARTS_MIN ? requests_max : PARTS_MIN;
	s->jobs = calloc(s->job_count, sizeof(*s->jobs));
	s->parts = calloc(s->part_count, sizeof(*s->parts));
	s->zeroes = calloc(1, SESSION_ZERO_BYTES);
	if (!s->jobs || !s->parts || !s->zeroes)
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < s->job_count; i++)
		list_add_tail(&s->free_jobs, &s->jobs[i].link);
	for (uint32_t i = 0; i < s->part_count; i++)
		list_add_tail(&s->free_parts, &s->parts[i].link);
	return WEFT_OK;
}

void session_jobs_close(struct weft_iscsi_session *s)
{
	for (uint32_t i = 0; s->parts && i < s->part_count; i++)
		free(s->parts[i].bounce);
	free(s->jobs);
	free(s->parts);
	free(s->zeroes);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static uint32_t tag_of(const struct weft_iscsi_session *s, const struct weft_sge *sge)
{
	return sge->tag ? sge->tag : s->process_tag;
}

/*
 * The elements of the next so many bytes of the job, as far as one command can have them; how many
 * bytes they are.
 */
static uint64_t elements_take(const struct weft_iscsi_session *s, const struct session_job *j,
			      struct session_memory *m, uint64_t length)
{
	uint32_t at = j->sge_at, offset = j->sge_offset;
	uint64_t have = 0;

	m->count = 0;
	while (have < length && m->count < s->port->sges_max && at < j->ask.sge_count) {
		const struct weft_sge *e = &j->sges[at];
		uint32_t n = (uint32_t)least(e->length - offset, length - have);

		if (n > 0)
			m->sges[m->count++] = (struct weft_sge){ e->addr + offset, n,
								 tag_of(s, e) };
		have += n;
		at++;
		offset = 0;
	}
	return have;
}

/* Shortens the elements to so many bytes. */
static void elements_cut(struct session_memory *m, uint64_t length)
{
	uint32_t i = 0;

	for (; length > 0; i++) {
		m->sges[i].length = (uint32_t)least(m->sges[i].length, length);
		length -= m->sges[i].length;
	}
	m->count = i;
}

/* The job's next bytes have been given to a command. */
static void elements_pass(struct session_job *j, uint64_t length)
{
	while (length > 0) {
		uint64_t left = j->sges[j->sge_at].length - j->sge_offset;
		uint64_t n = least(left, length);

		length -= n;
		j->sge_offset += (uint32_t)n;
		if (n == left) {
			j->sge_at++;
			j->sge_offset = 0;
		}
	}
}

/* Copies between the job's elements, from where the part begins, and its bounce memory. */
static void bounce_copy(const struct session_part *p, uint64_t length, bool is_in)
{
	const struct session_job *j = p->job;
	uint32_t at = p->sge_first, offset = p->sge_first_offset;
	uint8_t *from = p->bounce;

	while (length > 0) {
		uint8_t *to = (uint8_t *)(uintptr_t)(j->sges[at].addr + offset);
		uint64_t n = least(j->sges[at].length - offset, length);

		if (n > 0 && is_in)
			memcpy(to, from, n);
		else if (n > 0)
			memcpy(from, to, n);
		from += n;
		length -= n;
		at++;
		offset = 0;
	}
}

/* One element of our own, where those of the program do not fit one command. */
static bool bounce_make(struct weft_iscsi_session *s, struct session_part *p, uint64_t length)
{
	p->bounce = malloc(length);
	if (!p->bounce)
		return false;
	p->sge_first = p->job->sge_at;
	p->sge_first_offset = p->job->sge_offset;
	p->memory.count = 1;
	p->memory.sges[0] = (struct weft_sge){ (uintptr_t)p->bounce, (uint32_t)length,
					       s->process_tag };
	if (p->request.direction == ISCSI_WRITE)
		bounce_copy(p, length, false);
	return true;
}

/* Memory for the next up to length bytes, in whole units; how many. 0: no memory. */
static uint64_t memory_take(struct weft_iscsi_session *s, struct session_part *p, uint64_t length,
			    uint32_t unit)
{
	struct session_job *j = p->job;
	uint64_t have = elements_take(s, j, &p->memory, length);

	have -= have % unit;
	if (have > 0) {
		elements_cut(&p->memory, have);
	} else {
		have = least(length, unit > BOUNCE_MAX ? unit : BOUNCE_MAX);
		have -= have % unit;
		if (!bounce_make(s, p, have))
			return 0;
	}
	elements_pass(j, have);
	return have;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* What a flush, or one for the sake of FUA, has to tell besides. */
static enum weft_reason made_durable(struct weft_iscsi_session *s, const struct session_job *j)
{
	bool is_flush = j->ask.operation == WEFT_ISCSI_FLUSH;

	if (!is_flush && !j->is_syncing)
		return WEFT_OK;
	if (is_flush ? s->has_lost : s->losses != j->losses) {
		s->has_lost &= !is_flush;
		return WEFT_R_ISCSI_WRITES_LOST;
	}
	if (j->covers > s->durable)
		s->durable = j->covers;
	return WEFT_OK;
}

static void job_end(struct weft_iscsi_session *s, struct session_job *j)
{
	struct weft_iscsi_result *e = &j->ended;

	e->context = j->ask.context;
	j->is_out = false;
	if (e->reason == WEFT_OK)
		e->reason = made_durable(s, j);
	if (!j->waiter) {
		list_add_tail(&s->ended_jobs, &j->link);
	} else {
		j->waiter->ended = *e;
		j->waiter->has_ended = true;
		list_push(&s->free_jobs, &j->link);
		s->jobs_out--;
	}
	session_tell(s);
}

void session_unit_reset(struct weft_iscsi_session *s)
{
	if (s->writes > s->durable) {
		s->has_lost = true;
		s->losses++;
	}
	s->durable = s->writes;
}

static void job_fail(struct session_job *j, const struct session_part *p, enum weft_reason reason)
{
	const struct iscsi_request *r = &p->request;
	struct weft_iscsi_result *e = &j->ended;
	struct scsi_sense sense;

	if (e->reason != WEFT_OK)
		return; /* the first failure counts */
	e->reason = reason;
	e->status = r->status;
	e->sense_bytes = r->sense_bytes;
	memcpy(e->sense, r->sense, r->sense_bytes);
	if (scsi_answer_sense(&sense, r->sense, r->sense_bytes)) {
		e->sense_key = sense.key;
		e->additional_code = sense.code;
		e->additional_qualifier = sense.qualifier;
	}
}

/* ---- Commands ------------------------------------------------------------------------------- */

static void part_free(struct weft_iscsi_session *s, struct session_part *p)
{
	free(p->bounce);
	p->bounce = NULL;
	p->job = NULL;
	list_push(&s->free_parts, &p->link);
}

/* False: the core does not take it, and the job fails. */
static bool part_submit(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	enum weft_reason r;

	p->request.timeout_ns = j->deadline_ns > s->now_ns ? j->deadline_ns - s->now_ns : 1;
	r = iscsi_initiator_submit(s->core, &p->request, s->now_ns);
	if (r == WEFT_OK)
		return true;
	p->request.status = p->request.sense_bytes = 0;
	job_fail(j, p, r);
	j->out--;
	part_free(s, p);
	return false;
}

/* Blocks from where the job is, for at most so many of them. */
static struct scsi_extent extent_of(const struct weft_iscsi_session *s, const struct session_job *j,
				    uint64_t length)
{
	return (struct scsi_extent){ .lba = (j->ask.offset + j->at) / s->unit.block_bytes,
				     .blocks = (uint32_t)(length / s->unit.block_bytes) };
}

static uint64_t limit_of(const struct weft_iscsi_session *s, uint64_t blocks_max, uint64_t left)
{
	uint64_t blocks = blocks_max ? least(blocks_max, UINT32_MAX) : BLOCKS_UNSAID;

	return least(left, blocks * s->unit.block_bytes);
}

/* The commands of the job are durable when they have ended. */
static bool is_through(const struct weft_iscsi_session *s, const struct session_job *j)
{
	return !s->unit.has_write_cache ||
	       (j->ask.is_fua && j->ask.operation == WEFT_ISCSI_WRITE && s->unit.can_fua);
}

static uint64_t part_read_write(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	bool is_write = j->ask.operation == WEFT_ISCSI_WRITE;
	uint64_t length = least(j->ask.length - j->at, s->unit.transfer_bytes_max);
	struct scsi_extent e;

	p->request.direction = is_write ? ISCSI_WRITE : ISCSI_READ;
	length = memory_take(s, p, length, s->unit.block_bytes);
	e = extent_of(s, j, length);
	if (is_write)
		scsi_ask_write(p->request.cdb, &e, j->ask.is_fua && s->unit.can_fua);
	else
		scsi_ask_read(p->request.cdb, &e, false);
	p->request.expected_bytes = (uint32_t)length;
	return length;
}

static void zeroes_name(struct weft_iscsi_session *s, struct session_part *p, uint64_t length)
{
	p->request.direction = ISCSI_WRITE;
	p->request.expected_bytes = (uint32_t)length;
	p->memory.count = 1;
	p->memory.sges[0] = (struct weft_sge){ (uintptr_t)s->zeroes, (uint32_t)length,
					       s->process_tag };
}

/* WRITE SAME where the unit has it, else zeroes are written. */
static uint64_t part_zeroes(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	uint64_t left = j->ask.length - j->at, length;
	struct scsi_extent e;

	if (s->unit.can_write_zeroes) {
		length = limit_of(s, s->limits.write_same_max, left);
		e = extent_of(s, j, length);
		scsi_ask_write_same(p->request.cdb, &e);
		zeroes_name(s, p, s->unit.block_bytes);
		return length;
	}
	length = least(left, least(s->unit.transfer_bytes_max, SESSION_ZERO_BYTES));
	e = extent_of(s, j, length);
	scsi_ask_write(p->request.cdb, &e, false);
	zeroes_name(s, p, length);
	return length;
}

static uint64_t part_unmap(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	uint64_t length = limit_of(s, s->limits.unmap_max, j->ask.length - j->at);
	struct scsi_extent e = extent_of(s, j, length);

	scsi_ask_unmap(p->request.cdb, &e, p->parameters);
	p->request.direction = ISCSI_WRITE;
	p->request.expected_bytes = SCSI_UNMAP_BYTES;
	p->memory.count = 1;
	p->memory.sges[0] = (struct weft_sge){ (uintptr_t)p->parameters, SCSI_UNMAP_BYTES,
					       s->process_tag };
	return length;
}

static uint64_t part_command(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	uint64_t length = j->ask.length;

	memcpy(p->request.cdb, j->ask.cdb, sizeof(p->request.cdb));
	if (j->ask.has_lun)
		p->request.lun = scsi_lun_bytes(j->ask.lun);
	if (length == 0)
		return 0;
	p->request.direction = j->ask.is_to_device ? ISCSI_WRITE : ISCSI_READ;
	/* All of it is one command's. */
	if (elements_take(s, j, &p->memory, length) < length && !bounce_make(s, p, length))
		return 0;
	p->request.expected_bytes = (uint32_t)length;
	return length;
}

static uint64_t part_flush(struct session_part *p)
{
	const struct scsi_extent all = { 0 };

	scsi_ask_flush(p->request.cdb, &all);
	return 0;
}

/* Fills the next command of the job. False: there is no memory for it. */
static bool part_fill(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	uint64_t length = 0;

	p->request = (struct iscsi_request){
		.lun = scsi_lun_bytes(s->url.lun),
		.attr = ISCSI_ATTR_SIMPLE,
		.memory = &p->memory,
	};
	p->memory.count = 0;
	p->attempts = 0;
	j->has_begun = true;
	if (j->is_syncing) {
		j->has_synced = true;
		(void)part_flush(p);
		return true;
	}
	switch (j->ask.operation) {
	case WEFT_ISCSI_READ:
	case WEFT_ISCSI_WRITE:
		length = part_read_write(s, p);
		break;
	case WEFT_ISCSI_WRITE_ZEROES:
		length = part_zeroes(s, p);
		break;
	case WEFT_ISCSI_UNMAP:
		length = part_unmap(s, p);
		break;
	case WEFT_ISCSI_COMMAND:
		length = part_command(s, p);
		break;
	default:
		length = part_flush(p);
		break;
	}
	j->at += length;
	return length > 0 || j->ask.length == 0;
}

/* The next command of a job that has one. False: there is no room. */
static bool part_send(struct weft_iscsi_session *s, struct session_job *j)
{
	struct session_part *p;

	if (list_is_empty(&s->free_parts))
		return false;
	p = CONTAINER_OF(list_pop(&s->free_parts), struct session_part, link);
	p->job = j;
	if (!part_fill(s, p)) {
		j->ended.reason = WEFT_R_NO_MEMORY;
		part_free(s, p);
		return true;
	}
	j->out++;
	(void)part_submit(s, p);
	return true;
}

/* Whether there is another command to be sent. */
static bool has_more(const struct session_job *j)
{
	if (j->ended.reason != WEFT_OK)
		return false;
	return j->is_syncing ? !j->has_synced : !j->has_begun || j->at < j->ask.length;
}

/* The job goes on, or ends. */
static void job_step(struct weft_iscsi_session *s, struct session_job *j)
{
	if (!has_more(j) && j->out == 0 && j->ended.reason == WEFT_OK && j->ask.is_fua &&
	    !j->is_syncing && !is_through(s, j)) {
		j->is_syncing = true;
		j->covers = s->writes;
	}
	if (has_more(j)) {
		if (!list_is_linked(&j->link))
			list_add_tail(&s->hungry_jobs, &j->link);
		return;
	}
	list_remove(&j->link);
	if (j->out == 0)
		job_end(s, j);
}

void session_jobs_feed(struct weft_iscsi_session *s)
{
	while (!list_is_empty(&s->hungry_jobs)) {
		struct session_job *j = CONTAINER_OF(s->hungry_jobs.next, struct session_job, link);

		if (!part_send(s, j))
			return;
		job_step(s, j);
	}
}

void session_job_begin(struct weft_iscsi_session *s, struct session_job *j)
{
	j->is_out = true;
	j->covers = s->writes;
	j->losses = s->losses;
	list_add_tail(&s->hungry_jobs, &j->link);
	session_jobs_feed(s);
}

/* ---- What became of commands ---------------------------------------------------------------- */

/* What the unit asks to be sent again, at once or later. */
static bool is_again(const struct weft_iscsi_session *s, struct session_part *p)
{
	const struct iscsi_request *r = &p->request;
	struct scsi_sense sense;

	if (r->reason != WEFT_OK || p->job->ask.operation == WEFT_ISCSI_COMMAND || s->has_ended)
		return false;
	if (r->status == 0x08 || r->status == 0x28)
		return true;
	return r->status == 0x02 && scsi_answer_sense(&sense, r->sense, r->sense_bytes) &&
	       (sense.key == KEY_ATTENTION || sense.key == KEY_ABORTED) &&
	       p->attempts++ < ATTEMPTS_MAX;
}

static enum weft_reason outcome(const struct session_part *p)
{
	const struct iscsi_request *r = &p->request;
	enum weft_iscsi_operation o = p->job->ask.operation;

	if (r->reason != WEFT_OK)
		return r->reason;
	/* CONDITION MET is good for PRE-FETCH: it says nothing of data. */
	if (r->status != 0x00 && (r->status != 0x04 || o != WEFT_ISCSI_COMMAND))
		return WEFT_R_ISCSI_STATUS;
	if (o != WEFT_ISCSI_COMMAND && r->is_underflow && r->residual > 0)
		return WEFT_R_ISCSI_DATA_MISSING;
	return WEFT_OK;
}

/* SYNCHRONIZE CACHE to a unit that neither knows it nor has a cache. */
static bool is_needless_flush(const struct weft_iscsi_session *s, const struct session_part *p)
{
	struct scsi_sense sense;

	return p->job->ask.operation == WEFT_ISCSI_FLUSH && !s->unit.has_write_cache &&
	       p->request.status == 0x02 &&
	       scsi_answer_sense(&sense, p->request.sense, p->request.sense_bytes) &&
	       sense.key == KEY_ILLEGAL && sense.code == 0x20;
}

static void part_succeeded(struct weft_iscsi_session *s, struct session_part *p)
{
	struct session_job *j = p->job;
	const struct iscsi_request *r = &p->request;
	uint64_t moved = r->expected_bytes;

	if (r->is_underflow)
		moved -= least(moved, r->residual);
	if (p->bounce && r->direction == ISCSI_READ)
		bounce_copy(p, moved, true);
	if (r->direction == ISCSI_READ)
		s->read_bytes += moved;
	else if (r->direction == ISCSI_WRITE)
		s->written_bytes += moved;
	if (j->ask.operation == WEFT_ISCSI_READ || j->ask.operation == WEFT_ISCSI_WRITE ||
	    j->ask.operation == WEFT_ISCSI_COMMAND)
		j->ended.done_bytes += moved;
	if (r->direction == ISCSI_WRITE && !is_through(s, j))
		s->writes++;
}

/* A unit attention that the core did not hide. */
static void look_for_reset(struct weft_iscsi_session *s, const struct iscsi_request *r)
{
	struct scsi_sense sense;

	if (r->reason == WEFT_OK && r->status == 0x02 && r->lun == scsi_lun_bytes(s->url.lun) &&
	    scsi_answer_sense(&sense, r->sense, r->sense_bytes) && sense.key == KEY_ATTENTION &&
	    sense.code == 0x29 && sense.qualifier != 7)
		session_unit_reset(s);
}

void session_part_done(struct weft_iscsi_session *s, struct iscsi_request *r)
{
	struct session_part *p = CONTAINER_OF(r, struct session_part, request);
	struct session_job *j = p->job;
	enum weft_reason reason;

	look_for_reset(s, r);
	if (is_again(s, p)) {
		s->retries++;
		if (r->status == 0x02) {
			if (!part_submit(s, p))
				job_step(s, j);
			return;
		}
		list_add_tail(&s->later_parts, &p->link);
		s->later_ns = deadline_after(s->now_ns, busy_ns);
		return;
	}
	reason = outcome(p);
	if (reason == WEFT_OK || is_needless_flush(s, p))
		part_succeeded(s, p);
	else
		job_fail(j, p, reason);
	if (j->ask.operation == WEFT_ISCSI_COMMAND && reason == WEFT_OK)
		j->ended.status = r->status;
	j->out--;
	part_free(s, p);
	job_step(s, j);
}

void session_jobs_retry(struct weft_iscsi_session *s)
{
	struct list again;

	list_init(&again);
	while (!list_is_empty(&s->later_parts))
		list_add_tail(&again, list_pop(&s->later_parts));
	s->later_ns = UINT64_MAX;
	while (!list_is_empty(&again)) {
		struct session_part *p = CONTAINER_OF(list_pop(&again), struct session_part, link);
		struct session_job *j = p->job;

		if (!part_submit(s, p))
			job_step(s, j);
	}
}
