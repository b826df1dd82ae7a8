/* SPDX-License-Identifier: BSD-2-Clause */
/* There is a line for every request, so it is formatted without printf(). */
#include "roles/rio_note.h"

#include <string.h>

#include "rio/names.h"

enum { DIGITS = 20 };

struct line {
	char *at, *end; /* text that does not fit is cut */
};

static void add_bytes(struct line *l, const void *bytes, size_t length)
{
	size_t room = (size_t)(l->end - l->at);

	length = length < room ? length : room;
	memcpy(l->at, bytes, length);
	l->at += length;
}

static void add(struct line *l, const char *text)
{
	add_bytes(l, text, strlen(text));
}

static void add_number(struct line *l, uint64_t number)
{
	static const char pairs[] = "0001020304050607080910111213141516171819"
				    "2021222324252627282930313233343536373839"
				    "4041424344454647484950515253545556575859"
				    "6061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	char digits[DIGITS];
	size_t at = DIGITS;

	if (number < 10 && l->at < l->end) { /* most are of platforms and rules */
		*l->at++ = (char)('0' + number);
		return;
	}
	for (; number >= 10; number /= 100) {
		at -= 2;
		memcpy(digits + at, pairs + 2 * (number % 100), 2);
	}
	/* One digit is left, or none; 0 has one. */
	if (number > 0 || at == DIGITS)
		digits[--at] = (char)('0' + number);
	add_bytes(l, digits + at, DIGITS - at);
}

static void add_platform(struct line *l, struct platform p)
{
	add_number(l, p.unit);
	add(l, ".");
	add_number(l, p.process);
}

static void add_device(struct line *l, const struct rio_owner *o, uint32_t device)
{
	struct rio_device d;

	if (rio_owner_device(o, device, &d)) {
		add(l, " ");
		add_bytes(l, d.name.bytes, d.name.length);
	} else {
		add(l, " device ");
		add_number(l, device);
	}
}

static void add_transaction(struct line *l, const struct rio_owner *o, const struct rio_note *n)
{
	if (n->is.operation == 0)
		return;
	add(l, " ");
	add(l, sgl_operation_name(n->is.operation));
	add_device(l, o, n->is.device);
	if (n->is.operation != SGL_FLUSH) {
		add(l, " ");
		add_number(l, n->is.offset);
		add(l, "+");
		add_number(l, n->is.length);
	}
	if (n->is.is_fua)
		add(l, " fua");
	if (n->transactions > 1) {
		add(l, " (");
		add_number(l, (uint64_t)n->transaction + 1);
		add(l, " of ");
		add_number(l, n->transactions);
		add(l, ")");
	}
}

static void add_reason(struct line *l, enum weft_reason reason)
{
	if (reason == WEFT_OK)
		return;
	add(l, ": ");
	add(l, weft_reason_name(reason));
	add(l, ": ");
	add(l, weft_reason_text(reason));
}

static void add_request(struct line *l, const struct rio_owner *o, const struct rio_note *n)
{
	add_platform(l, n->who);
	add(l, "#");
	add_number(l, n->request);
	add_transaction(l, o, n);
	if (n->kind == RIO_NOTE_ALLOWED) {
		add(l, " by rule ");
		add_number(l, (uint64_t)n->rule + 1);
		add(l, " at ");
		add_platform(l, n->iounit);
	} else if (n->kind == RIO_NOTE_ENDED) {
		add(l, " ");
		add_number(l, n->bytes);
		add(l, " bytes");
	}
}

void rio_note_text(const struct rio_owner *owner, const struct rio_note *n, char *line, size_t room)
{
	static const char *const verbs[] = { [RIO_NOTE_CAME] = "came ",
					     [RIO_NOTE_LEFT] = "left ",
					     [RIO_NOTE_ALLOWED] = "allowed ",
					     [RIO_NOTE_REFUSED] = "refused ",
					     [RIO_NOTE_ENDED] = "ended " };
	struct line l = { line, line + room - 1 };

	if (n->kind == RIO_NOTE_WATCH) {
		add(&l, n->reason == WEFT_OK ? "allowed " : "refused ");
		add_platform(&l, n->who);
		add(&l, " watch");
		add_reason(&l, n->reason);
		*l.at = '\0';
		return;
	}
	add(&l, verbs[n->kind]);
	if (n->kind == RIO_NOTE_CAME || n->kind == RIO_NOTE_LEFT) {
		add(&l, rio_role_name(n->role));
		add(&l, " ");
		add_platform(&l, n->who);
	} else {
		add_request(&l, owner, n);
	}
	add_reason(&l, n->reason);
	*l.at = '\0';
}
