/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block devices behind one table of calls: what they look like, requests that take their time, and
 * the devices and filters that need no system: memory, stripes, mirrors, faults, delays and
 * volatile caches. Files and block devices of the system are in driver/file/file_store.h;
 * plan.h reads how people write all of them.
 *
 * Requests belong to the caller and are lent to the device until it gives them back as done. There
 * is no order among requests under way: who needs one after the other waits for the first. A write
 * that is done is seen by every read submitted later. It is on stable storage when it had
 * STORE_FUA, or when a flush that was submitted after it was done is done itself.
 *
 * A device is used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/list.h"
#include "base/span.h"

enum store_op {
	STORE_READ,
	STORE_WRITE,
	STORE_FLUSH,	    /* neither offset nor length */
	STORE_WRITE_ZEROES, /* the range reads as zeroes */
	STORE_DISCARD,	    /* the content is not needed: blocks read as before or as zeroes */
	STORE_OP_COUNT
};

enum store_flags {
	STORE_FUA = 1 << 0, /* done means on stable storage; of write and write zeroes */
};

/* What a device can do besides reading, and writing if it is not read-only. */
enum store_abilities {
	STORE_CAN_FLUSH = 1 << 0,
	STORE_CAN_FUA = 1 << 1,
	STORE_CAN_DISCARD = 1 << 2,
	STORE_CAN_WRITE_ZEROES = 1 << 3,
	STORE_CAN_ALL = (1 << 4) - 1,
};

enum {
	STORE_SPANS_MAX = SPANS_MAX, /* of a request */
	STORE_MEMBERS_MAX = 16,	     /* of a stripe or mirror */
};

#define STORE_NEVER UINT64_MAX

struct store_shape {
	uint64_t size_bytes;  /* a multiple of block_bytes, at most INT64_MAX */
	uint32_t block_bytes; /* 512 or 4096 */
	uint32_t can;	      /* enum store_abilities */
	bool is_readonly;
	/* A write that is done and not flushed is there after the death of the process, if the
	   machine lives on. */
	bool outlives_process;
};

struct store_request {
	/* Written by the caller, left alone while it is under way. */
	enum store_op op;
	uint32_t flags;
	uint64_t offset, length;  /* bytes, multiples of the block size */
	const struct span *spans; /* of read and write: length bytes in all, in this order */
	uint32_t span_count;

	/* Written by the device before it is done. */
	enum weft_reason reason; /* WEFT_OK: all of it was done */
	int error;		 /* what the system said (errno), 0 if it was not asked */

	/* The device's while it is under way. */
	struct list link;
	uint64_t due_ns;
};

/* What the owner of a device should know of a member of a mirror. */
struct store_event {
	uint32_t member;	 /* counted from 0 */
	enum weft_reason reason; /* why it is left out from now on; WEFT_OK: it has all the data */
	int error;
	/*
	 * If length is not 0: it is not left out, but cannot be read there, nor can any other
	 * member that has all the data. The rest is copied and this is not: members that are copied
	 * to stay incomplete until it can be read or was written anew.
	 */
	uint64_t offset, length;
};

struct store;

/* What a kind of device does. Only the functions below call it, having checked all they say. */
struct store_calls {
	void (*submit)(struct store *s, struct store_request *r, uint64_t now_ns);
	struct store_request *(*next_done)(struct store *s, uint64_t now_ns);
	uint64_t (*due)(const struct store *s);
	void (*expire)(struct store *s, uint64_t now_ns);
	struct span (*memory)(struct store *s, uint64_t offset, uint64_t length);
	bool (*event)(struct store *s, struct store_event *event);
	bool (*settle)(struct store *s, uint64_t now_ns); /* NULL: it does nothing by itself */
	void (*destroy)(struct store *s);
};

/* First member of every device. */
struct store {
	const struct store_calls *calls;
	struct store_shape shape;
	uint32_t under_way;
};

/* ---- Use ------------------------------------------------------------------------------------ */

/* Would a device of this shape take the request, and if not, why? */
enum weft_reason store_request_check(const struct store_shape *shape,
				     const struct store_request *r);

/*
 * WEFT_OK: the device has it, and gives it back exactly once. Else it was refused: neither it nor
 * the device has changed.
 */
enum weft_reason store_submit(struct store *s, struct store_request *r, uint64_t now_ns);

/*
 * Takes a request that is done; NULL if there is none at present. Devices may gather what was
 * submitted: all of it is certain to be under way only when this has given NULL.
 */
struct store_request *store_next_done(struct store *s, uint64_t now_ns);

/* When to call store_expire, then store_next_done, if nothing else happens; or STORE_NEVER. */
uint64_t store_due(const struct store *s);
void store_expire(struct store *s, uint64_t now_ns);

/*
 * Where the bytes at the offset lie in memory, if the device is just that: as many of length as lie
 * there in one piece. Of length 0: they are reached by requests only. Who moves data straight keeps
 * to the range of the device and does not write to a read-only one; it is done at once, and as
 * stable as the device gets.
 */
