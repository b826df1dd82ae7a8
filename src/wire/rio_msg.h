/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control messages of directed remote I/O, and the private data of requests for its data
 * connections: docs/wire/rio.md. One message is one Send: a header of 24 bytes, a body and, except
 * in the three messages of the greeting, a seal. Decoding checks only the format; the receiver
 * checks permissions, order, seals, signatures and sequence numbers. Lists are carried as bytes
 * (wire/sgl.h, rio/list.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/platform.h"

enum {
	RIO_MSG_MAGIC = 0x5246, /* "RF" */
	RIO_MSG_VERSION = 2,
	RIO_DATA_VERSION = 1, /* of private data */
	RIO_MSG_HEADER_BYTES = 24,
	RIO_MSG_BYTES_MAX = 8192, /* the seal included */
	RIO_SEAL_BYTES = 16,
	RIO_KEY_BYTES = 32,
	RIO_TOKEN_BYTES = 32,
	RIO_SIGNATURE_BYTES = 64,
	RIO_IP_BYTES = 16,
	RIO_TEXT_MAX = 200,
	RIO_DEVICE_NAME_MAX = 64,
	RIO_NOTIFIED_ENTRY_BYTES = 16,
	RIO_BLOCK_BYTES_MIN = 512,
	RIO_BLOCK_BYTES_MAX = 65536,
	/* Room for a list in a message: less in a command, which also names the requester. */
	RIO_REQUEST_LIST_MAX = RIO_MSG_BYTES_MAX - RIO_MSG_HEADER_BYTES - 8 - RIO_SEAL_BYTES,
	RIO_COMMAND_LIST_MAX = RIO_REQUEST_LIST_MAX - PLATFORM_BYTES - 8,
	/* The signed part of a welcome, and of a prove: all but the signature. */
	RIO_WELCOME_SIGNED_BYTES = RIO_MSG_HEADER_BYTES + 100,
	RIO_PROVE_SIGNED_AT = RIO_MSG_HEADER_BYTES + RIO_SIGNATURE_BYTES,
	RIO_PROVE_SIGNED_BYTES = 24
};

enum rio_msg_err {
	RIO_MSG_OK = 0,
	RIO_MSG_ERR_SHORT,    /* truncated */
	RIO_MSG_ERR_MAGIC,    /* not such a message */
	RIO_MSG_ERR_VERSION,  /* not supported */
	RIO_MSG_ERR_TYPE,     /* unknown type of message, or kind of private data */
	RIO_MSG_ERR_LENGTH,   /* not the length in its header, or not that of its type */
	RIO_MSG_ERR_SEQUENCE, /* 0: sequence numbers and counters of private data begin with 1 */
	RIO_MSG_ERR_RESERVED, /* a reserved byte or the padding is not 0 */
	RIO_MSG_ERR_UNIT,     /* unit 0, which does not exist */
	RIO_MSG_ERR_ROLE,     /* there is no such role */
	RIO_MSG_ERR_ADDRESS,  /* neither IPv4 nor IPv6, or port 0 */
	RIO_MSG_ERR_LIST,     /* no list, or its length is not a multiple of 4 */
	RIO_MSG_ERR_TEXT,     /* too long, not UTF-8, or with control characters */
	RIO_MSG_ERR_DEVICE,   /* illegal block size, size or flags */
	RIO_MSG_ERR_ASK,      /* private data of a request has a reason */
	RIO_MSG_ERR_SEEN,     /* an entry of unknown kind, or neither present nor gone */
	RIO_MSG_ERR_COUNT
};

enum rio_msg_type {
	RIO_HELLO = 1,
	RIO_WELCOME,
	RIO_PROVE,
	RIO_REQUEST,
	RIO_COMMAND,
	RIO_STATUS,
	RIO_ANNOUNCE,
	RIO_GRANT,
	RIO_DEVICES,
	RIO_REVOKE,
	RIO_CANCEL,
	RIO_PING,
	RIO_PONG,
	RIO_BYE,
	RIO_NOTIFIED,
	RIO_INQUIRE,
	RIO_REPORT,
	RIO_MSG_TYPE_COUNT
};

enum rio_role {
	RIO_REQUESTER = 1,
	RIO_OWNER,
	RIO_IOUNIT,
	/* Of a split network card, which begins with the same greeting (docs/wire/push.md). */
	RIO_CARD_UNIT,
	RIO_CARD_HOST,
	/* A part of a fabric (docs/wire/fabric.md). */
	RIO_FABRIC_PART,
};

enum rio_device_flag {
	RIO_DEVICE_READ_ONLY = 1,
	RIO_DEVICE_FLUSH = 2,
	RIO_DEVICE_FUA = 4,
	RIO_DEVICE_DISCARD = 8,
	RIO_DEVICE_ZEROES = 16,
	RIO_DEVICE_FLAGS = 31
};

/* Where data connections are taken. An IPv4 address is the first four bytes of ip. */
struct rio_address {
	uint8_t family; /* 4 or 6; in a prove also 0: nowhere, and all else is 0 */
	uint16_t port;
	uint8_t ip[RIO_IP_BYTES];
};

/* Bytes in the decoded message, or to be encoded into one. */
struct rio_bytes {
	const uint8_t *bytes;
	size_t length;
};

/* Of two owners with one identity, the one with the higher term counts. */
struct rio_term {
	uint64_t number;
	uint64_t incarnation; /* random: tells two apart that have the same number */
};

struct rio_hello {
	struct platform platform;
	enum rio_role role;
	uint8_t ephemeral[RIO_KEY_BYTES], key[RIO_KEY_BYTES];
	struct rio_term term; /* an owner's; of others: the highest that they have seen */
};

struct rio_welcome {
	struct rio_hello hello;
	uint32_t requests_max; /* under way at a time */
	uint32_t list_max;     /* bytes of a list in a message */
	uint8_t signature[RIO_SIGNATURE_BYTES];
};

struct rio_prove {
	uint8_t signature[RIO_SIGNATURE_BYTES];
	struct rio_address address;
};

/* A request or, with who asked for it, a command. */
enum { RIO_COMMAND_URGENT = 1 };

struct rio_request {
	struct platform requester; /* commands only, as the next */
	uint64_t asked;		   /* the requester's id of the request */
	bool is_urgent;		   /* the requester is short of room: do not batch the notice */
	uint32_t timeout_ms;	   /* 0: as the receiver has it */
	struct rio_bytes list;
};

struct rio_status {
	uint32_t reason;      /* enum weft_reason, or one that a newer peer has; 0: well */
	uint32_t transaction; /* the one that failed, from 0 */
	uint64_t done_bytes;
	struct rio_bytes text; /* UTF-8 without control characters, at most RIO_TEXT_MAX */
};

/* Decoded from or to be put into `entries`, one after the other: rio_device_next/put. */
struct rio_devices {
	uint32_t count;
	struct rio_bytes entries;
};

struct rio_device {
	uint32_t number, block_bytes, flags;
	uint64_t size_bytes;
	uint64_t instance;     /* of its opening: equal only if nothing acknowledged can be lost */
	struct rio_bytes name; /* UTF-8, 1..RIO_DEVICE_NAME_MAX */
};

/* Commands that went well and of which the I/O unit has notified the requester itself. */
struct rio_notified {
	uint32_t count;
	struct rio_bytes entries;
};

struct rio_notified_entry {
	uint64_t id, done_bytes;
};

/* On the wire tokens are masked; rio/session.h does that. */
struct rio_announce {
	struct platform iounit;
	uint8_t token[RIO_TOKEN_BYTES];
	struct rio_devices devices;
};

struct rio_grant {
	struct platform requester;
	uint8_t token[RIO_TOKEN_BYTES];
	struct rio_address address;
};

/* How the cluster stands: some of the entries, from the one that was asked for on. */
struct rio_report {
	uint32_t total, count;	  /* entries in all; in this message */
	struct rio_bytes entries; /* rio_seen_next/put */
};

enum rio_seen_kind {
	RIO_SEEN_REQUESTER = RIO_REQUESTER,
	RIO_SEEN_OWNER = RIO_OWNER,
	RIO_SEEN_IOUNIT = RIO_IOUNIT,
	RIO_SEEN_DEVICE
};

/* What a requester had done, or an I/O unit did, since it came. */
struct rio_done {
	uint64_t requests, refused, failed;
	uint64_t read_bytes, written_bytes;
};

/* What an adapter carried, by its counters. */
struct rio_moved {
	uint64_t payload_in, payload_out;
	uint64_t control_in, control_out;
	uint64_t connections; /* for data, that were made */
};

/* An entry of a report. */
struct rio_seen {
	enum rio_seen_kind kind;
	bool is_here;
	struct platform platform; /* who it is; of a device: who has it */
	uint32_t now;		  /* requests under way; not of a device */
	struct rio_done done;	  /* of a requester, of an I/O unit */
	struct rio_moved moved;	  /* of an owner */
	struct rio_bytes name;	  /* not of a device; may be empty */
	struct rio_device device; /* of a device: by the owner's number */
};

struct rio_msg {
	enum rio_msg_type type;
	uint64_t sequence, id;
	union {
		struct rio_hello hello;
		struct rio_welcome welcome;
		struct rio_prove prove;
		struct rio_request request; /* RIO_REQUEST and RIO_COMMAND */
		struct rio_status status;
		struct rio_announce announce;
		struct rio_grant grant;
		struct rio_devices devices;
		struct platform revoked;
		struct rio_notified notified;
		uint32_t inquire_first; /* entry, from 0 */
		struct rio_report report;
		uint32_t bye_reason;
	};
	uint8_t seal[RIO_SEAL_BYTES]; /* not in the greeting */
};

/* One whole message: it must be of just these bytes. On error *m has not changed. */
enum rio_msg_err rio_msg_decode(struct rio_msg *m, const uint8_t *bytes, size_t length);

/*
 * Writes the message with the seal that is in it; it may be one that no decoder accepts. If it does
 * not fit, or would be longer than RIO_MSG_BYTES_MAX, is_short is set and nothing else changes.
 */
void rio_msg_encode(const struct rio_msg *m, struct wr *w);

/* Whether a message of this type has a seal. */
bool rio_msg_is_sealed(enum rio_msg_type type);

/*
 * The number n of bytes that the seal covers in an encoded message of this type and length: all
 * bytes before the seal. To send: encode, compute the seal over bytes[0..n), write it to bytes + n.
 * 0: the message has no seal, or no room for one.
 */
size_t rio_msg_sealed_bytes(enum rio_msg_type type, size_t length);

/* For messages to users; never NULL. */
const char *rio_msg_type_name(enum rio_msg_type type);

/* The next device of the entries. On error neither *d nor *r has changed. */
enum rio_msg_err rio_device_next(struct rio_device *d, struct rd *r);
void rio_device_put(const struct rio_device *d, struct wr *w);

/* The next entry of a RIO_NOTIFIED; decoding has checked all of them. */
struct rio_notified_entry rio_notified_next(struct rd *r);
void rio_notified_put(const struct rio_notified_entry *e, struct wr *w);

/* The same of a report. What does not fit is not put. */
enum rio_msg_err rio_seen_next(struct rio_seen *s, struct rd *r);
void rio_seen_put(const struct rio_seen *s, struct wr *w);

/* MPA private data of a data connection, 80 bytes: an I/O unit asks, a requester answers. */
enum { RIO_DATA_BYTES = 80, RIO_DATA_SEALED_BYTES = 64, RIO_NONCE_BYTES = 32 };

struct rio_data {
	bool is_answer;
	uint32_t reason; /* answers: why not; 0: well */
	struct platform from, to;
	uint64_t counter;
	uint8_t nonce[RIO_NONCE_BYTES];
	uint8_t seal[RIO_SEAL_BYTES]; /* covers the RIO_DATA_SEALED_BYTES before it */
};

/* length must be RIO_DATA_BYTES. On error *d has not changed. */
enum rio_msg_err rio_data_decode(struct rio_data *d, const uint8_t *bytes, size_t length);
void rio_data_encode(const struct rio_data *d, uint8_t bytes[RIO_DATA_BYTES]);
