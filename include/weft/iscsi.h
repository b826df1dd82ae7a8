/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks of iSCSI targets (RFC 7143) for programs: a session with a target, and reads and writes of
 * one of its logical units. The adapter of weft.h moves the data between the connection and the
 * program's memory by itself (iscsi_qp.h). docs/iscsi-program.md tells the whole.
 *
 * The conventions of weft.h hold, and:
 *  - A unit is named by a URL, as libiscsi and qemu write it:
 *
 *	iscsi://[USER[%PASSWORD]@]HOST[:PORT]/TARGET/LUN[?OPTION[=VALUE][&OPTION[=VALUE]]...]
 *
 *    With iser:// the data goes by RDMA (iSER, RFC 7145), on RoCE or, where the target has no RoCE,
 *    on iWARP; the option wire names one of the two.
 *  - Work is done inside the calls on a session. A program that waits elsewhere polls the session's
 *    descriptor and calls weft_iscsi_request_wait() with no time when it is readable; so the target
 *    is answered, and a lost connection is made again.
 *  - A session whose connection was lost logs in again by itself. Requests wait meanwhile; what was
 *    under way is asked again, so that reads and writes come through.
 */
#pragma once

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	WEFT_ISCSI_NAME_MAX = 223,
	WEFT_ISCSI_PORTAL_MAX = 255,
	WEFT_ISCSI_SENSE_MAX = 252,
	WEFT_ISCSI_CDB_BYTES = 16,
	WEFT_ISCSI_TEXT_MAX = 200,
	WEFT_ISCSI_WHY_MAX = 400
};

struct weft_iscsi_session;

/* What the URL says counts more than these, and these count more than the environment. */
struct weft_iscsi_options {
	/* iqn.YYYY-MM.DOMAIN[:TEXT]; NULL: iqn.2026-11.local.weft: and the name of the host. */
	const char *initiator_name;
	/*
	 * CHAP: who this end is, and what the target must prove that it knows. NULL: as
	 * LIBISCSI_CHAP_USERNAME, _PASSWORD, _TARGET_USERNAME and _TARGET_PASSWORD of the
	 * environment say.
	 */
	const char *user, *password;
	const char *target_user, *target_password;
	const char *secrets_path; /* a file with the four: docs/iscsi-program.md; NULL: none */
	uint32_t requests_max;	  /* under way at a time; default 128, at most 4096 */
	uint64_t open_ns;	  /* for connection, login and the first questions; default 15 s */
	uint64_t timeout_ns;	  /* of requests that name none; default 60 s */
	/*
	 * A lost connection is made again for so long; then the session is over. Default 30 s;
	 * WEFT_ISCSI_NO_RETRY: it is over at once.
	 */
	uint64_t retry_ns;
	uint64_t alive_ns; /* a silent target is asked after so long; default 5 s */
	/*
	 * Out, if a call with these options is refused: a sentence that tells more than the reason,
	 * or none (an empty text). Room for WEFT_ISCSI_WHY_MAX bytes, or NULL.
	 */
	char *why;
	/*
	 * The unit of the URL is not asked what it is, and need not be there: reads and writes are
	 * refused (WEFT_R_ISCSI_UNSUPPORTED), CDBs of the program's own go to any LUN.
	 */
	bool skips_unit;
	uint64_t reserved[7]; /* zero */
};

#define WEFT_ISCSI_NO_RETRY UINT64_MAX

/* Connects, logs in and asks for the properties of the unit. */
enum weft_reason weft_iscsi_session_open(const char *url, const struct weft_iscsi_options *options,
					 struct weft_iscsi_session **session);

/* Requests under way end, and are not told any more. Logs out; waits for that a second at most. */
void weft_iscsi_session_close(struct weft_iscsi_session *session);

/*
 * A descriptor that poll() and its like find readable while weft_iscsi_request_wait() has work to
 * do. It stays the session's: a program neither reads nor closes it.
 */
enum weft_reason weft_iscsi_session_fd(struct weft_iscsi_session *session, int *fd);

enum weft_iscsi_state {
	WEFT_ISCSI_CONNECTED = 1, /* logged in */
	WEFT_ISCSI_CONNECTING,	  /* for the first time, or again */
	WEFT_ISCSI_CLOSED,	  /* over: see reason */
};

struct weft_iscsi_info {
	enum weft_iscsi_state state;
	enum weft_reason reason; /* why the connection was lost last, or why the session is over */
	/* The unit. */
	uint16_t lun;
	uint8_t device_type; /* SPC-4 table 144; 0: a disk, 5: a CD or DVD */
	uint64_t size_bytes;
	uint32_t block_bytes, physical_block_bytes;
	uint64_t transfer_bytes_max;	   /* of a command: larger requests are several */
	uint64_t transfer_bytes_preferred; /* 0: not said */
	bool is_readonly, has_write_cache, can_fua, can_unmap, can_write_zeroes, is_thin;
	char vendor[9], product[17], revision[5], serial[65];
	char identity[65]; /* designator of VPD page 83, in its own form: naa., eui., t10. ... */
	/* The session, as negotiated. */
	char initiator_name[WEFT_ISCSI_NAME_MAX + 1], target_name[WEFT_ISCSI_NAME_MAX + 1];
	struct weft_address portal;
	bool has_header_digest, has_data_digest, has_initial_r2t, has_immediate_data;
	uint32_t recv_bytes_max, send_bytes_max; /* MaxRecvDataSegmentLength, here and there */
	uint32_t first_burst_bytes, burst_bytes_max, r2t_max;
	/* Since it was opened. */
	uint64_t commands, read_bytes, written_bytes, reconnects, retries;
	uint64_t reserved[8]; /* zero */
};

