/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/iscsi/iscsi_user.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cmd/iscsi/iscsi.h"
#include "cmd/reason_text.h"
#include "cmd/roles/cluster_view.h"
#include "iscsi/initiator/url.h"

/* ---- Options -------------------------------------------------------------------------------- */

/* 0: not again at all; the library's 0 is its default. */
static void retry_take(struct iscsi_user *u, bool has_retry)
{
	if (has_retry && u->options.retry_ns == 0)
		u->options.retry_ns = WEFT_ISCSI_NO_RETRY;
}

bool iscsi_user_init(struct iscsi_user *u, int argc, char **argv, const struct cmd_option *own,
		     int *status)
{
	bool has_retry = false;
	const struct cmd_option shared[] = {
		{ "initiator", .text = &u->options.initiator_name },
		{ "secrets", .text = &u->options.secrets_path },
		{ "timeout", .read = quantity_time, .to = &u->options.timeout_ns },
		{ "retry", .read = quantity_time, .to = &u->options.retry_ns,
		  .is_given = &has_retry },
		{ "json", .is_given = &u->is_json },
		{ "quiet", .is_given = &u->is_quiet },
		{ 0 },
	};
	struct cmd_option all[CMD_OPTIONS_MAX + 1];
	size_t count = 0;

	for (; own && own[count].name; count++)
		all[count] = own[count];
	CHECK(count + sizeof(shared) / sizeof(shared[0]) <= CMD_OPTIONS_MAX + 1);
	memcpy(&all[count], shared, sizeof(shared));
	*u = (struct iscsi_user){ 0 };
	if (!cmd_options_take(argc, argv, all, iscsi_help, status))
		return false;
	retry_take(u, has_retry);
	return true;
}

bool iscsi_user_words(int argc, char **argv, const char **words, int wanted)
{
	if (argc - optind != wanted)
		return false;
	for (int i = 0; i < wanted; i++)
		words[i] = argv[optind + i];
	return true;
}

/* ---- What is said --------------------------------------------------------------------------- */

const char *iscsi_user_plain(const char *url, char text[ISCSI_USER_URL])
{
	struct iscsi_url_complaint complaint;
	struct iscsi_url u;
	bool has_colons;
	int length;

	if (!iscsi_url_parse(url, &u, &complaint)) {
		snprintf(text, ISCSI_USER_URL, "the URL");
		return text;
	}
	has_colons = strchr(u.host, ':') != NULL;
	length = snprintf(text, ISCSI_USER_URL, "%s://%s%s%s:%u", u.is_iser ? "iser" : "iscsi",
			  has_colons ? "[" : "", u.host, has_colons ? "]" : "", u.port);
	if (u.target.length > 0)
		snprintf(text + length, ISCSI_USER_URL - (size_t)length, "/%s/%u", u.target.text,
			 u.lun);
	return text;
}

int iscsi_user_fail(const char *what, enum weft_reason reason, const char *more)
{
	char text[REASON_TEXT];

	if (more[0])
		fprintf(stderr, "weft iscsi: %s: %s (%s)\n", what, more, weft_reason_name(reason));
	else
		fprintf(stderr, "weft iscsi: %s: %s\n", what, reason_text(reason, text));
	return 1;
}

void iscsi_user_json_text(const char *text)
{
	char plain[ISCSI_USER_URL];
	size_t length = 0;

	for (; *text && length < sizeof(plain) - 1; text++)
		plain[length++] = *text >= ' ' && *text <= '~' ? *text : '?';
	plain[length] = '\0';
	cluster_view_json_text(plain);
}

/* ---- The session ---------------------------------------------------------------------------- */

struct weft_iscsi_session *iscsi_user_open(struct iscsi_user *u, const char *url)
{
	struct weft_iscsi_session *session;
	char plain[ISCSI_USER_URL];
	enum weft_reason r;

	u->why[0] = '\0';
	u->options.why = u->why;
	r = weft_iscsi_session_open(url, &u->options, &session);
	if (r == WEFT_OK)
		return session;
	(void)iscsi_user_fail(iscsi_user_plain(url, plain), r, u->why);
	return NULL;
}
