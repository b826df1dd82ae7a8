/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The login phase of one connection at either end (RFC 7143 sections 6.3 and 7): stages, names,
 * authentication and keys. The PDUs come and go as their fields and text; the codec is not here.
 * Both ends take turns:
 *
 *	for (;;) {
 *		if (iscsi_login_say(l, &pdu))
 *			send pdu;
 *		if ((event = iscsi_login_event(l)) != ISCSI_LOGIN_NONE)
 *			ISCSI_LOGIN_DECIDE: a target answers it by iscsi_login_decide()
 *			others are final: the login is over
 *		iscsi_login_take(l, the received pdu, now_ns)
 *	}
 *
 * A target that refuses says so in one more PDU; the final event comes after that. At the end of
 * every login, whatever came of it, iscsi_login_fini() wipes the secrets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/span.h"
#include "iscsi/login/chap.h"
#include "iscsi/login/negotiate.h"

enum { ISCSI_ISID_BYTES = 6, ISCSI_ADDRESS_MAX = 255, ISCSI_EXCHANGES_MAX = 64 };

/* Status class and detail of a Login response (RFC 7143 section 11.13.5). */
enum iscsi_login_status {
	ISCSI_STATUS_SUCCESS = 0x0000,
	ISCSI_STATUS_MOVED_TEMPORARILY = 0x0101,
	ISCSI_STATUS_MOVED_PERMANENTLY = 0x0102,
	ISCSI_STATUS_INITIATOR_ERROR = 0x0200,
	ISCSI_STATUS_AUTHENTICATION = 0x0201,
	ISCSI_STATUS_AUTHORIZATION = 0x0202,
	ISCSI_STATUS_NOT_FOUND = 0x0203,
	ISCSI_STATUS_REMOVED = 0x0204,
	ISCSI_STATUS_VERSION = 0x0205,
	ISCSI_STATUS_TOO_MANY_CONNECTIONS = 0x0206,
	ISCSI_STATUS_MISSING_PARAMETER = 0x0207,
	ISCSI_STATUS_CANNOT_INCLUDE = 0x0208,
	ISCSI_STATUS_SESSION_TYPE = 0x0209,
	ISCSI_STATUS_NO_SESSION = 0x020a,
	ISCSI_STATUS_INVALID_DURING_LOGIN = 0x020b,
	ISCSI_STATUS_TARGET_ERROR = 0x0300,
	ISCSI_STATUS_UNAVAILABLE = 0x0301,
	ISCSI_STATUS_OUT_OF_RESOURCES = 0x0302,
};

/* A Login request or response, without what every PDU has. */
struct iscsi_login_pdu {
	bool is_transit, is_continued; /* T, C */
	uint8_t stage, next_stage;     /* CSG, NSG */
	uint8_t version_max, version;  /* the second: VersionMin, or VersionActive */
	uint8_t isid[ISCSI_ISID_BYTES];
	uint16_t tsih;
	uint16_t cid; /* request */
	uint32_t itt;
	uint32_t cmd_sn, exp_stat_sn;		  /* request */
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn; /* response */
	uint16_t status;			  /* response: class << 8 | detail */
	const uint8_t *text;			  /* of one to be sent: until the next call */
	uint32_t length;
};

struct iscsi_login_limits {
	struct span in, out;	  /* memory for a text each; ISCSI_TEXT_MIN bytes or more */
	uint32_t piece_bytes_max; /* of text in a PDU to the peer: 8192, what all must take */
	uint32_t exchanges_max;	  /* 0: ISCSI_EXCHANGES_MAX */
	uint64_t timeout_ns;	  /* of the whole login */
	uint8_t random[CHAP_RANDOM_BYTES]; /* fresh, see chap.h */
};

/* What an initiator asks for. Words are borrowed until the end of the login. */
struct iscsi_login_request {
	struct word initiator_name, initiator_alias;
	struct word target_name; /* not in a discovery session */
	uint8_t isid[ISCSI_ISID_BYTES];
	uint16_t tsih; /* of the session that the connection joins; 0: a new one */
	uint16_t cid;
	uint32_t itt, cmd_sn;
	int32_t portal_group_tag;	/* that the target must have; negative: any */
	const struct chap_config *chap; /* borrowed; NULL: no authentication */
	bool allows_none;		/* with chap: the target may do without */
	struct iscsi_negotiation_config keys;
};

/* What a target must decide on. */
struct iscsi_login_query {
	struct iscsi_name initiator_name, target_name; /* of length 0 in a discovery session */
	bool is_discovery;
	uint8_t isid[ISCSI_ISID_BYTES];
	uint16_t tsih, cid;
};

/* What it decides. */
struct iscsi_login_decision {
	uint16_t status;     /* 0: the login goes on; else it ends with this */
	struct word address; /* with ISCSI_STATUS_MOVED_...: where to */
	uint16_t tsih;	     /* of the session that this is, or will be, a connection of; not 0 */
	uint16_t portal_group_tag;
	uint32_t exp_cmd_sn, max_cmd_sn; /* of that session, if the connection joins it */
	struct word target_alias;	 /* borrowed */
	const struct chap_config *chap;	 /* borrowed; NULL: no authentication */
	bool allows_none;		 /* with chap: the initiator may do without */
	struct iscsi_negotiation_config keys;
};

enum iscsi_login_event {
	ISCSI_LOGIN_NONE = 0,
	ISCSI_LOGIN_DECIDE,	 /* target: see iscsi_login_query() */
	ISCSI_LOGIN_ESTABLISHED, /* final: the full feature phase begins */
	ISCSI_LOGIN_MOVED,	 /* final: the target redirected to iscsi_login_address() */
	ISCSI_LOGIN_FAILED,	 /* final: for iscsi_login_reason() */
};

