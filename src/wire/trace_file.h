/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of trace events: a head, then records of one size, in network byte order. A later version
 * may have larger records that begin with the fields of this version.
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/trace.h"

enum {
	TRACE_FILE_VERSION = 1,
	TRACE_FILE_HEAD_BYTES = 32,
	TRACE_FILE_RECORD_BYTES = 36,
	TRACE_FILE_RECORD_MAX = 256
};

struct trace_file_head {
	uint16_t version;
	uint16_t record_bytes;
	uint32_t pid; /* of the traced process */
};

void trace_file_head_encode(uint32_t pid, struct wr *w);

/* False: it is no trace file. The version may be unknown. */
bool trace_file_head_decode(struct trace_file_head *h, struct rd *r);

struct trace_file_record {
	uint32_t adapter;	  /* of the process, counted from 1 */
	struct trace_event event; /* its time is that of the wall clock, since 1970 */
};

void trace_file_record_encode(const struct trace_file_record *record, struct wr *w);

/* False: the record is truncated. */
bool trace_file_record_decode(struct trace_file_record *record, struct rd *r);
