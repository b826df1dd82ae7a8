/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/trace/trace_words.h"

#include <inttypes.h>
#include <stdio.h>

#include <weft/weft.h>

#include "base/fault_plan.h"
#include "cm/ib_cm.h"
#include "ib/ib.h"
#include "iscsi/offload/offload.h"
#include "iwarp/iwarp.h"
#include "wire/iba_aeth.h"
#include "wire/push_msg.h"
#include "wire/rdmap.h"

static void iwarp_words(const struct trace_event *e, char *text, size_t size)
{
	uint8_t layer = (uint8_t)(e->a >> 16), type = (uint8_t)(e->a >> 8), code = (uint8_t)e->a;

	if (e->kind == TRACE_STREAM_STATE)
		snprintf(text, size, "QP %06x  its stream: %s -> %s", e->who,
			 iwarp_state_name(e->a), iwarp_state_name(e->b));
	else
		snprintf(text, size, "QP %06x  %s Terminate %u/%u/0x%02x (%s)", e->who,
			 e->kind == TRACE_TERMINATE_SENT ? "sends" : "gets", layer, type, code,
			 rdmap_terminate_text(layer, type, code));
}

static void iscsi_words(const struct trace_event *e, char *text, size_t size)
{
	if (e->kind == TRACE_ISCSI_STATE)
		snprintf(text, size, "QP %06x  its stream: %s -> %s", e->who,
			 iscsi_offload_state_name(e->a), iscsi_offload_state_name(e->b));
	else
		snprintf(text, size,
			 "QP %06x  drops a SCSI Response of its target, task tag 0x%08" PRIx64,
			 e->who, e->a);
}

static void ib_words(const struct trace_event *e, char *text, size_t size)
{
	if (e->kind == TRACE_PACKET_DROPPED)
		snprintf(text, size, "QP %06x  a packet for it is dropped", e->who);
	else if (e->kind == TRACE_TIMEOUT)
		snprintf(text, size, "QP %06x  has heard nothing of PSN %06" PRIx64 " for too long",
			 e->who, e->a);
	else if (e->kind == TRACE_CM_STATE)
		snprintf(text, size, "CM %08x  %s -> %s", e->who,
			 ib_cm_state_name((enum ib_cm_state)e->a),
			 ib_cm_state_name((enum ib_cm_state)e->b));
	else if (e->kind == TRACE_PATH_STATE)
		snprintf(text, size, "QP %06x  path migration: %s -> %s", e->who,
			 ib_migration_name(e->a), ib_migration_name(e->b));
	else
		snprintf(text, size, "QP %06x  %s %s, PSN %06" PRIx64, e->who,
			 e->kind == TRACE_NAK_SENT ? "says" : "hears",
			 iba_syndrome_name((uint8_t)e->b), e->a);
}

/* A split network card pushes by immediate data; no other program need have it so. */
static void immediate_words(const struct trace_event *e, char *text, size_t size)
{
	struct push_immediate used = push_immediate_decode((uint32_t)e->a);

	snprintf(text, size,
		 "QP %06x  %s %" PRIu64 " bytes with immediate data 0x%08" PRIx64
		 "; of a split card: pushed (%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")",
		 e->who, e->kind == TRACE_IMMEDIATE_OUT ? "sends" : "gets", e->b, e->a, used.pool,
		 used.element, used.element_bytes);
}

void trace_words(const struct trace_event *e, char *text, size_t size)
{
	switch (e->kind) {
	case TRACE_QP_STATE:
		snprintf(text, size, "QP %06x  %s -> %s", e->who,
			 weft_qp_state_name((enum weft_qp_state)e->a),
			 weft_qp_state_name((enum weft_qp_state)e->b));
		break;
	case TRACE_SEND_RETIRED:
		snprintf(text, size, "QP %06x  %s, request %" PRIu64 ": %s", e->who,
			 weft_opcode_name((enum weft_opcode)(e->b >> 8)), e->a,
			 weft_status_name((enum weft_status)(e->b & 0xff)));
		break;
	case TRACE_RECV_RETIRED:
		snprintf(text, size, "QP %06x  receive %" PRIu64 ", %" PRIu64 " bytes: %s", e->who,
			 e->a, e->b >> 8, weft_status_name((enum weft_status)(e->b & 0xff)));
		break;
	case TRACE_REFUSED:
		snprintf(text, size, "QP %06x  refuses its peer: tag 0x%08" PRIx64 " at 0x%" PRIx64,
			 e->who, e->b, e->a);
		break;
	case TRACE_DROPPED:
		snprintf(text, size, "QP %06x  request %" PRIu64 " is dropped on its way", e->who,
			 e->a);
		break;
	case TRACE_TAG_MADE:
		snprintf(text, size, "PD %06x  tag 0x%08" PRIx64 " now names %" PRIu64 " bytes",
			 e->who, e->a, e->b);
		break;
	case TRACE_TAG_GONE:
		snprintf(text, size, "PD %06x  tag 0x%08" PRIx64 " names nothing any more", e->who,
			 e->a);
		break;
	case TRACE_STREAM_STATE:
	case TRACE_TERMINATE_SENT:
	case TRACE_TERMINATE_TAKEN:
		iwarp_words(e, text, size);
		break;
	case TRACE_PACKET_DROPPED:
	case TRACE_NAK_SENT:
	case TRACE_NAK_TAKEN:
	case TRACE_TIMEOUT:
	case TRACE_PATH_STATE:
	case TRACE_CM_STATE:
		ib_words(e, text, size);
		break;
	case TRACE_ISCSI_STATE:
	case TRACE_RESPONSE_DROPPED:
		iscsi_words(e, text, size);
		break;
	case TRACE_IMMEDIATE_OUT:
	case TRACE_IMMEDIATE_IN:
		immediate_words(e, text, size);
		break;
	case TRACE_FAULT:
		snprintf(text, size, "QP %06x  a fault on purpose: %s", e->who,
			 e->a < FAULT_COUNT ? fault_name((enum fault)e->a) : "unknown");
		break;
	case TRACE_LOST:
		snprintf(text, size, "%" PRIu64 " events are missing here", e->a);
		break;
	default:
		snprintf(text, size, "event %u of %u: %" PRIu64 ", %" PRIu64, e->kind, e->who, e->a,
			 e->b);
		break;
	}
}
