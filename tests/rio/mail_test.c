/* SPDX-License-Identifier: BSD-2-Clause */
/* What a role has room for while it is busy with something else. */
#include <string.h>

#include "rio/raw.h"

static struct cluster c;
static struct raw raw;

/* The owner stands still at what it has to note, until the lock is given back. */
static void owner_hold(void)
{
	static const uint8_t no_list[8];

	pthread_mutex_lock(&c.lock);
	raw_say(&raw, &(struct rio_msg){ .type = RIO_REQUEST,
					 .id = 1,
					 .request = { .list = { no_list, sizeof(no_list) } } });
}

/* A requester may cancel each of its requests: that is more than there are receives for. */
TEST(test_rio_02c_what_an_owner_has_no_room_for_waits)
{
	enum { REQUESTS = 1024 };
	struct rio_msg m;

	cluster_begin(&c);
	c.owner_options.requests_max = REQUESTS;
	cluster_start_owner(&c);
	raw_open(&raw, FIRST_REQUESTER, RIO_REQUESTER);
	raw_dial(&raw, &c.owner_at, OWNER_UNIT, RIO_OWNER);
	owner_hold();
	for (uint64_t id = 2; id <= 2 * REQUESTS; id++)
		raw_say(&raw, &(struct rio_msg){ .type = RIO_CANCEL, .id = id });
	raw_say(&raw, &(struct rio_msg){ .type = RIO_PING, .id = 7 });
	pthread_mutex_unlock(&c.lock);
	EXPECT(raw_hear(&raw, RIO_PONG, &m));
	raw_close(&raw);
	cluster_close(&c);
}
