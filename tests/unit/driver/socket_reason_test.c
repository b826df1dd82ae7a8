/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of a socket, as a reason. */
#include "driver/sys/socket_reason.h"

#include <errno.h>

#include <weft/weft.h>

#include "test.h"

TEST(test_socket_reason_of_every_error_that_has_one)
{
	static const struct {
		int error;
		enum weft_reason reason;
	} table[] = {
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

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		EXPECT_EQ(socket_reason_of(table[i].error), table[i].reason);
	/* Any other is kept for the program to ask for. */
	EXPECT_EQ(socket_reason_of(EXDEV), WEFT_R_SYSTEM);
	EXPECT_EQ(weft_system_errno(), EXDEV);
}
