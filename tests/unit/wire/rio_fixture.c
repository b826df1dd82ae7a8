/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio_fixture.h"

#include <string.h>

#include "wire/sgl.h"

static const struct platform requester = { 7, 1 }, iounit = { 9, 0 };

void fixture_list(uint8_t bytes[FIXTURE_LIST_BYTES])
{
	const struct sgl_attributes attributes = { 8, 4, 12 };
	const struct sgl_element elements[] = {
		{ .kind = SGL_ATTRIBUTES, .attributes = attributes },
		{ .kind = SGL_PLATFORM, .platform = requester },
		{ .kind = SGL_TRANSACTION, .transaction = { SGL_READ, false, 3, 1 << 20, 6144 } },
		{ .kind = SGL_DETAIL,
		  .detail = { SGL_RESULT, false, 0x0000a105, 4096, 0x7f0012340000 } },
		{ .kind = SGL_DETAIL,
		  .is_last = true,
		  .detail = { SGL_RESULT, true, 0x0000a206, 2048, 0x7f0056780200 } },
	};
	struct wr w = wr_of(bytes, FIXTURE_LIST_BYTES);

	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		sgl_put(&elements[i], &attributes, &w);
}

static struct rio_bytes text_of(const char *text)
{
	return (struct rio_bytes){ (const uint8_t *)text, strlen(text) };
}

static struct rio_devices devices(void)
{
	static uint8_t bytes[256];
	struct wr w = wr_of(bytes, sizeof(bytes));
	const struct rio_device each[] = {
		{ .number = 3,
		  .block_bytes = 4096,
		  .size_bytes = UINT64_C(3) << 40,
		  .instance = 0x1a1b1c1d1e1f2021,
		  .flags = RIO_DEVICE_FLUSH | RIO_DEVICE_FUA | RIO_DEVICE_DISCARD,
		  .name = text_of("archive") },
		{ .number = 4,
		  .block_bytes = 512,
		  .size_bytes = 512,
		  .flags = RIO_DEVICE_READ_ONLY,
		  .name = text_of("gr\xc3\xbc\xc3\x9f") },
	};

	for (int i = 0; i < 2; i++)
		rio_device_put(&each[i], &w);
	return (struct rio_devices){ 2, { bytes, (size_t)(w.at - bytes) } };
}

static struct rio_hello hello(void)
{
	struct rio_hello h = { .platform = requester, .role = RIO_REQUESTER };

	memset(h.ephemeral, 0xe1, sizeof(h.ephemeral));
	memset(h.key, 0x4b, sizeof(h.key));
	h.term = (struct rio_term){ 0x7e00000000000001, 0x7f00000000000002 };
	return h;
}

static void greeting(struct rio_msg *m)
{
	const struct rio_address address = { 6, 7471, { 0xfd, [15] = 1 } };

	if (m->type == RIO_HELLO) {
		m->hello = hello();
	} else if (m->type == RIO_WELCOME) {
		m->welcome.hello = hello();
		m->welcome.hello.role = RIO_OWNER;
		m->welcome.requests_max = 64;
		m->welcome.list_max = RIO_REQUEST_LIST_MAX;
		memset(m->welcome.signature, 0x51, sizeof(m->welcome.signature));
	} else if (m->type == RIO_PROVE) {
		memset(m->prove.signature, 0x52, sizeof(m->prove.signature));
		m->prove.address = address;
	}
}

static void rights(struct rio_msg *m)
{
	const struct rio_address address = { 4, 7471, { 192, 0, 2, 7 } };

	if (m->type == RIO_ANNOUNCE) {
		m->announce.iounit = iounit;
		memset(m->announce.token, 0x70, sizeof(m->announce.token));
		m->announce.devices = devices();
	} else if (m->type == RIO_GRANT) {
		m->grant.requester = requester;
		memset(m->grant.token, 0x70, sizeof(m->grant.token));
		m->grant.address = address;
	} else if (m->type == RIO_DEVICES) {
		m->devices = devices();
	} else if (m->type == RIO_REVOKE) {
		m->revoked = iounit;
	}
}

static struct rio_notified notified(void)
{
	static uint8_t bytes[2 * RIO_NOTIFIED_ENTRY_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	rio_notified_put(&(struct rio_notified_entry){ 0x21, 4096 }, &w);
	rio_notified_put(&(struct rio_notified_entry){ 0x22, 8192 }, &w);
	return (struct rio_notified){ 2, { bytes, sizeof(bytes) } };
}

static struct rio_report report(void)
{
	static uint8_t bytes[512];
	struct wr w = wr_of(bytes, sizeof(bytes));
	const struct rio_seen each[] = {
		{ .kind = RIO_SEEN_OWNER,
		  .is_here = true,
		  .platform = { 1, 1 },
		  .now = 3,
		  .moved = { 0, 0, 70000, 90000, 0 } },
		{ .kind = RIO_SEEN_REQUESTER,
		  .platform = requester,
		  .done = { 12, 2, 1, 1 << 20, 8192 },
		  .name = text_of("db") },
		{ .kind = RIO_SEEN_IOUNIT,
		  .is_here = true,
		  .platform = iounit,
		  .now = 3,
		  .done = { 9, 0, 1, 1 << 20, 8192 },
		  .name = text_of("disks") },
		{ .kind = RIO_SEEN_DEVICE,
		  .is_here = true,
		  .platform = iounit,
		  .device = { .number = 0x10003,
			      .block_bytes = 4096,
			      .size_bytes = UINT64_C(3) << 40,
			      .flags = RIO_DEVICE_FLUSH,
			      .name = text_of("archive") } },
	};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		rio_seen_put(&each[i], &w);
	return (struct rio_report){ 7, 4, { bytes, (size_t)(w.at - bytes) } };
}

struct rio_msg fixture_message(enum rio_msg_type type)
{
	static uint8_t list[FIXTURE_LIST_BYTES];
	struct rio_msg m = { .type = type, .sequence = 5, .id = 0x0102030405060708 };

	if (rio_msg_is_sealed(type))
		memset(m.seal, 0x5e, sizeof(m.seal));
	greeting(&m);
	rights(&m);
	if (type == RIO_REQUEST || type == RIO_COMMAND) {
		fixture_list(list);
		m.request.timeout_ms = 30000;
		m.request.list = (struct rio_bytes){ list, sizeof(list) };
		if (type == RIO_COMMAND) {
			m.request.is_urgent = true;
			m.request.requester = requester;
			m.request.asked = 0x1112131415161718;
		}
	} else if (type == RIO_NOTIFIED) {
		m.notified = notified();
	} else if (type == RIO_INQUIRE) {
		m.inquire_first = 40;
	} else if (type == RIO_REPORT) {
		m.report = report();
	} else if (type == RIO_STATUS) {
		m.status.reason = 36;
		m.status.transaction = 1;
		m.status.done_bytes = 4096;
		m.status.text = text_of("no such device");
	} else if (type == RIO_BYE) {
		m.bye_reason = 6;
	}
	return m;
}

struct rio_data fixture_data(void)
{
	struct rio_data d = { .from = iounit, .to = requester, .counter = 12 };

	memset(d.nonce, 0x0c, sizeof(d.nonce));
	memset(d.seal, 0x5e, sizeof(d.seal));
	return d;
}
