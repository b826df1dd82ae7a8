/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iscsi.h"

#include "base/check.h"
#include "base/crc.h"
#include "wire/iscsi_rules.h"

/* Bits of the first two bytes. */
enum {
	OPCODE_MASK = 0x3f,
	BIT_I = 0x40,
	BIT_F = 0x80, /* T of a Login */
	BIT_C = 0x40, /* Text, Login */
	CODE_MASK = 0x7f,
	SNACK_MASK = 0x0f,
	COMMAND_R = 0x40,
	COMMAND_W = 0x20,
	COMMAND_ATTR_MASK = 0x07,
	RESPONSE_READ_O = 0x10,
	RESPONSE_READ_U = 0x08,
	RESIDUAL_O = 0x04, /* SCSI Response, Data-In */
	RESIDUAL_U = 0x02,
	DATA_A = 0x40,
	DATA_S = 0x01,
	CSG_SHIFT = 2,
	STAGE_MASK = 0x03
};

enum { AHS_TYPE_MASK = 0x3f, AHS_CDB = 1, AHS_READ_LENGTH = 2, AHS_READ_BYTES = 5 };

/* The parts of a PDU, for the table below. */
enum {
	HAS_DATA = 0x001,
	HAS_I = 0x002,
	HAS_LUN = 0x004,
	HAS_TTT = 0x008,
	HAS_CMD_SN = 0x010,
	HAS_DATA_SN = 0x020,
	HAS_OFFSET = 0x040,
	IS_FINAL = 0x080,    /* F is 1 */
	CODE_SECOND = 0x100, /* the code is in the second byte, behind F */
	CODE_THIRD = 0x200,  /* the code is the third byte */
	ITT_NONE = 0x400,    /* has the reserved value */
	ITT_ANY = 0x800	     /* may have it */
};

static const struct form {
	const char *name; /* NULL: there is no such opcode, or it is a vendor's */
	uint16_t parts;
} forms[OPCODE_MASK + 1] = {
	[ISCSI_NOP_OUT] = { "NOP-Out", HAS_DATA | HAS_I | HAS_LUN | HAS_TTT | HAS_CMD_SN |
					       IS_FINAL | ITT_ANY },
	[ISCSI_SCSI_COMMAND] = { "SCSI Command", HAS_DATA | HAS_I | HAS_LUN | HAS_CMD_SN },
	[ISCSI_TASK_REQUEST] = { "Task Management Request", HAS_I | HAS_LUN | HAS_CMD_SN |
								    HAS_DATA_SN | IS_FINAL |
								    CODE_SECOND },
	[ISCSI_LOGIN_REQUEST] = { "Login Request", HAS_DATA | HAS_I | HAS_CMD_SN },
	[ISCSI_TEXT_REQUEST] = { "Text Request",
				 HAS_DATA | HAS_I | HAS_LUN | HAS_TTT | HAS_CMD_SN },
	[ISCSI_DATA_OUT] = { "SCSI Data-Out",
			     HAS_DATA | HAS_LUN | HAS_TTT | HAS_DATA_SN | HAS_OFFSET },
	[ISCSI_LOGOUT_REQUEST] = { "Logout Request", HAS_I | HAS_CMD_SN | IS_FINAL | CODE_SECOND },
	[ISCSI_SNACK] = { "SNACK Request", HAS_LUN | HAS_TTT | IS_FINAL | CODE_SECOND | ITT_ANY },
	[ISCSI_NOP_IN] = { "NOP-In", HAS_DATA | HAS_LUN | HAS_TTT | IS_FINAL | ITT_ANY },
	[ISCSI_SCSI_RESPONSE] = { "SCSI Response",
				  HAS_DATA | HAS_TTT | HAS_DATA_SN | IS_FINAL | CODE_THIRD },
	[ISCSI_TASK_RESPONSE] = { "Task Management Response", IS_FINAL | CODE_THIRD },
	[ISCSI_LOGIN_RESPONSE] = { "Login Response", HAS_DATA },
	[ISCSI_TEXT_RESPONSE] = { "Text Response", HAS_DATA | HAS_LUN | HAS_TTT },
	[ISCSI_DATA_IN] = { "SCSI Data-In",
			    HAS_DATA | HAS_LUN | HAS_TTT | HAS_DATA_SN | HAS_OFFSET },
	[ISCSI_LOGOUT_RESPONSE] = { "Logout Response", IS_FINAL | CODE_THIRD },
	[ISCSI_R2T] = { "R2T", HAS_LUN | HAS_TTT | HAS_DATA_SN | HAS_OFFSET | IS_FINAL },
	[ISCSI_ASYNC] = { "Asynchronous Message", HAS_DATA | HAS_LUN | IS_FINAL | ITT_NONE },
	[ISCSI_REJECT] = { "Reject", HAS_DATA | HAS_DATA_SN | IS_FINAL | CODE_THIRD | ITT_NONE },
};

