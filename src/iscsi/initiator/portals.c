/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer to SendTargets, and addresses of portals. */
#include "iscsi/initiator/initiator.h"

void iscsi_portals_init(struct iscsi_portals *p, const struct iscsi_request *text)
{
	*p = (struct iscsi_portals){ .rest = rd_of(text->text.bytes, text->text_bytes) };
}

/* The target whose portals came before, if it had none. */
static bool take_lone(struct iscsi_portals *p, struct iscsi_portal *portal)
{
	bool is_lone = p->target.length > 0 && !p->has_address;

	*portal = (struct iscsi_portal){ .target = p->target };
	p->has_address = true;
	return is_lone;
}

bool iscsi_portals_next(struct iscsi_portals *p, struct iscsi_portal *portal)
{
	struct iscsi_pair pair;
	struct iscsi_name name;
	bool is_lone;

	/* Bounded by the text. */
	while (p->reason == WEFT_OK && p->rest.at != p->rest.end) {
		p->reason = iscsi_text_next(&p->rest, &pair);
		if (p->reason != WEFT_OK)
			return false;
		if (word_is(pair.key, "TargetName")) {
			p->reason = iscsi_name_normalise(pair.value, &name);
			is_lone = take_lone(p, portal);
			p->target = pair.value;
			p->has_address = false;
			if (is_lone)
				return true;
		} else if (word_is(pair.key, "TargetAddress") && p->target.length > 0) {
			p->has_address = true;
			*portal = (struct iscsi_portal){ p->target, pair.value };
			return true;
		} else if (word_is(pair.key, "TargetAddress")) {
			p->reason = WEFT_R_ISCSI_TEXT; /* of no target */
		}
	}
	return p->reason == WEFT_OK && take_lone(p, portal);
}

/* A number up to max. */
static bool take_part(struct word *w, uint64_t max, uint64_t *number)
{
	return word_take_number(w, number) && *number <= max;
}

static struct word word_from(struct word w, uint32_t at)
{
	return (struct word){ w.at + at, w.length - at };
}

/* The host: all before the port or the tag. False: a bracket without the other, or none. */
static bool take_host(struct word *w, struct word *host)
{
	bool has_brackets = w->length > 0 && w->at[0] == '[';
	uint32_t end = 0;

	while (end < w->length &&
	       (has_brackets ? w->at[end] != ']' : w->at[end] != ':' && w->at[end] != ','))
		end++;
	if (has_brackets && end == w->length)
		return false;
	*host = has_brackets ? (struct word){ w->at + 1, end - 1 } : (struct word){ w->at, end };
	*w = word_from(*w, end + has_brackets);
	return host->length > 0;
}

enum weft_reason iscsi_address_parse(struct word address, struct iscsi_address *a)
{
	struct iscsi_address v = { .port = ISCSI_TCP_PORT, .portal_group_tag = -1 };
	struct word rest = address;
	uint64_t number;

	if (!take_host(&rest, &v.host))
		return WEFT_R_ISCSI_VALUE;
	if (rest.length > 0 && rest.at[0] == ':') {
		rest = word_from(rest, 1);
		if (!take_part(&rest, UINT16_MAX, &number) || number == 0)
			return WEFT_R_ISCSI_VALUE;
		v.port = (uint16_t)number;
	}
	if (rest.length > 0 && rest.at[0] == ',') {
		rest = word_from(rest, 1);
		if (!take_part(&rest, UINT16_MAX, &number))
			return WEFT_R_ISCSI_VALUE;
		v.portal_group_tag = (int32_t)number;
	}
	if (rest.length > 0)
		return WEFT_R_ISCSI_VALUE;
	*a = v;
	return WEFT_OK;
}
