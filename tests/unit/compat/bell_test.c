/* SPDX-License-Identifier: BSD-2-Clause */
/* Who waits at a bell, and what its descriptor has to do with it. */
#include "compat/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "test.h"

TEST(test_bell_wait_ends_when_something_was_added)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;
	struct list thing;

	REQUIRE(bell_init(&b) == 0);
	list_init(&thing);
	ear = bell_listen(&b);
	bell_add(&b, &thing);
	EXPECT_EQ(bell_wait(&ear), 0);
	bell_remove(&b, &thing);
	bell_fini(&b);
}

TEST(test_bell_wait_says_at_once_what_is_with_the_descriptor)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;

	REQUIRE(bell_init(&b) == 0);
	REQUIRE(fcntl(b.fd, F_SETFL, O_NONBLOCK) == 0);
	ear = bell_listen(&b);
	EXPECT_EQ(bell_wait(&ear), -EAGAIN);
	bell_fini(&b);
	ear = bell_listen(&b);
	EXPECT_EQ(bell_wait(&ear), -EBADF);
}

/*
 * The thing comes and the bell goes between the two calls, as an event and its channel do: the
 * waiter hears of no error, nor is it told what holds for the next owner of the number.
 */
TEST(test_bell_wait_does_not_look_at_the_descriptor_of_a_bell_that_is_gone)
{
	struct bell b = { 0 };
	struct bell_snapshot ear;
	struct list thing;
	int other;

	REQUIRE(bell_init(&b) == 0);
	list_init(&thing);
	ear = bell_listen(&b);
	bell_add(&b, &thing);
	bell_remove(&b, &thing);
	bell_fini(&b);
	EXPECT_EQ(bell_wait(&ear), 0);
	other = eventfd(0, EFD_NONBLOCK);
	EXPECT_EQ(other, b.fd);
	EXPECT_EQ(bell_wait(&ear), 0);
	close(other);
}
