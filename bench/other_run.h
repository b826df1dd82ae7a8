/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a program of others as a server and a client on loopback, and has read what it printed. */
#pragma once

#include "net_peer.h"
#include "other_output.h"

enum { OTHER_ARGS_MAX = 28, OTHER_NUMBER_BYTES = 12 };

/* A program that is server and client, and what is said to each; without a server it has none. */
struct other_command {
	const char *package;
	const char *const *settings; /* of the environment; ends with NULL */
	const char *server[OTHER_ARGS_MAX];
	const char *client[OTHER_ARGS_MAX];
	uint16_t port;
	bool (*parse)(const char *text, struct other_result *r);
};

/* As a peer's functions do: how to do it by hand, or why not. */
bool other_run(struct net_figure *f, const struct other_command *c, struct other_result *r);

/* The folder above this program's, where the build has put the libraries and weft. */
void other_build_folder(char *path, uint32_t path_bytes);

/* A port that is free now. 0: there is none. */
uint16_t other_free_port(void);

/* The numbers of an ask as words. */
struct other_words {
	char size[OTHER_NUMBER_BYTES], depth[OTHER_NUMBER_BYTES], count[OTHER_NUMBER_BYTES],
		warm[OTHER_NUMBER_BYTES], port[OTHER_NUMBER_BYTES];
};

void other_words_init(struct other_words *w, const struct net_ask *ask, uint16_t port);
