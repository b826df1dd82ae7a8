/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keys of RFC 7143 section 13, RFC 7144 and RFC 7145 section 6: one table with a row for each,
 * and the parameters that they set. How two ends come to an outcome: iscsi/login/negotiate.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "iscsi/login/text.h"
#include "wire/iscsi.h"

/*
 * In the order in which they are offered, and the first two taken, as others depend on them:
 * RDMAExtensions comes first of the negotiated keys (RFC 7145 section 6.3).
 */
enum iscsi_key {
	ISCSI_SESSION_TYPE,
	ISCSI_RDMA_EXTENSIONS,
	ISCSI_INITIATOR_NAME,
	ISCSI_TARGET_NAME,
	ISCSI_INITIATOR_ALIAS,
	ISCSI_TARGET_ALIAS,
	ISCSI_TARGET_ADDRESS,
	ISCSI_TARGET_PORTAL_GROUP_TAG,
	ISCSI_SEND_TARGETS,
	ISCSI_AUTH_METHOD,
	ISCSI_CHAP_A,
	ISCSI_CHAP_I,
	ISCSI_CHAP_C,
	ISCSI_CHAP_N,
	ISCSI_CHAP_R,
	ISCSI_HEADER_DIGEST,
	ISCSI_DATA_DIGEST,
	ISCSI_MAX_CONNECTIONS,
	ISCSI_INITIAL_R2T,
	ISCSI_IMMEDIATE_DATA,
	ISCSI_MAX_RECV_DATA_SEGMENT_LENGTH,
	ISCSI_MAX_BURST_LENGTH,
	ISCSI_FIRST_BURST_LENGTH,
	ISCSI_DEFAULT_TIME2WAIT,
	ISCSI_DEFAULT_TIME2RETAIN,
	ISCSI_MAX_OUTSTANDING_R2T,
	ISCSI_DATA_PDU_IN_ORDER,
	ISCSI_DATA_SEQUENCE_IN_ORDER,
	ISCSI_ERROR_RECOVERY_LEVEL,
	ISCSI_TASK_REPORTING,
	ISCSI_PROTOCOL_LEVEL,
	ISCSI_NODE_ARCHITECTURE,
	ISCSI_INITIATOR_RECV_DATA_SEGMENT_LENGTH,
	ISCSI_TARGET_RECV_DATA_SEGMENT_LENGTH,
	ISCSI_MAX_OUTSTANDING_UNEXPECTED_PDUS,
	ISCSI_MAX_AHS_LENGTH,
	ISCSI_TAGGED_BUFFER_FOR_SOLICITED_DATA_ONLY,
	ISCSI_ISER_HELLO_REQUIRED,
	ISCSI_IFMARKER,
	ISCSI_OFMARKER,
	ISCSI_IFMARKINT,
	ISCSI_OFMARKINT,
	ISCSI_KEY_COUNT
};

/* How the outcome comes from what both ends want. */
enum iscsi_result {
	ISCSI_RESULT_AND,
	ISCSI_RESULT_OR,
	ISCSI_RESULT_MIN,
	ISCSI_RESULT_MAX,
	ISCSI_RESULT_CHOICE,   /* the first of the offer's list that the other end takes */
	ISCSI_RESULT_DECLARED, /* one end says it, and there is no answer */
	ISCSI_RESULT_LOGIN,    /* read by the login or the session, see there; no answer here */
	ISCSI_RESULT_OBSOLETE, /* RFC 7143 section 13.25: always answered with Reject */
};

enum iscsi_kind {
	ISCSI_KIND_BOOLEAN,
	ISCSI_KIND_NUMBER,
	ISCSI_KIND_LIST, /* of names in row->choices */
	ISCSI_KIND_NAME,
	ISCSI_KIND_LOCAL_NAME,
	ISCSI_KIND_TEXT,
	ISCSI_KIND_ANY,
};

enum {
	ISCSI_BY_INITIATOR = 1,
	ISCSI_BY_TARGET = 2,
	ISCSI_BY_BOTH = 3,
	/* Stages, 1 << enum iscsi_stage. */
	ISCSI_IN_SECURITY = 1 << ISCSI_STAGE_SECURITY,
	ISCSI_IN_OPERATIONAL = 1 << ISCSI_STAGE_OPERATIONAL,
	ISCSI_IN_FULL_FEATURE = 1 << ISCSI_STAGE_FULL_FEATURE,
	ISCSI_IN_LOGIN = ISCSI_IN_SECURITY | ISCSI_IN_OPERATIONAL,
	ISCSI_IN_ALL = ISCSI_IN_LOGIN | ISCSI_IN_FULL_FEATURE,
	/* Rules. */
	ISCSI_LEADING = 1,  /* on the leading connection only */
	ISCSI_NORMAL = 2,   /* irrelevant in a discovery session */
	ISCSI_RDMA = 4,	    /* irrelevant without RDMAExtensions=Yes */
	ISCSI_NO_RDMA = 8,  /* not used with RDMAExtensions=Yes */
	ISCSI_OR_ZERO = 16, /* 0 is allowed below the range */
	ISCSI_REPEATS = 32, /* may come more than once */
};

