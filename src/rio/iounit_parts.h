/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an I/O unit consists of, for its own files only: iounit.c (life, messages, acts),
 * iounit_commands.c (a command from its list to its status), iounit_pieces.c (data on its way),
 * iounit_platforms.c (whose memory, and the connections to it).
 *
 *	command   fetching -> running -> settling -> saying
 *	piece     device -> moving (a read), moving -> device (a write), device (all else)
 *	move      of a piece, of a settling command, or of a fetched list
 *
 * A command that is given up (late, cancelled, or its owner is gone) ends although the device still
 * has pieces of it. Those of them that write are *stale*: no other piece that overlaps one begins
 * before it has ended (docs/rio.md, "What a write promises", rule 2).
 */
#pragma once

#include "base/timer_queue.h"
#include "rio/device.h"
#include "rio/iounit.h"
#include "rio/list.h"
#include "rio/notify.h"
#include "rio/refusal.h"

enum {
	UNIT_DEVICES_MAX = 64,
	COMMAND_PIECES_MAX = 8,	  /* under way at a time */
	COMMAND_PLATFORMS_MAX = 8 /* that one command writes to */
};

struct unit_device {
	struct store *store;
	uint64_t instance;
	uint32_t number;
	char name[RIO_DEVICE_NAME_MAX];
	uint32_t name_bytes;
	uint32_t pieces;    /* under way, or stuck */
	struct list hungry; /* commands that could go on if it had another buffer */
};

enum platform_state {
	PLATFORM_FREE = 0, /* the slot */
	PLATFORM_GRANTED,  /* may be dialled, when somebody needs it */
	PLATFORM_WANTED,   /* is to be dialled */
	PLATFORM_DIALLING,
	PLATFORM_UP,
	PLATFORM_LEAVING, /* up, and to be hung up */
	PLATFORM_STATES
};

struct unit_platform {
	struct platform name;
	enum platform_state state;
	bool is_revoked; /* the slot is free once nobody moves anything there */
	bool is_anew;	 /* granted while it is LEAVING: who waits wants the next connection */
	uint64_t grant;	 /* which one it has this slot by */
	uint8_t token[RIO_TOKEN_BYTES];
	uint8_t nonce[RIO_NONCE_BYTES];
	uint64_t counter;     /* of the last private data */
	uint32_t connections; /* that were made for this slot: the number of the one that is up */
	struct rio_session session; /* of that one */
	uint8_t question[RIO_DATA_BYTES];
	struct rio_address address;
	uint32_t moves; /* under way */
	struct list
		waiting; /* struct unit_piece, struct unit_command: for it to be up, or less busy */
	struct list link; /* of those with an act to be done */
};

enum command_state {
	COMMAND_FREE = 0,
	COMMAND_FETCHING, /* the rest of its list */
	COMMAND_RUNNING,
	COMMAND_SETTLING,
	COMMAND_SAYING, /* all has ended, requester or owner are to be told */
	COMMAND_STATES
};

/* What waits for a turn: with a platform, for a buffer, or to be told. */
struct unit_waiter {
	struct list link;
	bool is_piece;
};

/* A place in the memory of a transaction. */
struct unit_cursor {
	struct rio_walk walk;
	struct rio_segment segment;
	uint32_t used; /* bytes of the segment */
};

/* Who was written to, and over which connection: 0, none yet. */
struct unit_touch {
	struct unit_platform *platform;
	uint32_t connection;
};

