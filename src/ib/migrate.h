/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration (IBA 17.2.8) of connections of RC and UC in a fabric. */
#pragma once

#include "ib/conn.h"

/* Whether an alternate path may be had at all: WEFT_OK, or why not. */
enum weft_reason migrate_check(const struct ib_conn *c, const struct ib_config *k, uint32_t fields);

/*
 * Loads the alternate path, for which there is room, then sets the state, as migrate_check() has
 * allowed.
 */
void migrate_adjust(struct ib_conn *c, const struct ib_config *k, uint32_t fields);

/*
 * The peer does not answer by the path: takes the alternate one, if both ends are armed. False: it
 * stays where it is.
 */
bool migrate_away(struct ib_conn *c);

/* A packet has come, by its path or the alternate one: what its MigReq says. */
void migrate_heard(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in);

/* A packet of the right peer in all but its path was refused. */
void migrate_strayed(struct ib_conn *c, const struct iba_packet *p);
