/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/iscsi_dissect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"

void iscsi_dissect_init(struct iscsi_dissect *d, int initiator)
{
	*d = (struct iscsi_dissect){ .initiator = initiator };
}

static size_t left(const struct rd *bytes)
{
	return (size_t)(bytes->end - bytes->at);
}

static void skip_all(struct iscsi_dissect_side *s, struct rd *bytes)
{
	s->skipped_bytes += left(bytes);
	bytes->at = bytes->end;
}

/* ---- Login ---------------------------------------------------------------------------------- */

/* Whether the text, of pairs key=value that end with a NUL, has this one; and names CRC32C. */
static bool text_offers(const uint8_t *text, uint32_t length, const char *key)
{
	size_t key_bytes = strlen(key);

	for (uint32_t at = 0; at < length;) {
		const uint8_t *pair = text + at, *end = memchr(pair, 0, length - at);
		size_t pair_bytes = end ? (size_t)(end - pair) : length - at;

		if (pair_bytes > key_bytes && memcmp(pair, key, key_bytes) == 0)
			return memmem(pair, pair_bytes, "CRC32C", 6);
		at += (uint32_t)pair_bytes + 1;
	}
	return false;
}

static void login_take(struct iscsi_dissect *d, const struct iscsi_item *item, const uint8_t *text)
{
	const struct iscsi_pdu *p = &item->pdu;
	struct iscsi_dissect_side *s = &d->sides[item->from], *other = &d->sides[!item->from];
	bool is_last = p->is_final && p->nsg == ISCSI_STAGE_FULL_FEATURE;

	s->offers_header_digest |= text_offers(text, p->data_bytes, "HeaderDigest=");
	s->offers_data_digest |= text_offers(text, p->data_bytes, "DataDigest=");
	if (p->opcode == ISCSI_LOGIN_REQUEST) {
		s->is_waiting = is_last;
		return;
	}
	other->is_waiting = false;
	if (!is_last || p->status_class != 0)
		return;
	d->has_header_digest = s->offers_header_digest && other->offers_header_digest;
	d->has_data_digest = s->offers_data_digest && other->offers_data_digest;
}

/* ---- PDUs ----------------------------------------------------------------------------------- */

static void fault_say(struct iscsi_item *item, enum weft_reason reason)
{
	if (reason != WEFT_OK && !*item->fault)
		(void)snprintf(item->fault, sizeof(item->fault), "%s", weft_reason_text(reason));
}

/* A whole PDU from its first byte on. */
static void pdu_take(struct iscsi_dissect *d, struct iscsi_item *item, const uint8_t *pdu)
{
	uint32_t header_bytes = iscsi_header_bytes(pdu), data_bytes = iscsi_data_bytes(pdu);
	const uint8_t *data = pdu + header_bytes + (d->has_header_digest ? ISCSI_DIGEST_BYTES : 0);
	uint32_t padded_bytes = data_bytes + iscsi_pad(data_bytes);
	enum iscsi_side sender = item->from == d->initiator ? ISCSI_INITIATOR : ISCSI_TARGET;
	enum weft_reason reason;

	if (d->has_header_digest)
		fault_say(item, iscsi_header_check(pdu, header_bytes, pdu + header_bytes));
	reason = iscsi_decode(&item->pdu, sender, rd_of(pdu, header_bytes), ISCSI_DATA_MAX);
	fault_say(item, reason);
	item->is_decoded = reason == WEFT_OK;
	if (d->has_data_digest && data_bytes > 0)
		fault_say(item, iscsi_data_check(crc32c_add(CRC32C_BEGIN, data, padded_bytes),
						 data + padded_bytes));
	if (item->is_decoded &&
	    (item->pdu.opcode == ISCSI_LOGIN_REQUEST || item->pdu.opcode == ISCSI_LOGIN_RESPONSE))
		login_take(d, item, data);
}

bool iscsi_dissect_next(struct iscsi_dissect *d, int from, struct rd *bytes,
			struct iscsi_item *item)
{
	struct iscsi_dissect_side *s = &d->sides[from];
	uint32_t length;

	*item = (struct iscsi_item){ .from = from };
	if (s->is_lost) {
		skip_all(s, bytes);
		return false;
	}
	if (s->is_waiting || left(bytes) < ISCSI_BHS_BYTES)
		return false;
	/* Lengths of what is no PDU mean nothing. */
	if (strcmp(iscsi_opcode_name(bytes->at[0] & 0x3f), iscsi_opcode_name(UINT8_MAX)) == 0) {
		fault_say(item, WEFT_R_ISCSI_OPCODE);
		s->is_lost = true;
		skip_all(s, bytes);
		return true;
	}
	length = iscsi_pdu_bytes(bytes->at, d->has_header_digest, d->has_data_digest);
	if (left(bytes) < length)
		return false;
	pdu_take(d, item, bytes->at);
	bytes->at += length;
	s->pdus++;
	return true;
}

bool iscsi_dissect_gap(struct iscsi_dissect *d, int from, uint32_t missing, struct iscsi_item *item)
{
	struct iscsi_dissect_side *s = &d->sides[from];

	*item = (struct iscsi_item){ .from = from };
	if (s->is_lost)
		return false;
	s->is_lost = true;
	(void)snprintf(item->fault, sizeof(item->fault),
		       "%" PRIu32 " bytes are missing from the capture", missing);
	return true;
}

bool iscsi_dissect_end(struct iscsi_dissect *d, int from, struct rd *bytes, struct iscsi_item *item)
{
	struct iscsi_dissect_side *s = &d->sides[from];
	bool is_news = !s->is_lost && left(bytes) > 0;

	*item = (struct iscsi_item){ .from = from };
	if (is_news)
		(void)snprintf(item->fault, sizeof(item->fault),
			       "the stream ends inside a PDU, after %zu bytes of it", left(bytes));
	s->is_lost = s->is_lost || is_news;
	skip_all(s, bytes);
	return is_news;
}
