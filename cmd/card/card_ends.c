/* SPDX-License-Identifier: BSD-2-Clause */
/* weft card unit, weft card host: an end of a split network card, until it is told to end. */
#include <signal.h>
#include <stdio.h>

#include "cmd/card/card.h"
#include "cmd/roles/rio_role.h"
#include "roles/card.h"

enum { LINE = 1024 };

static void tell(void *context, const char *line)
{
	(void)context;
	rio_role_say(stdout, line);
	fflush(stdout);
}

static void stop(void *card)
{
	card_stop(card);
}

static void say_what(const struct card_file *f, const struct card *c)
{
	const struct card_config *k = f->config;
	bool is_unit = k->role == RIO_CARD_UNIT;
	char line[LINE], address[WEFT_ADDRESS_TEXT];
	struct weft_address at;

	card_address(c, &at);
	weft_address_text(&at, address);
	snprintf(line, sizeof(line), "card %s %u.%u: %s, %s %s by %s", is_unit ? "unit" : "host",
		 k->self.unit, k->self.process, k->port.is,
		 is_unit ? "serves hosts at" : "its unit is at", address,
		 k->wire == RDMA_ROCE ? "RoCE" : "iWARP");
	tell(NULL, line);
}

static int run(int argc, char **argv, enum rio_role role)
{
	const struct card_options options = { .tell = tell };
	char why[CONFIG_FILE_WHY] = "";
	struct card_file file;
	struct card *card;

	if (argc != 2 || argv[1][0] == '-') {
		fputs(card_help, stderr);
		return 2;
	}
	signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error to tell, not an end */
	signal(SIGPIPE, SIG_IGN);
	if (!card_file_open(argv[1], role, &file, why)) {
		fprintf(stderr, "weft card: %s\n", why);
		return 1;
	}
	if (!card_open(&file, &options, &card, why)) {
		fprintf(stderr, "weft card: %s: %s\n", argv[1], why);
		card_file_close(&file);
		return 1;
	}
	rio_role_until_signal(stop, card);
	say_what(&file, card);
	card_run(card);
	tell(NULL, "the card has ended");
	card_close(card);
	card_file_close(&file);
	return 0;
}

int card_unit(int argc, char **argv)
{
	return run(argc, argv, RIO_CARD_UNIT);
}

int card_host(int argc, char **argv)
{
	return run(argc, argv, RIO_CARD_HOST);
}
