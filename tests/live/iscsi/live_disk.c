/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/iscsi/live_iscsi.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "roles/iscsi_server.h"

static void *serve(void *server)
{
	iscsi_server_run(server);
	return NULL;
}

static void tell(void *context, const char *line)
{
	(void)context;
	(void)line;
}

void disk_open(struct disk *d, const char *lines)
{
	const struct iscsi_server_options options = { .tell = tell };
	char path[96], why[CONFIG_FILE_WHY];
	FILE *f;

	snprintf(d->folder, sizeof(d->folder), "/tmp/live_iscsi_XXXXXX");
	REQUIRE(mkdtemp(d->folder));
	snprintf(path, sizeof(path), "%s/target.conf", d->folder);
	f = fopen(path, "w");
	REQUIRE(f);
	fprintf(f,
		"role iscsi-target\nlisten 127.0.0.1:0\n"
		"target iqn.2026-11.org.example:disk\nlun 0 mem:4M\n%s",
		lines ? lines : "");
	REQUIRE(fclose(f) == 0);
	if (!iscsi_host_open(path, &d->host, why) ||
	    !iscsi_server_open(d->host, &options, &d->server, why)) {
		harness_note("%s", why);
		REQUIRE(false);
	}
	unlink(path);
	rmdir(d->folder);
	iscsi_server_portal(d->server, 0, &d->at);
	REQUIRE(pthread_create(&d->thread, NULL, serve, d->server) == 0);
}

void disk_close(struct disk *d)
{
	iscsi_server_stop(d->server);
	pthread_join(d->thread, NULL);
	iscsi_server_close(d->server);
	iscsi_host_close(d->host);
}
