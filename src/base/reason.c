/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reason_rows.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct reason_row rows[REASON_ISCSI_FIRST] = {
	[WEFT_OK] = { "ok", "-", 0, "Nothing was refused." },

	[WEFT_R_NULL_ARGUMENT] = { "null_argument", "QP-03", EINVAL,
				   "A required pointer is NULL." },
	[WEFT_R_BAD_ARGUMENT] = { "bad_argument", "QP-03", EINVAL,
				  "An argument is outside its documented range." },
	[WEFT_R_NO_MEMORY] = { "no_memory", "-", ENOMEM, "The host has no memory left for this." },
	[WEFT_R_LIMIT] = { "limit", "QP-18", ENOSPC,
			   "The adapter holds as many objects of this kind as it was opened "
			   "for; destroy "
			   "some, or open it with a higher limit." },
	[WEFT_R_RESERVED] = { "reserved", "-", EINVAL,
			      "A reserved field of a struct is not zero: set structs to zero before filling them in; a program that was built for a later library needs that library." },
	[WEFT_R_NOT_OWNER] = { "not_owner", "VMM-04", EPERM,
			       "The adapter has an owner: only with the authority that "
			       "weft_adapter_claim() gave it are domains privileged." },
	[WEFT_R_BUSY] = { "busy", "QP-16", EBUSY,
			  "Other objects still use this one; destroy them first." },
	[WEFT_R_SYSTEM] = { "system", "-", EIO, "The operating system refused a call." },

	[WEFT_R_REG_LENGTH] = { "reg_length", "MEM-01", EINVAL,
				"A region must be at least one byte long." },
	[WEFT_R_REG_WRAP] = { "reg_wrap", "MEM-04a", EINVAL,
			      "Start and length of the region run past the end of the address "
			      "space." },
	[WEFT_R_REG_RIGHTS] = { "reg_rights", "MEM-04f", EINVAL,
				"The rights name a bit that this kind of entry does not have." },
	[WEFT_R_REG_SPACE] = { "reg_space", "RKEY-02b", EINVAL,
			       "Some of the range lies outside what the caller's address space "
			       "holds." },
	[WEFT_R_REG_VIRTUAL] = { "reg_virtual", "RKEY-03", EINVAL,
				 "Virtual addresses are for privileged protection domains; a "
				 "user names "
				 "memory by its own addresses." },
	[WEFT_R_REG_PAGE_SIZE] = { "reg_page_size", "MEM-04l", EINVAL,
				   "The page size is none of 4 KiB, 8 KiB, 64 KiB, 1 MiB, 16 "
				   "MiB and "
				   "256 MiB." },
	[WEFT_R_REG_PAGE_ADDRESS] = { "reg_page_address", "MEM-06", EINVAL,
				      "A page address is no multiple of the page size, or the "
				      "page is not "
				      "inside the address space." },
	[WEFT_R_REG_PAGE_COUNT] = { "reg_page_count", "MEM-06", EINVAL,
				    "The page list is not just as long as offset and length "
				    "need." },
	[WEFT_R_REG_ORDER] = { "reg_order", "MEM-04k", EINVAL,
			       "The page list is too long for a translation table of this order." },
	[WEFT_R_REG_TOUCH] = { "reg_touch", "TOUCH-02", EINVAL,
			       "A one-touch region cannot have windows bound to it." },
	[WEFT_R_TABLE_FULL] = { "table_full", "RKEY-02a", ENOSPC,
				"Every entry of the region/window table is in use; deregister "
				"something or "
				"open the adapter with more tags." },
	[WEFT_R_TRANSLATIONS_FULL] = { "translations_full", "MEM-04m", ENOSPC,
				       "No room is left for this page list; deregister "
				       "something or open "
				       "the adapter with more translations." },

	[WEFT_R_TAG_INDEX] = { "tag_index", "MEM-02", EINVAL,
			       "The tag's index lies outside the table." },
	[WEFT_R_TAG_INVALID] = { "tag_invalid", "LOC-02a", EINVAL,
				 "The tag names an entry that is not valid: never made, "
				 "deregistered, "
				 "unbound or invalidated." },
	[WEFT_R_TAG_SPENT] = { "tag_spent", "TOUCH-11", EINVAL,
			       "The one touch of this entry has been used; bind it again to allow "
			       "another transfer." },
	[WEFT_R_TAG_WINDOW_LOCAL] = { "tag_window_local", "LOC-02b", EINVAL,
				      "A window cannot be used for local access; name the "
				      "region." },
	[WEFT_R_TAG_REGION_REMOTE] = { "tag_region_remote", "IWARP-06b", EINVAL,
				       "Under the strict policy a peer reaches windows only; "
				       "bind one and "
				       "advertise its tag." },
	[WEFT_R_TAG_TYPE] = { "tag_type", "MEM-04d", EINVAL,
			      "The entry is of another type than this operation needs." },
	[WEFT_R_TAG_PD] = { "tag_pd", "LOC-02c", EINVAL,
			    "The tag belongs to another protection domain." },
	[WEFT_R_TAG_QP] = { "tag_qp", "RKEY-06", EINVAL,
			    "The window is bound to another queue pair." },
	[WEFT_R_TAG_INSTANCE] = { "tag_instance", "LOC-02d", EINVAL,
				  "The tag is stale: its index has been given another meaning "
				  "since." },
	[WEFT_R_RANGE_BOUNDS] = { "range_bounds", "LOC-02e", EINVAL,
				  "Some of the range lies outside the region or window." },
	[WEFT_R_RANGE_WRAP] = { "range_wrap", "LOC-02e", EINVAL,
				"Address and length run past the end of the address space." },
	[WEFT_R_RIGHT_LOCAL_READ] = { "right_local_read", "LOC-02f", EACCES,
				      "The region does not grant local read." },
	[WEFT_R_RIGHT_LOCAL_WRITE] = { "right_local_write", "LOC-02f", EACCES,
				       "The region does not grant local write." },
	[WEFT_R_RIGHT_REMOTE_READ] = { "right_remote_read", "IWARP-06f", EACCES,
				       "The entry does not grant remote read." },
	[WEFT_R_RIGHT_REMOTE_WRITE] = { "right_remote_write", "IWARP-09f", EACCES,
					"The entry does not grant remote write." },
	[WEFT_R_RIGHT_REMOTE_ATOMIC] = { "right_remote_atomic", "QP-07d", EACCES,
					 "The entry does not grant remote atomics." },
	[WEFT_R_BIND_DISABLED] = { "bind_disabled", "LOC-02g", EACCES,
				   "The region was registered without the right to bind windows "
				   "to it." },
	[WEFT_R_ATOMIC_ALIGN] = { "atomic_align", "QP-07d", EINVAL,
				  "An atomic works on 8 bytes at an address that is a multiple "
				  "of 8." },
	[WEFT_R_SPACE_MAPPING] = { "space_mapping", "RKEY-08c", EFAULT,
				   "The address space has no mapping for some of the range any "
				   "more, or one that may not be used so." },
	[WEFT_R_SPACE_UNMAPPED] = { "space_unmapped", "RKEY-08d", EFAULT,
				    "The mapping is known but no page has been put behind it." },

	[WEFT_R_BIND_RIGHTS] = { "bind_rights", "RKEY-11", EACCES,
				 "A window cannot grant more than the region it is bound to." },
	[WEFT_R_WINDOW_BOUND] = { "window_bound", "RKEY-02d", EBUSY,
				  "The window is still bound; unbind or invalidate it first." },
	[WEFT_R_WINDOW_UNBOUND] = { "window_unbound", "RKEY-02c", EINVAL,
				    "The window is not bound." },
	[WEFT_R_REGION_HAS_WINDOWS] = { "region_has_windows", "MEM-10", EBUSY,
					"Windows are still bound to the region; unbind them "
					"first." },
	[WEFT_R_INVALIDATE_REGION] = { "invalidate_region", "SQR-10", EINVAL,
				       "Only windows and regions registered through a send "
				       "queue can be "
				       "invalidated; this region is deregistered by its owner." },
	[WEFT_R_TOUCH_SECOND] = { "touch_second", "TOUCH-05c", EACCES,
				  "A second message was aimed at a one-touch entry." },
	[WEFT_R_TOUCH_BEYOND] = { "touch_beyond", "TOUCH-07", EACCES,
				  "A segment of a second message was aimed at a one-touch entry "
				  "whose "
				  "message is still being completed." },

	[WEFT_R_SQR_DISABLED] = { "sqr_disabled", "SQR-04a", EPERM,
				  "Registration through the send queue is not enabled on this "
				  "queue "
				  "pair." },
	[WEFT_R_SQR_PRIVILEGE] = { "sqr_privilege", "SQR-07", EPERM,
				   "Only a privileged protection domain may enable registration "
				   "through "
				   "the send queue." },
	[WEFT_R_SQR_ENTRY] = { "sqr_entry", "SQR-04b", EINVAL,
			       "The tag to register under does not point at a reserved table "
			       "entry of "
			       "this protection domain." },
	[WEFT_R_SQR_INSTANCE] = { "sqr_instance", "SQR-04c", EINVAL,
				  "The tag to register under is stale: reserve a new one." },
	[WEFT_R_SQR_SPACE] = { "sqr_space", "SQR-04d", ENOSPC,
			       "The translation table has no room for this registration; free "
			       "some and "
			       "post it again." },

	[WEFT_R_WR_OPCODE] = { "wr_opcode", "QP-07", EINVAL,
			       "The work request names no operation of the send queue." },
	[WEFT_R_WR_SERVICE] = { "wr_service", "QP-07", EOPNOTSUPP,
				"The queue pair's transport service does not have this "
				"operation." },
	[WEFT_R_WR_FLAGS] = { "wr_flags", "QP-03", EINVAL,
			      "The work request carries a flag that is unknown or does not go "
			      "with its "
			      "operation." },
	[WEFT_R_WR_SGES] = { "wr_sges", "QP-06", EINVAL,
			     "The number of data segments is over the queue's limit or "
			     "wrong for this "
			     "operation." },
	[WEFT_R_WR_LENGTH] = { "wr_length", "QP-06", EINVAL,
			       "The message is longer than 2 GiB, or of the wrong length for this "
			       "operation." },
	[WEFT_R_WR_INLINE] = { "wr_inline", "QP-06", EINVAL,
			       "The inline data is longer than the queue pair was created for." },
	[WEFT_R_WR_STATE] = { "wr_state", "QP-14", EINVAL,
			      "The queue pair takes no such request in its present state." },
	[WEFT_R_QUEUE_FULL] = { "queue_full", "QP-02", ENOMEM,
				"The work queue is full; wait for completions before posting "
				"more." },
	[WEFT_R_QUEUE_SHARED] = { "queue_shared", "QP-08", EINVAL,
				  "The queue pair takes its receives from a shared queue; post "
				  "there." },
	[WEFT_R_CQ_OVERRUN] = { "cq_overrun", "QP-10", EOVERFLOW,
				"A completion was lost because its queue was full; make the "
				"queue as "
				"large as all requests that may complete into it." },

	[WEFT_R_QP_STATE] = { "qp_state", "QP-14", EINVAL,
			      "The queue pair cannot go from its present state to the new one." },
	[WEFT_R_QP_CONNECTED] = { "qp_connected", "QP-12", EISCONN,
				  "The queue pair has a peer already, or its service has none." },
	[WEFT_R_QP_UNCONNECTED] = { "qp_unconnected", "QP-12", ENOTCONN,
				    "The queue pair has no peer yet." },
	[WEFT_R_QP_REMOTE_RIGHTS] = { "qp_remote_rights", "QP-16", EACCES,
				      "The queue pair does not let its peer do this, whatever "
				      "the tag "
				      "grants." },
	[WEFT_R_FLUSHED] = { "flushed", "QP-14", ECANCELED,
			     "The request was not carried out: the queue pair left the "
			     "operational state "
			     "before its turn." },
	[WEFT_R_RECEIVER_NOT_READY] = { "receiver_not_ready", "QP-08", ETIMEDOUT,
					"The peer posted no receive in time." },
	[WEFT_R_RECEIVE_TOO_SHORT] = { "receive_too_short", "QP-08", EMSGSIZE,
				       "The message is longer than the receive that was posted "
				       "for it." },
	[WEFT_R_PEER_GONE] = { "peer_gone", "RKEY-09", ECONNRESET,
			       "The peer's queue pair is gone or takes no messages." },
	[WEFT_R_PEER_TERMINATED] = { "peer_terminated", "SQR-06b", ECONNABORTED,
				     "The peer ended the stream after an error of its own." },
	[WEFT_R_PEER_UNKNOWN] = { "peer_unknown", "QP-12", EHOSTUNREACH,
				  "No queue pair of this service has that number." },
	[WEFT_R_PEER_RECEIVE] = { "peer_receive", "LOC-06", EREMOTEIO,
				  "The receive that the peer posted failed its own access check." },

	[WEFT_R_REG_FRAMES] = { "reg_frames", "SQR-07", EPERM,
				"Naming memory by page frames is for privileged protection "
				"domains." },
	[WEFT_R_READ_SINK] = { "read_sink", "LOC-02f", EACCES,
			       "The destination of a Read must grant remote write, as the "
			       "peer's response is "
			       "written there: a window under the strict policy; else a "
			       "region's local "
			       "write serves too." },

	[WEFT_R_ADDRESS] = { "address", "-", EAFNOSUPPORT,
			     "This is no address of IPv4 or IPv6 that the host can use." },
	[WEFT_R_ADDRESS_IN_USE] = { "address_in_use", "-", EADDRINUSE,
				    "Another listener has this address and port already." },
	[WEFT_R_PRIVATE_DATA] = { "private_data", "IWARP-02", EMSGSIZE,
				  "The private data is longer than a connection request or its "
				  "answer can carry." },
	[WEFT_R_CONNECT_REFUSED] = { "connect_refused", "IWARP-02", ECONNREFUSED,
				     "No process listens at that address and port." },
	[WEFT_R_CONNECT_UNREACHABLE] = { "connect_unreachable", "IWARP-02", EHOSTUNREACH,
					 "There is no way to that address." },
	[WEFT_R_CONNECT_TIMEOUT] = { "connect_timeout", "IWARP-02", ETIMEDOUT,
				     "The other end did not answer in time while the connection "
				     "was set up." },
	[WEFT_R_CONNECT_REJECTED] = { "connect_rejected", "IWARP-02", ECONNREFUSED,
				      "The program at the other end rejected the connection; "
				      "its private data may say why." },
	[WEFT_R_CONNECT_CLOSED] = { "connect_closed", "IWARP-02", ECONNRESET,
				    "The other end closed the connection before it was set up; "
				    "perhaps it speaks another protocol or revision." },
	[WEFT_R_MPA_KEY] = { "mpa_key", "IWARP-02", EPROTO,
			     "The other end did not begin with the MPA frame that was due; it "
			     "speaks another protocol, or both ends connected or both listened." },
	[WEFT_R_MPA_REVISION] = { "mpa_revision", "IWARP-02", EPROTO,
				  "The other end speaks an MPA revision that is neither 1 nor 2, or "
				  "answered in another than it was asked in." },
	[WEFT_R_MPA_LENGTH] = { "mpa_length", "IWARP-02", EPROTO,
				"The other end's MPA frame announces a length of private data "
				"that it cannot have." },
	[WEFT_R_MPA_DEPTH] = { "mpa_depth", "IWARP-08", EPROTO,
			       "The other end wants more Reads in flight than this one serves, "
			       "and would not take less." },
	[WEFT_R_MPA_RTR] = { "mpa_rtr", "IWARP-02", EPROTO,
			     "The two ends have no ready-to-receive message in common." },
	[WEFT_R_MPA_CRC] = { "mpa_crc", "IWARP-01e", EBADMSG,
			     "A frame arrived with a CRC that does not match its bytes." },
	[WEFT_R_MPA_MARKER] = { "mpa_marker", "IWARP-02", EPROTO,
				"A marker and a frame's length disagree about where the frame "
				"begins." },
	[WEFT_R_DDP_VERSION] = { "ddp_version", "IWARP-03", EPROTO,
				 "A segment carries a DDP version other than 1." },
	[WEFT_R_DDP_QUEUE] = { "ddp_queue", "IWARP-03", EPROTO,
			       "An untagged segment names a queue that does not exist." },
	[WEFT_R_DDP_MSN] = { "ddp_msn", "IWARP-05", EPROTO,
			     "An untagged segment carries a message sequence number outside its "
			     "queue." },
	[WEFT_R_DDP_OFFSET] = { "ddp_offset", "IWARP-03", EPROTO,
				"An untagged segment does not begin where the one before it "
				"ended." },
	[WEFT_R_RDMAP_VERSION] = { "rdmap_version", "IWARP-01d", EPROTO,
				   "A message carries an RDMAP version that is not spoken here." },
	[WEFT_R_RDMAP_OPCODE] = { "rdmap_opcode", "IWARP-01d", EPROTO,
				  "A message carries an opcode that is unknown, or not due on "
				  "this queue or kind of segment." },
	[WEFT_R_RDMAP_BODY] = { "rdmap_body", "IWARP-01d", EPROTO,
				"A message is not as long as its kind must be, or holds what no "
				"sender may put there." },
	[WEFT_R_RDMAP_RESPONSE] = { "rdmap_response", "IWARP-07", EPROTO,
				    "A response arrived that matches no request, or not the "
				    "oldest one." },
	[WEFT_R_READS_BEYOND] = { "reads_beyond", "IWARP-08", EPROTO,
				  "The peer has more Reads and atomics in flight than the depth "
				  "that was agreed." },
	[WEFT_R_STREAM_LOST] = { "stream_lost", "IWARP-15", ECONNRESET,
				 "The connection below the stream was reset or lost." },
	[WEFT_R_STREAM_CUT] = { "stream_cut", "IWARP-01c", ECONNRESET,
				"The stream ended in the middle of a frame." },
	[WEFT_R_SOURCE_GONE] = { "source_gone", "LOC-06", EFAULT,
				 "Memory was deregistered while a message from it was on its "
				 "way out." },
	[WEFT_R_SINK_GONE] = { "sink_gone", "LOC-06", EFAULT,
			       "Memory was deregistered while a message into it was arriving." },
	[WEFT_R_WR_WIRE] = { "wr_wire", "QP-07a", EOPNOTSUPP,
			     "The wire of this connection has no such message: iWARP has no "
			     "Send with immediate (Write with immediate it has), and a Read "
			     "there has one sink." },
	[WEFT_R_READS_NONE] = { "reads_none", "IWARP-08", EINVAL,
				"The two ends agreed on a connection without Reads and atomics in this "
				"direction; ask for a read depth when connecting." },
	[WEFT_R_PEER_RIGHTS] = { "peer_rights", "IWARP-06f", EACCES,
				 "The peer's memory, or its queue pair, does not grant this "
				 "access." },
	[WEFT_R_PEER_INVALIDATE] = { "peer_invalidate", "SQR-10", EACCES,
				     "The peer refused to invalidate the tag that a Send named." },
	[WEFT_R_FAULT_INJECTED] = { "fault_injected", "-", EIO,
				    "WEFT_FAULTS asked for failures, and this is one of them." },
	[WEFT_R_DESCRIPTORS] = { "descriptors", "-", EMFILE,
				 "The process, or the host, has no file descriptor left; see "
				 "ulimit -n." },

	[WEFT_R_SGL_SHORT] = { "sgl_short", "RIO-16", EBADMSG,
			       "The scatter-gather list, or one of its chained parts, ends in the "
			       "middle of an element." },
	[WEFT_R_SGL_KIND] = { "sgl_kind", "RIO-13", EPROTO,
			      "The scatter-gather list holds an element of a kind that is unknown "
			      "here." },
	[WEFT_R_SGL_ELEMENT_LENGTH] = { "sgl_element_length", "RIO-12", EPROTO,
					"An element of the scatter-gather list says a length that "
					"its kind cannot have." },
	[WEFT_R_SGL_RESERVED] = { "sgl_reserved", "RIO-12", EPROTO,
				  "An element of the scatter-gather list has bits set that must be "
				  "0." },
	[WEFT_R_SGL_ATTRIBUTES] = { "sgl_attributes", "RIO-13a", EPROTO,
				    "The list's attributes name sizes that are not spoken here: "
				    "addresses are of 4 or 8 bytes, handles of 4, page frames of 4 "
				    "KiB to 1 GiB." },
	[WEFT_R_SGL_OPERATION] = { "sgl_operation", "RIO-15", EOPNOTSUPP,
				   "A transaction asks for an operation that is unknown here." },
	[WEFT_R_SGL_FLAGS] = { "sgl_flags", "RIO-15", EINVAL,
			       "An element of the scatter-gather list carries a flag that is "
			       "unknown, or that its operation does not have." },
	[WEFT_R_SGL_ROLE] = { "sgl_role", "RIO-15", EPROTO,
			      "A segment of the list says that it is neither source nor result, or "
			      "is immediate data and no source." },
	[WEFT_R_SGL_UNIT] = { "sgl_unit", "RIO-14", EINVAL,
			      "The scatter-gather list names unit 0, which does not exist." },
	[WEFT_R_SGL_EMPTY] = { "sgl_empty", "RIO-15", EINVAL,
			       "A transaction, a segment or a chained part of the list is of 0 "
			       "bytes." },
	[WEFT_R_SGL_FLUSH] = { "sgl_flush", "RIO-15", EINVAL,
			       "A flush is of the whole device; its offset and length must be 0." },
	[WEFT_R_SGL_CHAIN_LENGTH] = { "sgl_chain_length", "RIO-13b", EINVAL,
				      "The length of a chained part of the list is no multiple of "
				      "4." },
	[WEFT_R_SGL_WRAP] = { "sgl_wrap", "RIO-16", EOVERFLOW,
			      "A range in the scatter-gather list, or the sum of its lengths, is "
			      "beyond what can be counted." },

	[WEFT_R_SGL_ATTRIBUTES_PLACE] = { "sgl_attributes_place", "RIO-13a", EPROTO,
					  "The list's attributes stand elsewhere than at the very "
					  "beginning." },
	[WEFT_R_SGL_ATTRIBUTES_TWICE] = { "sgl_attributes_twice", "RIO-16", EPROTO,
					  "The scatter-gather list gives its attributes more than "
					  "once." },
	[WEFT_R_SGL_CHAIN_PLACE] = { "sgl_chain_place", "RIO-13b", EPROTO,
				     "A chain pointer stands behind other elements; all of them "
				     "belong at the beginning of their part." },
	[WEFT_R_SGL_CHAIN_LOOP] = { "sgl_chain_loop", "RIO-16", ELOOP,
				    "A chain pointer leads to where the list has been, or will be, "
				    "already." },
	[WEFT_R_SGL_LAST_EARLY] = { "sgl_last_early", "RIO-12", EPROTO,
				    "An element says that it is the last one of the list, and it "
				    "is not." },
	[WEFT_R_SGL_LAST_MISSING] = { "sgl_last_missing", "RIO-16", EPROTO,
				      "The scatter-gather list ends without an element that says "
				      "it is the last." },
	[WEFT_R_SGL_NO_TRANSACTION] = { "sgl_no_transaction", "RIO-15", EINVAL,
					"The scatter-gather list asks for nothing: it has no "
					"transaction." },
	[WEFT_R_SGL_OUTSIDE] = { "sgl_outside", "RIO-15", EPROTO,
				 "A segment of the list stands before the first transaction, so it "
				 "belongs to none." },
	[WEFT_R_SGL_SEGMENT] = { "sgl_segment", "RIO-15", EINVAL,
				 "A transaction has a segment that does not go with its operation: "
				 "reads have results only, writes have sources only, and all "
				 "others have neither." },
	[WEFT_R_SGL_BUFFERS] = { "sgl_buffers", "RIO-15", EINVAL,
				 "The last buffer of a read or write does not end: the last segment "
				 "of each buffer says so." },
	[WEFT_R_SGL_SUM] = { "sgl_sum", "RIO-15", EINVAL,
			     "The lengths of a transaction's segments do not add up to its own." },
	[WEFT_R_SGL_ELEMENTS] = { "sgl_elements", "RIO-16", E2BIG,
				  "The scatter-gather list has more elements than are taken here." },
	[WEFT_R_SGL_TRANSACTIONS] = { "sgl_transactions", "RIO-16", E2BIG,
				      "The scatter-gather list has more transactions than are "
				      "taken here." },
	[WEFT_R_SGL_CHAINED] = { "sgl_chained", "RIO-16", E2BIG,
				 "The scatter-gather list has more chained parts than are taken "
				 "here." },
	[WEFT_R_SGL_BYTES] = { "sgl_bytes", "RIO-16", E2BIG,
			       "The scatter-gather list is longer, its chained parts included, "
			       "than is taken here." },

	[WEFT_R_RIO_SHORT] = { "rio_short", "RIO-02e", EBADMSG,
			       "A control message ends in the middle of what it must hold." },
	[WEFT_R_RIO_MAGIC] = { "rio_magic", "RIO-02e", EPROTO,
			       "What arrived is no control message of directed remote I/O; perhaps "
			       "the other end speaks another protocol." },
	[WEFT_R_RIO_VERSION] = { "rio_version", "RIO-02e", EPROTO,
				 "The other end speaks a version of directed remote I/O that is "
				 "unknown here." },
	[WEFT_R_RIO_TYPE] = { "rio_type", "RIO-02e", EPROTO,
			      "A control message is of a type that is unknown here." },
	[WEFT_R_RIO_LENGTH] = { "rio_length", "RIO-02e", EBADMSG,
				"A control message is not as long as it says, or as its type must "
				"be." },
	[WEFT_R_RIO_FORM] = { "rio_form", "RIO-02e", EPROTO,
			      "A control message holds a value that its field cannot have." },

	[WEFT_R_STORE_RANGE] = { "store_range", "-", ERANGE,
				 "Some of the range lies beyond the end of the block device." },
	[WEFT_R_STORE_ALIGN] = { "store_align", "-", EINVAL,
				 "Offset and length of a request to a block device are multiples of its block size." },
	[WEFT_R_STORE_LENGTH] = { "store_length", "-", EINVAL,
				  "A request to a block device has a length of at least one block; only a flush has neither offset nor length." },
	[WEFT_R_STORE_SPANS] = { "store_spans", "-", EINVAL,
				 "The memory named by a request to a block device is not just as long as the request, is in too many pieces, or is given where none is needed." },
	[WEFT_R_STORE_READONLY] = { "store_readonly", "-", EROFS,
				    "The block device is read-only." },
	[WEFT_R_STORE_UNSUPPORTED] = { "store_unsupported", "-", EOPNOTSUPP,
				       "The block device has no such operation, or the operation has no such flag." },
	[WEFT_R_STORE_BLOCK] = { "store_block", "-", EINVAL,
				 "The block size of a device is 512 or 4096 bytes, and no smaller than that of the device below it." },
	[WEFT_R_STORE_SIZE] = { "store_size", "-", EINVAL,
				"The size of a block device is a multiple of its block size and not 0; an existing file has just the size that is asked for." },
	[WEFT_R_STORE_UNIT] = { "store_unit", "-", EINVAL,
				"The length of a stripe is a multiple of the members' block size and not 0." },
	[WEFT_R_STORE_MEMBERS] = { "store_members", "-", EINVAL,
				   "A stripe or mirror has from 1 to 16 members." },
	[WEFT_R_STORE_TEXT] = { "store_text", "-", EINVAL,
				"The description of a block device cannot be read." },
	[WEFT_R_STORE_OPEN] = { "store_open", "-", ENOENT,
				"The file or device cannot be opened, or is neither a regular file nor a block device." },
	[WEFT_R_STORE_IN_USE] = { "store_in_use", "-", EBUSY,
				  "Another process uses this file or block device, or was killed and has requests under way there still." },
	[WEFT_R_STORE_FULL] = { "store_full", "-", ENOSPC,
				"There is no room left below the block device: the file system is full, or a quota or limit is reached." },
	[WEFT_R_STORE_CUT] = { "store_cut", "-", EIO,
			       "The file is shorter than the block device on it: it was truncated meanwhile." },
	[WEFT_R_STORE_IO] = { "store_io", "-", EIO, "The block device failed to do this." },
	[WEFT_R_STORE_LOST] = { "store_lost", "-", EIO,
				"A flush failed, so some of what was written before it may be lost; it can be trusted again only after it was opened anew and checked." },
	[WEFT_R_STORE_FAULT] = { "store_fault", "-", EIO,
				 "A fault filter in front of the block device was asked for failures, and this is one of them." },
	[WEFT_R_STORE_GONE] = { "store_gone", "-", EIO,
				"A fault filter let the block device die on purpose." },
	[WEFT_R_STORE_MIRROR_MISSING] = { "store_mirror_missing", "-", ENODEV,
					  "A member of the mirror is missing that may have newer data than those that are there; mirror:degraded(...) goes on without it." },
	[WEFT_R_STORE_MIRROR_STALE] = { "store_mirror_stale", "-", ESTALE,
					"The member of the mirror was left out, or was not copied to its end, and no member that is there has all the data." },
	[WEFT_R_STORE_MIRROR_FOREIGN] = { "store_mirror_foreign", "-", EINVAL,
					  "The member belongs to another mirror, stands at another place in it, or is too small for it." },
	[WEFT_R_STORE_MIRROR_UNMARKED] = { "store_mirror_unmarked", "-", EINVAL,
					   "The member has no marks of a mirror, and other data where they belong, in its last 8 KiB; mirror:adopt(...) overwrites them." },
	[WEFT_R_STORE_MIRROR_STUCK] = { "store_mirror_stuck", "-", ETIMEDOUT,
					"The member of the mirror has not answered for as long as the mirror waits when it is opened or closed: mirror:wait=TIME(...)." },

	[WEFT_R_RIO_UNEXPECTED] = { "rio_unexpected", "RIO-03", EPROTO,
				    "The other side sent a message that has no place here, or not "
				    "now." },
	[WEFT_R_RIO_UNKNOWN_PEER] = { "rio_unknown_peer", "RIO-03", EACCES,
				      "The other side's public key is not one that the configuration "
				      "lets in." },
	[WEFT_R_RIO_FORGED] = { "rio_forged", "RIO-03", EACCES,
				"A signature or seal is not true: the message was altered, or its "
				"sender is not who it says." },
	[WEFT_R_RIO_SEQUENCE] = { "rio_sequence", "RIO-03", EPROTO,
				  "A message came twice, too late or out of order: it may be a replay "
				  "of an earlier one." },
	[WEFT_R_RIO_DENIED] = { "rio_denied", "RIO-03", EACCES,
				"No rule of the owner's policy allows this requester to do that "
				"there." },
	[WEFT_R_RIO_DEVICE] = { "rio_device", "RIO-02d", ENODEV,
				"There is no device of this number." },
	[WEFT_R_RIO_PLATFORM] = { "rio_platform", "RIO-14", EACCES,
				  "The list names memory of a platform that the owner has not let "
				  "the I/O unit reach, or more of the unit's own than it has." },
	[WEFT_R_RIO_PLATFORMS] = { "rio_platforms", "RIO-06", E2BIG,
				   "One command writes to the memory of too many platforms; ask in "
				   "several." },
	[WEFT_R_RIO_CHAIN] = { "rio_chain", "RIO-16", EACCES,
			       "A part of the list lies where it cannot be fetched from, or is too "
			       "long." },
	[WEFT_R_RIO_TIMEOUT] = { "rio_timeout", "RIO-02i", ETIMEDOUT,
				 "It was not done in the time that it had." },
	[WEFT_R_RIO_CANCELLED] = { "rio_cancelled", "RIO-02i", ECANCELED,
				   "It was cancelled by the one who asked for it." },
	[WEFT_R_RIO_OWNER_LEFT] = { "rio_owner_left", "RIO-03", ECONNABORTED,
				    "The connection with the owner has ended; what was under way may "
				    "or may not have been done." },
	[WEFT_R_RIO_IOUNIT_LEFT] = { "rio_iounit_left", "RIO-02i", ECONNABORTED,
				     "The I/O unit that has the device is gone; what was under way "
				     "may or may not have been done." },
	[WEFT_R_RIO_FOREIGN] = { "rio_foreign", "MEM-13", EACCES,
				 "The list names memory that is not the requester's, and no rule of "
				 "the owner's policy lets it." },
	[WEFT_R_RIO_UNITS] = { "rio_units", "RIO-15", EINVAL,
			       "The transactions of one request are for devices of different I/O "
			       "units; ask for each by itself." },
	[WEFT_R_RIO_REPLAYED] = { "rio_replayed", "RIO-11", EACCES,
				  "A data connection was asked for with words that were used "
				  "before." },
	[WEFT_R_RIO_TWICE] = { "rio_twice", "RIO-09", EBUSY,
			       "One with this platform identifier is connected already." },

	[WEFT_R_IB_SHORT] = { "ib_short", "-", EBADMSG,
			      "A packet of the InfiniBand transport ends before its headers and its "
			      "ICRC do." },
	[WEFT_R_IB_VERSION] = { "ib_version", "-", EPROTO,
				"A packet carries a version of the InfiniBand transport, or of its "
				"route header, that is not spoken here." },
	[WEFT_R_IB_OPCODE] = { "ib_opcode", "-", EPROTO,
			       "A packet carries an opcode that the InfiniBand transport does not "
			       "have." },
	[WEFT_R_IB_PAD] = { "ib_pad", "-", EPROTO,
			    "A packet has more padding than payload, or padding where it can have "
			    "none." },
	[WEFT_R_IB_LENGTH] = { "ib_length", "-", EBADMSG,
			       "A packet has a length that no packet of its opcode can have." },
	[WEFT_R_IB_ICRC] = { "ib_icrc", "-", EBADMSG,
			     "A packet arrived with an ICRC that does not match its bytes." },
	[WEFT_R_IB_SERVICE] = { "ib_service", "-", EPROTO,
				"A packet is of another transport service than the queue pair "
				"that it names." },
	[WEFT_R_IB_PKEY] = { "ib_pkey", "-", EACCES,
			     "A packet comes from another partition than the queue pair that it "
			     "names is in." },
	[WEFT_R_IB_QKEY] = { "ib_qkey", "-", EACCES,
			     "A datagram does not carry the Q_Key of the queue pair that it "
			     "names." },
	[WEFT_R_IB_RDD] = { "ib_rdd", "-", EACCES,
			    "The queue pair and the end-to-end context are of different "
			    "reliable datagram domains." },
	[WEFT_R_IB_SOURCE] = { "ib_source", "-", EACCES,
			       "A packet to a connected queue pair comes from another address than "
			       "its peer's." },
	[WEFT_R_IB_PSN] = { "ib_psn", "-", EPROTO,
			    "A packet's sequence number is not due, and no duplicate's either." },
	[WEFT_R_IB_ORDER] = { "ib_order", "-", EPROTO,
			      "A message began inside another, or went on without having begun." },
	[WEFT_R_IB_XRC] = { "ib_xrc", "-", EPROTO,
			    "The request names no shared receive queue of the queue pair's XRC "
			    "domain (IBA annex A14)." },
	[WEFT_R_IB_INVALID] = { "ib_invalid", "-", EREMOTEIO,
				"The peer found the request malformed, or longer than its receive." },
	[WEFT_R_IB_LOST] = { "ib_lost", "RC-04", ECONNRESET,
			     "The peer missed the same packet each time that it was sent again, as "
			     "often as the queue pair's retries allow." },

	[WEFT_R_MAD_LENGTH] = { "mad_length", "-", EBADMSG,
				"A management datagram is of 256 bytes, and this one is not." },
	[WEFT_R_MAD_VERSION] = { "mad_version", "-", EPROTO,
				 "A management datagram is of a version that is not spoken here." },
	[WEFT_R_MAD_KIND] = { "mad_kind", "-", EOPNOTSUPP,
			      "A management datagram is of a class, method or attribute that is not "
			      "known here." },
	[WEFT_R_CM_FORM] = { "cm_form", "-", EPROTO,
			     "A message of connection management holds a value that its field "
			     "cannot have." },
	[WEFT_R_CM_ADDRESS] = { "cm_address", "-", EPROTO,
				"The private data of a connection request does not begin with the "
				"addresses of the RDMA CM." },

	[WEFT_R_ROCE_PORT] = { "roce_port", "-", EADDRINUSE,
			       "UDP port 4791 is held by another user, or by a socket that does not "
			       "share it, such as that of the kernel's rxe: unload its module (rmmod "
			       "rdma_rxe; to delete its devices may not be enough), or use another "
			       "network namespace." },
	[WEFT_R_ROCE_SLOTS] = { "roce_slots", "-", EUSERS,
				"This host has 254 adapters that use RoCE already, and more cannot "
				"be told apart." },
	[WEFT_R_ROCE_TOO_LARGE] = { "roce_too_large", "-", EMSGSIZE,
				    "A packet is larger than what the interface or the path takes: "
				    "choose a smaller path MTU." },
	[WEFT_R_CM_UNKNOWN] = { "cm_unknown", "-", ENOENT,
				"There is no cm_id with this "
				"communication id; it may have ended." },
	[WEFT_R_CM_STATE] = { "cm_state", "-", EPROTO,
			      "A message or a call does not belong to the state in which the "
			      "cm_id is." },
	[WEFT_R_CM_SENDER] = { "cm_sender", "-", EPERM,
			       "A message of connection management came from another address than "
			       "that of the cm_id, or speaks for another address." },
	[WEFT_R_CM_STALE] = { "cm_stale", "-", ECONNRESET,
			      "One end takes the queue pair for connected that the other wants to "
			      "connect: the older connection is void; try again." },
	[WEFT_R_CM_REFUSED] = { "cm_refused", "-", ECONNREFUSED,
				"The other end's connection management refused the request, and not "
				"its program; the code of the REJ says why." },
	[WEFT_R_CM_CROWD] = { "cm_crowd", "-", EAGAIN,
			      "Too many connections are begun that are not made yet, of one address "
			      "or of all: ask again. One that did not answer has made room." },
	[WEFT_R_ROCE_CLOSED] = { "roce_closed", "-", ENETDOWN,
				 "The adapter is not on the network as a RoCE port: open it there." },
	[WEFT_R_QP_SLOT] = { "qp_slot", "-", EINVAL,
			     "The queue pair was made before its adapter was opened as a RoCE port, "
			     "and has a number that packets do not find: make another." },
	[WEFT_R_TUN_NONE] = { "tun_none", "RAW-01", ENODEV,
			      "This host has no TUN interfaces (/dev/net/tun), by which raw datagrams "
			      "come and go." },
	[WEFT_R_TUN_RIGHTS] = { "tun_rights", "RAW-01", EPERM,
				"This user may neither make the TUN interface nor use it: make it for "
				"the user first (ip tuntap add NAME mode tun user USER), or have "
				"CAP_NET_ADMIN." },
	[WEFT_R_TUN_NAME] = { "tun_name", "RAW-01", EBUSY,
			      "This is not the name of a TUN interface, or the interface is in use." },
	[WEFT_R_TUN_REFUSED] = { "tun_refused", "RAW-01", EIO,
				 "The host did not take a raw datagram: it is no IPv6 frame, or the "
				 "interface is down or gone." },
	[WEFT_R_RAW_CLOSED] = { "raw_closed", "RAW-01", ENOTCONN,
				"The adapter has no interface that carries raw datagrams: open one." },

	[WEFT_R_RIO_WRITES_LOST] = { "rio_writes_lost", "-", EIO,
				     "The device was opened anew, and writes that were acknowledged "
				     "and not flushed before may be lost: write them again, then "
				     "flush." },
	[WEFT_R_RIO_SUPERSEDED] = { "rio_superseded", "RIO-09", ESTALE,
				    "An owner with the same identity and a higher term has been "
				    "here: the one that began later counts." },

	[WEFT_R_MEMORY_GONE] = { "memory_gone", "VMM-04", EFAULT,
				 "Some of the memory was unmapped, moved, protected or cut off since "
				 "it was registered: deregister memory before, and register what is "
				 "there now." },
};

