/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the process of a fabric; only its files include this.
 *
 *   fabric_server.c          life, and the loop
 *   fabric_server_client.c   connections of programs, their messages
 *   fabric_server_ask.c      what they ask: ports, cables
 *   fabric_server_port.c     frames at ports that programs use
 *   fabric_server_report.c   what weft fabric top shows
 *   fabric_server_tap.c      frames of a port for programs that capture them
 *   fabric_server_mad.c      frames and management datagrams, one made of the other
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "driver/fabric/fabric_hub.h"
#include "driver/sys/fabric_client.h"
#include "fabric/fabric.h"
#include "fabric/node.h"
#include "mad/mad_port.h"
#include "roles/fabric_server.h"
#include "roles/fabric_trunks.h"
#include "roles/reporter.h"

enum {
	SERVER_CLIENTS_MAX = 1024,
	SERVER_AGENTS_MAX = 32 /* of a client, as the kernel has it */
};

/* A port that programs use: agents of management, adapters of which one has no room. */
struct server_port {
	struct list link; /* in server.ports */
	uint32_t node, port;
	uint32_t managers;     /* programs that are its subnet manager */
	struct mad_port *mads; /* NULL: no program of management was here */
	uint32_t psn;
	uint32_t blocked_bytes; /* of a datagram that the fabric had no room for */
	uint8_t blocked[MAD_BYTES * 2];
};

struct server_client {
	int fd;
	uint32_t number; /* in server.clients */
	bool is_ended;
	struct server_port *port;    /* attached to; NULL: to none */
	struct server_port *managed; /* whose subnet manager it is */
	uint32_t agents[SERVER_AGENTS_MAX], agent_count;
	struct list waiting; /* struct mad_message: its socket had no room */
	uint32_t waiting_count;
	bool is_tap; /* gets the frames of a port */
	uint32_t tap_node, tap_port;
	uint64_t tap_lost; /* not told yet */
};

struct server_counts {
	uint64_t datagrams_in, datagrams_out; /* from and to programs */
	uint64_t unwanted;		      /* datagrams for no agent */
	uint64_t unread;		      /* messages that a program did not read */
	uint64_t wrong_key;		      /* frames whose P_Key the port has not */
};

struct fabric_server {
	char name[FABRIC_SERVER_NAME + 1];
	struct fabric *fabric;
	struct fabric_hub *hub;
	struct fabric_trunks *trunks; /* NULL: it is not cut */
	char (*names)[TOPOLOGY_NAME_BYTES], (*ids)[TOPOLOGY_NAME_BYTES];
	uint32_t *first_port; /* of each node, in port_at */
	struct server_port **port_at;
	struct list ports;
	struct server_client *clients[SERVER_CLIENTS_MAX];
	uint32_t client_count, ended_count;
	struct reporter *reporter; /* or NULL */
	int epoll, listener, wake, spare;
	atomic_bool is_stopping;
	uint64_t now_ns, begin_ns;
	uint64_t spin_ns, moved_ns; /* SYS-06: so long it stays awake; after this */
	bool is_awake;
	struct server_counts counts;
	struct fabric_crossing crossing; /* that was found last */
	struct fabric_packet packet;	 /* the message that is looked at */
	uint8_t frame[IBA_FRAME_MAX];
};

/* ---- fabric_server_client.c ----------------------------------------------------------------- */

/* All that wait at the listener. */
void server_clients_accept(struct fabric_server *s);

/* Something has come from it, or its socket has room. */
void server_client_serve(struct fabric_server *s, struct server_client *c, uint32_t events);

/* What agents of a port have got goes to their programs. */
void server_messages_tell(struct fabric_server *s, struct server_port *p);

/* Forgets those that have ended. */
void server_clients_reap(struct fabric_server *s);
void server_clients_close(struct fabric_server *s);

/* ---- fabric_server_ask.c -------------------------------------------------------------------- */

/* The node of a name, and the port by which it is known; 0: none in particular. */
bool server_find(const struct fabric_server *s, const char *name, uint32_t *node, uint32_t *port);

/* The port whose owner a program at that place is. WEFT_R_FABRIC_NODE: there is none. */
enum weft_reason server_owner_find(const struct fabric_server *s,
				   const struct fabric_msg_where *where, uint32_t *node,
				   uint32_t *port);

/* What a port is like, for its adapters. False: there is no such port of an endnode. */
bool server_port_state(struct fabric_server *s, uint32_t node, uint32_t port,
		       struct attach_state *state);

/* The answer to a question that needs no connection to a port. */
struct fabric_msg server_answer(struct fabric_server *s, const struct fabric_msg *ask);

/* ---- fabric_server_port.c ------------------------------------------------------------------- */

/* NULL: memory is short. */
struct server_port *server_port_get(struct fabric_server *s, uint32_t node, uint32_t port);

/* Frames that came at a port go to its adapters and agents, as long as these have room. */
void server_port_take(struct fabric_server *s, uint32_t node, uint32_t port);

/* Datagrams of its agents leave, as long as the fabric has room. True: one did. */
bool server_port_send(struct fabric_server *s, struct server_port *p);
void server_ports_close(struct fabric_server *s);

/* ---- fabric_server_mad.c -------------------------------------------------------------------- */

/* False: the frame has no management datagram for a program. */
bool server_datagram_read(struct fabric_server *s, const struct server_port *p,
			  const uint8_t *bytes, uint32_t length, struct mad_datagram *d);

/* Returns the length of the frame; 0: the address names a key or a GID that the port has not. */
uint32_t server_datagram_write(struct fabric_server *s, struct server_port *p,
			       const struct mad_datagram *d, uint8_t bytes[IBA_FRAME_MAX]);

/* ---- fabric_server_report.c ----------------------------------------------------------------- */

char *server_report(void *server, size_t *length);

/* ---- fabric_server_tap.c -------------------------------------------------------------------- */

/* From now on the client gets a port's frames: FABRIC_MSG_FRAME. Port 0: all of the node. */
enum weft_reason server_tap_open(struct fabric_server *s, struct server_client *c,
				 const struct fabric_msg_where *where);
void server_tap_close(struct fabric_server *s, struct server_client *c);
