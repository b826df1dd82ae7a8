/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves packets between the sockets and the core. */
#pragma once

#include "driver/roce/roce.h"

/* The memory of outgoing packets. False: out of memory; roce_packets_fini() frees what there is. */
bool roce_packets_init(struct roce *roce);
void roce_packets_fini(struct roce *roce);

/* Reads the sockets that epoll reported, with is_hot also the hot ones. True: something came. */
bool roce_input(struct roce *roce, bool is_hot);

/* Whether adapters of this host send to us by shared memory; and reads that. */
static inline bool roce_is_near(const struct roce *roce)
{
	return roce->near && near_is_sent_to(roce->near);
}

bool roce_input_near(struct roce *roce);

/* Receives all that has come. True: something was there. */
bool roce_input_all(struct roce *roce);

/* Reads the shared sockets, so that packets of other adapters are handed on. */
bool roce_input_shared(struct roce *roce);

/* Gives a received packet to the core. False: it was invalid. */
bool roce_take(struct roce *roce, const struct ib_in *in);

/* True: all packets were sent or refused; false: the socket is full. */
bool roce_send(struct roce *roce, struct udp_batch *batch);

/*
 * Sends what is ready, and takes the core's events. True: something moved. can_wait:
 * acknowledgements may wait for the program's next request.
 */
bool roce_output(struct roce *roce, bool can_wait);
bool roce_has_output(const struct roce *roce);
