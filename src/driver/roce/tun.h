/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw datagrams (RAW-01): IPv6 frames between the port's core and the host's network, by a TUN
 * interface. The adapter's lock guards it.
 */
#pragma once

#include "driver/roce/roce.h"

struct tun;

/* Opens the interface, or makes it. */
enum weft_reason tun_open(struct roce *roce, const char *interface, struct tun **tun);
void tun_close(struct tun *tun);

/*
 * Whether its interface is there; NULL: there was none. Once it has gone, what is sent is lost, and
 * counted.
 */
bool tun_is_open(const struct tun *tun);

/* In the child of fork(): the descriptor alone, as the rest is the parent's. */
void tun_abandon(struct tun *tun);

/* Hands over what queue pairs have sent. True: there was something. */
bool tun_output(struct tun *tun);
