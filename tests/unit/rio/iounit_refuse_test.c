/* SPDX-License-Identifier: BSD-2-Clause */
/* What an I/O unit refuses: configurations, devices, and messages that are not an owner's. */
#include <string.h>

#include "test.h"
#include "unit/rio/unit_fixture.h"

static struct unit_world world, *const w = &world;

TEST(test_rio_unit_refuses_a_configuration_without_a_part)
{
	const struct rio_iounit_config good = { .self = { UNIT, 1 },
						.devices_max = 1,
						.commands_max = 1,
						.platforms_max = 1,
						.moves_max = 1,
						.pieces_max = 1,
						.piece_bytes = PIECE,
						.buffers = w->buffers };
	struct rio_iounit_config bad[9];
	struct rio_iounit *unit = NULL;

	for (int i = 0; i < 9; i++)
		bad[i] = good;
	bad[0].self = (struct platform){ 0, 0 };
	bad[1].devices_max = 0;
	bad[2].devices_max = UINT32_MAX;
	bad[3].commands_max = 0;
	bad[4].platforms_max = 0;
	bad[5].moves_max = 0;
	bad[6].pieces_max = 0;
	bad[7].piece_bytes = PIECE + 1;
	bad[8].buffers = NULL;
	for (int i = 0; i < 9; i++)
		EXPECT_EQ(rio_iounit_create(&bad[i], &unit), WEFT_R_BAD_ARGUMENT);
	REQUIRE(rio_iounit_create(&good, &unit) == WEFT_OK);
	rio_iounit_destroy(unit);
}

TEST(test_rio_unit_refuses_devices_without_name_twice_and_too_many)
{
	char name[300];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	world_open(w, 1, false);
	EXPECT_EQ(rio_iounit_add_device(w->unit, 9, "", w->disk, 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(rio_iounit_add_device(w->unit, 9, name, w->disk, 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(rio_iounit_add_device(w->unit, DEVICE, "same", w->disk, 1), WEFT_R_BUSY);
	EXPECT_EQ(rio_iounit_add_device(w->unit, 9, "second", w->disk, 1), WEFT_OK);
	EXPECT_EQ(rio_iounit_add_device(w->unit, 10, "third", w->disk, 1), WEFT_R_LIMIT);
	world_close(w);
}

TEST(test_rio_unit_takes_no_message_of_another_role_nor_without_an_owner)
{
	const struct rio_msg status = { .type = RIO_STATUS, .id = 1 };
	const struct rio_msg ping = { .type = RIO_PING, .id = 1 };

	world_open(w, 1, false);
	EXPECT_EQ(world_try_say(w, &status), WEFT_R_RIO_UNEXPECTED);
	EXPECT_EQ(world_try_say(w, &ping), WEFT_OK);
	rio_iounit_owner_left(w->unit);
	EXPECT_EQ(world_try_say(w, &ping), WEFT_R_RIO_UNEXPECTED);
	world_run(w);
	world_close(w);
}

/* Its own memory needs no grant. */
TEST(test_rio_unit_refuses_a_grant_of_itself)
{
	const struct rio_msg grant = {
		.type = RIO_GRANT,
		.grant = { .requester = { UNIT, 1 },
			   .address = { .family = 4, .port = 7480, .ip = { 127, 0, 0, 1 } } },
	};

	world_open(w, 1, false);
	EXPECT_EQ(world_try_say(w, &grant), WEFT_R_RIO_UNEXPECTED);
	world_run(w);
	world_close(w);
}
