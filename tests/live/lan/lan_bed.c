/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/lan/lan_bed.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

enum { PATIENCE_MS = 20000, ROOM = 65536 };

struct lan_bed *lan_bed_make(void)
{
	struct lan_bed *b = calloc(1, sizeof(*b));

	REQUIRE(b != NULL);
	snprintf(b->folder, sizeof(b->folder), "%s/weft-lan-XXXXXX", harness_folder());
	REQUIRE(mkdtemp(b->folder) != NULL);
	for (int i = 0; i < BED_FRAMES; i++) {
		b->frames[i] = (struct lan_frame){ .bytes = malloc(ROOM), .room = ROOM };
		REQUIRE(b->frames[i].bytes != NULL);
	}
	return b;
}

void lan_bed_end(struct lan_bed *bed)
{
	for (int i = 0; i < BED_FRAMES; i++)
		free(bed->frames[i].bytes);
	MUST_EQ(rmdir(bed->folder), 0);
	free(bed);
}

struct lan_port *lan_bed_open(const struct lan_bed *bed, const char *form)
{
	const char *mark = strstr(form, "%s");
	char text[256], why[LAN_WHY] = "";
	struct lan_port *port = NULL;

	snprintf(text, sizeof(text), "%.*s%s%s", mark ? (int)(mark - form) : (int)strlen(form),
		 form, mark ? bed->folder : "", mark ? mark + 2 : "");
	harness_note("%s: %s", text, why);
	MUST(lan_open(text, &port, why));
	return port;
}

/* Waits for either; each has its turn. */
static void wait_for(struct lan_port *a, struct lan_port *b)
{
	struct pollfd p[] = { { .fd = lan_descriptor(a), .events = POLLIN },
			      { .fd = b ? lan_descriptor(b) : -1, .events = POLLIN } };

	MUST_EQ(poll(p, 2, PATIENCE_MS) > 0, true);
}

uint32_t lan_bed_receive(struct lan_bed *bed, struct lan_port *port)
{
	uint32_t n;

	while ((n = lan_receive(port, bed->frames, BED_FRAMES)) == 0)
		wait_for(port, NULL);
	return n;
}

void lan_bed_until(struct lan_port *port, struct lan_port *other, bool is_up)
{
	static uint8_t byte[1];
	struct lan_frame none = { .bytes = byte, .room = 0 };

	for (;;) {
		(void)lan_receive(port, &none, 1);
		if (other)
			(void)lan_receive(other, &none, 0);
		if (lan_properties(port)->is_up == is_up)
			return;
		wait_for(port, other);
	}
}

void lan_bed_starved(struct lan_port *port)
{
	struct pollfd p = { .fd = lan_descriptor(port), .events = POLLIN };

	MUST_EQ(poll(&p, 1, PATIENCE_MS), 1);
	/* It looks for the peer, or first whether there is one again. */
	for (int i = 0; i < 2 && poll(&p, 1, 0) > 0; i++)
		(void)lan_receive(port, NULL, 0);
	EXPECT(!lan_properties(port)->is_up);
	EXPECT_EQ(lan_properties(port)->why, WEFT_R_DESCRIPTORS);
	EXPECT_EQ(poll(&p, 1, 0), 0);
}

struct lan_frame lan_bed_frame(struct lan_bed *bed, uint32_t at, uint32_t length, uint8_t seed)
{
	struct lan_frame f = bed->frames[at];

	for (uint32_t i = 0; i < length && i < ROOM; i++)
		f.bytes[i] = (uint8_t)(seed + i * 7 + (i >> 8));
	f.length = length;
	f.net = (struct virtio_net){ 0 };
	return f;
}
