/* SPDX-License-Identifier: BSD-2-Clause */
/* What devices say of themselves, to programs of other versions. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { BEYOND = 64 };

static bool is_all(const uint8_t *bytes, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

/* A newer program's structs are longer, an older one's shorter: what we know not is zero. */
TEST(test_attributes_beyond_those_known_are_zero)
{
	struct ibv_context *context = loop_context();
	struct verbs_context *v = verbs_get_ctx(context);
	union {
		struct ibv_device_attr_ex device;
		struct ibv_port_attr port;
		struct ibv_gid_entry gid;
		uint8_t bytes[sizeof(struct ibv_device_attr_ex) + 2 * BEYOND];
	} a;

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.device), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.device) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.device.phys_port_cnt_ex, 1);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device.orig_attr)), 0);
	EXPECT(is_all(a.bytes + sizeof(a.device.orig_attr), BEYOND, 0xff));
	EXPECT_EQ(v->query_device_ex(context, NULL, &a.device, sizeof(a.device.orig_attr) - 1),
		  EINVAL);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(v->query_port(context, 1, &a.port, sizeof(a.port) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.port), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.port) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.port.state, IBV_PORT_ACTIVE);

	memset(&a, 0xff, sizeof(a));
	EXPECT_EQ(_ibv_query_gid_ex(context, 1, 0, &a.gid, 0, sizeof(a.gid) + BEYOND), 0);
	EXPECT(is_all(a.bytes + sizeof(a.gid), BEYOND, 0));
	EXPECT(is_all(a.bytes + sizeof(a.gid) + BEYOND, BEYOND, 0xff));
	EXPECT_EQ(a.gid.port_num, 1);
	EXPECT_EQ(ibv_close_device(context), 0);
}
