/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi_fixture.h"

#include <string.h>

#include "test.h"

const uint8_t iscsi_kinds[ISCSI_KINDS] = { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x20,
					   0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31, 0x32, 0x3f };

static unsigned int digit(char c)
{
	const char *digits = "0123456789abcdef", *at = strchr(digits, c);

	REQUIRE(at && c);
	return (unsigned int)(at - digits);
}

size_t iscsi_hex(uint8_t *bytes, size_t room, const char *text)
{
	size_t length = 0;

	for (; *text; text++) {
		if (*text == ' ')
			continue;
		REQUIRE(length < room);
		bytes[length++] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
		text++;
	}
	return length;
}

static uint32_t word(struct prng *random)
{
	return (uint32_t)prng_next(random);
}

/* Not the reserved value. */
static uint32_t tag(struct prng *random)
{
	return prng_below(random, UINT32_MAX);
}

static bool coin(struct prng *random)
{
	return prng_below(random, 2);
}

static void command(struct iscsi_pdu *p, uint8_t *cdb, struct prng *random)
{
	p->is_read = coin(random);
	p->is_write = coin(random);
	p->attr = (uint8_t)prng_below(random, 5);
	p->expected_bytes = p->is_read || p->is_write ? word(random) : 0;
	p->is_final = !p->is_write || p->data_bytes == p->expected_bytes || coin(random);
	for (int i = 0; i < ISCSI_CDB_BYTES; i++)
		p->cdb[i] = (uint8_t)word(random);
	if (coin(random)) {
		p->cdb_more_bytes = (uint16_t)(1 + prng_below(random, 1000));
		for (uint32_t i = 0; i < p->cdb_more_bytes; i++)
			cdb[i] = (uint8_t)word(random);
		p->cdb_more = cdb;
	}
	p->has_read_expected = p->is_read && p->is_write;
	p->read_expected_bytes = p->has_read_expected ? word(random) : 0;
}

static void residuals(struct iscsi_pdu *p, struct prng *random)
{
	p->is_overflow = coin(random);
	p->is_underflow = !p->is_overflow && coin(random);
	p->status = (uint8_t)word(random);
	p->residual = word(random);
	if (p->opcode != ISCSI_SCSI_RESPONSE)
		return;
	p->is_read_overflow = coin(random);
	p->is_read_underflow = !p->is_read_overflow && coin(random);
	p->read_residual = word(random);
}

static void login(struct iscsi_pdu *p, struct prng *random)
{
	bool is_request = p->opcode == ISCSI_LOGIN_REQUEST;

	p->is_immediate = is_request;
	p->is_final = coin(random);
	p->is_continued = !p->is_final && coin(random);
	p->csg = (uint8_t)prng_below(random, 2);
	if (p->is_final)
		p->nsg = p->csg == 0 && coin(random) ? 1 : 3;
	p->version_max = (uint8_t)word(random);
	p->version = (uint8_t)word(random);
	p->isid = prng_next(random) >> 16;
	p->tsih = (uint16_t)(1 + prng_below(random, 0xffff));
	p->cid = is_request ? (uint16_t)word(random) : 0;
	p->status_class = is_request ? 0 : (uint8_t)prng_below(random, 4);
	p->status_detail = is_request ? 0 : (uint8_t)word(random);
}

static void snack(struct iscsi_pdu *p, struct prng *random)
{
	bool has_tag;

	p->code = (uint8_t)prng_below(random, 4);
	has_tag = p->code >= 2;
	p->itt = p->code == 0 || p->code == 3 ? tag(random) : UINT32_MAX;
	p->ttt = has_tag ? 1 + prng_below(random, UINT32_MAX - 1) : UINT32_MAX;
	p->beg_run = word(random);
	p->run_length = has_tag ? 0 : word(random);
}

