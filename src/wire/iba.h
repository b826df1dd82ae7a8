/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of the InfiniBand transport as RoCEv2 carries them in UDP (docs/wire/roce.md): the base
 * transport header (BTH), the extended headers that its opcode announces, payload, padding, and
 * the ICRC. One table describes each opcode and the headers that follow the BTH.
 *
 * Not here: the ICRC (wire/iba_icrc.h), syndromes (wire/iba_aeth.h), sequence numbers
 * (wire/iba_psn.h), and all checks that need a queue pair.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

enum {
	IBA_UDP_PORT = 4791,
	IBA_BTH_BYTES = 12,
	IBA_HEADERS_MAX = 52, /* an RD atomic request is the longest */
	IBA_MTU_MIN = 256,
	IBA_PAYLOAD_MAX = 4096,
	IBA_PAD_MAX = 3,
	IBA_ICRC_BYTES = 4,
	IBA_TRAILER_MAX = IBA_PAD_MAX + IBA_ICRC_BYTES,
	IBA_PACKET_MAX = IBA_HEADERS_MAX + IBA_PAYLOAD_MAX + IBA_ICRC_BYTES,
	IBA_ATOMIC_BYTES = 8,	   /* of an atomic operand, and the payload of an ATOMIC WRITE */
	IBA_NUMBER_MAX = 0xffffff, /* of a QP, EE context, SRQ; also of PSN and MSN */
	IBA_PKEY_DEFAULT = 0xffff,
	IBA_QPN_GSI = 1,
	IBA_QPN_MULTICAST = 0xffffff
};

#define IBA_QKEY_GSI UINT32_C(0x80010000)

/* The high three bits of an opcode. */
enum iba_service {
	IBA_RC = 0,
	IBA_UC = 1,
	IBA_RD = 2,
	IBA_UD = 3,
	IBA_CN = 4, /* congestion notification */
	IBA_XRC = 5
};

/* The low five bits. */
enum iba_op {
	IBA_SEND_FIRST = 0x00,
	IBA_SEND_MIDDLE = 0x01,
	IBA_SEND_LAST = 0x02,
	IBA_SEND_LAST_IMM = 0x03,
	IBA_SEND_ONLY = 0x04,
	IBA_SEND_ONLY_IMM = 0x05,
	IBA_WRITE_FIRST = 0x06,
	IBA_WRITE_MIDDLE = 0x07,
	IBA_WRITE_LAST = 0x08,
	IBA_WRITE_LAST_IMM = 0x09,
	IBA_WRITE_ONLY = 0x0a,
	IBA_WRITE_ONLY_IMM = 0x0b,
	IBA_READ_REQUEST = 0x0c,
	IBA_READ_RESPONSE_FIRST = 0x0d,
	IBA_READ_RESPONSE_MIDDLE = 0x0e,
	IBA_READ_RESPONSE_LAST = 0x0f,
	IBA_READ_RESPONSE_ONLY = 0x10,
	IBA_ACKNOWLEDGE = 0x11,
	IBA_ATOMIC_ACKNOWLEDGE = 0x12,
	IBA_COMPARE_SWAP = 0x13,
	IBA_FETCH_ADD = 0x14,
	IBA_RESYNC = 0x15,
	IBA_SEND_LAST_INV = 0x16,
	IBA_SEND_ONLY_INV = 0x17,
	IBA_FLUSH = 0x1c,
	IBA_ATOMIC_WRITE = 0x1d
};

/* Some whole opcodes. */
enum { IBA_UD_SEND = 0x64, IBA_UD_SEND_IMM = 0x65, IBA_CNP = 0x81 };

static inline uint8_t iba_opcode(enum iba_service service, enum iba_op op)
{
	return (uint8_t)((unsigned int)service << 5 | (unsigned int)op);
}

static inline enum iba_service iba_service(uint8_t opcode)
{
	return (enum iba_service)(opcode >> 5);
}

static inline enum iba_op iba_op(uint8_t opcode)
{
	return (enum iba_op)(opcode & 0x1f);
}

/* The operation that a packet belongs to. */
enum iba_kind {
	IBA_KIND_NONE, /* there is no such opcode */
	IBA_KIND_SEND,
	IBA_KIND_WRITE,
	IBA_KIND_READ,
	IBA_KIND_ATOMIC, /* compare and swap, fetch and add */
	IBA_KIND_RESYNC,
	IBA_KIND_FLUSH,
	IBA_KIND_ATOMIC_WRITE,
	IBA_KIND_READ_RESPONSE,
	IBA_KIND_ACK,
	IBA_KIND_ATOMIC_ACK,
	IBA_KIND_CNP
};

