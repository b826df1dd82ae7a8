/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/rio_note.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES = 256 };

struct line {
	char *text;
	size_t room, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(l->text + l->used, l->room - l->used, format, args);
	va_end(args);
	if (length > 0)
		l->used += (size_t)length < l->room - l->used ? (size_t)length
							      : l->room - l->used - 1;
}

static void add_device(struct line *l, const struct rio_owner *o, uint32_t device)
{
	struct rio_device devices[DEVICES];

	for (uint32_t n = rio_owner_next(o, 0); n != UINT32_MAX; n = rio_owner_next(o, n + 1)) {
		uint32_t count = rio_owner_devices(o, n, devices, DEVICES);

		for (uint32_t i = 0; i < count; i++) {
			if (devices[i].number != device)
				continue;
			add(l, " %.*s", (int)devices[i].name.length,
			    (const char *)devices[i].name.bytes);
			return;
		}
	}
	add(l, " device %" PRIu32, device);
}

static void add_transaction(struct line *l, const struct rio_owner *o, const struct rio_note *n)
{
	if (n->is.operation == 0)
		return;
	add(l, " %s", sgl_operation_name(n->is.operation));
	add_device(l, o, n->is.device);
	if (n->is.operation != SGL_FLUSH)
		add(l, " %" PRIu64 "+%" PRIu64, n->is.offset, n->is.length);
	if (n->is.is_fua)
		add(l, " fua");
	if (n->transactions > 1)
		add(l, " (%" PRIu32 " of %" PRIu32 ")", n->transaction + 1, n->transactions);
}

static void add_reason(struct line *l, enum weft_reason reason)
{
	if (reason != WEFT_OK)
		add(l, ": %s: %s", weft_reason_name(reason), weft_reason_text(reason));
}

static const char *role_name(enum rio_role role)
{
	static const char *const names[] = { "nobody", "requester", "owner", "iounit" };

	return role <= RIO_IOUNIT ? names[role] : names[0];
}

void rio_note_text(const struct rio_owner *owner, const struct rio_note *n, char *line, size_t room)
{
	static const char *const verbs[] = { [RIO_NOTE_CAME] = "came",
					     [RIO_NOTE_LEFT] = "left",
					     [RIO_NOTE_ALLOWED] = "allowed",
					     [RIO_NOTE_REFUSED] = "refused",
					     [RIO_NOTE_ENDED] = "ended" };
	struct line l = { line, room, 0 };

	if (n->kind == RIO_NOTE_CAME || n->kind == RIO_NOTE_LEFT) {
		add(&l, "%s %s %" PRIu32 ".%" PRIu32, verbs[n->kind], role_name(n->role),
		    n->who.unit, n->who.process);
		add_reason(&l, n->reason);
		return;
	}
	add(&l, "%s %" PRIu32 ".%" PRIu32 "#%" PRIu64, verbs[n->kind], n->who.unit, n->who.process,
	    n->request);
	add_transaction(&l, owner, n);
	if (n->kind == RIO_NOTE_ALLOWED)
		add(&l, " by rule %" PRIu32 " at %" PRIu32 ".%" PRIu32, n->rule + 1, n->iounit.unit,
		    n->iounit.process);
	if (n->kind == RIO_NOTE_ENDED)
		add(&l, " %" PRIu64 " bytes", n->bytes);
	add_reason(&l, n->reason);
}
