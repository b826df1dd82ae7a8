/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions of <weft/iscsi.h> with weft's own target in a thread, by each way to it. */
#pragma once

#include <pthread.h>
#include <string.h>

#include <weft/iscsi.h>

#include "test.h"

#define SESSION_TARGET "iqn.2026-11.org.example:disk"

enum session_way { WAY_TCP, WAY_ROCE, WAY_IWARP, WAYS };

struct unit {
	struct iscsi_server *server;
	struct iscsi_host *host;
	pthread_t thread;
	char folder[64], lines[512];
	uint16_t ports[WAYS];
	char url[WAYS][256];
};

/*
 * lines: of the target, with its LUNs; NULL: a disk of 32 MiB in memory. Paths in them are relative
 * to the folder.
 */
void unit_open(struct unit *u, const char *lines);
void unit_close(struct unit *u);

/* Writes a private file into the folder, before the target begins with it. */
void unit_prepare(struct unit *u);
void unit_file(struct unit *u, const char *name, const char *text);
void unit_path(const struct unit *u, const char *name, char path[128]);

/* The target ends, in order; and begins again at the same ports. */
void unit_stop(struct unit *u);
void unit_start(struct unit *u);

/* The URL of LUN 0 with this behind it. */
const char *unit_url(struct unit *u, enum session_way way, const char *more);

struct weft_iscsi_session *must_open(const char *url, const struct weft_iscsi_options *o);

/* One request over one element. */
enum weft_reason move(struct weft_iscsi_session *s, enum weft_iscsi_operation operation,
		      uint64_t offset, void *memory, uint32_t length);

void fill(uint8_t *at, size_t bytes, uint32_t seed);
