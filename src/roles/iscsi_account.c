/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who the initiator is, and its secrets: of the URL first, then of the options and their file, then
 * of the environment. Each of the two accounts comes whole from one place.
 */
#include <ctype.h>
#include <sodium/utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "roles/config_file.h"
#include "roles/iscsi_session_inside.h"

#define NAME_PREFIX "iqn.2026-11.local.weft:"

/* ---- The file ------------------------------------------------------------------------------- */

static bool take_word(struct config_reader *r, char *to, size_t room)
{
	size_t length = strlen(r->words[1]);

	if (length >= room)
		return config_complain(r, r->words[1], "a name or a secret has at most 255 bytes");
	memcpy(to, r->words[1], length + 1);
	return true;
}

static bool read_user(struct config_reader *r)
{
	struct session_account *a = r->of;

	return take_word(r, a->user, sizeof(a->user));
}

static bool read_password(struct config_reader *r)
{
	struct session_account *a = r->of;

	return take_word(r, a->password, sizeof(a->password));
}

static bool read_target_user(struct config_reader *r)
{
	struct session_account *a = r->of;

	return take_word(r, a->target_user, sizeof(a->target_user));
}

static bool read_target_password(struct config_reader *r)
{
	struct session_account *a = r->of;

	return take_word(r, a->target_password, sizeof(a->target_password));
}

static const struct config_keyword keywords[] = {
	{ "user", 0, 2, 2, true, false, read_user, "a line is: user NAME" },
	{ "password", 0, 2, 2, true, false, read_password, "a line is: password SECRET" },
	{ "target_user", 0, 2, 2, true, false, read_target_user, "a line is: target_user NAME" },
	{ "target_password", 0, 2, 2, true, false, read_target_password,
	  "a line is: target_password SECRET" },
};

static enum weft_reason read_file(struct weft_iscsi_session *s, const char *path,
				  struct session_account *a)
{
	struct config_complaint complaint = { 0 };
	struct config_reader r = {
		.of = a,
		.keywords = keywords,
		.keyword_count = sizeof(keywords) / sizeof(keywords[0]),
		.complaint = &complaint,
	};
	char why[CONFIG_FILE_WHY];
	size_t length;
	char *text;
	bool is_read;

	if (!config_file_read_secret(path, &text, &length, why)) {
		session_why(s, "%s", why);
		return WEFT_R_ISCSI_SECRETS;
	}
	is_read = length <= CONFIG_BYTES_MAX && config_lines_read(&r, text, length);
	if (!is_read)
		session_why(s, "%s:%u:%u: %s", path, complaint.line, complaint.column,
			    complaint.why ? complaint.why : "the file is too long");
	sodium_memzero(text, length);
	free(text);
	return is_read ? WEFT_OK : WEFT_R_ISCSI_SECRETS;
}

/* ---- Places --------------------------------------------------------------------------------- */

