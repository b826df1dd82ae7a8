/* SPDX-License-Identifier: BSD-2-Clause */
/* A weft that was built without what etcd needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "roles/key_file.h"
#include "roles/rio_where.h"
#include "test.h"

static char why[RIO_HOST_WHY];

TEST(test_etcd_without_its_libraries_is_refused_with_a_sentence)
{
	struct etcd_agent_config c = { .etcd = { .url = "http://127.0.0.1:1",
						 .prefix = "/weft/" } };
	struct etcd_agent *a = NULL;
	struct etcd *e = NULL;

	EXPECT(!etcd_open(&c.etcd, &e, why));
	EXPECT(!e && strstr(why, "without libcurl and jansson"));
	why[0] = '\0';
	EXPECT(!etcd_agent_start(&c, &a, why));
	EXPECT(!a && strstr(why, "without libcurl and jansson"));
}

TEST(test_etcd_line_without_its_libraries_is_refused_with_its_place)
{
	char folder[] = "/tmp/weft-none-XXXXXX", path[64], key_path[64];
	struct rio_where *where = NULL;
	struct rio_host *host = NULL;
	uint8_t key[RIO_KEY_BYTES];
	FILE *file;

	REQUIRE(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/conf", folder);
	snprintf(key_path, sizeof(key_path), "%s/owner.key", folder);
	file = fopen(path, "w");
	REQUIRE(file);
	fputs("role owner\nlisten 127.0.0.1:7470\netcd http://127.0.0.1:1\n", file);
	fclose(file);
	REQUIRE(key_file_make(key_path, key, why));
	REQUIRE(rio_host_open(path, RIO_OWNER, &host, why));
	EXPECT(!rio_where_open(host, &host->listen, &where, why));
	EXPECT(!where && strstr(why, "conf:3: this weft was built without libcurl and jansson"));
	rio_host_close(host);
	REQUIRE(unlink(path) == 0 && unlink(key_path) == 0 && rmdir(folder) == 0);
}
