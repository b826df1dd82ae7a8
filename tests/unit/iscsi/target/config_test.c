/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of an iSCSI target's configuration and of its secrets: what is read, what is refused. */
#include "iscsi/target/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define ROLE "role iscsi-target\n"
#define TARGET "target iqn.2026-11.org.example:disk\n"
#define DISK TARGET "lun 0 mem:1M\n"

static struct config_complaint complaint;

static struct iscsi_config *read_text(const char *text)
{
	struct iscsi_config *c = NULL;

	if (!iscsi_config_read(text, strlen(text), &c, &complaint)) {
		printf("%u:%u: %s\n", complaint.line, complaint.column, complaint.why);
		REQUIRE(false);
	}
	return c;
}

TEST(test_config_of_a_target)
{
	struct iscsi_config *c = read_text("# All of it.\n"
					   "role iscsi-target\n"
					   "listen 10.0.0.1:3260\n"
					   "listen [::1]:0\n"
					   "discovery-chap some secrets\n"
					   "sessions 7\n"
					   "commands 9\n"
					   "memory 33M\n"
					   "login-timeout 2s\n"
					   "alive 4s\n"
					   "end-timeout 0s\n"
					   "spin 50us\n"
					   "target IQN.2026-11.org.example:Disk The first one\n"
					   "  lun 3 readonly  file:/a b,size=1M # there\n"
					   "  lun 255 mem:1M\n"
					   "  allow any 10.0.0.0/8\n"
					   "  allow iqn.1994-05.com.redhat:abc\n"
					   "  chap secrets of it\n"
					   "target naa.52004567ba64678d\n"
					   "lun 3 mem:2M");

	EXPECT_EQ(c->portal_count, 2);
	EXPECT_STR(c->portals[0].is, "10.0.0.1:3260");
	EXPECT_EQ(c->portals[1].line, 4);
	EXPECT_STR(c->discovery_chap.is, "some secrets");
	EXPECT(c->sessions_max == 7 && c->commands_max == 9 && c->memory_bytes == 33 << 20);
	EXPECT(c->login_ns == 2000000000 && c->alive_ns == 4000000000 && c->end_ns == 0);
	EXPECT_EQ(c->spin_ns, 50000);
	REQUIRE(c->target_count == 2 && c->lun_count == 3 && c->rule_count == 2);
	EXPECT_STR(c->targets[0].name.text, "iqn.2026-11.org.example:disk");
	EXPECT_STR(c->targets[0].alias, "The first one");
	EXPECT_STR(c->targets[0].chap.is, "secrets of it");
	EXPECT(c->targets[0].has_rules && !c->targets[1].has_rules);
	EXPECT_STR(c->targets[1].alias, "");
	EXPECT(!c->targets[1].chap.is);
	EXPECT(c->luns[0].target == 0 && c->luns[0].lun == 3 && c->luns[0].is_readonly);
	EXPECT_STR(c->luns[0].text, "file:/a b,size=1M");
	EXPECT(c->luns[0].line == 14 && c->luns[0].column == 19);
	EXPECT(c->luns[1].lun == 255 && !c->luns[1].is_readonly);
	EXPECT(c->luns[2].target == 1 && c->luns[2].lun == 3);
	EXPECT(c->rules[0].target == 0 && c->rules[0].initiator.length == 0);
	EXPECT_STR(c->rules[0].address.is, "10.0.0.0/8");
	EXPECT_STR(c->rules[1].initiator.text, "iqn.1994-05.com.redhat:abc");
	EXPECT(!c->rules[1].address.is);
	iscsi_config_destroy(c);
}

TEST(test_config_defaults_are_for_this_host)
{
	struct iscsi_config *c = read_text(ROLE DISK);

	EXPECT_EQ(c->portal_count, 1);
	EXPECT_STR(c->portals[0].is, "127.0.0.1:3260");
	EXPECT(!c->targets[0].has_rules && c->rule_count == 0);
	EXPECT(c->sessions_max == 64 && c->commands_max == 128);
	EXPECT_EQ(c->memory_bytes, 64 << 20);
	EXPECT(c->login_ns == 15000000000 && c->alive_ns == 30000000000 && c->end_ns == 3000000000);
	EXPECT_EQ(c->spin_ns, 50000);
	iscsi_config_destroy(c);
}

struct bad {
	const char *text;
	uint32_t line, column;
	const char *why;
};

static void expect_bad(const struct bad *b)
{
	struct iscsi_config *c;

	REQUIRE(!iscsi_config_read(b->text, strlen(b->text), &c, &complaint));
	if (complaint.line != b->line || complaint.column != b->column ||
	    !strstr(complaint.why, b->why))
		printf("%s\n%u:%u: %s\n", b->text, complaint.line, complaint.column, complaint.why);
	EXPECT_EQ(complaint.line, b->line);
	EXPECT_EQ(complaint.column, b->column);
	EXPECT(strstr(complaint.why, b->why));
}

