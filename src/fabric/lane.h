/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffer of a virtual lane: how many flits it has room for, and the frames in it, in their
 * order. A frame stays where it came in until every output that has it has sent it, and the next
 * node has acknowledged it; only then does the sender get credit for its flits. So a link that
 * sends again needs no copy.
 *
 * The bytes of a frame are there once in a process, and every node where it is refers to them: what
 * differs from link to link, the lane in its header and the VCRC, is put in when they leave the
 * process. Memory comes from a pool that all lanes share, as frames come.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/store.h"
#include "wire/flit.h"
#include "wire/iba_frame.h"

enum {
	FABRIC_FRAME_FLITS = (IBA_FRAME_MAX + FLIT_DATA - 1) / FLIT_DATA,
	FABRIC_SIZES = 3,
	FABRIC_LINE_BYTES = 64 /* of a cache */
};

struct fabric_lane;
struct fabric_slab;

/* Apart from the bytes themselves, which few nodes look at. */
struct fabric_bytes {
	struct fabric_bytes *next; /* unused */
	uint8_t *at;
	uint32_t references;
	uint32_t size; /* which of the pool's lists */
};

/* A cache line. */
struct fabric_frame {
	struct fabric_frame *next; /* on its lane, or unused */
	struct fabric_lane *lane;
	struct fabric_bytes *data;
	uint64_t pending;    /* outputs that it waits for, once it was routed */
	uint64_t tail_ns;    /* when its last flit came, or will */
	uint32_t references; /* outputs that have it */
	uint16_t bytes;
	uint16_t vcrc; /* as it leaves, once it was made */
	uint16_t to;   /* LID, once its head was read here or at a node before */
	uint8_t level; /* of service, then */
	uint8_t flits;
	uint8_t out_lane; /* on which it leaves, once it was routed */
	uint8_t port;	  /* where it came in, once it left its lane */
	uint8_t hops;	  /* links that it has come by, at most 255 */
	bool has_head;
	bool has_vcrc;
	bool is_whole;
	bool is_routed;
	bool is_data;	/* of no agents, as its head has told */
	bool is_passed; /* no more outputs get it */
	bool is_kept;	/* by the node's agents: the owner does not get it */
	bool is_broken; /* its VCRC was wrong: it goes no further */
};

_Static_assert(sizeof(struct fabric_frame) == FABRIC_LINE_BYTES, "a frame has another size");

struct fabric_pool {
	struct fabric_frame *frames;		  /* unused */
	struct fabric_bytes *bytes[FABRIC_SIZES]; /* unused, by size */
	struct fabric_bytes *room;		  /* fabric_pool_room()'s, or NULL */
	struct fabric_slab *slabs;
	struct fabric_store *store;   /* that has the memory; NULL: none */
	struct fabric_lane *released; /* lanes that have room again */
	uint64_t used;		      /* frames' bytes, each counted once */
};

/* A cache line. */
struct fabric_lane {
	struct fabric_pool *pool;
	struct fabric_frame *head, *last; /* next to leave; last that came */
	struct fabric_lane *next_released, *next_waiting;
	uint32_t blocks_max; /* flits; 0: the port has no such lane */
	uint32_t blocks_used;
	uint32_t owner; /* where it is, as its owner numbers ports */
	uint16_t port;
	uint16_t taken, told;	      /* of a link: flits that came, the limit that was told */
	uint8_t kind;		      /* which of its owner's lanes, as that says */
	uint8_t number;		      /* FLIT_LANES: that of no link, frames of all may be there */
	bool is_released, is_watched; /* on the pool's list; goes there when it has room again */
	bool is_waiting;	      /* its head waits at an output */
};

_Static_assert(sizeof(struct fabric_lane) == FABRIC_LINE_BYTES, "a lane has another size");

/* Lanes whose heads wait for a lane of an output, in the order in which they came to wait. */
struct fabric_waiting {
	struct fabric_lane *first, *last;
};

void fabric_waiting_add(struct fabric_waiting *w, struct fabric_lane *l);
/* There is one. */
struct fabric_lane *fabric_waiting_pop(struct fabric_waiting *w);

void fabric_pool_init(struct fabric_pool *p);
void fabric_pool_fini(struct fabric_pool *p);

/* The next watched lane that has room again; NULL: none. */
struct fabric_lane *fabric_pool_released(struct fabric_pool *p);

/*
 * Room for IBA_FRAME_MAX bytes: a frame that is put from there into a lane stays where it is. The
 * same until then. NULL: memory is short.
 */
uint8_t *fabric_pool_room(struct fabric_pool *p);

/* At least FABRIC_FRAME_FLITS blocks. */
void fabric_lane_init(struct fabric_lane *l, struct fabric_pool *p, uint32_t blocks);

static inline uint32_t fabric_lane_room(const struct fabric_lane *l)
{
	return l->blocks_max - l->blocks_used;
}

enum fabric_added {
	FABRIC_ADDED,
	FABRIC_NO_FRAME, /* it continues no frame, begins none, or that is too long */
	FABRIC_NO_ROOM	 /* of the lane, or memory is short */
};

/* A flit that came as bytes. */
enum fabric_added fabric_lane_add(struct fabric_lane *l, const struct flit *f);

/* Flits of a frame in another lane, from `index` on: the same bytes are here, too. */
enum fabric_added fabric_lane_share(struct fabric_lane *l, const struct fabric_frame *of,
				    uint32_t index, uint32_t flits);

/* A whole frame; its bytes are copied, if not in fabric_pool_room(). False: there is no room. */
bool fabric_lane_put(struct fabric_lane *l, const uint8_t *bytes, uint32_t length);

/* Takes back a frame whose rest does not come. */
void fabric_lane_cut(struct fabric_lane *l);

/* The next whole frame that waits for its outputs; NULL: none. */
static inline struct fabric_frame *fabric_lane_head(const struct fabric_lane *l)
{
	return l->head && l->head->is_whole ? l->head : NULL;
}

/* The head needs no more outputs; without a reference it is gone. */
void fabric_lane_pass(struct fabric_lane *l);

/* Gives a reference back. */
void fabric_frame_put(struct fabric_frame *f);

/* A flit of it as it leaves on `lane`, lane and VCRC put in; returns the number of bytes. */
uint32_t fabric_frame_flit(struct fabric_frame *f, uint32_t index, uint8_t lane,
			   uint8_t bytes[FLIT_DATA]);

/* All of it as it came, until another looks at it: with its lane, and its VCRC or zeros there. */
const uint8_t *fabric_frame_bytes(struct fabric_frame *f, bool has_vcrc);

/* The same to room for f->bytes. */
void fabric_frame_copy(struct fabric_frame *f, bool has_vcrc, uint8_t *to);

/* The same as it is on a lane of a link, with its VCRC. */
void fabric_frame_copy_on(const struct fabric_frame *f, uint8_t lane, uint8_t *to);

/* It goes to more than one port. */
static inline bool fabric_frame_is_multicast(const struct fabric_frame *f)
{
	enum { TO_AT = 2 };
	uint16_t to = f->to;

	if (!f->has_head)
		to = (uint16_t)(f->data->at[TO_AT] << 8 | f->data->at[TO_AT + 1]);
	return to >= IBA_LID_MULTICAST_MIN && to != IBA_LID_PERMISSIVE;
}

/* Its local route header. False: it has none that is right. */
bool fabric_frame_lrh(const struct fabric_frame *f, struct iba_lrh *h);
