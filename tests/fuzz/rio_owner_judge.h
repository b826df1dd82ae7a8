/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world of rio_owner_fuzz.c, and the judge of what the owner does in it, which knows what
 * was said, and the rules.
 */
#pragma once

#include "rio/owner.h"

enum {
	REQUESTERS = 3, /* 7.1, 8.1, 9.1 */
	UNITS = 2,	/* 2.1 in place 1, 3.1 in place 2 */
	ENDS = REQUESTERS + UNITS,
	REQUESTS = 3,
	LISTS = 2,
	COMMANDS = 3, /* that a unit takes at a time */
	STEPS_MAX = 400,
	WISHES = 512,
	KEPT = 64,
	DISK = 64 << 10,
	SHARED = 32 << 10, /* what B may have of it */
	IDS = 12,
	LIST_MAX = 4096,
	HANDLE = 0x5000,
	MS = 1000 * 1000,
	TIMEOUT_MS = 1000
};

#define LISTS_ADDRESS UINT64_C(0x7f0012340000)

/* What a requester has asked for: one message that was taken. */
struct wish {
	int end;
	uint64_t id, late_ns;
	bool is_open; /* it is to be answered */
	uint32_t commands, allowed_notes, final_notes;
	bool has_ended, has_ended_well, is_notified; /* at its unit */
};

struct command {
	int unit, end;
	uint64_t id;
	struct wish *wish;
};

struct owner_peer {
	struct platform platform;
	bool is_here, is_away; /* it is to be sent away */
	uint32_t number;
	struct rio_session session;
	bool has_devices;
	bool knows[REQUESTERS]; /* of a unit: the requesters it may dial */
};

struct window {
	bool is_open;
	int unit; /* that may use it */
	uint32_t handle;
	size_t length;
};

struct owner_world {
	struct rio_owner *owner;
	struct rio_policy policy;
	uint8_t lists[LISTS * RIO_LIST_BYTES_MAX];
	struct window windows[LISTS]; /* by which they are read */
	uint32_t exposed;	      /* so far */
	struct owner_peer ends[ENDS];
	struct wish wishes[WISHES];
	uint32_t wish_count;
	struct command commands[KEPT];
	uint32_t command_count;
	struct rio_owner_act fetches[LISTS];
	uint32_t fetch_count;
	uint64_t now_ns, last_command;
	uint8_t sessions;
	uint8_t list[LIST_MAX]; /* that is being written */
	struct rd r;
	struct rio_list *check;
};

extern struct owner_world w;

bool is_unit(int end);

/* A reads all and may name B's memory, B has half of the first unit's disk, C watches. */
void judge_rules(void);

/* A request of that end that is to be answered; NULL: there is none. */
struct wish *judge_open_wish(int end, uint64_t id);

/* One act of the owner is judged and carried out; false: there is none. All of them. */
bool judge_act(void);
void judge_act_all(void);
