/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rio_sample: prints a good control message of each type, the list of docs/wire/rio.md and private
 * data, a line each: name, tab, bytes in hex.
 *
 * rio_sample DIR: writes what the fuzzers start from, into folders that are there:
 * DIR/rio_msg_fuzz and DIR/rio_list_fuzz.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/wire/rio_fixture.h"
#include "wire/sgl.h"

static void need(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "rio_sample: %s\n", what);
	exit(1);
}

static void print(const char *name, const uint8_t *bytes, size_t length)
{
	printf("%s\t", name);
	for (size_t i = 0; i < length; i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

static void save(const char *directory, const char *name, const uint8_t *bytes, size_t length)
{
	char path[1000];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "wb");
	need(f && fwrite(bytes, 1, length, f) == length && fclose(f) == 0, path);
}

/* Prints it, or saves it in this folder. */
static void give(const char *directory, const char *name, const uint8_t *bytes, size_t length)
{
	if (directory)
		save(directory, name, bytes, length);
	else
		print(name, bytes, length);
}

static void give_messages(const char *directory)
{
	const struct rio_data data = fixture_data();
	uint8_t bytes[RIO_MSG_BYTES_MAX];

	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type);
		struct wr w = wr_of(bytes, sizeof(bytes));

		rio_msg_encode(&m, &w);
		need(!w.is_short, "a message does not fit");
		give(directory, rio_msg_type_name(m.type), bytes, (size_t)(w.at - bytes));
	}
	rio_data_encode(&data, bytes);
	give(directory, "data", bytes, RIO_DATA_BYTES);
}

/* As rio_list_fuzz takes it: the words of the first sequence, then that. */
static void save_plain(const char *directory)
{
	uint8_t bytes[1 + FIXTURE_LIST_BYTES] = { FIXTURE_LIST_BYTES / SGL_WORD_BYTES };

	fixture_list(bytes + 1);
	save(directory, "plain", bytes, sizeof(bytes));
}

/* Two chained sequences, whose addresses are offsets in the file; every kind, every operation. */
static void save_chained(const char *directory)
{
	enum { SECOND_AT = 1 + 8 + 28 + 28 + 28, THIRD_AT = SECOND_AT + 36 };
	const struct sgl_attributes in = { 8, 4, 12 };
	const struct sgl_element elements[] = {
		{ .kind = SGL_ATTRIBUTES, .attributes = in },
		{ .kind = SGL_CHAIN, .chain = { { 7, 1 }, 5, 36, SECOND_AT } },
		{ .kind = SGL_CHAIN, .chain = { { 7, 1 }, 5, 124, THIRD_AT } },
		{ .kind = SGL_TRANSACTION, .transaction = { SGL_WRITE, true, 1, 0, 12 } },
		/* at SECOND_AT */
		{ .kind = SGL_DETAIL, .detail = { SGL_SOURCE, false, 9, 9, 0x1000 } },
		{ .kind = SGL_PLATFORM, .platform = { 8, 0 } },
		/* at THIRD_AT */
		{ .kind = SGL_IMMEDIATE, .immediate = { true, 3, (const uint8_t *)"abc" } },
		{ .kind = SGL_TRANSACTION,
		  .transaction = { SGL_WRITE_ZEROES, false, 1, 512, 512 } },
		{ .kind = SGL_TRANSACTION, .transaction = { SGL_DISCARD, false, 1, 512, 512 } },
		{ .kind = SGL_TRANSACTION, .transaction = { SGL_FLUSH, false, 1, 0, 0 } },
		{ .kind = SGL_PLATFORM, .platform = { 7, 1 } },
		{ .kind = SGL_PLATFORM, .is_last = true, .platform = { 9, 1 } },
	};
	uint8_t bytes[512] = { (SECOND_AT - 1) / SGL_WORD_BYTES };
	struct wr w = wr_of(bytes + 1, sizeof(bytes) - 1);

	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		sgl_put(&elements[i], &in, &w);
	need(w.at - bytes == THIRD_AT + 16 + 28 * 3 + 24, "the chained list is of another length");
	save(directory, "chained", bytes, (size_t)(w.at - bytes));
}

int main(int argc, char **argv)
{
	uint8_t list[FIXTURE_LIST_BYTES];
	char directory[900];

	need(argc <= 2, "usage: rio_sample [DIR]");
	if (argc == 1) {
		give_messages(NULL);
		fixture_list(list);
		print("list", list, sizeof(list));
		return 0;
	}
	snprintf(directory, sizeof(directory), "%s/rio_msg_fuzz", argv[1]);
	give_messages(directory);
	snprintf(directory, sizeof(directory), "%s/rio_list_fuzz", argv[1]);
	save_plain(directory);
	save_chained(directory);
	return 0;
}
