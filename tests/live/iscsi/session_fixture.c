/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/iscsi/session_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "own_network.h"
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

void unit_path(const struct unit *u, const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", u->folder, name);
}

void unit_file(struct unit *u, const char *name, const char *text)
{
	char path[128];
	int fd;

	unit_path(u, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	REQUIRE(close(fd) == 0);
}

void unit_start(struct unit *u)
{
	const struct iscsi_server_options options = { .tell = tell };
	char path[128], why[CONFIG_FILE_WHY], text[1024];
	struct weft_address at;

	snprintf(text, sizeof(text),
		 "role iscsi-target\nlisten 127.0.0.1:%u\niser roce 127.0.0.1:%u\n"
		 "iser iwarp 127.0.0.1:%u\nend-timeout 50ms\ntarget " SESSION_TARGET "\n%s",
		 u->ports[WAY_TCP], u->ports[WAY_ROCE], u->ports[WAY_IWARP], u->lines);
	unit_file(u, "target.conf", text);
	unit_path(u, "target.conf", path);
	if (!iscsi_host_open(path, &u->host, why) ||
	    !iscsi_server_open(u->host, &options, &u->server, why)) {
		harness_note("%s", why);
		REQUIRE(false);
	}
	for (int i = 0; i < WAYS; i++) {
		iscsi_server_portal(u->server, (uint32_t)i, &at);
		u->ports[i] = at.port;
	}
	REQUIRE(pthread_create(&u->thread, NULL, serve, u->server) == 0);
}

void unit_stop(struct unit *u)
{
	iscsi_server_stop(u->server);
	pthread_join(u->thread, NULL);
	iscsi_server_close(u->server);
	iscsi_host_close(u->host);
}

void unit_prepare(struct unit *u)
{
	const char *why_not = own_network_enter();

	if (why_not) {
		harness_skip(why_not);
		harness_leave();
	}
	*u = (struct unit){ .folder = "/tmp/live_session_XXXXXX" };
	REQUIRE(mkdtemp(u->folder));
}

void unit_open(struct unit *u, const char *lines)
{
	if (u->folder[0] == '\0')
		unit_prepare(u);
	snprintf(u->lines, sizeof(u->lines), "%s", lines ? lines : "lun 0 mem:32M\n");
	unit_start(u);
}

void unit_close(struct unit *u)
{
	char command[128];

	unit_stop(u);
	snprintf(command, sizeof(command), "rm -r %s", u->folder);
	REQUIRE(system(command) == 0);
}

const char *unit_url(struct unit *u, enum session_way way, const char *more)
{
	snprintf(u->url[way], sizeof(u->url[way]), "%s://127.0.0.1:%u/" SESSION_TARGET "/%s",
		 way == WAY_TCP ? "iscsi" : "iser", u->ports[way], more ? more : "0");
	return u->url[way];
}

struct weft_iscsi_session *must_open(const char *url, const struct weft_iscsi_options *o)
{
	char why[WEFT_ISCSI_WHY_MAX] = "";
	struct weft_iscsi_options with = o ? *o : (struct weft_iscsi_options){ 0 };
	struct weft_iscsi_session *s = NULL;
	enum weft_reason r;

	with.why = why;
	r = weft_iscsi_session_open(url, &with, &s);
	if (r != WEFT_OK)
		harness_note("%s: %s (%s)", url, weft_reason_name(r), why);
	REQUIRE(r == WEFT_OK);
	return s;
}

enum weft_reason move(struct weft_iscsi_session *s, enum weft_iscsi_operation operation,
		      uint64_t offset, void *memory, uint32_t length)
{
	const struct weft_sge sge = { (uintptr_t)memory, length, 0 };
	const struct weft_iscsi_request r = {
		.operation = operation,
		.offset = offset,
		.length = length,
		.sges = &sge,
		.sge_count = memory ? 1 : 0,
	};

	return weft_iscsi_request_do(s, &r, NULL);
}

void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i + seed) * 7 + i / 256 + seed / 3);
}
