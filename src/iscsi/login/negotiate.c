/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/login/negotiate.h"

#include <string.h>

#include "base/check.h"

enum { LAST_PASS = ISCSI_RDMA_EXTENSIONS + 1 };

static uint64_t bit_of(const struct iscsi_key_row *row)
{
	return UINT64_C(1) << (row - iscsi_key_row(0));
}

void iscsi_negotiation_init(struct iscsi_negotiation *n,
			    const struct iscsi_negotiation_config *config)
{
	*n = (struct iscsi_negotiation){ .config = *config, .is_discovery = config->is_discovery };
	iscsi_params_init(&n->params);
	if (!config->is_leading)
		n->params.session = config->session;
}

void iscsi_negotiation_begin(struct iscsi_negotiation *n, enum iscsi_stage stage)
{
	n->stage = stage;
	if (stage == ISCSI_STAGE_FULL_FEATURE)
		n->seen = n->said = n->answered = n->required = 0;
}

static uint32_t wish_of(const struct iscsi_negotiation *n, const struct iscsi_key_row *row)
{
	return iscsi_params_get(&n->config.wish, row, row->ours);
}

/* RDMAExtensions=Yes is agreed upon, or offered and not answered. */
static bool has_rdma(const struct iscsi_negotiation *n)
{
	uint64_t bit = bit_of(iscsi_key_row(ISCSI_RDMA_EXTENSIONS));

	return n->params.session.has_rdma || (n->said & ~n->answered & bit);
}

static bool is_relevant(const struct iscsi_negotiation *n, const struct iscsi_key_row *row)
{
	if (row->rules & ISCSI_NORMAL && n->is_discovery)
		return false;
	return !(row->rules & ISCSI_RDMA) || has_rdma(n);
}

/* Declarations have no answer, and need none. */
static bool is_answered(const struct iscsi_key_row *row)
{
	return row->result != ISCSI_RESULT_DECLARED && row->result != ISCSI_RESULT_LOGIN;
}

static void say_refused(const struct iscsi_key_row *row, struct wr *w, const char *how)
{
	if (is_answered(row))
		iscsi_text_put(w, row->name, iscsi_word(how));
}

/* Values that only an answer has (RFC 7143 section 6.2). */
static bool is_refusal(struct word value)
{
	return word_is(value, "Reject") || word_is(value, "Irrelevant") ||
	       word_is(value, "NotUnderstood");
}

/* ---- Answers of the peer -------------------------------------------------------------------- */

/* Whether the result function lets an answer follow the offer. */
static bool is_admissible(enum iscsi_result result, uint32_t offer, uint32_t answer)
{
	switch (result) {
	case ISCSI_RESULT_AND:
	case ISCSI_RESULT_MIN:
		return answer <= offer;
	case ISCSI_RESULT_OR:
	case ISCSI_RESULT_MAX:
		return answer >= offer;
	default:
		return false;
	}
}

static enum weft_reason take_answer(struct iscsi_negotiation *n, const struct iscsi_key_row *row,
				    struct word value)
{
	uint32_t wish = wish_of(n, row), answer;

	if (n->answered & bit_of(row))
		return WEFT_R_ISCSI_KEY_AGAIN;
	n->answered |= bit_of(row);
	/* The parameter stays at its default. */
	if (is_refusal(value))
		return WEFT_OK;
	if (row->kind == ISCSI_KIND_LIST) {
		/* One of the offer, and not a list. */
		answer = iscsi_key_choose(row, wish, value);
		if (answer == 0 || !word_is(value, row->choices[answer - 1]))
			return WEFT_R_ISCSI_ANSWER;
	} else if (!iscsi_key_parse(row, value, &answer) ||
		   !is_admissible(row->result, wish, answer)) {
		return WEFT_R_ISCSI_ANSWER;
	}
	iscsi_params_set(&n->params, row, row->ours, answer);
	return WEFT_OK;
}

/* ---- Offers and declarations of the peer ---------------------------------------------------- */

static uint32_t result_of(enum iscsi_result result, uint32_t a, uint32_t b)
{
	bool is_least = result == ISCSI_RESULT_AND || result == ISCSI_RESULT_MIN;

	return (a < b) == is_least ? a : b;
}

/* What this end would have of a key, given what is agreed upon already. */
static uint32_t limit_of(const struct iscsi_negotiation *n, const struct iscsi_key_row *row)
{
	const struct iscsi_connection_params *c = &n->params.connection;
	uint32_t wish = wish_of(n, row);

	/* RFC 7145 section 6.1: no digest under iSER, and no iSER over digests. */
	if (row->rules & ISCSI_NO_RDMA && n->params.session.has_rdma)
		return ISCSI_DIGEST_NONE;
	if (row == iscsi_key_row(ISCSI_RDMA_EXTENSIONS) &&
	    (c->header_digest != ISCSI_DIGEST_NONE || c->data_digest != ISCSI_DIGEST_NONE))
		return false;
	return wish;
}