const char *iscsi_opcode_name(uint8_t opcode)
{
	const char *name = opcode <= OPCODE_MASK ? forms[opcode].name : NULL;

	return name ? name : "unknown PDU";
}

/* Section 11.2.1.2: the opcodes of targets are those from 0x20 on. */
static enum iscsi_side opcode_sender(uint8_t opcode)
{
	return opcode < ISCSI_NOP_IN ? ISCSI_INITIATOR : ISCSI_TARGET;
}

/* The BHS as all PDUs have it. */
struct bhs {
	uint8_t opcode;
	uint8_t bytes[4]; /* the first four */
	uint8_t ahs_words;
	uint32_t data_bytes;
	uint64_t lun;
	uint32_t itt, ttt;
	uint32_t words[6]; /* from byte 24 on */
};

enum { AT_24, AT_28, AT_32, AT_36, AT_40, AT_44, WORDS };

static void bhs_read(struct bhs *h, struct rd *r)
{
	uint32_t lengths;

	rd_bytes(r, h->bytes, sizeof(h->bytes));
	h->opcode = h->bytes[0] & OPCODE_MASK;
	lengths = rd_u32(r);
	h->ahs_words = (uint8_t)(lengths >> 24);
	h->data_bytes = lengths & ISCSI_DATA_MAX;
	h->lun = rd_u64(r);
	h->itt = rd_u32(r);
	h->ttt = rd_u32(r);
	for (int i = 0; i < WORDS; i++)
		h->words[i] = rd_u32(r);
}

static void bhs_write(const struct bhs *h, struct wr *w)
{
	wr_bytes(w, h->bytes, sizeof(h->bytes));
	wr_u32(w, (uint32_t)h->ahs_words << 24 | (h->data_bytes & ISCSI_DATA_MAX));
	wr_u64(w, h->lun);
	wr_u32(w, h->itt);
	wr_u32(w, h->ttt);
	for (int i = 0; i < WORDS; i++)
		wr_u32(w, h->words[i]);
}

/* ---- Lengths -------------------------------------------------------------------------------- */

uint32_t iscsi_header_bytes(const uint8_t bhs[ISCSI_BHS_BYTES])
{
	return ISCSI_BHS_BYTES + 4 * (uint32_t)bhs[4];
}

uint32_t iscsi_data_bytes(const uint8_t bhs[ISCSI_BHS_BYTES])
{
	return (uint32_t)bhs[5] << 16 | (uint32_t)bhs[6] << 8 | bhs[7];
}

uint32_t iscsi_pdu_bytes(const uint8_t bhs[ISCSI_BHS_BYTES], bool has_header_digest,
			 bool has_data_digest)
{
	uint32_t bytes = iscsi_header_bytes(bhs), data_bytes = iscsi_data_bytes(bhs);

	bytes += has_header_digest ? ISCSI_DIGEST_BYTES : 0;
	if (data_bytes == 0)
		return bytes;
	return bytes + data_bytes + iscsi_pad(data_bytes) +
	       (has_data_digest ? ISCSI_DIGEST_BYTES : 0);
}