/* A middle packet is neither first nor last, an only one is both. */
enum iba_trait {
	IBA_FIRST = 1,
	IBA_LAST = 2,
	IBA_REQUEST = 4,  /* to a responder */
	IBA_RESPONSE = 8, /* to a requester; a CNP is neither */
	IBA_PAYLOAD = 16  /* it may carry some */
};

/* The extended headers, in the order in which they follow the BTH. */
enum iba_header {
	IBA_HAS_XRCETH = 0x001,
	IBA_HAS_RDETH = 0x002,
	IBA_HAS_DETH = 0x004,
	IBA_HAS_FETH = 0x008,
	IBA_HAS_RETH = 0x010,
	IBA_HAS_ATOMIC = 0x020,
	IBA_HAS_AETH = 0x040,
	IBA_HAS_ATOMIC_ACK = 0x080,
	IBA_HAS_IMM = 0x100,
	IBA_HAS_IETH = 0x200,
	IBA_HAS_CNP = 0x400 /* 16 reserved bytes */
};

struct iba_form {
	uint8_t kind;	      /* enum iba_kind */
	uint8_t traits;	      /* enum iba_trait */
	uint8_t header_bytes; /* the BTH included */
	uint16_t headers;     /* enum iba_header */
};

extern const struct iba_form iba_forms[256];

static inline const struct iba_form *iba_form(uint8_t opcode)
{
	return &iba_forms[opcode];
}

/* For people, e.g. "RC WRITE First"; never NULL. */
const char *iba_opcode_name(uint8_t opcode);

/*
 * One packet. Only fields of the extended headers that the opcode has are used; decoding sets the
 * others to 0. QP and other numbers, PSN and MSN have 24 bits.
 */
struct iba_packet {
	uint8_t opcode;
	uint8_t pad; /* bytes of padding after the payload, to a full word */
	bool is_solicited, is_migrated;
	bool is_ack_requested;
	bool has_fecn, has_becn;
	uint16_t p_key;
	uint16_t run; /* more packets, whose payload follows: see struct ib_in */
	uint32_t dest_qp;
	uint32_t psn;
	/* XRCETH, RDETH, DETH, FETH */
	uint32_t xrc_srq;
	uint32_t eec;
	uint32_t q_key, src_qp;
	uint8_t flush_type;  /* placement: 1 visible to all, 2 persistent */
	uint8_t flush_level; /* what is flushed: 0 the range, 1 the region */
	/* AETH */
	uint8_t syndrome;
	uint32_t msn;
	/* RETH; AtomicETH has the first two as well */
	uint64_t va;
	uint32_t r_key;
	uint32_t dma_bytes;
	/* AtomicETH, AtomicAckETH */
	uint64_t swap_add, compare;
	uint64_t original;
	/* ImmDt, IETH */
	uint32_t imm;
	uint32_t inv_r_key;
	/* Without the padding. Encoding ignores both. */
	const uint8_t *payload;
	uint32_t payload_bytes;
};

/*
 * Decodes a complete UDP payload, and checks version, opcode, headers, padding and length. The
 * ICRC, its last four bytes, is not checked. p->payload points into bytes. On error *p has not
 * changed.
 */
enum weft_reason iba_decode(struct iba_packet *p, const uint8_t *bytes, size_t length);

/*
 * Whether the payload has a legal length for this opcode and path MTU: full in first and middle
 * packets, of which a run has several, not empty in a last one.
 */
bool iba_fits_mtu(const struct iba_packet *p, uint32_t mtu_bytes);

/* Bytes of the packets that a run of this length stands for, each with its headers. */
static inline size_t iba_run_bytes(uint8_t opcode, size_t length, uint16_t run)
{
	const struct iba_form *middle;

	if (run == 0)
		return length;
	middle = iba_form(iba_opcode(iba_service(opcode), IBA_SEND_MIDDLE));
	return length + run * (size_t)(middle->header_bytes + IBA_ICRC_BYTES);
}

/* The path MTU of the packets that a run stands for; 0: its length is that of no such packets. */
uint32_t iba_run_mtu(const struct iba_packet *p);

/* The opcode of the i-th of them. */
uint8_t iba_run_opcode(uint8_t opcode, uint32_t i, uint16_t run);

