/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between two sides that have greeted each other (rio/greet.h): each carries the next
 * number of its direction and a seal that only the two can make. What was forged, altered,
 * repeated, left out or put in another order does not open. Tokens are hidden on their way.
 */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"

struct rio_session {
	uint8_t send_key[RIO_KEY_BYTES], receive_key[RIO_KEY_BYTES];
	uint64_t sent, received; /* numbers of the last ones; the greeting's count */
};

/* Of private data: keyed BLAKE2b, as long as a seal. Messages have seals of another kind. */
void rio_seal(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
	      uint8_t seal[RIO_SEAL_BYTES]);
bool rio_seal_is_true(const uint8_t key[RIO_KEY_BYTES], const uint8_t *bytes, size_t length,
		      const uint8_t seal[RIO_SEAL_BYTES]);

/*
 * The session of a data connection, on which only the I/O unit says something: how requests ended.
 * Token and nonce are those that the connection was asked for with.
 */
void rio_session_of_data(struct rio_session *s, const uint8_t token[RIO_TOKEN_BYTES],
			 const uint8_t nonce[RIO_NONCE_BYTES]);

/*
 * Writes a message, which need not have its sequence and seal yet. Returns its length; 0, and
 * nothing has changed: it does not fit.
 */
size_t rio_session_close(struct rio_session *s, const struct rio_msg *m, uint8_t *bytes,
			 size_t room);

/* Reads the next message. After a refusal the session is over: the two no longer agree. */
enum weft_reason rio_session_open(struct rio_session *s, const uint8_t *bytes, size_t length,
				  struct rio_msg *m);
