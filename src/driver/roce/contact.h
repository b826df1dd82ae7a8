/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of InfiniBand as programs use it: contacts and services, between the agent
 * (cm/ib_cm.h) and the port's management datagrams.
 *
 *	contact.c        the agent's events and datagrams; what becomes of contacts by them
 *	contact_calls.c  the public calls
 *	neighbour.c      processes of this host that end without a word
 */
#pragma once

#include <string.h>

#include <weft/roce.h>

#include "cm/ib_cm.h"
#include "driver/roce/roce.h"

enum { CONTACT_NEWS_MAX = 4 };

/* Every address of a family, or of both. What follows the four bytes of IPv4 counts for nothing. */
static inline bool contact_is_any(const struct weft_address *a)
{
	static const uint8_t any[16];

	return a->family == 0 || memcmp(a->ip, any, a->family == 6 ? 16 : 4) == 0;
}

/* What a contact that found nobody asks for once more. */
struct contact_again {
	struct list link; /* of roce->again */
	uint64_t at_ns, until_ns;
	bool is_refused;	      /* on purpose: nobody is asked, and it is told so */
	struct ib_cm_connect connect; /* or, of a datagram's contact: */
	struct ib_cm_resolve resolve;
	uint8_t private_data[IB_CM_SIDR_REQ_DATA]; /* the longer of the two */
	struct weft_contact *contact;
};

struct weft_contact {
	struct roce *roce;
	struct list link; /* of roce->contacts */
	struct event_source events;
	uint32_t id;	  /* of the agent's conversation; 0: it is over */
	uint32_t over_id; /* of one that is over and in its time wait, or 0 */
	bool is_datagram;
	bool is_unproven; /* its request is of a peer that has not shown that it has its address */
	struct roce_conn *conn; /* that ends with it, or NULL */
	struct list leaving_link;
	uint64_t leave_ns;
	struct ibcm_parting parting; /* what the other end said then */
	struct contact_again *again; /* or NULL: who finds nobody is told at once */
	struct neighbour *neighbour; /* the process at the other end, if it is on this host */
	struct list neighbour_link;
	/* Until the program takes it. */
	struct weft_service_point *service;
	struct list request_link;
	/* Not taken yet, the oldest first; the protocol has no more than these. */
	struct weft_contact_news news[CONTACT_NEWS_MAX];
	uint32_t news_first, news_count;
};

struct weft_service_point {
	struct roce *roce;
	struct list link; /* of roce->services */
	struct event_source events;
	struct weft_service_options options;
	uint64_t service_id;
	struct list requests; /* struct weft_contact */
	uint32_t unanswered;
};

enum weft_reason contacts_open(struct roce *roce);

/* Whether nobody has any. */
bool contacts_are_none(const struct roce *roce);

/* Everybody is told that this side goes. */
void contacts_leave(struct roce *roce);
void contacts_close(struct roce *roce);

/* The other end may be on this host: then the contact ends with its process. */
void neighbour_join(struct weft_contact *c, const struct ibcm_ip *ip, uint32_t peer_id);
void neighbour_leave(struct weft_contact *c);
uint64_t neighbours_due(const struct roce *roce);

/* Contacts with those that are gone end. */
void neighbours_expire(struct roce *roce, uint64_t now_ns);
void neighbours_close(struct roce *roce);

/* In a child of fork(): gives its copies of the descriptors back. */
void neighbours_abandon(struct roce *roce);

/* Management datagrams that have come; that are to be sent. */
void contacts_input(struct roce *roce);
void contacts_output(struct roce *roce);
uint64_t contacts_due(const struct roce *roce);
void contacts_expire(struct roce *roce, uint64_t now_ns);

/* A queue pair's connection ends: its contact hears of it. */
void contact_conn_ended(struct roce_conn *rc);

struct weft_contact *contact_create(struct roce *roce, void *context);

/* A conversation that is not over is not touched: id is 0, or the agent has forgotten it. */
void contact_destroy(struct weft_contact *c);

/* It is no longer one of the service's unanswered requests. */
void contact_take(struct weft_contact *c);
