/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An owner, and the far ends of its connections: requesters with memory, and I/O units that do only
 * what a test says. What the owner says is opened with the session that it was said in, and kept.
 */
#pragma once

#include "base/prng.h"
#include "rio/owner.h"

enum {
	BED_REQUESTERS = 3, /* 7.1, 8.1, 9.1 */
	BED_UNITS = 2,	    /* 2.1 in place 1, 3.1 in place 2 */
	BED_ENDS = BED_REQUESTERS + BED_UNITS,
	BED_UNIT = BED_REQUESTERS, /* the first of them among the ends */
	BED_REQUESTS = 4,
	BED_LISTS = 3,
	BED_COMMANDS = 3, /* that a unit takes at a time */
	BED_MEMORY = 512 << 10,
	BED_HEARD_MAX = 64,
	BED_NOTES_MAX = 256,
	BED_DISK = 64 << 10,
	BED_HANDLE = 0x5000, /* before the first one of the owner's lists */
	PAPER_MAX = 300 << 10,
	MANY = 512 /* segments: their list fits no message */
};

#define BED_LISTS_ADDRESS UINT64_C(0x7f0012340000)
#define BED_TIMEOUT_NS UINT64_C(1000000000)

/* The owner's number of a unit's device; the units of a bed have 1 (whole) and 2 (read-only). */
#define BED_DEVICE(unit, number) (((uint32_t)(unit) + 1) << 16 | (number))

struct heard {
	struct rio_msg m; /* points into bytes */
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	uint32_t order; /* among all that the owner has done */
	bool is_old;	/* was found before */
};

struct bed_end {
	struct platform platform;
	bool is_here, is_sent_away;
	uint32_t number;
	struct rio_session session;
	struct rio_address address;
	uint32_t requests_max, list_max;
	struct heard heard[BED_HEARD_MAX];
	uint32_t heard_count;
	uint8_t memory[BED_MEMORY];
};

struct bed_fetch {
	struct rio_owner_act act;
	int end;
};

/* A list of the owner's that a unit can read. */
struct bed_window {
	bool is_open;
	int unit;
	uint32_t handle;
	const uint8_t *bytes;
	size_t length;
	uint8_t was[RIO_LIST_BYTES_MAX]; /* when it was opened, and until it is closed */
};

struct bed_note {
	struct rio_note note;
	uint32_t order;
};

struct owner_bed {
	struct rio_owner *owner;
	struct rio_owner_config config;
	struct rio_policy policy;
	uint8_t lists[BED_LISTS * RIO_LIST_BYTES_MAX];
	struct bed_end ends[BED_ENDS];
	struct bed_note notes[BED_NOTES_MAX];
	uint32_t note_count, order;
	struct bed_fetch fetches[BED_LISTS];
	uint32_t fetch_count;
	bool is_holding; /* fetches do not end by themselves */
	struct bed_window windows[BED_LISTS];
	uint32_t exposed, closed;	/* so far */
	enum weft_reason expose_reason; /* of windows to come */
	uint64_t now_ns;
};

/* No peer is connected, and nothing is allowed. The configuration may change before bed_start(). */
void bed_open(struct owner_bed *b);
void bed_start(struct owner_bed *b);
void bed_close(struct owner_bed *b);

/* Every requester may do everything with every device. */
void bed_allow_all(struct owner_bed *b);
void bed_allow(struct owner_bed *b, struct rio_rule rule);

/* It comes, with a new session; it leaves. A unit tells of its two devices. */
enum weft_reason bed_try_come(struct owner_bed *b, int end);
void bed_come(struct owner_bed *b, int end);
void bed_leave(struct owner_bed *b, int end);
void bed_tell_devices(struct owner_bed *b, int end);

/* All of them, units with their devices; what they hear of it is not kept. */
void bed_all_come(struct owner_bed *b);
/* Open, with all that. */
void bed_open_all(struct owner_bed *b);

enum weft_reason bed_try_say(struct owner_bed *b, int end, const struct rio_msg *m);
void bed_say(struct owner_bed *b, int end, const struct rio_msg *m);

/* One act of the owner; false: there is none. All of them. */
bool bed_step(struct owner_bed *b);
void bed_run(struct owner_bed *b);
void bed_fetched(struct owner_bed *b, uint32_t fetch, enum weft_reason reason);

/* The next message of this type that was not found yet; NULL: there is none. */
struct heard *bed_heard(struct owner_bed *b, int end, enum rio_msg_type type);
/* How many of these there are. */
uint32_t bed_count(const struct owner_bed *b, int end, enum rio_msg_type type);
void bed_forget(struct owner_bed *b);

/* The nth note of this kind about that request; NULL: there is none. */
struct bed_note *bed_note_of(struct owner_bed *b, enum rio_note_kind kind, uint64_t request,
			     uint32_t nth);
void bed_status(struct owner_bed *b, int unit, uint64_t id, enum weft_reason reason,
		uint64_t bytes);
/* Of the next command that was not found yet. */
void bed_status_next(struct owner_bed *b, int unit);
void bed_cancel(struct owner_bed *b, int end, uint64_t id);

/* The reason of the next status that was not found yet; WEFT_REASON_COUNT: there is none. */
enum weft_reason bed_ended_with(struct owner_bed *b, int end);
uint32_t bed_under_way(struct owner_bed *b, int end);

/* The whole of a command's list, as a unit would fetch it. */
struct rio_list *bed_list_of(struct owner_bed *b, const struct heard *command);

/* ---- Lists as they are being written -------------------------------------------------------- */

struct paper {
	uint8_t bytes[PAPER_MAX];
	struct wr w;
	uint8_t *latest;
	struct sgl_attributes attributes;
	uint32_t handle; /* of segments to come */
};

void paper_start(struct paper *p);
void paper_attributes(struct paper *p, uint8_t address_bytes);
void paper_chain(struct paper *p, struct platform platform, uint64_t address, size_t length);
void paper_platform(struct paper *p, struct platform platform);
void paper_transaction(struct paper *p, struct sgl_transaction t);
void paper_result(struct paper *p, uint32_t length, bool ends_buffer);
/* With one segment. */
void paper_read(struct paper *p, uint32_t device, uint64_t offset, uint32_t length);
/* With so many, of 16 bytes each. */
void paper_read_pieces(struct paper *p, uint32_t device, uint32_t count);
void paper_last(struct paper *p);
size_t paper_bytes(const struct paper *p);

/* Said as a request, with so many ms; what the owner thinks of that. */
enum weft_reason bed_try_ask(struct owner_bed *b, int end, uint64_t id, const struct paper *p,
			     uint32_t timeout_ms);
void bed_ask(struct owner_bed *b, int end, uint64_t id, const struct paper *p);

/* A good request for 512 bytes into the requester's memory. */
void bed_ask_read(struct owner_bed *b, int end, uint64_t id, uint32_t device);

/*
 * One that lies in its memory, at 64, with so many segments of unit 0's device 1: a chain pointer.
 * The length of the part there.
 */
size_t bed_write_chained(struct owner_bed *b, int end, struct paper *p, uint32_t pieces);
size_t bed_ask_chained(struct owner_bed *b, int end, uint64_t id, uint32_t pieces);
