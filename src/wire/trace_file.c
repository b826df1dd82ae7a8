/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trace_file.h"

/* Like that of PNG: the line ends show what a transfer as text would do to it. */
static const uint8_t magic[16] = { 0x89, 'w', 'e', 'f', 't',  ' ',  't',  'r',
				   'a',	 'c', 'e', ' ', '\r', '\n', 0x1a, '\n' };

void trace_file_head_encode(uint32_t pid, struct wr *w)
{
	for (size_t i = 0; i < sizeof(magic); i++)
		wr_u8(w, magic[i]);
	wr_u16(w, TRACE_FILE_VERSION);
	wr_u16(w, TRACE_FILE_RECORD_BYTES);
	wr_u32(w, pid);
	wr_u64(w, 0);
}

bool trace_file_head_decode(struct trace_file_head *h, struct rd *r)
{
	struct rd at = *r;
	struct trace_file_head v;
	bool is_good = true;

	for (size_t i = 0; i < sizeof(magic); i++)
		is_good &= rd_u8(&at) == magic[i];
	v.version = rd_u16(&at);
	v.record_bytes = rd_u16(&at);
	v.pid = rd_u32(&at);
	(void)rd_u64(&at);
	if (!is_good || at.is_short || v.record_bytes < TRACE_FILE_RECORD_BYTES ||
	    v.record_bytes > TRACE_FILE_RECORD_MAX)
		return false;
	*h = v;
	*r = at;
	return true;
}

void trace_file_record_encode(const struct trace_file_record *record, struct wr *w)
{
	const struct trace_event *e = &record->event;

	wr_u64(w, e->time_ns);
	wr_u64(w, e->a);
	wr_u64(w, e->b);
	wr_u32(w, record->adapter);
	wr_u32(w, e->who);
	wr_u16(w, e->kind);
	wr_u16(w, e->reason);
}

bool trace_file_record_decode(struct trace_file_record *record, struct rd *r)
{
	struct rd at = *r;
	struct trace_file_record v = { 0 };

	v.event.time_ns = rd_u64(&at);
	v.event.a = rd_u64(&at);
	v.event.b = rd_u64(&at);
	v.adapter = rd_u32(&at);
	v.event.who = rd_u32(&at);
	v.event.kind = rd_u16(&at);
	v.event.reason = rd_u16(&at);
	if (at.is_short)
		return false;
	*record = v;
	*r = at;
	return true;
}
