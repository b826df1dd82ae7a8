/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw datagrams (RAW-01): IPv6 packets between the port's core and the host's network, through a
 * TUN interface. The adapter's lock guards it.
 */
#pragma once

#include "driver/roce/roce.h"

struct tun;

/* Why an interface cannot be opened, by the errno of the call that failed. */
enum weft_reason tun_reason_of(int error);

/* Opens the interface, or creates it. */
enum weft_reason tun_open(struct roce *roce, const char *interface, struct tun **tun);
void tun_close(struct tun *tun);

/*
 * Whether its interface exists; false for NULL. Once it is deleted, packets sent are lost, and
 * counted.
 */
bool tun_is_open(const struct tun *tun);

/* In a child of fork(): closes the descriptor; everything else belongs to the parent. */
void tun_abandon(struct tun *tun);

/* Writes what queue pairs have sent to the interface. True: there was something. */
bool tun_output(struct tun *tun);
