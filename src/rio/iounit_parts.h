/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The I/O unit's internals, for its own files only: iounit.c (creation, messages, acts),
 * iounit_commands.c (a command from its list to its status), iounit_pieces.c (data in flight),
 * iounit_platforms.c (platforms whose memory may be named, and the connections to them).
 *
 *	command   fetching -> running -> settling -> saying
 *	piece     device -> moving (a read), moving -> device (a write), device (all else)
 *	move      of a piece, of a settling command, or of a fetched list
 *
 * A move is one RDMA operation. A command that is abandoned (timed out, cancelled, or its owner has
 * left) ends even while the device still holds pieces of it. Pieces among them that write are
 * *stale*: a new piece that overlaps a stale one starts only when the stale one has ended
 * (docs/rio.md, "What a write promises", rule 2).
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
	COMMAND_PIECES_MAX = 8,	  /* in progress at a time */
	COMMAND_PLATFORMS_MAX = 8 /* that a single command writes to */
};

struct unit_device {
	struct store *store;
	uint64_t instance;
	uint32_t number;
	char name[RIO_DEVICE_NAME_MAX];
	uint32_t name_bytes;
	uint32_t pieces;    /* in progress or stale */
	struct list hungry; /* commands that wait for a buffer for this device */
};

enum platform_state {
	PLATFORM_FREE = 0, /* the slot is unused */
	PLATFORM_GRANTED,  /* may be connected to when a command needs it */
	PLATFORM_WANTED,   /* DIAL is due */
	PLATFORM_DIALLING,
	PLATFORM_UP,
	PLATFORM_LEAVING, /* up, HANG_UP is due */
	PLATFORM_STATES
};

struct unit_platform {
	struct platform name;
	enum platform_state state;
	bool is_revoked; /* the slot becomes free once no move uses it */
	bool is_anew;	 /* granted anew while LEAVING: waiters want the next connection */
	uint64_t grant;	 /* the grant's number, by rio_iounit.grants */
	uint8_t token[RIO_TOKEN_BYTES];
	uint8_t nonce[RIO_NONCE_BYTES];
	uint64_t counter;	    /* in the last connection request */
	uint32_t connections;	    /* made so far for this slot; the number of the current one */
	struct rio_session session; /* of the current connection */
	uint8_t question[RIO_DATA_BYTES];
	struct rio_address address;
	uint32_t moves;	     /* in progress */
	struct list waiting; /* unit_waiters: for it to be up, or less busy */
	struct list link;    /* in platforms_due */
};

enum command_state {
	COMMAND_FREE = 0,
	COMMAND_FETCHING, /* reads the rest of its list */
	COMMAND_RUNNING,
	COMMAND_SETTLING,
	COMMAND_SAYING, /* all moves ended; requester or owner are to be told */
	COMMAND_STATES
};

/* A piece or a command that waits: for a platform, for a buffer, or to send its status. */
struct unit_waiter {
	struct list link;
	bool is_piece;
};

/* A position in the memory of a transaction. */
struct unit_cursor {
	struct rio_walk walk;
	struct rio_segment segment;
	uint32_t used; /* bytes of the segment behind it */
};

/* A platform that was written to, and the number of the connection used; 0: not yet written to. */
struct unit_touch {
	struct unit_platform *platform;
	uint32_t connection;
};

