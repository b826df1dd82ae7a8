/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The advertisement (RKEY-12): the ordinary message by which memory is offered to a peer.
 * Big-endian, 32 bytes:
 *
 *	offset  0  magic   "WFAD"
 *	        4  version 1 (16 bits)
 *	        6  rights  enum weft_right, remote rights only (16 bits)
 *	        8  tag     (32 bits)
 *	       12  zero    (32 bits)
 *	       16  addr    (64 bits)
 *	       24  length  (64 bits), addr + length does not wrap
 *
 * The coder and decoder are weft_advert_encode() and weft_advert_decode() of <weft/advert.h>.
 */
#pragma once

#include <weft/weft.h>

enum {
	ADVERT_MAGIC = 0x57464144,
	ADVERT_VERSION = 1,
	ADVERT_RIGHTS = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC
};