struct unit_command {
	struct unit_waiter waiter;
	enum command_state state;
	uint64_t id;
	struct platform requester;
	uint64_t asked; /* the requester's id */
	struct rio_list *list;
	uint64_t grants; /* that there were when it was checked */
	struct timer timer;
	/* The transaction that is carried out, and where its next piece begins. */
	struct unit_cursor cursor;
	struct sgl_transaction now;
	struct unit_device *device;
	uint32_t number; /* of it, from 0 */
	uint64_t cut;	 /* bytes of it that are in pieces, or were */
	bool is_cut;	 /* all of it is */
	uint32_t pieces; /* under way */
	/* How it goes. */
	enum weft_reason reason; /* the first one */
	uint64_t done_bytes;
	bool is_dropped; /* its owner is gone: no status is sent */
	bool is_late;	 /* it waits for nothing but what is under way */
	struct unit_touch touched[COMMAND_PLATFORMS_MAX];
	uint32_t touched_count, settled_count; /* asked to settle so far */
	uint32_t settles;		       /* under way */
	/* Its requester, by this unit: behind the last data, or when all has ended. */
	struct list tell_link;
	bool is_last;	   /* no transaction follows */
	uint32_t unissued; /* pieces of a read that have still something to move */
	uint64_t moving;   /* bytes in pieces */
	bool is_notify_due;
	bool is_notified;	 /* and only that counts: it was written to */
	bool is_notified_behind; /* it was, behind the last data */
	bool is_urgent;		 /* the owner waits for its end */
};

enum piece_state {
	PIECE_FREE = 0,
	PIECE_DEVICE, /* the device works on it */
	PIECE_MOVING, /* to or from memory of others */
	PIECE_STATES
};

struct unit_piece {
	struct unit_waiter waiter;
	enum piece_state state;
	struct unit_command *command; /* NULL: it was given up while the device had the piece */
	struct unit_device *device;   /* NULL: of a list that is fetched */
	bool is_stale;
	uint8_t *buffer;   /* its own */
	struct span bytes; /* there, or in the device's memory */
	struct store_request request;
	/* Where the next move begins. */
	struct unit_cursor cursor;
	uint64_t issued; /* bytes in moves, or copied */
	uint32_t moves;	 /* under way */
	enum weft_reason reason;
	bool is_fetch;	/* a part of the command's list */
	bool is_direct; /* the device's own memory is moved from, or to */
};

struct unit_move {
	struct list link;		/* of the free ones */
	struct unit_platform *platform; /* NULL: the owner */
	struct unit_piece *piece;	/* NULL: the command settles */
	struct unit_command *command;	/* NULL: the slot is free */
};

struct rio_iounit {
	struct rio_iounit_config config;
	uint64_t now_ns;
	struct unit_device devices[UNIT_DEVICES_MAX];
	uint32_t device_count;
	/* The owner. */
	bool has_owner, is_devices_due, is_pong_due;
	/*
	 * Commands of former ones whose moves have not ended: the next one is not offered the
	 * devices before, as it may use as many commands as there are slots.
	 */
	uint32_t dropped;
	struct platform owner;
	struct rio_session session;
	uint64_t pong_id;
	uint8_t message[RIO_MSG_BYTES_MAX];
	/* Slots of each kind, and who waits for what. */
	struct unit_command *commands;
	struct unit_piece *pieces;
	struct unit_platform *platforms; /* the first is itself */
	uint32_t platform_count;
	struct unit_move *moves;
	uint32_t move_count, moves_under_way;
	uint64_t grants;    /* so far */
	bool has_submitted; /* something to a device, after devices were looked at */
	struct timer_queue timers;
	struct list free_commands, free_pieces, free_moves;
	struct list ready;    /* commands that can go on */
	struct list hungry;   /* commands that could fetch their list if there were a buffer */
	uint32_t turn;	      /* the device that got a buffer last */
	struct list fenced;   /* commands whose next piece overlaps one that is stale */
	uint32_t stale;	      /* pieces */
	struct list movers;   /* pieces and settling commands with a move to make */
	struct list saying;   /* commands */
	struct list telling;  /* commands whose last data has been sent off just now */
	struct list notified; /* commands, of which the requester was told, but not the owner */
	uint32_t notified_count;
	uint64_t notify_ns;	   /* when the owner is to be told of them at the latest */
	bool is_hurried;	   /* it is told of each at once */
	struct list platforms_due; /* with something to be done */
	struct rio_iounit_counts counts;
};

/* ---- iounit.c ------------------------------------------------------------------------------- */

/* Lets commands go on that can. */
void unit_run(struct rio_iounit *u);

