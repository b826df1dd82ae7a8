/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large buffers lent to busy streams. There are few of them, however many connections there are; an
 * idle stream keeps its buffers until another stream needs them.
 */
#include "driver/tcp/tcp.h"

static struct iwarp_buffers *take_from_idle(struct tcp *tcp)
{
	struct list *at = tcp->borrowers.next;

	/* Bound: the lent buffers. */
	for (; at != &tcp->borrowers; at = at->next) {
		struct link *link = CONTAINER_OF(at, struct link, borrower_link);
		struct iwarp_buffers *buffers = iwarp_take_back(link->stream);

		if (buffers) {
			list_remove(&link->borrower_link);
			return buffers;
		}
	}
	return NULL;
}

void buffers_lend(struct tcp *tcp, struct link *link)
{
	struct iwarp_buffers *buffers = tcp->spare_buffers;

	tcp->spare_buffers = NULL;
	if (!buffers && tcp->buffers_count < LENT_BUFFERS_MAX) {
		buffers = iwarp_buffers_create();
		tcp->buffers_count += buffers != NULL;
	} else if (!buffers) {
		buffers = take_from_idle(tcp);
	}
	if (!buffers)
		return; /* all are in use: the stream goes on without */
	iwarp_lend(link->stream, buffers);
	list_add_tail(&tcp->borrowers, &link->borrower_link);
}

void buffers_return(struct tcp *tcp, struct link *link)
{
	struct iwarp_buffers *buffers;

	if (!list_is_linked(&link->borrower_link))
		return;
	list_remove(&link->borrower_link);
	buffers = iwarp_take_back(link->stream);
	if (buffers && !tcp->spare_buffers) {
		tcp->spare_buffers = buffers;
		return;
	}
	/* The buffers hold data: they are freed with the stream. */
	tcp->buffers_count--;
	if (buffers)
		iwarp_buffers_destroy(buffers);
}
