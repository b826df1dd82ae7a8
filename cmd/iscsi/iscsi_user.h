/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subcommands of weft iscsi that use disks share: who they are, and what they say. */
#pragma once

#include <weft/iscsi.h>

#include "cmd/options.h"

/* Options that all of them have, and what a session is opened with. */
struct iscsi_user {
	struct weft_iscsi_options options;
	bool is_json, is_quiet;
	char why[WEFT_ISCSI_WHY_MAX];
};

/*
 * Takes the options of this verb (its own, the last all zero, and those that all have), and as many
 * words behind them. False: *status is the exit status. The options stay where they are as long as
 * the user does.
 */
bool iscsi_user_init(struct iscsi_user *u, int argc, char **argv, const struct cmd_option *own,
		     int *status);

/* The words that are no options: URLs and names. False: these are not so many. */
bool iscsi_user_words(int argc, char **argv, const char **words, int wanted);

/* NULL: stderr was told why. */
struct weft_iscsi_session *iscsi_user_open(struct iscsi_user *u, const char *url);

/* On stderr; returns 1. more: a sentence that says more than the reason, or "". */
int iscsi_user_fail(const char *what, enum weft_reason reason, const char *more);

/* A URL for people: without user, passwords and options. Returns text. */
enum { ISCSI_USER_URL = 512 };
const char *iscsi_user_plain(const char *url, char text[ISCSI_USER_URL]);

/* A text of the target's in JSON; what is not printable ASCII becomes "?". */
void iscsi_user_json_text(const char *text);
