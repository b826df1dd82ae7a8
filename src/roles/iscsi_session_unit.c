/* SPDX-License-Identifier: BSD-2-Clause */
/* What a session asks its unit when it is opened: what it is, and what it can do. */
#include <string.h>

#include "base/least.h"
#include "roles/iscsi_session_inside.h"

enum {
	TYPE_DISK = 0,
	TYPE_WRITE_ONCE = 4,
	TYPE_CD = 5,
	TYPE_OPTICAL = 7,
	TYPE_ZONED = 0x14,
	READY_TRIES = 8,
	KEY_ATTENTION = 6,
	KEY_ILLEGAL = 5,
	CODE_LUN = 0x25,
	CODE_BECOMING_READY = 0x04,
	OP_UNMAP = 0x42,
	OP_WRITE_SAME_16 = 0x93
};

/* One question; ended->reason tells how it went. */
struct question {
	struct weft_iscsi_request ask;
	struct weft_sge sge;
	uint8_t answer[SCSI_ASK_ANSWER_BYTES];
	struct weft_iscsi_result ended;
};

/* How many bytes the unit answered. A unit attention is answered by asking again. */
static size_t put(struct weft_iscsi_session *s, struct question *q, uint32_t answer_bytes)
{
	q->ask.operation = WEFT_ISCSI_COMMAND;
	q->sge = (struct weft_sge){ (uintptr_t)q->answer, answer_bytes, 0 };
	q->ask.length = answer_bytes;
	q->ask.sges = &q->sge;
	q->ask.sge_count = answer_bytes > 0;
	memset(q->answer, 0, sizeof(q->answer));
	for (int i = 0; i < READY_TRIES; i++) {
		q->ended = (struct weft_iscsi_result){ 0 };
		q->ended.reason = session_do(s, &q->ask, &q->ended);
		if (q->ended.reason != WEFT_R_ISCSI_STATUS || q->ended.status != 0x02 ||
		    q->ended.sense_key != KEY_ATTENTION)
			break;
	}
	return q->ended.reason == WEFT_OK ? q->ended.done_bytes : 0;
}

static enum weft_reason refuse(struct weft_iscsi_session *s, const struct question *q,
			       const char *what)
{
	char text[WEFT_ISCSI_TEXT_MAX];

	weft_iscsi_result_text(&q->ended, text);
	session_why(s, "%s: %s", what, text);
	return q->ended.reason;
}

static bool is_no_lun(const struct question *q)
{
	return q->ended.reason == WEFT_R_ISCSI_STATUS && q->ended.sense_key == KEY_ILLEGAL &&
	       q->ended.additional_code == CODE_LUN;
}

static enum weft_reason no_lun(struct weft_iscsi_session *s)
{
	session_why(s, "%s has no logical unit %u, or does not show it to %s", s->url.target.text,
		    s->url.lun, s->initiator.text);
	return WEFT_R_ISCSI_LUN;
}

static enum weft_reason ask_identity(struct weft_iscsi_session *s, struct question *q)
{
	struct weft_iscsi_info *u = &s->unit;
	struct scsi_identity i;
	size_t length;

	scsi_ask_inquiry(q->ask.cdb);
	length = put(s, q, 255);
	if (is_no_lun(q))
		return no_lun(s);
	if (q->ended.reason != WEFT_OK)
		return refuse(s, q, "INQUIRY");
	switch (scsi_answer_inquiry(&i, q->answer, length)) {
	case SCSI_THERE:
		break;
	case SCSI_NOT_THERE:
		return no_lun(s);
	default:
		session_why(s, "the unit's answer to INQUIRY has only %zu bytes", length);
		return WEFT_R_ISCSI_DATA_MISSING;
	}
	u->device_type = i.device_type;
	memcpy(u->vendor, i.vendor, sizeof(u->vendor));
	memcpy(u->product, i.product, sizeof(u->product));
	memcpy(u->revision, i.revision, sizeof(u->revision));
	return WEFT_OK;
}

/* Pages are optional. Only a connection that is lost for good ends the opening. */
static size_t ask_page(struct weft_iscsi_session *s, struct question *q, uint8_t page)
{
	scsi_ask_page(q->ask.cdb, page);
	return put(s, q, 255);
}

