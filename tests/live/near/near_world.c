/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/near/near_world.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void end_open(struct end *e, struct weft_adapter *adapter)
{
	e->adapter = adapter;
	node_open(adapter, &e->node, NULL);
}

void end_close(struct end *e)
{
	node_close(&e->node, NULL);
	MUST(weft_adapter_close(e->adapter));
}

struct weft_roce_counts counts_of(const struct end *e)
{
	struct weft_roce_counts n;

	MUST(weft_roce_query(e->adapter, &n));
	return n;
}

struct card card_of(const struct node *n)
{
	return (struct card){ weft_qp_number(n->qp), n->tag, (uintptr_t)n->memory };
}

bool direct_is_allowed(void)
{
	char from = 1, to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

int shared_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = -2;

	REQUIRE(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "weft.near") != NULL;
	fclose(maps);
	return n;
}
