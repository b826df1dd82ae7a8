/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block devices behind one table of calls: shapes, asynchronous requests, and the devices and
 * filters that make no system calls: memory, stripes, mirrors, faults, delays and volatile caches.
 * Files and block devices of the system are in driver/file/file_store.h; plan.h parses the text
 * form of all.
 *
 * A request belongs to the caller, and is lent to the device until the device returns it as done.
 * Requests in progress are unordered: a caller that needs an order waits for the first before it
 * submits the second. A completed write is visible to every read submitted later. It is on stable
 * storage if it had STORE_FUA, or once a flush submitted after its completion has completed.
 *
 * Only one thread at a time may use a device.
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
	STORE_FLUSH,	    /* has no offset or length */
	STORE_WRITE_ZEROES, /* the range reads as zeroes */
	STORE_DISCARD,	    /* blocks then read as before or as zeroes */
	STORE_OP_COUNT
};

enum store_flags {
	STORE_FUA = 1 << 0, /* write, write zeroes: complete on stable storage */
};

/* Abilities of a device besides reading, and writing unless read-only. */
enum store_abilities {
	STORE_CAN_FLUSH = 1 << 0,
	STORE_CAN_FUA = 1 << 1,
	STORE_CAN_DISCARD = 1 << 2,
	STORE_CAN_WRITE_ZEROES = 1 << 3,
	STORE_CAN_ALL = (1 << 4) - 1,
};

enum {
	STORE_SPANS_MAX = SPANS_MAX, /* per request */
	STORE_MEMBERS_MAX = 16,	     /* per stripe or mirror */
};

#define STORE_NEVER UINT64_MAX

struct store_shape {
	uint64_t size_bytes;  /* a multiple of block_bytes, at most INT64_MAX */
	uint32_t block_bytes; /* 512 or 4096 */
	uint32_t can;	      /* enum store_abilities */
	bool is_readonly;
	/*
	 * A completed write survives the death of the process without a flush, as long as the host
	 * runs.
	 */
	bool outlives_process;
};

struct store_request {
	/* Set by the caller, constant while in progress. */
	enum store_op op;
	uint32_t flags;
	uint64_t offset, length;  /* bytes, multiples of the block size */
	const struct span *spans; /* read, write: `length` bytes in all, in this order */
	uint32_t span_count;

	/* Set by the device on completion. */
	enum weft_reason reason; /* WEFT_OK: all of it was done */
	int error;		 /* errno of a failed system call, or 0 */

	/* For the device while in progress. */
	struct list link;
	uint64_t due_ns;
};

/* News about a member of a mirror, for the user of the device. */
struct store_event {
	uint32_t member;	 /* from 0 */
	enum weft_reason reason; /* why it was dropped; WEFT_OK: it now has all the data */
	int error;
	/*
	 * If length is not 0, the member was not dropped: neither it nor any other current member
	 * can read this range. Copying skips the range, so members being copied to stay incomplete
	 * until it can be read or is written again.
	 */
	uint64_t offset, length;
};

/*
 * A read whose data stays where it is in a device that is memory, until the device is about to
 * change any of it.
 */
struct store_loan {
	/* Set by the caller, constant as long as the loan lasts. */
	uint64_t offset, length;
	const struct span *spans; /* memory for `length` bytes */

	uint8_t *bytes;	  /* where they are, to be read only; NULL: they were copied to spans */
	struct list link; /* of the device; of itself: it has ended */
};

struct store;

/* The operations of a kind of device. Only the functions below call them, after their checks. */
struct store_calls {
	void (*submit)(struct store *s, struct store_request *r, uint64_t now_ns);
	struct store_request *(*next_done)(struct store *s, uint64_t now_ns);
	uint64_t (*due)(const struct store *s);
	void (*expire)(struct store *s, uint64_t now_ns);
	struct span (*memory)(struct store *s, uint64_t offset, uint64_t length);
	void (*lend)(struct store *s, struct store_loan *loan); /* NULL: it does not */
	bool (*event)(struct store *s, struct store_event *event);
	bool (*settle)(struct store *s,
		       uint64_t now_ns); /* NULL: the device starts no requests itself */
	void (*destroy)(struct store *s);
};

/* The first member of every device's struct. */
struct store {
	const struct store_calls *calls;
	struct store_shape shape;
	uint32_t under_way;
};

/* ---- Use ------------------------------------------------------------------------------------ */

/* WEFT_OK if a device of this shape accepts the request, else the reason why not. */
enum weft_reason store_request_check(const struct store_shape *shape,
				     const struct store_request *r);

/*
 * WEFT_OK: the device has the request and returns it exactly once. Otherwise neither has changed.
 */
enum weft_reason store_submit(struct store *s, struct store_request *r, uint64_t now_ns);

/*
 * Takes a completed request; NULL: none at present. A device may batch submissions: all are certain
 * to be in progress only once this has returned NULL.
 */
struct store_request *store_next_done(struct store *s, uint64_t now_ns);

/*
 * When to call store_expire(), then store_next_done(), if no other event comes first; or
 * STORE_NEVER.
 */
