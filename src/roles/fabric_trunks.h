/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connections of a part of a fabric with its other parts (fabric_parts.h): one by TCP with each
 * part that cables join with this one. It begins with the greeting of directed I/O, by which each
 * knows the other by its key, and goes on in records of messages (wire/trunk.h) that are sealed.
 *
 * A part is trusted with its own nodes only: what it says of other cables ends its connection. So
 * does whatever is no message. Its cables are down then, and up when it is back.
 */
#pragma once

#include "fabric/fabric.h"
#include "roles/fabric_parts.h"

struct fabric_trunks;

struct fabric_trunks_config {
	const struct fabric_cut *cut; /* borrowed */
	struct fabric *fabric;
	/* A line for people; may be NULL. */
	void (*tell)(void *context, const char *line);
	void *context;
};

/* Listens, if another part dials this one. */
enum weft_reason fabric_trunks_open(const struct fabric_trunks_config *config,
				    struct fabric_trunks **trunks);
void fabric_trunks_close(struct fabric_trunks *own_t);

/* Readable when there is something to do. */
int fabric_trunks_fd(const struct fabric_trunks *t);

/* What has come; fabric_run() must follow. True: there may be more. */
bool fabric_trunks_take(struct fabric_trunks *t, uint64_t now_ns);

/* What the fabric has for other parts. True: something left. */
bool fabric_trunks_send(struct fabric_trunks *t);

/* A port of a node here has changed: other parts are told, for names and addresses. */
void fabric_trunks_changed(struct fabric_trunks *t, uint32_t node, uint32_t port);

/* Whether another part has told of a port. */
bool fabric_trunks_knows(const struct fabric_trunks *t, uint32_t node, uint32_t port);

/* Which part has a node, and what is known of it here. */
struct fabric_trunk_where {
	const char *self, *name;
	struct weft_address address; /* of its host; family 0: not known here */
	bool is_joined;
};

void fabric_trunks_where(const struct fabric_trunks *t, uint32_t node,
			 struct fabric_trunk_where *where);

/* Deadlines that have passed; when the next one is. */
uint64_t fabric_trunks_expire(struct fabric_trunks *t, uint64_t now_ns);
