/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration of an iSCSI target as files: secrets, addresses, and who may log in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "roles/iscsi_config.h"
#include "test.h"

#define HEAD "role iscsi-target\ntarget iqn.2026-11.org.example:disk\nlun 0 mem:1M\n"
#define INITIATOR "iqn.1994-05.com.redhat:abc"

static char folder[64], config[96], secrets[96];
static char why[CONFIG_FILE_WHY];

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	REQUIRE(f);
	fputs(text, f);
	REQUIRE(fclose(f) == 0 && chmod(path, mode) == 0);
}

static void begin(void)
{
	snprintf(folder, sizeof(folder), "/tmp/iscsi_host_XXXXXX");
	REQUIRE(mkdtemp(folder));
	snprintf(config, sizeof(config), "%s/target.conf", folder);
	snprintf(secrets, sizeof(secrets), "%s/secrets", folder);
}

static void end(void)
{
	unlink(config);
	unlink(secrets);
	REQUIRE(rmdir(folder) == 0);
}

static struct iscsi_host *open_text(const char *text)
{
	struct iscsi_host *host = NULL;

	write_file(config, text, 0600);
	if (!iscsi_host_open(config, &host, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
	return host;
}

static void expect_refused(const char *text, const char *words)
{
	struct iscsi_host *host;

	write_file(config, text, 0600);
	REQUIRE(!iscsi_host_open(config, &host, why));
	if (!strstr(why, words))
		printf("%s\n", why);
	EXPECT(strstr(why, words));
}

static bool allows(const struct iscsi_host *host, uint16_t target, const char *initiator,
		   const char *from)
{
	struct weft_address a;

	REQUIRE(weft_address_parse(from, &a) == WEFT_OK);
	return iscsi_host_allows(host, target, iscsi_word(initiator), &a);
}

static bool discovers(const struct iscsi_host *host, const char *initiator, const char *from)
{
	struct weft_address a;

	REQUIRE(weft_address_parse(from, &a) == WEFT_OK);
	return iscsi_host_allows_discovery(host, iscsi_word(initiator), &a);
}

/* What no rule allows is denied: without rules that is all but loopback. */
TEST(test_host_without_rules_allows_loopback_only)
{
	struct iscsi_host *host;

	begin();
	host = open_text(HEAD);
	EXPECT(allows(host, 0, INITIATOR, "127.0.0.1:1"));
	EXPECT(allows(host, 0, INITIATOR, "127.9.9.9:1"));
	EXPECT(allows(host, 0, INITIATOR, "[::1]:1"));
	EXPECT(!allows(host, 0, INITIATOR, "10.0.0.1:1"));
	EXPECT(!allows(host, 0, INITIATOR, "[::2]:1"));
	EXPECT(!allows(host, 0, INITIATOR, "[2001:db8::1]:1"));
	EXPECT(!discovers(host, INITIATOR, "10.0.0.1:1"));
	EXPECT(discovers(host, INITIATOR, "127.0.0.1:1"));
	iscsi_host_close(host);
	end();
}

TEST(test_host_rules_by_name_and_address)
{
	struct iscsi_host *host;

	begin();
	host = open_text(HEAD
			 "allow " INITIATOR " 10.1.0.0/15\n"
			 "allow any 2001:db8::/33\n"
			 "allow eui.0123456789abcdef\n"
			 "target iqn.2026-11.org.example:two\nlun 0 mem:1M\nallow any 192.0.2.7\n");
	EXPECT(allows(host, 0, INITIATOR, "10.0.255.1:1"));
	EXPECT(allows(host, 0, INITIATOR, "10.1.0.1:1"));
	EXPECT(!allows(host, 0, INITIATOR, "10.2.0.1:1"));
	EXPECT(!allows(host, 0, INITIATOR "d", "10.1.0.1:1"));
	EXPECT(!allows(host, 0, INITIATOR, "127.0.0.1:1"));
	EXPECT(allows(host, 0, INITIATOR, "[2001:db8:7fff::1]:1"));
	EXPECT(!allows(host, 0, INITIATOR, "[2001:db8:8000::1]:1"));
	EXPECT(allows(host, 0, "eui.0123456789abcdef", "198.51.100.1:1"));
	EXPECT(allows(host, 1, INITIATOR, "192.0.2.7:1"));
	EXPECT(!allows(host, 1, INITIATOR, "192.0.2.6:1"));
	EXPECT(!allows(host, 1, INITIATOR, "10.1.0.1:1"));
	EXPECT(discovers(host, INITIATOR, "192.0.2.7:1"));
	EXPECT(!discovers(host, INITIATOR, "192.0.2.8:1"));
	iscsi_host_close(host);
	end();
}

TEST(test_host_addresses_are_checked)
{
	begin();
	expect_refused("role iscsi-target\nlisten nowhere\ntarget iqn.2026-11.org.example:disk\n"
		       "lun 0 mem:1M\n",
		       "target.conf:2: an address is");
	expect_refused(HEAD "allow any 10.0.0.0/33\n", "target.conf:4: an address to allow");
	expect_refused(HEAD "allow any 2001:db8::/129\n", "target.conf:4: an address to allow");
	expect_refused(HEAD "allow any 10.0.0.256\n", "target.conf:4: an address to allow");
	expect_refused(HEAD "nonsense\n", "target.conf:4:1: there is no such keyword");
	end();
}

TEST(test_host_secrets_are_for_this_user_only)
{
	struct iscsi_host *host;

	begin();
	expect_refused(HEAD "chap secrets\n", "secrets: cannot be opened");
	write_file(secrets, "initiator bob 0123456789ab\n", 0640);
	expect_refused(HEAD "chap secrets\n", "chmod 600");
	chmod(secrets, 0600);
	host = open_text(HEAD "chap secrets\n");
	REQUIRE(host->secrets[0]);
	EXPECT(word_is(host->secrets[0]->initiators[0].name, "bob"));
	EXPECT(!host->discovery);
	iscsi_host_close(host);
	write_file(secrets, "initiator bob short\n", 0600);
	expect_refused(HEAD "chap secrets\n", "secrets:1:15: a secret has");
	expect_refused(HEAD "discovery-chap secrets\n", "secrets:1:15: a secret has");
	end();
}

TEST(test_host_file_that_others_can_write_is_refused)
{
	struct iscsi_host *host;

	begin();
	write_file(config, HEAD, 0666);
	EXPECT(!iscsi_host_open(config, &host, why));
	EXPECT(strstr(why, "chmod go-w"));
	end();
}
