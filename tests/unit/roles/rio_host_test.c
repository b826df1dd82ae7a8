/* SPDX-License-Identifier: BSD-2-Clause */
/* Key files and configuration files as files: what they say, their modes, and docs/config.md. */
#include <fcntl.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "roles/key_file.h"
#include "roles/rio_config.h"
#include "test.h"

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SEED_LINE "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n"

enum { OTHER_USER = 65534, PATH_SIZE = 160 };

/* A folder for one test. */
static char folder[64];
static char why[RIO_HOST_WHY];

static const char *path_of(const char *name)
{
	static char path[4][PATH_SIZE];
	static int turn;
	char *p = path[turn = (turn + 1) % 4];

	snprintf(p, PATH_SIZE, "%s/%s", folder, name);
	return p;
}

static void folder_make(void)
{
	strcpy(folder, "/tmp/weft-rio-XXXXXX");
	REQUIRE(mkdtemp(folder));
}

static void folder_remove(void)
{
	static const char *const names[] = { "a.key",	   "b.key", "owner.key",
					     "owner.conf", "link",  "requester.key" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlink(path_of(names[i]));
	REQUIRE(rmdir(folder) == 0);
}

static void file_write(const char *name, const char *text, mode_t mode)
{
	int fd;

	(void)unlink(path_of(name));
	fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	REQUIRE(fchmod(fd, mode) == 0 && close(fd) == 0);
}

/* ---- Key files ------------------------------------------------------------------------------ */

TEST(test_key_file_is_made_and_read)
{
	uint8_t key[RIO_KEY_BYTES], other[RIO_KEY_BYTES];
	struct rio_identity self = { 0 };
	struct stat st;
	mode_t mask;

	folder_make();
	mask = umask(0277);
	EXPECT(key_file_make(path_of("a.key"), key, why));
	umask(0);
	EXPECT(key_file_make(path_of("b.key"), other, why));
	umask(mask);
	EXPECT(stat(path_of("a.key"), &st) == 0 && (st.st_mode & 07777) == 0600);
	EXPECT(stat(path_of("b.key"), &st) == 0 && (st.st_mode & 07777) == 0600);
	EXPECT(memcmp(key, other, sizeof(key)) != 0);
	EXPECT(key_file_read(path_of("a.key"), &self, why));
	EXPECT_MEM(self.key, key, sizeof(key));
	/* By a link, as secrets are often given to containers. */
	EXPECT(symlink(path_of("b.key"), path_of("link")) == 0);
	EXPECT(key_file_read(path_of("link"), &self, why));
	EXPECT_MEM(self.key, other, sizeof(key));
	folder_remove();
}

/* RFC 8032 section 7.1, test 1. */
TEST(test_rfc8032_7_1_key_file_holds_the_seed)
{
	static const uint8_t start[] = { 0xd7, 0x5a, 0x98, 0x01 };
	struct rio_identity self = { 0 };

	folder_make();
	file_write("a.key", "weft secret key 1\n" SEED_LINE, 0600);
	EXPECT(key_file_read(path_of("a.key"), &self, why));
	EXPECT_MEM(self.key, start, sizeof(start));
	file_write("a.key", "weft secret key 1\n" SEED_LINE, 0400);
	EXPECT(key_file_read(path_of("a.key"), &self, why));
	folder_remove();
}

TEST(test_key_file_overwrites_nothing)
{
	uint8_t key[RIO_KEY_BYTES];
	char text[8] = "";
	int fd;

	folder_make();
	file_write("a.key", "dear", 0600);
	EXPECT(!key_file_make(path_of("a.key"), key, why));
	EXPECT(strstr(why, "not overwritten"));
	fd = open(path_of("a.key"), O_RDONLY);
	EXPECT(read(fd, text, sizeof(text)) == 4);
	EXPECT_STR(text, "dear");
	close(fd);
	/* Nor through a link that leads nowhere. */
	EXPECT(symlink(path_of("b.key"), path_of("link")) == 0);
	EXPECT(!key_file_make(path_of("link"), key, why));
	EXPECT(access(path_of("b.key"), F_OK) < 0);
	EXPECT(!key_file_make(path_of("nowhere/a.key"), key, why));
	EXPECT(strstr(why, "cannot be made"));
	folder_remove();
}

TEST(test_key_file_that_others_can_reach_is_refused)
{
	static const mode_t modes[] = { 0640, 0620, 0610, 0604, 0602, 0601 };
	struct rio_identity self = { 0 };
	char advice[PATH_SIZE + 16];

	folder_make();
	snprintf(advice, sizeof(advice), "chmod 600 %s", path_of("a.key"));
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		file_write("a.key", "weft secret key 1\n" SEED_LINE, modes[i]);
		EXPECT(!key_file_read(path_of("a.key"), &self, why));
		EXPECT(strstr(why, advice));
	}
	folder_remove();
	for (size_t i = 0; i < sizeof(self.secret); i++)
		EXPECT_EQ(self.secret[i], 0);
}

