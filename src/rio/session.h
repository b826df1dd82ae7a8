/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between two peers after the greeting (rio/greet.h). Each carries the next sequence
 * number of its direction and a seal (a MAC) that only the two peers can compute, so forged,
 * altered, replayed, dropped and reordered messages are refused. Tokens are encrypted in transit.
 */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"

struct rio_session {
	uint8_t send_key[RIO_KEY_BYTES], receive_key[RIO_KEY_BYTES];
	uint64_t sent, received; /* last sequence numbers; the greeting's messages count */
};

/* Seals private data: keyed BLAKE2b, RIO_SEAL_BYTES long. Messages use SipHash instead. */
void rio_seal(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
	      uint8_t seal[RIO_SEAL_BYTES]);
bool rio_seal_is_true(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
		      const uint8_t seal[RIO_SEAL_BYTES]);

/*
 * The session of a data connection. Only the I/O unit sends on it: how requests ended. token and
 * nonce are those of the connection request.
 */
void rio_session_of_data(struct rio_session *s, const uint8_t token[RIO_TOKEN_BYTES],
			 const uint8_t nonce[RIO_NONCE_BYTES]);

/*
 * Encodes, numbers and seals a message; m need not have a sequence number or seal. Returns its
 * length; 0: it does not fit, and nothing changed.
 */
size_t rio_session_close(struct rio_session *s, const struct rio_msg *m, uint8_t *bytes,
			 size_t room);

/*
 * The same for messages of another protocol that begins with this greeting: whatever they are, a
 * tail follows them, with the sequence number and the seal.
 */
enum { RIO_TAIL_BYTES = 8 + RIO_SEAL_BYTES };

/* Writes the tail of a message of so many bytes; there is room for it. Returns the whole length. */
size_t rio_session_tail(struct rio_session *s, uint8_t *bytes, size_t length);

/* Verifies the next message; *body: its length without the tail. After a refusal as below. */
enum weft_reason rio_session_tailed(struct rio_session *s, const uint8_t *bytes, size_t length,
				    size_t *body);

/*
 * The same on a connection that may lose, repeat and reorder: any message later than the last one
 * taken. A refusal leaves the session as it was. WEFT_R_RIO_SEQUENCE: it is not later.
 */
enum weft_reason rio_session_tailed_later(struct rio_session *s, const uint8_t *bytes,
					  size_t length, size_t *body);

/* Verifies and decodes the next message. After a refusal the session must not be used again. */
enum weft_reason rio_session_open(struct rio_session *s, const uint8_t *bytes, size_t length,
				  struct rio_msg *m);
