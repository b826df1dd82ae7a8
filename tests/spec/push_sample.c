/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * push_sample: prints a good message of each function and kind, and a cell of each sort, a line
 * each: name, tab, bytes in hex.
 *
 * push_sample DIR: writes what the fuzzers start from, into folders that are there:
 * DIR/push_msg_fuzz and DIR/push_cell_fuzz.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit/wire/push_fixture.h"

static void need(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "push_sample: %s\n", what);
	exit(1);
}

/* Prints it, or saves it in this folder. */
static void give(const char *folder, const char *name, const uint8_t *bytes, size_t length)
{
	char path[1000];
	FILE *f;

	if (!folder) {
		printf("%s\t", name);
		for (size_t i = 0; i < length; i++)
			printf("%02x", bytes[i]);
		printf("\n");
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	need(f && fwrite(bytes, 1, length, f) == length && fclose(f) == 0, path);
}

static void give_messages(const char *folder)
{
	for (int i = 0; i < PUSH_FIXTURES; i++) {
		uint8_t bytes[PUSH_MSG_BYTES_MAX];
		struct wr w = wr_of(bytes, sizeof(bytes));
		const char *name;
		struct push_msg m = push_fixture(i, &name);

		push_msg_encode(&m, &w);
		need(!w.is_short, "a message does not fit");
		give(folder, name, bytes, (size_t)(w.at - bytes));
	}
}

/* Of the fuzzer's corpus each cell has its length before it. */
static void give_cells(const char *folder)
{
	for (int i = 0; i < PUSH_FIXTURE_CELLS; i++) {
		uint8_t bytes[2 + PUSH_CELL_BYTES_MAX];
		struct wr w = wr_of(bytes + 2, PUSH_CELL_BYTES_MAX), before = wr_of(bytes, 2);
		const char *name;
		struct push_cell c = push_fixture_cell(i, &name);
		size_t length;

		push_cell_encode(&c, &w);
		length = (size_t)(w.at - bytes) - 2;
		wr_u16(&before, (uint16_t)length);
		if (folder)
			give(folder, name, bytes, length + 2);
		else
			give(NULL, name, bytes + 2, length);
	}
}

int main(int argc, char **argv)
{
	char folder[900];

	need(argc <= 2, "usage: push_sample [DIR]");
	if (argc == 1) {
		give_messages(NULL);
		give_cells(NULL);
		return 0;
	}
	snprintf(folder, sizeof(folder), "%s/push_msg_fuzz", argv[1]);
	give_messages(folder);
	snprintf(folder, sizeof(folder), "%s/push_cell_fuzz", argv[1]);
	give_cells(folder);
	return 0;
}
