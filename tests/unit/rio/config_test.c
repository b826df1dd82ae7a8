/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_B "0000000000000000000000000000000000000000000000000000000000000001"
#define KEY_C "FFEEDDCCBBAA99887766554433221100ffeeddccbbaa99887766554433221100"
#define KEY_D "0000000000000000000000000000000000000000000000000000000000000002"
#define OWNER "owner boss 1.1 " KEY_A

static struct config_complaint complaint;

static struct rio_config *read_text(const char *text)
{
	struct rio_config *c = NULL;

	if (!rio_config_read(text, strlen(text), &c, &complaint)) {
		printf("%u:%u: %s\n", complaint.line, complaint.column, complaint.why);
		REQUIRE(false);
	}
	return c;
}

static const char whole_owner[] = "# All of it.\n"
				  "role owner\n"
				  "  self\t9.2   # here\r\n"
				  "key keys/my owner#1.key  \n"
				  "listen 10.0.0.1:7470\n"
				  "log decisions.log\n"
				  "timeout 1500ms\n"
				  "requests 17\n"
				  "\n"
				  "allow db read,write disks/d1 1M 2G\n"
				  "allow any read disks/*\n"
				  "allow web all *\n"
				  "allow db flush,zeroes,discard more/d.2 4k end\n"
				  "share db disks\n"
				  "share web db\n"
				  "iounit disks 2.1 " KEY_A " 10.0.0.2:7471\n"
				  "requester db 7.1 " KEY_B "\n"
				  "iounit more 3.1 " KEY_C " [fe80::1%lo]:7471 # there\n"
				  "requester web 7.2 " KEY_D "\n"
				  "watch web\n"
				  "watch any";

TEST(test_config_of_an_owner)
{
	struct rio_config *c = read_text(whole_owner);

	EXPECT_EQ(c->role, RIO_OWNER);
	EXPECT(c->self.unit == 9 && c->self.process == 2);
	EXPECT_STR(c->key.is, "keys/my owner#1.key");
	EXPECT_EQ(c->key.line, 4);
	EXPECT_STR(c->listen.is, "10.0.0.1:7470");
	EXPECT_EQ(c->listen.line, 5);
	EXPECT_STR(c->log.is, "decisions.log");
	EXPECT_EQ(c->log.line, 6);
	EXPECT_EQ(c->timeout_ns, 1500000000);
	EXPECT_EQ(c->requests_max, 17);
	EXPECT(!c->etcd.is && !c->etcd_ca.is);
	EXPECT_EQ(c->device_count, 0);
	rio_config_destroy(c);
}

TEST(test_rio_14_config_says_who_a_platform_identifier_is)
{
	static const uint8_t key_b[RIO_KEY_BYTES] = { [31] = 1 };
	struct rio_config *c = read_text(whole_owner);

	EXPECT_EQ(c->peer_count, 4);
	EXPECT_STR(c->peers[0].name, "disks");
	EXPECT_STR(c->peers[0].address, "10.0.0.2:7471");
	EXPECT_EQ(c->peers[0].line, 16);
	EXPECT_EQ(c->known[0].role, RIO_IOUNIT);
	EXPECT(platform_is_same(c->known[0].platform, (struct platform){ 2, 1 }));
	EXPECT_STR(c->peers[1].name, "db");
	EXPECT(!c->peers[1].address);
	EXPECT_EQ(c->known[1].role, RIO_REQUESTER);
	EXPECT(platform_is_same(c->known[1].platform, (struct platform){ 7, 1 }));
	EXPECT_MEM(c->known[1].key, key_b, RIO_KEY_BYTES);
	EXPECT_EQ(c->known[2].key[0], 0xff);
	EXPECT_EQ(c->known[2].key[1], 0xee);
	EXPECT_STR(c->peers[2].address, "[fe80::1%lo]:7471");
	EXPECT_STR(c->peers[3].name, "web");
	/* I/O units are numbered among themselves. */
	EXPECT(c->peers[0].place == 1 && c->peers[1].place == 0 && c->peers[2].place == 2 &&
	       c->peers[3].place == 0);
	rio_config_destroy(c);
}

