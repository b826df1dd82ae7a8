/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/login/keys.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

enum {
	SEGMENT_MIN = 512,
	SEGMENT_MAX = (1 << 24) - 1,
	NO_PLACE = UINT16_MAX,
	LIST_TEXT_MAX = 64,
};

/* Where parameters are. */
enum {
	AT_CONNECTIONS_MAX = offsetof(struct iscsi_params, session.connections_max),
	AT_BURST_BYTES_MAX = offsetof(struct iscsi_params, session.burst_bytes_max),
	AT_FIRST_BURST_BYTES_MAX = offsetof(struct iscsi_params, session.first_burst_bytes_max),
	AT_TIME2WAIT_S = offsetof(struct iscsi_params, session.time2wait_s),
	AT_TIME2RETAIN_S = offsetof(struct iscsi_params, session.time2retain_s),
	AT_R2T_MAX = offsetof(struct iscsi_params, session.r2t_max),
	AT_ERROR_RECOVERY_LEVEL = offsetof(struct iscsi_params, session.error_recovery_level),
	AT_TASK_REPORTING = offsetof(struct iscsi_params, session.task_reporting),
	AT_PROTOCOL_LEVEL = offsetof(struct iscsi_params, session.protocol_level),
	AT_UNEXPECTED_MAX = offsetof(struct iscsi_params, session.unexpected_max),
	AT_PEER_UNEXPECTED_MAX = offsetof(struct iscsi_params, session.peer_unexpected_max),
	AT_AHS_BYTES_MAX = offsetof(struct iscsi_params, session.ahs_bytes_max),
	AT_PEER_AHS_BYTES_MAX = offsetof(struct iscsi_params, session.peer_ahs_bytes_max),
	AT_NEEDS_R2T = offsetof(struct iscsi_params, session.needs_r2t),
	AT_HAS_IMMEDIATE_DATA = offsetof(struct iscsi_params, session.has_immediate_data),
	AT_HAS_PDUS_IN_ORDER = offsetof(struct iscsi_params, session.has_pdus_in_order),
	AT_HAS_SEQUENCES_IN_ORDER = offsetof(struct iscsi_params, session.has_sequences_in_order),
	AT_HAS_RDMA = offsetof(struct iscsi_params, session.has_rdma),
	AT_TAGGED_ONLY = offsetof(struct iscsi_params, session.has_tagged_solicited_only),
	AT_NEEDS_HELLO = offsetof(struct iscsi_params, session.needs_hello),
	AT_HEADER_DIGEST = offsetof(struct iscsi_params, connection.header_digest),
	AT_DATA_DIGEST = offsetof(struct iscsi_params, connection.data_digest),
	AT_RECV_BYTES_MAX = offsetof(struct iscsi_params, connection.recv_bytes_max),
	AT_SEND_BYTES_MAX = offsetof(struct iscsi_params, connection.send_bytes_max),
	AT_INITIATOR_RECV_BYTES_MAX = offsetof(struct iscsi_params,
					       connection.initiator_recv_bytes_max),
	AT_TARGET_RECV_BYTES_MAX = offsetof(struct iscsi_params, connection.target_recv_bytes_max),
};

/* The words of the table, in short. */
enum {
	INITIATOR = ISCSI_BY_INITIATOR,
	TARGET = ISCSI_BY_TARGET,
	BOTH = ISCSI_BY_BOTH,
	SECURITY = ISCSI_IN_SECURITY,
	OPERATIONAL = ISCSI_IN_OPERATIONAL,
	FULL = ISCSI_IN_FULL_FEATURE,
	LOGIN = ISCSI_IN_LOGIN,
	ALL = ISCSI_IN_ALL,
	LEADING = ISCSI_LEADING,
	NORMAL = ISCSI_NORMAL,
	RDMA = ISCSI_RDMA,
	NO_RDMA = ISCSI_NO_RDMA,
};

static const char *const digests[] = { "None", "CRC32C", NULL };
static const char *const reportings[] = { "RFC3720", "ResponseFence", "FastAbort", NULL };
static const char *const session_types[] = { "Normal", "Discovery", NULL };

/*
 * Name, kind, result; senders, stages, rules; default and range; choices; place of the value that
 * this end says, and of the peer's.
 */