/* ---- Additional header segments ------------------------------------------------------------- */

/* Section 11.2.2: one segment, from its length field to its padding. */
static enum weft_reason ahs_decode_one(struct iscsi_pdu *p, struct rd *r)
{
	uint16_t length = rd_u16(r);
	uint8_t type = rd_u8(r) & AHS_TYPE_MASK;
	/* The padding makes a full number of words, with the three bytes before the content. */
	uint32_t padded_bytes = length + iscsi_pad(3u + length);
	struct rd content = *r;

	if (r->is_short || (uint32_t)(r->end - r->at) < padded_bytes)
		return WEFT_R_ISCSI_AHS;
	r->at += padded_bytes;
	(void)rd_u8(&content); /* reserved */
	if (type == AHS_CDB) {
		/* It is not used for what the BHS holds, and there is one of a kind. */
		if (length < 2 || p->cdb_more_bytes > 0)
			return WEFT_R_ISCSI_AHS;
		p->cdb_more = content.at;
		p->cdb_more_bytes = (uint16_t)(length - 1);
		return WEFT_OK;
	}
	if (type != AHS_READ_LENGTH || length != AHS_READ_BYTES || p->has_read_expected)
		return WEFT_R_ISCSI_AHS;
	p->has_read_expected = true;
	p->read_expected_bytes = rd_u32(&content);
	return WEFT_OK;
}

/* At most one of each kind, so at most two. */
static enum weft_reason ahs_decode(struct iscsi_pdu *p, struct rd r)
{
	enum weft_reason reason = WEFT_OK;

	while (r.at < r.end && reason == WEFT_OK)
		reason = ahs_decode_one(p, &r);
	return reason;
}

uint32_t iscsi_ahs_bytes(const struct iscsi_pdu *p)
{
	uint32_t cdb = p->cdb_more_bytes > 0 ? 4u + p->cdb_more_bytes : 0;

	if (p->opcode != ISCSI_SCSI_COMMAND)
		return 0;
	return cdb + iscsi_pad(cdb) + (p->has_read_expected ? 3 + AHS_READ_BYTES : 0);
}

static void ahs_encode(const struct iscsi_pdu *p, struct wr *w)
{
	static const uint8_t zeros[ISCSI_PAD_MAX];

	if (p->cdb_more_bytes > 0) {
		wr_u16(w, (uint16_t)(1 + p->cdb_more_bytes));
		wr_u16(w, AHS_CDB << 8);
		wr_bytes(w, p->cdb_more, p->cdb_more_bytes);
		wr_bytes(w, zeros, iscsi_pad(p->cdb_more_bytes));
	}
	if (p->has_read_expected) {
		wr_u16(w, AHS_READ_BYTES);
		wr_u16(w, AHS_READ_LENGTH << 8);
		wr_u32(w, p->read_expected_bytes);
	}
}

/* ---- Fields --------------------------------------------------------------------------------- */

static void command_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	struct wr cdb = wr_of(p->cdb, sizeof(p->cdb));

	p->is_read = h->bytes[1] & COMMAND_R;
	p->is_write = h->bytes[1] & COMMAND_W;
	p->attr = h->bytes[1] & COMMAND_ATTR_MASK;
	p->expected_bytes = h->ttt;
	for (int i = AT_32; i <= AT_44; i++)
		wr_u32(&cdb, h->words[i]);
}

static void command_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	struct rd cdb = rd_of(p->cdb, sizeof(p->cdb));

	h->bytes[1] |= (uint8_t)((p->is_read ? COMMAND_R : 0) | (p->is_write ? COMMAND_W : 0) |
				 (p->attr & COMMAND_ATTR_MASK));
	h->ttt = p->expected_bytes;
	for (int i = AT_32; i <= AT_44; i++)
		h->words[i] = rd_u32(&cdb);
}