static void of_initiator(struct iscsi_pdu *p, uint8_t *cdb, struct prng *random)
{
	p->cmd_sn = word(random);
	p->exp_stat_sn = word(random);
	p->is_immediate = coin(random);
	switch (p->opcode) {
	case ISCSI_NOP_OUT:
		p->ttt = coin(random) ? tag(random) : UINT32_MAX;
		p->itt = p->is_immediate && coin(random) ? UINT32_MAX : p->itt;
		break;
	case ISCSI_SCSI_COMMAND:
		command(p, cdb, random);
		break;
	case ISCSI_TASK_REQUEST:
		p->code = (uint8_t)(1 + prng_below(random, 12));
		p->ref_itt = p->code == 1 || p->code == 8 || p->code == 9 ? word(random)
									  : UINT32_MAX;
		p->ref_cmd_sn = word(random);
		p->data_sn = word(random);
		break;
	case ISCSI_LOGIN_REQUEST:
		login(p, random);
		break;
	case ISCSI_TEXT_REQUEST:
		p->is_final = coin(random);
		p->is_continued = !p->is_final && coin(random);
		p->ttt = word(random);
		break;
	case ISCSI_LOGOUT_REQUEST:
		p->code = (uint8_t)prng_below(random, 3);
		p->cid = (uint16_t)word(random);
		break;
	default: /* Data-Out, SNACK */
		p->cmd_sn = 0;
		p->is_immediate = false;
		break;
	}
}

static void data_in(struct iscsi_pdu *p, struct prng *random)
{
	p->is_final = coin(random);
	p->wants_ack = coin(random);
	p->ttt = p->wants_ack ? tag(random) : UINT32_MAX;
	p->lun = p->wants_ack ? p->lun : 0;
	p->has_status = p->is_final && coin(random);
	if (p->has_status)
		residuals(p, random);
	else
		p->stat_sn = 0;
}

static void async(struct iscsi_pdu *p, struct prng *random)
{
	p->itt = UINT32_MAX;
	p->code = (uint8_t)(coin(random) ? prng_below(random, 6) : 248 + prng_below(random, 8));
	p->vendor_code = (uint8_t)word(random);
	for (int i = 0; i < 3; i++)
		p->parameters[i] = (uint16_t)word(random);
}

static void of_target(struct iscsi_pdu *p, struct prng *random)
{
	p->stat_sn = word(random);
	p->exp_cmd_sn = word(random);
	p->max_cmd_sn = word(random);
	switch (p->opcode) {
	case ISCSI_NOP_IN:
		p->itt = coin(random) ? p->itt : UINT32_MAX;
		p->ttt = p->itt == UINT32_MAX ? word(random) : UINT32_MAX;
		p->data_bytes = p->itt == UINT32_MAX ? 0 : p->data_bytes;
		break;
	case ISCSI_SCSI_RESPONSE:
		p->code = coin(random) ? 0 : (uint8_t)(0x80 + prng_below(random, 0x80));
		p->ttt = word(random);
		p->data_sn = word(random);
		residuals(p, random);
		if (p->code == 0)
			break;
		p->is_overflow = p->is_underflow = false;
		p->is_read_overflow = p->is_read_underflow = false;
		break;
	case ISCSI_TASK_RESPONSE:
		p->code = coin(random) ? 255 : (uint8_t)prng_below(random, 8);
		break;
	case ISCSI_LOGIN_RESPONSE:
		login(p, random);
		break;
	case ISCSI_TEXT_RESPONSE:
		p->is_final = coin(random);
		p->is_continued = !p->is_final && coin(random);
		p->ttt = p->is_final ? UINT32_MAX : tag(random);
		break;
	case ISCSI_DATA_IN:
		data_in(p, random);
		break;
	case ISCSI_LOGOUT_RESPONSE:
		p->code = (uint8_t)prng_below(random, 4);
		p->time2wait = (uint16_t)word(random);
		p->time2retain = (uint16_t)word(random);
		break;
	case ISCSI_R2T:
		p->ttt = tag(random);
		p->data_sn = word(random);
		p->offset = word(random) / 2;
		p->desired_bytes = 1 + word(random) / 2;
		break;
	case ISCSI_ASYNC:
		async(p, random);
		break;
	default: /* Reject */
		p->itt = UINT32_MAX;
		p->code = (uint8_t)(2 + prng_below(random, 11));
		p->data_bytes = 48 + prng_below(random, 1000);
		p->data_sn = word(random);
		break;
	}
}

