/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reason_rows.h"

#include <errno.h>

#define ROW(reason) [(reason)-REASON_LAN_FIRST]

const struct reason_row reason_lan_rows[REASON_FABRIC_FIRST - REASON_LAN_FIRST] = {
	ROW(WEFT_R_LAN_TEXT) = { "lan_text", "-", EINVAL,
				 "A frame port is KIND:NAME[,OPTION...], with the options of its "
				 "kind (docs/card.md)." },
	ROW(WEFT_R_LAN_NONE) = { "lan_none", "-", ENODEV,
				 "There is no such network interface, or this host has none of "
				 "this kind." },
	ROW(WEFT_R_LAN_RIGHTS) = { "lan_rights", "-", EPERM,
				   "This user may not use the interface or socket so: a TAP "
				   "interface is made for a user with ip tuntap add NAME mode tap "
				   "user USER, packet needs CAP_NET_RAW." },
	ROW(WEFT_R_LAN_TAKEN) = { "lan_taken", "-", EBUSY,
				  "Another process has the interface or listens at the socket." },
	ROW(WEFT_R_LAN_UNSUPPORTED) = { "lan_unsupported", "-", EOPNOTSUPP,
					"This kind of frame port cannot set that." },
	ROW(WEFT_R_LAN_SHORT) = { "lan_short", "-", EBADMSG,
				  "An Ethernet frame has at least the 14 bytes of its header." },
	ROW(WEFT_R_LAN_LONG) = { "lan_long", "-", EMSGSIZE,
				 "A frame is longer than 65535 bytes, than the buffer for it, or "
				 "than the port can send." },
	ROW(WEFT_R_LAN_OFFLOAD) = { "lan_offload", "-", EPROTO,
				    "What a frame leaves to its receiver (checksum, segmentation) "
				    "contradicts the frame." },
	ROW(WEFT_R_LAN_DOWN) = { "lan_down", "-", ENETDOWN,
				 "The link of the frame port is down: the interface is, or no peer "
				 "is connected." },
	ROW(WEFT_R_LAN_FULL) = { "lan_full", "-", ENOBUFS,
				 "The receiver of a frame had no room for it." },
	ROW(WEFT_R_LAN_FRAMING) = { "lan_framing", "-", EPROTO,
				    "The peer of a socket announced a frame of a length that no "
				    "frame has; the connection ends, as no frame can be found in "
				    "it any more." },
	ROW(WEFT_R_LAN_ENDED) = { "lan_ended", "-", ECONNRESET,
				  "The peer of the frame port closed the connection." },
	ROW(WEFT_R_VHOST_MESSAGE) = { "vhost_message", "-", EPROTO,
				      "A message of vhost-user has an unknown or unwanted request, a "
				      "wrong size or a wrong number of descriptors." },
	ROW(WEFT_R_VHOST_MEMORY) = { "vhost_memory", "-", EFAULT,
				     "A region of a guest's memory overlaps another, wraps, is longer "
				     "than its file, is of no file of memory, or has been cut short; "
				     "or there are too many." },
	ROW(WEFT_R_VHOST_ADDRESS) = { "vhost_address", "-", EFAULT,
				      "A guest named an address outside of the memory that it shares, "
				      "or memory that is gone." },
	ROW(WEFT_R_VHOST_RING) = { "vhost_ring", "-", EPROTO,
				   "A ring of a guest has a size that is no power of 2 up to 32768, "
				   "does not exist, lies wrongly or counts more buffers than it has." },
	ROW(WEFT_R_VHOST_CHAIN) = { "vhost_chain", "-", EPROTO,
				    "A chain of descriptors of a guest has no end, an index beyond its "
				    "table, a wrong direction or too few bytes." },
};