enum iscsi_login_state {
	ISCSI_LOGIN_STATE_SENDING,  /* a PDU of this end is due */
	ISCSI_LOGIN_STATE_WAITING,  /* for a PDU of the peer */
	ISCSI_LOGIN_STATE_DECIDING, /* target: its owner decides */
	ISCSI_LOGIN_STATE_REFUSING, /* target: the refusal is due */
	ISCSI_LOGIN_STATE_ESTABLISHED,
	ISCSI_LOGIN_STATE_MOVED,
	ISCSI_LOGIN_STATE_FAILED,
	ISCSI_LOGIN_STATE_COUNT
};

/* Progress of the security stage. */
enum iscsi_auth { ISCSI_AUTH_OPEN, ISCSI_AUTH_CHAP, ISCSI_AUTH_DONE };

/* The caller's memory; the fields belong to this module. */
struct iscsi_login {
	struct iscsi_login_limits limits;
	struct iscsi_login_request request;   /* initiator */
	struct iscsi_login_decision decision; /* target */
	struct iscsi_login_query peer;	      /* target: names and ids of the initiator */
	enum iscsi_login_state state;
	enum iscsi_login_event event; /* not pulled yet */
	enum weft_reason reason;
	uint64_t deadline_ns;
	uint32_t exchanges;
	bool is_target, has_begun;
	/* The text being received, and that being sent. */
	struct iscsi_text_in in;
	size_t out_bytes, out_sent;
	bool is_transit,
		asks_transit; /* T of the text being sent; of the initiator's last request */
	uint8_t stage, next_stage;
	uint16_t status;
	uint16_t tsih;
	uint32_t itt, cmd_sn, stat_sn, exp_cmd_sn, max_cmd_sn;
	enum iscsi_auth auth;
	struct chap chap;
	struct iscsi_negotiation keys;
	uint8_t address_bytes;
	char address[ISCSI_ADDRESS_MAX];
};

/*
 * Begins an initiator's login. WEFT_R_ISCSI_NAME: a name is none. WEFT_R_ISCSI_CHAP_SECRET,
 * WEFT_R_ISCSI_CHAP_SAME_SECRET: as chap_init().
 */
enum weft_reason iscsi_login_init_initiator(struct iscsi_login *l,
					    const struct iscsi_login_limits *limits,
					    const struct iscsi_login_request *request,
					    uint64_t now_ns);

/* Begins a target's login, on a new connection. */
void iscsi_login_init_target(struct iscsi_login *l, const struct iscsi_login_limits *limits,
			     uint64_t now_ns);

/* Wipes the secrets. */
void iscsi_login_fini(struct iscsi_login *l);

/* The next PDU to send. False: none is due. */
bool iscsi_login_say(struct iscsi_login *l, struct iscsi_login_pdu *pdu);

/* A Login request or response has come. No effect once the login is over. */
void iscsi_login_take(struct iscsi_login *l, const struct iscsi_login_pdu *pdu);

/* Another PDU than a Login has come. */
void iscsi_login_take_other(struct iscsi_login *l);

/* The peer closed, or the connection was lost. */
void iscsi_login_eof(struct iscsi_login *l);

/* The deadline; UINT64_MAX: the login is over. */
uint64_t iscsi_login_due(const struct iscsi_login *l);
void iscsi_login_expire(struct iscsi_login *l, uint64_t now_ns);

/* Takes the next event. */
enum iscsi_login_event iscsi_login_event(struct iscsi_login *l);

/* Target, on ISCSI_LOGIN_DECIDE. */
const struct iscsi_login_query *iscsi_login_query(const struct iscsi_login *l);
void iscsi_login_decide(struct iscsi_login *l, const struct iscsi_login_decision *decision);

/* What the target knows of a session with the query's initiator name, target and ISID. */
struct iscsi_login_known {
	bool has_session;
	uint16_t tsih;
	bool has_cid; /* a connection with the query's CID */
	uint32_t connections, connections_max;
};

enum iscsi_login_join {
	ISCSI_JOIN_NEW_SESSION,
	ISCSI_JOIN_REINSTATED_SESSION, /* the old one ends (RFC 7143 section 6.3.5) */
	ISCSI_JOIN_NEW_CONNECTION,
	ISCSI_JOIN_REINSTATED_CONNECTION, /* the old one ends (RFC 7143 section 6.3.4) */
	ISCSI_JOIN_REFUSED,		  /* with *status */
};

/* RFC 7143 section 6.3.1: what a login means for the sessions that there are. */
enum iscsi_login_join iscsi_login_join(const struct iscsi_login_query *q,
				       const struct iscsi_login_known *known, uint16_t *status);

/* ---- Queries -------------------------------------------------------------------------------- */

/* Of a login that failed; WEFT_OK before. */
enum weft_reason iscsi_login_reason(const struct iscsi_login *l);

/* The status that was sent, or received. */
uint16_t iscsi_login_status(const struct iscsi_login *l);

/* After ISCSI_LOGIN_MOVED: the value of TargetAddress. */
struct word iscsi_login_address(const struct iscsi_login *l);

/* After ISCSI_LOGIN_ESTABLISHED. */
const struct iscsi_params *iscsi_login_params(const struct iscsi_login *l);
uint16_t iscsi_login_tsih(const struct iscsi_login *l);

/* After ISCSI_LOGIN_ESTABLISHED: for negotiations in the full feature phase. */
struct iscsi_negotiation *iscsi_login_keys(struct iscsi_login *l);
