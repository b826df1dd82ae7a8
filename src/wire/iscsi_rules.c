/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iscsi_rules.h"

bool iscsi_code_is_defined(const struct iscsi_pdu *p)
{
	switch (p->opcode) {
	case ISCSI_SCSI_COMMAND:
		return p->attr <= ISCSI_ATTR_ACA;
	case ISCSI_SCSI_RESPONSE:
		return p->code <= ISCSI_TARGET_FAILURE || p->code >= ISCSI_VENDOR_80;
	case ISCSI_TASK_REQUEST:
		return p->code >= ISCSI_ABORT_TASK && p->code <= ISCSI_QUERY_ASYNC_EVENT;
	case ISCSI_TASK_RESPONSE:
		return p->code <= ISCSI_TASK_SUCCEEDED || p->code == ISCSI_TASK_REJECTED;
	case ISCSI_LOGIN_RESPONSE:
		return p->status_class <= 3;
	case ISCSI_LOGOUT_REQUEST:
		return p->code <= ISCSI_LOGOUT_RECOVERY;
	case ISCSI_LOGOUT_RESPONSE:
		return p->code <= ISCSI_LOGOUT_FAILED;
	case ISCSI_SNACK:
		return p->code <= ISCSI_SNACK_R_DATA;
	case ISCSI_ASYNC:
		return p->code <= ISCSI_ASYNC_TASKS_ENDED || p->code >= ISCSI_ASYNC_VENDOR;
	case ISCSI_REJECT:
		return p->code >= ISCSI_REJECT_DATA_DIGEST && p->code <= ISCSI_REJECT_LOGOUT;
	default:
		return true;
	}
}

/* Sections 11.3.1 to 11.3.4. */
static enum weft_reason command_check(const struct iscsi_pdu *p)
{
	bool moves = p->expected_bytes > 0 || p->read_expected_bytes > 0;

	if (!p->is_final && !p->is_write)
		return WEFT_R_ISCSI_FLAGS;
	if (!p->is_final && p->data_bytes == p->expected_bytes)
		return WEFT_R_ISCSI_FLAGS; /* all data is here, so none follows */
	if (moves && !p->is_read && !p->is_write)
		return WEFT_R_ISCSI_FLAGS;
	if (p->is_read && p->is_write && !p->has_read_expected)
		return WEFT_R_ISCSI_AHS;
	return WEFT_OK;
}

/* Section 11.4.1. */
static enum weft_reason response_check(const struct iscsi_pdu *p)
{
	bool has_residual = p->is_overflow || p->is_underflow || p->is_read_overflow ||
			    p->is_read_underflow;

	if (p->is_overflow && p->is_underflow)
		return WEFT_R_ISCSI_FLAGS;
	if (p->is_read_overflow && p->is_read_underflow)
		return WEFT_R_ISCSI_FLAGS;
	if (p->code != ISCSI_COMPLETED && has_residual)
		return WEFT_R_ISCSI_FLAGS;
	return WEFT_OK;
}

/* Section 11.5.5: which task is meant, for functions of a task. */
static enum weft_reason task_check(const struct iscsi_pdu *p)
{
	bool is_of_task = p->code == ISCSI_ABORT_TASK || p->code == ISCSI_TASK_REASSIGN ||
			  p->code == ISCSI_QUERY_TASK;