enum { ISCSI_CHOICES_MAX = 4 };

struct iscsi_key_row {
	const char *name;
	enum iscsi_kind kind;
	enum iscsi_result result;
	uint8_t senders, stages, rules;
	uint32_t initial, low, high; /* default and range of a number or boolean */
	const char *const *choices;  /* of a list, ended by NULL */
	uint16_t ours, theirs; /* where in struct iscsi_params the value is; equal: one outcome */
};

/* The choices of lists, as values of parameters. */
enum { ISCSI_DIGEST_NONE = 1, ISCSI_DIGEST_CRC32C = 2 };
enum { ISCSI_REPORTING_RFC3720 = 1, ISCSI_REPORTING_FENCE = 2, ISCSI_REPORTING_FAST_ABORT = 3 };

/* A list in order of preference, as a wish: the first in the lowest four bits. */
static inline uint32_t iscsi_list_of(uint32_t first, uint32_t second)
{
	return first | second << 4;
}

/* Of a session; with RDMAExtensions also what RFC 7145 adds. */
struct iscsi_session_params {
	uint32_t connections_max;
	uint32_t burst_bytes_max, first_burst_bytes_max;
	uint32_t time2wait_s, time2retain_s;
	uint32_t r2t_max;
	uint32_t error_recovery_level;
	uint32_t task_reporting; /* ISCSI_REPORTING_... */
	uint32_t protocol_level;
	uint32_t unexpected_max, peer_unexpected_max; /* 0: no limit */
	uint32_t ahs_bytes_max, peer_ahs_bytes_max;   /* 0: no limit */
	bool needs_r2t;				      /* InitialR2T: no unsolicited Data-Out */
	bool has_immediate_data;
	bool has_pdus_in_order, has_sequences_in_order;
	bool has_rdma; /* RDMAExtensions */
	bool has_tagged_solicited_only;
	bool needs_hello;
};

struct iscsi_connection_params {
	uint32_t header_digest, data_digest;	 /* ISCSI_DIGEST_... */
	uint32_t recv_bytes_max, send_bytes_max; /* MaxRecvDataSegmentLength: ours, the peer's */
	uint32_t initiator_recv_bytes_max, target_recv_bytes_max; /* with RDMAExtensions */
};

/*
 * The parameters agreed upon; or what one end wants, where digests and task reporting are lists
 * in order of preference.
 */
struct iscsi_params {
	struct iscsi_session_params session;
	struct iscsi_connection_params connection;
};

/* The defaults of the RFCs. */
void iscsi_params_init(struct iscsi_params *p);

const struct iscsi_key_row *iscsi_key_row(enum iscsi_key key);

/* ISCSI_KEY_COUNT: the key is not in the table. */
enum iscsi_key iscsi_key_find(struct word name);

/* Whether the parameters have a value for the key. */
bool iscsi_key_has_value(const struct iscsi_key_row *row);

/* The value at ours or theirs. */
uint32_t iscsi_params_get(const struct iscsi_params *p, const struct iscsi_key_row *row,
			  uint16_t at);
void iscsi_params_set(struct iscsi_params *p, const struct iscsi_key_row *row, uint16_t at,
		      uint32_t value);

/* A boolean, or a number in the range of the row. False: the value is not of that kind. */
bool iscsi_key_parse(const struct iscsi_key_row *row, struct word value, uint32_t *number);

/* Whether a value without a number in it is of the row's kind. */
bool iscsi_key_is_sound(const struct iscsi_key_row *row, struct word value);

/* The first item of the list that the wish has; 0: none. */
uint32_t iscsi_key_choose(const struct iscsi_key_row *row, uint32_t wish, struct word list);

/* Whether the choice is in the wish. */
bool iscsi_list_has(uint32_t wish, uint32_t choice);

/* Appends the key with a value: of a list as many names as it has. */
void iscsi_key_put(const struct iscsi_key_row *row, struct wr *w, uint32_t value);