static const struct iscsi_key_row rows[ISCSI_KEY_COUNT] = {
	[ISCSI_SESSION_TYPE] = { "SessionType", ISCSI_KIND_LIST, ISCSI_RESULT_LOGIN, INITIATOR,
				 LOGIN, 0, 0, 0, 0, session_types, NO_PLACE, NO_PLACE },
	[ISCSI_RDMA_EXTENSIONS] = { "RDMAExtensions", ISCSI_KIND_BOOLEAN, ISCSI_RESULT_AND, BOTH,
				    OPERATIONAL, LEADING | NORMAL, false, 0, 1, NULL, AT_HAS_RDMA,
				    AT_HAS_RDMA },
	[ISCSI_INITIATOR_NAME] = { "InitiatorName", ISCSI_KIND_NAME, ISCSI_RESULT_LOGIN, INITIATOR,
				   LOGIN, 0, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	/* By a target in answer to SendTargets. */
	[ISCSI_TARGET_NAME] = { "TargetName", ISCSI_KIND_NAME, ISCSI_RESULT_LOGIN, BOTH, ALL, 0, 0,
				0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_INITIATOR_ALIAS] = { "InitiatorAlias", ISCSI_KIND_LOCAL_NAME, ISCSI_RESULT_LOGIN,
				    INITIATOR, ALL, 0, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_TARGET_ALIAS] = { "TargetAlias", ISCSI_KIND_LOCAL_NAME, ISCSI_RESULT_LOGIN, TARGET,
				 ALL, 0, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_TARGET_ADDRESS] = { "TargetAddress", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, TARGET, ALL,
				   ISCSI_REPEATS, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_TARGET_PORTAL_GROUP_TAG] = { "TargetPortalGroupTag", ISCSI_KIND_NUMBER,
					    ISCSI_RESULT_LOGIN, TARGET, LOGIN, 0, 0, 0, UINT16_MAX,
					    NULL, NO_PLACE, NO_PLACE },
	[ISCSI_SEND_TARGETS] = { "SendTargets", ISCSI_KIND_TEXT, ISCSI_RESULT_LOGIN, INITIATOR,
				 FULL, 0, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_AUTH_METHOD] = { "AuthMethod", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0,
				0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_CHAP_A] = { "CHAP_A", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0, 0, 0, 0,
			   NULL, NO_PLACE, NO_PLACE },
	[ISCSI_CHAP_I] = { "CHAP_I", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0, 0, 0, 0,
			   NULL, NO_PLACE, NO_PLACE },
	[ISCSI_CHAP_C] = { "CHAP_C", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0, 0, 0, 0,
			   NULL, NO_PLACE, NO_PLACE },
	[ISCSI_CHAP_N] = { "CHAP_N", ISCSI_KIND_LOCAL_NAME, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0,
			   0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_CHAP_R] = { "CHAP_R", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN, BOTH, SECURITY, 0, 0, 0, 0,
			   NULL, NO_PLACE, NO_PLACE },
	[ISCSI_HEADER_DIGEST] = { "HeaderDigest", ISCSI_KIND_LIST, ISCSI_RESULT_CHOICE, BOTH,
				  OPERATIONAL, NO_RDMA, 1, 0, 0, digests, AT_HEADER_DIGEST,
				  AT_HEADER_DIGEST },
	[ISCSI_DATA_DIGEST] = { "DataDigest", ISCSI_KIND_LIST, ISCSI_RESULT_CHOICE, BOTH,
				OPERATIONAL, NO_RDMA, 1, 0, 0, digests, AT_DATA_DIGEST,
				AT_DATA_DIGEST },
	[ISCSI_MAX_CONNECTIONS] = { "MaxConnections", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN, BOTH,
				    OPERATIONAL, LEADING | NORMAL, 1, 1, UINT16_MAX, NULL,
				    AT_CONNECTIONS_MAX, AT_CONNECTIONS_MAX },
	[ISCSI_INITIAL_R2T] = { "InitialR2T", ISCSI_KIND_BOOLEAN, ISCSI_RESULT_OR, BOTH,
				OPERATIONAL, LEADING | NORMAL, true, 0, 1, NULL, AT_NEEDS_R2T,
				AT_NEEDS_R2T },
	[ISCSI_IMMEDIATE_DATA] = { "ImmediateData", ISCSI_KIND_BOOLEAN, ISCSI_RESULT_AND, BOTH,
				   OPERATIONAL, LEADING | NORMAL, true, 0, 1, NULL,
				   AT_HAS_IMMEDIATE_DATA, AT_HAS_IMMEDIATE_DATA },
	[ISCSI_MAX_RECV_DATA_SEGMENT_LENGTH] = { "MaxRecvDataSegmentLength", ISCSI_KIND_NUMBER,
						 ISCSI_RESULT_DECLARED, BOTH, ALL, NO_RDMA, 8192,
						 SEGMENT_MIN, SEGMENT_MAX, NULL, AT_RECV_BYTES_MAX,
						 AT_SEND_BYTES_MAX },
	[ISCSI_MAX_BURST_LENGTH] = { "MaxBurstLength", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN, BOTH,
				     OPERATIONAL, LEADING | NORMAL, 262144, SEGMENT_MIN,
				     SEGMENT_MAX, NULL, AT_BURST_BYTES_MAX, AT_BURST_BYTES_MAX },
	[ISCSI_FIRST_BURST_LENGTH] = { "FirstBurstLength", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN,
				       BOTH, OPERATIONAL, LEADING | NORMAL, 65536, SEGMENT_MIN,
				       SEGMENT_MAX, NULL, AT_FIRST_BURST_BYTES_MAX,
				       AT_FIRST_BURST_BYTES_MAX },
	[ISCSI_DEFAULT_TIME2WAIT] = { "DefaultTime2Wait", ISCSI_KIND_NUMBER, ISCSI_RESULT_MAX, BOTH,
				      OPERATIONAL, LEADING, 2, 0, 3600, NULL, AT_TIME2WAIT_S,
				      AT_TIME2WAIT_S },
	[ISCSI_DEFAULT_TIME2RETAIN] = { "DefaultTime2Retain", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN,
					BOTH, OPERATIONAL, LEADING, 20, 0, 3600, NULL,
					AT_TIME2RETAIN_S, AT_TIME2RETAIN_S },
	[ISCSI_MAX_OUTSTANDING_R2T] = { "MaxOutstandingR2T", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN,
					BOTH, OPERATIONAL, LEADING | NORMAL, 1, 1, UINT16_MAX, NULL,
					AT_R2T_MAX, AT_R2T_MAX },
	[ISCSI_DATA_PDU_IN_ORDER] = { "DataPDUInOrder", ISCSI_KIND_BOOLEAN, ISCSI_RESULT_OR, BOTH,
				      OPERATIONAL, LEADING | NORMAL, true, 0, 1, NULL,
				      AT_HAS_PDUS_IN_ORDER, AT_HAS_PDUS_IN_ORDER },
	[ISCSI_DATA_SEQUENCE_IN_ORDER] = { "DataSequenceInOrder", ISCSI_KIND_BOOLEAN,
					   ISCSI_RESULT_OR, BOTH, OPERATIONAL, LEADING | NORMAL,
					   true, 0, 1, NULL, AT_HAS_SEQUENCES_IN_ORDER,
					   AT_HAS_SEQUENCES_IN_ORDER },
	[ISCSI_ERROR_RECOVERY_LEVEL] = { "ErrorRecoveryLevel", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN,
					 BOTH, OPERATIONAL, LEADING, 0, 0, 2, NULL,
					 AT_ERROR_RECOVERY_LEVEL, AT_ERROR_RECOVERY_LEVEL },
	[ISCSI_TASK_REPORTING] = { "TaskReporting", ISCSI_KIND_LIST, ISCSI_RESULT_CHOICE, BOTH,
				   OPERATIONAL, LEADING | NORMAL, 1, 0, 0, reportings,
				   AT_TASK_REPORTING, AT_TASK_REPORTING },
	[ISCSI_PROTOCOL_LEVEL] = { "iSCSIProtocolLevel", ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN, BOTH,
				   OPERATIONAL, LEADING | NORMAL, 1, 0, 31, NULL, AT_PROTOCOL_LEVEL,
				   AT_PROTOCOL_LEVEL },
	/* RFC 7143 section 13.26: for people who read logs; it may be left unread. */
	[ISCSI_NODE_ARCHITECTURE] = { "X#NodeArchitecture", ISCSI_KIND_ANY, ISCSI_RESULT_LOGIN,
				      BOTH, ALL, 0, 0, 0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_INITIATOR_RECV_DATA_SEGMENT_LENGTH] = { "InitiatorRecvDataSegmentLength",
						       ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN, BOTH,
						       OPERATIONAL, RDMA, 8192, SEGMENT_MIN,
						       SEGMENT_MAX, NULL,
						       AT_INITIATOR_RECV_BYTES_MAX,
						       AT_INITIATOR_RECV_BYTES_MAX },
	[ISCSI_TARGET_RECV_DATA_SEGMENT_LENGTH] = { "TargetRecvDataSegmentLength",
						    ISCSI_KIND_NUMBER, ISCSI_RESULT_MIN, BOTH,
						    OPERATIONAL, RDMA, 8192, SEGMENT_MIN,
						    SEGMENT_MAX, NULL, AT_TARGET_RECV_BYTES_MAX,
						    AT_TARGET_RECV_BYTES_MAX },
	[ISCSI_MAX_OUTSTANDING_UNEXPECTED_PDUS] = { "MaxOutstandingUnexpectedPDUs",
						    ISCSI_KIND_NUMBER, ISCSI_RESULT_DECLARED, BOTH,
						    OPERATIONAL,
						    LEADING | NORMAL | RDMA | ISCSI_OR_ZERO, 0, 2,
						    UINT32_MAX, NULL, AT_UNEXPECTED_MAX,
						    AT_PEER_UNEXPECTED_MAX },
	[ISCSI_MAX_AHS_LENGTH] = { "MaxAHSLength", ISCSI_KIND_NUMBER, ISCSI_RESULT_DECLARED, BOTH,
				   OPERATIONAL, LEADING | NORMAL | RDMA | ISCSI_OR_ZERO, 256, 2,
				   UINT32_MAX, NULL, AT_AHS_BYTES_MAX, AT_PEER_AHS_BYTES_MAX },
	[ISCSI_TAGGED_BUFFER_FOR_SOLICITED_DATA_ONLY] = { "TaggedBufferForSolicitedDataOnly",
							  ISCSI_KIND_BOOLEAN, ISCSI_RESULT_DECLARED,
							  INITIATOR, OPERATIONAL,
							  LEADING | NORMAL | RDMA, false, 0, 1,
							  NULL, AT_TAGGED_ONLY, AT_TAGGED_ONLY },
	[ISCSI_ISER_HELLO_REQUIRED] = { "iSERHelloRequired", ISCSI_KIND_BOOLEAN,
					ISCSI_RESULT_DECLARED, INITIATOR, OPERATIONAL,
					LEADING | NORMAL | RDMA, false, 0, 1, NULL, AT_NEEDS_HELLO,
					AT_NEEDS_HELLO },
	[ISCSI_IFMARKER] = { "IFMarker", ISCSI_KIND_ANY, ISCSI_RESULT_OBSOLETE, BOTH, LOGIN, 0, 0,
			     0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_OFMARKER] = { "OFMarker", ISCSI_KIND_ANY, ISCSI_RESULT_OBSOLETE, BOTH, LOGIN, 0, 0,
			     0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_IFMARKINT] = { "IFMarkInt", ISCSI_KIND_ANY, ISCSI_RESULT_OBSOLETE, BOTH, LOGIN, 0, 0,
			      0, 0, NULL, NO_PLACE, NO_PLACE },
	[ISCSI_OFMARKINT] = { "OFMarkInt", ISCSI_KIND_ANY, ISCSI_RESULT_OBSOLETE, BOTH, LOGIN, 0, 0,
			      0, 0, NULL, NO_PLACE, NO_PLACE },
};

const struct iscsi_key_row *iscsi_key_row(enum iscsi_key key)
{
	CHECK((unsigned int)key < ISCSI_KEY_COUNT);
	return &rows[key];
}

enum iscsi_key iscsi_key_find(struct word name)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		if (word_is(name, rows[key].name))
			return (enum iscsi_key)key;
	}
	return ISCSI_KEY_COUNT;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