static const struct reason_row unknown = { "unknown", "-", EINVAL, "No such reason." };

static const struct reason_row *reason_row(enum weft_reason reason)
{
	if ((unsigned int)reason >= WEFT_REASON_COUNT)
		return &unknown;
	if ((unsigned int)reason >= REASON_FABRIC_FIRST)
		return &reason_fabric_rows[reason - REASON_FABRIC_FIRST];
	if ((unsigned int)reason >= REASON_LAN_FIRST)
		return &reason_lan_rows[reason - REASON_LAN_FIRST];
	if ((unsigned int)reason >= REASON_PUSH_FIRST)
		return &reason_push_rows[reason - REASON_PUSH_FIRST];
	return reason < WEFT_R_ISCSI_SHORT ? &rows[reason]
					   : &reason_iscsi_rows[reason - REASON_ISCSI_FIRST];
}

const char *weft_reason_name(enum weft_reason reason)
{
	return reason_row(reason)->name;
}

const char *weft_reason_text(enum weft_reason reason)
{
	return reason_row(reason)->text;
}

const char *weft_reason_requirement(enum weft_reason reason)
{
	return reason_row(reason)->requirement;
}

int weft_reason_errno(enum weft_reason reason)
{
	return reason_row(reason)->error;
}

bool weft_reason_find(const char *name, enum weft_reason *reason)
{
	for (unsigned int i = 0; name && i < WEFT_REASON_COUNT; i++) {
		if (strcmp(reason_row((enum weft_reason)i)->name, name) == 0) {
			*reason = (enum weft_reason)i;
			return true;
		}
	}
	return false;
}
