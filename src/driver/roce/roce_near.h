/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which packets go by shared memory. A connection decides it once, with its path. Datagrams decide
 * it by their address handle, whether that is of this host, and by the adapter of their receiver.
 */
#pragma once

#include "driver/roce/roce.h"

/* The path's near_number, to the queue pair of this number. */
uint32_t roce_near_number(struct roce *roce, const struct ib_path *path, uint32_t number);

/* Whether both ends of an address handle are this host; for one that is made. */
bool roce_is_on_host(const struct weft_adapter *adapter, const struct weft_path *path);

/*
 * Whether the source address of a packet by shared memory, which its sender wrote there, is of this
 * host: a process cannot send UDP packets from any other.
 */
bool roce_near_is_source(struct roce *roce, const struct ib_in *in);

/* ib_port_near_next(), after the adapter of a datagram's receiver was looked up. */
uint32_t roce_near_next(struct roce *roce);

/* Takes the ends of ways to other adapters. */
void roce_near_take_ends(struct roce *roce);

/* Before the sockets are looked at: rings may have been taken. */
void roce_near_look(struct roce *roce);

/* From time to time: looks adapters up again, as others may have their slots. */
void roce_near_retry(struct roce *roce);
