/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract names of unix sockets. Processes of one user claim resources of a network namespace
 * (adapter slots, services, ports) by these names, and find each other by them. The kernel lets any
 * user bind any such name, so a resource has several names, and only a socket owned by this user or
 * by root counts.
 *
 * A resource has a usual name, and spare names for when another user has bound that. When another
 * user has bound all of these, it gets a hidden name that ends in a random number: no other user
 * can bind it first, and it is found by listing all names (sock_diag).
 *
 * Compiled into both libraries that need it: libibverbs, with the driver, and librdmacm.
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

/* The names of one resource. */
struct unix_names {
	char usual[UNIX_NAME_BYTES];
	int type;		  /* of its socket: SOCK_STREAM, SOCK_SEQPACKET */
	ino_t excluded_inodes[2]; /* sockets to ignore; 0: none */
};

/* spare: 0 is the usual name; less than UNIX_NAMES. */
void unix_name_init(struct unix_name *name, const struct unix_names *names, uint32_t spare);

/* Inode of a socket, for excluded_inodes; 0 if there is none. */
ino_t unix_inode_of(int fd);

/* 0 or a negative errno. */
int unix_name_bind(int fd, const struct unix_name *name);
int unix_name_bind_hidden(int fd, const struct unix_names *names);

/*
 * Whether sockets of that user count: true for this process's user and for root. The kernel maps
 * every user without a number in this user namespace to the same uid (overflowuid, usually 65534).
 * That uid names a real user only where all users are mapped, as on a host; elsewhere it is not
 * trusted, even if it is this process's own.
 */
bool unix_user_is_trusted(uid_t uid);

/*
 * Asks the kernel which socket of this user or of root has one of the names: 1 and its name, or 0
 * if there is none. -EAGAIN: sockets come and go too fast for a reliable answer; another negative
 * errno: the kernel does not answer. The cost grows with the unix sockets of the host: 0.1 ms with
 * 1,000 of them, 7 ms with 10,000.
 */
int unix_names_find(const struct unix_names *names, struct unix_name *found);

/* The same through a socket `s` that answers as the kernel's sock_diag does. */
int unix_names_find_by(int s, const struct unix_names *names, struct unix_name *found);
