/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A logical unit of an iSCSI target as a block device, by a session of <weft/iscsi.h>. So I/O units
 * and targets can stripe over, mirror to and re-export disks of iSCSI targets. The data passes
 * through the memory of the process that uses the store.
 *
 * While the connection is away, requests wait for the session to make it again. A session that has
 * given up fails all requests from then on. Once acknowledged writes were lost, every flush fails.
 */
#pragma once

#include <weft/iscsi.h>

#include "store/store.h"

struct iscsi_store_config {
	const char *url;
	/* As for weft_iscsi_session_open(). */
	struct weft_iscsi_options options;
	bool is_readonly; /* whatever the unit is */
};

/* On failure `why` is set only if a sentence says more than the reason. */
enum weft_reason iscsi_store_open(const struct iscsi_store_config *c, struct store **out,
				  char why[WEFT_ISCSI_WHY_MAX]);

/*
 * Readable when store_next_done() has work to do, also without a request: then the target wants an
 * answer, or the connection is made again.
 */
int iscsi_store_descriptor(const struct store *s);

/* The last failure of a request in words, as the unit said it; "": none yet. */
const char *iscsi_store_failure(const struct store *s);