TEST(test_rio_03_config_has_rules)
{
	enum { READ = 1 << SGL_READ, WRITE = 1 << SGL_WRITE };
	struct rio_config *c = read_text(whole_owner);
	const struct rio_config_rule *rule = c->rules;

	EXPECT_EQ(c->rule_count, 4);
	EXPECT(rule[0].requester == 1 && rule[0].iounit == 0 &&
	       rule[0].operations == (READ | WRITE));
	EXPECT_STR(rule[0].requester_name, "db");
	EXPECT_STR(rule[0].iounit_name, "disks");
	EXPECT_STR(rule[0].device, "d1");
	EXPECT(rule[0].first == 1 << 20 && rule[0].length == INT64_C(2) << 30);
	EXPECT_EQ(rule[0].line, 10);
	EXPECT(rule[1].requester == RIO_CONFIG_ANY && rule[1].iounit == 0 && !rule[1].device);
	EXPECT(rule[1].operations == READ && rule[1].first == 0 && rule[1].length == 0);
	EXPECT(rule[2].requester == 3 && rule[2].iounit == RIO_CONFIG_ANY && !rule[2].device);
	EXPECT_EQ(rule[2].operations,
		  READ | WRITE | 1 << SGL_FLUSH | 1 << SGL_WRITE_ZEROES | 1 << SGL_DISCARD);
	EXPECT(rule[3].requester == 1 && rule[3].iounit == 2);
	EXPECT_EQ(rule[3].operations, 1 << SGL_FLUSH | 1 << SGL_WRITE_ZEROES | 1 << SGL_DISCARD);
	EXPECT(rule[3].first == 4096 && rule[3].length == 0);
	EXPECT_EQ(c->share_count, 2);
	EXPECT_EQ(c->watcher_count, 2);
	EXPECT_EQ(c->watchers[0].requester, 3);
	EXPECT_EQ(c->watchers[1].requester, RIO_CONFIG_ANY);
	EXPECT(c->shares[0].requester == 1 && c->shares[0].memory == 0);
	EXPECT(c->shares[1].requester == 3 && c->shares[1].memory == 1);
	rio_config_destroy(c);
}

TEST(test_config_of_an_iounit)
{
	struct rio_config *c = read_text(
		"role iounit\n" OWNER "\n"
		"device 1 fast mem:64M\n"
		"device 65535 a-b_c.d stripe:64k(file:\"/odd #1 (name)\",mem:1G)   # \"two\"\n"
		"etcd https://[::1]:2379 /here/units/\n"
		"etcd-ca ca.pem\n");

	EXPECT_EQ(c->role, RIO_IOUNIT);
	EXPECT_EQ(c->device_count, 2);
	EXPECT(c->devices[0].number == 1 && c->devices[0].line == 3 && c->devices[0].column == 15);
	EXPECT_STR(c->devices[0].name, "fast");
	EXPECT_STR(c->devices[0].text, "mem:64M");
	EXPECT_EQ(c->devices[1].number, 65535);
	EXPECT_STR(c->devices[1].name, "a-b_c.d");
	EXPECT_STR(c->devices[1].text, "stripe:64k(file:\"/odd #1 (name)\",mem:1G)");
	EXPECT_STR(c->etcd.is, "https://[::1]:2379");
	EXPECT_EQ(c->etcd.line, 5);
	EXPECT_STR(c->etcd_prefix, "/here/units/");
	EXPECT_STR(c->etcd_ca.is, "ca.pem");
	EXPECT_EQ(c->etcd_ca.line, 6);
	EXPECT_EQ(c->peer_count, 1);
	EXPECT_EQ(c->known[0].role, RIO_OWNER);
	EXPECT_EQ(c->peers[0].place, 0);
	rio_config_destroy(c);
}

