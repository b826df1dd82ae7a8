/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Portals of the iSCSI target by RDMA: iSER on RoCE and on iWARP. The server's thread calls all of
 * it; connections of the core that have an iser_end as their owner are attended here.
 */
#pragma once

#include "roles/rdma_end.h"

struct iscsi_server;
struct iser_end;
struct iser_portals;

enum weft_reason iser_portals_open(struct iscsi_server *s, struct iser_portals **out);

/* Listens at the address; sets the port that was found. */
enum weft_reason iser_portals_listen(struct iser_portals *p, enum rdma_wire wire,
				     struct weft_address *at);

/* Takes what has happened. True: there was something. */
bool iser_portals_serve(struct iser_portals *p);

/* Sleeps until something happens, fd is readable, or the time is over. */
void iser_portals_wait(struct iser_portals *p, int fd, uint64_t timeout_ns);

/* The core has something for the connection. */
void iser_end_attend(struct iser_end *end);

/* No further connection comes. */
void iser_portals_deafen(struct iser_portals *p);

/* Ends all connections, with no session left or not. */
void iser_portals_close(struct iser_portals *p);
