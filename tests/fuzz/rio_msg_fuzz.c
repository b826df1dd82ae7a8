/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages, devices and private data of directed remote I/O on arbitrary bytes: there is
 * one way to write each, so what is accepted encodes to the same bytes; what is not changes
 * nothing.
 */
#include <string.h>

#include "base/check.h"
#include "rio/refusal.h"
#include "wire/rio_msg.h"
#include "wire/rio_text.h"

static void try_devices(const struct rio_devices *d)
{
	struct rd r = rd_of(d->entries.bytes, d->entries.length);
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rio_device each;

	for (uint32_t i = 0; i < d->count; i++) {
		CHECK(rio_device_next(&each, &r) == RIO_MSG_OK);
		CHECK(each.size_bytes % each.block_bytes == 0);
		CHECK(rio_text_is_good(each.name.bytes, each.name.length));
		rio_device_put(&each, &w);
	}
	CHECK(r.at == r.end && !w.is_short);
	CHECK((size_t)(w.at - bytes) == d->entries.length);
	CHECK(d->count == 0 || memcmp(bytes, d->entries.bytes, d->entries.length) == 0);
}

static void try_report(const struct rio_report *v)
{
	struct rd r = rd_of(v->entries.bytes, v->entries.length);
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rio_seen each;

	for (uint32_t i = 0; i < v->count; i++) {
		CHECK(rio_seen_next(&each, &r) == RIO_MSG_OK);
		CHECK(rio_text_is_good(each.name.bytes, each.name.length));
		rio_seen_put(&each, &w);
	}
	CHECK(r.at == r.end && !w.is_short);
	CHECK((size_t)(w.at - bytes) == v->entries.length);
	CHECK(v->count == 0 || memcmp(bytes, v->entries.bytes, v->entries.length) == 0);
}

static void try_message(const uint8_t *data, size_t size)
{
	struct rio_msg m, before;
	uint8_t bytes[RIO_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	enum rio_msg_err err;

	memset(&m, 0xdb, sizeof(m));
	memcpy(&before, &m, sizeof(m));
	err = rio_msg_decode(&m, data, size);
	if (err) {
		CHECK(memcmp(&m, &before, sizeof(m)) == 0 && refusal_of_msg(err) != WEFT_OK);
		return;
	}
	CHECK(rio_msg_type_name(m.type) && size <= sizeof(bytes));
	rio_msg_encode(&m, &w);
	CHECK(!w.is_short && (size_t)(w.at - bytes) == size && memcmp(bytes, data, size) == 0);
	if (m.type == RIO_DEVICES)
		try_devices(&m.devices);
	else if (m.type == RIO_ANNOUNCE)
		try_devices(&m.announce.devices);
	else if (m.type == RIO_REPORT)
		try_report(&m.report);
}

static void try_data(const uint8_t *data, size_t size)
{
	struct rio_data d;
	uint8_t bytes[RIO_DATA_BYTES];

	if (rio_data_decode(&d, data, size) != RIO_MSG_OK)
		return;
	CHECK(size == sizeof(bytes));
	rio_data_encode(&d, bytes);
	CHECK(memcmp(bytes, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_message(data, size);
	try_data(data, size);
	return 0;
}