TEST(test_key_file_of_another_user_is_refused)
{
	struct rio_identity self = { 0 };

	if (geteuid() != 0)
		SKIP("only root can make such a file");
	folder_make();
	file_write("a.key", "weft secret key 1\n" SEED_LINE, 0600);
	EXPECT(chown(path_of("a.key"), OTHER_USER, OTHER_USER) == 0);
	EXPECT(!key_file_read(path_of("a.key"), &self, why));
	EXPECT(strstr(why, "another user's"));
	EXPECT(chmod(folder, 0755) == 0);
	/* One's own, but not root's; then root's, which one may not open. */
	EXPECT(seteuid(OTHER_USER) == 0);
	EXPECT(key_file_read(path_of("a.key"), &self, why));
	EXPECT(seteuid(0) == 0 && chown(path_of("a.key"), 0, 0) == 0 && seteuid(OTHER_USER) == 0);
	EXPECT(!key_file_read(path_of("a.key"), &self, why));
	EXPECT(seteuid(0) == 0);
	EXPECT(strstr(why, "cannot be opened"));
	/* Root's is good for whom the system lets read it: one with the capability. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == 0) {
		EXPECT(seteuid(OTHER_USER) == 0);
		EXPECT(key_file_read(path_of("a.key"), &self, why));
		EXPECT(seteuid(0) == 0 && prctl(PR_SET_SECUREBITS, 0) == 0);
	}
	folder_remove();
}

TEST(test_key_file_that_is_none_is_refused)
{
	static const char *const texts[] = {
		"",
		"weft secret key 1\n",
		"weft secret key 2\n" SEED_LINE,
		"weft secret key 1\n" SEED_LINE "\n",
		"weft secret key 1\n" SEED_LINE SEED_LINE,
		"weft secret key 1\n" KEY_A,
		"weft secret key 1\n" KEY_A "0",
		"weft secret key 1\nx0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n",
	};
	struct rio_identity self = { 0 };

	folder_make();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		file_write("a.key", texts[i], 0600);
		EXPECT(!key_file_read(path_of("a.key"), &self, why));
		EXPECT(strstr(why, "not a key file"));
	}
	EXPECT(!key_file_read(path_of("b.key"), &self, why));
	EXPECT(strstr(why, "weft key new"));
	EXPECT(!key_file_read(folder, &self, why));
	EXPECT(strstr(why, "regular file"));
	EXPECT(mkfifo(path_of("b.key"), 0600) == 0);
	EXPECT(!key_file_read(path_of("b.key"), &self, why));
	EXPECT(strstr(why, "regular file"));
	folder_remove();
}

/* ---- Configuration files -------------------------------------------------------------------- */

static struct rio_host *local_peer_open(const char *text, enum rio_role role)
{
	struct rio_host *host = NULL;

	file_write("owner.conf", text, 0644);
	return rio_host_open(path_of("owner.conf"), role, &host, why) ? host : NULL;
}

static void expect_refused(const char *text, const char *sentence)
{
	struct rio_host *host = local_peer_open(text, RIO_OWNER);

	REQUIRE(!host);
	if (!strstr(why, sentence))
		printf("%s\n", why);
	EXPECT(strstr(why, sentence));
	EXPECT(strstr(why, path_of("owner.conf")) == why);
}

TEST(test_rio_14_host_has_what_its_files_say)
{
	uint8_t key[RIO_KEY_BYTES];
	struct rio_host *host;

	folder_make();
	EXPECT(key_file_make(path_of("owner.key"), key, why));
	EXPECT(key_file_make(path_of("a.key"), key, why));
	host = local_peer_open("role owner\nself 5.6\nkey a.key\nlisten 127.0.0.1:0\nlog /l\n"
			       "iounit u 2.1 " KEY_A " [::1]:7471\n",
			       RIO_OWNER);
	EXPECT(host);
	EXPECT(host->self.platform.unit == 5 && host->self.platform.process == 6);
	EXPECT_EQ(host->self.role, RIO_OWNER);
	EXPECT_MEM(host->self.key, key, sizeof(key));
	EXPECT(host->listen.family == 4 && host->listen.port == 0 && host->listen.ip[3] == 1);
	EXPECT(host->addresses[0].family == 6 && host->addresses[0].port == 7471);
	EXPECT(host->book.known == host->config->known && host->book.count == 1);
	EXPECT_STR(host->log_path, "/l");
	EXPECT(!host->ca_path && !rio_host_is_lost(host, 0));
	EXPECT_STR(host->path, path_of("owner.conf"));
	rio_host_close(host);
	/* Paths are from the folder of the file. */
	host = local_peer_open(
		"role owner\nlog decisions\nlisten 127.0.0.1:7470\n"
		"etcd https://127.0.0.1:1\netcd-ca ca/ca.pem\nrequester q 3.1 " KEY_A,
		RIO_OWNER);
	EXPECT(host);
	EXPECT_STR(host->log_path, path_of("decisions"));
	EXPECT_STR(host->ca_path, path_of("ca/ca.pem"));
	EXPECT(memcmp(host->self.key, key, sizeof(key)) != 0);
	EXPECT(!rio_host_is_lost(host, 0)); /* a requester dials, and is not dialled */
	rio_host_close(host);
	host = local_peer_open(
		"role owner\nlisten 127.0.0.1:1\netcd http://127.0.0.1:1\niounit u 2.1 " KEY_A,
		RIO_OWNER);
	EXPECT(host && rio_host_is_lost(host, 0));
	rio_host_close(host);
	host = local_peer_open(
		"role requester\nkey a.key\netcd http://127.0.0.1:1\nowner o 1.1 " KEY_A,
		RIO_REQUESTER);
	EXPECT(host && rio_host_is_lost(host, 0));
	rio_host_close(host);
	host = local_peer_open("role iounit\nkey a.key\nowner o 1.1 " KEY_A, RIO_IOUNIT);
	EXPECT(host && !rio_host_is_lost(host, 0));
	rio_host_close(host);
	folder_remove();
}

/* Each role's own; 0 if its file has no such line. */
TEST(test_rio_02_host_spins_as_long_as_its_file_says)
{
	static const struct {
		const char *text;
		enum rio_role role;
		uint64_t ns;
	} cases[] = {
		{ "role owner\nlisten 127.0.0.1:0\nspin 50us", RIO_OWNER, 50000 },
		{ "role iounit\nlisten 127.0.0.1:0\nspin 2ms\nowner o 1.1 " KEY_A, RIO_IOUNIT,
		  2000000 },
		{ "role requester\nspin 1us\nowner o 1.1 " KEY_A " 127.0.0.1:1", RIO_REQUESTER,
		  1000 },
		{ "role owner\nlisten 127.0.0.1:0", RIO_OWNER, 0 },
	};

	folder_make();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weft_rio_peer peers[1];
		struct weft_rio_self self;
		uint8_t key[RIO_KEY_BYTES];
		struct rio_host *host;
		char text[256];

		(void)unlink(path_of("a.key"));
		EXPECT(key_file_make(path_of("a.key"), key, why));
		snprintf(text, sizeof(text), "%s\nkey a.key\n", cases[i].text);
		host = local_peer_open(text, cases[i].role);
		EXPECT(host);
		rio_host_self(host, &self, peers);
		EXPECT_EQ(self.spin_ns, cases[i].ns);
		rio_host_close(host);
	}
	folder_remove();
}

