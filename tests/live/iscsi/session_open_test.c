/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions that cannot be opened: each with its reason in words; and who may come in. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "live/iscsi/session_fixture.h"

#define SECRETS "initiator alice opensesame-12345\ntarget bob closesesame-6789\n"

/* Opening is refused for this reason, with these words in the sentence. */
static void expect_refused(const char *url, const struct weft_iscsi_options *o,
			   enum weft_reason reason, const char *words)
{
	char why[WEFT_ISCSI_WHY_MAX] = "none";
	struct weft_iscsi_options with = o ? *o : (struct weft_iscsi_options){ 0 };
	struct weft_iscsi_session *s;
	enum weft_reason r;

	with.why = why;
	r = weft_iscsi_session_open(url, &with, &s);
	EXPECT_EQ(r, reason);
	if (r == WEFT_OK)
		weft_iscsi_session_close(s);
	if (!strstr(why, words))
		harness_note("%s: \"%s\" lacks \"%s\"", url, why, words);
	EXPECT(strstr(why, words) != NULL);
}

TEST(test_iscsi_session_names_what_is_wrong_with_a_url)
{
	expect_refused("http://host/", NULL, WEFT_R_ISCSI_URL, "at character 1");
	expect_refused("iscsi://127.0.0.1", NULL, WEFT_R_ISCSI_URL, "no target and LUN");
	expect_refused("iscsi://127.0.0.1/" SESSION_TARGET "/0?data_digest=md5", NULL,
		       WEFT_R_ISCSI_URL, "crc32c or none");
	expect_refused("iscsi://no-such-host.invalid/" SESSION_TARGET "/0", NULL, WEFT_R_ISCSI_HOST,
		       "no-such-host.invalid");
}

TEST(test_iscsi_session_refuses_options_that_cannot_be)
{
	const char *url = "iscsi://127.0.0.1:1/" SESSION_TARGET "/0";
	struct weft_iscsi_options o = { .requests_max = 4097 };
	struct weft_iscsi_session *s;

	EXPECT_EQ(weft_iscsi_session_open(url, &o, &s), WEFT_R_LIMIT);
	o = (struct weft_iscsi_options){ .reserved = { 1 } };
	EXPECT_EQ(weft_iscsi_session_open(url, &o, &s), WEFT_R_RESERVED);
	o = (struct weft_iscsi_options){ .target_user = "bob", .target_password = "0123456789ab" };
	expect_refused(url, &o, WEFT_R_BAD_ARGUMENT, "a user and a password are missing");
}

TEST(test_iscsi_session_names_what_the_target_lacks)
{
	struct unit u = { 0 };
	char url[256];

	unit_open(&u, NULL);
	for (int way = 0; way < WAYS; way++) {
		expect_refused(unit_url(&u, (enum session_way)way, "7"), NULL, WEFT_R_ISCSI_LUN,
			       "no logical unit 7");
		snprintf(url, sizeof(url), "%s://127.0.0.1:%u/" SESSION_TARGET "s/0",
			 way == WAY_TCP ? "iscsi" : "iser", u.ports[way]);
		expect_refused(url, NULL, WEFT_R_ISCSI_REFUSED, "no target of this name");
	}
	unit_close(&u);
}

TEST(test_iscsi_session_that_skips_its_unit_takes_commands_alone)
{
	const struct weft_iscsi_options skips = { .skips_unit = true };
	struct unit u = { 0 };

	unit_open(&u, NULL);
	for (int way = 0; way < WAYS; way++) {
		struct weft_iscsi_session *s = must_open(unit_url(&u, (enum session_way)way, "7"),
							 &skips);
		uint8_t answer[36] = { 0 };
		const struct weft_sge sge = { (uintptr_t)answer, sizeof(answer), 0 };
		struct weft_iscsi_request inquiry = { .operation = WEFT_ISCSI_COMMAND,
						      .cdb = { 0x12, 0, 0, 0, sizeof(answer) },
						      .length = sizeof(answer),
						      .sges = &sge,
						      .sge_count = 1,
						      .has_lun = true };

		EXPECT_EQ(move(s, WEFT_ISCSI_READ, 0, answer, sizeof(answer)),
			  WEFT_R_ISCSI_UNSUPPORTED);
		EXPECT_EQ(weft_iscsi_request_do(s, &inquiry, NULL), WEFT_OK);
		EXPECT(memcmp(answer + 8, "weft    ", 8) == 0);
		weft_iscsi_session_close(s);
	}
	unit_close(&u);
}

