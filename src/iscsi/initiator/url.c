/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/initiator/url.h"

#include <string.h>

enum { PORT_MAX = 65535 };

static const char form[] = "a URL is iscsi://[USER[%PASSWORD]@]HOST[:PORT]/TARGET/LUN";
static const char bad_digest[] = "a digest is crc32c or none";

struct reader {
	struct iscsi_url *url;
	struct iscsi_url_complaint *complaint;
	const char *text;
};

static bool complain(struct reader *r, const char *at, const char *why)
{
	r->complaint->at = (uint32_t)(at - r->text);
	r->complaint->why = why;
	return false;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static const char *find(struct word w, char c)
{
	return w.length > 0 ? memchr(w.at, c, w.length) : NULL;
}

static struct word before(struct word w, const char *at)
{
	return (struct word){ w.at, (uint32_t)(at - w.at) };
}

/* What follows the character at. */
static struct word behind(struct word w, const char *at)
{
	return (struct word){ at + 1, w.length - (uint32_t)(at - w.at) - 1 };
}

/* Splits at the first of the character, if there is one: *rest is what follows it. */
static bool split(struct word *w, char c, struct word *rest)
{
	const char *at = find(*w, c);

	if (!at)
		return false;
	*rest = behind(*w, at);
	*w = before(*w, at);
	return true;
}

static bool take_text(struct reader *r, struct word w, char *to, uint32_t max, const char *why)
{
	if (w.length == 0 || w.length > max)
		return complain(r, w.at, why);
	memcpy(to, w.at, w.length);
	to[w.length] = '\0';
	return true;
}

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* A name in which %XX stands for a byte. */
static bool take_name(struct reader *r, struct word w, struct iscsi_name *name)
{
	static const char why[] = "this is no iSCSI name: iqn.YYYY-MM.DOMAIN[:TEXT], eui. or naa.";
	char text[ISCSI_NAME_MAX];
	uint32_t length = 0;

	for (uint32_t i = 0; i < w.length; i++) {
		char c = w.at[i];

		if (c == '%') {
			int high = i + 2 < w.length ? hex_of(w.at[i + 1]) : -1;
			int low = i + 2 < w.length ? hex_of(w.at[i + 2]) : -1;

			if (high < 0 || low < 0)
				return complain(r, w.at + i, "after % come two hexadecimal digits");
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (length == sizeof(text))
			return complain(r, w.at, why);
		text[length++] = c;
	}
	if (iscsi_name_normalise((struct word){ text, length }, name) != WEFT_OK)
		return complain(r, w.at, why);
	return true;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static bool take_account(struct reader *r, struct word w)
{
	struct word password = { NULL, 0 };
	bool has_password = split(&w, '%', &password) || split(&w, ':', &password);

	return take_text(r, w, r->url->user, CHAP_NAME_MAX, "a user has 1 to 255 characters") &&
	       (!has_password || take_text(r, password, r->url->password, CHAP_SECRET_MAX,
					   "a password has 1 to 255 characters"));
}

static bool take_portal(struct reader *r, struct word w)
{
	static const char why[] = "a host is a name, an IPv4 address, or an IPv6 address in []";
	struct word port = { NULL, 0 };
	const char *from = w.at;
	bool has_port;
	uint64_t number;

	if (w.length > 0 && *w.at == '[') {
		const char *end = find(w, ']');
		struct word rest;

		if (!end)
			return complain(r, from, why);
		rest = behind(w, end);
		w = behind(before(w, end), from);
		has_port = rest.length > 0;
		if (has_port && *rest.at != ':')
			return complain(r, rest.at, why);
		if (has_port)
			port = behind(rest, rest.at);
	} else {
		has_port = split(&w, ':', &port);
	}
	if (has_port && (!quantity_number(port, &number) || number == 0 || number > PORT_MAX))
		return complain(r, port.at, "a port is a number from 1 to 65535");
	r->url->port = has_port ? (uint16_t)number : ISCSI_URL_PORT;
	return take_text(r, w, r->url->host, ISCSI_URL_HOST_MAX, why);
}

static bool take_unit(struct reader *r, struct word w)
{
	struct word lun;
	uint64_t number;

	if (!split(&w, '/', &lun))
		return complain(r, w.at, form);
	if (!quantity_number(lun, &number) || number > ISCSI_URL_LUN_MAX)
		return complain(r, lun.at, "a LUN is a number from 0 to 16383");
	r->url->lun = (uint16_t)number;
	return take_name(r, w, &r->url->target);
}

static bool take_digest(struct reader *r, struct word w, enum iscsi_url_digest *digest)
{
	if (word_is(w, "crc32c"))
		*digest = ISCSI_URL_CRC32C;
	else if (word_is(w, "none"))
		*digest = ISCSI_URL_NO_DIGEST;
	else
		return complain(r, w.at, bad_digest);
	return true;
}

static bool take_wire(struct reader *r, struct word w)
{
	if (word_is(w, "roce"))
		r->url->wire = ISCSI_URL_ROCE;
	else if (word_is(w, "iwarp"))
		r->url->wire = ISCSI_URL_IWARP;
	else
		return complain(r, w.at, "the wires of iSER are roce and iwarp");
	return true;
}

static bool take_option(struct reader *r, struct word w)
{
	struct iscsi_url *u = r->url;
	struct word value;

	if (word_is(w, "iser")) {
		u->is_iser = true;
		return true;
	}
	value = (struct word){ w.at + w.length, 0 };
	(void)split(&w, '=', &value);
	if (word_is(w, "header_digest"))
		return take_digest(r, value, &u->header_digest);
	if (word_is(w, "data_digest"))
		return take_digest(r, value, &u->data_digest);
	if (word_is(w, "target_user"))
		return take_text(r, value, u->target_user, CHAP_NAME_MAX,
				 "target_user has 1 to 255 characters");
	if (word_is(w, "target_password"))
		return take_text(r, value, u->target_password, CHAP_SECRET_MAX,
				 "target_password has 1 to 255 characters");
	if (word_is(w, "wire"))
		return take_wire(r, value);
	if (word_is(w, "initiator"))
		return take_name(r, value, &u->initiator);
	if (word_is(w, "secrets"))
		return take_text(r, value, u->secrets, ISCSI_URL_PATH_MAX,
				 "secrets names a file, with 1 to 1023 characters");
	return complain(r, w.at,
			"the options are target_user, target_password, header_digest, data_digest, "
			"initiator, secrets, iser and wire");
}

/* Bound: the text, of which each turn takes at least a character. */
static bool take_options(struct reader *r, struct word w)
{
	struct word rest = { NULL, 0 };
	bool is_more = w.length > 0;

	while (is_more) {
		is_more = split(&w, '&', &rest);
		if (!take_option(r, w))
			return false;
		w = rest;
	}
	return true;
}

static bool take_all(struct reader *r, struct word w)
{
	struct word options = { NULL, 0 }, rest;

	if (split(&w, '?', &options) && !take_options(r, options))
		return false;
	rest = w;
	if (split(&w, '@', &rest)) {
		if (!take_account(r, w))
			return false;
		w = rest;
	}
	if (split(&w, '/', &rest) && rest.length > 0 && !take_unit(r, rest))
		return false;
	return take_portal(r, w);
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool iscsi_url_is(const char *text)
{
	return has_prefix(text, "iscsi://") || has_prefix(text, "iser://");
}

bool iscsi_url_parse(const char *text, struct iscsi_url *url, struct iscsi_url_complaint *complaint)
{
	struct reader r = { .url = url, .complaint = complaint, .text = text };
	size_t length = strlen(text);
	const char *from;

	*complaint = (struct iscsi_url_complaint){ 0 };
	*url = (struct iscsi_url){ 0 };
	if (!iscsi_url_is(text))
		return complain(&r, text, form);
	if (length > ISCSI_URL_TEXT_MAX)
		return complain(&r, text, "a URL has at most 4095 characters");
	url->is_iser = has_prefix(text, "iser://");
	from = text + strlen(url->is_iser ? "iser://" : "iscsi://");
	if (take_all(&r, (struct word){ from, (uint32_t)(length - (size_t)(from - text)) }))
		return true;
	*url = (struct iscsi_url){ 0 };
	return false;
}
