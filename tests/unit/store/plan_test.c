/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "store/plan.h"
#include "test.h"

static struct store_plan plan;

static bool is_read(const char *text)
{
	struct store_complaint complaint;

	return store_plan_read(&plan, text, &complaint);
}

TEST(test_plan_reads_memory_and_files)
{
	const struct store_node *n = &plan.nodes[0];

	EXPECT(is_read("mem:1G"));
	EXPECT_EQ(plan.count, 1);
	EXPECT_EQ(n->kind, STORE_KIND_MEM);
	EXPECT_EQ(n->size_bytes, 1 << 30);
	EXPECT_EQ(n->parent, STORE_NO_NODE);
	EXPECT(is_read("mem:3T,block=4096,ro"));
	EXPECT_EQ(n->size_bytes, INT64_C(3) << 40);
	EXPECT_EQ(n->block_bytes, 4096);
	EXPECT(n->is_readonly);
	EXPECT(is_read("file:/a/path,size=10G,block=4k,direct,threads"));
	EXPECT_EQ(n->kind, STORE_KIND_FILE);
	EXPECT_EQ(n->path_length, 7);
	EXPECT(memcmp(n->path, "/a/path", 7) == 0);
	EXPECT_EQ(n->size_bytes, INT64_C(10) << 30);
	EXPECT_EQ(n->block_bytes, 4096);
	EXPECT(n->is_direct && !n->is_readonly);
	EXPECT_EQ(n->engine, STORE_ENGINE_THREADS);
	EXPECT_EQ(n->wait_ns, INT64_C(500000000)); /* not said */
	EXPECT(is_read("file:/a,wait=0s"));
	EXPECT_EQ(n->wait_ns, 0);
	EXPECT(is_read("file:/a,wait=10s"));
	EXPECT_EQ(n->wait_ns, INT64_C(10000000000));
	EXPECT(!is_read("file:/a,wait=soon"));
	EXPECT(is_read("file:\"/odd, (name)\",uring"));
	EXPECT_EQ(n->path_length, 12);
	EXPECT(memcmp(n->path, "/odd, (name)", 12) == 0);
	EXPECT_EQ(n->engine, STORE_ENGINE_URING);
	EXPECT(is_read("file:mem:1G"));
	EXPECT_EQ(n->path_length, 6);
}

TEST(test_plan_reads_devices_of_other_units)
{
	const struct store_node *n = &plan.nodes[0];

	EXPECT(is_read("rio:/etc/weft/other.conf,device=disk"));
	EXPECT_EQ(n->kind, STORE_KIND_RIO);
	EXPECT_EQ(n->path_length, 20);
	EXPECT_MEM(n->path, "/etc/weft/other.conf", 20);
	EXPECT_EQ(n->device_length, 4);
	EXPECT_MEM(n->device, "disk", 4);
	EXPECT(!is_read("rio"));
	EXPECT(!is_read("rio:/path,device="));
	EXPECT(!is_read("rio:/path,size=1M"));
	EXPECT(!is_read("rio:/path,device=a(mem:1M)"));
}

