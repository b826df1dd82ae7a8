/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric cut, mend, errors, degrade: cables of a fabric that runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "cmd/fabric/elsewhere.h"
#include "cmd/fabric/fabric.h"
#include "driver/sys/fabric_client.h"

static const struct verb {
	const char *name;
	enum fabric_msg_kind kind;
	bool has_value;
} verbs[] = {
	{ "cut", FABRIC_MSG_CUT, false },
	{ "mend", FABRIC_MSG_MEND, false },
	{ "errors", FABRIC_MSG_ERRORS, true },
	{ "degrade", FABRIC_MSG_DEGRADE, true },
};

bool fabric_where_read(const char *text, struct fabric_msg_where *where)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t port = 0;

	if (colon &&
	    (!quantity_number((struct word){ colon + 1, (uint32_t)strlen(colon + 1) }, &port) ||
	     port == 0 || port > TOPOLOGY_PORTS_MAX))
		return false;
	if (length == 0 || length >= sizeof(where->node))
		return false;
	*where = (struct fabric_msg_where){ .port = (uint32_t)port };
	memcpy(where->node, text, length);
	return true;
}

static bool ask_read(int argc, char **argv, const struct verb *v, struct fabric_msg *ask)
{
	*ask = (struct fabric_msg){ .kind = v->kind };
	if (argc != (v->has_value ? 3 : 2) || !fabric_where_read(argv[1], &ask->where))
		return false;
	return !v->has_value ||
	       quantity_number((struct word){ argv[2], (uint32_t)strlen(argv[2]) }, &ask->value);
}

int fabric_failed(const char *what, const char *node, enum weft_reason reason)
{
	char text[ELSEWHERE_TEXT];

	fprintf(stderr, "weft fabric: %s: %s\n", what, elsewhere_text(node, reason, text));
	return 1;
}

int fabric_cable(int argc, char **argv)
{
	const struct verb *v = verbs;
	struct fabric_msg ask, answer;
	enum weft_reason reason;

	/* Bound: this was called for one of them. */
	while (strcmp(v->name, argv[0]) != 0)
		v++;
	if (!ask_read(argc, argv, v, &ask))
		return fabric_misused(v->has_value ? "that takes NODE:PORT and a number"
						   : "that takes NODE or NODE:PORT");
	if (v->kind == FABRIC_MSG_DEGRADE && (ask.value == 0 || ask.value > UINT16_MAX))
		return fabric_misused("degrade takes 1 to 65535 parts");
	reason = fabric_client_ask_once(&ask, &answer);
	if (reason != WEFT_OK)
		return fabric_failed(argv[1], ask.where.node, reason);
	printf("%" PRIu64 " cable%s\n", answer.value, answer.value == 1 ? "" : "s");
	return 0;
}
