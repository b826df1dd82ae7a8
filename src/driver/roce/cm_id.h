/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of InfiniBand as programs use it: cm_ids and services, between the agent
 * (cm/ib_cm.h) and the port's management datagrams.
 *
 *	cm_id.c        the agent's events and datagrams; what becomes of cm_ids by them
 *	cm_id_calls.c  the public calls
 *	neighbour.c      processes of this host that end without a word
 */
#pragma once

#include <string.h>

#include <weft/roce.h>

#include "cm/ib_cm.h"
#include "driver/roce/roce.h"

enum { CONTACT_NEWS_MAX = 4 };

/* Every address of a family, or of both. What follows the four bytes of IPv4 counts for nothing. */
static inline bool cm_id_is_any(const struct weft_address *a)
{
	static const uint8_t any[16];

	return a->family == 0 || memcmp(a->ip, any, a->family == 6 ? 16 : 4) == 0;
}

/* What a cm_id that found nobody asks for once more. */
struct cm_id_again {
	struct list link; /* of roce->again */
	uint64_t at_ns, until_ns;
	bool is_refused;	      /* on purpose: nobody is asked, and it is told so */
	struct ib_cm_connect connect; /* or, of a datagram's cm_id: */
	struct ib_cm_resolve resolve;
	uint8_t private_data[IB_CM_SIDR_REQ_DATA]; /* the longer of the two */
	struct weft_cm_id *cm_id;
};

struct weft_cm_id {
	struct roce *roce;
	struct list link; /* of roce->cm_ids */
	struct event_source events;
	uint32_t id;	  /* of the agent's cm_id; 0: it is over */
	uint32_t over_id; /* of one that is over and in its time wait, or 0 */
	bool is_datagram;
	bool is_unproven; /* its request is of a peer that has not shown that it has its address */
	struct roce_conn *conn; /* that ends with it, or NULL */
	struct list leaving_link;
	uint64_t leave_ns;
	struct ibcm_parting parting; /* what the other end said then */
	struct cm_id_again *again;   /* or NULL: who finds nobody is told at once */
	struct neighbour *neighbour; /* the process at the other end, if it is on this host */
	struct list neighbour_link;
	/* Until the program takes it. */
	struct weft_service_point *service;
	struct list request_link;
	/* Not taken yet, the oldest first; the protocol has no more than these. */
	struct weft_cm_id_news news[CONTACT_NEWS_MAX];
	uint32_t news_first, news_count;
};

struct weft_service_point {
	struct roce *roce;
	struct list link; /* of roce->services */
	struct event_source events;
	struct weft_service_options options;
	uint64_t service_id;
	struct list requests; /* struct weft_cm_id */
	uint32_t unanswered;
};

enum weft_reason cm_ids_open(struct roce *roce);

/* Whether nobody has any. */
bool cm_ids_are_none(const struct roce *roce);

/* Everybody is told that this side goes. */
void cm_ids_leave(struct roce *roce);
void cm_ids_close(struct roce *roce);

/* The other end may be on this host: then the cm_id ends with its process. */
void neighbour_join(struct weft_cm_id *c, const struct ibcm_ip *ip, uint32_t peer_id);
void neighbour_leave(struct weft_cm_id *c);
uint64_t neighbours_due(const struct roce *roce);

/* CM ids with those that are gone end. */
void neighbours_expire(struct roce *roce, uint64_t now_ns);
void neighbours_close(struct roce *roce);

/* In a child of fork(): gives its copies of the descriptors back. */
void neighbours_abandon(struct roce *roce);

/* Management datagrams that have come; that are to be sent. */
void cm_ids_input(struct roce *roce);
void cm_ids_output(struct roce *roce);
uint64_t cm_ids_due(const struct roce *roce);
void cm_ids_expire(struct roce *roce, uint64_t now_ns);

/* A queue pair's connection ends: its cm_id hears of it. */
void cm_id_conn_ended(struct roce_conn *rc);

struct weft_cm_id *cm_id_create(struct roce *roce, void *context);

/* A cm_id that is not over is not touched: id is 0, or the agent has forgotten it. */
void cm_id_destroy(struct weft_cm_id *c);

/* It is no longer one of the service's unanswered requests. */
void cm_id_take(struct weft_cm_id *c);
