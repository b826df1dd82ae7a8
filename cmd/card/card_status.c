/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/card/card.h"
#include "cmd/stat/stat_card.h"
#include "cmd/stat/stat_show.h"

int card_status(int argc, char **argv)
{
	static const struct stat_command command = {
		.name = "card status",
		.help = card_help,
		.service = STAT_CARD,
		.absent = "is no end of a card, or is not there",
		.nothing = "no end of a card of this user runs now",
		.print = stat_card_print,
		.json = stat_card_json,
	};

	return stat_show(argc, argv, &command);
}
