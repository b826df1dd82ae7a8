/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls to a real etcd, and to servers that are none. */
#include "roles/etcd.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "unit/roles/etcd_server.h"

static const struct platform seven = { 7, 1 }, two = { 2, 1 };

static struct etcd_server server;
static char why[ETCD_WHY];

static struct etcd *etcd_at(const char *url, const char *prefix, const char *ca)
{
	struct etcd_config c = { .url = url, .prefix = prefix, .ca_path = ca, .timeout_ms = 10000 };
	struct etcd *e = NULL;

	if (!etcd_open(&c, &e, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
	return e;
}

static struct weft_address address_of(const char *text)
{
	struct weft_address a;

	REQUIRE(weft_address_parse(text, &a) == WEFT_OK);
	return a;
}

/* Where it is; "" if it is not there. */
static const char *found(struct etcd *e, struct platform who)
{
	static char text[WEFT_ADDRESS_TEXT];
	struct weft_address a;

	if (!etcd_find(e, &who, 1, &a, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
	text[0] = '\0';
	if (a.family != 0)
		weft_address_text(&a, text);
	return text;
}

static void put(struct etcd *e, struct platform who, const char *text, int64_t lease)
{
	struct weft_address a = address_of(text);

	if (!etcd_put(e, who, &a, lease, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
}

static uint64_t term_of(struct etcd *e, struct platform who, uint64_t least)
{
	uint64_t term = 0;

	if (!etcd_term(e, who, least, &term, why)) {
		printf("%s\n", why);
		REQUIRE(false);
	}
	return term;
}

TEST(test_rio_09_etcd_gives_each_owner_a_higher_term)
{
	struct etcd *e, *other;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	e = etcd_at(server.url, "/weft/", NULL);
	other = etcd_at(server.url, "/weft/", NULL);
	EXPECT_EQ(term_of(e, seven, 1000), 1000U);
	EXPECT_EQ(term_of(other, seven, 900), 1001U); /* its clock is slow */
	EXPECT_EQ(term_of(e, seven, 1001), 1002U);
	EXPECT_EQ(term_of(e, seven, UINT64_C(1) << 62), UINT64_C(1) << 62);
	EXPECT_EQ(term_of(e, two, 3), 3U);
	/* It is not taken for an address. */
	EXPECT_STR(found(e, seven), "");
	put(e, seven, "192.0.2.7:7471", 0);
	EXPECT_STR(found(e, seven), "192.0.2.7:7471");
	EXPECT_EQ(term_of(e, two, 0), 4U);
	etcd_close(e);
	etcd_close(other);
	etcd_server_stop(&server);
}

TEST(test_rio_14_etcd_knows_where_platforms_are)
{
	const struct platform who[] = { { 9, 9 }, { 2, 1 }, { 2, 11 }, { 7, 1 } };
	struct weft_address a[4];
	struct etcd *e, *other;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	e = etcd_at(server.url, "/weft/", NULL);
	strcat(server.url, "/"); /* as people write it */
	other = etcd_at(server.url, "/weft/two/", NULL);
	server.url[strlen(server.url) - 1] = '\0';
	EXPECT_STR(found(e, seven), "");
	EXPECT_STR(why, "");
	put(e, seven, "127.0.0.1:7470", 0);
	EXPECT_STR(found(e, seven), "127.0.0.1:7470");
	EXPECT_STR(found(e, two), "");
	put(e, two, "[2001:db8::1]:7471", 0);
	put(e, seven, "127.0.0.2:7470", 0);
	EXPECT_STR(found(e, seven), "127.0.0.2:7470");
	EXPECT(etcd_find(e, who, 4, a, why));
	EXPECT(a[0].family == 0 && a[1].family == 6 && a[2].family == 0 && a[3].family == 4);
	EXPECT_EQ(a[1].port, 7471);
	EXPECT_EQ(a[3].ip[3], 2);
	/* Clusters do not see each other. */
	put(other, (struct platform){ 9, 9 }, "127.0.0.1:1", 0);
	EXPECT_STR(found(e, (struct platform){ 9, 9 }), "");
	EXPECT_STR(found(other, (struct platform){ 9, 9 }), "127.0.0.1:1");
	EXPECT_STR(found(other, seven), "");
	etcd_close(e);
	etcd_close(other);
	/* It remembers. */
	etcd_server_restart(&server, false);
	e = etcd_at(server.url, "/weft/", NULL);
	EXPECT_STR(found(e, seven), "127.0.0.2:7470");
	etcd_close(e);
	etcd_server_stop(&server);
}

struct vanishing {
	struct etcd *e;
	struct platform who;
};

static bool is_gone(void *context)
{
	struct vanishing *v = context;

	return *found(v->e, v->who) == '\0';
}

TEST(test_etcd_address_vanishes_with_its_lease)
{
	int64_t lease = 0, kept = 0;
	struct vanishing v;
	struct etcd *e;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	e = etcd_at(server.url, "/weft/", NULL);
	EXPECT(etcd_grant(e, 1, &lease, why) && etcd_grant(e, 1000, &kept, why));
	EXPECT(lease != kept);
	put(e, seven, "127.0.0.1:7470", lease);
	put(e, two, "127.0.0.1:7471", kept);
	EXPECT_STR(found(e, seven), "127.0.0.1:7470");
	EXPECT(etcd_keep(e, lease, why));
	v = (struct vanishing){ e, seven };
	EXPECT(wait_until(is_gone, &v));
	EXPECT(!etcd_keep(e, lease, why));
	EXPECT(strstr(why, "expired"));
	EXPECT(!etcd_put(e, seven, &(struct weft_address){ .family = 4, .port = 1 }, lease, why));
	EXPECT(strstr(why, "lease not found"));
	EXPECT(etcd_keep(e, kept, why));
	EXPECT_STR(found(e, two), "127.0.0.1:7471");
	EXPECT(etcd_revoke(e, kept, why));
	EXPECT_STR(found(e, two), "");
	EXPECT(!etcd_revoke(e, kept, why));
	etcd_close(e);
	etcd_server_stop(&server);
}

TEST(test_etcd_that_is_gone_is_reported)
{
	struct weft_address a;
	struct etcd *e;
	int64_t lease;

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, false);
	e = etcd_at(server.url, "/weft/", NULL);
	put(e, seven, "127.0.0.1:7470", 0);
	etcd_server_kill(&server);
	EXPECT(!etcd_find(e, &seven, 1, &a, why));
	EXPECT(strstr(why, server.url) && strstr(why, "onnect"));
	EXPECT(!etcd_grant(e, 1, &lease, why));
	etcd_server_restart(&server, false);
	EXPECT_STR(found(e, seven), "127.0.0.1:7470");
	etcd_close(e);
	etcd_server_stop(&server);
}

/* ---- TLS ------------------------------------------------------------------------------------ */

TEST(test_etcd_certificate_is_checked)
{
	struct weft_address a;
	struct etcd *e;
	char ca[128];

	if (etcd_server_lack())
		SKIP(etcd_server_lack());
	etcd_server_start(&server, true);
	e = etcd_at(server.url, "/weft/", NULL);
	EXPECT(!etcd_find(e, &seven, 1, &a, why));
	EXPECT(strstr(why, "certificate"));
	etcd_close(e);
	snprintf(ca, sizeof(ca), "%s/fixtures/client/cert.pem", server.folder);
	REQUIRE(access(ca, R_OK) == 0);
	e = etcd_at(server.url, "/weft/", ca);
	put(e, seven, "127.0.0.1:7470", 0);
	EXPECT_STR(found(e, seven), "127.0.0.1:7470");
	etcd_close(e);
	e = etcd_at(server.url, "/weft/", "/nowhere/ca.pem");
	EXPECT(!etcd_find(e, &seven, 1, &a, why));
	EXPECT(strstr(why, "/nowhere/ca.pem"));
	etcd_close(e);
	etcd_server_stop(&server);
}

/* ---- Servers that are none ------------------------------------------------------------------ */

struct fake {
	int fd;
	const char *answer; /* NULL: it does not answer */
	const char *next;   /* to a second question; NULL: it takes none */
	char url[64];
	pthread_t thread;
};

static void fake_answer(struct fake *f, const char *answer)
{
	char bytes[4096];
	int fd = accept(f->fd, NULL, NULL);

	if (fd < 0)
		return;
	if (answer) {
		/* Head and body of the question come together. */
		REQUIRE(recv(fd, bytes, sizeof(bytes), 0) > 0);
		(void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
	}
	/* Until the other side has had enough. */
	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
	close(fd);
}

static void *fake_run(void *context)
{
	struct fake *f = context;

	fake_answer(f, f->answer);
	if (f->next)
		fake_answer(f, f->next);
	return NULL;
}

static struct etcd *fake_start(struct fake *f, uint32_t timeout_ms)
{
	struct etcd_config c = { .prefix = "/weft/", .timeout_ms = timeout_ms, .url = f->url };
	struct etcd *e = NULL;
	unsigned int port;

	f->fd = loopback_listen(&port);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u", port);
	REQUIRE(pthread_create(&f->thread, NULL, fake_run, f) == 0);
	REQUIRE(etcd_open(&c, &e, why));
	return e;
}

static void fake_stop(struct fake *f, struct etcd *own_e)
{
	etcd_close(own_e);
	pthread_join(f->thread, NULL);
	close(f->fd);
}

/* What etcd_find says when this answers; the address of seven in *a. */
static bool find_at_fake(const char *answer, uint32_t timeout_ms, struct weft_address *a)
{
	struct fake f = { .answer = answer };
	struct etcd *e = fake_start(&f, timeout_ms);
	bool is_found = etcd_find(e, &seven, 1, a, why);

	fake_stop(&f, e);
	return is_found;
}

#define HTTP_200 "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
/* "/weft/7.1" and "127.0.0.1:7470" */
#define KEY_7_1 "\"key\":\"L3dlZnQvNy4x\""
#define VALUE "\"value\":\"MTI3LjAuMC4xOjc0NzA=\""

TEST(test_etcd_answers_are_read_with_care)
{
	static const struct {
		const char *answer, *why;
	} rows[] = {
		{ "HTTP/1.1 401 No\r\nConnection: close\r\n\r\n{\"error\":\"who\\u001b are you?\"}",
		  "answers 401: who? are you?" },
		{ "HTTP/1.1 404 No\r\nConnection: close\r\n\r\n{\"code\":5,\"message\":\"gone\"}",
		  "answers 404: gone" },
		{ "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n<html>", "answers 500: no reason" },
		{ "HTTP/1.1 302 No\r\nConnection: close\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
		  "answers 302" },
		{ HTTP_200, "not etcd's" },
		{ HTTP_200 "<html>", "not etcd's" },
		{ HTTP_200 "[]", "not etcd's" },
		{ HTTP_200 "{\"kvs\":[],\"kvs\":[]}", "not etcd's" },
		{ "hello\r\n", "HTTP/0.9" },
		{ "", "mpty reply" },
	};
	static const char *const nothing[] = {
		HTTP_200 "{}",
		HTTP_200 "{\"kvs\":7}",
		HTTP_200 "{\"kvs\":[7, {}, {\"key\":7}, {\"key\":\"*\"}, null]}",
		/* /weft/7.1x, weft/7.1, /weft/7.1 with a 0 at the end */
		HTTP_200 "{\"kvs\":[{\"key\":\"L3dlZnQvNy4xeA==\"," VALUE "}]}",
		HTTP_200 "{\"kvs\":[{\"key\":\"d2VmdC83LjE=\"," VALUE "}]}",
		/* /xxxx/7.1 */
		HTTP_200 "{\"kvs\":[{\"key\":\"L3h4eHgvNy4x\"," VALUE "}]}",
		HTTP_200 "{\"kvs\":[{\"key\":\"L3dlZnQvNy4xAA==\"," VALUE "}]}",
	};
	static const char *const bad[] = {
		HTTP_200 "{\"kvs\":[{" KEY_7_1 "}]}",
		HTTP_200 "{\"kvs\":[{" KEY_7_1 ",\"value\":\"\"}]}",
		HTTP_200 "{\"kvs\":[{" KEY_7_1 ",\"value\":\"MTI3LjAuMC4xOjc0NzAA\"}]}",
		/* :7470, 127.0.0.1:0, localhost:1 */
		HTTP_200 "{\"kvs\":[{" KEY_7_1 ",\"value\":\"Ojc0NzA=\"}]}",
		HTTP_200 "{\"kvs\":[{" KEY_7_1 ",\"value\":\"MTI3LjAuMC4xOjA=\"}]}",
		HTTP_200 "{\"kvs\":[{" KEY_7_1 ",\"value\":\"bG9jYWxob3N0OjE=\"}]}",
	};
	struct weft_address a;

	if (!etcd_is_built())
		SKIP("built without libcurl and jansson");
	EXPECT(find_at_fake(HTTP_200 "{\"kvs\":[{" KEY_7_1 "," VALUE "}]}", 10000, &a));
	EXPECT(a.family == 4 && a.port == 7470);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT(!find_at_fake(rows[i].answer, 10000, &a));
		if (!strstr(why, rows[i].why))
			printf("%s\n", why);
		EXPECT(strstr(why, rows[i].why));
	}
	for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
		EXPECT(find_at_fake(nothing[i], 10000, &a));
		EXPECT(a.family == 0);
		EXPECT_STR(why, "");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT(find_at_fake(bad[i], 10000, &a));
		EXPECT_EQ(a.family, 0);
		EXPECT(strstr(why, "at /weft/7.1 is not an address"));
	}
}

/* The term that a server gives when it answers so, to the two questions; 0: none. */
static uint64_t term_at_fake(const char *read, const char *written)
{
	struct fake f = { .answer = read, .next = written };
	struct etcd *e = fake_start(&f, written ? 10000 : 500);
	uint64_t term = 0;
	bool has_term = etcd_term(e, seven, 1000, &term, why);

	fake_stop(&f, e);
	return has_term ? term : 0;
}

#define TERM_IS(value) HTTP_200 "{\"kvs\":[{\"mod_revision\":\"3\"," value "}]}"

/* A second owner with the number of the first would be taken for it, or for an earlier one. */
TEST(test_rio_09_what_is_no_term_in_etcd_is_reported)
{
	static const char *const bad[] = {
		TERM_IS("\"value\":\"YWJj\""),	   /* abc */
		TERM_IS("\"value\":\"MjAwMHg=\""), /* 2000x */
		TERM_IS("\"value\":\"LTE=\""),	   /* -1 */
		TERM_IS("\"value\":\"IDU=\""),	   /* " 5" */
		/* 99999999999999999999 */
		TERM_IS("\"value\":\"OTk5OTk5OTk5OTk5OTk5OTk5OTk=\""),
		TERM_IS("\"value\":\"\""),
		TERM_IS("\"value\":\"*\""),
		TERM_IS("\"value\":7"),
	};

	if (!etcd_is_built())
		SKIP("built without libcurl and jansson");
	/* 2000 */
	EXPECT_EQ(term_at_fake(TERM_IS("\"value\":\"MjAwMA==\""), HTTP_200 "{\"succeeded\":true}"),
		  2001U);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT_EQ(term_at_fake(bad[i], NULL), 0U);
		EXPECT(strstr(why, "what is at /weft/7.1/term is not a term"));
	}
}

TEST(test_rio_09_why_etcd_does_not_keep_a_term_is_reported)
{
	if (!etcd_is_built())
		SKIP("built without libcurl and jansson");
	EXPECT_EQ(term_at_fake(HTTP_200 "{}", "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n"
					      "{\"message\":\"no space\"}"),
		  0U);
	EXPECT(strstr(why, "answers 500: no space"));
}

TEST(test_etcd_that_does_not_answer_is_given_up)
{
	struct weft_address a;

	if (!etcd_is_built())
		SKIP("built without libcurl and jansson");
	EXPECT(!find_at_fake(NULL, 50, &a));
	EXPECT(strstr(why, "timed out"));
}

TEST(test_etcd_answer_has_a_limit)
{
	size_t length = 5 << 20;
	char *answer = malloc(length + 1);
	struct weft_address a;

	REQUIRE(answer);
	if (!etcd_is_built()) {
		free(answer);
		SKIP("built without libcurl and jansson");
	}
	memset(answer, ' ', length);
	memcpy(answer, HTTP_200, strlen(HTTP_200));
	memcpy(answer + length - 2, "{}", 3);
	EXPECT(!find_at_fake(answer, 10000, &a));
	free(answer);
	EXPECT(strstr(why, "etcd at"));
}