TEST(test_plan_reads_urls_of_iscsi_targets)
{
	static const char url[] =
		"//user%secret@[::1]:3260/iqn.2026-11.org.example:disk/0?initiator=iqn.2026-11.x";
	const struct store_node *n = plan.nodes;
	char text[256];

	snprintf(text, sizeof(text), "iscsi:%s", url);
	EXPECT(is_read(text));
	EXPECT(n[0].kind == STORE_KIND_ISCSI && !n[0].is_readonly);
	EXPECT_EQ(n[0].path_length, sizeof(url) - 1);
	EXPECT_MEM(n[0].path, url, sizeof(url) - 1);
	EXPECT_EQ(n[0].wait_ns, INT64_C(30000000000)); /* not said */
	snprintf(text, sizeof(text), "mirror(iser:%s,ro,wait=0s,iscsi://host/target/1)", url);
	EXPECT(is_read(text));
	EXPECT(n[1].kind == STORE_KIND_ISER && n[1].is_readonly && n[1].wait_ns == 0);
	EXPECT_MEM(n[1].path, url, sizeof(url) - 1);
	EXPECT(n[2].kind == STORE_KIND_ISCSI && !n[2].is_readonly && n[2].parent == 0);
	EXPECT_MEM(n[2].path, "//host/target/1", n[2].path_length);
	/* Quotes hold what has a comma, and then all of it. */
	EXPECT(is_read("iscsi:\"iscsi://host/a,b(c)/1\",ro"));
	EXPECT_EQ(n[0].path_length, 15);
	EXPECT_MEM(n[0].path, "//host/a,b(c)/1", 15);
	EXPECT(!is_read("iscsi:iser://host/target/1"));
	EXPECT(!is_read("iscsi:host/target/1"));
	EXPECT(!is_read("iscsi://"));
	EXPECT(!is_read("iscsi"));
	EXPECT(!is_read("iscsi://host/target/1,wait=soon"));
	EXPECT(!is_read("iscsi://host/target/1,ro=1"));
	EXPECT(!is_read("iscsi://host/target/1,size=1M"));
	EXPECT(!is_read("iscsi://host/target/1(mem:1M)"));
}

TEST(test_plan_sizes_have_units)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{ "mem:7", 7 },
		{ "mem:7B", 7 },
		{ "mem:1k", 1024 },
		{ "mem:1K", 1024 },
		{ "mem:1KiB", 1024 },
		{ "mem:2M", 2 << 20 },
		{ "mem:2MiB", 2 << 20 },
		{ "mem:1GiB", 1 << 30 },
		{ "mem:5TiB", UINT64_C(5) << 40 },
		{ "mem:1P", UINT64_C(1) << 50 },
		{ "mem:1PiB", UINT64_C(1) << 50 },
		{ "mem:18446744073709551615", UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT(is_read(rows[i].text));
		EXPECT_EQ(plan.nodes[0].size_bytes, rows[i].bytes);
	}
}

TEST(test_plan_reads_trees)
{
	const struct store_node *n = plan.nodes;

	EXPECT(is_read("stripe:64k(mem:1G,block=4096,mirror(file:a,size=1G,file:b),delay:5us("
		       "fault:seed=7,error=0.01,torn=1,crash=9,at=1M+4k,at=0+1(mem:2G,ro)))"));
	EXPECT_EQ(plan.count, 8);
	EXPECT_EQ(n[0].unit_bytes, 65536);
	EXPECT_EQ(n[0].member_count, 3);
	EXPECT(n[1].kind == STORE_KIND_MEM && n[1].parent == 0 && n[1].block_bytes == 4096);
	EXPECT(n[2].kind == STORE_KIND_MIRROR && n[2].parent == 0 && n[2].member_count == 2);
	EXPECT(n[3].kind == STORE_KIND_FILE && n[3].parent == 2 && n[3].size_bytes == 1 << 30);
	EXPECT(n[4].kind == STORE_KIND_FILE && n[4].parent == 2 && n[4].path[0] == 'b');
	EXPECT(n[5].kind == STORE_KIND_DELAY && n[5].parent == 0 && n[5].delay_ns == 5000);
	EXPECT(n[6].kind == STORE_KIND_FAULT && n[6].parent == 5);
	EXPECT(n[6].fault.seed == 7 && n[6].fault.error == 10000000);
	EXPECT(n[6].fault.torn == 1000000000 && n[6].fault.crash_at == 9);
	EXPECT_EQ(n[6].fault.range_count, 2);
	EXPECT(n[6].fault.ranges[0].offset == 1 << 20 && n[6].fault.ranges[0].length == 4096);
	EXPECT(n[6].fault.ranges[1].offset == 0 && n[6].fault.ranges[1].length == 1);
	EXPECT(n[7].kind == STORE_KIND_MEM && n[7].parent == 6 && n[7].is_readonly);
	EXPECT_EQ(n[2].at, 29);
	EXPECT(is_read("fault(mem:1k)"));
	EXPECT_EQ(n[0].fault.seed, 1);
}

