/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directed device that the plugin serves: found by its name, used by many threads, and found
 * again when the owner was away. Knows nothing of nbdkit.
 *
 * A request that cannot be asked, as owner or I/O unit is away, waits. One that was under way when
 * one of them left is asked again if that does no harm:
 *  - The owner left, or the data connection was lost. An I/O unit lets no later request for a block
 *    begin while its device works for one that was given up (docs/rio.md, "What a write promises").
 *    So a first attempt never comes after the second, and the same blocks get the same data.
 *  - The I/O unit left. Reads are asked again; the rest fails. If it came back without what it had
 *    not flushed, the next flush of every user fails, and no other request of theirs.
 */
#pragma once

#include <stdatomic.h>

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

/*
 * One of several users of the device: a connection of a client. The requester tells one of them
 * that writes were lost, and all of them must hear of it.
 */
struct directed_user {
	struct weft_rio_device device; /* as the client was told; it must still look so */
	_Atomic uint64_t loss; /* the last one that it heard of, see struct weft_rio_ended */
};

/* With the device as it is now; waits for it if it is not there. */
enum weft_reason directed_user_init(struct directed *d, struct directed_user *user);

struct directed_request {
	enum weft_rio_operation operation;
	bool is_fua;
	void *memory; /* of read and write */
	uint64_t offset, length;
};

/*
 * Any number of threads, also for one user. WEFT_R_RIO_DEVICE: the device looks different now.
 * WEFT_R_RIO_WRITES_LOST, of a flush: acknowledged writes were lost, and no flush of this user that
 * had ended before this one began has said so.
 */
enum weft_reason directed_do(struct directed *d, struct directed_user *user,
			     const struct directed_request *request, struct weft_rio_ended *ended);
