/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand connection manager as programs use it: cm_ids and services, between the agent
 * (cm/ib_cm.h) and the port's management datagrams.
 *
 *	cm_id.c        the agent's events and datagrams, and their effect on cm_ids
 *	cm_id_calls.c  the public calls
 *	neighbour.c    notices when a process of this host dies
 */
#pragma once

#include <string.h>

#include <weft/roce.h>

#include "cm/ib_cm.h"
#include "driver/roce/roce.h"

enum { CM_ID_NEWS_MAX = 4 };

/* Whether it is the wildcard of its family, or of both (0). Of IPv4 only four bytes count. */
static inline bool cm_id_is_any(const struct weft_address *a)
{
	static const uint8_t any[16];

	return a->family == 0 || memcmp(a->ip, any, a->family == 6 ? 16 : 4) == 0;
}

/* A request that found no listener, and is repeated. */
struct cm_id_again {
	struct list link; /* of roce->again */
	uint64_t at_ns, until_ns;
	bool is_refused;	      /* by fault injection: refused without being sent */
	struct ib_cm_connect connect; /* of a connection */
	struct ib_cm_resolve resolve; /* of a datagram cm_id */
	uint8_t private_data[IB_CM_SIDR_REQ_DATA]; /* the longer of the two */
	struct weft_cm_id *cm_id;
};

struct weft_cm_id {
	struct roce *roce;
	struct list link; /* of roce->cm_ids */
	struct event_source events;
	uint32_t id;	  /* of the agent's cm_id; 0: it has ended */
	uint32_t over_id; /* of the agent's cm_id in time wait, or 0 */
	bool is_datagram;
	bool is_unproven;	/* the peer of its request has not proven its source address */
	struct roce_conn *conn; /* that ends with it, or NULL */
	struct list leaving_link;
	uint64_t leave_ns;
	struct ibcm_parting parting; /* the peer's last message */
	struct cm_id_again *again;   /* or NULL: fails at once if there is no listener */
	struct neighbour *neighbour; /* the peer's process, if it is on this host */
	struct list neighbour_link;
	/* Until the program takes the request. */
	struct weft_cm_service *service;
	struct list request_link;
	/* Not taken yet, the oldest first; the protocol never has more at a time. */
	struct weft_cm_id_news news[CM_ID_NEWS_MAX];
	uint32_t news_first, news_count;
};

struct weft_cm_service {
	struct roce *roce;
	struct list link; /* of roce->services */
	struct event_source events;
	struct weft_cm_service_options options;
	uint64_t service_id;
	struct list requests; /* struct weft_cm_id */
	uint32_t unanswered;
};

enum weft_reason cm_ids_open(struct roce *roce);

/* Whether the program holds neither cm_ids nor services. */
bool cm_ids_are_none(const struct roce *roce);

/* Tells all peers that this side ends. */
void cm_ids_leave(struct roce *roce);
void cm_ids_close(struct roce *roce);

/* If the peer is on this host, the cm_id ends when the peer's process ends. */
void neighbour_join(struct weft_cm_id *c, const struct ibcm_ip *ip, uint32_t peer_id);
void neighbour_leave(struct weft_cm_id *c);
uint64_t neighbours_due(const struct roce *roce);

/* Ends the cm_ids whose peer's process has ended. */
void neighbours_expire(struct roce *roce, uint64_t now_ns);
void neighbours_close(struct roce *roce);

/* In a child of fork(): closes its copies of the descriptors. */
void neighbours_abandon(struct roce *roce);

/* Handles the management datagrams received; sends those of the agent. */
void cm_ids_input(struct roce *roce);
void cm_ids_output(struct roce *roce);
uint64_t cm_ids_due(const struct roce *roce);
void cm_ids_expire(struct roce *roce, uint64_t now_ns);

/* A queue pair's connection has ended: tells its cm_id. */
void cm_id_conn_ended(struct roce_conn *rc);

struct weft_cm_id *cm_id_create(struct roce *roce, void *context);

/* Frees a cm_id that has ended: id is 0, or the agent has freed its own. */
void cm_id_destroy(struct weft_cm_id *c);

/* Removes it from the service's unanswered requests. */
void cm_id_take(struct weft_cm_id *c);
