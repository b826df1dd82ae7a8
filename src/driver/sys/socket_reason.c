/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/socket_reason.h"
#include "driver/sys/system_reason.h"

#include <errno.h>

enum weft_reason socket_reason_of(int error)
{
	switch (error) {
	case EADDRINUSE:
		return WEFT_R_ADDRESS_IN_USE;
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
	case EINVAL:
	case EACCES:
	case ENODEV:
		return WEFT_R_ADDRESS;
	case EMSGSIZE: /* a datagram is too large */
		return WEFT_R_ROCE_TOO_LARGE;
	case ECONNREFUSED:
		return WEFT_R_CONNECT_REFUSED;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EPERM: /* a packet filter */
		return WEFT_R_CONNECT_UNREACHABLE;
	case ETIMEDOUT:
		return WEFT_R_CONNECT_TIMEOUT;
	case ECONNRESET:
	case EPIPE:
		return WEFT_R_CONNECT_CLOSED;
	case EMFILE:
	case ENFILE:
		return WEFT_R_DESCRIPTORS;
	case ENOMEM:
	case ENOBUFS:
		return WEFT_R_NO_MEMORY;
	default:
		return system_reason(error);
	}
}
