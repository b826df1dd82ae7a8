/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>

#include "cmd/iscsi/iscsi.h"
#include "cmd/roles/rio_role.h"
#include "roles/iscsi_server.h"

enum { LINE = 1024 };

static void tell(void *context, const char *line)
{
	(void)context;
	rio_role_say(stdout, line);
	fflush(stdout);
}

static void stop(void *server)
{
	iscsi_server_stop(server);
}

static void say_what(const struct iscsi_config *c, const struct iscsi_server *s)
{
	char line[LINE], address[WEFT_ADDRESS_TEXT];
	struct weft_address at;

	for (uint32_t i = 0; i < c->lun_count; i++) {
		snprintf(line, sizeof(line), "%s LUN %u: %s%s",
			 c->targets[c->luns[i].target].name.text, c->luns[i].lun,
			 c->luns[i].is_readonly ? "read-only " : "", c->luns[i].text);
		rio_role_say(stdout, line);
	}
	for (uint32_t i = 0; i < c->portal_count; i++) {
		iscsi_server_portal(s, i, &at);
		weft_address_text(&at, address);
		snprintf(line, sizeof(line), "iSCSI target serves at %s by %s", address,
			 iscsi_config_wire_name(c->wires[i]));
		rio_role_say(stdout, line);
	}
	fflush(stdout);
}

int iscsi_serve(int argc, char **argv)
{
	const struct iscsi_server_options options = { .tell = tell };
	char why[CONFIG_FILE_WHY] = "";
	struct iscsi_server *server;
	struct iscsi_host *host;

	if (argc != 2 || argv[1][0] == '-') {
		fputs(iscsi_help, stderr);
		return 2;
	}
	signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error to tell, not an end */
	signal(SIGPIPE, SIG_IGN);
	if (!iscsi_host_open(argv[1], &host, why)) {
		fprintf(stderr, "weft iscsi: %s\n", why);
		return 1;
	}
	if (!iscsi_server_open(host, &options, &server, why)) {
		fprintf(stderr, "weft iscsi: %s\n", why);
		iscsi_host_close(host);
		return 1;
	}
	rio_role_until_signal(stop, server);
	say_what(host->config, server);
	iscsi_server_run(server);
	rio_role_say(stdout, "iSCSI target has ended");
	iscsi_server_close(server);
	iscsi_host_close(host);
	return 0;
}
