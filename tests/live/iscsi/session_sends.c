/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/iscsi/session_sends.h"

#include <weft/connection.h>

#include "roles/iscsi_session_inside.h"
#include "test.h"

uint64_t session_sends(struct weft_iscsi_session *s)
{
	struct weft_traffic t = { 0 };

	REQUIRE(weft_qp_traffic(s->qp, &t) == WEFT_OK);
	return t.calls_out;
}