TEST(test_config_has_defaults)
{
	struct rio_config *c = read_text("role requester\n" OWNER " 10.0.0.1:7470\n");

	EXPECT(c->self.unit == 3 && c->self.process == 1);
	EXPECT_STR(c->key.is, "requester.key");
	EXPECT_EQ(c->key.line, 0);
	EXPECT_STR(c->listen.is, ":0");
	EXPECT_EQ(c->timeout_ns, INT64_C(30000000000));
	EXPECT_EQ(c->alive_ns, INT64_C(10000000000));
	EXPECT_EQ(c->requests_max, 64);
	EXPECT(!c->log.is && !c->etcd.is);
	EXPECT_STR(c->etcd_prefix, "/weft/");
	EXPECT_STR(c->peers[0].address, "10.0.0.1:7470");
	rio_config_destroy(c);
	c = read_text("role owner");
	EXPECT(c->self.unit == 1 && c->self.process == 1);
	EXPECT_STR(c->key.is, "owner.key");
	EXPECT_STR(c->listen.is, ":7470");
	EXPECT_EQ(c->peer_count, 0);
	rio_config_destroy(c);
	c = read_text("role iounit\nowner o 5.1 " KEY_A);
	EXPECT(c->self.unit == 2 && c->self.process == 1);
	EXPECT_STR(c->key.is, "iounit.key");
	EXPECT_STR(c->listen.is, ":7471");
	rio_config_destroy(c);
	/* The ends of what is allowed. */
	c = read_text("role owner\ntimeout 1ms\nrequests 1024\nalive 1s");
	EXPECT_EQ(c->alive_ns, 1000000000);
	EXPECT_EQ(c->timeout_ns, 1000000);
	EXPECT_EQ(c->requests_max, 1024);
	rio_config_destroy(c);
	c = read_text("role owner\ntimeout 86400s\nrequests 1\nalive 3600s");
	EXPECT_EQ(c->alive_ns, INT64_C(3600000000000));
	EXPECT_EQ(c->timeout_ns, INT64_C(86400000000000));
	EXPECT_EQ(c->requests_max, 1);
	rio_config_destroy(c);
	c = read_text("role requester\n" OWNER "\netcd http://127.0.0.1:2379");
	EXPECT(!c->peers[0].address);
	EXPECT_STR(c->etcd_prefix, "/weft/");
	rio_config_destroy(c);
}

TEST(test_config_of_every_role_says_how_long_it_spins)
{
	static const char *const roles[] = { "role owner\n", "role iounit\n" OWNER "\n",
					     "role requester\n" OWNER " 10.0.0.1:7470\n" };
	static const struct {
		const char *line;
		uint64_t ns;
	} forms[] = { { "", 0 },
		      { "spin 0us", 0 },
		      { "spin 0s", 0 },
		      { "spin 700ns", 700 },
		      { "spin\t50us  # a while", 50000 },
		      { "spin 3ms", 3000000 },
		      { "spin 1000ms", 1000000000 },
		      { "spin 1s", 1000000000 } };

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
			struct rio_config *c;
			char text[256];

			snprintf(text, sizeof(text), "%s%s\n", roles[i], forms[k].line);
			c = read_text(text);
			EXPECT_EQ(c->spin_ns, forms[k].ns);
			rio_config_destroy(c);
		}
	}
}

TEST(test_config_keys_are_written_as_they_are_read)
{
	uint8_t key[RIO_KEY_BYTES];
	char text[RIO_KEY_DIGITS + 1];

	EXPECT(rio_key_read(KEY_A, key));
	EXPECT_EQ(key[1], 0x11);
	EXPECT_EQ(key[31], 0xff);
	rio_key_write(key, text);
	EXPECT_STR(text, KEY_A);
	EXPECT(rio_key_read(KEY_C, key));
	rio_key_write(key, text);
	EXPECT_STR(text, "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100");
	EXPECT(!rio_key_read(&KEY_A[1], key));
	EXPECT(!rio_key_read(KEY_A "0", key));
	EXPECT_STR(rio_role_name((enum rio_role)9), "unknown");
}

