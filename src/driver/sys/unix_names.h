/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract names of unix sockets, by which processes of one user keep things of a network namespace
 * from each other, and find each other there. The kernel gives such a name to any user: so a thing
 * has several, and only what has one of them for this user, or for root, counts.
 *
 * A thing has its usual name, and spare ones for where another user has taken that. Where another
 * user has taken all of these it has a hidden one, which ends in a random number: no other user can
 * take it first, and it is found by asking the kernel for all names (sock_diag).
 *
 * Both libraries that need it have it: libibverbs, with the driver, and librdmacm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum { UNIX_NAMES = 4, UNIX_NAME_BYTES = 64 };

struct unix_name {
	struct sockaddr_un un;
	socklen_t size;
};

/* The names of one thing. */
struct unix_names {
	char usual[UNIX_NAME_BYTES];
	int type;		  /* of its socket: SOCK_STREAM, SOCK_SEQPACKET */
	ino_t excluded_inodes[2]; /* of sockets that do not count; 0: none */
};

/* 0 is the usual one; less than UNIX_NAMES. */
void unix_name_init(struct unix_name *name, const struct unix_names *names, uint32_t spare);

/* Of a socket, for excluded_inodes; 0 if there is none. */
ino_t unix_inode_of(int fd);

/* 0 or a negative errno. */
int unix_name_bind(int fd, const struct unix_name *name);
int unix_name_bind_hidden(int fd, const struct unix_names *names);

/*
 * Whether processes of that user may be believed, and what they have counts: this process's user
 * and root. The kernel shows users that have no number in this user namespace by one and the same
 * (overflowuid, 65534 as a rule). It stands for a user only where all users have a number, as on a
 * host; elsewhere it is not trusted, even if it is this process's own.
 */
bool unix_user_is_trusted(uid_t uid);

/*
 * Asks the kernel which socket of this user or of root has one of the names: 1 and its name, or 0
 * if there is none. -EAGAIN: too many come and go to be sure; another negative errno: it does not
 * say. The cost grows with the unix sockets of the
 * host: 0.1 ms with 1,000 of them, 7 ms with 10,000.
 */
int unix_names_find(const struct unix_names *names, struct unix_name *found);

/* The same by a socket that answers as the kernel does. */
int unix_names_find_by(int s, const struct unix_names *names, struct unix_name *found);
