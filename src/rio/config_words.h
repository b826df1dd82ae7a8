/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words that configuration files of processes with keys have alike: those of directed I/O
 * (rio/config.h) and of split network cards. Each reads words of the current line; false: it has
 * complained.
 */
#pragma once

#include "base/config_lines.h"
#include "rio/handshake.h"

/* self PLATFORM */
bool rio_config_self(struct config_reader *r, struct platform *platform);

/* KEYWORD NAME PLATFORM KEY: a peer. The name is r->words[1]. */
bool rio_config_known(struct config_reader *r, struct rio_known *known);

/* A word that is a name of a peer, or of something that it has. */
bool rio_config_name(struct config_reader *r, const char *word);

/* spin TIME, up to a second */
bool rio_config_spin(struct config_reader *r, uint64_t *ns);

/* alive TIME, from a second to an hour */
bool rio_config_alive(struct config_reader *r, uint64_t *ns);
