/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends of a login, and texts made by hand. */
#pragma once

#include "iscsi/login/login.h"

enum { LOGIN_ROOM = 8192, LOGIN_TIMEOUT_NS = 1000 };

struct login_end {
	struct iscsi_login l;
	uint8_t in[LOGIN_ROOM], out[LOGIN_ROOM];
	struct iscsi_login_limits limits;
};

/* An initiator and a target with what they want; tests change it before login_begin(). */
struct login_pair {
	struct login_end i, t;
	struct iscsi_login_request request;
	struct iscsi_login_decision decision;
	struct chap_account accounts[1], target_account;
	struct chap_config i_chap, t_chap;
	int pdus; /* that went either way */
};

void login_pair_init(struct login_pair *p);
void login_pair_use_chap(struct login_pair *p, bool is_mutual);

/* Runs both ends until neither has anything to say. */
void login_run(struct login_pair *p);

/* A target that has heard nothing yet. */
void login_target(struct login_pair *p);

/* A first request with pairs that are separated by spaces here. */
struct iscsi_login_pdu login_request(const char *pairs);

/* Gives the target a request, decides if asked to, and takes its response. */
struct iscsi_login_pdu login_ask(struct login_pair *p, struct iscsi_login_pdu request);

/* The text of a PDU, with a space after each pair. */
const char *login_text(const struct iscsi_login_pdu *pdu);

#define LOGIN_NAMES                                                                                \
	"InitiatorName=iqn.2001-04.com.example:host TargetName=iqn.2001-04.com.example:disk "
