/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters come and go while others ask for their counters. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/weft.h>

#include "test.h"

enum { ROUNDS = 60, WORKERS = 2, ASKERS = 2, REPORT_BYTES = 8192 };

static atomic_bool is_over;
static atomic_uint reports, adapters_seen;

/* Reads the process's own report; false if no process sends one. */
static bool ask(char *text, size_t size)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft/%ld", (long)getpid());
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t used = 0;
	ssize_t got = 1;

	if (connect(fd, (const struct sockaddr *)&at, length) == 0) {
		while (got > 0 && used + 1 < size) {
			got = read(fd, text + used, size - 1 - used);
			used += got > 0 ? (size_t)got : 0;
		}
	}
	close(fd);
	text[used] = '\0';
	return used > 0;
}

static void *ask_on(void *context)
{
	char text[REPORT_BYTES];

	(void)context;
	while (!is_over) {
		if (!ask(text, sizeof(text)))
			continue;
		reports++;
		adapters_seen += strstr(text, "\nadapter number=") != NULL;
	}
	return NULL;
}

static struct weft_adapter *open_listening(struct weft_listener **listener)
{
	const struct weft_adapter_options small = { .tags_max = 64, .translations_max = 64 };
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_adapter *a;

	if (weft_adapter_open(&small, &a) != WEFT_OK)
		return NULL;
	return weft_listener_open(a, &at, NULL, listener) == WEFT_OK ? a : NULL;
}

static void *come_and_go(void *context)
{
	atomic_bool *is_good = context;

	for (int i = 0; i < ROUNDS && *is_good; i++) {
		struct weft_listener *listener;
		struct weft_adapter *a = open_listening(&listener);

		*is_good = a && weft_listener_close(listener) == WEFT_OK &&
			   weft_adapter_close(a) == WEFT_OK;
	}
	return NULL;
}

TEST(test_stat_while_adapters_come_and_go)
{
	pthread_t workers[WORKERS], askers[ASKERS];
	atomic_bool is_good = true;
	struct weft_listener *listener;
	struct weft_adapter *stays;
	char text[REPORT_BYTES];

	is_over = false;
	for (int i = 0; i < ASKERS; i++)
		REQUIRE(pthread_create(&askers[i], NULL, ask_on, NULL) == 0);
	for (int i = 0; i < WORKERS; i++)
		REQUIRE(pthread_create(&workers[i], NULL, come_and_go, &is_good) == 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	EXPECT(is_good);
	/* One adapter stays: it is seen, and after it closes no answer comes. */
	stays = open_listening(&listener);
	REQUIRE(stays);
	while (adapters_seen == 0)
		sched_yield();
	is_over = true;
	for (int i = 0; i < ASKERS; i++)
		pthread_join(askers[i], NULL);
	EXPECT(ask(text, sizeof(text)));
	EXPECT(strncmp(text, "weft 1 version=", 15) == 0 && strstr(text, " listeners=1 "));
	EXPECT(strcmp(text + strlen(text) - 5, "\nend\n") == 0);
	EXPECT_EQ(weft_listener_close(listener), WEFT_OK);
	EXPECT_EQ(weft_adapter_close(stays), WEFT_OK);
	EXPECT(!ask(text, sizeof(text)));
	EXPECT(reports > 0);
}
