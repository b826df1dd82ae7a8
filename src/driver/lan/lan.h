/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frame ports: where Ethernet frames enter and leave this process. A port is opened by a line of
 * text (lan/plan.h, docs/card.md), never blocks, and has one descriptor to poll. One thread at a
 * time uses a port.
 *
 * Frames are received into buffers of the caller's and sent from them; the virtio-net header of
 * each says what its receiver has still to do. What the kind of a port cannot leave to its peer is
 * done here (lan/offload.h), so every port takes every frame.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "lan/frame.h"

struct lan_port;

enum { LAN_WHY = 160, LAN_BATCH_MAX = 64 };

/* Opens what the text says. If it fails, why[] has a line for people. */
enum weft_reason lan_open(const char *text, struct lan_port **port, char why[LAN_WHY]);
void lan_close(struct lan_port *port);

/*
 * Readable while frames may wait to be received, news to be read (lan_news), or a port that was
 * full may have room again. For EPOLLIN or POLLIN, level triggered.
 */
int lan_descriptor(const struct lan_port *port);

/*
 * Receives up to count frames; of each, bytes and room are the caller's. Returns how many: to be
 * called until that is 0, or lan_has_more() is false, as some may wait in the port. It also does
 * the other work of the port: connects again, answers its peer, notices changes. So it is to be
 * called, with count 0 at least, whenever the descriptor is readable.
 */
uint32_t lan_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count);

/* Whether frames may still wait to be received; if not, the descriptor tells of those to come. */
bool lan_has_more(const struct lan_port *port);

/*
 * Frames are expected to wait: the next lan_receive() looks for them first, and not at what else
 * the descriptor may tell of. If it finds none, the one after it does.
 */
void lan_expect(struct lan_port *port);

/*
 * Sends frames in order; returns how many were taken. A frame that cannot be sent is taken and
 * counted as dropped, with its reason. Fewer than count: the port is full until its link is
 * down or LAN_NEWS_ROOM comes. In the bytes of a frame that was taken a checksum may have been
 * completed; one that was not taken is as it was, or has its rest behind its first bytes.
 */
uint32_t lan_send(struct lan_port *port, struct lan_frame *frames, uint32_t count);

enum {
	LAN_NEWS_LINK = 1 << 0, /* is_up or why */
	LAN_NEWS_MAC = 1 << 1,
	LAN_NEWS_MTU = 1 << 2,
	LAN_NEWS_FILTERS = 1 << 3,
	LAN_NEWS_ROOM = 1 << 4, /* a port that was full may take frames again */
};

/*
 * What has changed since it was last called. lan_receive() finds it out: only these bits tell, once
 * it has been called, why the descriptor was readable.
 */
uint32_t lan_news(struct lan_port *port);

/* What a port passes on besides the frames to its own address and to all stations. */
struct lan_filters {
	bool is_promiscuous;
	bool is_all_multicast; /* or the list was too long */
	uint16_t multicast_count;
	uint8_t multicast[64][LAN_MAC_BYTES];
	uint16_t vlan_count; /* 0: frames of every VLAN */
	uint16_t vlans[64];  /* in rising order */
};

struct lan_properties {
	bool is_up;
	enum weft_reason why; /* it is not up */
	bool has_mac;	      /* the kind of port knows one */
	uint8_t mac[LAN_MAC_BYTES];
	uint32_t mtu;
	uint32_t takes; /* enum lan_offload: left to the peer; the rest is done here */
	struct lan_filters filters;
};

/* Valid until the next call on the port. */
const struct lan_properties *lan_properties(const struct lan_port *port);

/*
 * Of an interface: set it; of the others: say it, where the kind has such a thing. Else
 * WEFT_R_LAN_UNSUPPORTED. lan_set_link is for a TAP interface: its carrier.
 */
enum weft_reason lan_set_mac(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES]);
enum weft_reason lan_set_mtu(struct lan_port *port, uint32_t mtu);
enum weft_reason lan_set_link(struct lan_port *port, bool is_up);
enum weft_reason lan_set_filters(struct lan_port *port, const struct lan_filters *filters);

struct lan_way {
	uint64_t frames, bytes;
	uint64_t drops[WEFT_REASON_COUNT];
};

/* in: received here, out: sent here. */
struct lan_counts {
	struct lan_way in, out;
};

const struct lan_counts *lan_counts(struct lan_port *port);
