/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reason_rows.h"

#include <errno.h>

const struct reason_row
	reason_iscsi_rows[REASON_PUSH_FIRST - REASON_ISCSI_FIRST] = {
		[WEFT_R_ISCSI_SHORT -
		 REASON_ISCSI_FIRST] = { "iscsi_short", "-", EBADMSG,
					 "The bytes end inside the header of an iSCSI PDU." },
		[WEFT_R_ISCSI_OPCODE -
			REASON_ISCSI_FIRST] = { "iscsi_opcode", "-", EOPNOTSUPP,
						"An iSCSI PDU has an opcode that is unknown, or that belongs "
						"to a vendor." },
		[WEFT_R_ISCSI_DIRECTION -
			REASON_ISCSI_FIRST] = { "iscsi_direction", "-", EPROTO,
						"An initiator sent an iSCSI PDU that only targets send, or "
						"a target one that only initiators send." },
		[WEFT_R_ISCSI_AHS -
			REASON_ISCSI_FIRST] = { "iscsi_ahs", "-", EPROTO,
						"The additional header segments of an iSCSI PDU are of an "
						"unknown kind or a wrong length, or stand where there are none, "
						"or a bidirectional command lacks its own." },
		[WEFT_R_ISCSI_DATA_LENGTH -
			REASON_ISCSI_FIRST] = { "iscsi_data_length", "-", EPROTO,
						"An iSCSI PDU has a data segment though its kind has "
						"none, or one too short for what it must hold." },
		[WEFT_R_ISCSI_DATA_LIMIT -
			REASON_ISCSI_FIRST] = { "iscsi_data_limit", "-", EMSGSIZE,
						"The data segment of an iSCSI PDU is longer than the "
						"MaxRecvDataSegmentLength that its receiver declared." },
		[WEFT_R_ISCSI_FLAGS -
			REASON_ISCSI_FIRST] = { "iscsi_flags", "-", EPROTO,
						"The flags of an iSCSI PDU contradict each other or its kind." },
		[WEFT_R_ISCSI_CODE -
			REASON_ISCSI_FIRST] = { "iscsi_code", "-", EPROTO,
						"A field of an iSCSI PDU (attribute, function, response, "
						"reason, type, event or status class) holds a reserved code." },
		[WEFT_R_ISCSI_TAG -
			REASON_ISCSI_FIRST] = { "iscsi_tag", "-", EPROTO,
						"A task tag, a transfer tag or the TSIH of an iSCSI PDU has the "
						"reserved value where it must not, or another where it must." },
		[WEFT_R_ISCSI_RANGE -
			REASON_ISCSI_FIRST] = { "iscsi_range", "-", EPROTO,
						"Offset and length of an iSCSI PDU go beyond what a command "
						"can transfer, or a length or run is 0 or not where it must "
						"be." },
		[WEFT_R_ISCSI_STAGE -
			REASON_ISCSI_FIRST] = { "iscsi_stage", "-", EPROTO,
						"A login names a stage that there is not, or a stage that "
						"cannot follow the current one." },
		[WEFT_R_ISCSI_HEADER_DIGEST -
			REASON_ISCSI_FIRST] = { "iscsi_header_digest", "-", EBADMSG,
						"The header of an iSCSI PDU does not fit its digest: "
						"bytes changed on the way." },
		[WEFT_R_ISCSI_DATA_DIGEST -
			REASON_ISCSI_FIRST] = { "iscsi_data_digest", "-", EBADMSG,
						"The data segment of an iSCSI PDU does not fit its "
						"digest: bytes changed on the way." },
		[WEFT_R_ISER_SHORT -
			REASON_ISCSI_FIRST] = { "iser_short", "-", EBADMSG,
						"A message, or the private data of its connection, is shorter "
						"than an iSER header." },
		[WEFT_R_ISER_OPCODE -
			REASON_ISCSI_FIRST] = { "iser_opcode", "-", EOPNOTSUPP,
						"An iSER header is of an unknown kind, or of a Hello that was "
						"not agreed upon." },
		[WEFT_R_ISER_VERSION -
			REASON_ISCSI_FIRST] = { "iser_version", "-", EPROTO,
						"The versions in an iSER Hello or HelloReply contradict each "
						"other." },

		[WEFT_R_ISCSI_CMD_SN -
			REASON_ISCSI_FIRST] = { "iscsi_cmd_sn", "-", EPROTO,
						"The CmdSN of a request skips others, which never come on this connection." },
		[WEFT_R_ISCSI_DATA_ORDER -
			REASON_ISCSI_FIRST] = { "iscsi_data_order", "-", EPROTO,
						"A Data-In or Data-Out has another DataSN, offset, length or transfer tag than is next." },
		[WEFT_R_ISCSI_PHASE -
			REASON_ISCSI_FIRST] = { "iscsi_phase", "-", EPROTO,
						"A Login Request came after the login." },
		[WEFT_R_ISCSI_SILENT -
			REASON_ISCSI_FIRST] = { "iscsi_silent", "-", ETIMEDOUT,
						"The other end did not answer a NOP, a text or a logout of iSCSI in time." },
		[WEFT_R_ISCSI_CROWDED -
			REASON_ISCSI_FIRST] = { "iscsi_crowded", "-", EAGAIN,
						"A login, or a text negotiation of a session, that was not finished gave way to newer ones." },
		[WEFT_R_ISCSI_REINSTATED -
			REASON_ISCSI_FIRST] = { "iscsi_reinstated", "-", ECONNRESET,
						"The initiator logged in again in place of this session or connection." },
		[WEFT_R_ISCSI_RESET -
			REASON_ISCSI_FIRST] = { "iscsi_reset", "-", ECONNRESET,
						"A cold reset of the target ended its sessions." },
		[WEFT_R_ISCSI_ENDING - REASON_ISCSI_FIRST] = { "iscsi_ending", "-", ESHUTDOWN,
							       "The target is shutting down." },
		[WEFT_R_ISCSI_TEXT -
			REASON_ISCSI_FIRST] = { "iscsi_text", "-", EPROTO,
						"A Login or Text PDU carries no list of key=value pairs that each end with a zero byte." },
		[WEFT_R_ISCSI_KEY -
			REASON_ISCSI_FIRST] = { "iscsi_key", "-", EPROTO,
						"The name of a key is empty, longer than 63 characters, or has characters that RFC 7143 section 6.1 does not allow." },
		[WEFT_R_ISCSI_VALUE -
			REASON_ISCSI_FIRST] = { "iscsi_value", "-", EPROTO,
						"The value of a key is not of the kind or in the range that RFC 7143 section 13 gives it." },
		[WEFT_R_ISCSI_NAME -
			REASON_ISCSI_FIRST] = { "iscsi_name", "-", EINVAL,
						"An iSCSI name is not of the form iqn.YYYY-MM.DOMAIN[:TEXT], eui.HEX or naa.HEX, or is longer than 223 bytes." },
		[WEFT_R_ISCSI_TEXT_LONG -
			REASON_ISCSI_FIRST] = { "iscsi_text_long", "-", EMSGSIZE,
						"The peer sent more text in one negotiation than this end takes." },
		[WEFT_R_ISCSI_KEY_AGAIN -
			REASON_ISCSI_FIRST] = { "iscsi_key_again", "-", EPROTO,
						"A key was declared or negotiated a second time in one login, which RFC 7143 section 6.3 forbids." },
		[WEFT_R_ISCSI_KEY_SENDER -
			REASON_ISCSI_FIRST] = { "iscsi_key_sender", "-", EPROTO,
						"A key came from the side that must not send it." },
		[WEFT_R_ISCSI_KEY_STAGE -
			REASON_ISCSI_FIRST] = { "iscsi_key_stage", "-", EPROTO,
						"A key came in a stage of the login where it must not be sent." },
		[WEFT_R_ISCSI_ANSWER -
			REASON_ISCSI_FIRST] = { "iscsi_answer", "-", EPROTO,
						"The peer answered a key with a value that the offer does not allow." },
		[WEFT_R_ISCSI_NO_ANSWER -
			REASON_ISCSI_FIRST] = { "iscsi_no_answer", "-", EPROTO,
						"The peer left the stage without an answer to a key that was offered." },
		[WEFT_R_ISCSI_UNACCEPTABLE -
			REASON_ISCSI_FIRST] = { "iscsi_unacceptable", "-", EPROTO,
						"The outcome of a key is one that this end does not allow; allow it, or set the peer to the same." },
		[WEFT_R_ISCSI_ENDLESS -
			REASON_ISCSI_FIRST] = { "iscsi_endless", "-", EPROTO,
						"The login took more exchanges than this end allows." },
		[WEFT_R_ISCSI_LOGIN_FIELD -
			REASON_ISCSI_FIRST] = { "iscsi_login_field", "-", EPROTO,
						"A field of a Login PDU has a value that RFC 7143 section 11.12 forbids, or differs from that of the PDUs before." },
		[WEFT_R_ISCSI_LOGIN_STAGE -
			REASON_ISCSI_FIRST] = { "iscsi_login_stage", "-", EPROTO,
						"A Login PDU names a stage, or a move between stages, that the login is not at." },
		[WEFT_R_ISCSI_LOGIN_VERSION -
			REASON_ISCSI_FIRST] = { "iscsi_login_version", "-", EPROTONOSUPPORT,
						"The peer does not speak version 0 of iSCSI, which is the only one." },
		[WEFT_R_ISCSI_LOGIN_MISSING -
			REASON_ISCSI_FIRST] = { "iscsi_login_missing", "-", EPROTO,
						"The first Login request lacks InitiatorName, or TargetName in a normal session." },
		[WEFT_R_ISCSI_SESSION -
			REASON_ISCSI_FIRST] = { "iscsi_session",
						"-", ENOENT, "The session that a new connection asks to join does not exist, or is not that initiator's." },
		[WEFT_R_ISCSI_REFUSED -
			REASON_ISCSI_FIRST] = { "iscsi_refused", "-", ECONNREFUSED,
						"The target refused the login; its status says why." },
		[WEFT_R_ISCSI_MOVED -
			REASON_ISCSI_FIRST] = { "iscsi_moved", "-", EREMOTE,
						"The target redirects the login to another address." },
		[WEFT_R_ISCSI_DENIED -
			REASON_ISCSI_FIRST] = { "iscsi_denied", "-",
						EACCES, "This target does not serve the initiator, or does not have what it asked for." },
		[WEFT_R_ISCSI_PORTAL_GROUP -
			REASON_ISCSI_FIRST] = { "iscsi_portal_group", "-",
						EPROTO, "The target's portal group tag is missing, or is not the expected one." },
		[WEFT_R_ISCSI_AUTH_METHOD -
			REASON_ISCSI_FIRST] = { "iscsi_auth_method", "-",
						EACCES, "The two ends have no authentication method in common, or the peer left out one that is required." },
		[WEFT_R_ISCSI_CHAP_ORDER -
			REASON_ISCSI_FIRST] = { "iscsi_chap_order", "-",
						EPROTO, "A key of CHAP is missing, out of order, or not of its form." },
		[WEFT_R_ISCSI_CHAP_ALGORITHM -
			REASON_ISCSI_FIRST] = { "iscsi_chap_algorithm", "-", EPROTONOSUPPORT,
						"The peer offers or chose no CHAP algorithm that this end allows." },
		[WEFT_R_ISCSI_CHAP_SECRET -
			REASON_ISCSI_FIRST] = { "iscsi_chap_secret", "-",
						EINVAL, "A CHAP secret has fewer than 12 bytes (96 bits) or more than 255." },
		[WEFT_R_ISCSI_CHAP_SAME_SECRET -
			REASON_ISCSI_FIRST] = { "iscsi_chap_same_secret", "-",
						EINVAL, "The same CHAP secret is set for both directions, which lets a peer reflect challenges." },
		[WEFT_R_ISCSI_CHAP_REFLECTED -
			REASON_ISCSI_FIRST] = { "iscsi_chap_reflected", "-",
						EACCES, "The peer sent back the challenge that it was sent." },
		[WEFT_R_ISCSI_CHAP_FAILED -
			REASON_ISCSI_FIRST] = { "iscsi_chap_failed", "-",
						EACCES, "The CHAP name is unknown, or the response does not prove its secret." },

		[WEFT_R_ISCSI_REQUEST -
			REASON_ISCSI_FIRST] = { "iscsi_request",
						"ISCSI-01c", EINVAL, "A request in iSCSI mode has a header that its operation does not send: a command needs a SCSI Command, control anything else of an initiator but Data-Out and SNACK." },
		[WEFT_R_ISCSI_TASK_TAG -
			REASON_ISCSI_FIRST] = { "iscsi_task_tag", "ISCSI-04",
						EINVAL, "A control PDU has an Initiator Task Tag that a command may have; take one below WEFT_ISCSI_TAGS_MAX." },
		[WEFT_R_ISCSI_LENGTH -
			REASON_ISCSI_FIRST] = { "iscsi_length", "ISCSI-01d",
						EINVAL, "The memory of an iSCSI command is not as long as its Expected Data Transfer Length, or has a length though the command has no direction." },
		[WEFT_R_ISCSI_BOTH_WAYS -
			REASON_ISCSI_FIRST] = { "iscsi_both_ways", "ISCSI-03", EOPNOTSUPP,
						"An iSCSI command reads and writes; the table has entries for one direction only." },
		[WEFT_R_ISCSI_PAGES -
			REASON_ISCSI_FIRST] = { "iscsi_pages", "ISCSI-02", EPERM,
						"An iSCSI command names memory by real addresses in a domain that is not privileged, or by elements as well, or its last page ends outside the page." },
		[WEFT_R_ISCSI_COMMAND -
			REASON_ISCSI_FIRST] = { "iscsi_command",
						"ISCSI-01l", ENOENT, "The Command ID names no command in progress: it is over, or was not sent yet." },
		[WEFT_R_ISCSI_ENTRY_INVALID -
			REASON_ISCSI_FIRST] = { "iscsi_entry_invalid", "ISCSI-05a",
						EPROTO, "The target's message names a task tag whose table entry is not valid: there is no such command." },
		[WEFT_R_ISCSI_ENTRY_TYPE -
			REASON_ISCSI_FIRST] = { "iscsi_entry_type", "ISCSI-05b",
						EPROTO, "The target's message names a task tag whose table entry is of a region or window, not of an iSCSI command." },
		[WEFT_R_ISCSI_ENTRY_PD -
			REASON_ISCSI_FIRST] = { "iscsi_entry_pd", "ISCSI-05c",
						EPROTO, "The target's message names a task tag of another protection domain than its queue pair's." },
		[WEFT_R_ISCSI_ENTRY_INSTANCE -
			REASON_ISCSI_FIRST] = { "iscsi_entry_instance", "ISCSI-05d",
						EPROTO, "The target's message names a task tag of an earlier command: its instance is stale." },
		[WEFT_R_ISCSI_ENTRY_RANGE -
			REASON_ISCSI_FIRST] = { "iscsi_entry_range", "ISCSI-05e",
						EPROTO, "Offset and length of the target's message reach beyond the memory of the command." },
		[WEFT_R_ISCSI_ENTRY_RIGHT -
			REASON_ISCSI_FIRST] = { "iscsi_entry_right", "ISCSI-05f",
						EPROTO, "An R2T came for memory that the target may not read, or a Data-In for memory that it may not write." },
		[WEFT_R_ISCSI_ENTRY_COMMAND -
			REASON_ISCSI_FIRST] = { "iscsi_entry_command", "ISCSI-05g",
						EPROTO, "The target's message does not fit the command of its task tag: the command is another connection's, or goes the other way." },
		[WEFT_R_ISCSI_STAT_SN -
			REASON_ISCSI_FIRST] = { "iscsi_stat_sn",
						"ISCSI-01i", EPROTO, "The StatSN of the target's message is not the one expected next." },

		[WEFT_R_ISCSI_EXP_CMD_SN -
			REASON_ISCSI_FIRST] = { "iscsi_exp_cmd_sn", "-",
						EPROTO, "The target acknowledged an iSCSI command that was not sent." },
		[WEFT_R_ISCSI_NO_TASK -
			REASON_ISCSI_FIRST] = { "iscsi_no_task",
						"-", EPROTO, "The target answered an iSCSI task that there is not, or a task for the second time." },
		[WEFT_R_ISCSI_UNEXPECTED -
			REASON_ISCSI_FIRST] = { "iscsi_unexpected", "-",
						EPROTO, "The target sent an iSCSI PDU that the session does not expect now." },
		[WEFT_R_ISCSI_FLOOD -
			REASON_ISCSI_FIRST] = { "iscsi_flood", "-",
						EPROTO, "The other end sent more requests than may wait, and did not take the answers." },
		[WEFT_R_ISCSI_REJECTED -
			REASON_ISCSI_FIRST] = { "iscsi_rejected", "-", EPROTO,
						"The target rejected an iSCSI PDU; a Reject names its reason by a code of RFC 7143 section 11.17.1." },
		[WEFT_R_ISCSI_TARGET_FAILURE -
			REASON_ISCSI_FIRST] = { "iscsi_target_failure", "-", EIO,
						"The target could not carry out the SCSI command: the "
						"response says target failure." },
		[WEFT_R_ISCSI_DATA_MISSING -
			REASON_ISCSI_FIRST] = { "iscsi_data_missing", "-", EIO,
						"The target reported a read as good, but sent less data than it said." },
		[WEFT_R_ISCSI_ABORTED -
			REASON_ISCSI_FIRST] = { "iscsi_aborted", "-", ECANCELED,
						"The SCSI command was ended by task management." },
		[WEFT_R_ISCSI_TIMEOUT -
			REASON_ISCSI_FIRST] = { "iscsi_timeout", "-", ETIMEDOUT,
						"The target did not answer the iSCSI request in its time." },
		[WEFT_R_ISCSI_TASK_SILENT -
			REASON_ISCSI_FIRST] = { "iscsi_task_silent", "-", ETIMEDOUT,
						"The target did not carry out task management for a "
						"command that is late: neither abort nor reset of the "
						"unit." },
		[WEFT_R_ISCSI_DROPPED -
			REASON_ISCSI_FIRST] = { "iscsi_dropped", "-", ECONNRESET,
						"The target announced that it drops the iSCSI connection." },
		[WEFT_R_ISCSI_LOGGED_OUT -
			REASON_ISCSI_FIRST] = { "iscsi_logged_out", "-", ESHUTDOWN,
						"The iSCSI connection was logged out." },
		[WEFT_R_ISCSI_ENDED -
			REASON_ISCSI_FIRST] = { "iscsi_ended", "-", ESHUTDOWN,
						"The iSCSI session has ended, or logs out." },
		[WEFT_R_ISCSI_NOT_AGAIN -
			REASON_ISCSI_FIRST] = { "iscsi_not_again", "-", EIO,
						"The iSCSI connection was lost before the response, and "
						"the SCSI command is not one that may be carried out "
						"twice: whether it was is not known." },
		[WEFT_R_ISCSI_RETRIES -
			REASON_ISCSI_FIRST] = { "iscsi_retries", "-", EIO,
						"The iSCSI connection was lost each time that the SCSI "
						"command was sent; it was sent as often as the session "
						"allows." },
		[WEFT_R_ISCSI_GONE -
			REASON_ISCSI_FIRST] = { "iscsi_gone", "-", EHOSTUNREACH,
						"The target could not be reached again after the iSCSI "
						"connection was lost; the attempts that the session "
						"allows are used up." },
		[WEFT_R_ISCSI_REDIRECTS -
			REASON_ISCSI_FIRST] = { "iscsi_redirects", "-", ELOOP,
						"The target redirected the login more often than the "
						"session follows." },
		[WEFT_R_ISER_NO_TAG -
			REASON_ISCSI_FIRST] = { "iser_no_tag", "-", EPROTO,
						"A command by iSER has data to move, and names no memory of the initiator for it." },
		[WEFT_R_ISCSI_URL -
			REASON_ISCSI_FIRST] = { "iscsi_url", "-", EINVAL,
						"The text is no URL of an iSCSI target: iscsi://[USER[%PASSWORD]@]HOST[:PORT]/TARGET/LUN." },
		[WEFT_R_ISCSI_HOST -
			REASON_ISCSI_FIRST] = { "iscsi_host", "-", EHOSTUNREACH,
						"The name of the host in the URL, or in a redirection, has no address." },
		[WEFT_R_ISCSI_SECRETS -
			REASON_ISCSI_FIRST] = { "iscsi_secrets", "-", EACCES,
						"The file with the secrets of CHAP cannot be used: it is not there, other users can read it, or a line of it is wrong." },
		[WEFT_R_ISCSI_LUN -
			REASON_ISCSI_FIRST] = { "iscsi_lun", "-", ENXIO,
						"The target has no logical unit with this number, or does not show it to this initiator." },
		[WEFT_R_ISCSI_BLOCKS -
			REASON_ISCSI_FIRST] = { "iscsi_blocks", "-", EINVAL,
						"Offset or length of the request is no multiple of the logical unit's block size, or goes beyond its end." },
		[WEFT_R_ISCSI_UNSUPPORTED -
			REASON_ISCSI_FIRST] = { "iscsi_unsupported", "-", EOPNOTSUPP,
						"The logical unit does not do what the request asks for; weft_iscsi_session_query() tells what it does." },
		[WEFT_R_ISCSI_STATUS -
			REASON_ISCSI_FIRST] = { "iscsi_status", "-", EIO,
						"The logical unit refused the command: its status and sense data say why." },
		[WEFT_R_ISCSI_WRITES_LOST -
			REASON_ISCSI_FIRST] = { "iscsi_writes_lost", "-", EIO,
						"The logical unit was reset or lost power, with acknowledged writes in its cache that no flush had covered: they may be gone." },
		[WEFT_R_ISER_INVALIDATED -
			REASON_ISCSI_FIRST] = { "iser_invalidated", "-", EPROTO,
						"The target invalidated a tag of iSER that is not one of the command whose response it sent." },
		[WEFT_R_ISCSI_HOLDING -
			REASON_ISCSI_FIRST] = { "iscsi_holding", "-", ETIMEDOUT,
						"The initiator did not send the data of a write in time, while others waited for the memory that it held." },
	};