TEST(test_iscsi_session_wants_the_right_password)
{
	const char *more = "0?target_user=bob&target_password=closesesame-6789";
	struct weft_iscsi_options o = { .user = "alice", .password = "opensesame-12345" };
	struct unit u = { 0 };
	char path[128];

	unit_prepare(&u);
	unit_file(&u, "secrets", SECRETS);
	unit_open(&u, "chap secrets\nlun 0 mem:1M\n");
	for (int way = 0; way < WAYS; way++) {
		const char *url = unit_url(&u, (enum session_way)way, NULL);

		expect_refused(url, NULL, WEFT_R_ISCSI_REFUSED, "user and password");
		o.password = "opensesame-99999";
		expect_refused(url, &o, WEFT_R_ISCSI_REFUSED, "user and password");
		o.password = "opensesame-12345";
		weft_iscsi_session_close(must_open(url, &o));
		/* The target proves itself, or does not. */
		weft_iscsi_session_close(must_open(unit_url(&u, (enum session_way)way, more), &o));
		o.target_user = "bob";
		o.target_password = "closesesame-0000";
		expect_refused(unit_url(&u, (enum session_way)way, NULL), &o,
			       WEFT_R_ISCSI_CHAP_FAILED, "");
		o.target_user = o.target_password = NULL;
	}
	/* By a file, which only its owner may read; by the environment. */
	unit_file(&u, "mine", "user alice\npassword opensesame-12345\n");
	unit_path(&u, "mine", path);
	o = (struct weft_iscsi_options){ .secrets_path = path };
	weft_iscsi_session_close(must_open(unit_url(&u, WAY_TCP, NULL), &o));
	REQUIRE(chmod(path, 0644) == 0);
	expect_refused(unit_url(&u, WAY_TCP, NULL), &o, WEFT_R_ISCSI_SECRETS, path);
	REQUIRE(chmod(path, 0600) == 0);
	unit_file(&u, "mine", "user alice\npasword opensesame-12345\n");
	expect_refused(unit_url(&u, WAY_TCP, NULL), &o, WEFT_R_ISCSI_SECRETS, ":2:1:");
	setenv("LIBISCSI_CHAP_USERNAME", "alice", 1);
	setenv("LIBISCSI_CHAP_PASSWORD", "opensesame-12345", 1);
	weft_iscsi_session_close(must_open(unit_url(&u, WAY_TCP, NULL), NULL));
	unsetenv("LIBISCSI_CHAP_USERNAME");
	unsetenv("LIBISCSI_CHAP_PASSWORD");
	unit_close(&u);
}

/* ---- Other services ------------------------------------------------------------------------- */

static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0);
	REQUIRE(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* Says something that is not iSCSI, and waits for the other end to go. */
static void *babble(void *of)
{
	char words[600];
	int fd = accept(*(int *)of, NULL, NULL);
	char bytes[4096];

	memset(words, ' ', sizeof(words));
	memcpy(words, "HTTP/1.1 400 Bad Request\r\n", 26);
	(void)!write(fd, words, sizeof(words));
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
	return NULL;
}

TEST(test_iscsi_session_names_what_answers_at_the_portal)
{
	const struct weft_iscsi_options hasty = { .open_ns = 400 * 1000 * 1000 };
	pthread_t thread;
	uint16_t port;
	char url[128];
	int listener;

	listener = listen_somewhere(&port);
	snprintf(url, sizeof(url), "iscsi://127.0.0.1:%u/" SESSION_TARGET "/0", port);
	expect_refused(url, &hasty, WEFT_R_CONNECT_TIMEOUT, "is it an iSCSI portal?");
	close(accept(listener, NULL, NULL));
	REQUIRE(pthread_create(&thread, NULL, babble, &listener) == 0);
	expect_refused(url, &hasty, WEFT_R_CONNECT_TIMEOUT, "is it an iSCSI portal?");
	pthread_join(thread, NULL);
	close(listener);
	expect_refused(url, NULL, WEFT_R_CONNECT_REFUSED, "127.0.0.1");
}