static void answer_offer(struct iscsi_negotiation *n, const struct iscsi_key_row *row,
			 struct word value, struct wr *w)
{
	uint32_t limit, offer;

	if (row->result == ISCSI_RESULT_OBSOLETE) {
		say_refused(row, w, "Reject");
		return;
	}
	limit = limit_of(n, row);
	if (row->kind == ISCSI_KIND_LIST) {
		offer = iscsi_key_choose(row, limit, value);
		if (offer == 0) {
			say_refused(row, w, "Reject");
			return;
		}
	} else if (!iscsi_key_parse(row, value, &offer)) {
		say_refused(row, w, "Reject");
		return;
	} else {
		offer = result_of(row->result, offer, limit);
	}
	iscsi_params_set(&n->params, row, row->ours, offer);
	iscsi_key_put(row, w, offer);
}

static enum weft_reason take_declaration(struct iscsi_negotiation *n,
					 const struct iscsi_key_row *row, struct word value)
{
	uint32_t number;

	if (!iscsi_key_is_sound(row, value))
		return row->kind == ISCSI_KIND_NAME ? WEFT_R_ISCSI_NAME : WEFT_R_ISCSI_VALUE;
	if (row == iscsi_key_row(ISCSI_SESSION_TYPE))
		n->is_discovery = word_is(value, "Discovery");
	/* RFC 7145 section 6.2: MaxRecvDataSegmentLength is ignored under iSER. */
	if (!iscsi_key_has_value(row) || (row->rules & ISCSI_NO_RDMA && has_rdma(n)))
		return WEFT_OK;
	CHECK(iscsi_key_parse(row, value, &number));
	iscsi_params_set(&n->params, row, row->theirs, number);
	return WEFT_OK;
}

static enum weft_reason take_offer(struct iscsi_negotiation *n, const struct iscsi_key_row *row,
				   struct word value, struct wr *w)
{
	uint8_t sender = n->config.is_target ? ISCSI_BY_INITIATOR : ISCSI_BY_TARGET;
	bool is_here = row->stages >> n->stage & 1;

	if (!(row->senders & sender))
		return WEFT_R_ISCSI_KEY_SENDER;
	/* In the full feature phase what was agreed upon stays; the rest of the text counts. */
	if (!is_here && (n->stage != ISCSI_STAGE_FULL_FEATURE || !is_answered(row)))
		return WEFT_R_ISCSI_KEY_STAGE;
	if (n->seen & bit_of(row) && !(row->rules & ISCSI_REPEATS))
		return WEFT_R_ISCSI_KEY_AGAIN;
	n->seen |= bit_of(row);
	if (!is_here || (row->rules & ISCSI_LEADING && !n->config.is_leading)) {
		say_refused(row, w, "Reject");
		return WEFT_OK;
	}
	if (!is_relevant(n, row)) {
		say_refused(row, w, "Irrelevant");
		return WEFT_OK;
	}
	if (!is_answered(row))
		return take_declaration(n, row, value);
	answer_offer(n, row, value, w);
	return WEFT_OK;
}

static enum weft_reason take_pair(struct iscsi_negotiation *n, const struct iscsi_pair *pair,
				  int pass, struct wr *w)
{
	enum iscsi_key key = iscsi_key_find(pair->key);
	const struct iscsi_key_row *row;
	char name[ISCSI_KEY_MAX + 1] = "";

	if (key == ISCSI_KEY_COUNT) {
		/* RFC 7143 section 6.2. This end offers no such key, so no refusal answers one. */
		if (pass != LAST_PASS || is_refusal(pair->value))
			return WEFT_OK;
		memcpy(name, pair->key.at, pair->key.length);
		iscsi_text_put(w, name, iscsi_word("NotUnderstood"));
		return WEFT_OK;
	}
	row = iscsi_key_row(key);
	/* The order of the table, as far as others depend on a key. */
	if (pass != ((int)key < LAST_PASS ? (int)key : LAST_PASS))
		return WEFT_OK;
	/* A declaration of both ends is no answer, unless it says so. */
	if (n->said & bit_of(row) && (is_answered(row) || is_refusal(pair->value)))
		return take_answer(n, row, pair->value);
	return take_offer(n, row, pair->value, w);
}

