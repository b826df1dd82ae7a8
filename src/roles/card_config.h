/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a split network card as set up by its configuration file (docs/card.md) and its key:
 * everything that needs no network. Frame ports are not opened here.
 */
#pragma once

#include <weft/connection.h>

#include "rio/handshake.h"
#include "roles/config_file.h"
#include "roles/rdma_end.h"
#include "wire/push_msg.h"

enum {
	CARD_PEERS_MAX = 64,
	CARD_INLINE_MAX = 1024,
};

/* An end at the other side: of a host its unit, of a unit one of its hosts. */
struct card_peer {
	const char *name;
	const char *address; /* host: where the unit listens */
	uint8_t mac[PUSH_MAC_BYTES];
	bool has_mac; /* unit: the one address that the host may have */
	uint32_t line;
};

/* All texts point into the struct itself. */
struct card_config {
	enum rio_role role; /* RIO_CARD_UNIT or RIO_CARD_HOST */
	struct platform self;
	struct config_text key;	   /* path, relative to the file's folder */
	struct config_text listen; /* unit */
	struct config_text port;   /* the frame port: its text */
	enum rdma_wire wire;
	enum push_mode mode;
	uint16_t mtu;  /* the longest that this end agrees to */
	bool is_plain; /* no checksums and segments are left to the other end */
	bool is_pull;  /* its packets wait until the other end asks: for comparison (PUSH-04) */
	uint32_t inline_bytes; /* packets up to this go by Sends (PUSH-10) */
	uint64_t alive_ns, spin_ns;
	bool has_spin; /* else it spins while that pays */

	struct rio_known known[CARD_PEERS_MAX]; /* for a struct rio_book */
	struct card_peer peers[CARD_PEERS_MAX];
	uint32_t peer_count; /* a host has one */
	char text[];
};

/* Copies the text. False: the file is bad, *complaint says why, and *config is not set. */
bool card_config_read(const char *text, size_t length, struct card_config **config,
		      struct config_complaint *complaint);
void card_config_destroy(struct card_config *c);

struct card_file {
	struct card_config *config;
	struct rio_identity self;    /* with its private key */
	struct weft_address address; /* unit: where it listens; host: of its unit */
};

/* role: the file must be for it. False: `why` says why, with file, line and column if any. */
bool card_file_open(const char *path, enum rio_role role, struct card_file *f,
		    char why[CONFIG_FILE_WHY]);

/* Wipes the private key. */
void card_file_close(struct card_file *f);
