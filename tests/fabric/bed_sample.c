/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports of a fabric in a process of their own, for programs that are not ours. It prints the
 * fabric's name and obeys lines of its standard input, each of which it answers:
 *
 *	down NODE, up NODE, lid NODE LID, sm NODE LID, key NODE INDEX KEY, gid NODE INDEX GUID,
 *	again NODE
 *	frames		how many went from node to node
 *	cut PATH, mend PATH, by PATH NODE	of the two paths; how many came to the node by it
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_bed.h"
#include "test.h"

static unsigned int index_of;
static uint64_t value;

static void go_down(struct attach_state *s)
{
	s->info.state = SM_PORT_DOWN;
}

static void go_up(struct attach_state *s)
{
	s->info.state = SM_PORT_ACTIVE;
}

static void set_lid(struct attach_state *s)
{
	s->info.lid = (uint16_t)value;
}

static void set_sm(struct attach_state *s)
{
	s->info.sm_lid = (uint16_t)value;
}

static void set_key(struct attach_state *s)
{
	s->p_keys[index_of % SM_PKEYS] = (uint16_t)value;
}

static void set_gid(struct attach_state *s)
{
	s->guids[index_of % SM_GUIDS] = value;
}

static void keep(struct attach_state *s)
{
	(void)s;
}

static const struct {
	const char *word;
	void (*change)(struct attach_state *s);
	uint32_t news;
	bool has_index;
} words[] = {
	{ "down", go_down, ATTACH_NEWS_STATE, false },
	{ "up", go_up, ATTACH_NEWS_STATE, false },
	{ "lid", set_lid, ATTACH_NEWS_LID, false },
	{ "sm", set_sm, ATTACH_NEWS_SM, false },
	{ "key", set_key, ATTACH_NEWS_PKEYS, true },
	{ "gid", set_gid, ATTACH_NEWS_GIDS, true },
	{ "again", keep, ATTACH_NEWS_REREGISTER, false },
};

static bool obey_path(const char *word, const char *path, const char *node)
{
	int which = path[0] == '1';

	if (strcmp(word, "by") == 0) {
		printf("%" PRIu64 "\n", fabric_bed_frames_by(which, strcmp(node, "right") == 0));
		return true;
	}
	if (strcmp(word, "cut") != 0 && strcmp(word, "mend") != 0)
		return false;
	fabric_bed_cut(which, strcmp(word, "cut") == 0);
	puts("ok");
	return true;
}

static bool obey(const char *line)
{
	char word[16], node[16], first[32] = "0", second[32] = "0";

	if (sscanf(line, "%15s %15s %31s %31s", word, node, first, second) < 1)
		return false;
	if (strcmp(word, "frames") == 0) {
		printf("%" PRIu64 "\n", fabric_bed_frames());
		return true;
	}
	if (obey_path(word, node, first))
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		index_of = (unsigned int)strtoul(first, NULL, 0);
		value = strtoull(words[i].has_index ? second : first, NULL, 0);
		fabric_bed_change(strcmp(node, "right") == 0, words[i].change, words[i].news);
		puts("ok");
		return true;
	}
	return false;
}

TEST(test_bed)
{
	char line[128];

	fabric_bed_open();
	printf("%s\n", fabric_bed_name());
	(void)fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!obey(line))
			puts("what?");
		(void)fflush(stdout);
	}
	fabric_bed_close();
}
