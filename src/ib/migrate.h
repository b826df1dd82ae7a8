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

/*
 * FAB-21: frames of a message may go by several link engines. Those of Sends and Writes with odd
 * PSNs go by the alternate path, while the connection is armed; what goes again goes by the first.
 * Frames of a path stay in order, so a receiver that misses one has lost it when a later one of the
 * same path came, and not before.
 */

/* The path of a request's packet; is_new: it goes for the first time. */
const struct ib_path *migrate_stripe(const struct ib_conn *c, uint32_t psn, bool is_new);

/* Something was lost, as by a path that has failed: all goes by the first one from now on. */
void migrate_unstripe(struct ib_conn *c);

/* A request came before the expected one, which may be on its way by the other path. */
bool migrate_is_late(const struct ib_conn *c, uint32_t early, uint32_t expected);

/* A packet has come, by its path or the alternate one: what its MigReq says. */
void migrate_heard(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in);

/* A packet of the right peer in all but its path was refused. */
void migrate_strayed(struct ib_conn *c, const struct iba_packet *p);