TEST(test_rio_14_the_library_gets_what_the_files_say)
{
	struct weft_rio_peer peers[RIO_CONFIG_PEERS_MAX];
	uint8_t key[RIO_KEY_BYTES];
	struct weft_rio_self self;
	struct rio_host *host;

	folder_make();
	EXPECT(key_file_make(path_of("owner.key"), key, why));
	host = local_peer_open("role owner\nself 5.6\nlisten 127.0.0.1:0\nspin 3us\nalive 7s\n"
			       "iounit u 2.1 " KEY_A " [::1]:7471\n",
			       RIO_OWNER);
	REQUIRE(host);
	rio_host_self(host, &self, peers);
	EXPECT(self.platform.unit == 5 && self.platform.process == 6 && self.listen.family == 4);
	EXPECT_EQ(self.spin_ns, 3000);
	EXPECT_EQ(self.alive_ns, INT64_C(7000000000));
	EXPECT(self.peers == peers && self.peer_count == 1);
	EXPECT(peers[0].role == WEFT_RIO_IOUNIT && peers[0].address.port == 7471);
	EXPECT_STR(peers[0].name, "u");
	rio_host_self_wipe(&self);
	rio_host_close(host);
	folder_remove();
}

TEST(test_host_refusals_name_file_and_line)
{
	char text[256], digits[RIO_KEY_DIGITS + 1];
	uint8_t key[RIO_KEY_BYTES];

	folder_make();
	EXPECT(key_file_make(path_of("owner.key"), key, why));
	rio_key_write(key, digits);
	expect_refused("role owner\n  self x", "owner.conf:2:8: a platform");
	expect_refused("role iounit\nowner o 1.1 " KEY_A, "iounit, not owner");
	expect_refused("role owner\nlisten 1.2.3.4", "owner.conf:2: an address is");
	expect_refused("role owner\n\niounit u 2.1 " KEY_A " 1.2.3.4", ":3: an address is");
	expect_refused("role owner\n\niounit u 2.1 " KEY_A " :7471", ":3: an address is");
	expect_refused("role owner\n\niounit u 2.1 " KEY_A " 1.2.3.4:0", ":3: an address is");
	expect_refused("role owner\nkey b.key", "owner.conf:2: ");
	expect_refused("role owner\nkey b.key", "b.key is not there; weft key new");
	expect_refused("role owner\netcd http://a\n", ":2: with etcd, listen");
	expect_refused("role owner\netcd http://a\nlisten :1", ":3: with etcd, listen");
	expect_refused("role owner\netcd http://a\nlisten 0.0.0.0:1", ":3: with etcd, listen");
	expect_refused("role owner\netcd http://a\nlisten [::]:1", ":3: with etcd, listen");
	expect_refused("role owner\netcd http://a\nlisten 1.2.3.4:0", ":3: with etcd, listen");
	snprintf(text, sizeof(text), "role owner\nrequester q 2.1 %s", digits);
	expect_refused(text, ":2: this is the key of self");
	EXPECT(unlink(path_of("owner.key")) == 0);
	expect_refused("role owner", "owner.key is not there");
	folder_remove();
}

