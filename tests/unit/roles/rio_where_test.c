/* SPDX-License-Identifier: BSD-2-Clause */
/* Roles that find each other: by their files, and by a real etcd. */
#include "roles/rio_where.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "roles/key_file.h"
#include "test.h"
#include "unit/roles/etcd_server.h"

enum { PATH_SIZE = 96 };

static struct etcd_server server;
static char folder[64];
static char why[RIO_HOST_WHY];

/* A role: its files, and what came of them. */
struct role {
	const char *name;
	uint8_t key[RIO_KEY_BYTES];
	char key_text[RIO_KEY_DIGITS + 1], path[PATH_SIZE], key_path[PATH_SIZE + 8];
	struct rio_host *host;
	struct rio_where *where;
};

static void role_init(struct role *r, const char *name)
{
	r->name = name;
	snprintf(r->path, sizeof(r->path), "%s/%s", folder, name);
	snprintf(r->key_path, sizeof(r->key_path), "%s.key", r->path);
	REQUIRE(key_file_make(r->key_path, r->key, why));
	rio_key_write(r->key, r->key_text);
}

static void role_open(struct role *r, enum rio_role role, const char *text)
{
	FILE *file = fopen(r->path, "w");

	REQUIRE(file);
	fprintf(file, "role %s\nkey %s.key\n%s", rio_role_name(role), r->name, text);
	fclose(file);
	REQUIRE(chmod(r->path, 0600) == 0);
	if (!rio_host_open(r->path, role, &r->host, why) ||
	    !rio_where_open(r->host, &r->host->listen, &r->where, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
}

static void role_close(struct role *r)
{
	rio_where_close(r->where);
	rio_host_close(r->host);
	REQUIRE(unlink(r->path) == 0 && unlink(r->key_path) == 0);
}

static uint16_t await_port(struct role *r, uint32_t peer)
{
	struct pollfd fd = { .fd = rio_where_descriptor(r->where), .events = POLLIN };
	struct weft_address a;

	while (!rio_where_address(r->where, peer, &a)) {
		REQUIRE(poll(&fd, 1, 30000) == 1);
		rio_where_seen(r->where);
	}
	return a.port;
}

TEST(test_rio_14_roles_find_each_other_by_etcd)
{
	static struct role owner, near, far, requester;
	struct weft_address a;
	char text[1024];

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	strcpy(folder, "/tmp/weft-where-XXXXXX");
	REQUIRE(mkdtemp(folder));
	role_init(&owner, "owner");
	role_init(&near, "near");
	role_init(&far, "far");
	role_init(&requester, "requester");

	snprintf(text, sizeof(text), "self 2.1\nlisten 127.0.0.1:7001\nowner o 1.1 %s\n",
		 owner.key_text);
	role_open(&near, RIO_IOUNIT, text);
	EXPECT_EQ(rio_where_descriptor(near.where), -1);
	EXPECT(!rio_where_trouble(near.where, text));
	snprintf(text, sizeof(text),
		 "self 4.1\nlisten 127.0.0.1:7002\nowner o 1.1 %s\netcd %s /c/\n", owner.key_text,
		 server.url);
	role_open(&far, RIO_IOUNIT, text);
	snprintf(text, sizeof(text),
		 "listen 127.0.0.1:7000\nrequester q 3.1 %s\niounit near 2.1 %s 127.0.0.1:7001\n"
		 "iounit gone 5.1 %064d\niounit far 4.1 %s\netcd %s /c/\n",
		 requester.key_text, near.key_text, 5, far.key_text, server.url);
	role_open(&owner, RIO_OWNER, text);
	snprintf(text, sizeof(text), "listen 127.0.0.1:7003\nowner o 1.1 %s\netcd %s /c/\n",
		 owner.key_text, server.url);
	role_open(&requester, RIO_REQUESTER, text);

	/* The first peer is a requester, to which no process connects. */
	EXPECT_EQ(await_port(&owner, 1), 7001);
	EXPECT_EQ(await_port(&owner, 3), 7002);
	EXPECT(!rio_where_address(owner.where, 2, &a));
	EXPECT(!rio_where_address(owner.where, 0, &a));
	EXPECT_EQ(await_port(&requester, 0), 7000);
	EXPECT(!rio_where_address(near.where, 0, &a));
	/* A role registers its address before it looks others up; a requester registers none. */
	{
		struct etcd_config c = { .url = server.url, .prefix = "/c/" };
		struct platform three = { 3, 1 };
		struct etcd *e;

		REQUIRE(etcd_open(&c, &e, text));
		EXPECT(etcd_find(e, &three, 1, &a, text) && a.family == 0);
		etcd_close(e);
	}
	role_close(&owner);
	role_close(&near);
	role_close(&far);
	role_close(&requester);
	REQUIRE(rmdir(folder) == 0);
	etcd_server_stop(&server);
}
