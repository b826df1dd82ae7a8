/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The syndrome of an AETH (IBA 9.7.5): an ACK with credits, an RNR NAK with the time to wait, or a
 * NAK with its cause. Also the other times that are encoded as exponents.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum iba_syndrome { IBA_SYNDROME_ACK, IBA_SYNDROME_RNR, IBA_SYNDROME_RESERVED, IBA_SYNDROME_NAK };

/* The low five bits of a NAK. Others are reserved. */
enum iba_nak {
	IBA_NAK_SEQUENCE = 0,
	IBA_NAK_INVALID = 1,
	IBA_NAK_ACCESS = 2,
	IBA_NAK_OPERATION = 3,
	IBA_NAK_INVALID_RD = 4,
	IBA_NAK_COUNT
};

enum {
	IBA_CREDITS_UNUSED = 31, /* the code of an ACK whose sender counts no credits */
	IBA_CODE_MASK = 0x1f
};

static inline enum iba_syndrome iba_syndrome(uint8_t syndrome)
{
	/* Bit 7 is reserved: a syndrome with this bit is unknown. */
	return syndrome < 0x80 ? (enum iba_syndrome)(syndrome >> 5) : IBA_SYNDROME_RESERVED;
}

static inline uint8_t iba_syndrome_ack(uint8_t credit_code)
{
	return credit_code & IBA_CODE_MASK;
}

static inline uint8_t iba_syndrome_rnr(uint8_t timer_code)
{
	return (uint8_t)(0x20 | (timer_code & IBA_CODE_MASK));
}

static inline uint8_t iba_syndrome_nak(enum iba_nak nak)
{
	return (uint8_t)(0x60 | (unsigned int)nak);
}

/* The number of receives for a credit code; UINT32_MAX for IBA_CREDITS_UNUSED. */
uint32_t iba_credits(uint8_t code);

/* The code of the largest encodable number of receives that is at most this. */
uint8_t iba_credit_code(uint32_t credits);

/* The time to wait of an RNR NAK. */
uint64_t iba_rnr_ns(uint8_t code);

/* IBA 9.7.6.1.3 and chapter 12: 4.096 us * 2^code; code 0 to 31. */
static inline uint64_t iba_timeout_ns(uint8_t code)
{
	return UINT64_C(4096) << (code & IBA_CODE_MASK);
}

/* For people, e.g. "NAK remote access error"; never NULL. */
const char *iba_syndrome_name(uint8_t syndrome);