TEST(test_host_file_that_others_can_write_is_refused)
{
	struct rio_host *host = NULL;
	uint8_t key[RIO_KEY_BYTES];

	folder_make();
	EXPECT(key_file_make(path_of("owner.key"), key, why));
	EXPECT(!rio_host_open(path_of("owner.conf"), RIO_OWNER, &host, why));
	EXPECT(strstr(why, "cannot be opened"));
	EXPECT(!rio_host_open(folder, RIO_OWNER, &host, why));
	EXPECT(strstr(why, "cannot be read"));
	file_write("owner.conf", "role owner", 0664);
	EXPECT(!rio_host_open(path_of("owner.conf"), RIO_OWNER, &host, why));
	EXPECT(strstr(why, "chmod go-w"));
	file_write("owner.conf", "role owner", 0646);
	EXPECT(!rio_host_open(path_of("owner.conf"), RIO_OWNER, &host, why));
	EXPECT(strstr(why, "chmod go-w"));
	file_write("owner.conf", "role owner", 0644);
	EXPECT(rio_host_open(path_of("owner.conf"), RIO_OWNER, &host, why));
	rio_host_close(host);
	if (geteuid() == 0) {
		EXPECT(chown(path_of("owner.conf"), OTHER_USER, OTHER_USER) == 0);
		EXPECT(!rio_host_open(path_of("owner.conf"), RIO_OWNER, &host, why));
		EXPECT(strstr(why, "another user's"));
	}
	folder_remove();
}