enum weft_reason iscsi_negotiation_take(struct iscsi_negotiation *n, const uint8_t *text,
					size_t length, struct wr *answers)
{
	/* Others depend on SessionType and RDMAExtensions, wherever in the text they stand. */
	for (int pass = 0; pass <= LAST_PASS; pass++) {
		struct rd r = rd_of(text, length);
		struct iscsi_pair pair;

		while (r.at < r.end) {
			enum weft_reason reason = iscsi_text_next(&r, &pair);

			if (reason == WEFT_OK)
				reason = take_pair(n, &pair, pass, answers);
			if (reason != WEFT_OK)
				return reason;
		}
	}
	/* The answers to a text of the largest size may be longer than it. */
	return answers->is_short ? WEFT_R_ISCSI_TEXT_LONG : WEFT_OK;
}

/* ---- Offers of this end --------------------------------------------------------------------- */

/* RFC 7143 section 6.2.2: an offer that settles a boolean by itself needs no answer. */
static bool needs_answer(const struct iscsi_key_row *row, uint32_t offer)
{
	if (row->result == ISCSI_RESULT_AND)
		return offer;
	if (row->result == ISCSI_RESULT_OR)
		return !offer;
	return is_answered(row);
}

/* Whether the wish is worth an offer. */
static bool is_wanted(const struct iscsi_negotiation *n, const struct iscsi_key_row *row)
{
	uint32_t wish = wish_of(n, row);

	if (wish == row->initial)
		return false;
	if (!n->config.is_target || !is_answered(row))
		return true;
	/* The default is what comes out without an offer. */
	if (row->kind == ISCSI_KIND_LIST)
		return !iscsi_list_has(wish, row->initial);
	return result_of(row->result, wish, row->initial) != row->initial;
}

static bool is_due(const struct iscsi_negotiation *n, const struct iscsi_key_row *row)
{
	uint8_t self = n->config.is_target ? ISCSI_BY_TARGET : ISCSI_BY_INITIATOR;

	if (!iscsi_key_has_value(row) || !(row->senders & self) || !(row->stages >> n->stage & 1))
		return false;
	/* Operational keys wait for their stage, those of all stages too. */
	if (n->stage != ISCSI_STAGE_OPERATIONAL || n->said & bit_of(row))
		return false;
	if (is_answered(row) && n->seen & bit_of(row))
		return false;
	if (row->rules & ISCSI_LEADING && !n->config.is_leading)
		return false;
	if (!is_relevant(n, row) || (row->rules & ISCSI_NO_RDMA && has_rdma(n)))
		return false;
	return is_wanted(n, row);
}

void iscsi_negotiation_offer(struct iscsi_negotiation *n, struct wr *w)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		const struct iscsi_key_row *row = iscsi_key_row((enum iscsi_key)key);
		uint32_t wish;

		if (!is_due(n, row))
			continue;
		wish = wish_of(n, row);
		iscsi_key_put(row, w, wish);
		n->said |= bit_of(row);
		if (!is_answered(row) || !needs_answer(row, wish))
			iscsi_params_set(&n->params, row, row->ours, wish);
		if (needs_answer(row, wish))
			n->required |= bit_of(row);
	}
}

bool iscsi_negotiation_is_settled(const struct iscsi_negotiation *n)
{
	return (n->required & ~n->answered) == 0;
}

enum weft_reason iscsi_negotiation_finish(struct iscsi_negotiation *n)
{
	const struct iscsi_connection_params *wish = &n->config.wish.connection;
	struct iscsi_session_params *s = &n->params.session;
	struct iscsi_connection_params *c = &n->params.connection;

	if (!iscsi_negotiation_is_settled(n))
		return WEFT_R_ISCSI_NO_ANSWER;
	if (n->config.needs_rdma && !s->has_rdma && !n->is_discovery)
		return WEFT_R_ISCSI_UNACCEPTABLE;
	if (!s->has_rdma && (!iscsi_list_has(wish->header_digest, c->header_digest) ||
			     !iscsi_list_has(wish->data_digest, c->data_digest)))
		return WEFT_R_ISCSI_UNACCEPTABLE;
	/* RFC 7143 section 13.14. */
	if (s->first_burst_bytes_max > s->burst_bytes_max)
		s->first_burst_bytes_max = s->burst_bytes_max;
	/* RFC 7145 section 6.2. */
	if (s->has_rdma) {
		bool is_target = n->config.is_target;

		c->recv_bytes_max = is_target ? c->target_recv_bytes_max
					      : c->initiator_recv_bytes_max;
		c->send_bytes_max = is_target ? c->initiator_recv_bytes_max
					      : c->target_recv_bytes_max;
	}
	return WEFT_OK;
}
