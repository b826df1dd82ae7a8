/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directed device that the plugin serves: found by its name, used by many threads, and found
 * again when the owner was away. Knows nothing of nbdkit.
 *
 * A request that cannot be asked, as nobody is there, waits. One that was under way when somebody
 * left is asked again if that does no harm:
 *  - The owner left, or the data connection was lost. An I/O unit lets no later request for a block
 *    begin while its device works for one that was given up (docs/rio.md, "What a write promises").
 *    So a first attempt never comes after the second, and the same blocks get the same data.
 *  - The I/O unit left. Reads are asked again; the rest fails. If it came back without what it had
 *    not flushed, the next flush of every connection fails.
 */
#pragma once

#include <weft/rio.h>

struct directed;

struct directed_config {
	const struct weft_rio_self *self;
	uint32_t requests_max;
	uint64_t timeout_ns; /* of a request */
	uint64_t wait_ns;    /* for the owner and the device, at the beginning and when they left */
	const char *name;    /* of the device; borrowed */
};

/* Begins to connect, with threads of its own; then waits for the device. */
enum weft_reason directed_open(const struct directed_config *config, struct directed **directed);
void directed_close(struct directed *d);

/* As it is now; waits for it if it is not there. */
enum weft_reason directed_device(struct directed *d, struct weft_rio_device *device);

/* Counts the times that writes which had been acknowledged were lost. */
uint32_t directed_losses(struct directed *d);

struct directed_request {
	enum weft_rio_operation operation;
	bool is_fua;
	void *memory; /* of read and write */
	uint64_t offset, length;
	const struct weft_rio_device *was; /* it must still look so */
};

/* Any number of threads. WEFT_R_RIO_DEVICE: the device looks different now. */
enum weft_reason directed_do(struct directed *d, const struct directed_request *request,
			     struct weft_rio_ended *ended);
