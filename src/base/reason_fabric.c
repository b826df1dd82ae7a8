/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reason_rows.h"

#include <errno.h>

#define ROW(reason) [(reason)-REASON_FABRIC_FIRST]

const struct reason_row reason_fabric_rows[WEFT_REASON_COUNT - REASON_FABRIC_FIRST] = {
	ROW(WEFT_R_FRAME_SHORT) = { "frame_short", "FAB-02", EBADMSG,
				    "A frame of the fabric ends inside its headers or CRCs." },
	ROW(WEFT_R_FRAME_VERSION) = { "frame_version", "FAB-02", EPROTONOSUPPORT,
				      "A frame of the fabric has a link version that is not 0." },
	ROW(WEFT_R_FRAME_LENGTH) = { "frame_length", "FAB-02", EBADMSG,
				     "A frame of the fabric is not as long as its local route header "
				     "says, or longer than any can be." },
	ROW(WEFT_R_FRAME_VCRC) = { "frame_vcrc", "FAB-07", EBADMSG,
				   "The variant CRC of a frame is wrong: the last link damaged it." },
	ROW(WEFT_R_FRAME_ICRC) = { "frame_icrc", "FAB-07", EBADMSG,
				   "The invariant CRC of a frame is wrong: it was damaged between its "
				   "endnodes, in a node and not on a link." },
	ROW(WEFT_R_SMP_CLASS) = { "smp_class", "-", EPROTONOSUPPORT,
				  "A management datagram is of another class than subnet management." },
	ROW(WEFT_R_SMP_ROUTE) = { "smp_route", "-", EPROTO,
				  "A directed route has more than 63 hops, or is further than at its "
				  "end." },
	ROW(WEFT_R_MAD_VALUE) = { "mad_value", "-", EPROTO,
				  "A field of a management attribute has a value that is reserved." },
	ROW(WEFT_R_FLIT_CRC) = { "flit_crc", "FAB-05", EBADMSG,
				 "A flit was damaged on its link; the sender sends it again." },
	ROW(WEFT_R_FLIT_FORM) = { "flit_form", "FAB-04", EPROTO,
				  "A flit is not of the form that its header says: the other end of "
				  "the link is no port of a fabric." },
	ROW(WEFT_R_TOPOLOGY_LINE) = { "topology_line", "-", EINVAL,
				      "A line of a topology is none that ibnetdiscover writes "
				      "(docs/fabric.md)." },
	ROW(WEFT_R_TOPOLOGY_NODE) = { "topology_node", "FAB-22b", EINVAL,
				      "A topology has a node twice, or names one that it has not." },
	ROW(WEFT_R_TOPOLOGY_PORT) = { "topology_port", "FAB-09", EINVAL,
				      "A topology has a port beyond those of its node, or two cables "
				      "at one port: each end of a cable must name the other." },
	ROW(WEFT_R_TOPOLOGY_LIMIT) = { "topology_limit", "FAB-22d", E2BIG,
				       "A topology has more nodes than a subnet has LIDs, a node with "
				       "more than 254 ports (in a fabric that runs, 63), or a name of more "
				       "than 63 bytes; or there is none of its form and size." },
	ROW(WEFT_R_MAD_AGENT) = { "mad_agent", "-", EINVAL,
				  "A program of management has no such agent, or asks for one of a "
				  "class or version that there is not." },
	ROW(WEFT_R_MAD_METHOD_TAKEN) = { "mad_method_taken", "-", EADDRINUSE,
					 "Requests of this class and method go to another program at the "
					 "same port already: only one subnet manager runs at a port." },
	ROW(WEFT_R_MAD_TID) = { "mad_tid", "-", EINVAL,
				"A request with this transaction id is on its way already, so no answer "
				"could be told from the other's." },
	ROW(WEFT_R_MAD_BUSY) = { "mad_busy", "-", EAGAIN,
				 "Too many requests of this port have no answer yet." },
	ROW(WEFT_R_FABRIC_ABSENT) = { "fabric_absent", "-", ENOENT,
				      "No fabric of this name runs on this host, as this user: begin one "
				      "by weft fabric run FILE." },
	ROW(WEFT_R_FABRIC_NODE) = { "fabric_node", "-", ENODEV,
				    "The fabric has no endnode or switch of this name, no such port of it, or "
				    "two of the name: weft fabric show FILE lists them." },
	ROW(WEFT_R_FABRIC_ASK) = { "fabric_ask", "-", EPROTO,
				   "A message to the fabric's process is none that weft's programs "
				   "send: both must be of one version." },
	ROW(WEFT_R_FABRIC_TAKEN) = { "fabric_taken", "-", EADDRINUSE,
				     "A fabric of this name runs already on this host: give another one "
				     "its own by --name." },
	ROW(WEFT_R_FABRIC_SLOTS) = { "fabric_slots", "-", EUSERS,
				     "254 adapters are at this port of the fabric already, and more "
				     "cannot be told apart." },
	ROW(WEFT_R_NODE_STATE) = { "node_state", "-", ENETDOWN,
				   "A frame came to a port of the fabric that no subnet manager has made "
				   "active, or was to leave by one: run opensm." },
	ROW(WEFT_R_NODE_LENGTH) = { "node_length", "-", EMSGSIZE,
				    "A frame is longer than the MTU of a port that it passes." },
	ROW(WEFT_R_NODE_LANE) = { "node_lane", "FAB-10", EPROTO,
				  "A frame came by a lane that its port does not use." },
	ROW(WEFT_R_NODE_LID) = { "node_lid", "FAB-15", EHOSTUNREACH,
				 "A frame came to an endnode that has not its LID: a table of a switch "
				 "is wrong." },
	ROW(WEFT_R_NODE_P_KEY) = { "node_p_key", "FAB-22f", EACCES,
				   "The P_Key of a packet matches none of the port: its sender is in "
				   "another partition." },
	ROW(WEFT_R_NODE_Q_KEY) = { "node_q_key", "-", EACCES,
				   "A datagram of management has another Q_Key than QP 1." },
	ROW(WEFT_R_NODE_RAW) = { "node_raw", "RAW-01", EACCES,
				 "A port of a switch is set so that no raw packets pass it." },
	ROW(WEFT_R_NODE_M_KEY) = { "node_m_key", "-", EACCES,
				   "A datagram of subnet management has not the M_Key of the port." },
	ROW(WEFT_R_NODE_MANAGEMENT) = { "node_management", "-", EPROTO,
					"Lane 15 and QP 0 have datagrams of 256 bytes without a global "
					"header, and no other frames." },
	ROW(WEFT_R_NODE_ROUTE) = { "node_route", "-", EHOSTUNREACH,
				   "A datagram of subnet management goes by a port that the node has not, "
				   "further than to its end, or back without an answer in it." },
	ROW(WEFT_R_NODE_SM) = { "node_sm", "-", ENOENT,
				"A trap came to a port at which no subnet manager runs." },
	ROW(WEFT_R_FABRIC_CABLE) = { "fabric_cable", "-", ENOLINK,
				     "There is no cable at this port of the fabric, or none at its node: "
				     "weft fabric show FILE lists them." },
	ROW(WEFT_R_PATH_FABRIC) = { "path_fabric", "FAB-20", EOPNOTSUPP,
				    "Connections in a fabric have alternate paths, by LIDs; in an IP "
				    "network routers find another way." },
	ROW(WEFT_R_PATH_NONE) = { "path_none", "FAB-20", EINVAL,
				  "There is no alternate path to be armed for: load one first." },
	ROW(WEFT_R_PATH_STATE) = { "path_state", "FAB-20", EINVAL,
				   "A queue pair goes to REARM when its consumer says so, to ARMED when "
				   "its peer is ready, too, and only from there to MIGRATED." },
	ROW(WEFT_R_PATH_ALTERNATE) = { "path_alternate", "FAB-20", EHOSTUNREACH,
				       "The peer has migrated to a path that is not the alternate one of "
				       "this end: its packets are refused." },
	ROW(WEFT_R_PROFILE_PORT) = { "profile_port", "SYS-04", EINVAL,
				     "An adapter of this profile has fewer ports than the node: the "
				     "first that has a cable is beyond them." },
	ROW(WEFT_R_FABRIC_PART) = { "fabric_part", "-", EREMOTE,
				    "The node is in another part of the fabric, which another process "
				    "runs: ask there." },
	ROW(WEFT_R_TRUNK_FORM) = { "trunk_form", "-", EPROTO,
				   "What came from another part of the fabric is no message that a part "
				   "sends: both must be of one version." },
	ROW(WEFT_R_TRUNK_OTHER) = { "trunk_other", "-", EPROTO,
				    "The other part of the fabric has another topology, or other parts of "
				    "it: both must read the same files." },
	ROW(WEFT_R_TRUNK_CABLE) = { "trunk_cable", "-", EPROTO,
				    "Another part of the fabric speaks of a cable that does not join it to "
				    "this one." },
	ROW(WEFT_R_TRUNK_SILENT) = { "trunk_silent", "-", ETIMEDOUT,
				     "Another part of the fabric has said nothing for as long as alive in "
				     "the file of parts says: it is stopped, or its host is not "
				     "reachable." },
};
