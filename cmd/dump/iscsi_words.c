/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>

#include "cmd/dump/iscsi_dissect.h"
#include "cmd/line.h"

static const char *name_of(const char *const *names, uint32_t count, uint32_t code)
{
	return code < count && names[code] ? names[code] : "?";
}

#define NAME(names, code) name_of(names, sizeof(names) / sizeof((names)[0]), code)

static const char *const attrs[] = { "untagged", "simple", "ordered", "head of queue", "ACA" };
static const char *const functions[] = { NULL,
					 "ABORT TASK",
					 "ABORT TASK SET",
					 "CLEAR ACA",
					 "CLEAR TASK SET",
					 "LOGICAL UNIT RESET",
					 "TARGET WARM RESET",
					 "TARGET COLD RESET",
					 "TASK REASSIGN",
					 "QUERY TASK",
					 "QUERY TASK SET",
					 "I_T NEXUS RESET",
					 "QUERY ASYNC EVENT" };
static const char *const stages[] = { "security", "operational", NULL, "full feature" };
static const char *const logouts[] = { "close the session", "close the connection",
				       "remove the connection for recovery" };
static const char *const snacks[] = { "Data/R2T", "Status", "DataACK", "R-Data" };
static const char *const events[] = { "SCSI event",
				      "asks for a logout",
				      "drops a connection",
				      "drops all connections",
				      "asks for a negotiation",
				      "ended tasks" };
static const char *const rejects[] = { NULL,
				       NULL,
				       "data digest error",
				       "SNACK reject",
				       "protocol error",
				       "command not supported",
				       "too many immediate commands",
				       "task in progress",
				       "invalid data ACK",
				       "invalid PDU field",
				       "out of tags",
				       "negotiation reset",
				       "waiting for logout" };

static void say_tag(struct line *l, const char *name, uint32_t tag)
{
	if (tag != ISCSI_TAG_NONE)
		line_say(l, ", %s 0x%08" PRIx32, name, tag);
}

static void say_flag(struct line *l, bool is_set, const char *flag)
{
	if (is_set)
		line_say(l, ", %s", flag);
}

static void say_command(struct line *l, const struct iscsi_pdu *p)
{
	say_flag(l, p->is_read, "R");
	say_flag(l, p->is_write, "W");
	line_say(l, ", %s, CDB ", NAME(attrs, p->attr));
	for (int i = 0; i < ISCSI_CDB_BYTES; i++)
		line_say(l, "%02x", p->cdb[i]);
	if (p->cdb_more_bytes > 0)
		line_say(l, " and %u more bytes", p->cdb_more_bytes);
	line_say(l, ", expects %" PRIu32 " bytes", p->expected_bytes);
	if (p->has_read_expected)
		line_say(l, " and to read %" PRIu32, p->read_expected_bytes);
}

static void say_status(struct line *l, const struct iscsi_pdu *p)
{
	line_say(l, ", status 0x%02x", p->status);
	if (p->is_overflow || p->is_underflow)
		line_say(l, ", %s by %" PRIu32, p->is_overflow ? "overflow" : "underflow",
			 p->residual);
	if (p->is_read_overflow || p->is_read_underflow)
		line_say(l, ", read %s by %" PRIu32, p->is_read_overflow ? "overflow" : "underflow",
			 p->read_residual);
}

static void say_login(struct line *l, const struct iscsi_pdu *p)
{
	line_say(l, ", stage %s", NAME(stages, p->csg));
	if (p->is_final)
		line_say(l, " to %s", NAME(stages, p->nsg));
	line_say(l, ", ISID %012" PRIx64 ", TSIH %u", p->isid, p->tsih);
	if (p->opcode == ISCSI_LOGIN_REQUEST)
		line_say(l, ", CID %u", p->cid);
	else
		line_say(l, ", status %02x%02x", p->status_class, p->status_detail);
}

