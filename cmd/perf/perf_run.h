/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `weft perf` measures, apart from how it is asked for and shown: two ends of a connection
 * that do one test after another. Each end polls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

enum perf_op { PERF_WRITE = 0, PERF_READ, PERF_SEND, PERF_OPS };

enum { PERF_SIZE_MAX = 16 << 20, PERF_DEPTH_MAX = 4096, PERF_BATCH_MAX = 64, PERF_INLINE_MAX = 64 };
enum { PERF_READS_MAX = 64 };

struct perf_test {
	enum perf_op op;
	bool is_latency; /* one message at a time, there and back; else as many as depth */
	bool is_both;	 /* both ends send, or read; not with is_latency */
	uint32_t size, depth;
	uint32_t batch;	     /* posted in one call, at most */
	uint32_t inline_max; /* bytes of messages that are sent inline, at most */
	uint64_t duration_ns;
};

struct perf_result {
	uint64_t messages, bytes, elapsed_ns; /* of this end's own */
	/* With is_latency: half round trips (of a Read: whole ones). */
	uint32_t least_ns, median_ns, p99_ns, most_ns;
	struct weft_traffic traffic; /* during the test */
};

/* How two ends are connected. */
struct perf_how {
	struct weft_connect_options iwarp;
	bool is_roce;
	uint32_t mtu_bytes; /* RoCE: payload of a packet */
};

struct perf_end;
struct perf_door;

/* One end, with memory for messages of size_max bytes. */
enum weft_reason perf_open(uint32_t size_max, bool is_roce, struct perf_end **end);
void perf_close(struct perf_end *e);

/* The connection is over: ready for another. */
enum weft_reason perf_renew(struct perf_end *e);

/* Makes the connection: as a client, or by taking the next client at the door. */
enum weft_reason perf_dial(struct perf_end *e, const struct weft_address *to,
			   const struct perf_how *how);
enum weft_reason perf_listen(struct perf_end *e, const struct weft_address *at,
			     const struct perf_how *how, struct perf_door **door);
enum weft_reason perf_take(struct perf_door *door);
enum weft_reason perf_door_address(const struct perf_door *door, struct weft_address *at);
void perf_door_close(struct perf_door *door);

/* Called now and then during a test, with the time that it runs and the messages so far. */
typedef void perf_tell(void *context, uint64_t elapsed_ns, uint64_t messages);

/* The client runs tests; the server serves them until the connection ends. */
enum weft_reason perf_run(struct perf_end *e, const struct perf_test *test,
			  struct perf_result *result);
enum weft_reason perf_serve(struct perf_end *e);

void perf_on_progress(struct perf_end *e, perf_tell *tell, void *context);

/* The address of the other end, and whether what it sends is checked by a CRC. */
const struct weft_address *perf_remote(const struct perf_end *e, bool *has_crc);
