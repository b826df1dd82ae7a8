/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reason_rows.h"

#include <errno.h>

const struct reason_row reason_push_rows[REASON_LAN_FIRST - REASON_PUSH_FIRST] = {
	[WEFT_R_PUSH_SHORT -
	 REASON_PUSH_FIRST] = { "push_short", "PUSH-16", EBADMSG,
				"The bytes end inside a message of the split network card." },
	[WEFT_R_PUSH_FUNCTION -
		REASON_PUSH_FIRST] = { "push_function", "PUSH-18", EOPNOTSUPP,
				       "A message of the split network card has a function that is not known; nothing was done." },
	[WEFT_R_PUSH_VERSION -
		REASON_PUSH_FIRST] = { "push_version", "PUSH-18", EPROTONOSUPPORT,
				       "A message of the split network card has a version that is not known; nothing was done." },
	[WEFT_R_PUSH_LENGTH -
		REASON_PUSH_FIRST] = { "push_length", "PUSH-16", EBADMSG,
				       "A message of the split network card is not as long as its function and counts say, or is empty." },
	[WEFT_R_PUSH_FORM -
		REASON_PUSH_FIRST] = { "push_form", "PUSH-16", EPROTO,
				       "A field of a message of the split network card has a value that no sender writes." },
	[WEFT_R_PUSH_CELL -
		REASON_PUSH_FIRST] = { "push_cell", "PUSH-12", EBADMSG,
				       "A cell is not of the form that its header says, or is shorter than that." },
	[WEFT_R_PUSH_CELL_CRC -
		REASON_PUSH_FIRST] = { "push_cell_crc", "PUSH-12", EBADMSG,
				       "The CRC of a cell is wrong: it was damaged on its way." },
	[WEFT_R_PUSH_PACKET_CRC -
		REASON_PUSH_FIRST] = { "push_packet_crc", "PUSH-13", EBADMSG,
				       "The CRC over all cells of a packet is wrong; the packet is lost." },
	[WEFT_R_PUSH_CELL_LOST -
		REASON_PUSH_FIRST] = { "push_cell_lost", "PUSH-S6", EIO,
				       "A cell is not the next one of its packet; what came of the packet is lost, and nothing else." },
	[WEFT_R_PUSH_SINGLE_CELL -
		REASON_PUSH_FIRST] = { "push_single_cell", "UD-03", EMSGSIZE,
				       "A packet on a connectionless channel must fit into one cell." },
	[WEFT_R_PUSH_UNEXPECTED -
		REASON_PUSH_FIRST] = { "push_unexpected", "PUSH-09", EPROTO,
				       "The other end of a split network card sent what its role, or the state of the link, does not allow." },
	[WEFT_R_PUSH_MODE -
		REASON_PUSH_FIRST] = { "push_mode", "PUSH-07", EPROTONOSUPPORT,
				       "The ends of a split network card are not a host and a unit of one mode, or the mode has no pools." },
	[WEFT_R_PUSH_STATE -
		REASON_PUSH_FIRST] = { "push_state", "PUSH-03", ENOTCONN,
				       "The link of the split network card is not open." },
	[WEFT_R_PUSH_POOL -
		REASON_PUSH_FIRST] = { "push_pool", "PUSH-16c", ENOENT,
				       "There is no such pool, or it is being flushed." },
	[WEFT_R_PUSH_POOL_TWICE -
		REASON_PUSH_FIRST] = { "push_pool_twice", "PUSH-16a", EEXIST,
				       "A pool was advertised under an index that is in use." },
	[WEFT_R_PUSH_POOLS -
		REASON_PUSH_FIRST] = { "push_pools", "PUSH-16a", ENOSPC,
				       "More pools or elements were advertised than the other end keeps in mind." },
	[WEFT_R_PUSH_ELEMENT -
		REASON_PUSH_FIRST] = { "push_element", "PUSH-14", ERANGE,
				       "The element's index lies outside the pool." },
	[WEFT_R_PUSH_NOT_FREE -
		REASON_PUSH_FIRST] = { "push_not_free", "PUSH-24", EBUSY,
				       "The element is not the initiator's to write: the target has not returned it." },
	[WEFT_R_PUSH_NOT_USED -
		REASON_PUSH_FIRST] = { "push_not_used", "PUSH-24", EPROTO,
				       "The target returned an element that the initiator had not used." },
	[WEFT_R_PUSH_SIZE -
		REASON_PUSH_FIRST] = { "push_size", "PUSH-20", EPROTO,
				       "The element size of an indication is not that of the pool." },
	[WEFT_R_PUSH_RANGE -
		REASON_PUSH_FIRST] = { "push_range", "PUSH-14", ERANGE,
				       "A write names a handle that is no pool's, or memory outside one element." },
	[WEFT_R_PUSH_IMMEDIATE -
		REASON_PUSH_FIRST] = { "push_immediate", "PUSH-21", EPROTO,
				       "The immediate form cannot name these pools: they are more than 256, or the pool has more than 256 elements, or elements above 64 KiB." },
	[WEFT_R_PUSH_FRAME -
		REASON_PUSH_FIRST] = { "push_frame", "PUSH-16f", EMSGSIZE,
				       "A packet is shorter than an Ethernet header or longer than agreed on." },
	[WEFT_R_PUSH_CROWDED -
		REASON_PUSH_FIRST] = { "push_crowded", "PUSH-24", EAGAIN,
				       "As many packets wait as may: the other end returns no elements." },
	[WEFT_R_PUSH_REPLY -
		REASON_PUSH_FIRST] = { "push_reply", "PUSH-16h", EPROTO,
				       "A reply came to no request, or of another kind than its request." },
	[WEFT_R_PUSH_SILENT -
		REASON_PUSH_FIRST] = { "push_silent", "PUSH-16h", ETIMEDOUT,
				       "The other end of a split network card did not answer in time." },
	[WEFT_R_PUSH_FLUSHED - REASON_PUSH_FIRST] = { "push_flushed", "PUSH-17", ECANCELED,
						      "The packet was not sent: the link ends." },
	[WEFT_R_PUSH_REFUSALS -
		REASON_PUSH_FIRST] = { "push_refusals", "PUSH-14", EPROTO,
				       "The other end of a split network card was refused too often." },
	[WEFT_R_PUSH_OFFER -
		REASON_PUSH_FIRST] = { "push_offer", "PUSH-09", EOPNOTSUPP,
				       "The unit does not offer this: features, queues, MTU or an address." },
	[WEFT_R_PUSH_ENDED -
		REASON_PUSH_FIRST] = { "push_ended", "PUSH-17", ESHUTDOWN,
				       "The other end of a split network card has ended the link." },
	[WEFT_R_PUSH_FOREIGN -
		REASON_PUSH_FIRST] = { "push_foreign", "PUSH-05", EACCES,
				       "A host sent a frame from an address that is not its own." },
};
