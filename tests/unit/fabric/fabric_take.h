/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <string.h>

#include "fabric/fabric.h"

/* The next frame for the owner of a port, as a copy; returns its length; 0: there is none. */
static inline uint32_t fabric_take(struct fabric *f, uint32_t node, uint32_t port,
				   uint8_t bytes[IBA_FRAME_MAX])
{
	const uint8_t *at;
	uint32_t length = fabric_peek(f, node, port, &at);

	if (length == 0)
		return 0;
	memcpy(bytes, at, length);
	fabric_pass(f, node, port);
	return length;
}
