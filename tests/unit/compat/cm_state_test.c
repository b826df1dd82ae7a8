/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of an id: every move that there is, and none besides. */
#include <string.h>

#include "compat/rdmacm/rdmacm.h"
#include "test.h"

/* One thread: nothing is to be locked. */
void cm_lock(void)
{
}

void cm_unlock(void)
{
}

static const enum id_state legal[][2] = {
	{ ID_IDLE, ID_BOUND },
	{ ID_IDLE, ID_ADDRESS },
	{ ID_IDLE, ID_REQUESTED },
	{ ID_BOUND, ID_ADDRESS },
	{ ID_BOUND, ID_LISTENING },
	{ ID_LISTENING, ID_BOUND },
	{ ID_ADDRESS, ID_ROUTE },
	{ ID_ROUTE, ID_CONNECTING },
	{ ID_CONNECTING, ID_ROUTE },
	{ ID_CONNECTING, ID_ESTABLISHED },
	{ ID_CONNECTING, ID_RESPONDED },
	{ ID_RESPONDED, ID_ESTABLISHED },
	{ ID_RESPONDED, ID_FAILED },
	{ ID_RESPONDED, ID_DISCONNECTED },
	{ ID_CONNECTING, ID_FAILED },
	{ ID_REQUESTED, ID_ACCEPTING },
	{ ID_REQUESTED, ID_REJECTED },
	{ ID_ACCEPTING, ID_REQUESTED },
	{ ID_ACCEPTING, ID_ESTABLISHED },
	{ ID_ACCEPTING, ID_FAILED },
	{ ID_ESTABLISHED, ID_DISCONNECTED },
};

static bool is_legal(enum id_state from, enum id_state to)
{
	for (size_t i = 0; i < sizeof(legal) / sizeof(legal[0]); i++)
		if (legal[i][0] == from && legal[i][1] == to)
			return true;
	return false;
}

TEST(test_id_state_moves_are_these_and_no_others)
{
	for (int from = 0; from < ID_STATE_COUNT; from++) {
		for (int to = 0; to < ID_STATE_COUNT; to++) {
			bool may = is_legal((enum id_state)from, (enum id_state)to);
			struct id id = { .state = (enum id_state)from };

			EXPECT_EQ(id_try(&id, (enum id_state)to), may);
			EXPECT_EQ(id_state(&id), may ? to : from);
		}
	}
	EXPECT(!id_state_may(ID_IDLE, ID_STATE_COUNT));
	EXPECT(!id_state_may(ID_STATE_COUNT, ID_IDLE));
}

TEST(test_id_state_names_are_there_and_differ)
{
	for (int a = 0; a < ID_STATE_COUNT; a++) {
		REQUIRE(id_state_name((enum id_state)a));
		for (int b = 0; b < a; b++)
			EXPECT(strcmp(id_state_name((enum id_state)a),
				      id_state_name((enum id_state)b)) != 0);
	}
	EXPECT_STR(id_state_name(ID_STATE_COUNT), "unknown");
}