/* Of a SCSI Response, or of Data-In that ends its command. */
static void status_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	p->is_overflow = h->bytes[1] & RESIDUAL_O;
	p->is_underflow = h->bytes[1] & RESIDUAL_U;
	p->status = h->bytes[3];
	p->residual = h->words[AT_44];
}

static void status_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	h->bytes[1] |= (uint8_t)((p->is_overflow ? RESIDUAL_O : 0) |
				 (p->is_underflow ? RESIDUAL_U : 0));
	h->bytes[3] = p->status;
	h->words[AT_44] = p->residual;
}

static void data_in_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	p->wants_ack = h->bytes[1] & DATA_A;
	p->has_status = h->bytes[1] & DATA_S;
	if (p->has_status)
		status_decode(p, h);
	/* Sections 11.7.3 and 11.7.4: without the bits the fields are reserved. */
	p->stat_sn = p->has_status ? p->stat_sn : 0;
	p->lun = p->wants_ack ? p->lun : 0;
	p->ttt = p->wants_ack ? p->ttt : ISCSI_TAG_NONE;
}

static void data_in_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	h->bytes[1] |= (uint8_t)((p->wants_ack ? DATA_A : 0) | (p->has_status ? DATA_S : 0));
	if (p->has_status)
		status_encode(p, h);
	h->words[AT_24] = p->has_status ? p->stat_sn : 0;
	h->lun = p->wants_ack ? p->lun : 0;
	h->ttt = p->wants_ack ? p->ttt : ISCSI_TAG_NONE;
}

/* Both kinds of Login, which have ISID and TSIH in place of a LUN. */
static void login_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	p->is_continued = h->bytes[1] & BIT_C;
	p->csg = h->bytes[1] >> CSG_SHIFT & STAGE_MASK;
	p->nsg = p->is_final ? h->bytes[1] & STAGE_MASK : 0;
	p->version_max = h->bytes[2];
	p->version = h->bytes[3];
	p->isid = h->lun >> 16;
	p->tsih = (uint16_t)h->lun;
	if (p->opcode == ISCSI_LOGIN_REQUEST) {
		p->cid = (uint16_t)(h->ttt >> 16);
	} else {
		p->status_class = (uint8_t)(h->words[AT_36] >> 24);
		p->status_detail = (uint8_t)(h->words[AT_36] >> 16);
	}
}

static void login_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	unsigned int stages = (unsigned int)(p->csg & STAGE_MASK) << CSG_SHIFT |
			      (p->is_final ? p->nsg & STAGE_MASK : 0);

	h->bytes[1] |= (uint8_t)((p->is_continued ? BIT_C : 0) | stages);
	h->bytes[2] = p->version_max;
	h->bytes[3] = p->version;
	h->lun = p->isid << 16 | p->tsih;
	if (p->opcode == ISCSI_LOGIN_REQUEST) {
		h->bytes[0] |= BIT_I; /* section 11.12: always immediate */
		h->ttt = (uint32_t)p->cid << 16;
	} else {
		h->words[AT_36] = (uint32_t)p->status_class << 24 | (uint32_t)p->status_detail
									    << 16;
	}
}

static void async_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	p->code = (uint8_t)(h->words[AT_36] >> 24);
	p->vendor_code = (uint8_t)(h->words[AT_36] >> 16);
	p->parameters[0] = (uint16_t)h->words[AT_36];
	p->parameters[1] = (uint16_t)(h->words[AT_40] >> 16);
	p->parameters[2] = (uint16_t)h->words[AT_40];
}

static void async_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	h->words[AT_36] = (uint32_t)p->code << 24 | (uint32_t)p->vendor_code << 16 |
			  p->parameters[0];
	h->words[AT_40] = (uint32_t)p->parameters[1] << 16 | p->parameters[2];
}