uint64_t store_due(const struct store *s);
void store_expire(struct store *s, uint64_t now_ns);

/*
 * The memory of a device that is memory: the longest contiguous part of the range, from offset on.
 * An empty span: the device is reached by requests only. A caller that accesses the memory directly
 * must stay within the range, and must not write to a read-only device. Such an access is complete
 * at once, and as durable as the device can make it.
 */
struct span store_memory(struct store *s, uint64_t offset, uint64_t length);

/*
 * Reads a range within the device at once, without a copy. False: this device does not lend, and
 * the loan has not changed. The loan lasts until store_loan_end(), which does no harm to one that
 * has ended, or is all zeroes. Writes through store_memory() take no loan back.
 */
bool store_lend(struct store *s, struct store_loan *loan);
void store_loan_end(struct store_loan *loan);

/* Takes the next event; false: there is none. */
bool store_event(struct store *s, struct store_event *event);

/*
 * Prepares for destruction, with no request in progress: the device finishes its own work and takes
 * no more requests. False: its members still work; call again when one may have completed
 * something.
 */
bool store_settle(struct store *s, uint64_t now_ns);

/*
 * Destroys a device that has settled and has no request in progress. Members of a stripe, mirror or
 * filter are not destroyed with it.
 */
void store_destroy(struct store *s);

/* ---- Devices: WEFT_OK or why they cannot be created ----------------------------------------- */

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
	uint32_t requests_max; /* in progress at a time; further ones wait */
};

/*
 * Consecutive units of unit_bytes go to the members in turn. As large as the smallest member
 * allows; has the abilities that all members have.
 */
enum weft_reason stripe_store_create(const struct joint_config *c, uint64_t unit_bytes,
				     struct store **out);

/*
 * Writes go to all members, reads to one in turn. A member that fails a request that another one
 * completed is dropped, and an event says so. A request that all members fail, fails. No marks are
 * written: this mirror is for members that vanish with the process.
 */
enum weft_reason mirror_store_create(const struct joint_config *c, struct store **out);

struct mirror_store_config {
	struct joint_config joint; /* a missing member is NULL */
	uint8_t identity[16];	   /* random; used if the mirror is new */
	bool is_degraded_ok;	   /* runs even without members that may have newer data */
	bool is_adopting;	   /* overwrites foreign data where the marks belong */
};

/*
 * The same for persistent members. Marks in their last 8 KiB (mirror_area.h) say which members have
 * all the data, and where writes were in progress; the device is smaller by that much. Requests
 * wait until store_next_done() has read the marks, and all fail if the mirror is then refused. Data
 * is copied to members that were dropped or are new, and an event with WEFT_OK reports that it is
 * complete.
 */
enum weft_reason mirror_store_open(const struct mirror_store_config *c, struct store **out);

/*
 * WEFT_R_BUSY: the marks are being read. Else the outcome; after a refusal, the member that caused
 * it.
 */
enum weft_reason mirror_store_opened(const struct store *mirror, uint32_t *member);

/* Refuses a mirror that is being opened, regardless of its marks. */
void mirror_store_refuse(struct store *mirror, enum weft_reason reason, uint32_t member);

/* ---- Filters -------------------------------------------------------------------------------- */

/* Delays every request by delay_ns on its way to the device below. */
enum weft_reason delay_store_create(struct store *below, uint64_t delay_ns, struct store **out);

enum { FAULT_STORE_RANGES_MAX = 8 };

struct fault_store_range {
	uint64_t offset, length;
};

struct fault_store_config {
	uint64_t seed;
	uint32_t error;	   /* chance in 10^9 that a request fails with no effect */
	uint32_t torn;	   /* chance that a write fails after some of its first blocks */
	uint64_t crash_at; /* this request, from 1, is torn, later ones fail; 0: none */
	struct fault_store_range ranges[FAULT_STORE_RANGES_MAX]; /* requests that touch one fail */
	uint32_t range_count;
};

/* Injects faults: with the same seed, the same sequence of requests fails in the same way. */
enum weft_reason fault_store_create(struct store *below, const struct fault_store_config *c,
				    struct store **out);

struct volatile_store_config {
	uint64_t seed;
	uint32_t keep;	     /* chance in 10^9 that a block is written back without a flush */
	uint64_t room_bytes; /* cache size: at least a block, at most 1 GiB */
};

/*
 * A volatile write cache: unflushed data exists only in the memory of the process and is lost with
 * it, as in a power failure. Writes that do not fit into the cache are written through. Settling
 * writes all data back.
 */
enum weft_reason volatile_store_create(struct store *below, const struct volatile_store_config *c,
				       struct store **out);

/* ---- For implementations of devices --------------------------------------------------------- */

/* Is the shape valid? */
enum weft_reason store_shape_check(const struct store_shape *shape);

/* Defaults for struct store_calls. */
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
 * Appends bytes [skip, skip + length) of the request's spans to a list, as many as fit; returns how
 * many.
 */
uint64_t store_span_cut(struct span_list *l, const struct store_request *r, uint64_t skip,
			uint64_t length);
