/* SPDX-License-Identifier: BSD-2-Clause */
/* A real etcd for a test, at loopback ports that are free, with a folder of its own. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct etcd_server {
	pid_t pid; /* 0: it does not run */
	int output;
	char folder[64], url[64], peer_url[64];
};

/* Why there can be no such test here; NULL: there can. Whether weft can talk to an etcd at all. */
const char *etcd_server_lack(void);
bool etcd_is_built(void);

/* Returns when it answers. */
void etcd_server_start(struct etcd_server *s, bool is_tls);

/* Ends it at once. Begins it again at the same place, with all that it knew, or nothing. */
void etcd_server_kill(struct etcd_server *s);
void etcd_server_restart(struct etcd_server *s, bool is_forgetful);

/* Ends it, and removes the folder. */
void etcd_server_stop(struct etcd_server *s);

/* Calls it until it says true, for half a minute at most. */
bool wait_until(bool (*is_so)(void *context), void *context);

/* A server at a free port of the loopback address; gives its socket. */
int loopback_listen(unsigned int *port);
