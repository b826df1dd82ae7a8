/* SPDX-License-Identifier: BSD-2-Clause */
/* What an owner has decided, in a line for people and their programs. */
#pragma once

#include "rio/owner.h"

void rio_note_text(const struct rio_owner *owner, const struct rio_note *note, char *line,
		   size_t room);
