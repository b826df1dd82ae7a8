/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw datagrams (RAW-01): IPv6 packets between the port's core and the host's network, through a
 * TUN interface. The adapter's lock guards it.
 *
 * RAW-02: at a node of a fabric the adapter is a bridge, too. What comes from the host and is for
 * no queue pair goes on to the port whose GID it is for; what comes from the fabric and is for none
 * goes to the host.
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

/* Writes a packet to the interface; one that it refuses is lost. */
void tun_write(struct tun *tun, const uint8_t *frame, size_t length);

/* Writes what queue pairs have sent to the interface. True: there was something. */
bool tun_output(struct tun *tun);
