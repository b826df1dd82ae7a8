/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the iSCSI target's process share: see iscsi_server.h. */
#pragma once

#include <stdatomic.h>

#include "base/line_limit.h"
#include "base/list.h"
#include "iscsi/target/target.h"
#include "roles/device.h"
#include "roles/iscsi_iser.h"
#include "roles/iscsi_server.h"
#include "roles/reporter.h"
#include "roles/rio_spin.h"

enum {
	ISCSI_SERVER_PORTAL_GROUP = 1,
	/*
	 * Connections accepted in a row, before others have their turn. Each may take the place of
	 * a half-open one, whose end is free only when that has had its turn.
	 */
	ISCSI_ACCEPTS_MAX = 64,
};

/* What an event of epoll is about; the first member of what it is about. */
enum iscsi_source {
	ISCSI_SOURCE_WAKE,
	ISCSI_SOURCE_PORTAL,
	ISCSI_SOURCE_END,
	ISCSI_SOURCE_ISER,
	ISCSI_SOURCE_DEVICE,
	ISCSI_SOURCE_REPORTER,
};

struct iscsi_server_portal {
	enum iscsi_source source;
	int fd;
	bool has_more; /* connections may wait there */
	struct weft_address at;
};

/* The TCP connection of one iSCSI connection. Edge-triggered: what is known is kept here. */
struct iscsi_end {
	enum iscsi_source source;
	int fd; /* -1: free */
	struct iscsi_server *server;
	struct iscsi_connection *core; /* NULL: only waits for the peer's end of the connection */
	bool can_recv, can_send;
	bool is_hung_up;    /* the peer sends no more: behind what it sent is the end */
	uint64_t linger_ns; /* without core: closed then */
	struct list link;   /* of the free, the busy or the lingering ones */
};

struct iscsi_server {
	const struct iscsi_host *host;
	struct iscsi_server_options options;
	struct iscsi_node *node;
	struct scsi_target *scsi[ISCSI_CONFIG_TARGETS_MAX];
	/* Of targets with secrets, and of discovery sessions; else is_target is false. */
	struct chap_config chap[ISCSI_CONFIG_TARGETS_MAX], discovery_chap;
	struct device *devices[ISCSI_CONFIG_LUNS_MAX]; /* of config->luns */
	enum iscsi_source device_source, wake_source, reporter_source;
	int epoll, wake;
	struct reporter *reporter; /* NULL: there is no status */
	struct iscsi_server_portal portals[ISCSI_CONFIG_PORTALS_MAX];
	struct iser_portals *iser; /* NULL: there are none by RDMA */
	struct iscsi_end *ends;
	uint32_t ends_max;
	struct list free, busy, lingering; /* of ends; busy: may receive more at once */
	struct rio_spin spin;
	uint64_t now_ns, begin_ns;
	uint64_t accept_ns; /* no connection is accepted before */
	atomic_bool is_stopping;
	bool is_ending;
	bool has_received; /* since the core last looked at its devices: they may have more to do */
	/* Refusals that were told in this second, and those that were not. */
	struct line_limit refusals;
};

/* ---- iscsi_server.c ------------------------------------------------------------------------- */

bool iscsi_server_watch(struct iscsi_server *s, int fd, void *source);
__attribute__((format(printf, 2, 3))) void iscsi_server_tell(struct iscsi_server *s,
							     const char *form, ...);

/* ---- iscsi_end.c ---------------------------------------------------------------------------- */

/* Accepts what waits at the portal. True: there was a connection. */
bool iscsi_end_accept(struct iscsi_server *s, struct iscsi_server_portal *portal);

/* What epoll tells of it: enum EPOLL_EVENTS. */
void iscsi_end_told(struct iscsi_end *end, uint32_t events);

/* Moves the bytes of ends that can receive. True: something happened. */
bool iscsi_ends_receive(struct iscsi_server *s);

/* The same for those that the core has something for; see has_received. */
bool iscsi_ends_attend(struct iscsi_server *s);

/* Closes the ends whose peer takes too long to close; when the next one is to be closed. */
uint64_t iscsi_ends_expire(struct iscsi_server *s);

void iscsi_ends_close(struct iscsi_server *s);

/* ---- iscsi_access.c ------------------------------------------------------------------------- */

extern const struct iscsi_node_calls iscsi_access_calls;

/* Tells how many refusals were not told, when their second is over. */
void iscsi_access_expire(struct iscsi_server *s);

/* ---- iscsi_report.c ------------------------------------------------------------------------- */

/* What `weft iscsi status` shows, of a struct iscsi_server. */
char *iscsi_report(void *server, size_t *length);