TEST(test_rio_14_platforms_are_written_as_they_are_read)
{
	struct platform p = { 0 };
	char text[RIO_PLATFORM_TEXT];

	EXPECT(rio_platform_read("4294967295.4294967295", &p));
	EXPECT(p.unit == UINT32_MAX && p.process == UINT32_MAX);
	rio_platform_write(p, text);
	EXPECT_STR(text, "4294967295.4294967295");
	EXPECT(rio_platform_read("100.7", &p));
	rio_platform_write(p, text);
	EXPECT_STR(text, "100.7");
	EXPECT(!rio_platform_read("100.", &p));
	EXPECT(p.unit == 100 && p.process == 7);
}

struct refusal {
	const char *text;
	uint32_t line, column;
	const char *why; /* some of it */
};

static void expect_refusal(const struct refusal *row)
{
	struct rio_config *c = NULL;

	REQUIRE(!rio_config_read(row->text, strlen(row->text), &c, &complaint));
	REQUIRE(c == NULL);
	if (complaint.line != row->line || complaint.column != row->column ||
	    !strstr(complaint.why, row->why))
		printf("%s\n%u:%u: %s\n", row->text, complaint.line, complaint.column,
		       complaint.why);
	EXPECT_EQ(complaint.line, row->line);
	EXPECT_EQ(complaint.column, row->column);
	EXPECT(strstr(complaint.why, row->why));
}

#define EXPECT_REFUSALS(rows)                                                                      \
	for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++)                              \
	expect_refusal(&(rows)[i])

TEST(test_config_refusals_of_times_to_spin)
{
	static const struct refusal rows[] = {
		{ "role owner\nspin 1000001us", 2, 6, "up to 1s" },
		{ "role owner\n  spin 2s", 2, 8, "up to 1s" },
		{ "role owner\nspin 18446744073709551616ns", 2, 6, "up to 1s" },
		{ "role owner\nspin 50", 2, 6, "with us or ms" },
		{ "role owner\nspin 0", 2, 6, "with us or ms" },
		{ "role owner\nspin 50 us", 2, 9, "spin TIME" },
		{ "role owner\nspin 50k", 2, 6, "with us or ms" },
		{ "role owner\nspin 1.5ms", 2, 6, "with us or ms" },
		{ "role owner\nspin -1us", 2, 6, "with us or ms" },
		{ "role owner\nspin us", 2, 6, "with us or ms" },
		{ "role owner\nspin", 2, 1, "spin TIME" },
		{ "role owner\nspin 1us\nspin 1us", 3, 1, "once" },
	};

	EXPECT_REFUSALS(rows);
}