TEST(test_config_refusals_say_where_and_why)
{
	static const struct bad bad[] = {
		{ "", 1, 1, "the first line is" },
		{ "listen :1\n", 1, 1, "the first line is" },
		{ "role iounit\n", 1, 6, "iscsi-target" },
		{ ROLE, 2, 1, "a line is missing: target" },
		{ ROLE TARGET, 2, 1, "has no line: lun" },
		{ ROLE "nonsense 1\n" DISK, 2, 1, "no such keyword" },
		{ ROLE "sessions 0\n" DISK, 2, 10, "1 to 4096" },
		{ ROLE "sessions 4097\n" DISK, 2, 10, "1 to 4096" },
		{ ROLE "sessions 5\nsessions 5\n" DISK, 3, 1, "said before" },
		{ ROLE "commands 1025\n" DISK, 2, 10, "1 to 1024" },
		{ ROLE "memory 31M\n" DISK, 2, 8, "from 32M" },
		{ ROLE "memory 33793k\n" DISK, 2, 8, "from 32M" },
		{ ROLE "memory 2T\n" DISK, 2, 8, "to 1T" },
		{ ROLE "login-timeout 1ms\n" DISK, 2, 15, "from 1s" },
		{ ROLE "alive 3601s\n" DISK, 2, 7, "from 1s" },
		{ ROLE "end-timeout 3601s\n" DISK, 2, 13, "up to 3600s" },
		{ ROLE "spin 2s\n" DISK, 2, 6, "up to 1s" },
		{ ROLE "target disk\n", 2, 8, "an iSCSI name is" },
		{ ROLE DISK TARGET, 4, 8, "another target's" },
		{ ROLE DISK "target IQN.2026-11.ORG.example:DISK\n", 4, 8, "another target's" },
		{ ROLE "lun 0 mem:1M\n" DISK, 2, 1, "follows target" },
		{ ROLE "allow any\n" DISK, 2, 1, "follows target" },
		{ ROLE "chap x\n" DISK, 2, 1, "follows target" },
		{ ROLE TARGET "lun 256 mem:1M\n", 3, 5, "0 to 255" },
		{ ROLE TARGET "lun 0 tape:1M\n", 3, 7, "" },
		{ ROLE TARGET "lun 0 readonly tape:1M\n", 3, 16, "" },
		{ ROLE DISK "lun 0 mem:1M\n", 4, 5, "has that LUN already" },
		{ ROLE DISK "allow disk\n", 4, 7, "an iSCSI name is" },
		{ ROLE DISK "allow any 1.2.3.4 5\n", 4, 19, "a line is: allow" },
		{ ROLE DISK "chap a\nchap b\n", 5, 1, "a chap line already" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_bad(&bad[i]);
}

TEST(test_config_longer_than_a_file_may_be_is_refused)
{
	char *text = calloc(1, CONFIG_BYTES_MAX + 2);
	struct iscsi_config *c;

	REQUIRE(text);
	memset(text, '\n', CONFIG_BYTES_MAX + 1);
	EXPECT(!iscsi_config_read(text, CONFIG_BYTES_MAX + 1, &c, &complaint));
	EXPECT_STR(complaint.why, "a file has at most 1 MiB");
	free(text);
}

/* ---- Secrets -------------------------------------------------------------------------------- */

TEST(test_secrets_of_both_ends)
{
	static const char text[] = "# Ours.\n"
				   "initiator alice  correct horse battery\n"
				   "initiator bob 0123456789ab\n"
				   "target disk another secret\n";
	struct iscsi_secrets *s;

	REQUIRE(iscsi_secrets_read(text, sizeof(text) - 1, &s, &complaint));
	REQUIRE(s->initiator_count == 2);
	EXPECT(word_is(s->initiators[0].name, "alice"));
	EXPECT(word_is(s->initiators[0].secret, "correct horse battery"));
	EXPECT(word_is(s->initiators[1].secret, "0123456789ab"));
	EXPECT(word_is(s->self.name, "disk") && word_is(s->self.secret, "another secret"));
	iscsi_secrets_destroy(s);
}

TEST(test_secrets_of_initiators_alone)
{
	static const char text[] = "initiator bob 0123456789ab";
	struct iscsi_secrets *s;

	REQUIRE(iscsi_secrets_read(text, sizeof(text) - 1, &s, &complaint));
	EXPECT_EQ(s->self.name.length, 0);
	iscsi_secrets_destroy(s);
}

/* RFC 7143 section 9.2.1: 96 bits at least, and another secret for each direction. */
TEST(test_secrets_refusals_say_where_and_why)
{
	static const struct bad bad[] = {
		{ "", 1, 1, "a line is missing: initiator" },
		{ "target disk 0123456789ab", 1, 1, "a line is missing: initiator" },
		{ "initiator bob 0123456789a", 1, 15, "12 to 255" },
		{ "initiator bob", 1, 1, "a line is: initiator" },
		{ "initiator bob 0123456789ab\ninitiator bob 0123456789ac", 2, 11, "said before" },
		{ "initiator bob 0123456789ab\ntarget disk 0123456789ab", 2, 1, "that differ" },
		{ "target a 0123456789ab\ntarget b 0123456789ac\n", 2, 1, "said before" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct iscsi_secrets *s;

		REQUIRE(!iscsi_secrets_read(bad[i].text, strlen(bad[i].text), &s, &complaint));
		EXPECT_EQ(complaint.line, bad[i].line);
		EXPECT_EQ(complaint.column, bad[i].column);
		EXPECT(strstr(complaint.why, bad[i].why));
	}
}