struct unit_command {
	struct unit_waiter waiter;
	enum command_state state;
	uint64_t id;
	struct platform requester;
	uint64_t asked; /* the requester's id for the request */
	struct rio_list *list;
	uint64_t grants; /* rio_iounit.grants when the command was checked */
	struct timer timer;
	/* The current transaction, and where its next piece begins. */
	struct unit_cursor cursor;
	struct sgl_transaction now;
	struct unit_device *device;
	uint32_t number; /* its index, from 0 */
	uint64_t cut;	 /* bytes of it cut into pieces so far */
	bool is_cut;	 /* all of it has been cut */
	uint32_t pieces; /* in progress */
	/* RIO-02g, RIO-02h: pieces of a transaction issue their moves one after the other. */
	uint32_t begun, turn; /* pieces of it so far; the number of the one that may issue moves */
	/* The outcome so far. */
	enum weft_reason reason; /* the first failure */
	uint64_t done_bytes;
	bool is_dropped; /* its owner has left: no status is sent */
	bool is_late;	 /* timed out: waits only for moves in progress */
	struct unit_touch touched[COMMAND_PLATFORMS_MAX];
	uint32_t touched_count, settled_count; /* settled_count: SETTLEs issued so far */
	uint32_t settles;		       /* in progress */
	/* How this unit tells the requester: behind the last data, or when all has ended. */
	struct list tell_link;
	bool is_last;	   /* the current transaction is the last one */
	uint32_t unissued; /* pieces of a read with moves still to issue */
	uint64_t moving;   /* bytes in its pieces */
	bool is_notify_due;
	bool is_notified;	 /* told by this unit; the owner's status alone is not enough */
	bool is_notified_behind; /* told behind the last data */
	bool is_urgent;		 /* report its end to the owner without batching */
};

enum piece_state {
	PIECE_FREE = 0,
	PIECE_DEVICE, /* at the device */
	PIECE_MOVING, /* RDMA to or from a platform's memory */
	PIECE_STATES
};

struct unit_piece {
	struct unit_waiter waiter;
	enum piece_state state;
	struct unit_command *command; /* NULL: abandoned while the device had the piece */
	struct unit_device *device;   /* NULL: holds a part of a list */
	bool is_stale;
	uint8_t *buffer;   /* the piece's own buffer */
	struct span bytes; /* in the buffer, or in the device's memory */
	struct store_request request;
	uint32_t number; /* of the pieces of its transaction, from 0 */
	/* Where the next move begins. */
	struct unit_cursor cursor;
	uint64_t issued; /* bytes moved, moving or copied */
	uint32_t moves;	 /* in progress */
	enum weft_reason reason;
	bool is_fetch;	/* a part of the command's list */
	bool is_direct; /* RDMA directly from or to the device's memory */
};

struct unit_move {
	struct list link;		/* in free_moves */
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
	 * Commands of former owners whose moves have not ended. The next owner is offered the
	 * devices only when this is 0, because it may then use all command slots.
	 */
	uint32_t dropped;
	struct platform owner;
	struct rio_session session;
	uint64_t pong_id;
	uint8_t message[RIO_MSG_BYTES_MAX];
	/* Slots of each kind, and the queues. */
	struct unit_command *commands;
	struct unit_piece *pieces;
	struct unit_platform *platforms; /* the first is this unit itself */
	uint32_t platform_count;
	struct unit_move *moves;
	uint32_t move_count, moves_under_way;
	uint64_t grants;    /* number of the last grant */
	bool has_submitted; /* requests to devices since their completions were last collected */
	struct timer_queue timers;
	struct list free_commands, free_pieces, free_moves;
	struct list ready;    /* commands that can continue */
	struct list hungry;   /* commands that wait for a buffer to fetch their list */
	uint32_t turn;	      /* the device that last got a buffer */
	struct list fenced;   /* commands whose next piece overlaps a stale one */
	uint32_t stale;	      /* stale pieces */
	struct list movers;   /* pieces and settling commands with a move to issue */
	struct list saying;   /* commands with a status to send */
	struct list telling;  /* commands whose last data has just been sent */
	struct list notified; /* commands of which the requester was told, but not yet the owner */
	uint32_t notified_count;
	uint64_t notify_ns;		   /* when the batched notice to the owner must go out */
	bool is_hurried;		   /* shutting down: notices are not batched */
	struct list platforms_due;	   /* platforms with an act due */
	uint32_t commands_now, pieces_now; /* slots in use */
	uint64_t newest_id;		   /* no outstanding command has a greater one */
};

/* ---- iounit.c ------------------------------------------------------------------------------- */

/* Continues all commands that can continue. */
void unit_run(struct rio_iounit *u);

/* ---- iounit_platforms.c --------------------------------------------------------------------- */

