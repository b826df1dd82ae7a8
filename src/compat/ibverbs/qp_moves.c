/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IBA 10.3.1 and table 91 (Modify QP): which attributes a move between two states must bring, and
 * which it may. As Linux has it, which drops nothing of the table but what only RD has; and of RD
 * what is the queue pair's own, as the rest is its contexts'.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/qp_roce.h"
#include "compat/ibverbs/say.h"

enum service { RC, UC, UD, XRC_SEND, XRC_RECV, RD, SERVICES };

struct move {
	bool is_legal;
	int must[SERVICES], may[SERVICES];
};

enum {
	ACCESS = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	KEY = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	PEER = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RETRIES = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	OTHER_WAY = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
	/* While requests are sent. */
	LIVE_UC = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		  IBV_QP_RATE_LIMIT,
	LIVE_RC = LIVE_UC | IBV_QP_MIN_RNR_TIMER,
	LIVE_UD = IBV_QP_CUR_STATE | IBV_QP_QKEY,
	OWN_RD = IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY | IBV_QP_MIN_RNR_TIMER,
	LIVE_RD = IBV_QP_CUR_STATE | OWN_RD,
	/* While none are. */
	PAUSED_UC = IBV_QP_AV | OTHER_WAY | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT,
	PAUSED_SEND = PAUSED_UC | IBV_QP_PORT | RETRIES,
	PAUSED_RECV = PAUSED_UC | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC |
		      IBV_QP_MIN_RNR_TIMER,
	PAUSED_RC = PAUSED_SEND | PAUSED_RECV,
	SERVED = PEER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	STARTED = RETRIES | IBV_QP_SQ_PSN,
	TELL = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	STATES = IBV_QPS_ERR + 1
};

#define LEGAL .is_legal = true

/* To RESET and ERR one may go from everywhere, and brings nothing. */
static const struct move moves[STATES][STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_INIT] = { LEGAL,
			.must = { ACCESS, ACCESS, KEY, ACCESS, ACCESS, ACCESS | KEY } },
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_INIT] = { LEGAL,
			.may = { ACCESS, ACCESS, KEY, ACCESS, ACCESS, ACCESS | KEY } },
		[IBV_QPS_RTR] = { LEGAL,
			.must = { SERVED, PEER, 0, PEER, SERVED, IBV_QP_MIN_RNR_TIMER },
			.may = { OTHER_WAY, OTHER_WAY, IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
				 OTHER_WAY, OTHER_WAY, IBV_QP_PKEY_INDEX | OWN_RD } },
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RTS] = { LEGAL,
			.must = { STARTED, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, STARTED,
				  IBV_QP_TIMEOUT | IBV_QP_SQ_PSN },
			.may = { LIVE_RC, LIVE_UC, LIVE_UD, LIVE_UC, LIVE_RC, LIVE_RD } },
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RTS] = { LEGAL,
			.may = { LIVE_RC, LIVE_UC, LIVE_UD, LIVE_UC, LIVE_RC, LIVE_RD } },
		[IBV_QPS_SQD] = { LEGAL, .may = { TELL, TELL, TELL, TELL, TELL, TELL } },
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RTS] = { LEGAL,
			.may = { LIVE_RC, LIVE_UC, LIVE_UD, LIVE_UC, LIVE_RC, LIVE_RD } },
		[IBV_QPS_SQD] = { LEGAL,
			.may = { PAUSED_RC, PAUSED_UC, IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
				 PAUSED_SEND, PAUSED_RECV, IBV_QP_PKEY_INDEX | OWN_RD } },
	},
	[IBV_QPS_SQE] = {
		/* Of RC an error of the send queue ends all. */
		[IBV_QPS_RTS] = { LEGAL,
			.may = { [UC] = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, [UD] = LIVE_UD,
				 [RD] = LIVE_RD } },
	},
};

static const struct {
	int attribute;
	const char *name;
} names[] = {
	{ IBV_QP_CUR_STATE, "CUR_STATE" },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" },
	{ IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS" },
	{ IBV_QP_PKEY_INDEX, "PKEY_INDEX" },
	{ IBV_QP_PORT, "PORT" },
	{ IBV_QP_QKEY, "QKEY" },
	{ IBV_QP_AV, "AV" },
	{ IBV_QP_PATH_MTU, "PATH_MTU" },
	{ IBV_QP_TIMEOUT, "TIMEOUT" },
	{ IBV_QP_RETRY_CNT, "RETRY_CNT" },
	{ IBV_QP_RNR_RETRY, "RNR_RETRY" },
	{ IBV_QP_RQ_PSN, "RQ_PSN" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" },
	{ IBV_QP_ALT_PATH, "ALT_PATH" },
	{ IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER" },
	{ IBV_QP_SQ_PSN, "SQ_PSN" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" },
	{ IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE" },
	{ IBV_QP_CAP, "CAP" },
	{ IBV_QP_DEST_QPN, "DEST_QPN" },
	{ IBV_QP_RATE_LIMIT, "RATE_LIMIT" },
};

static const char *const states[STATES] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

static void complain(enum ibv_qp_state from, enum ibv_qp_state to, const char *what, int mask)
{
	char list[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (mask & names[i].attribute)
			used += (size_t)snprintf(list + used, sizeof(list) - used, " IBV_QP_%s",
						 names[i].name);
	}
	say("ibv_modify_qp from %s to %s %s%s", states[from], states[to], what, list);
}

static enum service service_of(enum ibv_qp_type type)
{
	static const enum service services[] = {
		[IBV_QPT_RC] = RC,
		[IBV_QPT_UC] = UC,
		[IBV_QPT_UD] = UD,
		[IBV_QPT_XRC_SEND] = XRC_SEND,
		[IBV_QPT_XRC_RECV] = XRC_RECV,
	};

	return type_is_rd(type) ? RD : services[type]; /* a queue pair has one of these */
}

int qp_move_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	enum service service = service_of(type);
	static const struct move always = { .is_legal = true };
	const struct move *m;
	int missing, beyond;

	if ((unsigned int)to >= STATES || (unsigned int)from >= STATES)
		return EINVAL;
	m = to == IBV_QPS_RESET || to == IBV_QPS_ERR ? &always : &moves[from][to];
	if (!m->is_legal) {
		complain(from, to, "is no move that there is", 0);
		return EINVAL;
	}
	missing = m->must[service] & ~mask;
	beyond = mask & ~(m->must[service] | m->may[service] | IBV_QP_STATE);
	if (missing)
		complain(from, to, "lacks", missing);
	else if (beyond)
		complain(from, to, "does not take", beyond);
	return missing || beyond ? EINVAL : 0;
}