static bool copy(char *to, size_t room, const char *from)
{
	size_t length = from ? strlen(from) : 0;

	if (length >= room)
		return false;
	if (length > 0)
		memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

/* A pair that names a user is taken, unless an earlier place had one. */
static bool offer(struct session_account *a, const char *user, const char *password)
{
	return a->user[0] != '\0' || !user || !user[0] ||
	       (copy(a->user, sizeof(a->user), user) &&
		copy(a->password, sizeof(a->password), password));
}

static bool offer_target(struct session_account *a, const char *user, const char *password)
{
	return a->target_user[0] != '\0' || !user || !user[0] ||
	       (copy(a->target_user, sizeof(a->target_user), user) &&
		copy(a->target_password, sizeof(a->target_password), password));
}

static bool offer_both(struct session_account *a, const struct session_account *from)
{
	return offer(a, from->user, from->password) &&
	       offer_target(a, from->target_user, from->target_password);
}

static enum weft_reason offer_file(struct weft_iscsi_session *s, const char *path)
{
	struct session_account file = { 0 };
	enum weft_reason r;

	if (!path || !path[0])
		return WEFT_OK;
	r = read_file(s, path, &file);
	if (r == WEFT_OK)
		(void)offer_both(&s->account, &file);
	sodium_memzero(&file, sizeof(file));
	return r;
}

static enum weft_reason gather(struct weft_iscsi_session *s, const struct weft_iscsi_options *o)
{
	struct session_account *a = &s->account;
	bool is_good = offer(a, s->url.user, s->url.password) &&
		       offer_target(a, s->url.target_user, s->url.target_password);
	enum weft_reason r = is_good ? offer_file(s, s->url.secrets) : WEFT_R_BAD_ARGUMENT;

	if (r == WEFT_OK && (!offer(a, o->user, o->password) ||
			     !offer_target(a, o->target_user, o->target_password)))
		r = WEFT_R_BAD_ARGUMENT;
	if (r == WEFT_OK)
		r = offer_file(s, o->secrets_path);
	if (r == WEFT_OK && (!offer(a, secure_getenv("LIBISCSI_CHAP_USERNAME"),
				    secure_getenv("LIBISCSI_CHAP_PASSWORD")) ||
			     !offer_target(a, secure_getenv("LIBISCSI_CHAP_TARGET_USERNAME"),
					   secure_getenv("LIBISCSI_CHAP_TARGET_PASSWORD"))))
		r = WEFT_R_BAD_ARGUMENT;
	if (r == WEFT_R_BAD_ARGUMENT)
		session_why(s, "a name or a secret of CHAP has at most 255 bytes");
	return r;
}

/* ---- Names ---------------------------------------------------------------------------------- */

/* That of the host, in the characters of iSCSI names. */
static void default_name(char *name, size_t room)
{
	char host[HOST_NAME_MAX + 1] = "";
	size_t at = sizeof(NAME_PREFIX) - 1;

	memcpy(name, NAME_PREFIX, at);
	if (gethostname(host, sizeof(host)) < 0)
		host[0] = '\0';
	host[HOST_NAME_MAX] = '\0';
	for (const char *c = host[0] ? host : "host"; *c && at + 1 < room; c++) {
		bool is_plain = isascii((unsigned char)*c) &&
				(isalnum((unsigned char)*c) || *c == '.' || *c == '-');

		name[at++] = is_plain ? (char)tolower((unsigned char)*c) : '-';
	}
	name[at] = '\0';
}

static enum weft_reason take_name(struct weft_iscsi_session *s, const struct weft_iscsi_options *o)
{
	char name[WEFT_ISCSI_NAME_MAX + 1];

	s->initiator = s->url.initiator;
	if (s->initiator.length > 0)
		return WEFT_OK;
	if (o->initiator_name && o->initiator_name[0]) {
		struct word w = iscsi_word(o->initiator_name);
		enum weft_reason r = iscsi_name_normalise(w, &s->initiator);

		if (r != WEFT_OK)
			session_why(s, "the initiator's name is \"%.100s\"", o->initiator_name);
		return r;
	}
	default_name(name, sizeof(name));
	return iscsi_name_normalise(iscsi_word(name), &s->initiator);
}

enum weft_reason session_account_open(struct weft_iscsi_session *s,
				      const struct weft_iscsi_options *o)
{
	struct session_account *a = &s->account;
	enum weft_reason r = take_name(s, o);

	if (r == WEFT_OK)
		r = gather(s, o);
	if (r != WEFT_OK)
		return r;
	if (a->target_user[0] && !a->user[0]) {
		session_why(s, "a target proves itself only to an initiator that does: "
			       "a user and a password are missing");
		return WEFT_R_BAD_ARGUMENT;
	}
	if (!a->user[0])
		return WEFT_OK;
	s->peer = (struct chap_account){ iscsi_word(a->target_user),
					 iscsi_word(a->target_password) };
	s->chap = (struct chap_config){
		.self = { iscsi_word(a->user), iscsi_word(a->password) },
		.peers = &s->peer,
		.peer_count = a->target_user[0] ? 1 : 0,
	};
	s->config.chap = &s->chap;
	/* A target that asks for no proof may do without; one that must prove itself may not. */
	s->config.allows_none = !a->target_user[0];
	return WEFT_OK;
}

void session_account_wipe(struct weft_iscsi_session *s)
{
	sodium_memzero(&s->account, sizeof(s->account));
	sodium_memzero(&s->url, sizeof(s->url));
}
