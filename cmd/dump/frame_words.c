/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/frame_words.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/dump/roce_words.h"
#include "wire/iba_frame.h"
#include "wire/pm_attr.h"
#include "wire/sm_attr.h"
#include "wire/smp.h"

enum { QPN_SUBNET = 0, GREATEST_DECIMAL = 9999 };

/* ---- Management ----------------------------------------------------------------------------- */

static const char *method_name(uint8_t method)
{
	switch (method) {
	case MAD_GET:
		return "Get";
	case MAD_SET:
		return "Set";
	case MAD_SEND:
		return "Send";
	case MAD_TRAP:
		return "Trap";
	case MAD_REPORT:
		return "Report";
	case MAD_TRAP_REPRESS:
		return "TrapRepress";
	case MAD_GET_RESPONSE:
		return "GetResp";
	case MAD_REPORT_RESPONSE:
		return "ReportResp";
	default:
		return "unknown method";
	}
}

/* All of it, as that is what the capture was taken for; what is zero is not said. */
static void say_fields(struct line *l, const struct mad_layout *layout, const void *value)
{
	for (uint16_t i = 0; i < layout->field_count; i++) {
		const struct mad_field *f = &layout->fields[i];
		uint32_t used = f->count;

		while (used > 0 && mad_field_value(f, value, used - 1) == 0)
			used--;
		if (used > 0)
			line_say(l, ", %s", f->name);
		for (uint32_t n = 0; n < used; n++) {
			uint64_t v = mad_field_value(f, value, n);

			line_say(l, v <= GREATEST_DECIMAL ? " %" PRIu64 : " 0x%" PRIx64, v);
		}
	}
}

static void say_mad(struct line *l, const struct mad *m, const char *class_name,
		    const struct mad_layout *layout)
{
	line_say(l, ": %s %s ", class_name, method_name(m->method));
	if (layout)
		line_say(l, "%s", layout->name);
	else
		line_say(l, "attribute 0x%04x", m->attribute);
	line_say(l, " 0x%" PRIx32 ", id %" PRIx64, m->modifier, m->tid);
	if (m->status)
		line_say(l, ", status 0x%04x", m->status);
}

static void say_route(struct line *l, const struct smp *s)
{
	line_say(l, ", %s hop %u of", s->is_returning ? "back at" : "at", s->hop_pointer);
	for (uint8_t i = 1; i <= s->hop_count; i++)
		line_say(l, "%c%u", i == 1 ? ' ' : ',', s->there[i]);
	if (s->hop_count == 0)
		line_say(l, " none");
}

static void say_smp(struct line *l, const struct iba_packet *p, struct frame_item *item)
{
	const struct mad_layout *layout;
	enum weft_reason reason;
	uint8_t again[MAD_BYTES];
	union sm_value value;
	struct smp s;

	reason = smp_decode(&s, p->payload, p->payload_bytes);
	if (reason == WEFT_OK) {
		layout = sm_layout(s.mad.attribute);
		say_mad(l, &s.mad, "SMP", layout);
		if (s.is_directed)
			say_route(l, &s);
		if (layout)
			reason = mad_layout_decode(layout, &value, s.data);
		if (layout && reason == WEFT_OK) {
			say_fields(l, layout, &value);
			mad_layout_encode(layout, &value, s.data);
		}
		smp_encode(&s, again);
	}
	if (reason != WEFT_OK)
		snprintf(item->fault, sizeof(item->fault), "%s", weft_reason_text(reason));
	else if (memcmp(again, p->payload, sizeof(again)) != 0)
		snprintf(item->fault, sizeof(item->fault), "reserved bits are set");
}

static void say_performance(struct line *l, const struct iba_packet *p, struct frame_item *item)
{
	const struct mad_layout *layout;
	union pm_value value;
	struct mad m;

	if (mad_decode(&m, p->payload, p->payload_bytes) != WEFT_OK ||
	    m.mgmt_class != MAD_PERFORMANCE)
		return;
	layout = pm_layout(m.attribute);
	say_mad(l, &m, "performance", layout);
	if (!layout)
		return;
	if (mad_layout_decode(layout, &value, p->payload + PM_DATA_AT) == WEFT_OK)
		say_fields(l, layout, &value);
	(void)item;
}

/* ---- Frames --------------------------------------------------------------------------------- */

static void say_gid(struct line *l, const uint8_t gid[IBA_GID_BYTES])
{
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(AF_INET6, gid, text, sizeof(text));
	line_say(l, "%s", text);
}

static void say_headers(struct line *l, const struct iba_frame *f)
{
	line_say(l, "LID %u > %u, lane %u, level %u", f->lrh.from, f->lrh.to, f->lrh.lane,
		 f->lrh.level);
	if (f->has_grh) {
		line_say(l, ", ");
		say_gid(l, f->grh.from);
		line_say(l, " > ");
		say_gid(l, f->grh.to);
		line_say(l, ", hop limit %u", f->grh.hop_limit);
	}
	if (!f->has_packet)
		line_say(l, "  raw, %" PRIu32 " bytes", f->lrh.bytes);
}

void frame_item_of(const struct packet *p, struct frame_item *item)
{
	const uint8_t *bytes = p->data.at;
	size_t length = (size_t)(p->data.end - bytes);
	struct line l = { item->text, sizeof(item->text) };
	uint8_t again[IBA_LRH_BYTES];
	struct iba_frame f;
	enum weft_reason r;

	item->text[0] = item->fault[0] = '\0';
	if (p->lacks_bytes > 0) {
		snprintf(item->fault, sizeof(item->fault),
			 "%" PRIu32 " bytes are missing from the capture", p->lacks_bytes);
		return;
	}
	r = iba_frame_decode(&f, bytes, length);
	if (r != WEFT_OK) {
		snprintf(item->fault, sizeof(item->fault), "%s", weft_reason_text(r));
		return;
	}
	say_headers(&l, &f);
	iba_lrh_encode(&f.lrh, again);
	if (memcmp(again, bytes, sizeof(again)) != 0)
		snprintf(item->fault, sizeof(item->fault), "reserved bits are set");
	if (!f.has_packet)
		return;
	iba_packet_words(&f.packet, 1, &l);
	if (f.packet.opcode != IBA_UD_SEND)
		return;
	if (f.packet.dest_qp == QPN_SUBNET)
		say_smp(&l, &f.packet, item);
	else if (f.packet.dest_qp == IBA_QPN_GSI)
		say_performance(&l, &f.packet, item);
}