/* What only PDUs of this opcode have. */
static void special_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	switch (p->opcode) {
	case ISCSI_SCSI_COMMAND:
		command_decode(p, h);
		break;
	case ISCSI_SCSI_RESPONSE:
		status_decode(p, h);
		p->is_read_overflow = h->bytes[1] & RESPONSE_READ_O;
		p->is_read_underflow = h->bytes[1] & RESPONSE_READ_U;
		p->read_residual = h->words[AT_40];
		break;
	case ISCSI_TASK_REQUEST:
		p->ref_itt = h->ttt;
		p->ref_cmd_sn = h->words[AT_32];
		break;
	case ISCSI_LOGIN_REQUEST:
	case ISCSI_LOGIN_RESPONSE:
		login_decode(p, h);
		break;
	case ISCSI_TEXT_REQUEST:
	case ISCSI_TEXT_RESPONSE:
		p->is_continued = h->bytes[1] & BIT_C;
		break;
	case ISCSI_DATA_IN:
		data_in_decode(p, h);
		break;
	case ISCSI_R2T:
		p->desired_bytes = h->words[AT_44];
		break;
	case ISCSI_LOGOUT_REQUEST:
		p->cid = (uint16_t)(h->ttt >> 16);
		break;
	case ISCSI_LOGOUT_RESPONSE:
		p->time2wait = (uint16_t)(h->words[AT_40] >> 16);
		p->time2retain = (uint16_t)h->words[AT_40];
		break;
	case ISCSI_SNACK:
		p->code &= SNACK_MASK;
		p->beg_run = h->words[AT_40];
		p->run_length = h->words[AT_44];
		break;
	case ISCSI_ASYNC:
		async_decode(p, h);
		break;
	default:
		break;
	}
}

static void special_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	switch (p->opcode) {
	case ISCSI_SCSI_COMMAND:
		command_encode(p, h);
		break;
	case ISCSI_SCSI_RESPONSE:
		status_encode(p, h);
		h->bytes[1] |= (uint8_t)((p->is_read_overflow ? RESPONSE_READ_O : 0) |
					 (p->is_read_underflow ? RESPONSE_READ_U : 0));
		h->words[AT_40] = p->read_residual;
		break;
	case ISCSI_TASK_REQUEST:
		h->ttt = p->ref_itt;
		h->words[AT_32] = p->ref_cmd_sn;
		break;
	case ISCSI_LOGIN_REQUEST:
	case ISCSI_LOGIN_RESPONSE:
		login_encode(p, h);
		break;
	case ISCSI_TEXT_REQUEST:
	case ISCSI_TEXT_RESPONSE:
		h->bytes[1] |= p->is_continued ? BIT_C : 0;
		break;
	case ISCSI_DATA_IN:
		data_in_encode(p, h);
		break;
	case ISCSI_R2T:
		h->words[AT_44] = p->desired_bytes;
		break;
	case ISCSI_LOGOUT_REQUEST:
		h->ttt = (uint32_t)p->cid << 16;
		break;
	case ISCSI_LOGOUT_RESPONSE:
		h->words[AT_40] = (uint32_t)p->time2wait << 16 | p->time2retain;
		break;
	case ISCSI_SNACK:
		h->words[AT_40] = p->beg_run;
		h->words[AT_44] = p->run_length;
		break;
	case ISCSI_ASYNC:
		async_encode(p, h);
		break;
	default:
		break;
	}
}

