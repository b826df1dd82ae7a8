/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording of Linux siw, read whole: its TCP streams in order, and every FPDU of them decoded
 * by the codecs of wire/, encoded again and compared byte for byte. What it means is for the tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { GOLDEN_CONNECTIONS = 2, GOLDEN_MESSAGES = 80 };

struct golden_message {
	enum rdmap_opcode opcode;
	uint32_t stag; /* untagged: the 32 bits of RDMAP */
	uint64_t to;
	uint32_t qn, msn;
	uint32_t fpdus;
	uint8_t *payload; /* with a body, that */
	uint32_t bytes;
	uint8_t ddp[18]; /* the header of its first segment */
	struct rdmap_read_request read;
	struct rdmap_terminate terminate;
};

struct golden_side {
	uint8_t *stream;
	size_t bytes;
	bool has_start;
	struct mpa_start start;
	struct mpa_enhanced enhanced;
	const uint8_t *data; /* private, without the enhanced part */
	uint32_t data_bytes;
	struct golden_message messages[GOLDEN_MESSAGES];
	uint32_t count;
	uint32_t ulpdu_max; /* the longest ULPDU there was */
};

struct golden_connection {
	struct golden_side sides[2]; /* 0 sent the SYN */
	uint16_t ports[2];
};

struct golden {
	struct golden_connection *connections;
	uint32_t count;
	char *text; /* what stands beside the recording */
};

/*
 * Reads tests/golden/siw/NAME. Fails the test if a byte is not as the codecs say, if a message does
 * not follow its queue's last, or if the dissector of `weft dump` sees other messages.
 */
struct golden *golden_open(const char *name);
void golden_close(struct golden *own_g);
