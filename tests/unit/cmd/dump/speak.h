/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP as bytes, for tests of what reads it: each call adds to the stream of one side. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { SPEAK_MAX = 1 << 18 };

struct speak {
	uint8_t bytes[SPEAK_MAX];
	uint32_t length;
	uint32_t begin; /* where full operation begins */
	bool has_markers, has_crc;
};

/* The start frame; data of so many bytes, each its own index. */
void speak_start(struct speak *s, const struct mpa_start *start, const struct mpa_enhanced *e);

/* An FPDU around this ULPDU. */
void speak_fpdu(struct speak *s, const uint8_t *ulpdu, uint32_t length);

struct speak_segment {
	enum rdmap_opcode opcode;
	bool is_more; /* not the last */
	uint32_t stag, qn, msn;
	uint64_t offset;
	uint32_t bytes; /* of zeros */
};

void speak_tagged(struct speak *s, struct speak_segment g);
void speak_untagged(struct speak *s, struct speak_segment g);

/* An untagged message of one segment with this body. */
void speak_body(struct speak *s, enum rdmap_opcode opcode, uint32_t msn, const uint8_t *body,
		uint32_t length);
void speak_read(struct speak *s, uint32_t msn, uint32_t size);