TEST(test_config_refusals_of_lines)
{
	static const struct refusal rows[] = {
		{ "", 1, 1, "the role" },
		{ "\n# nothing\n", 3, 1, "the role" },
		{ "self 1.1\nrole owner", 1, 1, "the role" },
		{ "role", 1, 1, "role ROLE" },
		{ "role owner iounit", 1, 12, "role ROLE" },
		{ "role king", 1, 6, "the roles are" },
		{ "role owners", 1, 6, "the roles are" },
		{ "role owner\nrole owner", 2, 1, "once" },
		{ "role owner\n  Self 1.1", 2, 3, "no such keyword" },
		{ "role owner\nself 1.1\nself 1.1", 3, 1, "once" },
		{ "role owner\nself 1.1\vx", 2, 9, "control" },
		{ "role owner\n# \x7f", 2, 3, "control" },
		{ "role owner\nself", 2, 1, "self PLATFORM" },
		{ "role owner\nself 1", 2, 6, "two whole numbers" },
		{ "role owner\nself 1.", 2, 6, "two whole numbers" },
		{ "role owner\nself 1:1", 2, 6, "two whole numbers" },
		{ "role owner\nself .1", 2, 6, "two whole numbers" },
		{ "role owner\nself 0.1", 2, 6, "two whole numbers" },
		{ "role owner\nself 1.0", 2, 6, "two whole numbers" },
		{ "role owner\nself 4294967296.1", 2, 6, "two whole numbers" },
		{ "role owner\nself 1.4294967296", 2, 6, "two whole numbers" },
		{ "role owner\nself 1.1.1", 2, 6, "two whole numbers" },
		{ "role owner\nkey", 2, 1, "key FILE" },
		{ "role owner\nkey a\nkey b", 3, 1, "once" },
		{ "role owner\nlisten", 2, 1, "listen ADDRESS" },
		{ "role owner\nlisten a b", 2, 10, "listen ADDRESS" },
		{ "role owner\nlisten a\nlisten a", 3, 1, "once" },
		{ "role owner\nlog", 2, 1, "log FILE" },
		{ "role owner\nlog a\nlog a", 3, 1, "once" },
		{ "role iounit\nlog a", 2, 1, "this role" },
		{ "role owner\ntimeout 999us", 2, 9, "from 1ms" },
		{ "role owner\ntimeout 86401s", 2, 9, "to 86400s" },
		{ "role owner\ntimeout 30", 2, 9, "with ms or s" },
		{ "role owner\ntimeout", 2, 1, "timeout TIME" },
		{ "role owner\ntimeout 1s\ntimeout 1s", 3, 1, "once" },
		{ "role owner\nalive 999ms", 2, 7, "from 1s" },
		{ "role owner\nalive 3601s", 2, 7, "to 3600s" },
		{ "role owner\nalive 0", 2, 7, "with ms or s" },
		{ "role owner\nalive", 2, 1, "alive TIME" },
		{ "role owner\nalive 1s\nalive 1s", 3, 1, "once" },
		{ "role owner\nrequests 0", 2, 10, "1 to 1024" },
		{ "role owner\nrequests 1025", 2, 10, "1 to 1024" },
		{ "role owner\nrequests x", 2, 10, "1 to 1024" },
		{ "role owner\nrequests", 2, 1, "requests NUMBER" },
		{ "role owner\nrequests 1\nrequests 1", 3, 1, "once" },
		{ "role owner\netcd ftp://a", 2, 6, "http://HOST" },
		{ "role owner\netcd http://", 2, 6, "http://HOST" },
		{ "role owner\netcd https:///a", 2, 6, "http://HOST" },
		{ "role owner\netcd http://a weft/", 2, 15, "at both ends" },
		{ "role owner\netcd http://a /weft", 2, 15, "at both ends" },
		{ "role owner\netcd http://a / b", 2, 17, "etcd URL" },
		{ "role owner\netcd", 2, 1, "etcd URL" },
		{ "role owner\netcd http://a\netcd http://a", 3, 1, "once" },
		{ "role owner\netcd-ca", 2, 1, "etcd-ca FILE" },
		{ "role owner\netcd-ca a\netcd-ca a\n", 3, 1, "once" },
		{ "role owner\netcd-ca a\n", 2, 1, "for etcd at https" },
		{ "role owner\netcd-ca a\netcd http://a", 2, 1, "for etcd at https" },
	};

	EXPECT_REFUSALS(rows);
}

