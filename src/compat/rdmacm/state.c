/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/rdmacm/rdmacm.h"

static const char *const names[ID_STATE_COUNT] = {
	[ID_IDLE] = "idle",
	[ID_BOUND] = "bound",
	[ID_ADDRESS] = "address resolved",
	[ID_ROUTE] = "route resolved",
	[ID_CONNECTING] = "connecting",
	[ID_RESPONDED] = "responded",
	[ID_LISTENING] = "listening",
	[ID_REQUESTED] = "requested",
	[ID_ACCEPTING] = "accepting",
	[ID_ESTABLISHED] = "established",
	[ID_DISCONNECTED] = "disconnected",
	[ID_FAILED] = "failed",
	[ID_REJECTED] = "rejected",
};

/* Legal moves: from a state to the set of those that may follow. */
static const uint32_t moves[ID_STATE_COUNT] = {
	[ID_IDLE] = 1 << ID_BOUND | 1 << ID_ADDRESS | 1 << ID_REQUESTED,
	[ID_BOUND] = 1 << ID_ADDRESS | 1 << ID_LISTENING,
	[ID_ADDRESS] = 1 << ID_ROUTE,
	[ID_ROUTE] = 1 << ID_CONNECTING,
	/* Back, if the call was refused. */
	[ID_CONNECTING] = 1 << ID_ESTABLISHED | 1 << ID_RESPONDED | 1 << ID_FAILED | 1 << ID_ROUTE,
	[ID_RESPONDED] = 1 << ID_ESTABLISHED | 1 << ID_FAILED | 1 << ID_DISCONNECTED,
	[ID_LISTENING] = 1 << ID_BOUND,
	[ID_REQUESTED] = 1 << ID_ACCEPTING | 1 << ID_REJECTED,
	[ID_ACCEPTING] = 1 << ID_ESTABLISHED | 1 << ID_FAILED | 1 << ID_REQUESTED,
	[ID_ESTABLISHED] = 1 << ID_DISCONNECTED,
};

const char *id_state_name(enum id_state state)
{
	return (unsigned int)state < ID_STATE_COUNT ? names[state] : "unknown";
}

bool id_state_may(enum id_state from, enum id_state to)
{
	return (unsigned int)from < ID_STATE_COUNT && (unsigned int)to < ID_STATE_COUNT &&
	       (moves[from] & 1U << to);
}

bool id_move(struct id *id, enum id_state to)
{
	if (!id_state_may(id->state, to))
		return false;
	id->state = to;
	return true;
}

bool id_try(struct id *id, enum id_state to)
{
	bool has_moved;

	cm_lock();
	has_moved = id_move(id, to);
	cm_unlock();
	return has_moved;
}

enum id_state id_state(struct id *id)
{
	enum id_state state;

	cm_lock();
	state = id->state;
	cm_unlock();
	return state;
}