enum weft_reason weft_iscsi_session_query(struct weft_iscsi_session *session,
					  struct weft_iscsi_info *info);

/*
 * Memory that requests may name parts of by a tag, and nothing beyond: about 8,000 pieces at a time
 * (WEFT_R_TABLE_FULL). Removing: WEFT_R_BUSY while requests name it.
 */
enum weft_reason weft_iscsi_memory_add(struct weft_iscsi_session *session, void *memory,
				       uint64_t length, uint32_t *tag);
enum weft_reason weft_iscsi_memory_remove(struct weft_iscsi_session *session, uint32_t tag);

enum weft_iscsi_operation {
	WEFT_ISCSI_READ = 1,
	WEFT_ISCSI_WRITE,
	/*
	 * What was written before becomes durable. WEFT_R_ISCSI_WRITES_LOST, once: the unit was
	 * reset or lost power with acknowledged writes in its cache that no flush had covered.
	 */
	WEFT_ISCSI_FLUSH,
	WEFT_ISCSI_WRITE_ZEROES, /* needs no memory */
	WEFT_ISCSI_UNMAP,	 /* the unit may forget what is there */
	WEFT_ISCSI_COMMAND	 /* a CDB of the program's own */
};

struct weft_iscsi_request {
	enum weft_iscsi_operation operation;
	bool is_fua;		 /* of what writes: durable when it has ended */
	uint64_t offset, length; /* bytes, multiples of the block size; a flush has neither */
	/*
	 * Of read, write and command: length bytes in all. A tag is one of
	 * weft_iscsi_memory_add(), or 0: memory of the process, registered while the request lasts.
	 */
	const struct weft_sge *sges;
	uint32_t sge_count; /* at most 64; of a command 32 */
	/* Of a command. It goes to the unit of the URL, or with has_lun to another. */
	bool is_to_device; /* the data; without length: there is none */
	bool has_lun;
	uint16_t lun;
	uint8_t cdb[WEFT_ISCSI_CDB_BYTES];
	uint64_t timeout_ns;  /* 0: the session's */
	void *context;	      /* given back when it has ended */
	uint64_t reserved[4]; /* zero */
};

struct weft_iscsi_result {
	void *context;
	/*
	 * WEFT_OK: all of it was done. WEFT_R_ISCSI_STATUS: the unit refused it, see status and
	 * sense. Else why it was not asked or has no answer.
	 */
	enum weft_reason reason;
	uint8_t status; /* SAM-5 table 33 */
	/* Of the sense data, if there is any. */
	uint8_t sense_key, additional_code, additional_qualifier;
	uint32_t sense_bytes;
	uint8_t sense[WEFT_ISCSI_SENSE_MAX];
	uint64_t done_bytes; /* of memory: that were read or written, also by what failed in part */
	uint64_t reserved[4]; /* zero */
};

/*
 * Asks. WEFT_OK: it ends exactly once, and weft_iscsi_request_wait() has it. The memory must stay
 * until then; nothing touches it from then on. WEFT_R_BUSY: so many are under way. Requests that
 * are submitted one behind another leave together: with the next weft_iscsi_request_wait(), or
 * without it very soon.
 */
enum weft_reason weft_iscsi_request_submit(struct weft_iscsi_session *session,
					   const struct weft_iscsi_request *request);

/*
 * Takes up to max requests that have ended; waits up to timeout_ns for the first.
 * WEFT_R_ISCSI_ENDED: the session is over, and all of its results were taken.
 */
enum weft_reason weft_iscsi_request_wait(struct weft_iscsi_session *session, uint64_t timeout_ns,
					 struct weft_iscsi_result *ended, uint32_t max,
					 uint32_t *count);

/*
 * Asks and waits. Returns the reason that it ended with, or why it was not asked; ended, which may
 * be NULL, has it too. Results of requests that were submitted stay with the session meanwhile.
 */
enum weft_reason weft_iscsi_request_do(struct weft_iscsi_session *session,
				       const struct weft_iscsi_request *request,
				       struct weft_iscsi_result *ended);

/* The result in words: the reason, or the status and sense of the unit. */
void weft_iscsi_result_text(const struct weft_iscsi_result *result, char text[WEFT_ISCSI_TEXT_MAX]);

/* What a discovery session finds: a target at a portal. */
struct weft_iscsi_target {
	char name[WEFT_ISCSI_NAME_MAX + 1];
	char portal[WEFT_ISCSI_PORTAL_MAX + 1]; /* HOST:PORT */
	uint32_t portal_group;
	uint64_t reserved[4]; /* zero */
};

/*
 * Asks the portal of a URL, of which target and LUN may be missing, for its targets. Takes up to
 * max; count is how many there are in all.
 */
enum weft_reason weft_iscsi_target_find(const char *url, const struct weft_iscsi_options *options,
					struct weft_iscsi_target *targets, uint32_t max,
					uint32_t *count);

#ifdef __cplusplus
}
#endif
