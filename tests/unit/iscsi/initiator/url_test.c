/* SPDX-License-Identifier: BSD-2-Clause */
/* URLs of logical units and portals, in the forms that libiscsi and qemu take. */
#include "test.h"

#include <string.h>

#include "iscsi/initiator/url.h"

#define IQN "iqn.2020-01.com.example:disk"

static struct iscsi_url url;
static struct iscsi_url_complaint complaint;

static bool is_same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool parse(const char *text)
{
	return iscsi_url_parse(text, &url, &complaint);
}

/* Refused at this position with words that contain `why`, and nothing is left of the text. */
static bool is_refused(const char *text, uint32_t at, const char *why)
{
	static const struct iscsi_url none;

	return !parse(text) && complaint.at == at && strstr(complaint.why, why) &&
	       memcmp(&url, &none, sizeof(url)) == 0;
}

TEST(test_url_names_a_unit)
{
	EXPECT(parse("iscsi://storage.example/" IQN "/7"));
	EXPECT(is_same(url.host, "storage.example") && url.port == 3260);
	EXPECT(is_same(url.target.text, IQN) && url.lun == 7);
	EXPECT(!url.is_iser && url.user[0] == '\0' && url.password[0] == '\0');
	EXPECT(parse("iscsi://10.1.2.3:860/" IQN "/16383"));
	EXPECT(is_same(url.host, "10.1.2.3") && url.port == 860 && url.lun == 16383);
}

TEST(test_url_of_a_portal_needs_no_unit)
{
	EXPECT(parse("iscsi://host") && is_same(url.host, "host") && url.target.length == 0);
	EXPECT(parse("iscsi://host:1/") && url.port == 1 && url.target.length == 0);
	EXPECT(parse("iscsi://user@host") && is_same(url.user, "user"));
}

TEST(test_url_ipv6_stands_in_brackets)
{
	EXPECT(parse("iscsi://[fd00::1]/" IQN "/0"));
	EXPECT(is_same(url.host, "fd00::1") && url.port == 3260);
	EXPECT(parse("iscsi://u%p@[fe80::1%eth0]:3261/" IQN "/0"));
	EXPECT(is_same(url.host, "fe80::1%eth0") && url.port == 3261);
	EXPECT(is_same(url.user, "u") && is_same(url.password, "p"));
	EXPECT(is_refused("iscsi://[fd00::1/" IQN "/0", 8, "in []"));
	EXPECT(is_refused("iscsi://[]/" IQN "/0", 9, "host"));
	EXPECT(is_refused("iscsi://[::1]3260/" IQN "/0", 13, "host"));
	EXPECT(is_refused("iscsi://[::1]:/" IQN "/0", 14, "port"));
}

TEST(test_url_account_is_split_as_libiscsi_does)
{
	EXPECT(parse("iscsi://me%top/se:cret@host/" IQN "/0"));
	EXPECT(is_same(url.user, "me") && is_same(url.password, "top/se:cret"));
	EXPECT(parse("iscsi://me:secret@host/" IQN "/0"));
	EXPECT(is_same(url.user, "me") && is_same(url.password, "secret"));
	EXPECT(parse("iscsi://me@host/" IQN "/0") && url.password[0] == '\0');
	EXPECT(is_refused("iscsi://%secret@host/" IQN "/0", 8, "user"));
	EXPECT(is_refused("iscsi://me%@host/" IQN "/0", 11, "password"));
}

TEST(test_url_options_set_mutual_chap_and_digests)
{
	EXPECT(parse("iscsi://h/" IQN "/0?target_user=disk&target_password=a=b"));
	EXPECT(is_same(url.target_user, "disk") && is_same(url.target_password, "a=b"));
	EXPECT(url.header_digest == ISCSI_URL_ANY_DIGEST);
	EXPECT(parse("iscsi://h/" IQN "/0?header_digest=crc32c&data_digest=none"));
	EXPECT(url.header_digest == ISCSI_URL_CRC32C && url.data_digest == ISCSI_URL_NO_DIGEST);
	EXPECT(parse("iscsi://h/" IQN "/0?initiator=iqn.2020-01.com.example:me&secrets=/a/b"));
	EXPECT(is_same(url.initiator.text, "iqn.2020-01.com.example:me"));
	EXPECT(is_same(url.secrets, "/a/b"));
	EXPECT(parse("iscsi://h?"));
}

TEST(test_url_iser_is_known_by_scheme_or_option)
{
	EXPECT(parse("iser://h/" IQN "/0") && url.is_iser && is_same(url.host, "h"));
	EXPECT(parse("iscsi://h/" IQN "/0?iser") && url.is_iser);
	EXPECT(iscsi_url_is("iser://") && iscsi_url_is("iscsi://x") && !iscsi_url_is("iscsi:/x"));
}

TEST(test_url_option_that_is_unknown_is_refused)
{
	EXPECT(is_refused("iscsi://h/" IQN "/0?header_digst=crc32c", 41, "options are"));
	EXPECT(is_refused("iscsi://h/" IQN "/0?header_digest=md5", 55, "digest"));
	EXPECT(is_refused("iscsi://h/" IQN "/0?header_digest", 54, "digest"));
	EXPECT(is_refused("iscsi://h/" IQN "/0?iser&&iser", 46, "options are"));
	EXPECT(is_refused("iscsi://h/" IQN "/0?target_user=", 53, "target_user"));
}

TEST(test_url_target_may_have_bytes_in_hexadecimal)
{
	EXPECT(parse("iscsi://h/iqn.2020-01.com.example%3Adisk/1"));
	EXPECT(is_same(url.target.text, IQN) && url.lun == 1);
	EXPECT(is_refused("iscsi://h/iqn.2020-01.com.example%3/1", 33, "hexadecimal"));
	EXPECT(is_refused("iscsi://h/iqn.2020-01.com.example%zz/1", 33, "hexadecimal"));
	EXPECT(is_refused("iscsi://h/iqn.2020-01.com.example%00/1", 10, "iSCSI name"));
}

TEST(test_url_that_is_none_is_refused_where_it_ends_to_be_one)
{
	static char text[ISCSI_URL_TEXT_MAX + 2];

	EXPECT(is_refused("http://h/" IQN "/0", 0, "a URL is"));
	EXPECT(is_refused("", 0, "a URL is"));
	EXPECT(is_refused("iscsi://", 8, "host"));
	EXPECT(is_refused("iscsi://h/" IQN, 10, "a URL is"));
	EXPECT(is_refused("iscsi://h/disk/0", 10, "iSCSI name"));
	EXPECT(is_refused("iscsi://h//0", 10, "iSCSI name"));
	EXPECT(is_refused("iscsi://h/" IQN "/", 39, "LUN"));
	EXPECT(is_refused("iscsi://h/" IQN "/16384", 39, "LUN"));
	EXPECT(is_refused("iscsi://h/" IQN "/0/1", 39, "LUN"));
	EXPECT(is_refused("iscsi://h:0/" IQN "/0", 10, "port"));
	EXPECT(is_refused("iscsi://h:65536/" IQN "/0", 10, "port"));
	EXPECT(is_refused("iscsi://h:12a/" IQN "/0", 10, "port"));
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "iscsi://", 8);
	EXPECT(is_refused(text, 0, "4095"));
	text[8 + 256] = '\0';
	EXPECT(is_refused(text, 8, "host"));
	text[8 + 255] = '\0';
	EXPECT(parse(text) && strlen(url.host) == 255);
}