/* The destination QP of an undecoded packet; 0 if it is shorter than a BTH. */
static inline uint32_t iba_dest_qp(const uint8_t *bytes, size_t length)
{
	return length < IBA_BTH_BYTES ? 0 : (uint32_t)bytes[5] << 16 | bytes[6] << 8 | bytes[7];
}

/* The P_Key of an undecoded packet that has a BTH. */
static inline uint16_t iba_p_key(const uint8_t bytes[IBA_BTH_BYTES])
{
	return (uint16_t)(bytes[2] << 8 | bytes[3]);
}

/* The PSN of an undecoded packet that has a BTH. */
static inline uint32_t iba_psn(const uint8_t bytes[IBA_BTH_BYTES])
{
	return (uint32_t)bytes[9] << 16 | bytes[10] << 8 | bytes[11];
}

static inline void iba_psn_put(uint8_t bytes[IBA_BTH_BYTES], uint32_t psn)
{
	bytes[9] = (uint8_t)(psn >> 16);
	bytes[10] = (uint8_t)(psn >> 8);
	bytes[11] = (uint8_t)psn;
}

/* Whether it is a reliable datagram, long enough to contain the number of its context. */
static inline bool iba_is_rd(const uint8_t *bytes, size_t length)
{
	return length >= IBA_BTH_BYTES + 4 && iba_service(bytes[0]) == IBA_RD;
}

/* The destination: the end-to-end context of a reliable datagram, else the queue pair. */
static inline uint32_t iba_dest_number(const uint8_t *bytes, size_t length)
{
	const uint8_t *rdeth = bytes + IBA_BTH_BYTES;

	if (!iba_is_rd(bytes, length))
		return iba_dest_qp(bytes, length);
	return (uint32_t)rdeth[1] << 16 | rdeth[2] << 8 | rdeth[3];
}

/* Whether it is the last packet of a message of several packets. */
static inline bool iba_is_end(const uint8_t *bytes, size_t length)
{
	return length >= IBA_BTH_BYTES &&
	       (iba_form(bytes[0])->traits & (IBA_FIRST | IBA_LAST)) == IBA_LAST;
}

static inline bool iba_is_ack(const uint8_t *bytes, size_t length)
{
	return length >= IBA_BTH_BYTES && iba_form(bytes[0])->kind == IBA_KIND_ACK;
}

/* Whether it is neither the first nor the last packet of a request. */
static inline bool iba_is_middle(const uint8_t *bytes, size_t length)
{
	return length >= IBA_BTH_BYTES &&
	       (iba_form(bytes[0])->traits & (IBA_REQUEST | IBA_FIRST | IBA_LAST)) == IBA_REQUEST;
}

/* Whether it is a request, neither a response nor a CNP. */
static inline bool iba_is_request(const uint8_t *bytes, size_t length)
{
	return length >= IBA_BTH_BYTES && (iba_form(bytes[0])->traits & IBA_REQUEST);
}

/* Encodes only the headers. Returns their length, iba_form()->header_bytes. */
uint32_t iba_encode(const struct iba_packet *p, uint8_t bytes[IBA_HEADERS_MAX]);

/* The padding that a payload of this length needs. */
static inline uint8_t iba_pad(uint32_t payload_bytes)
{
	return (uint8_t)(-payload_bytes & 3);
}

/* The length of the UDP payload of such a packet. */
static inline uint32_t iba_packet_bytes(uint8_t opcode, uint32_t payload_bytes)
{
	return iba_form(opcode)->header_bytes + payload_bytes + iba_pad(payload_bytes) +
	       IBA_ICRC_BYTES;
}

/* The MTU of a code 1 to 5: 256 to 4096 bytes. 0: no such code. */
static inline uint32_t iba_mtu_bytes(uint8_t code)
{
	return code >= 1 && code <= 5 ? 128u << code : 0;
}

/* The code of the largest MTU that is at most this; 0: it is less than any. */
static inline uint8_t iba_mtu_code(uint32_t bytes)
{
	uint8_t code = 0;

	while (code < 5 && bytes >= iba_mtu_bytes((uint8_t)(code + 1)))
		code++;
	return code;
}

/* IBA 10.9.3: the same partition, and at least one full member. */
static inline bool iba_pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000);
}

/* A flow label for a connection without one; differs between connections. */
uint32_t iba_flow_label(uint32_t local_qp, uint32_t remote_qp);

/* The UDP source port for a flow label, so that a network can spread flows. */
uint16_t iba_udp_port(uint32_t flow_label);
