/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft: queue pairs in iSCSI mode (service WEFT_ISCSI), the initiator's end of one connection of
 * iSCSI (RFC 7143). The conventions of <weft/weft.h> hold.
 *
 * The adapter carries out the data transfers of SCSI commands by itself. One request has a command
 * and its memory; the adapter enters the memory into its table under the Initiator Task Tag, sends
 * the command, places Data-In there, and answers R2Ts from there; the Response of the target takes
 * the entry out again. All other PDUs are the consumer's: login, window, recovery.
 *
 * The states are those of other queue pairs. weft_qp_dial() connects it, by TCP alone: of its
 * options from, timeout_ns, refused_wait_ns and alive_ns count. The consumer then logs in by
 * WEFT_OP_ISCSI_CONTROL. After the Login Response that leads to the full feature phase the adapter
 * reads nothing more until weft_qp_modify_iscsi() has said what was negotiated.
 *
 * Receives: each takes one PDU as it came, without digests and padding: BHS, AHS, data segment. Of
 * a Data-In or R2T that was carried out it takes BHS and AHS alone. While no receive is posted the
 * adapter reads nothing; a consumer posts enough of them in time. A completion has
 *
 *	opcode         WEFT_OP_RECV_ISCSI and those behind it
 *	byte_count     the bytes in the receive
 *	command_id     of the command that it belongs to
 *	has_invalidated, invalidated_tag
 *	               the command is over: its entry, of this tag, is out of the table, and the
 *	               adapter does not touch its memory any more. On a SCSI Response, and on a
 *	               Data-In that has the status
 *	reason         with WEFT_SUCCESS and WEFT_OP_RECV_ISCSI: why the adapter did not carry out a
 *	               Data-In or R2T (ISCSI-05: nothing was moved, and all of the PDU is here), or
 *	               WEFT_R_ISCSI_STAT_SN, or that the PDU is none (RFC 7143 section 11), or
 *	               WEFT_R_ISCSI_DATA_DIGEST. What to do about it is the consumer's to decide
 *
 * A SCSI Response that belongs to no command, or whose StatSN is not the next, is dropped and
 * counted (ISCSI-01k).
 *
 * A request that fails on this side ends by attribute on_failure: WEFT_FAIL_DRAIN, later requests
 * are flushed and all commands in progress go on; the consumer asks for state RTS, and tries again
 * (ISCSI-01e). WEFT_FAIL_TERMINATE, the connection ends (ISCSI-01f).
 *
 * When the connection ends, all commands in progress are over: their entries leave the table before
 * the first flushed completion.
 */
#pragma once

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	WEFT_ISCSI_BHS_BYTES = 48,
	WEFT_ISCSI_AHS_MAX = 32,
	/*
	 * Initiator Task Tags of the consumer's own PDUs are below this, or 0xffffffff where RFC
	 * 7143 lets them be: no command's tag is.
	 */
	WEFT_ISCSI_TAGS_MAX = 256
};

/*
 * A PDU to be sent: for weft_send_wr.iscsi. It is copied when it is posted.
 *
 * WEFT_OP_ISCSI_COMMAND: a SCSI Command, with F set and without a data segment. It has one
 * direction, R or W, or neither. The adapter sets the Initiator Task Tag and ExpStatSN; and F and
 * DataSegmentLength by the data that goes with it. The request's elements are the memory of the
 * transfer, of its Expected Data Transfer Length together, which must stay until the command is
 * over.
 *
 * The request has completed when the command is sent, with immediate and unsolicited data: that
 * ends neither the command nor the use of its memory. outstanding_max of the queue pair is the
 * number of commands from posting on until they are over; WEFT_R_QUEUE_FULL: there are so many.
 *
 * WEFT_OP_ISCSI_CONTROL: another PDU of an initiator, but Data-Out and SNACK, whole but for
 * ExpStatSN, which the adapter sets. The elements, also WEFT_INLINE, are the data segment.
 */
struct weft_iscsi_pdu {
	uint8_t bhs[WEFT_ISCSI_BHS_BYTES];
	const uint8_t *ahs; /* a command with a longer CDB */
	uint32_t ahs_bytes; /* at most WEFT_ISCSI_AHS_MAX */
	/*
	 * Out, of a command: its Command ID, never 0. The low 16 bits are below outstanding_max,
	 * and differ between commands in progress; an ID comes again after many others.
	 */
	uint32_t command_id;
	/*
	 * ISCSI-02: memory by real addresses, in privileged domains, in place of elements. It
	 * begins at first_offset of the first page and ends before end_offset of the last (0: with
	 * it). The list is borrowed until the request has completed.
	 */
	const struct weft_page_list *pages;
	uint64_t end_offset;
	uint64_t reserved[4]; /* zero */
};

/* What the two ends have negotiated, as far as the adapter needs it. */
struct weft_iscsi_terms {
	bool has_header_digest, has_data_digest; /* CRC32C */
	bool is_unsolicited_on;			 /* InitialR2T=No */
	bool is_immediate_off;			 /* ImmediateData=No */
	/* MaxRecvDataSegmentLength of this end and of the target: default 8192. */
	uint32_t recv_bytes_max, send_bytes_max;
	uint32_t first_burst_bytes; /* FirstBurstLength: default 65536 */
	/* MaxBurstLength: default 262144. For queries: an R2T of more bytes is answered. */
	uint32_t burst_bytes_max;
	uint64_t reserved[4]; /* zero */
};

/*
 * They hold from the next PDU on, in both directions. WEFT_R_QP_UNCONNECTED: the queue pair has no
 * connection; a new connection begins with the defaults.
 */
enum weft_reason weft_qp_modify_iscsi(struct weft_qp *qp, const struct weft_iscsi_terms *terms);

struct weft_iscsi_attr {
	struct weft_iscsi_terms terms;
	uint32_t exp_stat_sn;	/* the StatSN that is expected next */
	uint32_t commands_open; /* posted, and not over */
	/* Since the connection began. */
	uint64_t commands, responses;	   /* commands sent; over by Response or status */
	uint64_t r2ts, data_ins;	   /* PDUs that were carried out */
	uint64_t data_outs;		   /* PDUs sent */
	uint64_t bytes_placed, bytes_sent; /* of Data-In; of immediate data and Data-Out */
	uint64_t controls_in, controls_out;
	uint64_t refused;     /* Data-In and R2T that failed a check of ISCSI-05 */
	uint64_t dropped;     /* SCSI Responses that failed a check of ISCSI-01i */
	uint64_t reserved[8]; /* zero */
};

/* WEFT_R_QP_UNCONNECTED as above. */
enum weft_reason weft_qp_query_iscsi(struct weft_qp *qp, struct weft_iscsi_attr *attr);

/*
 * The Initiator Task Tag of a command, for Task Management and to recognize it in a Reject.
 * WEFT_R_ISCSI_COMMAND: it is over, or was not sent yet.
 */
enum weft_reason weft_qp_command_tag(struct weft_qp *qp, uint32_t command_id, uint32_t *tag);

/*
 * Ends a command that gets no Response any more, as Task Management has aborted it: takes its entry
 * out of the table; its memory is not touched any more. WEFT_R_ISCSI_COMMAND: it is over;
 * WEFT_R_BUSY: its request has not completed yet.
 */
enum weft_reason weft_qp_end_command(struct weft_qp *qp, uint32_t command_id);

#ifdef __cplusplus
}
#endif
