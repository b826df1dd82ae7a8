/* SPDX-License-Identifier: BSD-2-Clause */
/* What sockets of TCP tell of a connection that is lost. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/sys/socket.h"
#include "own_network.h"
#include "test.h"

enum { PATIENCE_MS = 20000 };

/* Connected with each other; both never block. */
static void pair_open(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(listener >= 0 && fds[0] >= 0);
	REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	REQUIRE(listen(listener, 1) == 0);
	REQUIRE(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
	REQUIRE(connect(fds[0], (struct sockaddr *)&at, sizeof(at)) == 0);
	fds[1] = accept(listener, NULL, NULL);
	REQUIRE(fds[1] >= 0);
	close(listener);
}

static enum socket_result say(int fd)
{
	static uint8_t byte = 1;
	const struct span_list l = { .spans = { { &byte, 1 } }, .count = 1, .length = 1 };
	size_t n;

	return socket_send(fd, &l, &n);
}

static bool has_failed(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, PATIENCE_MS) == 1 && p.revents & (POLLERR | POLLHUP);
}

/* RIO-03: so one that cannot be reached is not taken for one that has left in order. */
TEST(test_socket_to_a_peer_that_cannot_be_reached_is_silent)
{
	const char *why = own_network_enter();
	const unsigned silence_ms = 100;
	int fds[2];

	if (why)
		SKIP(why);
	pair_open(fds);
	REQUIRE(setsockopt(fds[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms,
			   sizeof(silence_ms)) == 0);
	REQUIRE(own_network_loopback(false));
	EXPECT_EQ(say(fds[0]), SOCKET_MOVED);
	EXPECT(has_failed(fds[0]));
	EXPECT_EQ(say(fds[0]), SOCKET_SILENT);
	REQUIRE(own_network_loopback(true));
	close(fds[0]);
	close(fds[1]);
}

TEST(test_socket_that_its_peer_has_reset_is_lost)
{
	const struct linger at_once = { .l_onoff = 1 };
	const char *why = own_network_enter();
	int fds[2];

	if (why)
		SKIP(why);
	pair_open(fds);
	REQUIRE(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
	close(fds[1]);
	EXPECT(has_failed(fds[0]));
	EXPECT_EQ(say(fds[0]), SOCKET_LOST);
	close(fds[0]);
}
