/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the state of a role to other processes of this user, at the abstract unix socket
 * "weft/SERVICE/PID": lines as in driver/stat/stat_report.h. Clients cannot hold it up: of those
 * that do not read the oldest gives way, and none stays longer than a second.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reporter;

/*
 * text makes what is shown, which the reporter frees; NULL: out of memory. Returns NULL if it
 * cannot be shown, which hinders nothing else.
 */
struct reporter *reporter_open(const char *service, char *(*text)(void *of, size_t *length),
			       void *of);
void reporter_close(struct reporter *r);

/* Readable when reporter_serve() has something to do. */
int reporter_descriptor(const struct reporter *r);
void reporter_serve(struct reporter *r, uint64_t now_ns);

/* Ends what takes too long; when to call it again. */
uint64_t reporter_expire(struct reporter *r, uint64_t now_ns);
