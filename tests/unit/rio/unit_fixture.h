/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An I/O unit in a small world: an owner that commands it, requesters that have memory, a device.
 * Its acts end when the world wants, in an order that a seed says; the world keeps the rules of the
 * real one and fails if the unit breaks them.
 */
#pragma once

#include "base/prng.h"
#include "rio/iounit_parts.h"
#include "wire/sgl.h"

enum {
	UNIT = 2, /* the I/O unit is 2.1, the owner 1.1, requesters 7.1 and up */
	OWNER = 1,
	FIRST = 7,
	REQUESTERS = 9,	    /* more than a command may write to */
	MEMORY = 64 * 1024, /* of each requester, under handle 0x700 + its number */
	DISK = 64 * 1024,
	DEVICE = 5,
	OTHER_DEVICE = 6, /* world_open_pair() */
	PIECE = 4096,
	PIECES = 6,
	COMMANDS = 4,
	MOVES = 3,
	UNDER_WAY_MAX = 256,
	MOVES_KEPT = 64,
	LIST_MAX = 4096
};

struct requester {
	uint8_t memory[MEMORY];
	uint8_t token[RIO_TOKEN_BYTES];
	bool is_up, is_granted;
	bool is_refusing, is_lying;		/* dialling fails; the answer is not true */
	void (*alter)(struct rio_data *answer); /* then it is of something else; or NULL */
	uint32_t writes;			/* that have ended, and are not known to be there */
	struct rio_session session;		/* of the data connection */
};

struct status {
	uint64_t id;
	uint32_t reason, transaction;
	uint64_t done_bytes;
	bool is_notified;
};

/* Holds what is submitted while it is stuck; what it held reaches the device below afterwards. */
struct stuck_store {
	struct store store;
	struct store *below;
	struct list held; /* struct store_request */
	uint32_t held_count;
	bool is_stuck;
};

struct unit_world {
	struct rio_iounit *unit;
	struct rio_session owner; /* the other end of the unit's */
	struct store *disk, *slow, *other;
	struct stuck_store stuck;
	uint8_t disk_bytes[DISK], other_bytes[DISK];
	uint8_t buffers[PIECES * PIECE];
	struct requester requesters[REQUESTERS];
	uint8_t own_memory[DISK];	/* of the unit, handle 0, from 0 */
	uint8_t owner_memory[LIST_MAX]; /* chained lists, handle 0x100, at 0 */
	struct prng prng;
	uint64_t now_ns;
	struct rio_act under_way[UNDER_WAY_MAX];
	uint32_t under_way_count;
	struct status statuses[64];
	uint32_t status_count, dials, hang_ups, moves, settles;
	struct rio_act moved[MOVES_KEPT]; /* the first Reads and Writes, as they were asked for */
	bool notified[64]; /* by id: the requester knows by the unit's own word that it went well */
	uint32_t tells, notifications; /* words to requesters; to the owner, of these */
	bool is_urgent;		       /* commands are, from now on */
	uint32_t timeout_ms;	       /* of them; 0: the unit's own, a millisecond */
	uint32_t devices_said, commands_at_devices; /* how often; commands there were then */
	bool is_stuck;				    /* nothing ends any more but what is hung up */
	bool is_alone; /* there is one command at a time: all is there when it has ended */
	const char *failure;
};

/* is_slow: the device is not just memory. */
void world_open(struct unit_world *w, uint64_t seed, bool is_slow);
/* The same, with room for so many commands. */
void world_open_wide(struct unit_world *w, uint64_t seed, bool is_slow, uint32_t commands);
/* With a device that can be stuck. */
void world_open_stuck(struct unit_world *w, uint64_t seed);
/* The same, beside one that is memory. */
void world_open_pair(struct unit_world *w, uint64_t seed);
void world_unstick(struct unit_world *w);
void world_close(struct unit_world *w);

void world_grant(struct unit_world *w, int requester);
/* The owner says it; how the unit takes it. */
enum weft_reason world_try_say(struct unit_world *w, const struct rio_msg *m);
void world_say(struct unit_world *w, const struct rio_msg *m);

/* A list as it is being written. */
struct unit_list {
	uint8_t bytes[LIST_MAX];
	struct wr w;
	uint8_t *latest;
	uint32_t device;	    /* of the next transactions */
	struct sgl_element segment; /* to be written, once it is known whether it is the last */
	bool has_segment;
};

void list_start(struct unit_list *l);
void list_transaction(struct unit_list *l, enum sgl_operation operation, uint64_t offset,
		      uint64_t length);
void list_platform(struct unit_list *l, int requester);
/* The latest of these ends its buffer when a transaction follows, or nothing. */
void list_source(struct unit_list *l, int requester, uint64_t at, uint32_t length);
void list_result(struct unit_list *l, int requester, uint64_t at, uint32_t length);
/* Of the unit itself, if no platform was named before. */
void list_own_result(struct unit_list *l, uint64_t at, uint32_t length);
void list_own_source(struct unit_list *l, uint64_t at, uint32_t length);
void list_data(struct unit_list *l, const void *data, uint32_t length);

/* It is complete; its length. */
size_t list_end(struct unit_list *l);

/* Ends it and sends it as a command. */
void world_command(struct unit_world *w, uint64_t id, struct unit_list *l);

/* A command whose list is all in the owner's memory: so many bytes at 16, as that platform says. */
void world_chained(struct unit_world *w, uint64_t id, struct platform where, uint32_t length);

/* Everything that can happen happens. */
void world_run(struct unit_world *w);

/* One thing happens; false: nothing can. */
bool world_step(struct unit_world *w);

/* Everything that can happen before that time or then. */
void world_run_until(struct unit_world *w, uint64_t ns);

/* The same owner comes again. */
void world_owner_again(struct unit_world *w);

/* The connection of a requester breaks: what is under way over it fails. */
void world_break(struct unit_world *w, int requester);

/* The status of that command, or NULL. */
const struct status *world_status(const struct unit_world *w, uint64_t id);
