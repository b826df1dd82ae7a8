/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reasons: why weft refused something.
 *
 * Every refusal in the system, from a bad argument to an access that a peer was denied, is one
 * value of this enum. It is what the calls of weft.h return, what a failed completion and an
 * asynchronous event carry, and what the trace prints. Each names the requirement that it enforces
 * (docs/requirements.md) and has a sentence for the person who must mend the cause.
 *
 * Numbers are part of the interface: new reasons are added at the end.
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum weft_reason {
	WEFT_OK = 0,

	/* Arguments and objects. */
	WEFT_R_NULL_ARGUMENT,
	WEFT_R_BAD_ARGUMENT,
	WEFT_R_NO_MEMORY,
	WEFT_R_LIMIT,
	WEFT_R_BUSY,
	WEFT_R_SYSTEM,

	/* Registration. */
	WEFT_R_REG_LENGTH,
	WEFT_R_REG_WRAP,
	WEFT_R_REG_RIGHTS,
	WEFT_R_REG_SPACE,
	WEFT_R_REG_VIRTUAL,
	WEFT_R_REG_PAGE_SIZE,
	WEFT_R_REG_PAGE_ADDRESS,
	WEFT_R_REG_PAGE_COUNT,
	WEFT_R_REG_ORDER,
	WEFT_R_REG_TOUCH,
	WEFT_R_TABLE_FULL,
	WEFT_R_TRANSLATIONS_FULL,

	/* The access check. */
	WEFT_R_TAG_INDEX,
	WEFT_R_TAG_INVALID,
	WEFT_R_TAG_SPENT,
	WEFT_R_TAG_WINDOW_LOCAL,
	WEFT_R_TAG_REGION_REMOTE,
	WEFT_R_TAG_TYPE,
	WEFT_R_TAG_PD,
	WEFT_R_TAG_QP,
	WEFT_R_TAG_INSTANCE,
	WEFT_R_RANGE_BOUNDS,
	WEFT_R_RANGE_WRAP,
	WEFT_R_RIGHT_LOCAL_READ,
	WEFT_R_RIGHT_LOCAL_WRITE,
	WEFT_R_RIGHT_REMOTE_READ,
	WEFT_R_RIGHT_REMOTE_WRITE,
	WEFT_R_RIGHT_REMOTE_ATOMIC,
	WEFT_R_BIND_DISABLED,
	WEFT_R_ATOMIC_ALIGN,
	WEFT_R_SPACE_MAPPING,
	WEFT_R_SPACE_UNMAPPED,

	/* Windows, invalidation, one touch. */
	WEFT_R_BIND_RIGHTS,
	WEFT_R_WINDOW_BOUND,
	WEFT_R_WINDOW_UNBOUND,
	WEFT_R_REGION_HAS_WINDOWS,
	WEFT_R_INVALIDATE_REGION,
	WEFT_R_TOUCH_SECOND,
	WEFT_R_TOUCH_BEYOND,

	/* Registration through the send queue. */
	WEFT_R_SQR_DISABLED,
	WEFT_R_SQR_PRIVILEGE,
	WEFT_R_SQR_ENTRY,
	WEFT_R_SQR_INSTANCE,
	WEFT_R_SQR_SPACE,

	/* Work requests and queues. */
	WEFT_R_WR_OPCODE,
	WEFT_R_WR_SERVICE,
	WEFT_R_WR_FLAGS,
	WEFT_R_WR_SGES,
	WEFT_R_WR_LENGTH,
	WEFT_R_WR_INLINE,
	WEFT_R_WR_STATE,
	WEFT_R_QUEUE_FULL,
	WEFT_R_QUEUE_SHARED,
	WEFT_R_CQ_OVERRUN,

	/* Queue pairs and peers. */
	WEFT_R_QP_STATE,
	WEFT_R_QP_CONNECTED,
	WEFT_R_QP_UNCONNECTED,
	WEFT_R_QP_REMOTE_RIGHTS,
	WEFT_R_FLUSHED,
	WEFT_R_RECEIVER_NOT_READY,
	WEFT_R_RECEIVE_TOO_SHORT,
	WEFT_R_PEER_GONE,
	WEFT_R_PEER_TERMINATED,
	WEFT_R_PEER_UNKNOWN,
	WEFT_R_PEER_RECEIVE,

	/* Later ones. */
	WEFT_R_REG_FRAMES,
	WEFT_R_READ_SINK,

	/* Connections. */
	WEFT_R_ADDRESS,
	WEFT_R_ADDRESS_IN_USE,
	WEFT_R_PRIVATE_DATA,
	WEFT_R_CONNECT_REFUSED,
	WEFT_R_CONNECT_UNREACHABLE,
	WEFT_R_CONNECT_TIMEOUT,
	WEFT_R_CONNECT_REJECTED,
	WEFT_R_CONNECT_CLOSED,
	WEFT_R_MPA_KEY,
	WEFT_R_MPA_REVISION,
	WEFT_R_MPA_LENGTH,
	WEFT_R_MPA_DEPTH,
	WEFT_R_MPA_RTR,

	/* Streams and what arrives on them. */
	WEFT_R_MPA_CRC,
	WEFT_R_MPA_MARKER,
	WEFT_R_DDP_VERSION,
	WEFT_R_DDP_QUEUE,
	WEFT_R_DDP_MSN,
	WEFT_R_DDP_OFFSET,
	WEFT_R_RDMAP_VERSION,
	WEFT_R_RDMAP_OPCODE,
	WEFT_R_RDMAP_BODY,
	WEFT_R_RDMAP_RESPONSE,
	WEFT_R_READS_BEYOND,
	WEFT_R_STREAM_LOST,
	WEFT_R_STREAM_CUT,
	WEFT_R_SOURCE_GONE,
	WEFT_R_SINK_GONE,
	WEFT_R_WR_WIRE,
	WEFT_R_READS_NONE,
	WEFT_R_PEER_RIGHTS,
	WEFT_R_PEER_INVALIDATE,
	WEFT_R_FAULT_INJECTED,

	/* Of the host, once more. */
	WEFT_R_DESCRIPTORS,

	/* Scatter-gather lists: each element by itself. */
	WEFT_R_SGL_SHORT,
	WEFT_R_SGL_KIND,
	WEFT_R_SGL_ELEMENT_LENGTH,
	WEFT_R_SGL_RESERVED,
	WEFT_R_SGL_ATTRIBUTES,
	WEFT_R_SGL_OPERATION,
	WEFT_R_SGL_FLAGS,
	WEFT_R_SGL_ROLE,
	WEFT_R_SGL_UNIT,
	WEFT_R_SGL_EMPTY,
	WEFT_R_SGL_FLUSH,
	WEFT_R_SGL_CHAIN_LENGTH,
	WEFT_R_SGL_WRAP,

	/* Scatter-gather lists: what may follow what, and how much of it. */
	WEFT_R_SGL_ATTRIBUTES_PLACE,
	WEFT_R_SGL_ATTRIBUTES_TWICE,
	WEFT_R_SGL_CHAIN_PLACE,
	WEFT_R_SGL_CHAIN_LOOP,
	WEFT_R_SGL_LAST_EARLY,
	WEFT_R_SGL_LAST_MISSING,
	WEFT_R_SGL_NO_TRANSACTION,
	WEFT_R_SGL_OUTSIDE,
	WEFT_R_SGL_SEGMENT,
	WEFT_R_SGL_BUFFERS,
	WEFT_R_SGL_SUM,
	WEFT_R_SGL_ELEMENTS,
	WEFT_R_SGL_TRANSACTIONS,
	WEFT_R_SGL_CHAINED,
	WEFT_R_SGL_BYTES,

	/* Control messages of directed remote I/O. */
	WEFT_R_RIO_SHORT,
	WEFT_R_RIO_MAGIC,
	WEFT_R_RIO_VERSION,
	WEFT_R_RIO_TYPE,
	WEFT_R_RIO_LENGTH,
	WEFT_R_RIO_FORM,

	/* Block devices. */
	WEFT_R_STORE_RANGE,
	WEFT_R_STORE_ALIGN,
	WEFT_R_STORE_LENGTH,
	WEFT_R_STORE_SPANS,
	WEFT_R_STORE_READONLY,
	WEFT_R_STORE_UNSUPPORTED,
	WEFT_R_STORE_BLOCK,
	WEFT_R_STORE_SIZE,
	WEFT_R_STORE_UNIT,
	WEFT_R_STORE_MEMBERS,
	WEFT_R_STORE_TEXT,
	WEFT_R_STORE_OPEN,
	WEFT_R_STORE_IN_USE,
	WEFT_R_STORE_FULL,
	WEFT_R_STORE_CUT,
	WEFT_R_STORE_IO,
	WEFT_R_STORE_LOST,
	WEFT_R_STORE_FAULT,
	WEFT_R_STORE_GONE,

	/* Directed I/O: between the roles. */
	WEFT_R_RIO_UNEXPECTED,
	WEFT_R_RIO_UNKNOWN_PEER,
	WEFT_R_RIO_FORGED,
	WEFT_R_RIO_SEQUENCE,
	WEFT_R_RIO_DENIED,
	WEFT_R_RIO_DEVICE,
	WEFT_R_RIO_PLATFORM,
	WEFT_R_RIO_PLATFORMS,
	WEFT_R_RIO_CHAIN,
	WEFT_R_RIO_TIMEOUT,
	WEFT_R_RIO_CANCELLED,
	WEFT_R_RIO_OWNER_LEFT,
	WEFT_R_RIO_IOUNIT_LEFT,
	WEFT_R_RIO_FOREIGN,
	WEFT_R_RIO_UNITS,
	WEFT_R_RIO_REPLAYED,
	WEFT_R_RIO_TWICE,

	/* Packets of the InfiniBand transport. */
	WEFT_R_IB_SHORT,
	WEFT_R_IB_VERSION,
	WEFT_R_IB_OPCODE,
	WEFT_R_IB_PAD,
	WEFT_R_IB_LENGTH,
	WEFT_R_IB_ICRC,
	WEFT_R_IB_SERVICE,
	WEFT_R_IB_PKEY,
	WEFT_R_IB_QKEY,
	WEFT_R_IB_RDD,
	WEFT_R_IB_SOURCE,
	WEFT_R_IB_PSN,
	WEFT_R_IB_ORDER,
	WEFT_R_IB_XRC,
	WEFT_R_IB_INVALID,
	WEFT_R_IB_LOST,

	/* Management datagrams, and connection management by them. */
	WEFT_R_MAD_LENGTH,
	WEFT_R_MAD_VERSION,
	WEFT_R_MAD_KIND,
	WEFT_R_CM_FORM,
	WEFT_R_CM_ADDRESS,
	WEFT_R_CM_UNKNOWN,
	WEFT_R_CM_STATE,
	WEFT_R_CM_SENDER,
	WEFT_R_CM_STALE,
	WEFT_R_CM_REFUSED,

	/* The host's part in RoCE. */
	WEFT_R_ROCE_PORT,
	WEFT_R_ROCE_SLOTS,
	WEFT_R_ROCE_TOO_LARGE,
	WEFT_R_ROCE_CLOSED,
	WEFT_R_QP_SLOT,
	WEFT_R_TUN_NONE,
	WEFT_R_TUN_RIGHTS,
	WEFT_R_TUN_NAME,
	WEFT_R_TUN_REFUSED,
	WEFT_R_RAW_CLOSED,
	WEFT_R_CM_CROWD,

	/* Mirrors whose members part. */
	WEFT_R_STORE_MIRROR_MISSING,
	WEFT_R_STORE_MIRROR_STALE,
	WEFT_R_STORE_MIRROR_FOREIGN,
	WEFT_R_STORE_MIRROR_UNMARKED,

	/* What a write of directed I/O promises. */
	WEFT_R_RIO_WRITES_LOST,
	WEFT_R_RIO_SUPERSEDED,

	WEFT_R_STORE_MIRROR_STUCK,

	/* Structs of a program that was built for a later library. */
	WEFT_R_RESERVED,

	/* Memory that the program has unmapped, protected or truncated. */
	WEFT_R_MEMORY_GONE,

	/* Privilege. */
	WEFT_R_NOT_OWNER,

	/* PDUs of iSCSI, and iSER headers. */
	WEFT_R_ISCSI_SHORT,
	WEFT_R_ISCSI_OPCODE,
	WEFT_R_ISCSI_DIRECTION,
	WEFT_R_ISCSI_AHS,
	WEFT_R_ISCSI_DATA_LENGTH,
	WEFT_R_ISCSI_DATA_LIMIT,
	WEFT_R_ISCSI_FLAGS,
	WEFT_R_ISCSI_CODE,
	WEFT_R_ISCSI_TAG,
	WEFT_R_ISCSI_RANGE,
	WEFT_R_ISCSI_STAGE,
	WEFT_R_ISCSI_HEADER_DIGEST,
	WEFT_R_ISCSI_DATA_DIGEST,
	WEFT_R_ISER_SHORT,
	WEFT_R_ISER_OPCODE,
	WEFT_R_ISER_VERSION,

	WEFT_REASON_COUNT
};

/* Short name, e.g. "tag_instance". Never NULL: an unknown value gives "unknown". */
const char *weft_reason_name(enum weft_reason reason);

/* One sentence: what was wrong and what to do about it. Never NULL. */
const char *weft_reason_text(enum weft_reason reason);

/* The requirement it enforces, e.g. "LOC-02d". Never NULL; "-" where none applies. */
const char *weft_reason_requirement(enum weft_reason reason);

/* The nearest positive errno value; 0 for WEFT_OK. */
int weft_reason_errno(enum weft_reason reason);

/*
 * Why the system refused, as an errno value, when a call of this thread last returned
 * WEFT_R_SYSTEM; 0: none did, or the system gave no number. What an event or a completion tells
 * with WEFT_R_SYSTEM another thread may have met.
 */
int weft_system_errno(void);

/* Finds a reason by its short name. False, and *reason unchanged, if there is none. */
bool weft_reason_find(const char *name, enum weft_reason *reason);

#ifdef __cplusplus
}
#endif
