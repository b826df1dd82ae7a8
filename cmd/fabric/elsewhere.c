/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fabric/elsewhere.h"

#include <stdio.h>
#include <string.h>

#include "cmd/reason_text.h"
#include "driver/sys/fabric_client.h"

/* False: the fabric does not say. */
static bool part_ask(const char *node, struct fabric_msg_part *part)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_PART }, answer;

	if (strlen(node) >= sizeof(ask.where.node))
		return false;
	memcpy(ask.where.node, node, strlen(node) + 1);
	if (fabric_client_ask_once(&ask, &answer) != WEFT_OK || answer.kind != FABRIC_MSG_IS_PART)
		return false;
	*part = answer.part;
	return true;
}

const char *elsewhere_text(const char *node, enum weft_reason reason, char text[ELSEWHERE_TEXT])
{
	struct fabric_msg_part p;

	if (reason != WEFT_R_FABRIC_PART || !part_ask(node, &p))
		return reason_text(reason, text);
	(void)snprintf(text, ELSEWHERE_TEXT,
		       "The node is in part %s of the fabric, and this is part %s: run it where "
		       "weft fabric run --part %s runs%s%s%s. (%s)",
		       p.name, p.self, p.name, *p.address ? ", at " : "", p.address,
		       p.is_joined ? "" : "; that part is not joined now",
		       weft_reason_name(reason));
	return text;
}