TEST(test_host_file_has_at_most_a_mebibyte)
{
	char *text = malloc(CONFIG_BYTES_MAX + 2);

	REQUIRE(text);
	folder_make();
	memset(text, '\n', CONFIG_BYTES_MAX + 1);
	memcpy(text, "role owner\nself x", 17);
	text[CONFIG_BYTES_MAX + 1] = '\0';
	expect_refused(text, "1 MiB");
	text[CONFIG_BYTES_MAX] = '\0';
	expect_refused(text, ":2:6: a platform");
	folder_remove();
	free(text);
}

/* ---- docs/config.md ------------------------------------------------------------------------- */

/* The example of a role: the indented lines from its role line on, to the next line of prose. */
static struct rio_config *example_of(const char *role)
{
	static char page[64 << 10], text[16 << 10];
	FILE *file = fopen(DOCS_DIR "/config.md", "r");
	struct config_complaint complaint;
	struct rio_config *config = NULL;
	char start[64], *at;

	REQUIRE(file);
	page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
	fclose(file);
	snprintf(start, sizeof(start), "\n    role %s\n", role);
	at = strstr(page, start);
	REQUIRE(at);
	text[0] = '\0';
	for (at++; *at == '\n' || strncmp(at, "    ", 4) == 0; at += strcspn(at, "\n") + 1)
		strncat(text, at, strcspn(at, "\n") + 1);
	if (!rio_config_read(text, strlen(text), &config, &complaint))
		printf("%s: %u:%u: %s\n", role, complaint.line, complaint.column, complaint.why);
	REQUIRE(config);
	return config;
}

TEST(test_config_examples_of_the_page_belong_together)
{
	struct rio_config *owner = example_of("owner"), *iounit = example_of("iounit");
	struct rio_config *requester = example_of("requester");

	EXPECT(owner->peer_count == 4 && owner->rule_count == 3 && owner->share_count == 1);
	EXPECT_EQ(iounit->device_count, 3);
	EXPECT(platform_is_same(owner->self, iounit->known[0].platform));
	EXPECT(platform_is_same(owner->self, requester->known[0].platform));
	EXPECT_MEM(iounit->known[0].key, requester->known[0].key, RIO_KEY_BYTES);
	EXPECT_STR(requester->peers[0].address, owner->listen.is);
	EXPECT(platform_is_same(owner->known[0].platform, iounit->self));
	EXPECT_STR(owner->peers[0].address, iounit->listen.is);
	EXPECT(platform_is_same(owner->known[2].platform, requester->self));
	rio_config_destroy(owner);
	rio_config_destroy(iounit);
	rio_config_destroy(requester);
}
