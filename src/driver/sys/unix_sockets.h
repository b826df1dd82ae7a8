/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unix sockets of whole messages (SOCK_SEQPACKET) at the names of unix_names.h, by which processes
 * of a host find each other. Each end checks the user of the other: only this user and root are
 * trusted. All calls return a descriptor or a negative errno.
 */
#pragma once

#include "driver/sys/unix_names.h"

int unix_listen(const struct unix_name *name);

/* Listens at a hidden name, which is unique. */
int unix_listen_hidden(const struct unix_names *names);

/* -EACCES: another user has bound the name. */
int unix_connect(const struct unix_name *name);

/* Whether the process at the other end belongs to this user or to root. */
bool unix_is_trusted(int fd);

/* Whether that process takes this one for trusted: root trusts no other user. */
bool unix_trusts_us(int fd);

/*
 * Connects to a resource by any of its names but a hidden one. -ECONNREFUSED: it does not exist;
 * -EACCES: the same, and another user has some of its names.
 */
int unix_names_connect(const struct unix_names *names);

/*
 * Listens at one of the names. -EADDRINUSE: a process of this user or of root has the resource.
 * With is_thorough, names that another user has bound are skipped; else they count as in use.
 * *are_all_foreign: another user has bound every name.
 */
int unix_names_take(const struct unix_names *names, bool is_thorough, bool *are_all_foreign);
