/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs of management send and receive at one port (IBA 13): agents, each for requests of
 * some class and methods; requests with their timeouts and retries, to which responses are matched
 * by transaction id; messages of several datagrams (RMPP, IBA 13.6), both ways.
 *
 * Not here: the agents that a node has of its own (fabric/), and the frames that carry datagrams.
 *
 * A core: bytes in, bytes out, and deadlines. The owner of an agent is a number of the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/list.h"
#include "wire/mad.h"

enum {
	MAD_AGENTS_MAX = 1024, /* of a port */
	MAD_SENDS_MAX = 8192,
	MAD_MESSAGE_MAX = 64 << 20,
	MAD_MESSAGE_MIN = 36, /* the common header and what may be that of RMPP */
	MAD_OUI_BYTES = 3,
	MAD_METHOD_WORDS = 4, /* of 32 bits: a bit for each method that is no response */
	MAD_GID_BYTES = 16
};

struct mad_port;

/* The other end: where a datagram goes, or where it came from. */
struct mad_address {
	uint16_t lid;
	uint16_t pkey_index;
	uint32_t qpn, q_key;
	uint8_t level, path_bits;
	bool has_grh;
	uint8_t gid_index, hop_limit, traffic_class;
	uint32_t flow_label;
	uint8_t gid[MAD_GID_BYTES];
};

struct mad_datagram {
	struct mad_address address;
	uint8_t bytes[MAD_BYTES];
};

struct mad_agent_attr {
	uint32_t owner;
	uint8_t mgmt_class; /* 0: none, it only sends, and hears answers */
	uint8_t class_version;
	uint8_t rmpp_version; /* 0: it makes and reads segments itself */
	uint8_t oui[MAD_OUI_BYTES];
	uint32_t methods[MAD_METHOD_WORDS];
};

struct mad_request {
	uint32_t agent;
	struct mad_address address;
	const uint8_t *bytes;
	uint32_t length;     /* of more than MAD_BYTES: with the headers of its first segment */
	uint64_t timeout_ns; /* for the answer, each time it is sent; 0: it has none */
	uint32_t retries;
};

/* For an owner: what has come for one of its agents, or a request of it that had no answer. */
struct mad_message {
	struct list link;
	uint32_t owner, agent;
	bool is_timed_out; /* then these are the bytes of the request's header */
	struct mad_address address;
	uint32_t length;
	uint8_t *bytes;
};

/* NULL: no memory. */
struct mad_port *mad_port_create(void);
void mad_port_destroy(struct mad_port *p);

/*
 * WEFT_R_MAD_METHOD_TAKEN: requests of one of these methods go to another agent.
 * WEFT_R_MAD_AGENT: no such class or version, or too many agents.
 */
enum weft_reason mad_agent_add(struct mad_port *p, const struct mad_agent_attr *a, uint32_t *agent);
void mad_agent_remove(struct mad_port *p, uint32_t agent);

/* All agents of an owner, with what they wait for and what is there for them. */
void mad_owner_remove(struct mad_port *p, uint32_t owner);

/*
 * The bytes are copied. Of a request the high 32 bits of the transaction id become those of the
 * agent. WEFT_R_MAD_AGENT: there is none. WEFT_R_MAD_LENGTH: too short, or too long for its class.
 * WEFT_R_MAD_TID: a request with this transaction id is on its way. WEFT_R_MAD_BUSY: too many are.
 */
enum weft_reason mad_send(struct mad_port *p, const struct mad_request *r);

/* The next datagram to be sent. False: there is none. */
bool mad_next(struct mad_port *p, uint64_t now_ns, struct mad_datagram *d);

/* One has come. False: it is for no agent. */
bool mad_recv(struct mad_port *p, uint64_t now_ns, const struct mad_datagram *d);

/* The next message for an owner, which the caller frees; NULL: there is none. */
struct mad_message *mad_take(struct mad_port *p);
void mad_message_free(struct mad_message *m);

/* UINT64_MAX: nothing is waited for. */
uint64_t mad_due(const struct mad_port *p);
void mad_expire(struct mad_port *p, uint64_t now_ns);

/* Requests and messages that are not at their end yet. */
uint32_t mad_send_count(const struct mad_port *p);