bool iscsi_key_has_value(const struct iscsi_key_row *row)
{
	return row->ours != NO_PLACE;
}

uint32_t iscsi_params_get(const struct iscsi_params *p, const struct iscsi_key_row *row,
			  uint16_t at)
{
	const char *place = (const char *)p + at;
	uint32_t number;
	bool boolean;

	if (row->kind == ISCSI_KIND_BOOLEAN) {
		memcpy(&boolean, place, sizeof(boolean));
		return boolean;
	}
	memcpy(&number, place, sizeof(number));
	return number;
}

void iscsi_params_set(struct iscsi_params *p, const struct iscsi_key_row *row, uint16_t at,
		      uint32_t value)
{
	char *place = (char *)p + at;
	bool boolean = value;

	if (row->kind == ISCSI_KIND_BOOLEAN)
		memcpy(place, &boolean, sizeof(boolean));
	else
		memcpy(place, &value, sizeof(value));
}

void iscsi_params_init(struct iscsi_params *p)
{
	memset(p, 0, sizeof(*p));
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		if (iscsi_key_has_value(&rows[key])) {
			iscsi_params_set(p, &rows[key], rows[key].ours, rows[key].initial);
			iscsi_params_set(p, &rows[key], rows[key].theirs, rows[key].initial);
		}
	}
}

