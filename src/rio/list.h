/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole scatter-gather list (RIO-12 to RIO-16): the rules across its elements, and the assembly
 * of its chained parts. The first sequence comes with a message, further ones are fetched by
 * whoever holds the list, in the order in which it wants them:
 *
 *	reason = rio_list_take(l, from the message);
 *	while (!reason && rio_list_wants(l, &chain))
 *		reason = rio_list_take(l, what was fetched from there);
 *
 * Each sequence is copied, and the copy is checked: its owner may change his memory at any time.
 * A list that is whole has been checked whole, and can be walked:
 *
 *	rio_walk_start(&walk, l);
 *	while (rio_walk_transaction(&walk, &t))
 *		while (rio_walk_segment(&walk, &s))
 *			...
 *
 * Not here: whether devices, platforms and handles exist, and who may use them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/cursor.h"
#include "wire/sgl.h"

struct rio_list;

enum {
	RIO_LIST_BYTES_MAX = 256 << 10, /* of all sequences */
	RIO_LIST_TRANSACTIONS_MAX = 64	/* by the default limits */
};

struct rio_list_limits {
	uint32_t elements; /* of all kinds, in all sequences */
	uint32_t transactions;
	uint32_t chained; /* sequences besides the first */
	uint32_t bytes;	  /* of all sequences */
};

/* 4096 elements, 64 transactions, 16 chained sequences, 256 KiB. */
struct rio_list_limits rio_list_limits_default(void);

/* All the memory that it will ever need. NULL: there is none left. */
struct rio_list *rio_list_create(const struct rio_list_limits *limits);
void rio_list_destroy(struct rio_list *list);

/* As it was created, to be used again. */
void rio_list_clear(struct rio_list *list);

/*
 * The first sequence, or the whole of the one that is wanted. What is refused stays refused, for
 * this reason, until the list is cleared.
 */
enum weft_reason rio_list_take(struct rio_list *list, const uint8_t *bytes, size_t length);

/* The buffer whose sequence is to be taken next. False: none. */
bool rio_list_wants(const struct rio_list *list, struct sgl_chain *chain);

/* Has it been taken whole and refused nowhere? */
bool rio_list_is_whole(const struct rio_list *list);

/* The following are of lists that are whole. */

uint32_t rio_list_transactions(const struct rio_list *list);

/* The lengths of all transactions. */
uint64_t rio_list_data_bytes(const struct rio_list *list);

/*
 * The same list in one sequence without chain pointers: just what was checked, to be passed on.
 * If it does not fit then is_short is set and nothing else has changed.
 */
size_t rio_list_flat_bytes(const struct rio_list *list);
void rio_list_flat(const struct rio_list *list, struct wr *w);

/*
 * The flat list without its attributes: what can be chained behind a message that has them. As
 * above if it does not fit. The attributes hold by default, or (true) because the list has them.
 */
size_t rio_list_body_bytes(const struct rio_list *list);
void rio_list_body(const struct rio_list *list, struct wr *w);
bool rio_list_attributes(const struct rio_list *list, struct sgl_attributes *attributes);

/* Every device number keeps just these bits. */
void rio_list_mask_devices(struct rio_list *list, uint32_t mask);

/* Where a segment's bytes are (RIO-14). */
enum rio_where {
	RIO_OWN,      /* in the I/O unit's own memory: no platform was named */
	RIO_REMOTE,   /* in the memory of a platform */
	RIO_IMMEDIATE /* in the list */
};

struct rio_segment {
	enum rio_where where;
	uint32_t length;
	struct platform platform; /* RIO_REMOTE */
	uint32_t handle;	  /* RIO_OWN, RIO_REMOTE */
	uint64_t address;
	const uint8_t *data; /* RIO_IMMEDIATE: as long as the list is not cleared */
};

/*
 * A place in a list. It may be copied: the copy goes on from there by itself. It is good until the
 * list is cleared.
 */
struct rio_walk {
	const struct rio_list *list;
	struct rd at;
	bool has_platform;
	struct platform platform;
};

void rio_walk_start(struct rio_walk *walk, const struct rio_list *list);

/* The next transaction, whatever is left of the one before. False: there is none. */
bool rio_walk_transaction(struct rio_walk *walk, struct sgl_transaction *transaction);

/* The next segment of this transaction, in the order of its bytes. False: there is none. */
bool rio_walk_segment(struct rio_walk *walk, struct rio_segment *segment);
