/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that another context can import. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum offer_kind { OFFER_CONTEXT, OFFER_PD, OFFER_MR, OFFER_DM };

/*
 * An object that another context of this process may import by the descriptor of its context and
 * its handle. Guarded by the lock of import.c.
 */
struct offer {
	struct list link; /* unlinked: not offered */
	enum offer_kind kind;
	uint64_t context; /* number */
	uint32_t handle;
};

void offer_make(struct offer *offer, enum offer_kind kind, struct ibv_context *context,
		uint32_t handle);
void offer_withdraw(struct offer *offer);

/* Before the object is destroyed: withdraws it if it has at most so many users; else false. */
bool offer_end(struct offer *offer, const atomic_uint *users, unsigned int most);

/* A unique handle, for objects without a number. */
uint32_t offer_handle(void);

/* Lock the list of all offers; in a child of fork(), with it locked: drops the parent's offers. */
void offers_lock(void);
void offers_unlock(void);
void offers_forked(void);