/* ---- Values --------------------------------------------------------------------------------- */

bool iscsi_key_parse(const struct iscsi_key_row *row, struct word value, uint32_t *number)
{
	uint64_t v;
	bool boolean;

	if (row->kind == ISCSI_KIND_BOOLEAN) {
		if (!iscsi_boolean(value, &boolean))
			return false;
		*number = boolean;
		return true;
	}
	if (!iscsi_number(value, &v) || v > row->high)
		return false;
	if (v < row->low && !(v == 0 && row->rules & ISCSI_OR_ZERO))
		return false;
	*number = (uint32_t)v;
	return true;
}

bool iscsi_key_is_sound(const struct iscsi_key_row *row, struct word value)
{
	struct iscsi_name name;
	uint32_t number;

	switch (row->kind) {
	case ISCSI_KIND_BOOLEAN:
	case ISCSI_KIND_NUMBER:
		return iscsi_key_parse(row, value, &number);
	case ISCSI_KIND_LIST:
		return iscsi_key_choose(row, iscsi_list_of(1, 2), value) != 0;
	case ISCSI_KIND_NAME:
		return iscsi_name_normalise(value, &name) == WEFT_OK;
	case ISCSI_KIND_LOCAL_NAME:
		return iscsi_is_local_name(value);
	case ISCSI_KIND_TEXT:
		return iscsi_is_text_value(value);
	default:
		return true;
	}
}

