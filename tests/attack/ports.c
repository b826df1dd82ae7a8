/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ports.c ADDRESS PORT [listen]: binds an id of RDMA_PS_TCP, and listens if that is asked for. It
 * says "bound PORT" or why not, and keeps the port until its standard input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	char byte;

	if (argc < 3 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1)
		return 2;
	at.sin_port = htons((uint16_t)atoi(argv[2]));
	events = rdma_create_event_channel();
	if (!events || rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0)
		return failed("id");
	if (rdma_bind_addr(id, (struct sockaddr *)(void *)&at) != 0)
		return failed("bind");
	if (argc > 3 && rdma_listen(id, 16) != 0)
		return failed("listen");
	printf("bound %u\n", (unsigned int)ntohs(rdma_get_src_port(id)));
	fflush(stdout);
	while (read(0, &byte, 1) > 0) {
	}
	return 0;
}