struct span store_memory(struct store *s, uint64_t offset, uint64_t length);

/* Takes what the owner should know; false if there is nothing. */
bool store_event(struct store *s, struct store_event *event);

/*
 * Before it is destroyed, with nothing under way: the device ends what it does by itself, and takes
 * no more requests. False: this is still under way at its members; call it again when something may
 * be done there.
 */
bool store_settle(struct store *s, uint64_t now_ns);

/*
 * Nothing is under way, and it has settled. Members of a stripe or a filter stay: who created them
 * destroys them.
 */
void store_destroy(struct store *s);

/* ---- Devices: 0 or why they cannot be created ----------------------------------------------- */

struct mem_store_config {
	uint8_t *bytes; /* borrowed until the device is destroyed */
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool is_readonly;
};

enum weft_reason mem_store_create(const struct mem_store_config *c, struct store **out);

struct joint_config {
	struct store *const *members;
	uint32_t member_count;
	uint32_t requests_max; /* worked on at a time; more of them wait */
};

/*
 * Consecutive stretches of unit_bytes lie on one member after the other. As large as the smallest
 * member allows; can what all of them can.
 */
enum weft_reason stripe_store_create(const struct joint_config *c, uint64_t unit_bytes,
				     struct store **out);

/*
 * Writes go to all members, reads to one in turn. A member that fails what another one did is left
 * out from then on, and an event says so; what all of them fail, fails. Nothing is written about
 * that: it is for members that are gone with the process.
 */
enum weft_reason mirror_store_create(const struct joint_config *c, struct store **out);

struct mirror_store_config {
	struct joint_config joint; /* a member is NULL if it is missing */
	uint8_t identity[16];	   /* of a mirror that is new: random */
	bool is_degraded_ok;	   /* goes on without members that may have newer data */
	bool is_adopting;	   /* overwrites what is where the marks belong */
};

/*
 * The same for members that stay: marks in their last 8 KiB (mirror_area.h) say which of them have
 * all the data and where writes were under way. The device is as much smaller. Requests wait until
 * the marks are read, by store_next_done, and all fail if the mirror is then refused. Members that
 * were left out or are new are copied to, and an event with WEFT_OK says when that is done.
 */
enum weft_reason mirror_store_open(const struct mirror_store_config *c, struct store **out);

/* WEFT_R_BUSY: its marks are being read. Else what came of it; of a refusal, by which member. */
enum weft_reason mirror_store_opened(const struct store *mirror, uint32_t *member);

/* Whatever comes of its marks, it is refused for this: for one that is being opened. */
void mirror_store_refuse(struct store *mirror, enum weft_reason reason, uint32_t member);

/* Bit n is set if member n of this mirror does not have all the data. */
uint32_t mirror_store_out(const struct store *mirror);

/* ---- Filters -------------------------------------------------------------------------------- */

/* Every request reaches the device below so much later. */
enum weft_reason delay_store_create(struct store *below, uint64_t delay_ns, struct store **out);

enum { FAULT_STORE_RANGES_MAX = 8 };

struct fault_store_range {
	uint64_t offset, length;
};

struct fault_store_config {
	uint64_t seed;
	uint32_t error;	   /* chance in 10^9 that a request fails, with nothing done */
	uint32_t torn;	   /* that a write fails after some of its first blocks were written */
	uint64_t crash_at; /* this request, from 1, is torn, later ones fail; 0: none */
	struct fault_store_range ranges[FAULT_STORE_RANGES_MAX]; /* whoever touches one fails */
	uint32_t range_count;
};

/* Fails on purpose: the same requests in the same order fail again with the same seed. */
enum weft_reason fault_store_create(struct store *below, const struct fault_store_config *c,
				    struct store **out);

struct volatile_store_config {
	uint64_t seed;
	uint32_t keep;	     /* chance in 10^9 that a written block goes below without a flush */
	uint64_t room_bytes; /* of the cache, at least a block, at most 1 GiB */
};

/*
 * A volatile write cache: what was not flushed is in the memory of the process only, and gone with
 * it, as at a loss of power. Writes that find no room go through. Settling brings all below.
 */
enum weft_reason volatile_store_create(struct store *below, const struct volatile_store_config *c,
				       struct store **out);

/* ---- For devices ---------------------------------------------------------------------------- */

/* Is it a shape that a device can have? */
enum weft_reason store_shape_check(const struct store_shape *shape);

/* What most devices say. */
uint64_t store_never_due(const struct store *s);
void store_nothing_expires(struct store *s, uint64_t now_ns);
struct span store_no_memory(struct store *s, uint64_t offset, uint64_t length);
bool store_no_event(struct store *s, struct store_event *event);

static inline void store_request_end(struct store_request *r, enum weft_reason reason, int error)
{
	r->reason = reason;
	r->error = error;
}

/*
 * Adds bytes [skip, skip + length) of the spans to a list, as many as find room, and says how many
 * those are.
 */
uint64_t store_span_cut(struct span_list *l, const struct store_request *r, uint64_t skip,
			uint64_t length);
