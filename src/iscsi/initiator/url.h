/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * URLs of logical units and portals, as libiscsi and qemu write them:
 *
 *	iscsi://[USER[%PASSWORD]@]HOST[:PORT][/TARGET/LUN][?OPTION[=VALUE][&OPTION[=VALUE]]...]
 *
 * and the same with iser://. A password may also follow a colon. HOST is a name, an IPv4 address or
 * an IPv6 address in brackets; TARGET is an iSCSI name in which %XX stands for a byte. The options
 * are target_user, target_password (mutual CHAP), header_digest, data_digest (crc32c, none), iser,
 * wire (of iSER: roce, iwarp), initiator (its iSCSI name) and secrets (a file with names and
 * passwords; who reads it is not here). An option that is none of these is refused: a digest or a
 * secret that is misspelt must not be left out in silence.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/quantity.h"
#include "iscsi/login/chap.h"
#include "iscsi/login/text.h"

enum {
	ISCSI_URL_TEXT_MAX = 4095,
	ISCSI_URL_HOST_MAX = 255,
	ISCSI_URL_PATH_MAX = 1023,
	ISCSI_URL_LUN_MAX = 16383, /* of the flat space of addresses (SAM-5 section 4.7.7.4) */
	ISCSI_URL_PORT = 3260,
};

/* What a URL says of a digest; the first: nothing. */
enum iscsi_url_digest { ISCSI_URL_ANY_DIGEST, ISCSI_URL_NO_DIGEST, ISCSI_URL_CRC32C };

/* Of iSER; the first: the one that the target has. */
enum iscsi_url_wire { ISCSI_URL_ANY_WIRE, ISCSI_URL_ROCE, ISCSI_URL_IWARP };

/* Texts end with a zero byte; an empty one was not said. */
struct iscsi_url {
	bool is_iser;
	char user[CHAP_NAME_MAX + 1], password[CHAP_SECRET_MAX + 1];
	char target_user[CHAP_NAME_MAX + 1], target_password[CHAP_SECRET_MAX + 1];
	char host[ISCSI_URL_HOST_MAX + 1]; /* without brackets */
	uint16_t port;
	struct iscsi_name target; /* of length 0: a portal's URL */
	uint16_t lun;
	enum iscsi_url_digest header_digest, data_digest;
	enum iscsi_url_wire wire;
	struct iscsi_name initiator; /* of length 0: not said */
	char secrets[ISCSI_URL_PATH_MAX + 1];
};

/* The first error in a text. */
struct iscsi_url_complaint {
	uint32_t at; /* position, from 0 */
	const char *why;
};

/* False: *complaint says why, and *url holds nothing. */
bool iscsi_url_parse(const char *text, struct iscsi_url *url,
		     struct iscsi_url_complaint *complaint);

/* Does the text begin as a URL of this kind does? */
bool iscsi_url_is(const char *text);