/* What PDUs of this opcode say. */
static void say_special(struct line *l, const struct iscsi_pdu *p)
{
	switch (p->opcode) {
	case ISCSI_SCSI_COMMAND:
		say_command(l, p);
		break;
	case ISCSI_SCSI_RESPONSE:
		if (p->code == ISCSI_COMPLETED)
			say_status(l, p);
		else
			line_say(l, ", response 0x%02x", p->code);
		break;
	case ISCSI_TASK_REQUEST:
		line_say(l, ", %s", NAME(functions, p->code));
		say_tag(l, "of task", p->ref_itt);
		break;
	case ISCSI_TASK_RESPONSE:
	case ISCSI_LOGOUT_RESPONSE:
		line_say(l, ", response %u", p->code);
		break;
	case ISCSI_LOGIN_REQUEST:
	case ISCSI_LOGIN_RESPONSE:
		say_login(l, p);
		break;
	case ISCSI_DATA_IN:
		say_flag(l, p->wants_ack, "A");
		if (p->has_status)
			say_status(l, p);
		break;
	case ISCSI_R2T:
		line_say(l, ", wants %" PRIu32 " bytes", p->desired_bytes);
		break;
	case ISCSI_LOGOUT_REQUEST:
		line_say(l, ", %s, CID %u", NAME(logouts, p->code), p->cid);
		break;
	case ISCSI_SNACK:
		line_say(l, ", %s, %" PRIu32 " from %" PRIu32 " on", NAME(snacks, p->code),
			 p->run_length, p->beg_run);
		break;
	case ISCSI_ASYNC:
		line_say(l, ", event %u (%s), parameters %u %u %u", p->code, NAME(events, p->code),
			 p->parameters[0], p->parameters[1], p->parameters[2]);
		break;
	case ISCSI_REJECT:
		line_say(l, ", reason 0x%02x (%s)", p->code, NAME(rejects, p->code));
		break;
	default:
		break;
	}
}

static bool is_of_data(uint8_t opcode)
{
	return opcode == ISCSI_DATA_IN || opcode == ISCSI_DATA_OUT || opcode == ISCSI_R2T;
}

static void say_numbers(struct line *l, const struct iscsi_pdu *p)
{
	if (is_of_data(p->opcode))
		line_say(l, ", at %" PRIu32 ", %s %" PRIu32, p->offset,
			 p->opcode == ISCSI_R2T ? "R2TSN" : "DataSN", p->data_sn);
	if (p->opcode >= ISCSI_NOP_IN) {
		if (p->opcode != ISCSI_DATA_IN || p->has_status)
			line_say(l, ", StatSN %" PRIu32, p->stat_sn);
		line_say(l, ", ExpCmdSN %" PRIu32 ", MaxCmdSN %" PRIu32, p->exp_cmd_sn,
			 p->max_cmd_sn);
		return;
	}
	if (p->opcode != ISCSI_DATA_OUT && p->opcode != ISCSI_SNACK)
		line_say(l, ", CmdSN %" PRIu32, p->cmd_sn);
	line_say(l, ", ExpStatSN %" PRIu32, p->exp_stat_sn);
}

/* F where it says something, and C. */
static void say_flags(struct line *l, const struct iscsi_pdu *p)
{
	bool is_text = p->opcode == ISCSI_TEXT_REQUEST || p->opcode == ISCSI_TEXT_RESPONSE;
	bool is_data = p->opcode == ISCSI_DATA_IN || p->opcode == ISCSI_DATA_OUT;

	say_flag(l, p->is_immediate, "immediate");
	say_flag(l, p->is_final && (is_text || is_data || p->opcode == ISCSI_SCSI_COMMAND),
		 "final");
	say_flag(l, p->is_continued, "continued");
}

void iscsi_item_words(const struct iscsi_item *item, char *text, size_t length)
{
	const struct iscsi_pdu *p = &item->pdu;
	struct line l = { .at = text, .room = length };

	*text = 0;
	if (!item->is_decoded)
		return;
	line_say(&l, "%s", iscsi_opcode_name(p->opcode));
	say_tag(&l, "ITT", p->itt);
	say_tag(&l, "TTT", p->opcode == ISCSI_SCSI_RESPONSE ? ISCSI_TAG_NONE : p->ttt);
	if (p->lun != 0)
		line_say(&l, ", LUN %016" PRIx64, p->lun);
	say_flags(&l, p);
	say_special(&l, p);
	if (p->data_bytes > 0)
		line_say(&l, ", %" PRIu32 " byte%s", p->data_bytes, p->data_bytes == 1 ? "" : "s");
	say_numbers(&l, p);
}
