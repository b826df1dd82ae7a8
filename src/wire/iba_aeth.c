/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iba_aeth.h"

#include <stddef.h>

/* Codes go up by a half and by a third in turns. The last stands for no count. */
static const uint16_t credits_of[IBA_CREDITS_UNUSED] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	 24,   32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	 1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768
};

/* In units of 10 us. Code 0 is the longest. */
static const uint32_t rnr_of[32] = { 65536, 1,	  2,	3,     4,     6,     8,	    12,
				     16,    24,	  32,	48,    64,    96,    128,   192,
				     256,   384,  512,	768,   1024,  1536,  2048,  3072,
				     4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

uint32_t iba_credits(uint8_t code)
{
	code &= IBA_CODE_MASK;
	return code == IBA_CREDITS_UNUSED ? UINT32_MAX : credits_of[code];
}

/*
 * The greatest that is not too many. Every acknowledgement has one, so it is not searched: from 2
 * on there is a code for each power of two, and one for half as much again.
 */
uint8_t iba_credit_code(uint32_t credits)
{
	uint32_t power, most = credits_of[IBA_CREDITS_UNUSED - 1];

	if (credits < 2)
		return (uint8_t)credits;
	credits = credits < most ? credits : most;
	power = 31 - (uint32_t)__builtin_clz(credits);
	return (uint8_t)(2 * power + (credits >> (power - 1) & 1));
}

uint64_t iba_rnr_ns(uint8_t code)
{
	return (uint64_t)rnr_of[code & IBA_CODE_MASK] * 10000;
}

const char *iba_syndrome_name(uint8_t syndrome)
{
	static const char *const naks[IBA_NAK_COUNT] = {
		[IBA_NAK_SEQUENCE] = "NAK PSN sequence error",
		[IBA_NAK_INVALID] = "NAK invalid request",
		[IBA_NAK_ACCESS] = "NAK remote access error",
		[IBA_NAK_OPERATION] = "NAK remote operational error",
		[IBA_NAK_INVALID_RD] = "NAK invalid RD request",
	};

	switch (iba_syndrome(syndrome)) {
	case IBA_SYNDROME_ACK:
		return "ACK";
	case IBA_SYNDROME_RNR:
		return "RNR NAK";
	case IBA_SYNDROME_NAK:
		if ((syndrome & IBA_CODE_MASK) < IBA_NAK_COUNT)
			return naks[syndrome & IBA_CODE_MASK];
		break;
	case IBA_SYNDROME_RESERVED:
		break;
	}
	return "reserved syndrome";
}
