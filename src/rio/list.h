/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A complete scatter-gather list (RIO-12 to RIO-16): assembles its chained sequences and checks the
 * rules that span elements. The first sequence comes in a message; the holder of the list fetches
 * the others in the order that the list wants:
 *
 *	reason = rio_list_take(l, from the message);
 *	while (!reason && rio_list_wants(l, &chain))
 *		reason = rio_list_take(l, what was fetched from there);
 *
 * Each sequence is copied before it is checked, because the process that wrote it may change its
 * memory at any time. A complete list has passed all checks and can be walked:
 *
 *	rio_walk_start(&walk, l);
 *	while (rio_walk_transaction(&walk, &t))
 *		while (rio_walk_segment(&walk, &s))
 *			...
 *
 * Not checked here: whether devices, platforms and handles exist, and who may use them.
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
	RIO_LIST_BYTES_MAX = 256 << 10, /* of all sequences together */
	RIO_LIST_TRANSACTIONS_MAX = 64	/* with the default limits */
};

struct rio_list_limits {
	uint32_t elements; /* of all kinds, in all sequences together */
	uint32_t transactions;
	uint32_t chained; /* sequences after the first */
	uint32_t bytes;	  /* of all sequences together */
};

/* 4096 elements, 64 transactions, 16 chained sequences, 256 KiB. */
struct rio_list_limits rio_list_limits_default(void);

/* Allocates all memory that the list will need. NULL: out of memory. */
struct rio_list *rio_list_create(const struct rio_list_limits *limits);
void rio_list_destroy(struct rio_list *list);

/* Empties the list for reuse. */
void rio_list_clear(struct rio_list *list);

/*
 * Takes the first sequence, or the whole sequence that rio_list_wants() named. After a refusal
 * every call returns the same reason until the list is cleared.
 */
enum weft_reason rio_list_take(struct rio_list *list, const uint8_t *bytes, size_t length);

/* The buffer that holds the next sequence to take. False: none is wanted. */
bool rio_list_wants(const struct rio_list *list, struct sgl_chain *chain);

/* Have all sequences been taken without a refusal? */
bool rio_list_is_whole(const struct rio_list *list);

/* The functions below require a complete list. */

uint32_t rio_list_transactions(const struct rio_list *list);

/* The sum of the lengths of all transactions. For tests: they hold it against their own sum. */
uint64_t rio_list_data_bytes(const struct rio_list *list);

/*
 * Writes exactly the checked list as one sequence without chain pointers, to be passed on. If it
 * does not fit, is_short is set and nothing else changes.
 */
size_t rio_list_flat_bytes(const struct rio_list *list);
void rio_list_flat(const struct rio_list *list, struct wr *w);

/*
 * As above without the attributes: the part to chain behind a message that carries them.
 * rio_list_attributes() returns true if the list itself has attributes, false if it gave the
 * defaults.
 */
size_t rio_list_body_bytes(const struct rio_list *list);
void rio_list_body(const struct rio_list *list, struct wr *w);
bool rio_list_attributes(const struct rio_list *list, struct sgl_attributes *attributes);

/* Masks every device number in the list. */
void rio_list_mask_devices(struct rio_list *list, uint32_t mask);

/* Where a segment's bytes are (RIO-14). */
enum rio_where {
	RIO_OWN,      /* in the I/O unit's own memory: the list names no platform */
	RIO_REMOTE,   /* in the memory of a platform */
	RIO_IMMEDIATE /* in the list itself */
};

struct rio_segment {
	enum rio_where where;
	uint32_t length;
	struct platform platform; /* RIO_REMOTE */
	uint32_t handle;	  /* RIO_OWN, RIO_REMOTE */
	uint64_t address;
	const uint8_t *data; /* RIO_IMMEDIATE: valid until the list is cleared */
};

/* A position in a list, valid until the list is cleared. A copy advances independently. */
struct rio_walk {
	const struct rio_list *list;
	struct rd at;
	uint32_t nth; /* element of the list's body */
	bool has_platform;
	struct platform platform;
};

void rio_walk_start(struct rio_walk *walk, const struct rio_list *list);

/* The next transaction; skips unread segments of the current one. False: none is left. */
bool rio_walk_transaction(struct rio_walk *walk, struct sgl_transaction *transaction);

/* The next segment of the current transaction, in byte order. False: none is left. */
bool rio_walk_segment(struct rio_walk *walk, struct rio_segment *segment);
