/* SPDX-License-Identifier: BSD-2-Clause */
/* An end of weft iscsi read, write and copy: a disk of a URL, another device, or a file. */
#pragma once

#include "cmd/iscsi/iscsi_move.h"
#include "cmd/iscsi/iscsi_user.h"
#include "roles/device.h"

struct iscsi_end {
	struct move_end move;
	struct device *device;	   /* of a device that is no URL */
	bool is_url, is_opened;	   /* is_opened: the file is ours to close */
	char name[ISCSI_USER_URL]; /* for people */
};

/*
 * text: a URL, a line of docs/store.md, or the path of a file; NULL: standard input or output.
 * False: stderr was told why.
 */
bool iscsi_end_open(struct iscsi_end *e, struct iscsi_user *u, const char *text,
		    bool is_destination);

/* False: the file could not be written to its end, and stderr was told. */
bool iscsi_end_close(struct iscsi_end *e);

/* Says on stderr what went wrong with it; returns 1. */
int iscsi_end_fail(const struct iscsi_end *e, const struct move_outcome *o);
