/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/iscsi/iscsi.h"
#include "cmd/iscsi/iscsi_user.h"
#include "cmd/roles/cluster_view.h"

static const char *yes(bool is)
{
	return is ? "yes" : "no";
}

static const char *truth(bool is)
{
	return is ? "true" : "false";
}

static const char *state_name(enum weft_iscsi_state state)
{
	switch (state) {
	case WEFT_ISCSI_CONNECTED:
		return "connected";
	case WEFT_ISCSI_CONNECTING:
		return "connecting";
	default:
		return "closed";
	}
}

/* ---- For people ----------------------------------------------------------------------------- */

static void print_unit(const struct weft_iscsi_info *i)
{
	char bytes[CLUSTER_BYTES_TEXT];

	cluster_view_bytes(i->size_bytes, bytes);
	printf("LUN %u of %s\n", i->lun, i->target_name);
	printf("  unit         %s %s %s, serial number %s\n", i->vendor, i->product, i->revision,
	       i->serial[0] ? i->serial : "not said");
	printf("  identity     %s\n", i->identity[0] ? i->identity : "not said");
	printf("  size         %s (%" PRIu64 " bytes) in blocks of %" PRIu32
	       ", on blocks of %" PRIu32 "\n",
	       bytes, i->size_bytes, i->block_bytes, i->physical_block_bytes);
	printf("  can          write: %s; FUA: %s; unmap: %s; write zeroes: %s; thin: %s\n",
	       yes(!i->is_readonly), yes(i->can_fua), yes(i->can_unmap), yes(i->can_write_zeroes),
	       yes(i->is_thin));
	printf("  write cache  %s\n",
	       i->has_write_cache ? "yes: what no flush or FUA covered is lost with its power"
				  : "no");
	printf("  commands     at most %" PRIu64 " bytes each", i->transfer_bytes_max);
	if (i->transfer_bytes_preferred > 0)
		printf(", %" PRIu64 " preferred", i->transfer_bytes_preferred);
	printf("\n");
}

static void print_session(const struct weft_iscsi_info *i)
{
	char address[WEFT_ADDRESS_TEXT];

	weft_address_text(&i->portal, address);
	printf("session of %s with %s: %s\n", i->initiator_name, address, state_name(i->state));
	printf("  digests      header: %s, data: %s\n", i->has_header_digest ? "CRC32C" : "none",
	       i->has_data_digest ? "CRC32C" : "none");
	printf("  segments     %" PRIu32 " bytes in, %" PRIu32 " out\n", i->recv_bytes_max,
	       i->send_bytes_max);
	printf("  writes       bursts of %" PRIu32 " bytes, the first of %" PRIu32 ", %" PRIu32
	       " R2Ts at a time; immediate data: %s; R2T first: %s\n",
	       i->burst_bytes_max, i->first_burst_bytes, i->r2t_max, yes(i->has_immediate_data),
	       yes(i->has_initial_r2t));
	printf("  so far       %" PRIu64 " commands, %" PRIu64 " bytes read, %" PRIu64
	       " written; connected again %" PRIu64 " times, %" PRIu64 " commands sent again\n",
	       i->commands, i->read_bytes, i->written_bytes, i->reconnects, i->retries);
}

/* ---- For programs --------------------------------------------------------------------------- */

static void json_text(const char *name, const char *text)
{
	printf(",\"%s\":", name);
	iscsi_user_json_text(text);
}

static void json_unit(const struct weft_iscsi_info *i)
{
	printf("{\"lun\":%u,\"device_type\":%u,\"size\":%" PRIu64 ",\"block\":%" PRIu32
	       ",\"physical_block\":%" PRIu32 ",\"transfer_max\":%" PRIu64
	       ",\"transfer_preferred\":%" PRIu64,
	       i->lun, i->device_type, i->size_bytes, i->block_bytes, i->physical_block_bytes,
	       i->transfer_bytes_max, i->transfer_bytes_preferred);
	printf(",\"readonly\":%s,\"write_cache\":%s,\"fua\":%s,\"unmap\":%s,\"write_zeroes\":%s"
	       ",\"thin\":%s",
	       truth(i->is_readonly), truth(i->has_write_cache), truth(i->can_fua),
	       truth(i->can_unmap), truth(i->can_write_zeroes), truth(i->is_thin));
	json_text("vendor", i->vendor);
	json_text("product", i->product);
	json_text("revision", i->revision);
	json_text("serial", i->serial);
	json_text("identity", i->identity);
}

static void json_session(const struct weft_iscsi_info *i)
{
	char address[WEFT_ADDRESS_TEXT];

	weft_address_text(&i->portal, address);
	json_text("initiator", i->initiator_name);
	json_text("target", i->target_name);
	json_text("portal", address);
	json_text("state", state_name(i->state));
	printf(",\"header_digest\":%s,\"data_digest\":%s,\"recv_segment\":%" PRIu32
	       ",\"send_segment\":%" PRIu32 ",\"burst\":%" PRIu32 ",\"first_burst\":%" PRIu32
	       ",\"r2ts\":%" PRIu32 ",\"immediate_data\":%s,\"initial_r2t\":%s",
	       truth(i->has_header_digest), truth(i->has_data_digest), i->recv_bytes_max,
	       i->send_bytes_max, i->burst_bytes_max, i->first_burst_bytes, i->r2t_max,
	       truth(i->has_immediate_data), truth(i->has_initial_r2t));
	printf(",\"commands\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"bytes_written\":%" PRIu64
	       ",\"reconnects\":%" PRIu64 ",\"retries\":%" PRIu64 "}\n",
	       i->commands, i->read_bytes, i->written_bytes, i->reconnects, i->retries);
}

/* ---- The command ---------------------------------------------------------------------------- */

int iscsi_info(int argc, char **argv)
{
	struct weft_iscsi_info info = { 0 };
	struct weft_iscsi_session *session;
	char plain[ISCSI_USER_URL];
	struct iscsi_user user;
	const char *url;
	enum weft_reason r;
	int status;

	if (!iscsi_user_init(&user, argc, argv, NULL, &status))
		return status;
	if (!iscsi_user_words(argc, argv, &url, 1))
		return cmd_options_wrong(iscsi_help);
	session = iscsi_user_open(&user, url);
	if (!session)
		return 1;
	r = weft_iscsi_session_query(session, &info);
	weft_iscsi_session_close(session);
	if (r != WEFT_OK)
		return iscsi_user_fail(iscsi_user_plain(url, plain), r, "");
	if (user.is_json) {
		json_unit(&info);
		json_session(&info);
	} else {
		print_unit(&info);
		print_session(&info);
	}
	return 0;
}
