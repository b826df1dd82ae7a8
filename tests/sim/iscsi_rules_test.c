/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of iSCSI in which several sessions, faults and slow devices meet so that a rule counts:
 * tests/mutate/iscsi_world.txt leaves these rules out one by one. The swarm (iscsi_swarm_test.c)
 * found these seeds; if worlds draw otherwise one day, it finds others.
 */
#include "seeds.h"
#include "test.h"

#define RUN_OF(kind, ...)                                                                          \
	do {                                                                                       \
		static const uint64_t seeds[] = { __VA_ARGS__ };                                   \
		seeds_run_each(kind, seeds, sizeof(seeds) / sizeof(seeds[0]));                     \
	} while (0)
#define RUN(...) RUN_OF(SIM_ISCSI, __VA_ARGS__)

/* A device has a write of a session that is gone; the next one of its initiator writes the same. */
TEST(test_rfc7143_6_3_5_new_session_waits_for_tasks_of_the_old)
{
	RUN(70, 111, 135, 164);
}

/* An initiator comes again before the target knows that it was gone. */
TEST(test_rfc7143_6_3_5_new_session_ends_the_old)
{
	RUN(10, 58, 62, 70);
}

/* A unit is reset while a device has a write of a session that is gone. */
TEST(test_rfc7143_11_5_reset_waits_for_tasks_of_sessions_that_are_gone)
{
	RUN(256);
}

/* A task is aborted that a reset of another initiator has ended, and that its device has. */
TEST(test_rfc7143_11_5_abort_waits_for_what_another_has_ended)
{
	RUN(246, 258);
}

/* The immediate data of a command is damaged, while others follow. */
TEST(test_rfc7143_7_8_session_goes_on_after_a_damaged_command)
{
	RUN(87, 311, 351);
}

/* Data of a write is damaged. */
TEST(test_rfc7143_7_8_damaged_data_is_not_written)
{
	RUN(45, 51, 59, 71);
}

/* A session sends as many commands as its window says, and more are waiting. */
TEST(test_rfc7143_4_2_2_1_window_has_room_for_commands)
{
	RUN(197, 326, 375);
}

/* Large writes by small bursts. */
TEST(test_rfc7143_13_17_outstanding_r2ts_are_limited)
{
	RUN(1, 2, 4);
}

/* The connection is lost while COMPARE AND WRITE is under way: twice is not as good as once. */
TEST(test_compare_and_write_is_not_sent_again)
{
	RUN(59, 102, 341);
}

/* Power fails after a write with FUA. */
TEST(test_write_with_fua_survives_a_power_failure)
{
	RUN(1, 4, 6, 9);
}

/* Several Reads of one write are under way, by iSER. */
TEST(test_rfc7145_7_write_begins_when_all_its_data_is_there)
{
	RUN_OF(SIM_ISCSI_ISER, 16, 34, 44, 55);
}

/* Commands by iSER are over, while others are under way. */
TEST(test_rfc7145_7_memory_of_a_command_that_is_over_is_not_lent)
{
	RUN_OF(SIM_ISCSI_ISER, 1, 2, 3);
}

/* An idle session by iSER that answers pings. */
TEST(test_iser_idle_session_that_answers_pings_stays)
{
	RUN_OF(SIM_ISCSI_ISER, 2589);
}
