/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of public values, for people. */
#include <weft/weft.h>

static const char *const statuses[] = {
	[WEFT_SUCCESS] = "success",
	[WEFT_ERR_LOCAL_LENGTH] = "local length error",
	[WEFT_ERR_LOCAL_ACCESS] = "local access error",
	[WEFT_ERR_BIND] = "bind error",
	[WEFT_ERR_REGISTER] = "registration error",
	[WEFT_ERR_FLUSHED] = "flushed",
	[WEFT_ERR_REMOTE_REQUEST] = "remote invalid request",
	[WEFT_ERR_REMOTE_ACCESS] = "remote access error",
	[WEFT_ERR_REMOTE_OPERATION] = "remote operation error",
	[WEFT_ERR_RECEIVER_NOT_READY] = "receiver not ready",
	[WEFT_ERR_PEER_GONE] = "peer gone",
};

static const char *const events[WEFT_EVENT_COUNT] = {
	[WEFT_EVENT_COMPLETION] = "completion",
	[WEFT_EVENT_CQ_OVERRUN] = "completion queue overrun",
	[WEFT_EVENT_QP_ERROR] = "queue pair error",
	[WEFT_EVENT_QP_REFUSED] = "peer's access refused",
	[WEFT_EVENT_QP_DRAINED] = "send queue drained",
	[WEFT_EVENT_SRQ_LIMIT] = "shared receive queue limit",
	[WEFT_EVENT_FAULT] = "page fault",
	[WEFT_EVENT_CONNECTED] = "connected",
	[WEFT_EVENT_CONNECT_FAILED] = "connection failed",
	[WEFT_EVENT_REQUEST] = "connection requested",
	[WEFT_EVENT_ESTABLISHED] = "communication established",
	[WEFT_EVENT_CM] = "news of a cm_id",
	[WEFT_EVENT_EE_FAILED] = "end-to-end context failed",
	[WEFT_EVENT_PORT] = "port changed",
	[WEFT_EVENT_PATH_MIGRATED] = "path migrated",
	[WEFT_EVENT_PATH_REFUSED] = "path migration refused",
};

const char *weft_status_name(enum weft_status status)
{
	return (unsigned int)status <= WEFT_ERR_PEER_GONE ? statuses[status] : "unknown";
}

const char *weft_event_name(enum weft_event_kind kind)
{
	return (unsigned int)kind < WEFT_EVENT_COUNT ? events[kind] : "unknown";
}
