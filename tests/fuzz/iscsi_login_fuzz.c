/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Either end of a login against arbitrary PDUs: it answers each or ends, its own PDUs keep to the
 * rules, it is established only with all that it requires, and it ends after a bounded count.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "iscsi/login/login.h"

enum { ROOM = 8192, PDUS_MAX = 100 };

struct bed {
	struct iscsi_login l;
	struct chap_account peers[1];
	struct chap_config chap;
	struct iscsi_login_decision decision;
	struct iscsi_login_request request;
	uint8_t in[ROOM], out[ROOM];
	bool is_target, needs_auth;
};

static void bed_init(struct bed *b, uint8_t bits)
{
	struct iscsi_login_limits limits = {
		.in = { b->in, sizeof(b->in) },
		.out = { b->out, sizeof(b->out) },
		.piece_bytes_max = bits & 16 ? 50 : ROOM,
		.timeout_ns = 1000,
	};

	b->is_target = bits & 1;
	b->needs_auth = (bits & 6) == 2;
	b->peers[0] = (struct chap_account){ iscsi_word("peer"), iscsi_word("secret of a peer") };
	b->chap = (struct chap_config){ .is_target = b->is_target,
					.self = { iscsi_word("self"),
						  iscsi_word("secret of self!") },
					.peers = b->peers,
					.peer_count = b->is_target || bits & 8 };
	iscsi_params_init(&b->decision.keys.wish);
	b->decision.keys.wish.session.r2t_max = 8;
	b->decision.keys.wish.session.time2retain_s = bits & 32 ? 0 : 20;
	b->decision.tsih = 5;
	b->decision.chap = bits & 2 ? &b->chap : NULL;
	b->decision.allows_none = bits & 4;
	b->request = (struct iscsi_login_request){
		.initiator_name = iscsi_word("iqn.2001-04.com.example:host"),
		.target_name = iscsi_word("iqn.2001-04.com.example:disk"),
		.portal_group_tag = -1,
		.chap = b->decision.chap,
		.allows_none = bits & 4,
		.keys = b->decision.keys,
	};
	if (b->is_target)
		iscsi_login_init_target(&b->l, &limits, 0);
	else
		CHECK(iscsi_login_init_initiator(&b->l, &limits, &b->request, 0) == WEFT_OK);
}

static void check_said(const struct bed *b, const struct iscsi_login_pdu *pdu)
{
	CHECK(pdu->length <= b->l.limits.piece_bytes_max);
	CHECK(!(pdu->is_transit && pdu->is_continued));
	CHECK(pdu->status == 0 || (b->is_target && !pdu->is_transit && !pdu->is_continued));
	CHECK(!pdu->is_transit || pdu->next_stage > pdu->stage);
}

/* All that is said now. True: the login is over. */
static bool speak(struct bed *b)
{
	struct iscsi_login_pdu pdu;
	enum iscsi_login_event event;

	if (b->l.event == ISCSI_LOGIN_DECIDE) {
		(void)iscsi_login_event(&b->l);
		iscsi_login_decide(&b->l, &b->decision);
	}
	if (iscsi_login_say(&b->l, &pdu))
		check_said(b, &pdu);
	CHECK(!iscsi_login_say(&b->l, &pdu));
	event = iscsi_login_event(&b->l);
	CHECK((event == ISCSI_LOGIN_FAILED || event == ISCSI_LOGIN_MOVED) ==
	      (iscsi_login_reason(&b->l) != WEFT_OK));
	/* Without the secret there is no way in. */
	CHECK(event != ISCSI_LOGIN_ESTABLISHED || !b->needs_auth || !b->is_target);
	CHECK(event != ISCSI_LOGIN_ESTABLISHED || iscsi_login_tsih(&b->l) != 0);
	return event != ISCSI_LOGIN_NONE;
}

/* Fields as they must be, but for what the input changes. */
static struct iscsi_login_pdu draw_pdu(const struct bed *b, struct rd *r)
{
	uint8_t bits = rd_u8(r), change = rd_u8(r);
	struct iscsi_login_pdu pdu = {
		.is_transit = bits & 1,
		.is_continued = (bits & 14) == 14,
		.stage = bits >> 4 & 1,
		.next_stage = bits & 32 ? 3 : 1,
		.tsih = b->is_target ? 0 : 5,
	};
	size_t length = rd_u8(r) * (bits & 64 ? 2 : 1);

	if (b->l.exchanges > 0 || !b->is_target)
		pdu.stage = b->l.stage;
	if (!b->is_target)
		pdu.next_stage = b->l.next_stage;
	if (change == 1)
		pdu.stage = bits >> 6;
	if (change == 2)
		pdu.version = bits;
	if (change == 3)
		pdu.cid = bits;
	if (change == 4)
		pdu.status = (uint16_t)(bits << 8);
	if (change == 5)
		pdu.tsih = bits;
	if (length > (size_t)(r->end - r->at))
		length = (size_t)(r->end - r->at);
	pdu.text = r->at;
	pdu.length = (uint32_t)length;
	r->at += length;
	return pdu;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct bed b;
	struct rd r = rd_of(data, size);
	int pdus = 0;

	bed_init(&b, rd_u8(&r));
	while (!speak(&b)) {
		struct iscsi_login_pdu pdu;

		if (r.at >= r.end) {
			iscsi_login_eof(&b.l);
			CHECK(iscsi_login_reason(&b.l) != WEFT_OK);
			break;
		}
		pdu = draw_pdu(&b, &r);
		iscsi_login_take(&b.l, &pdu);
		CHECK(++pdus < PDUS_MAX);
	}
	CHECK(iscsi_login_due(&b.l) == UINT64_MAX);
	iscsi_login_fini(&b.l);
	return 0;
}
