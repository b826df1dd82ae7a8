/* SPDX-License-Identifier: BSD-2-Clause */
#include "speak.h"

#include <string.h>

#include "base/crc.h"
#include "test.h"
#include "wire/ddp.h"

enum { ULPDU_MAX = 65535 };

static struct wr room(struct speak *s, uint32_t bytes)
{
	struct wr w = wr_of(s->bytes + s->length, bytes);

	REQUIRE(s->length + bytes <= SPEAK_MAX);
	s->length += bytes;
	return w;
}

void speak_start(struct speak *s, const struct mpa_start *start, const struct mpa_enhanced *e)
{
	struct wr w = room(s, MPA_START_BYTES + start->private_bytes);

	mpa_start_encode(start, &w);
	if (start->is_enhanced)
		mpa_enhanced_encode(e, &w);
	for (uint8_t i = 0; w.at < w.end; i++)
		wr_u8(&w, i);
	s->begin = s->length;
}

/* One byte of an FPDU that began at fpdu; before it the marker that is due. */
static void put(struct speak *s, uint8_t byte, uint32_t *fpdu)
{
	if (s->has_markers && (s->length - s->begin) % MPA_MARKER_EVERY == 0) {
		bool is_first = s->length == *fpdu;
		uint32_t back = s->length - *fpdu;
		struct wr w = room(s, MPA_MARKER_BYTES);

		mpa_marker_encode(is_first ? 0 : (uint16_t)back, &w);
		if (is_first)
			*fpdu = s->length;
	}
	REQUIRE(s->length < SPEAK_MAX);
	s->bytes[s->length++] = byte;
}

void speak_fpdu(struct speak *s, const uint8_t *ulpdu, uint32_t length)
{
	uint32_t begin = s->length, fpdu = begin, crc, tail;

	put(s, (uint8_t)(length >> 8), &fpdu);
	put(s, (uint8_t)length, &fpdu);
	for (uint32_t i = 0; i < length; i++)
		put(s, ulpdu[i], &fpdu);
	for (uint32_t i = 0; i < mpa_pad(length); i++)
		put(s, 0, &fpdu);
	tail = s->length;
	/* A marker before the CRC is covered by it; the CRC is put in when its place is known. */
	for (int i = 0; i < MPA_CRC_BYTES; i++)
		put(s, 0, &fpdu);
	if (s->length - tail > MPA_CRC_BYTES)
		tail += MPA_MARKER_BYTES;
	if (!s->has_crc)
		return;
	crc = crc32c_end(crc32c_add(CRC32C_BEGIN, s->bytes + begin, tail - begin));
	for (int i = 0; i < MPA_CRC_BYTES; i++)
		s->bytes[tail + (uint32_t)i] = (uint8_t)(crc >> 8 * i);
}

void speak_tagged(struct speak *s, struct speak_segment g)
{
	uint8_t ulpdu[ULPDU_MAX] = { 0 };
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));

	ddp_tagged_encode(&(struct ddp_tagged){ !g.is_more, rdmap_control_encode(g.opcode), g.stag,
						g.offset },
			  &w);
	speak_fpdu(s, ulpdu, DDP_TAGGED_BYTES + g.bytes);
}

void speak_untagged(struct speak *s, struct speak_segment g)
{
	uint8_t ulpdu[ULPDU_MAX] = { 0 };
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));

	ddp_untagged_encode(&(struct ddp_untagged){ !g.is_more, rdmap_control_encode(g.opcode),
						    g.stag, g.qn, g.msn, (uint32_t)g.offset },
			    &w);
	speak_fpdu(s, ulpdu, DDP_UNTAGGED_BYTES + g.bytes);
}

void speak_body(struct speak *s, enum rdmap_opcode opcode, uint32_t msn, const uint8_t *body,
		uint32_t length)
{
	static const uint8_t queues[RDMAP_OPCODE_COUNT] = {
		[RDMAP_READ_REQUEST] = 1,
		[RDMAP_TERMINATE] = 2,
		[RDMAP_ATOMIC_REQUEST] = 1,
		[RDMAP_ATOMIC_RESPONSE] = 3,
	};
	uint8_t ulpdu[ULPDU_MAX] = { 0 };
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));

	ddp_untagged_encode(&(struct ddp_untagged){ true, rdmap_control_encode(opcode), 0,
						    queues[opcode], msn, 0 },
			    &w);
	memcpy(w.at, body, length);
	speak_fpdu(s, ulpdu, DDP_UNTAGGED_BYTES + length);
}

void speak_read(struct speak *s, uint32_t msn, uint32_t size)
{
	const struct rdmap_read_request q = { 0x11, 0x1000, size, 0x22, 0x2000 };
	uint8_t body[RDMAP_READ_REQUEST_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	rdmap_read_request_encode(&q, &w);
	speak_body(s, RDMAP_READ_REQUEST, msn, body, sizeof(body));
}
