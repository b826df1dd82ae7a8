/* SPDX-License-Identifier: BSD-2-Clause */
/* A good message of each function and kind of the split network card, and a cell of each sort. */
#pragma once

#include "wire/push_cell.h"
#include "wire/push_msg.h"

enum {
	PUSH_FIXTURES = 19,    /* messages */
	PUSH_FIXTURE_CELLS = 4 /* first, middle and last of an RDMA Write; a Send of one cell */
};

/* What it points at stays as it is. *name is as docs/wire/push.md has it. */
struct push_msg push_fixture(int nth, const char **name);
struct push_cell push_fixture_cell(int nth, const char **name);