void iscsi_random(struct iscsi_pdu *p, uint8_t opcode, uint8_t cdb[ISCSI_CDB_MORE_MAX],
		  struct prng *random)
{
	bool has_data = opcode != ISCSI_TASK_REQUEST && opcode != ISCSI_TASK_RESPONSE &&
			opcode != ISCSI_LOGOUT_REQUEST && opcode != ISCSI_LOGOUT_RESPONSE &&
			opcode != ISCSI_R2T && opcode != ISCSI_SNACK;
	bool has_lun = opcode != ISCSI_LOGIN_REQUEST && opcode != ISCSI_LOGIN_RESPONSE &&
		       opcode != ISCSI_LOGOUT_REQUEST && opcode != ISCSI_LOGOUT_RESPONSE &&
		       opcode != ISCSI_SCSI_RESPONSE && opcode != ISCSI_TASK_RESPONSE &&
		       opcode != ISCSI_REJECT;

	*p = (struct iscsi_pdu){ .opcode = opcode,
				 .is_final = true,
				 .itt = tag(random),
				 .ttt = UINT32_MAX,
				 .ref_itt = UINT32_MAX };
	p->data_bytes = has_data ? prng_below(random, 1 << 24) : 0;
	p->lun = has_lun ? prng_next(random) : 0;
	if (iscsi_sender(opcode) == ISCSI_INITIATOR)
		of_initiator(p, cdb, random);
	else
		of_target(p, random);
	if (opcode == ISCSI_SNACK)
		snack(p, random);
	if (opcode == ISCSI_DATA_OUT || opcode == ISCSI_DATA_IN) {
		p->data_sn = word(random);
		p->offset = prng_below(random, UINT32_MAX - ISCSI_DATA_MAX);
	}
	if (opcode == ISCSI_DATA_OUT) {
		p->ttt = word(random);
		p->is_final = coin(random);
	}
}

#define SAME(field) (a->field == b->field)

static bool same_common(const struct iscsi_pdu *a, const struct iscsi_pdu *b)
{
	return SAME(opcode) && SAME(code) && SAME(is_immediate) && SAME(is_final) &&
	       SAME(is_continued) && SAME(data_bytes) && SAME(lun) && SAME(itt) && SAME(ttt) &&
	       SAME(cmd_sn) && SAME(exp_stat_sn) && SAME(stat_sn) && SAME(exp_cmd_sn) &&
	       SAME(max_cmd_sn) && SAME(data_sn);
}

static bool same_scsi(const struct iscsi_pdu *a, const struct iscsi_pdu *b)
{
	return SAME(is_read) && SAME(is_write) && SAME(attr) && SAME(expected_bytes) &&
	       memcmp(a->cdb, b->cdb, sizeof(a->cdb)) == 0 && SAME(cdb_more_bytes) &&
	       (a->cdb_more_bytes == 0 ||
		memcmp(a->cdb_more, b->cdb_more, a->cdb_more_bytes) == 0) &&
	       SAME(has_read_expected) && SAME(read_expected_bytes) && SAME(is_overflow) &&
	       SAME(is_underflow) && SAME(is_read_overflow) && SAME(is_read_underflow) &&
	       SAME(status) && SAME(residual) && SAME(read_residual) && SAME(wants_ack) &&
	       SAME(has_status) && SAME(offset) && SAME(desired_bytes);
}

bool iscsi_same(const struct iscsi_pdu *a, const struct iscsi_pdu *b)
{
	return same_common(a, b) && same_scsi(a, b) && SAME(ref_itt) && SAME(ref_cmd_sn) &&
	       SAME(csg) && SAME(nsg) && SAME(version_max) && SAME(version) && SAME(isid) &&
	       SAME(tsih) && SAME(cid) && SAME(status_class) && SAME(status_detail) &&
	       SAME(time2wait) && SAME(time2retain) && SAME(beg_run) && SAME(run_length) &&
	       SAME(vendor_code) &&
	       memcmp(a->parameters, b->parameters, sizeof(a->parameters)) == 0;
}
