/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of Login and Text PDUs (RFC 7143 section 6.1): key=value pairs, each ended by a zero
 * byte. One text may continue over several PDUs (the C bit), and a PDU may end inside a pair: the
 * caller gathers the pieces and reads the text once it is whole.
 *
 * Values are checked by the functions for their kind. Which key takes which kind:
 * iscsi/login/keys.h.
 */
#pragma once

#include <weft/reason.h>

#include "base/cursor.h"
#include "base/quantity.h"
#include "base/span.h"

enum {
	ISCSI_KEY_MAX = 63,
	ISCSI_SIMPLE_MAX = 255,	 /* of a simple value, not of its encoding */
	ISCSI_BINARY_MAX = 1024, /* of a binary value, decoded: RFC 7143 section 12.1.3 */
	ISCSI_NAME_MAX = 223,	 /* RFC 7143 section 4.2.7.1 */
	ISCSI_TEXT_MIN = 8192,	 /* what each end must be able to receive in one negotiation */
};

struct iscsi_pair {
	struct word key, value; /* point into the text */
};

/* ---- Reading and writing -------------------------------------------------------------------- */

/*
 * Reads the next pair; the caller stops at r->at == r->end. WEFT_R_ISCSI_TEXT: no zero byte, or no
 * '='. WEFT_R_ISCSI_KEY: the name. On error *r has not changed.
 */
enum weft_reason iscsi_text_next(struct rd *r, struct iscsi_pair *pair);

/* The first pair with this key. False: there is none before the end or before a fault. */
bool iscsi_text_find(const uint8_t *bytes, size_t length, const char *key, struct word *value);

/* Appends a pair, whole or not at all: then w->is_short. */
void iscsi_text_put(struct wr *w, const char *key, struct word value);
void iscsi_text_put_number(struct wr *w, const char *key, uint64_t number);

/* Appends a pair whose value is binary, in hexadecimal digits. */
void iscsi_text_put_binary(struct wr *w, const char *key, const uint8_t *bytes, size_t length);

/* A text that arrives in pieces, in memory of the caller. */
struct iscsi_text_in {
	struct span room;
	size_t length;
};

/* Appends a piece. WEFT_R_ISCSI_TEXT_LONG: the whole is longer than the room. */
enum weft_reason iscsi_text_gather(struct iscsi_text_in *t, const uint8_t *bytes, size_t length);

/* ---- Values --------------------------------------------------------------------------------- */

struct word iscsi_word(const char *text);

/*
 * A key-name is a standard-label. RFC 7143 lets it begin with a capital letter only, but two of its
 * keys begin with a small one (iSCSIProtocolLevel, iSERHelloRequired): any letter may be first.
 */
bool iscsi_is_label(struct word w);

/* A text-value: letters, digits and . - + @ _ / [ ] : of at most 255 bytes; also none. */
bool iscsi_is_text_value(struct word w);

/* An iSCSI-local-name-value: UTF-8 of at most 255 bytes. */
bool iscsi_is_local_name(struct word w);

/* Yes or No. */
bool iscsi_boolean(struct word w, bool *value);

/* A numerical-value: decimal, or hexadecimal after 0x or 0X; below 2^64. */
bool iscsi_number(struct word w, uint64_t *value);

/*
 * A binary-value: hexadecimal after 0x, base64 after 0b, or a decimal number below 2^64 in its
 * fewest bytes. Returns its bytes, 1 to room; 0: it is none, or does not fit.
 */
size_t iscsi_binary(struct word w, uint8_t *bytes, size_t room);

/* Takes the next item off a list-of-values. False: the list is empty. An item may be empty. */
bool iscsi_list_next(struct word *list, struct word *item);

/*
 * An iSCSI name in the form in which names are compared. RFC 3722 is applied as far as ASCII goes:
 * letters are made small, and of the rest only digits and - . : are allowed. Characters beyond
 * ASCII must be UTF-8 and stay as they are. WEFT_R_ISCSI_NAME: it is none.
 */
struct iscsi_name {
	char text[ISCSI_NAME_MAX + 1]; /* ended by a zero byte */
	uint8_t length;
};

enum weft_reason iscsi_name_normalise(struct word w, struct iscsi_name *name);
