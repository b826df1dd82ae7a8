/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/refusal.h"

#include <string.h>

#include "base/check.h"

static const uint16_t of_sgl[SGL_ERR_COUNT] = {
	[SGL_OK] = WEFT_OK,
	[SGL_ERR_SHORT] = WEFT_R_SGL_SHORT,
	[SGL_ERR_KIND] = WEFT_R_SGL_KIND,
	[SGL_ERR_LENGTH] = WEFT_R_SGL_ELEMENT_LENGTH,
	[SGL_ERR_RESERVED] = WEFT_R_SGL_RESERVED,
	[SGL_ERR_ATTRIBUTES] = WEFT_R_SGL_ATTRIBUTES,
	[SGL_ERR_OPERATION] = WEFT_R_SGL_OPERATION,
	[SGL_ERR_FLAGS] = WEFT_R_SGL_FLAGS,
	[SGL_ERR_ROLE] = WEFT_R_SGL_ROLE,
	[SGL_ERR_UNIT] = WEFT_R_SGL_UNIT,
	[SGL_ERR_EMPTY] = WEFT_R_SGL_EMPTY,
	[SGL_ERR_FLUSH] = WEFT_R_SGL_FLUSH,
	[SGL_ERR_CHAIN] = WEFT_R_SGL_CHAIN_LENGTH,
	[SGL_ERR_WRAP] = WEFT_R_SGL_WRAP,
};

static const uint16_t of_msg[RIO_MSG_ERR_COUNT] = {
	[RIO_MSG_OK] = WEFT_OK,
	[RIO_MSG_ERR_SHORT] = WEFT_R_RIO_SHORT,
	[RIO_MSG_ERR_MAGIC] = WEFT_R_RIO_MAGIC,
	[RIO_MSG_ERR_VERSION] = WEFT_R_RIO_VERSION,
	[RIO_MSG_ERR_TYPE] = WEFT_R_RIO_TYPE,
	[RIO_MSG_ERR_LENGTH] = WEFT_R_RIO_LENGTH,
	[RIO_MSG_ERR_SEQUENCE] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_RESERVED] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_UNIT] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_ROLE] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_ADDRESS] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_LIST] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_TEXT] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_DEVICE] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_ASK] = WEFT_R_RIO_FORM,
	[RIO_MSG_ERR_SEEN] = WEFT_R_RIO_FORM,
};

_Static_assert(WEFT_REASON_COUNT <= UINT16_MAX, "a reason fits its field");

enum weft_reason refusal_of_sgl(enum sgl_err err)
{
	CHECK((unsigned int)err < SGL_ERR_COUNT);
	return (enum weft_reason)of_sgl[err];
}

enum weft_reason refusal_of_msg(enum rio_msg_err err)
{
	CHECK((unsigned int)err < RIO_MSG_ERR_COUNT);
	return (enum weft_reason)of_msg[err];
}

/* Cuts the text at a character boundary. */
struct rio_bytes refusal_text(enum weft_reason reason)
{
	const char *text = weft_reason_text(reason);
	size_t length = strlen(text);

	if (length > RIO_TEXT_MAX) {
		length = RIO_TEXT_MAX;
		while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80)
			length--;
	}
	return (struct rio_bytes){ (const uint8_t *)text, length };
}