static void fields_decode(struct iscsi_pdu *p, const struct bhs *h)
{
	uint32_t parts = forms[h->opcode].parts;

	*p = (struct iscsi_pdu){ .opcode = h->opcode,
				 .is_immediate = (parts & HAS_I) && (h->bytes[0] & BIT_I),
				 .is_final = h->bytes[1] & BIT_F,
				 .data_bytes = h->data_bytes,
				 .lun = parts & HAS_LUN ? h->lun : 0,
				 .itt = h->itt,
				 .ttt = parts & HAS_TTT ? h->ttt : ISCSI_TAG_NONE,
				 .ref_itt = ISCSI_TAG_NONE };
	if (parts & CODE_SECOND)
		p->code = h->bytes[1] & CODE_MASK;
	if (parts & CODE_THIRD)
		p->code = h->bytes[2];
	if (opcode_sender(h->opcode) == ISCSI_INITIATOR) {
		p->cmd_sn = parts & HAS_CMD_SN ? h->words[AT_24] : 0;
		p->exp_stat_sn = h->words[AT_28];
	} else {
		p->stat_sn = h->words[AT_24];
		p->exp_cmd_sn = h->words[AT_28];
		p->max_cmd_sn = h->words[AT_32];
	}
	p->data_sn = parts & HAS_DATA_SN ? h->words[AT_36] : 0;
	p->offset = parts & HAS_OFFSET ? h->words[AT_40] : 0;
	special_decode(p, h);
}

static void fields_encode(const struct iscsi_pdu *p, struct bhs *h)
{
	uint32_t parts = forms[p->opcode].parts;

	*h = (struct bhs){ .opcode = p->opcode,
			   .ahs_words = (uint8_t)(iscsi_ahs_bytes(p) / 4),
			   .data_bytes = parts & HAS_DATA ? p->data_bytes : 0,
			   .lun = parts & HAS_LUN ? p->lun : 0,
			   .itt = parts & ITT_NONE ? ISCSI_TAG_NONE : p->itt,
			   .ttt = parts & HAS_TTT ? p->ttt : 0 };
	h->bytes[0] = p->opcode;
	h->bytes[0] |= (parts & HAS_I) && p->is_immediate ? BIT_I : 0;
	h->bytes[1] = (parts & IS_FINAL) || p->is_final ? BIT_F : 0;
	if (parts & CODE_SECOND)
		h->bytes[1] |= p->code & CODE_MASK;
	if (parts & CODE_THIRD)
		h->bytes[2] = p->code;
	if (opcode_sender(p->opcode) == ISCSI_INITIATOR) {
		h->words[AT_24] = parts & HAS_CMD_SN ? p->cmd_sn : 0;
		h->words[AT_28] = p->exp_stat_sn;
	} else {
		h->words[AT_24] = p->stat_sn;
		h->words[AT_28] = p->exp_cmd_sn;
		h->words[AT_32] = p->max_cmd_sn;
	}
	h->words[AT_36] = parts & HAS_DATA_SN ? p->data_sn : 0;
	h->words[AT_40] = parts & HAS_OFFSET ? p->offset : 0;
	special_encode(p, h);
}

/* ---- Whole headers -------------------------------------------------------------------------- */

/* What the table says of all PDUs. */
static enum weft_reason common_check(const struct iscsi_pdu *p, uint32_t data_limit)
{
	uint32_t parts = forms[p->opcode].parts;

	if (p->data_bytes > 0 && !(parts & HAS_DATA))
		return WEFT_R_ISCSI_DATA_LENGTH;
	if (p->data_bytes > data_limit)
		return WEFT_R_ISCSI_DATA_LIMIT;
	if ((parts & IS_FINAL) && !p->is_final)
		return WEFT_R_ISCSI_FLAGS;
	if (!iscsi_code_is_defined(p))
		return WEFT_R_ISCSI_CODE;
	if (!(parts & ITT_ANY) && (p->itt == ISCSI_TAG_NONE) != !!(parts & ITT_NONE))
		return WEFT_R_ISCSI_TAG;
	return WEFT_OK;
}

