/* SPDX-License-Identifier: BSD-2-Clause */
/* Text negotiations in the full feature phase (RFC 7143 section 7.1.3): SendTargets, and keys. */
#include <string.h>

#include "base/check.h"
#include "iscsi/target/target_inside.h"

enum { TEXT_TTT = 1 }; /* there is one negotiation at a time */

/* ---- SendTargets ---------------------------------------------------------------------------- */

/* One target with its addresses, if this initiator may know of it. False: there is no room. */
static bool tell(struct iscsi_connection *c, uint16_t target, struct wr *w)
{
	const struct target_entry *t = &c->node->targets[target];
	const struct iscsi_node_config *config = &c->node->config;
	struct iscsi_peer peer = target_peer(c);
	struct wr before = *w;

	iscsi_text_put(w, "TargetName", (struct word){ t->name.text, t->name.length });
	if (!config->calls->tell(config->owner, &peer, target, w))
		*w = before;
	return !w->is_short;
}

/* Appendix C: All in a discovery session; a name; or nothing, which means the session's target. */
static enum weft_reason send_targets(struct iscsi_connection *c, struct word value, struct wr *w)
{
	const struct target_session *s = c->session;
	bool is_all = word_is(value, "All"), is_own = value.length == 0;
	struct iscsi_name name = { .length = 0 };

	if (is_all && !s->is_discovery)
		return WEFT_R_ISCSI_VALUE;
	if (is_own && s->is_discovery)
		return WEFT_R_ISCSI_VALUE;
	if (!is_all && !is_own && iscsi_name_normalise(value, &name) != WEFT_OK)
		return WEFT_R_ISCSI_NAME;
	for (uint16_t i = 0; i < c->node->target_count; i++) {
		const struct iscsi_name *n = &c->node->targets[i].name;
		bool is_named = n->length == name.length &&
				memcmp(n->text, name.text, name.length) == 0;

		/* In a normal session only its own target is told of. */
		if (!s->is_discovery && i != s->target)
			continue;
		if ((is_all || is_own || is_named) && !tell(c, i, w))
			return WEFT_R_ISCSI_TEXT_LONG;
	}
	return WEFT_OK;
}

/* ---- Exchanges ------------------------------------------------------------------------------ */

static void begin(struct iscsi_connection *c, const struct iscsi_pdu *p)
{
	struct target_text *x = c->text;
	struct iscsi_negotiation_config config = { .is_target = true,
						   .is_leading = true,
						   .is_discovery = c->session->is_discovery,
						   .wish = c->params,
						   .session = c->params.session };

	/* Names of lists: what holds is all that is wanted. */
	iscsi_negotiation_init(&x->keys, &config);
	x->keys.params = c->params;
	x->keys.is_discovery = c->session->is_discovery;
	iscsi_negotiation_begin(&x->keys, ISCSI_STAGE_FULL_FEATURE);
	x->in = (struct iscsi_text_in){ .room = { x->in_bytes, TEXT_IN_BYTES } };
	x->itt = p->itt;
	x->ttt = TEXT_TTT;
	x->exchanges = x->out_bytes = x->out_sent = 0;
}

/* The next piece of the answer, or that the initiator may go on. */
static void answer(struct iscsi_connection *c, bool is_final)
{
	struct target_text *x = c->text;
	uint32_t max = c->params.connection.send_bytes_max, left = x->out_bytes - x->out_sent;
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_RESPONSE, .itt = x->itt };
	const uint8_t *text = x->out + x->out_sent;

	max = max < TEXT_PIECE_BYTES ? max : TEXT_PIECE_BYTES;
	p.data_bytes = left < max ? left : max;
	p.is_continued = p.data_bytes < left;
	p.is_final = is_final && !p.is_continued;
	p.ttt = p.is_final ? ISCSI_TAG_NONE : x->ttt;
	x->out_sent += p.data_bytes;
	target_conn_send(c, &p, text);
	if (!p.is_final)
		return;
	/* Section 13.12: all that may change in this phase, once the negotiation has ended. */
	c->params.connection.send_bytes_max = x->keys.params.connection.send_bytes_max;
	target_text_put(c);
}

/* The initiator's text is whole. */
static enum weft_reason read_text(struct iscsi_connection *c)
{
	struct target_text *x = c->text;
	struct wr w = wr_of(x->out, TEXT_OUT_BYTES);
	const uint8_t *text = x->in.room.bytes;
	struct word value;
	enum weft_reason reason = iscsi_negotiation_take(&x->keys, text, x->in.length, &w);

	if (reason == WEFT_OK && iscsi_text_find(text, x->in.length, "SendTargets", &value))
		reason = send_targets(c, value, &w);
	if (reason != WEFT_OK)
		return reason;
	x->out_bytes = (uint32_t)(w.at - x->out);
	x->out_sent = 0;
	x->in.length = 0;
	return WEFT_OK;
}

/* Section 11.10: whether this request goes on with what was begun; if not, begins anew. */
static enum weft_reason check(struct iscsi_connection *c, const struct iscsi_pdu *p)
{
	struct target_text *x = c->text;

	if (p->ttt == ISCSI_TAG_NONE) {
		begin(c, p);
	} else if (x->exchanges == 0 || p->ttt != x->ttt || p->itt != x->itt) {
		return WEFT_R_ISCSI_TAG;
	}
	if (++x->exchanges > TEXT_EXCHANGES_MAX)
		return WEFT_R_ISCSI_ENDLESS;
	/* While the answer continues, the initiator only asks for more. */
	if (x->out_sent < x->out_bytes && p->data_bytes > 0)
		return WEFT_R_ISCSI_TEXT;
	return iscsi_text_gather(&x->in, x->stage, p->data_bytes);
}

enum iscsi_place target_text_place(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	if (!c->text && c->state == CONN_LOGIN)
		target_login_begin(c);
	else if (!c->text)
		target_text_get(c);
	c->arriving = NULL;
	return a->pdu.data_bytes <= TEXT_IN_BYTES ? ISCSI_PLACE_MEMORY : ISCSI_PLACE_SKIP;
}

void target_text_take(struct iscsi_connection *c, const struct iscsi_arrival *a)
{
	const struct iscsi_pdu *p = &a->pdu;
	enum weft_reason reason = WEFT_OK;

	if (!c->text)
		target_text_get(c);
	if (p->data_bytes > TEXT_IN_BYTES) {
		target_text_put(c);
		target_conn_reject(c, a, ISCSI_REJECT_LONG);
		return;
	}
	reason = check(c, p);
	if (reason == WEFT_OK && !p->is_continued && c->text->out_sent == c->text->out_bytes)
		reason = read_text(c);
	if (reason != WEFT_OK) {
		target_text_put(c);
		target_conn_reject(c, a, ISCSI_REJECT_PROTOCOL);
		return;
	}
	answer(c, p->is_final);
}