	if (!is_of_task && p->ref_itt != ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TAG;
	return WEFT_OK;
}

/* Sections 11.7.1, 11.7.4 and 11.7.6. The command's length, which bounds the sum, has 32 bits. */
static enum weft_reason data_check(const struct iscsi_pdu *p)
{
	if (p->has_status && !p->is_final)
		return WEFT_R_ISCSI_FLAGS;
	if (p->is_overflow && p->is_underflow)
		return WEFT_R_ISCSI_FLAGS;
	if (p->wants_ack && p->ttt == ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TAG;
	if (p->data_bytes > UINT32_MAX - p->offset)
		return WEFT_R_ISCSI_RANGE;
	return WEFT_OK;
}

/* Sections 11.8.4 and 11.8.5. */
static enum weft_reason r2t_check(const struct iscsi_pdu *p)
{
	if (p->ttt == ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TAG;
	if (p->desired_bytes == 0 || p->desired_bytes > UINT32_MAX - p->offset)
		return WEFT_R_ISCSI_RANGE;
	return WEFT_OK;
}

/* Sections 11.10.2, 11.11.1 and 11.11.2. A final response's tag is to be ignored. */
static enum weft_reason text_check(const struct iscsi_pdu *p)
{
	if (p->is_continued && p->is_final)
		return WEFT_R_ISCSI_FLAGS;
	if (p->opcode == ISCSI_TEXT_RESPONSE && !p->is_final && p->ttt == ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TAG;
	return WEFT_OK;
}

/* Sections 6.3, 11.12.1 to 11.12.3 and 11.13.3. A response that ends the login has no stages. */
static enum weft_reason login_check(const struct iscsi_pdu *p)
{
	if (p->status_class != 0)
		return WEFT_OK;
	if (p->opcode == ISCSI_LOGIN_REQUEST && !p->is_immediate)
		return WEFT_R_ISCSI_FLAGS;
	if (p->is_continued && p->is_final)
		return WEFT_R_ISCSI_FLAGS;
	if (p->csg > ISCSI_STAGE_OPERATIONAL)
		return WEFT_R_ISCSI_STAGE;
	if (p->is_final && p->nsg != ISCSI_STAGE_FULL_FEATURE &&
	    (p->nsg != ISCSI_STAGE_OPERATIONAL || p->csg != ISCSI_STAGE_SECURITY))
		return WEFT_R_ISCSI_STAGE;
	if (p->opcode == ISCSI_LOGIN_RESPONSE && p->nsg == ISCSI_STAGE_FULL_FEATURE && p->tsih == 0)
		return WEFT_R_ISCSI_TAG;
	return WEFT_OK;
}

/* Sections 11.16.3, 11.16.4 and 11.16.7. */
static enum weft_reason snack_check(const struct iscsi_pdu *p)
{
	bool is_of_task = p->code == ISCSI_SNACK_DATA || p->code == ISCSI_SNACK_R_DATA;
	bool has_tag = p->code == ISCSI_SNACK_DATA_ACK || p->code == ISCSI_SNACK_R_DATA;

	if ((p->itt != ISCSI_TAG_NONE) != is_of_task)
		return WEFT_R_ISCSI_TAG;
	if ((p->ttt != ISCSI_TAG_NONE) != has_tag)
		return WEFT_R_ISCSI_TAG;
	if (p->code == ISCSI_SNACK_R_DATA && p->ttt == 0)
		return WEFT_R_ISCSI_TAG;
	if (has_tag && p->run_length != 0)
		return WEFT_R_ISCSI_RANGE;
	return WEFT_OK;
}

/* Sections 11.18.1 and 11.19. */
static enum weft_reason nop_check(const struct iscsi_pdu *p)
{
	bool is_answer = p->itt != ISCSI_TAG_NONE;

	if (p->opcode == ISCSI_NOP_OUT)
		return p->is_immediate || is_answer ? WEFT_OK : WEFT_R_ISCSI_FLAGS;
	if (is_answer && p->ttt != ISCSI_TAG_NONE)
		return WEFT_R_ISCSI_TAG;
	if (!is_answer && p->data_bytes > 0)
		return WEFT_R_ISCSI_DATA_LENGTH;
	return WEFT_OK;
}

enum weft_reason iscsi_rules_check(const struct iscsi_pdu *p)
{
	switch (p->opcode) {
	case ISCSI_NOP_OUT:
	case ISCSI_NOP_IN:
		return nop_check(p);
	case ISCSI_SCSI_COMMAND:
		return command_check(p);
	case ISCSI_SCSI_RESPONSE:
		return response_check(p);
	case ISCSI_TASK_REQUEST:
		return task_check(p);
	case ISCSI_DATA_OUT:
	case ISCSI_DATA_IN:
		return data_check(p);
	case ISCSI_R2T:
		return r2t_check(p);
	case ISCSI_TEXT_REQUEST:
	case ISCSI_TEXT_RESPONSE:
		return text_check(p);
	case ISCSI_LOGIN_REQUEST:
	case ISCSI_LOGIN_RESPONSE:
		return login_check(p);
	case ISCSI_SNACK:
		return snack_check(p);
	case ISCSI_REJECT:
		/* Section 11.17.3: it holds the header that was rejected. */
		return p->data_bytes >= ISCSI_BHS_BYTES ? WEFT_OK : WEFT_R_ISCSI_DATA_LENGTH;
	default:
		return WEFT_OK;
	}
}