enum weft_reason iscsi_decode(struct iscsi_pdu *p, enum iscsi_side sender, struct rd header,
			      uint32_t data_limit)
{
	enum weft_reason reason;
	struct iscsi_pdu v;
	struct bhs h;

	bhs_read(&h, &header);
	if (header.is_short)
		return WEFT_R_ISCSI_SHORT;
	if (!forms[h.opcode].name)
		return WEFT_R_ISCSI_OPCODE;
	if (opcode_sender(h.opcode) != sender)
		return WEFT_R_ISCSI_DIRECTION;
	/* Section 11.2.1.4: only commands have additional segments. */
	if (h.ahs_words > 0 && h.opcode != ISCSI_SCSI_COMMAND)
		return WEFT_R_ISCSI_AHS;
	if ((size_t)(header.end - header.at) < 4 * (size_t)h.ahs_words)
		return WEFT_R_ISCSI_SHORT;
	fields_decode(&v, &h);
	reason = ahs_decode(&v, rd_of(header.at, 4 * (size_t)h.ahs_words));
	if (reason == WEFT_OK)
		reason = common_check(&v, data_limit);
	if (reason == WEFT_OK)
		reason = iscsi_rules_check(&v);
	if (reason == WEFT_OK)
		*p = v;
	return reason;
}

void iscsi_encode(const struct iscsi_pdu *p, struct wr *w)
{
	struct bhs h;

	CHECK(p->opcode <= OPCODE_MASK && forms[p->opcode].name);
	CHECK(p->data_bytes <= ISCSI_DATA_MAX && iscsi_ahs_bytes(p) <= ISCSI_AHS_MAX);
	fields_encode(p, &h);
	bhs_write(&h, w);
	if (p->opcode == ISCSI_SCSI_COMMAND)
		ahs_encode(p, w);
}

/* ---- Digests and sense data ----------------------------------------------------------------- */

uint32_t iscsi_digest_decode(const uint8_t bytes[ISCSI_DIGEST_BYTES])
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

void iscsi_digest_encode(uint32_t digest, uint8_t bytes[ISCSI_DIGEST_BYTES])
{
	for (int i = 0; i < ISCSI_DIGEST_BYTES; i++, digest >>= 8)
		bytes[i] = (uint8_t)digest;
}

uint32_t iscsi_header_digest(const uint8_t *header, size_t length)
{
	return crc32c_end(crc32c_add(CRC32C_BEGIN, header, length));
}

uint32_t iscsi_data_digest(uint32_t crc, uint32_t data_bytes)
{
	static const uint8_t zeros[ISCSI_PAD_MAX];

	return crc32c_end(crc32c_add(crc, zeros, iscsi_pad(data_bytes)));
}

enum weft_reason iscsi_header_check(const uint8_t *header, size_t length,
				    const uint8_t digest[ISCSI_DIGEST_BYTES])
{
	if (iscsi_header_digest(header, length) != iscsi_digest_decode(digest))
		return WEFT_R_ISCSI_HEADER_DIGEST;
	return WEFT_OK;
}

enum weft_reason iscsi_data_check(uint32_t crc, const uint8_t digest[ISCSI_DIGEST_BYTES])
{
	if (crc32c_end(crc) != iscsi_digest_decode(digest))
		return WEFT_R_ISCSI_DATA_DIGEST;
	return WEFT_OK;
}

enum weft_reason iscsi_sense_decode(struct iscsi_sense *s, const uint8_t *data, size_t length)
{
	struct rd r = rd_of(data, length);
	uint16_t sense_bytes = length > 0 ? rd_u16(&r) : 0;

	if (r.is_short || (size_t)(r.end - r.at) < sense_bytes)
		return WEFT_R_ISCSI_DATA_LENGTH;
	*s = (struct iscsi_sense){ .sense = r.at, .sense_bytes = sense_bytes };
	s->more_bytes = (uint32_t)(r.end - r.at) - sense_bytes;
	s->more = s->more_bytes > 0 ? r.at + sense_bytes : r.at;
	return WEFT_OK;
}