TEST(test_plan_reads_volatile_caches)
{
	const struct store_node *n = plan.nodes;

	EXPECT(is_read("volatile(mem:1M)"));
	EXPECT(n[0].kind == STORE_KIND_VOLATILE && n[0].member_count == 1);
	EXPECT(n[0].cache.seed == 1 && n[0].cache.keep == 0);
	EXPECT_EQ(n[0].cache.room_bytes, 16 << 20);
	EXPECT(is_read("volatile:seed=7,keep=0.25,room=1M(mem:1M)"));
	EXPECT(n[0].cache.seed == 7 && n[0].cache.keep == 250000000);
	EXPECT_EQ(n[0].cache.room_bytes, 1 << 20);
	EXPECT(!is_read("volatile(mem:1M,mem:1M)"));
	EXPECT(!is_read("volatile:keep=2(mem:1M)"));
	EXPECT(!is_read("volatile:lose=1(mem:1M)"));
}

TEST(test_plan_reads_what_a_mirror_may_do)
{
	const struct store_node *n = plan.nodes;

	EXPECT(is_read("mirror(mem:1M,mem:1M)"));
	EXPECT(!n[0].is_degraded_ok && !n[0].is_adopting);
	EXPECT(is_read("mirror:degraded(mem:1M,mem:1M)"));
	EXPECT(n[0].is_degraded_ok && !n[0].is_adopting);
	EXPECT(is_read("mirror:adopt,degraded(mem:1M,mem:1M)"));
	EXPECT(n[0].is_degraded_ok && n[0].is_adopting);
	EXPECT(!is_read("mirror:degraded=1(mem:1M,mem:1M)"));
	EXPECT_EQ(n[0].wait_ns, INT64_C(30000000000)); /* not said */
	EXPECT(is_read("mirror:wait=2s(mem:1M,mem:1M)"));
	EXPECT_EQ(n[0].wait_ns, INT64_C(2000000000));
	EXPECT(!is_read("mirror:wait=0s(mem:1M,mem:1M)"));
}

