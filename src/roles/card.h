/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a split network card as a process (docs/card.md): a frame port, and connections by
 * RDMA over which frames are pushed. The unit has the LAN, and serves hosts; a host has one unit,
 * which it dials as long as it runs. One thread does all of it, in card_run().
 */
#pragma once

#include "roles/card_config.h"

struct card;

struct card_options {
	/* A line for people: connections, refusals, the state of links. */
	void (*tell)(void *context, const char *line);
	void *context;
};

/* Opens the port and the adapter. The file is borrowed until the close. False: why. */
bool card_open(const struct card_file *file, const struct card_options *options, struct card **out,
	       char why[CONFIG_FILE_WHY]);

/* Runs until card_stop(); then ends its links in order. */
void card_run(struct card *c);

/* For any thread and signal handler. */
void card_stop(struct card *c);

void card_close(struct card *c);

/* Unit: where it listens, with the port that was found. */
void card_address(const struct card *c, struct weft_address *at);