TEST(test_rio_09_rio_14_config_of_an_io_units_adapters_and_memory)
{
	static const struct refusal rows[] = {
		{ "role iounit\n" OWNER "\nadapters 0", 3, 10, "1 to 8" },
		{ "role iounit\n" OWNER "\nadapters 9", 3, 10, "1 to 8" },
		{ "role requester\nadapters 2", 2, 1, "this role" },
		{ "role iounit\n" OWNER "\nmemory 0", 3, 8, "up to 1T" },
		{ "role iounit\n" OWNER "\nmemory 1025G", 3, 8, "up to 1T" },
		{ "role iounit\n" OWNER "\nmemory lots", 3, 8, "up to 1T" },
		{ "role iounit\n" OWNER "\nmemory 1M 2M", 3, 11, "memory BYTES" },
		{ "role owner\nmemory 1M", 2, 1, "this role" },
	};
	struct rio_config *c = read_text("role iounit\nadapters 3\nmemory 64k\n" OWNER);

	EXPECT_EQ(c->adapters, 3);
	EXPECT_EQ(c->memory_bytes, 65536);
	rio_config_destroy(c);
	EXPECT_REFUSALS(rows);
}

TEST(test_config_refusals_of_peers)
{
	static const struct refusal rows[] = {
		{ "role owner\nowner o 1.1 " KEY_A, 2, 1, "this role" },
		{ "role iounit\niounit o 1.1 " KEY_A, 2, 1, "this role" },
		{ "role requester\niounit o 1.1 " KEY_A, 2, 1, "this role" },
		{ "role iounit\nrequester o 1.1 " KEY_A, 2, 1, "this role" },
		{ "role iounit", 1, 1, "owner NAME" },
		{ "role requester\n", 2, 1, "owner NAME" },
		{ "role requester\nowner o 1.1", 2, 1, "owner NAME" },
		{ "role requester\n" OWNER " a b", 2, 83, "owner NAME" },
		{ "role requester\n" OWNER " a\n" OWNER " a", 3, 1, "once" },
		{ "role requester\nowner any 1.1 " KEY_A, 2, 7, "a name is" },
		{ "role requester\nowner a/b 1.1 " KEY_A, 2, 7, "a name is" },
		{ "role requester\nowner b\xc3\xa4r 1.1 " KEY_A, 2, 7, "a name is" },
		{ "role requester\nowner o 1 " KEY_A, 2, 9, "two whole numbers" },
		{ "role requester\nowner o 1.1 " KEY_A "0", 2, 13, "64 hexadecimal" },
		{ "role requester\nowner o 1.1 00", 2, 13, "64 hexadecimal" },
		{ "role requester\nowner o 1.1 g0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		  2, 13, "64 hexadecimal" },
		{ "role requester\nowner o 1.1 0`112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		  2, 13, "64 hexadecimal" },
		{ "role requester\n" OWNER, 2, 1, "no address" },
		{ "role owner\niounit o 2.1 " KEY_A, 2, 1, "no address" },
		{ "role iounit\n" OWNER " 1.2.3.4:1", 2, 81, "not dialled" },
		{ "role owner\nrequester a 2.1 " KEY_A " 1.2.3.4:1", 2, 82, "not dialled" },
		{ "role owner\nrequester a 2.1 " KEY_A "\nrequester a 2.2 " KEY_B, 3, 1, "name" },
		{ "role owner\nrequester a 2.1 " KEY_A "\niounit a 2.2 " KEY_B " a", 3, 1, "name" },
		{ "role owner\nrequester a 2.1 " KEY_A "\nrequester b 2.1 " KEY_B, 3, 1,
		  "platform" },
		{ "role owner\nrequester a 2.1 " KEY_A "\nrequester b 2.2 " KEY_A, 3, 1, "key" },
		{ "role owner\nrequester a 1.1 " KEY_A, 2, 1, "of self" },
		{ "role owner\nrequester a 2.1 " KEY_A "\nself 2.1", 2, 1, "of self" },
	};

	EXPECT_REFUSALS(rows);
}

TEST(test_config_refusals_of_devices)
{
	static const struct refusal rows[] = {
		{ "role owner\ndevice 1 a mem:1M", 2, 1, "this role" },
		{ "role iounit\ndevice 1 a", 2, 1, "device NUMBER" },
		{ "role iounit\ndevice 0 a mem:1M", 2, 8, "1 to 65535" },
		{ "role iounit\ndevice 65536 a mem:1M", 2, 8, "1 to 65535" },
		{ "role iounit\ndevice a a mem:1M", 2, 8, "1 to 65535" },
		{ "role iounit\ndevice 1 * mem:1M", 2, 10, "a name is" },
		{ "role iounit\ndevice 1 a mem:1M x", 2, 16, "a size is" },
		{ "role iounit\ndevice 1 a mem:1M,no", 2, 19, "mem has" },
		{ "role iounit\ndevice 1 a mem:1M\ndevice 1 b mem:1M", 3, 8, "number is another" },
		{ "role iounit\ndevice 1 a mem:1M\ndevice 2 a mem:1M", 3, 10, "name is another" },
	};

	EXPECT_REFUSALS(rows);
}

#define TWO "role owner\nrequester q 2.1 " KEY_A "\niounit u 3.1 " KEY_B " a\n"

TEST(test_rio_03_config_refusals_of_rules)
{
	static const struct refusal rows[] = {
		{ "role iounit\nallow any read *", 2, 1, "this role" },
		{ "role iounit\nshare a b", 2, 1, "this role" },
		{ TWO "allow q read", 4, 1, "allow REQUESTER" },
		{ TWO "allow q read * 1 2 3", 4, 20, "allow REQUESTER" },
		{ TWO "allow q reads *", 4, 9, "operations are" },
		{ TWO "allow q read, *", 4, 9, "operations are" },
		{ TWO "allow q ,read *", 4, 9, "operations are" },
		{ TWO "allow q read;write *", 4, 9, "operations are" },
		{ TWO "allow q read u", 4, 14, "UNIT/DEVICE" },
		{ TWO "allow q read /d", 4, 14, "UNIT/DEVICE" },
		{ TWO "allow q read u/", 4, 14, "UNIT/DEVICE" },
		{ TWO "allow q read */d", 4, 14, "UNIT/DEVICE" },
		{ TWO "allow q read u/d/e", 4, 14, "UNIT/DEVICE" },
		{ TWO "allow q read u/d 1M", 4, 18, "FIRST LENGTH" },
		{ TWO "allow q read u/d x 1M", 4, 18, "a size is" },
		{ TWO "allow q read u/d 1M x", 4, 21, "a size is" },
		{ TWO "allow q read u/d end end", 4, 18, "a size is" },
		{ TWO "allow q read u/d 1M 0", 4, 21, "no such bytes" },
		{ TWO "allow q read u/d 18446744073709551615 1", 4, 39, "no such bytes" },
		{ TWO "allow x read u/d", 4, 1, "no requester" },
		{ TWO "allow u read u/d", 4, 1, "no requester" },
		{ TWO "\nallow q read x/d", 5, 1, "no iounit" },
		{ TWO "\nallow q read q/d", 5, 1, "no iounit" },
		{ TWO "share q", 4, 1, "share REQUESTER" },
		{ TWO "share q u u", 4, 11, "share REQUESTER" },
		{ TWO "share x u", 4, 1, "no requester" },
		{ TWO "share u q", 4, 1, "no requester" },
		{ TWO "\nshare q x", 5, 1, "second name" },
		{ "role requester\nwatch q", 2, 1, "this role" },
		{ TWO "watch", 4, 1, "watch REQUESTER" },
		{ TWO "watch q q", 4, 9, "watch REQUESTER" },
		{ TWO "watch x", 4, 1, "no requester" },
		{ TWO "\nwatch u", 5, 1, "no requester" },
	};

	EXPECT_REFUSALS(rows);
}

/* Lines of which there is a limit, by number. */
static int write_requester(char *at, size_t size, uint32_t i)
{
	return snprintf(at, size, "requester q%u 2.%u %064x\n", i, i, i);
}

static int write_device(char *at, size_t size, uint32_t i)
{
	return snprintf(at, size, "device %u d%u mem:1M\n", i, i);
}

static int write_allow(char *at, size_t size, uint32_t i)
{
	return snprintf(at, size, "allow any read * %u 1M\n", i);
}

static int write_share(char *at, size_t size, uint32_t i)
{
	return snprintf(at, size, "share q u # %u\n", i);
}

static int write_watch(char *at, size_t size, uint32_t i)
{
	return snprintf(at, size, "watch q # %u\n", i);
}

static void expect_limit(const char *head, int (*write)(char *at, size_t size, uint32_t i),
			 uint32_t count, const char *why)
{
	size_t size = 256 * 1024, length;
	char *text = malloc(size);
	struct rio_config *c = NULL;

	REQUIRE(text);
	length = (size_t)snprintf(text, size, "%s", head);
	for (uint32_t i = 1; i <= count; i++)
		length += (size_t)write(text + length, size - length, i);
	REQUIRE(rio_config_read(text, length, &c, &complaint));
	rio_config_destroy(c);
	length += (size_t)write(text + length, size - length, count + 1);
	REQUIRE(!rio_config_read(text, length, &c, &complaint));
	free(text);
	EXPECT(strstr(complaint.why, why));
	EXPECT_EQ(complaint.column, 1);
}

TEST(test_config_has_limits)
{
	struct rio_config *c = NULL;
	char name[160], *text;

	expect_limit("role owner\n", write_requester, RIO_CONFIG_PEERS_MAX, "256");
	expect_limit("role iounit\n" OWNER "\n", write_device, RIO_CONFIG_DEVICES_MAX, "64");
	expect_limit(TWO, write_allow, RIO_CONFIG_RULES_MAX, "1024");
	expect_limit(TWO, write_share, RIO_CONFIG_SHARES_MAX, "256");
	expect_limit(TWO, write_watch, RIO_CONFIG_WATCHERS_MAX, "256");

	snprintf(name, sizeof(name), "role requester\nowner %064d 1.1 %s a", 1, KEY_A);
	rio_config_destroy(read_text(name));
	snprintf(name, sizeof(name), "role requester\nowner %065d 1.1 %s a", 1, KEY_A);
	EXPECT(!rio_config_read(name, strlen(name), &c, &complaint));
	EXPECT(strstr(complaint.why, "a name is"));
	snprintf(name, sizeof(name), "role owner\netcd http://a /%0126d/", 1);
	rio_config_destroy(read_text(name));
	snprintf(name, sizeof(name), "role owner\netcd http://a /%0127d/", 1);
	EXPECT(!rio_config_read(name, strlen(name), &c, &complaint));
	EXPECT(strstr(complaint.why, "128"));

	text = malloc(CONFIG_BYTES_MAX + 1);
	REQUIRE(text);
	memset(text, ' ', CONFIG_BYTES_MAX + 1);
	memcpy(text, "role owner", 10);
	EXPECT(rio_config_read(text, CONFIG_BYTES_MAX, &c, &complaint));
	rio_config_destroy(c);
	EXPECT(!rio_config_read(text, CONFIG_BYTES_MAX + 1, &c, &complaint));
	EXPECT(strstr(complaint.why, "1 MiB"));
	free(text);
}

TEST(test_config_text_is_as_long_as_is_said)
{
	static const char text[] = "role owner\nself 1.1\0\nself 1.1";
	struct rio_config *c = NULL;

	EXPECT(!rio_config_read(text, sizeof(text) - 1, &c, &complaint));
	EXPECT(complaint.line == 2 && complaint.column == 9);
	EXPECT(strstr(complaint.why, "control"));
	EXPECT(rio_config_read("role ownerX", 10, &c, &complaint));
	rio_config_destroy(c);
}