/* ---- iounit_platforms.c --------------------------------------------------------------------- */

/* NULL: it is not granted. The second: whose memory the segment is. */
struct unit_platform *unit_platform_find(struct rio_iounit *u, struct platform name);
struct unit_platform *unit_platform_of(struct rio_iounit *u, const struct rio_segment *s);

/* As the command was checked for it: who was let in anew since then is somebody else. */
struct unit_platform *unit_platform_for(struct rio_iounit *u, const struct unit_command *c,
					const struct rio_segment *s);
enum weft_reason unit_platform_grant(struct rio_iounit *u, const struct rio_grant *grant);
void unit_platform_revoke(struct rio_iounit *u, struct platform name);

/* May a move with it begin now? If not, the waiter is told to go on when one may. */
bool unit_platform_is_ready(struct rio_iounit *u, struct unit_platform *p, struct unit_waiter *w);
void unit_platform_hang_up(struct rio_iounit *u, struct unit_platform *p);
bool unit_platform_act(struct rio_iounit *u, struct rio_act *act);

/* Whose turn it was may have given it up: whoever waits for one tries again. */
void unit_platforms_nudge(struct rio_iounit *u);

/* One move less is under way with it. */
void unit_platform_move_done(struct rio_iounit *u, struct unit_platform *p);

/* ---- iounit_commands.c ---------------------------------------------------------------------- */

void unit_command_begin(struct rio_iounit *u, uint64_t id, const struct rio_request *request);
void unit_command_ready(struct rio_iounit *u, struct unit_command *c);
void unit_command_go_on(struct rio_iounit *u, struct unit_command *c);
void unit_command_fail(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);

/* The same, and it does not wait for its device. */
void unit_command_give_up(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);
struct unit_command *unit_command_find(struct rio_iounit *u, uint64_t id);
void unit_command_free(struct rio_iounit *u, struct unit_command *c);
void unit_command_notified(struct rio_iounit *u, struct unit_command *c);

/* It will write there. False: to too many. */
bool unit_command_touches(struct unit_command *c, struct unit_platform *p);

/* It writes there now. False: it did before, over a connection that is gone. */
bool unit_command_writes(struct unit_command *c, struct unit_platform *p);

/* Another piece of a read has been sent off. */
void unit_command_issued(struct rio_iounit *u, struct unit_command *c);

/* Tells the requester, if that can be done; else the owner will. */
bool unit_command_tell_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act);
bool unit_command_settle_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act);
void unit_command_settled(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);

/* ---- iounit_pieces.c ------------------------------------------------------------------------ */

/* Goes so far in the transaction's memory, or to the end of the segment; says how far. */
uint32_t unit_cursor_step(struct unit_cursor *cursor, uint64_t most);

/* May one more buffer be the device's? (NULL: a list's) */
bool unit_piece_is_free(const struct rio_iounit *u, const struct unit_device *d);

/* The next piece of a command that runs; false: there is no buffer for its device. */
bool unit_piece_begin(struct rio_iounit *u, struct unit_command *c);

/* Does the next piece of a command that runs overlap one that is stale? */
bool unit_piece_is_fenced(const struct rio_iounit *u, const struct unit_command *c);

/* Pieces of a command that is given up: those at the device leave it. */
void unit_pieces_give_up(struct rio_iounit *u, struct unit_command *c);

/* A part of its list. */
bool unit_piece_fetch(struct rio_iounit *u, struct unit_command *c);
bool unit_piece_act(struct rio_iounit *u, struct unit_piece *p, struct rio_act *act);
void unit_piece_moved(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason);

/* A move that it wanted to make cannot be made. */
void unit_piece_refused(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason);
void unit_piece_stored(struct rio_iounit *u, struct unit_piece *p);
void unit_piece_abort_waiting(struct rio_iounit *u, const struct unit_command *c);

/* A move with this platform (NULL: the owner), of a piece or (NULL) of a command that settles. */
uint32_t unit_move_begin(struct rio_iounit *u, struct unit_platform *platform,
			 struct unit_command *c, struct unit_piece *piece);
