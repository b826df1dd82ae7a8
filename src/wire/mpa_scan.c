/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa_scan.h"

static uint32_t start_frame(struct mpa_scan *s, struct rd head)
{
	struct mpa_start start;

	switch (mpa_start_decode(&start, &head)) {
	case MPA_OK:
		s->phase = MPA_SCAN_FPDU;
		s->wants_markers = start.wants_markers;
		return MPA_START_BYTES + start.private_bytes;
	case MPA_ERR_SHORT:
		return 0;
	default:
		s->phase = MPA_SCAN_LOST;
		return MPA_SCAN_ENDLESS;
	}
}

static uint32_t fpdu(struct mpa_scan *s, bool has_markers, struct rd head)
{
	uint32_t bytes;

	if (head.end - head.at < MPA_SCAN_FPDU_HEAD)
		return 0;
	if (has_markers && mpa_marker_front(s->position) > 0)
		(void)rd_u32(&head);
	bytes = mpa_fpdu_bytes(rd_u16(&head));
	if (has_markers)
		bytes = mpa_marked_bytes(s->position, bytes);
	s->position = (uint16_t)((s->position + bytes) % MPA_MARKER_EVERY);
	return bytes;
}

uint32_t mpa_scan_frame(struct mpa_scan *s, bool has_markers, struct rd head)
{
	switch ((enum mpa_scan_phase)s->phase) {
	case MPA_SCAN_START:
		return start_frame(s, head);
	case MPA_SCAN_FPDU:
		return fpdu(s, has_markers, head);
	case MPA_SCAN_LOST:
		break;
	}
	return MPA_SCAN_ENDLESS;
}
