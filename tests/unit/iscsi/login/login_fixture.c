/* SPDX-License-Identifier: BSD-2-Clause */
#include "login_fixture.h"

#include <string.h>

#include "test.h"

static void end_init(struct login_end *e, uint8_t seed)
{
	e->limits = (struct iscsi_login_limits){
		.in = { e->in, sizeof(e->in) },
		.out = { e->out, sizeof(e->out) },
		.piece_bytes_max = LOGIN_ROOM,
		.timeout_ns = LOGIN_TIMEOUT_NS,
	};
	memset(e->limits.random, seed, sizeof(e->limits.random));
}

void login_pair_init(struct login_pair *p)
{
	memset(p, 0, sizeof(*p));
	end_init(&p->i, 1);
	end_init(&p->t, 2);
	p->request = (struct iscsi_login_request){
		.initiator_name = iscsi_word("iqn.2001-04.com.example:host"),
		.target_name = iscsi_word("iqn.2001-04.com.example:disk"),
		.isid = { 0x80, 1, 2, 3, 4, 5 },
		.cid = 1,
		.itt = 77,
		.cmd_sn = 10,
		.portal_group_tag = -1,
	};
	p->decision = (struct iscsi_login_decision){ .tsih = 5, .portal_group_tag = 1 };
	iscsi_params_init(&p->request.keys.wish);
	iscsi_params_init(&p->decision.keys.wish);
}

void login_pair_use_chap(struct login_pair *p, bool is_mutual)
{
	p->accounts[0] = (struct chap_account){ iscsi_word("alice"),
						iscsi_word("secret of twelve") };
	p->target_account = (struct chap_account){ iscsi_word("disk"),
						   iscsi_word("secret of target") };
	p->i_chap = (struct chap_config){ .self = p->accounts[0],
					  .peers = &p->target_account,
					  .peer_count = is_mutual };
	p->t_chap = (struct chap_config){
		.is_target = true, .peers = p->accounts, .peer_count = 1, .self = p->target_account
	};
	p->request.chap = &p->i_chap;
	p->decision.chap = &p->t_chap;
}

/* Moves the PDU that is due from one end to the other. */
static bool deliver(struct login_pair *p, struct iscsi_login *from, struct iscsi_login *to)
{
	struct iscsi_login_pdu pdu;
	uint8_t text[LOGIN_ROOM];

	if (!iscsi_login_say(from, &pdu))
		return false;
	REQUIRE(pdu.length <= from->limits.piece_bytes_max);
	memcpy(text, pdu.text, pdu.length);
	pdu.text = text;
	REQUIRE(++p->pdus < 300);
	iscsi_login_take(to, &pdu);
	if (to->event == ISCSI_LOGIN_DECIDE) {
		(void)iscsi_login_event(to);
		iscsi_login_decide(to, &p->decision);
	}
	return true;
}

void login_run(struct login_pair *p)
{
	p->pdus = 0;
	REQUIRE(iscsi_login_init_initiator(&p->i.l, &p->i.limits, &p->request, 0) == WEFT_OK);
	login_target(p);
	while (deliver(p, &p->i.l, &p->t.l) || deliver(p, &p->t.l, &p->i.l))
		;
}

void login_target(struct login_pair *p)
{
	iscsi_login_init_target(&p->t.l, &p->t.limits, 0);
}

struct iscsi_login_pdu login_request(const char *pairs)
{
	static uint8_t text[LOGIN_ROOM];
	struct iscsi_login_pdu pdu = { .stage = ISCSI_STAGE_OPERATIONAL,
				       .next_stage = ISCSI_STAGE_FULL_FEATURE,
				       .is_transit = true,
				       .isid = { 0x80, 1, 2, 3, 4, 5 },
				       .cid = 1,
				       .itt = 77,
				       .cmd_sn = 10,
				       .text = text,
				       .length = (uint32_t)strlen(pairs) };

	for (uint32_t i = 0; i < pdu.length; i++)
		text[i] = (uint8_t)(pairs[i] == ' ' ? 0 : pairs[i]);
	return pdu;
}

struct iscsi_login_pdu login_ask(struct login_pair *p, struct iscsi_login_pdu request)
{
	struct iscsi_login_pdu pdu = { .status = UINT16_MAX };

	iscsi_login_take(&p->t.l, &request);
	if (iscsi_login_event(&p->t.l) == ISCSI_LOGIN_DECIDE)
		iscsi_login_decide(&p->t.l, &p->decision);
	REQUIRE(iscsi_login_say(&p->t.l, &pdu));
	return pdu;
}

const char *login_text(const struct iscsi_login_pdu *pdu)
{
	static char text[LOGIN_ROOM + 1];

	for (uint32_t i = 0; i < pdu->length; i++)
		text[i] = (char)(pdu->text[i] ? pdu->text[i] : ' ');
	text[pdu->length] = 0;
	return text;
}
