/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What carries an adapter's packets: the sockets of RoCE, or a port of a fabric. In a fabric
 * management datagrams carry GIDs, by which the connection manager knows its peers; their LIDs are
 * those of the path that a program named, or of the datagram that came.
 */
#pragma once

#include "driver/roce/roce.h"

/* Opens what the environment says. */
enum weft_reason roce_line_open(struct roce *roce);
void roce_line_close(struct roce *roce);
void roce_line_abandon(struct roce *roce);

/* From now on what changes at the port is an event. */
void roce_line_watch(struct roce *roce, void *context);

/* The slot of the adapter. */
uint8_t roce_line_slot(const struct roce *roce);

/* Whether the adapter's packets can go by such a path, by LIDs or without. */
bool roce_line_has(const struct weft_adapter *adapter, const struct weft_path *path);

/* Completes a path from one of our queue pairs or contexts to one of the peer's, or refuses it. */
enum weft_reason roce_line_source(struct roce *roce, struct ib_path *path, uint32_t ours,
				  uint32_t theirs);

/* The same of a management datagram, sent so often before. */
enum weft_reason roce_line_manage(struct roce *roce, struct ib_path *path, uint32_t attempt);

/* The local route to a peer, for the connection manager to use; and for programs to know. */
void roce_line_learn(struct roce *roce, const struct ib_path *path);
void roce_line_tell(struct roce *roce, struct weft_path *path);

/* How many packets of a connection with such a path go before an answer; 0: as the core likes. */
uint32_t roce_line_window(const struct roce *roce, uint32_t mtu_bytes);

/* The peer is expected to send by this path. */
void roce_line_expect(struct roce *roce, const struct ib_path *path, uint32_t ours, uint32_t theirs,
		      struct udp_flow_ref *flow_ref);
void roce_line_forget(struct roce *roce, struct udp_flow_ref *flow_ref);

/* WEFT_R_BAD_ARGUMENT: no service has this number. */
enum weft_reason roce_line_claim(struct roce *roce, uint64_t service_id);
void roce_line_release(struct roce *roce, uint64_t service_id);
enum weft_reason roce_line_join(struct roce *roce, const struct weft_address *group,
				const struct weft_address *at);
void roce_line_leave(struct roce *roce, const struct weft_address *group,
		     const struct weft_address *at);

/* In a fabric: raw packets come to this adapter, and to no other of the port, from now on. */
enum weft_reason roce_line_raw(struct roce *roce);

/*
 * The host's packet goes to the port that its address is a GID of; else it is lost, and counted as
 * refused: WEFT_R_PEER_UNKNOWN, WEFT_R_BUSY (who has it cannot be asked now), WEFT_R_QUEUE_FULL.
 */
void roce_line_bridge(struct roce *roce, const uint8_t *frame, size_t length);
void roce_line_flush(struct roce *roce);

/* In a fabric: gives frames that have come to the core; sends what is ready. True: some moved. */
bool roce_line_input(struct roce *roce);
bool roce_line_output(struct roce *roce);

/* Bytes and system calls. */
struct roce_line_counts {
	uint64_t bytes_in, bytes_out, calls_in, calls_out, calls_empty;
	uint64_t handed_in, handed_out, sent_away, overruns;
};

struct roce_line_counts roce_line_counts(const struct roce *roce);
