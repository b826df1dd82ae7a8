/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process of a fabric (docs/fabric.md): the nodes of a topology and their cables
 * (fabric/fabric.h) in real time, and the programs that use them. Programs of management connect by
 * messages of wire/fabric_msg.h, adapters by driver/fabric/fabric_hub.h; commands that cut, mend
 * and look are programs of the first kind.
 *
 * One thread does all of it. No program can hold it up: messages for one that does not read them
 * wait in a queue of its own, with a limit, and frames wait in the fabric.
 */
#pragma once

#include <weft/reason.h>

#include "fabric/topology.h"
#include "roles/fabric_parts.h"

enum { FABRIC_SERVER_NAME = 40 };

struct fabric_server;

/* What one part of a fabric that is cut has besides. */
struct fabric_server_part {
	const struct fabric_cut *cut; /* of the topology; borrowed */
	/* A line for people: parts that come and go, connections that are refused. */
	void (*tell)(void *context, const char *line);
	void *context;
};

struct fabric_server_options {
	const char *name;		       /* NULL: that of WEFT_FABRIC, or "fabric" */
	const struct fabric_server_part *part; /* NULL: the fabric is not cut */
	uint64_t spin_ns; /* awake for so long after the last frame; 0: it sleeps at once */
	uint8_t mtu;	  /* code of the greatest (iba_mtu_code()); 0: 4096 bytes */
};

/* The topology is not needed afterwards. WEFT_R_FABRIC_TAKEN: there is one of that name. */
enum weft_reason fabric_server_open(const struct topology *t,
				    const struct fabric_server_options *options,
				    struct fabric_server **s);
void fabric_server_close(struct fabric_server *own_s);

const char *fabric_server_name(const struct fabric_server *s);

/* Runs until fabric_server_stop(), which a signal handler and other threads may call. */
void fabric_server_run(struct fabric_server *s);
void fabric_server_stop(struct fabric_server *s);
