/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of a socket, a file or an interface, as a reason. */
#include <errno.h>

#include <weft/weft.h>

#include "driver/file/file_inside.h"
#include "driver/roce/tun.h"
#include "driver/sys/socket_reason.h"
#include "test.h"

struct errno_reason {
	int error;
	enum weft_reason reason;
};

static void expect_reasons(enum weft_reason (*reason_of)(int), const struct errno_reason *table,
			   size_t count)
{
	for (size_t i = 0; i < count; i++)
		EXPECT_EQ(reason_of(table[i].error), table[i].reason);
}

/* Any other error is kept for the program to ask for. */
static void expect_kept(enum weft_reason (*reason_of)(int), int error)
{
	EXPECT_EQ(reason_of(error), WEFT_R_SYSTEM);
	EXPECT_EQ(weft_system_errno(), error);
}

TEST(test_socket_reason_of_every_error_that_has_one)
{
	static const struct errno_reason table[] = {
		{ EADDRINUSE, WEFT_R_ADDRESS_IN_USE },
		{ EADDRNOTAVAIL, WEFT_R_ADDRESS },
		{ EAFNOSUPPORT, WEFT_R_ADDRESS },
		{ EINVAL, WEFT_R_ADDRESS },
		{ EACCES, WEFT_R_ADDRESS },
		{ ENODEV, WEFT_R_ADDRESS },
		{ EMSGSIZE, WEFT_R_ROCE_TOO_LARGE },
		{ ECONNREFUSED, WEFT_R_CONNECT_REFUSED },
		{ ENETUNREACH, WEFT_R_CONNECT_UNREACHABLE },
		{ EHOSTUNREACH, WEFT_R_CONNECT_UNREACHABLE },
		{ ENETDOWN, WEFT_R_CONNECT_UNREACHABLE },
		{ EPERM, WEFT_R_CONNECT_UNREACHABLE },
		{ ETIMEDOUT, WEFT_R_CONNECT_TIMEOUT },
		{ ECONNRESET, WEFT_R_CONNECT_CLOSED },
		{ EPIPE, WEFT_R_CONNECT_CLOSED },
		{ EMFILE, WEFT_R_DESCRIPTORS },
		{ ENFILE, WEFT_R_DESCRIPTORS },
		{ ENOMEM, WEFT_R_NO_MEMORY },
		{ ENOBUFS, WEFT_R_NO_MEMORY },
	};

	expect_reasons(socket_reason_of, table, sizeof(table) / sizeof(table[0]));
	expect_kept(socket_reason_of, EXDEV);
}

TEST(test_file_open_reason_of_every_error_that_has_one)
{
	static const struct errno_reason table[] = {
		{ EBUSY, WEFT_R_STORE_IN_USE },	  { EWOULDBLOCK, WEFT_R_STORE_IN_USE },
		{ ETXTBSY, WEFT_R_STORE_IN_USE }, { EMFILE, WEFT_R_DESCRIPTORS },
		{ ENFILE, WEFT_R_DESCRIPTORS },	  { ENOMEM, WEFT_R_NO_MEMORY },
		{ EROFS, WEFT_R_STORE_READONLY }, { ENOSPC, WEFT_R_STORE_FULL },
		{ EDQUOT, WEFT_R_STORE_FULL },	  { EFBIG, WEFT_R_STORE_FULL },
		{ EIO, WEFT_R_STORE_IO },	  { ENOENT, WEFT_R_STORE_OPEN },
		{ EACCES, WEFT_R_STORE_OPEN },
	};

	expect_reasons(file_open_reason, table, sizeof(table) / sizeof(table[0]));
}

TEST(test_tun_reason_of_every_error_that_has_one)
{
	static const struct errno_reason table[] = {
		{ EPERM, WEFT_R_TUN_RIGHTS },	{ EACCES, WEFT_R_TUN_RIGHTS },
		{ EBUSY, WEFT_R_TUN_NAME },	{ EINVAL, WEFT_R_TUN_NAME },
		{ ENOENT, WEFT_R_TUN_NONE },	{ ENXIO, WEFT_R_TUN_NONE },
		{ ENODEV, WEFT_R_TUN_NONE },	{ EMFILE, WEFT_R_DESCRIPTORS },
		{ ENFILE, WEFT_R_DESCRIPTORS },
	};

	expect_reasons(tun_reason_of, table, sizeof(table) / sizeof(table[0]));
	expect_kept(tun_reason_of, EXDEV);
}