TEST(test_plan_refusals_say_where_and_why)
{
	static const struct {
		const char *text;
		uint32_t at;
		const char *why; /* some of it */
	} rows[] = {
		{ "", 0, "begins with" },
		{ "disk:1G", 0, "begins with" },
		{ "mem", 0, "begins with" },
		{ "memx:1G", 0, "begins with" },
		{ "mem:", 4, "a size" },
		{ "mem:x", 4, "a size" },
		{ "mem:1X", 4, "a size" },
		{ "mem:-1", 4, "a size" },
		{ "mem:18446744073709551616", 4, "a size" },
		{ "mem:18014398509481984k", 4, "a size" },
		{ "mem:1G,", 7, "mem has" },
		{ "mem:1G,block=1024", 7, "512 or 4096" },
		{ "mem:1G,block", 7, "mem has" },
		{ "mem:1G,ro=1", 7, "mem has" },
		{ "mem:1G,direct", 7, "mem has" },
		{ "mem:1G,mem:1G", 7, "mem has" },
		{ "mem:1G(mem:1G)", 6, "no members" },
		{ "mem:1G)", 6, "has ended" },
		{ "mem(", 3, "has a size" },
		{ "file:", 5, "a path" },
		{ "file:\"\"", 5, "a path" },
		{ "file:\"a", 5, "quotes" },
		{ "file:\"a\"b", 8, "after quotes" },
		{ "file:a,size=0", 7, "a size" },
		{ "file:a,size", 7, "file has" },
		{ "file:a,fast", 7, "file has" },
		{ "stripe(mem:1G)", 6, "a length" },
		{ "stripe:64k", 10, "members follow" },
		{ "stripe:64k()", 11, "begins with" },
		{ "stripe:64k,ro(mem:1G)", 11, "no more" },
		{ "stripe:x(mem:1G)", 7, "a size" },
		{ "stripe:64k(mem:1G", 17, "missing" },
		{ "stripe:64k(mem:1G,)", 18, "mem has" },
		{ "stripe:64k(mem:1G))", 18, "has ended" },
		{ "stripe:64k(mem:1G)x", 18, "has ended" },
		{ "mirror:2(mem:1G)", 7, "mirror has" },
		{ "delay:1(mem:1G)", 6, "a time" },
		{ "delay:1ms(mem:1G,mem:1G)", 17, "too many" },
		{ "fault:error=1.1(mem:1G)", 6, "a chance" },
		{ "fault:error=2(mem:1G)", 6, "a chance" },
		{ "fault:error=.5(mem:1G)", 6, "a chance" },
		{ "fault:error=0.(mem:1G)", 6, "a chance" },
		{ "fault:error=0.0000000001(mem:1G)", 6, "a chance" },
		{ "fault:error(mem:1G)", 6, "a chance" },
		{ "fault:seed=x(mem:1G)", 6, "whole number" },
		{ "fault:seed(mem:1G)", 6, "whole number" },
		{ "fault:at=5(mem:1G)", 6, "OFFSET+LENGTH" },
		{ "fault:at=5+x(mem:1G)", 6, "a size" },
		{ "fault:seed=1,what=2(mem:1G)", 13, "fault has" },
		{ "fault:at=0+1,at=0+1,at=0+1,at=0+1,at=0+1,at=0+1,at=0+1,at=0+1,at=0+1(mem:1)", 62,
		  "8 bad" },
		{ "fault(fault(fault(fault(fault(fault(fault(fault(mem:1G))))))))", 47, "8 deep" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct store_complaint complaint;
		bool is_good = store_plan_read(&plan, rows[i].text, &complaint);

		if (is_good || complaint.at != rows[i].at || !strstr(complaint.why, rows[i].why))
			EXPECT_STR(rows[i].text, is_good ? "was read" : complaint.why);
	}
	EXPECT(is_read("fault(fault(fault(fault(fault(fault(fault(mem:1G)))))))"));
}

TEST(test_plan_says_why_a_mirror_cannot_wait_for_no_time)
{
	struct store_complaint complaint;

	EXPECT(!store_plan_read(&plan, "mirror:wait=0s(mem:1M,mem:1M)", &complaint));
	EXPECT_EQ(complaint.at, 7);
	EXPECT(strstr(complaint.why, "more than 0s") != NULL);
	EXPECT(!store_plan_read(&plan, "mirror:wait=soon(mem:1M,mem:1M)", &complaint));
	EXPECT(strstr(complaint.why, "a time is") != NULL);
}

TEST(test_plan_numbers_of_devices_are_limited)
{
	static char text[70000];
	struct store_complaint complaint;
	char *at = text;

	/* 17 members in one stripe. */
	at += strlen(strcpy(at, "stripe:1k("));
	for (int i = 0; i < 17; i++)
		at += strlen(strcpy(at, i ? ",mem:1k" : "mem:1k"));
	EXPECT(!store_plan_read(&plan, text, &complaint));
	EXPECT(strstr(complaint.why, "too many") != NULL);
	/* 5 x 14 devices. */
	at = text + strlen(strcpy(text, "mirror("));
	for (int i = 0; i < 70; i++) {
		if (i % 14 == 0)
			at += strlen(strcpy(at, i ? "),mirror(mem:1k" : "mirror(mem:1k"));
		else
			at += strlen(strcpy(at, ",mem:1k"));
	}
	EXPECT(!store_plan_read(&plan, text, &complaint));
	EXPECT(strstr(complaint.why, "more than 64") != NULL);
	memset(text, 'a', sizeof(text) - 1);
	memcpy(text, "file:", 5);
	EXPECT(!store_plan_read(&plan, text, &complaint));
	text[65535] = '\0';
	EXPECT(store_plan_read(&plan, text, &complaint));
}
