/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdint.h>

/* A descriptor that epoll may watch. */
struct watch {
	void (*ready)(struct watch *w, uint32_t events);
	int fd;
	uint32_t interest; /* events registered with epoll; 0: not watched */
};

/* In a child of fork(): closes the descriptor and nothing else. */
void watch_abandon(struct watch *w);
