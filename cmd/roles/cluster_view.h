/* SPDX-License-Identifier: BSD-2-Clause */
/* How a cluster of directed I/O stands, in tables for people and as JSON for programs. */
#pragma once

#include <weft/rio.h>

/* What was seen at one time. */
struct cluster_look {
	const struct weft_rio_member *seen;
	uint32_t count; /* of them; there may be more */
	uint32_t total;
	uint64_t at_ns;
	const char *owner; /* its name; the report has none of it */
};

/* before: what was seen earlier, for bytes per second; or NULL. */
void cluster_view_print(const struct cluster_look *now, const struct cluster_look *before);
void cluster_view_json(const struct cluster_look *now);

/* A name, which is UTF-8 without control characters, as a string. */
void cluster_view_json_text(const char *text);

/* "12 bytes", "1.5 GiB". */
enum { CLUSTER_BYTES_TEXT = 24 };

void cluster_view_bytes(uint64_t bytes, char text[CLUSTER_BYTES_TEXT]);

/* What an adapter carried, in a line. */
enum { CLUSTER_MOVED_TEXT = 200 };

void cluster_view_moved(const struct weft_rio_traffic *m, char text[CLUSTER_MOVED_TEXT]);
