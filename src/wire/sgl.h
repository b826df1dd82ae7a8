/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The elements of a scatter-gather list (RIO-12, RIO-13), one at a time: docs/wire/rio.md. Each
 * begins with a word of the Last flag, a kind of 7 bits and a length of 24 bits:
 *
 *	attributes    the width of addresses in this list
 *	chain         the location of a further sequence of elements
 *	platform      the owner of the memory of the following details
 *	transaction   an operation on the device
 *	detail        a range of memory that takes part in it
 *	immediate     data in the list itself
 *
 * Each element is checked by itself here. rio/list.h checks their order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/platform.h"

enum {
	SGL_WORD_BYTES = 4, /* the length of every element is a multiple of this */
	SGL_IMMEDIATE_HEADER_BYTES = 12,
	SGL_LENGTH_MAX = 0xfffffc,
	SGL_IMMEDIATE_MAX = SGL_LENGTH_MAX - SGL_IMMEDIATE_HEADER_BYTES,
	SGL_FIXED_MAX = 28, /* the longest element without immediate data */
	SGL_CONTEXT_BYTES = 4,
	SGL_PAGE_SHIFT_MIN = 12,
	SGL_PAGE_SHIFT_MAX = 30
};

enum sgl_err {
	SGL_OK = 0,
	SGL_ERR_SHORT,	    /* the sequence ends inside the element */
	SGL_ERR_KIND,	    /* unknown kind */
	SGL_ERR_LENGTH,	    /* not the length of this kind */
	SGL_ERR_RESERVED,   /* a reserved bit or the padding is not 0 */
	SGL_ERR_ATTRIBUTES, /* unsupported sizes */
	SGL_ERR_OPERATION,  /* unknown operation */
	SGL_ERR_FLAGS,	    /* unknown flag, or not allowed for this operation */
	SGL_ERR_ROLE,	    /* neither source nor result, or immediate data as result */
	SGL_ERR_UNIT,	    /* unit 0, which does not exist */
	SGL_ERR_EMPTY,	    /* 0 bytes, where there must be some */
	SGL_ERR_FLUSH,	    /* a flush with a range: it applies to the whole device */
	SGL_ERR_CHAIN,	    /* the length of a chained sequence is not a multiple of 4 */
	SGL_ERR_WRAP,	    /* a range wraps around the end of the address space */
	SGL_ERR_COUNT
};

enum sgl_kind {
	SGL_ATTRIBUTES = 1,
	SGL_CHAIN,
	SGL_PLATFORM,
	SGL_TRANSACTION,
	SGL_DETAIL,
	SGL_IMMEDIATE,
	SGL_KIND_COUNT
};

enum sgl_operation {
	SGL_READ = 1,	  /* from the device into memory */
	SGL_WRITE,	  /* from memory to the device */
	SGL_FLUSH,	  /* makes earlier writes durable */
	SGL_WRITE_ZEROES, /* needs no memory */
	SGL_DISCARD,	  /* the device may forget what is there */
	SGL_OPERATION_COUNT
};

enum sgl_role {
	SGL_SOURCE,
	SGL_RESULT,
};

/* RIO-13a. */
struct sgl_attributes {
	uint8_t address_bytes; /* 4 or 8 */
	uint8_t context_bytes; /* SGL_CONTEXT_BYTES: the handle */
	uint8_t page_shift;    /* page frames are 1 << page_shift bytes */
};

/* The attributes of a list without an attributes element. */
static inline struct sgl_attributes sgl_attributes_default(void)
{
	return (struct sgl_attributes){ 8, SGL_CONTEXT_BYTES, SGL_PAGE_SHIFT_MIN };
}

/* May a list have these? */
bool sgl_attributes_are_good(const struct sgl_attributes *a);

/* RIO-13b: a buffer with a further sequence. */
struct sgl_chain {
	struct platform platform;
	uint32_t handle, length;
	uint64_t address;
};

/* RIO-15. */
struct sgl_transaction {
	enum sgl_operation operation;
	bool is_fua; /* durable when it has ended; writes, zeroes and discards only */
	uint32_t device;
	uint64_t offset, length; /* bytes */
};

/* RIO-13c: without its platform, which is given once for consecutive details. */
struct sgl_detail {
	enum sgl_role role;
	bool ends_buffer;
	uint32_t handle, length;
	uint64_t address;
};

/* RIO-13d: a source, always. */
struct sgl_immediate {
	bool ends_buffer;
	uint32_t length;
	const uint8_t *data; /* in the bytes that were decoded */
};

struct sgl_element {
	enum sgl_kind kind;
	bool is_last;
	union {
		struct sgl_attributes attributes;
		struct sgl_chain chain;
		struct platform platform;
		struct sgl_transaction transaction;
		struct sgl_detail detail;
		struct sgl_immediate immediate;
	};
};

/* The length of the element in a list with these attributes, which must be valid. */
uint64_t sgl_bytes(const struct sgl_element *e, const struct sgl_attributes *in);

/* The next element of a list with these attributes. On error neither *e nor *r has changed. */
enum sgl_err sgl_next(struct sgl_element *e, struct rd *r, const struct sgl_attributes *in);

/*
 * Writes the element; it may be one that no decoder accepts. If it does not fit, is_short is set
 * and nothing else changes.
 */
void sgl_put(const struct sgl_element *e, const struct sgl_attributes *in, struct wr *w);

/* Sets the Last flag of an encoded element. */
void sgl_set_last(uint8_t *element);

/* Changes the device of an encoded transaction. */
void sgl_set_device(uint8_t *transaction, uint32_t device);

/* For people; never NULL. */
const char *sgl_operation_name(enum sgl_operation operation);
