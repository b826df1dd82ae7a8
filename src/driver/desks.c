/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Desks: the large buffers that a busy stream works with. There are few of them, however many
 * connections there are; an idle stream keeps its desk until another one needs it.
 */
#include "driver/net.h"

static struct iwarp_desk *take_from_idle(struct net *net)
{
	struct list *at = net->borrowers.next;

	/* Bound: the desks. */
	for (; at != &net->borrowers; at = at->next) {
		struct link *link = CONTAINER_OF(at, struct link, borrower_link);
		struct iwarp_desk *desk = iwarp_take_back(link->stream);

		if (desk) {
			list_remove(&link->borrower_link);
			return desk;
		}
	}
	return NULL;
}

void desks_lend(struct net *net, struct link *link)
{
	struct iwarp_desk *desk = net->spare_desk;

	net->spare_desk = NULL;
	if (!desk && net->desk_count < DESKS_MAX) {
		desk = iwarp_desk_create();
		net->desk_count += desk != NULL;
	} else if (!desk) {
		desk = take_from_idle(net);
	}
	if (!desk)
		return; /* all are in use: it goes on as it did */
	iwarp_lend(link->stream, desk);
	list_add_tail(&net->borrowers, &link->borrower_link);
}

void desks_return(struct net *net, struct link *link)
{
	struct iwarp_desk *desk;

	if (!list_is_linked(&link->borrower_link))
		return;
	list_remove(&link->borrower_link);
	desk = iwarp_take_back(link->stream);
	if (desk && !net->spare_desk) {
		net->spare_desk = desk;
		return;
	}
	/* What lies on a desk goes with the stream, and the desk too. */
	net->desk_count--;
	if (desk)
		iwarp_desk_destroy(desk);
}
