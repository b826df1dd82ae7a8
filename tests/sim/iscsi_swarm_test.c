/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The swarm of worlds of iSCSI, by TCP and by iSER: many seeds, in each of which initiators and a
 * target meet other faults, watched by judges that stand outside the cores.
 */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = {
	87,   /* a session went on after a damaged command, and no later one was carried out */
	246,  /* an abort was answered while the device had the task, which a reset had ended */
	258,  /* the same of another unit */
	9748, /* the judge of PDUs forgot a task whose data was on its way */
};

static const uint64_t failed_once_by_iser[] = {
	1633, 2589, /* a target ended idle sessions that had answered its ping */
};

TEST(test_iscsi_seeds_that_failed_once)
{
	seeds_run_each(SIM_ISCSI, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
}

TEST(test_iscsi_swarm_of_seeds)
{
	seeds_run_many(SIM_ISCSI, ISCSI_SEEDS);
}

TEST(test_iscsi_same_seed_same_history)
{
	seeds_compare(SIM_ISCSI);
}

TEST(test_iser_seeds_that_failed_once)
{
	seeds_run_each(SIM_ISCSI_ISER, failed_once_by_iser,
		       sizeof(failed_once_by_iser) / sizeof(failed_once_by_iser[0]));
}

TEST(test_iser_swarm_of_seeds)
{
	seeds_run_many(SIM_ISCSI_ISER, ISCSI_SEEDS);
}

TEST(test_iser_same_seed_same_history)
{
	seeds_compare(SIM_ISCSI_ISER);
}
