/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host and a unit with a connection that the test plays: acts are carried out in order, and each
 * Write is checked, outside of the core, against what is registered and whom the element belongs
 * to.
 */
#pragma once

#include "push/push.h"

enum {
	BED_HOST = 0,
	BED_UNIT = 1,
	BED_SENDS = 4,
	BED_MEMORY = 1 << 20,
	BED_ITEMS = 4096,
	BED_EVENTS = 8192,
	BED_POOLS = 600,
	BED_GRAIN = 64 /* elements begin at multiples of this, if several are written */
};

#define BED_MS UINT64_C(1000000)

/* On its way to an end. */
struct bed_item {
	enum { BED_MESSAGE, BED_WRITTEN, BED_PACKET } kind;
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	size_t length;
	uint32_t immediate;
};

struct bed_end {
	struct push_config config;
	struct push_link *link;
	uint8_t messages[BED_SENDS * PUSH_MSG_BYTES_MAX];
	uint8_t *memory; /* for pools, BED_MEMORY */
	size_t memory_used;
	struct push_pool_config pools[BED_POOLS];
	bool *is_occupied; /* written, and not returned: by BED_GRAIN bytes of memory */
	bool is_registered[BED_POOLS];
	struct bed_item *items; /* a ring, to this end */
	uint32_t item_first, item_count;
	uint64_t *dones; /* acts that are under way, if is_held */
	uint32_t done_count;
	struct push_event *events; /* all that came */
	uint32_t event_count;
	uint32_t sent[PUSH_FUNCTION_COUNT]; /* messages that this end sent */
	uint32_t writes, immediates;
	enum weft_reason refused; /* the last refusal of this end */
};

struct bed {
	struct bed_end ends[2];
	uint64_t now_ns;
	bool is_held;		 /* acts are not done by themselves: bed_done() */
	bool is_eager;		 /* packets are returned as they come */
	bool is_silent;		 /* requests of configuration are not answered */
	bool is_lossy;		 /* the next message in Send mode is lost */
	enum weft_reason answer; /* to requests of configuration */
};

/* Made, with pools if any are asked for, not up yet. */
struct bed *bed_create(enum push_mode mode);
void bed_make(struct bed *b); /* both links, with the configuration of each end */
void bed_destroy(struct bed *b);

/* A pool of that end; its index. */
uint32_t bed_pool(struct bed *b, int end, uint32_t elements, uint32_t element_bytes);

/* Both are up, and all that can happen by itself has happened. */
void bed_up(struct bed *b);
void bed_run(struct bed *b);

/* Both ends have a pool of 8 elements of 2048 bytes, and are up. */
struct bed *bed_both_pools(void);

/* One act of an end is pulled and carried out; one item is handed to it. False: there is none. */
bool bed_act(struct bed *b, int end);
bool bed_deliver(struct bed *b, int end);
void bed_done(struct bed *b, int end);

/* A message of the other end, made by the test. */
enum weft_reason bed_say(struct bed *b, int to, const struct push_msg *m);

/* A packet of so many bytes, of which each is its cookie's low byte. */
enum weft_reason bed_packet(struct bed *b, int end, uint32_t length, uint64_t cookie);

/* The consumer of an end returns an element. */
void bed_return(struct bed *b, int end, uint32_t pool, uint32_t element);

/* How many events of a kind an end has had; the last of them, NULL: none. */
uint32_t bed_count(const struct bed *b, int end, enum push_event_kind kind);
const struct push_event *bed_last(const struct bed *b, int end, enum push_event_kind kind);
struct push_view bed_view(const struct bed *b, int end);
