/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester in a small world: an owner whom it asks, and windows that the world opens and closes
 * for it. The world keeps the rules of the real one and fails if the requester breaks them.
 */
#pragma once

#include "base/prng.h"
#include "rio/requester.h"

enum {
	ASKER = 7, /* the requester is 7.1, the owner 1.1, I/O units 20.1 and up */
	ASKER_REQUESTS = 4,
	ASKER_WINDOWS = 12,
	ASKER_UNITS = 2,
	ASKER_DEVICES = 200,
	ASKER_LISTS = 2,
	ASKER_HANDLE = 0x11570000, /* of the lists */
	ASKER_DEVICE = 0x10003,
	ASKER_TAG = 0x77, /* of the memory that is asked for */
	ASKER_TIMEOUT_MS = 1000,
	ASKER_GRACE_MS = 50,
	ASKER_HEARD_MAX = 64,
	NS_PER_MS = 1000 * 1000
};

#define ASKER_LISTS_ADDRESS UINT64_C(0x7f0000010000)

enum pane { PANE_SHUT, PANE_ASKED, PANE_OPEN };

/* A window, as the driver has it. */
struct pane_of {
	enum pane state;
	uint32_t tag, handle, length;
	uint64_t address;
	bool is_written;
	struct platform iounit;
};

/* What the requester has said. */
struct heard {
	enum rio_msg_type type;
	uint64_t id;
	uint32_t timeout_ms;
	size_t length;
	uint8_t list[RIO_REQUEST_LIST_MAX];
};

struct asker_world {
	struct rio_requester *q;
	struct rio_session owner;	 /* the other end of the requester's */
	uint32_t owners;		 /* that have come so far */
	uint8_t said[RIO_MSG_BYTES_MAX]; /* by the owner */
	uint8_t *lists;
	struct pane_of panes[ASKER_WINDOWS];
	uint32_t handles;  /* given so far */
	uint32_t open_now; /* of the panes */
	bool is_slow;	   /* windows are opened by asker_expose() only */
	struct heard heard[ASKER_HEARD_MAX];
	uint32_t heard_count;
	uint32_t opened, closed; /* so far */
	struct platform hung_up[ASKER_HEARD_MAX];
	uint32_t hung_up_count;
	uint64_t now_ns;
	const char *failure;
};

/* With an owner that allows so many requests, and so long a list in a message. */
void asker_open(struct asker_world *w, uint32_t requests_max, uint32_t list_max);
/* The same, with room for so many requests of its own. */
void asker_open_with(struct asker_world *w, uint32_t own_requests_max, uint32_t requests_max,
		     uint32_t list_max);
void asker_close(struct asker_world *w);
struct rio_requester_config asker_config(uint8_t *lists);
void asker_fail(struct asker_world *w, const char *why);

void asker_owner_comes(struct asker_world *w, uint32_t requests_max, uint32_t list_max);

/* The owner says something; how the requester takes it. */
enum weft_reason asker_hears(struct asker_world *w, const struct rio_msg *m);
enum weft_reason asker_status(struct asker_world *w, uint64_t id, enum weft_reason reason);

/* One act is carried out; false: there is none. Or all of them. */
bool asker_step(struct asker_world *w);
void asker_run(struct asker_world *w);

/* Answers the EXPOSE of this window. */
void asker_expose(struct asker_world *w, uint32_t id, enum weft_reason reason);

/* Time goes by. */
void asker_wait(struct asker_world *w, uint64_t ns);

/* How many messages of this type were said, and the latest of them, which there must be. */
uint32_t asker_heard(const struct asker_world *w, enum rio_msg_type type);
const struct heard *asker_latest(const struct asker_world *w, enum rio_msg_type type);

/* The list of a request that was said, fetched as an owner does. To be destroyed. */
struct rio_list *asker_list(struct asker_world *w, const struct heard *heard);

/* Every detail of it that is the requester's own is a window that is open, just so wide. */
bool asker_list_is_open(struct asker_world *w, const struct heard *heard);

/* ---- Asking --------------------------------------------------------------------------------- */

struct rio_fragment asker_own(uint64_t address, uint32_t length);
struct sgl_transaction asker_transaction(enum sgl_operation operation, uint64_t length);

/* As long as its fragments. */
struct rio_wanted asker_wanted(enum sgl_operation operation, const struct rio_fragment *f,
			       uint32_t count);
enum weft_reason asker_ask(struct asker_world *w, const struct rio_wanted *what, uint32_t count,
			   uint64_t *id);

/* Reads into so many fragments of 4 KiB; the request's id. */
uint64_t asker_read(struct asker_world *w, uint32_t fragments);

/* A write of so many bytes of immediate data: makes a list of 48 bytes more. */
enum weft_reason asker_ask_long(struct asker_world *w, uint32_t bytes, uint64_t *id);

/* The first of the windows that are to be opened; there must be one. */
uint32_t asker_pane(const struct asker_world *w);

/* It has ended, so, and nothing else has. Or: takes one that has ended, if there is one. */
void asker_expect_ended(struct asker_world *w, uint64_t id, uint32_t reason);
bool asker_has_ended(struct asker_world *w);
