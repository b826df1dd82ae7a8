/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Desks: the large buffers that a busy stream works with. There are few of them, however many
 * connections there are; an idle stream keeps its desk until another one needs it.
 */
#include "driver/tcp/tcp.h"

static struct iwarp_desk *take_from_idle(struct tcp *tcp)
{
	struct list *at = tcp->borrowers.next;

	/* Bound: the desks. */
	for (; at != &tcp->borrowers; at = at->next) {
		struct link *link = CONTAINER_OF(at, struct link, borrower_link);
		struct iwarp_desk *desk = iwarp_take_back(link->stream);

		if (desk) {
			list_remove(&link->borrower_link);
			return desk;
		}
	}
	return NULL;
}

void desks_lend(struct tcp *tcp, struct link *link)
{
	struct iwarp_desk *desk = tcp->spare_desk;

	tcp->spare_desk = NULL;
	if (!desk && tcp->desk_count < DESKS_MAX) {
		desk = iwarp_desk_create();
		tcp->desk_count += desk != NULL;
	} else if (!desk) {
		desk = take_from_idle(tcp);
	}
	if (!desk)
		return; /* all are in use: it goes on as it did */
	iwarp_lend(link->stream, desk);
	list_add_tail(&tcp->borrowers, &link->borrower_link);
}

void desks_return(struct tcp *tcp, struct link *link)
{
	struct iwarp_desk *desk;

	if (!list_is_linked(&link->borrower_link))
		return;
	list_remove(&link->borrower_link);
	desk = iwarp_take_back(link->stream);
	if (desk && !tcp->spare_desk) {
		tcp->spare_desk = desk;
		return;
	}
	/* What lies on a desk goes with the stream, and the desk too. */
	tcp->desk_count--;
	if (desk)
		iwarp_desk_destroy(desk);
}
