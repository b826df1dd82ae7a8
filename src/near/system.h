/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the near path needs of the operating system. The driver has it of Linux: unix sockets,
 * memory files, system calls that access another process. The simulator has its own.
 */
#pragma once

#include <stddef.h>

#include "near/board.h"
#include "near/message.h"
#include "near/ring.h"

/* A connection to another adapter: the system's. */
struct near_link;

/* Of one wait; all 0 when it begins. */
struct near_wait {
	uint64_t end_ns;
	uint32_t rounds;
};

struct near_system {
	/* Connects to the adapter of that slot. NULL: it cannot be reached. */
	struct near_link *(*connect)(void *owner, uint8_t adapter_slot);
	/* From now on: calls ready(end) when messages have come. */
	void (*watch)(struct near_link *link, void (*ready)(void *end), void *end);
	/* False: the connection has ended, or is full of messages. */
	bool (*send)(struct near_link *link, const struct near_message *m);
	/*
	 * The next message: NEAR_NONE if there is none now, NEAR_UNKNOWN if it is none of ours,
	 * NEAR_CLOSED if the connection has ended. Descriptors that could not be received are -1.
	 */
	void (*take)(struct near_link *link, struct near_message *m);
	/* Closes the descriptors of a message. */
	void (*done)(const struct near_message *m);
	/* The adapter of that slot is its other end. */
	void (*name)(struct near_link *link, uint8_t adapter_slot);
	/* Whether the process at its other end has ended. */
	bool (*has_ended)(const struct near_link *link);
	void (*close)(struct near_link *link);

	/* A descriptor of a new ring for its receiver, or a negative errno; maps it. */
	int (*ring_make)(void *owner, struct ring *ring, uint32_t bytes);
	/* 0 or a negative errno. Keeps no descriptor. */
	int (*ring_map)(void *owner, struct ring *ring, int descriptor);
	void (*ring_unmap)(void *owner, struct ring *ring);

	/* Makes the own board. False: there is none. hide: its end. */
	bool (*show)(void *owner, struct near_shown *shown, enum weft_policy policy);
	void (*hide)(void *owner, struct near_shown *shown);
	/* Maps the board of the other end. False: the kernel allows no access to its process. */
	bool (*seen_open)(struct near_link *link, const int descriptors[2], struct near_seen *seen);
	void (*seen_close)(struct near_seen *seen);
	/* Reads or writes memory of its process. 0, or an errno: not all of it. */
	int (*move)(const struct near_seen *seen, uint64_t addr, void *bytes, size_t length,
		    bool is_write);
	/* Waits a little for an access of another process to end. False: for long enough. */
	bool (*wait)(void *owner, struct near_wait *wait);
	/*
	 * Between two steps that other processes may come between. For the simulator, as hook of
	 * struct ring; NULL: not called.
	 */
	void (*step)(void *owner);
};
