/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the login share: login.c, login_initiator.c and login_target.c. */
#pragma once

#include "iscsi/login/login.h"

/* How an end refuses: the reason, and the status that a target sends for it. */
void login_fail(struct iscsi_login *l, enum weft_reason reason);
void login_fail_status(struct iscsi_login *l, enum weft_reason reason, uint16_t status);

void login_move(struct iscsi_login *l, enum iscsi_login_state to);

/* Begins a text to send; what follows ends it, and then it is due. */
struct wr login_text_begin(struct iscsi_login *l);
void login_text_end(struct iscsi_login *l, const struct wr *w, bool is_transit);

bool login_text_has(const struct iscsi_login *l, const char *key, struct word *value);

/* Each checks a PDU that has come; the reason for which it is refused. */
enum weft_reason login_initiator_check(struct iscsi_login *l, const struct iscsi_login_pdu *pdu);
enum weft_reason login_target_check(struct iscsi_login *l, const struct iscsi_login_pdu *pdu);

/* Each reads a text that is whole and goes on. */
void login_initiator_read(struct iscsi_login *l, const struct iscsi_login_pdu *pdu);
void login_target_read(struct iscsi_login *l);