static void ask_pages(struct weft_iscsi_session *s, struct question *q)
{
	struct weft_iscsi_info *u = &s->unit;
	uint8_t list[255];
	size_t length = ask_page(s, q, 0);

	memcpy(list, q->answer, sizeof(list));
	if (scsi_answer_has_page(list, length, 0x80)) {
		size_t n = ask_page(s, q, 0x80);

		scsi_answer_serial(u->serial, q->answer, n);
	}
	if (scsi_answer_has_page(list, length, 0x83)) {
		size_t n = ask_page(s, q, 0x83);

		scsi_answer_identity(u->identity, q->answer, n);
	}
	if (scsi_answer_has_page(list, length, 0xb0)) {
		size_t n = ask_page(s, q, 0xb0);

		scsi_answer_block_limits(&s->limits, q->answer, n);
	}
	if (scsi_answer_has_page(list, length, 0xb2)) {
		size_t n = ask_page(s, q, 0xb2);

		u->can_unmap = scsi_answer_can_unmap(q->answer, n);
	}
}

static bool has_opcode(struct weft_iscsi_session *s, struct question *q, uint8_t opcode)
{
	size_t length;

	scsi_ask_opcode(q->ask.cdb, opcode);
	length = put(s, q, SCSI_ASK_ANSWER_BYTES);
	return scsi_answer_has_opcode(q->answer, length);
}

static enum weft_reason ask_ready(struct weft_iscsi_session *s, struct question *q)
{
	scsi_ask_ready(q->ask.cdb);
	(void)put(s, q, 0);
	if (is_no_lun(q))
		return no_lun(s);
	return q->ended.reason == WEFT_OK ? WEFT_OK : refuse(s, q, "the unit is not ready");
}

static enum weft_reason ask_capacity(struct weft_iscsi_session *s, struct question *q)
{
	struct weft_iscsi_info *u = &s->unit;
	struct scsi_capacity c;
	size_t length;

	scsi_ask_capacity_16(q->ask.cdb);
	length = put(s, q, 32);
	if (length == 0 || !scsi_answer_capacity_16(&c, q->answer, length)) {
		scsi_ask_capacity_10(q->ask.cdb);
		length = put(s, q, 8);
		if (q->ended.reason != WEFT_OK)
			return refuse(s, q, "READ CAPACITY");
		if (!scsi_answer_capacity_10(&c, q->answer, length)) {
			session_why(s, "the unit says a size that cannot be");
			return WEFT_R_ISCSI_UNSUPPORTED;
		}
	}
	u->size_bytes = c.blocks * c.block_bytes;
	u->block_bytes = c.block_bytes;
	u->physical_block_bytes = c.physical_block_bytes;
	u->is_thin = c.is_thin;
	return WEFT_OK;
}

static void ask_caching(struct weft_iscsi_session *s, struct question *q)
{
	struct weft_iscsi_info *u = &s->unit;
	struct scsi_caching c = { 0 };
	size_t length;

	scsi_ask_caching(q->ask.cdb);
	length = put(s, q, 255);
	/* A unit that does not tell may have a cache. */
	u->has_write_cache = true;
	if (!scsi_answer_caching(&c, q->answer, length))
		return;
	u->is_readonly = c.is_readonly;
	u->can_fua = c.can_fua;
	u->has_write_cache = c.has_write_cache || !c.has_page;
}

static void set_limits(struct weft_iscsi_session *s)
{
	struct weft_iscsi_info *u = &s->unit;
	uint64_t most = s->port->bytes_max;

	if (s->limits.transfer_max > 0)
		most = least(most, (uint64_t)s->limits.transfer_max * u->block_bytes);
	u->transfer_bytes_max = most - most % u->block_bytes;
	u->transfer_bytes_preferred = least((uint64_t)s->limits.transfer_preferred * u->block_bytes,
					    most);
}

static bool has_blocks(uint8_t type)
{
	return type == TYPE_DISK || type == TYPE_WRITE_ONCE || type == TYPE_CD ||
	       type == TYPE_OPTICAL || type == TYPE_ZONED;
}

enum weft_reason session_unit_open(struct weft_iscsi_session *s, bool is_skipped)
{
	struct question q = { 0 };
	struct weft_iscsi_info *u = &s->unit;
	enum weft_reason r;

	u->lun = s->url.lun;
	u->transfer_bytes_max = s->port->bytes_max;
	if (is_skipped)
		return WEFT_OK;
	r = ask_identity(s, &q);
	if (r != WEFT_OK || !has_blocks(u->device_type))
		return r;
	r = ask_ready(s, &q);
	if (r == WEFT_OK)
		r = ask_capacity(s, &q);
	if (r != WEFT_OK)
		return r;
	if (u->device_type == TYPE_CD) {
		u->is_readonly = true;
	} else {
		ask_pages(s, &q);
		ask_caching(s, &q);
		u->can_unmap = u->can_unmap && !u->is_readonly && has_opcode(s, &q, OP_UNMAP);
		u->can_write_zeroes = !u->is_readonly && has_opcode(s, &q, OP_WRITE_SAME_16);
	}
	set_limits(s);
	return s->has_ended ? s->reason : WEFT_OK;
}