/* NULL: not granted. unit_platform_of(): the platform whose memory the segment names. */
struct unit_platform *unit_platform_find(struct rio_iounit *u, struct platform name);
struct unit_platform *unit_platform_of(struct rio_iounit *u, const struct rio_segment *s);

/* The same; NULL also if the grant is newer than the command's check: a new grant is a new peer. */
struct unit_platform *unit_platform_for(struct rio_iounit *u, const struct unit_command *c,
					const struct rio_segment *s);
enum weft_reason unit_platform_grant(struct rio_iounit *u, const struct rio_grant *grant);
void unit_platform_revoke(struct rio_iounit *u, struct platform name);

/* May a move with the platform start now? If not, the waiter is queued and woken when one may. */
bool unit_platform_is_ready(struct rio_iounit *u, struct unit_platform *p, struct unit_waiter *w);
void unit_platform_hang_up(struct rio_iounit *u, struct unit_platform *p);
bool unit_platform_act(struct rio_iounit *u, struct rio_act *act);

/* A waiter may have given up its turn: wakes the next ones. */
void unit_platforms_nudge(struct rio_iounit *u);

/* A move with the platform has ended. */
void unit_platform_move_done(struct rio_iounit *u, struct unit_platform *p);

/* ---- iounit_commands.c ---------------------------------------------------------------------- */

void unit_command_begin(struct rio_iounit *u, uint64_t id, const struct rio_request *request);
void unit_command_ready(struct rio_iounit *u, struct unit_command *c);
void unit_command_go_on(struct rio_iounit *u, struct unit_command *c);
void unit_command_fail(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);

/* The same, without waiting for its device. */
void unit_command_give_up(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);
struct unit_command *unit_command_find(struct rio_iounit *u, uint64_t id);
void unit_command_free(struct rio_iounit *u, struct unit_command *c);
void unit_command_notified(struct rio_iounit *u, struct unit_command *c);

/* Records a write on the current connection. False: an earlier write used one that is gone. */
bool unit_command_writes(struct unit_command *c, struct unit_platform *p);

/* All moves of a piece of a read have been issued. */
void unit_command_issued(struct rio_iounit *u, struct unit_command *c);

/* Tells the requester if it is connected. False: the owner will tell it. */
bool unit_command_tell_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act);
bool unit_command_settle_act(struct rio_iounit *u, struct unit_command *c, struct rio_act *act);
void unit_command_settled(struct rio_iounit *u, struct unit_command *c, enum weft_reason reason);

/* ---- iounit_pieces.c ------------------------------------------------------------------------ */

/* May the device (NULL: a list) take one more buffer? */
bool unit_piece_is_free(const struct rio_iounit *u, const struct unit_device *d);

/* Starts the next piece of a running command; false: its device gets no buffer now. */
bool unit_piece_begin(struct rio_iounit *u, struct unit_command *c);

/* Does the next piece of a running command overlap a stale one? */
bool unit_piece_is_fenced(const struct rio_iounit *u, const struct unit_command *c);

/* The command is abandoned: detaches its pieces that are at the device. */
void unit_pieces_give_up(struct rio_iounit *u, struct unit_command *c);

/* Fetches a part of the command's list. */
bool unit_piece_fetch(struct rio_iounit *u, struct unit_command *c);
bool unit_piece_act(struct rio_iounit *u, struct unit_piece *p, struct rio_act *act);

void unit_piece_moved(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason);

/* A move that the piece waited for cannot be made. */
void unit_piece_refused(struct rio_iounit *u, struct unit_piece *p, enum weft_reason reason);
void unit_piece_stored(struct rio_iounit *u, struct unit_piece *p);
void unit_piece_abort_waiting(struct rio_iounit *u, const struct unit_command *c);

/*
 * Starts a move with the platform (NULL: the owner) for a piece, or (NULL) for a settling command.
 */
uint32_t unit_move_begin(struct rio_iounit *u, struct unit_platform *platform,
			 struct unit_command *c, struct unit_piece *piece);
