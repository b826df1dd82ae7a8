/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directed device that the plugin serves: found by its name, used by many threads, and found
 * again after the owner was away. Independent of nbdkit.
 *
 * A request waits while the owner or the I/O unit is away. A request that was in flight when one of
 * them left is repeated if that is safe:
 *  - The owner left, or the data connection was lost: all requests are repeated. An I/O unit starts
 *    no later request for a block while its device still works on one that was given up
 *    (docs/rio.md, "What a write promises"). So a first attempt never takes effect after the
 *    second, and the same blocks get the same data.
 *  - The I/O unit left: reads are repeated, all other requests fail. If the I/O unit comes back
 *    without unflushed data, the next flush of every user fails, and no other request.
 */
#pragma once

#include <stdatomic.h>

#include <weft/rio.h>

struct directed;

struct directed_config {
	const struct weft_rio_self *self;
	uint32_t requests_max;
	uint64_t timeout_ns; /* of a request */
	uint64_t wait_ns;    /* for the owner and the device, at the start and when they are away */
	const char *name;    /* of the device; borrowed */
};

/* Starts to connect, with threads of its own; then waits for the device. */
enum weft_reason directed_open(const struct directed_config *config, struct directed **directed);
void directed_close(struct directed *d);

/*
 * One of several users of the device: a connection of an nbdkit client. The requester reports lost
 * writes once; every user must be told.
 */
struct directed_user {
	struct weft_rio_device device; /* as the client was told; must not have changed */
	_Atomic uint64_t loss; /* the last loss reported to it, see struct weft_rio_result */
};

/* With the present properties of the device; waits for it if it is away. */
enum weft_reason directed_user_init(struct directed *d, struct directed_user *user);

struct directed_request {
	enum weft_rio_operation operation;
	bool is_fua;
	void *memory; /* of read and write */
	uint64_t offset, length;
};

/*
 * Callable from any number of threads, also for one user. WEFT_R_RIO_DEVICE: the device's
 * properties have changed. WEFT_R_RIO_WRITES_LOST, of a flush: acknowledged writes were lost, and
 * no flush of this user that ended before this one began has reported it.
 */
enum weft_reason directed_do(struct directed *d, struct directed_user *user,
			     const struct directed_request *request, struct weft_rio_result *ended);
