/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text form of a frame port, such as "tap:card0,mtu=9000" or "socket:/run/net,listen"
 * (docs/card.md), taken apart. driver/lan/lan.h opens the port.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "lan/frame.h"

enum lan_kind { LAN_KIND_PACKET, LAN_KIND_SOCKET, LAN_KIND_TAP, LAN_KIND_VHOST_USER, LAN_KINDS };

enum {
	LAN_NAME_MAX = 108, /* with the 0: a path of a unix socket */
	LAN_INTERFACE_MAX = 16,
	LAN_QUEUES_MAX = 16,
};

struct lan_plan {
	enum lan_kind kind;
	char name[LAN_NAME_MAX]; /* of the interface; a path or an address */
	bool is_path;		 /* of a socket; else HOST:PORT */
	bool is_listening;
	uint32_t queues; /* tap: 0: not given, which is one */
	uint32_t fanout; /* packet: the group of queues, from 1; 0: none */
	bool has_mac;
	uint8_t mac[LAN_MAC_BYTES];
	uint32_t mtu; /* 0: not given */
};

/* False, and *why says why: the text is of no frame port. */
bool lan_plan_parse(const char *text, struct lan_plan *plan, const char **why);

/* An address of one station, as people write it: 02:00:00:00:00:01. */
bool lan_mac_parse(const char *text, uint32_t length, uint8_t mac[LAN_MAC_BYTES]);