bool iscsi_list_has(uint32_t wish, uint32_t choice)
{
	for (; wish > 0; wish >>= 4) {
		if ((wish & 15) == choice)
			return true;
	}
	return false;
}

uint32_t iscsi_key_choose(const struct iscsi_key_row *row, uint32_t wish, struct word list)
{
	struct word item;

	while (iscsi_list_next(&list, &item)) {
		for (uint32_t i = 0; row->choices[i]; i++) {
			if (word_is(item, row->choices[i]) && iscsi_list_has(wish, i + 1))
				return i + 1;
		}
	}
	return 0;
}

static void put_list(const struct iscsi_key_row *row, struct wr *w, uint32_t list)
{
	char text[LIST_TEXT_MAX];
	uint32_t length = 0;

	for (; list > 0; list >>= 4) {
		struct word name = iscsi_word(row->choices[(list & 15) - 1]);

		CHECK(length + 1 + name.length <= sizeof(text));
		if (length > 0)
			text[length++] = ',';
		memcpy(text + length, name.at, name.length);
		length += name.length;
	}
	iscsi_text_put(w, row->name, (struct word){ text, length });
}

void iscsi_key_put(const struct iscsi_key_row *row, struct wr *w, uint32_t value)
{
	if (row->kind == ISCSI_KIND_BOOLEAN)
		iscsi_text_put(w, row->name, iscsi_word(value ? "Yes" : "No"));
	else if (row->kind == ISCSI_KIND_LIST)
		put_list(row, w, value);
	else
		iscsi_text_put_number(w, row->name, value);
}
