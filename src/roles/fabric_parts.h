/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric that is cut into parts, each of which is a process (docs/fabric.md): a file that says
 * which parts there are, by which keys they know each other, and which nodes each of them is. All
 * of them read the same file, and the same topology; each has a secret key of its own.
 *
 *	alive TIME                       how long a host may be silent
 *	part NAME KEY [ADDRESS:PORT]     where it listens; one of two parts that cables join must
 *	nodes NAME NODE                  a node, or all whose names begin so: leaf*
 */
#pragma once

#include <weft/connection.h>

#include "fabric/topology.h"
#include "rio/handshake.h"
#include "roles/config_file.h"
#include "wire/trunk.h"

enum { FABRIC_PARTS_MAX = 64, FABRIC_PATTERNS_MAX = 4096 };

struct fabric_part {
	const char *name;
	struct weft_address address; /* port 0: it does not listen */
	uint32_t line;
};

struct fabric_pattern {
	uint32_t part;
	const char *text;
};

/* All texts point into the struct itself. */
struct fabric_parts {
	struct rio_known known[FABRIC_PARTS_MAX]; /* for a struct rio_book */
	struct fabric_part parts[FABRIC_PARTS_MAX];
	uint32_t part_count, pattern_count;
	uint64_t alive_ns;
	struct fabric_pattern patterns[FABRIC_PATTERNS_MAX];
	char text[];
};

/* Copies the text. False: the file is bad, *complaint says why, and *parts is not set. */
bool fabric_parts_read(const char *text, size_t length, struct fabric_parts **parts,
		       struct config_complaint *complaint);
void fabric_parts_destroy(struct fabric_parts *p);

enum { FABRIC_PART_NONE = UINT32_MAX };

/* The part of a node: that of the first line that names it. */
uint32_t fabric_parts_find(const struct fabric_parts *p, const struct topology_node *n);

/* One part of a topology, with what it needs to be it. */
struct fabric_cut {
	struct fabric_parts *parts;
	struct rio_identity identity; /* with its secret key */
	uint32_t self;
	uint32_t *part_of; /* by node */
	bool *are_here;	   /* by node */
	uint8_t digest[TRUNK_DIGEST_BYTES];
};

struct fabric_cut_files {
	const char *parts; /* the file of parts */
	const char *name;  /* of this part */
	const char *key;   /* the file of its secret key; NULL: NAME.key beside that of parts */
};

/* False: `why` says why. */
bool fabric_cut_open(struct fabric_cut *c, const struct topology *t,
		     const struct fabric_cut_files *files, char why[CONFIG_FILE_WHY]);

/* Wipes the secret key. */
void fabric_cut_close(struct fabric_cut *c);

/* Which of two parts dials: true, if it is this one. */
bool fabric_cut_dials(const struct fabric_cut *c, uint32_t other);
