/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of a directed device on their way: so many at a time, each in a buffer of its own. What
 * weft io does, apart from how it is asked for and shown.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/rio.h>

enum { IO_BLOCK_MAX = 64 << 20, IO_DEPTH_MAX = 1024 };

/* How it went: WEFT_OK, or why not and who says so. */
struct io_outcome {
	enum weft_reason reason;
	char text[WEFT_RIO_TEXT_MAX + 1];
	int error;   /* errno of a file, else 0 */
	uint64_t at; /* of the device, where it failed */
	uint64_t done_bytes;
};

struct io_run {
	struct weft_rio_requester *requester;
	uint32_t block, depth;
	uint8_t *memory; /* depth buffers */
	uint32_t tag;
	bool is_immediate; /* what is written travels in the requests */
	bool is_inside;	   /* copies go through the I/O unit's own memory, from byte `inside` on */
	uint64_t inside;
	/* Called now and then; may be NULL. */
	void (*tell)(void *context, uint64_t done, uint64_t all);
	void *context;
};

/* WEFT_R_NO_MEMORY, or why the memory cannot be registered. */
enum weft_reason io_run_open(struct io_run *r, struct weft_rio_requester *q, uint32_t block,
			     uint32_t depth);
void io_run_close(struct io_run *r);

/* A part of a device. */
struct io_range {
	const struct weft_rio_device *device;
	uint64_t at, length;
};

/* To a file, or from one, which need not be able to seek. */
void io_run_read(struct io_run *r, const struct io_range *from, int file, struct io_outcome *o);
void io_run_write(struct io_run *r, const struct io_range *to, int file, struct io_outcome *o);

/* From one device to another, through this one's memory or inside; from->length bytes. */
void io_run_copy(struct io_run *r, const struct io_range *from, const struct io_range *to,
		 struct io_outcome *o);

/* Memory that another requester lends. */
struct io_memory {
	struct weft_rio_platform platform;
	uint32_t handle;
	uint64_t address;
};

/* From that memory to the device, or the other way. */
void io_run_lent(struct io_run *r, const struct io_range *range, const struct io_memory *memory,
		 bool is_write, struct io_outcome *o);

/* All of it. False: errno. Or how many came before the end; -1: errno. */
bool io_file_put(int file, const uint8_t *bytes, size_t length);
ssize_t io_file_get(int file, uint8_t *bytes, size_t length);

/* Flush, write zeroes or discard. */
void io_run_order(struct io_run *r, enum weft_rio_operation operation, const struct io_range *range,
		  struct io_outcome *o);

struct io_bench {
	bool is_write, is_random;
	uint64_t duration_ns;
};

struct io_figures {
	uint64_t count, bytes, elapsed_ns;
	uint64_t mean_ns, median_ns, p99_ns, most_ns;
};

void io_run_bench(struct io_run *r, const struct io_range *range, const struct io_bench *bench,
		  struct io_figures *figures, struct io_outcome *o);
