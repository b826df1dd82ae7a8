/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "cmd/iscsi/iscsi.h"
#include "cmd/iscsi/iscsi_user.h"
#include "cmd/roles/cluster_view.h"
#include "iscsi/initiator/url.h"
#include "scsi/scsi.h"

enum {
	TARGETS_FIRST = 64,
	TARGETS_MAX = 65536,
	LUNS_MAX = 16384,
	LUN_BYTES = 8,
	LIST_HEADER_BYTES = 8, /* SPC-4 section 6.33.2 */
	KEY_UNIT_ATTENTION = 6,
	ATTENTIONS_MAX = 8,
};

/* SPC-4 table 31, SBC-3 table 10. */
enum {
	OPCODE_INQUIRY = 0x12,
	OPCODE_SERVICE_ACTION_IN_16 = 0x9e,
	OPCODE_REPORT_LUNS = 0xa0,
	ACTION_READ_CAPACITY_16 = 0x10,
	INQUIRY_BYTES = 36,
	CAPACITY_BYTES = 32,
	NO_UNIT = 0x7f, /* peripheral qualifier 3, type 1Fh: no unit can be here */
};

/* ---- Targets of a portal -------------------------------------------------------------------- */

static void print_targets(const struct weft_iscsi_target *targets, uint32_t count, bool is_json)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct weft_iscsi_target *t = &targets[i];

		if (!is_json) {
			printf("%s  at %s, portal group %" PRIu32 "\n", t->name, t->portal,
			       t->portal_group);
			continue;
		}
		printf("{\"target\":");
		iscsi_user_json_text(t->name);
		printf(",\"portal\":");
		iscsi_user_json_text(t->portal);
		printf(",\"portal_group\":%" PRIu32 "}\n", t->portal_group);
	}
}

/* Asks again with more room if there are more. */
static int list_targets(struct iscsi_user *u, const char *url)
{
	struct weft_iscsi_target *targets = NULL;
	uint32_t max = TARGETS_FIRST, count = 0;
	char plain[ISCSI_USER_URL];
	enum weft_reason r;

	u->options.why = u->why;
	for (;;) {
		free(targets);
		targets = calloc(max, sizeof(*targets));
		if (!targets)
			return iscsi_user_fail("targets", WEFT_R_NO_MEMORY, "");
		u->why[0] = '\0';
		r = weft_iscsi_target_find(url, &u->options, targets, max, &count);
		if (r != WEFT_OK || count <= max || max == TARGETS_MAX)
			break;
		max = count < TARGETS_MAX ? count : TARGETS_MAX;
	}
	if (r != WEFT_OK) {
		free(targets);
		return iscsi_user_fail(iscsi_user_plain(url, plain), r, u->why);
	}
	print_targets(targets, count < max ? count : max, u->is_json);
	free(targets);
	if (count == 0)
		fprintf(stderr, "weft iscsi: the portal has no target for this initiator: does the "
				"target allow its name and address?\n");
	return count == 0;
}

/* ---- Units of a target ---------------------------------------------------------------------- */

/* A unit that this session has not talked to yet first says what happened to it since. */
static enum weft_reason ask(struct weft_iscsi_session *session, uint16_t lun,
			    const uint8_t cdb[WEFT_ISCSI_CDB_BYTES], struct span data,
			    struct weft_iscsi_result *result)
{
	const struct weft_sge segment = { .addr = (uintptr_t)data.bytes,
					  .length = (uint32_t)data.length };
	struct weft_iscsi_request q = { .operation = WEFT_ISCSI_COMMAND,
					.length = data.length,
					.sges = &segment,
					.sge_count = 1,
					.has_lun = true,
					.lun = lun };

	enum weft_reason reason;

	memcpy(q.cdb, cdb, sizeof(q.cdb));
	for (int i = 0; i < ATTENTIONS_MAX; i++) {
		reason = weft_iscsi_request_do(session, &q, result);
		if (reason != WEFT_R_ISCSI_STATUS || result->sense_key != KEY_UNIT_ATTENTION)
			break;
	}
	return reason;
}

struct unit {
	uint16_t lun;
	uint8_t type; /* with the qualifier */
	char vendor[9], product[17], revision[5];
	bool has_size;
	uint64_t blocks, block_bytes;
};

/* Without the blanks at the end. */
static void take_name(struct rd *r, char *to, size_t length)
{
	rd_bytes(r, to, length);
	while (length > 0 && (to[length - 1] == ' ' || to[length - 1] == '\0'))
		length--;
	to[length] = '\0';
}

static enum weft_reason look_at(struct weft_iscsi_session *session, struct unit *unit,
				struct weft_iscsi_result *result)
{
	uint8_t cdb[WEFT_ISCSI_CDB_BYTES] = { OPCODE_INQUIRY, [4] = INQUIRY_BYTES };
	uint8_t bytes[INQUIRY_BYTES] = { 0 };
	struct rd r = rd_of(bytes, sizeof(bytes));
	enum weft_reason reason = ask(session, unit->lun, cdb,
				      (struct span){ bytes, sizeof(bytes) }, result);

	if (reason != WEFT_OK)
		return reason;
	unit->type = rd_u8(&r);
	r.at = bytes + 8;
	take_name(&r, unit->vendor, sizeof(unit->vendor) - 1);
	take_name(&r, unit->product, sizeof(unit->product) - 1);
	take_name(&r, unit->revision, sizeof(unit->revision) - 1);
	return WEFT_OK;
}

/* A unit may have no size: a drive without a disk, a controller. */
static void measure(struct weft_iscsi_session *session, struct unit *unit)
{
	uint8_t cdb[WEFT_ISCSI_CDB_BYTES] = { OPCODE_SERVICE_ACTION_IN_16,
					      ACTION_READ_CAPACITY_16, [13] = CAPACITY_BYTES };
	uint8_t bytes[CAPACITY_BYTES] = { 0 };
	struct rd r = rd_of(bytes, sizeof(bytes));
	struct weft_iscsi_result result = { 0 };

	if (unit->type != 0 ||
	    ask(session, unit->lun, cdb, (struct span){ bytes, sizeof(bytes) }, &result) != WEFT_OK)
		return;
	unit->has_size = true;
	unit->blocks = rd_u64(&r) + 1;
	unit->block_bytes = rd_u32(&r);
}

/* SPC-4 table 144; of those that initiators meet. */
static const char *type_name(uint8_t type)
{
	switch (type) {
	case 0x00:
		return "disk";
	case 0x01:
		return "tape";
	case 0x05:
		return "CD or DVD";
	case 0x08:
		return "medium changer";
	case 0x0c:
		return "storage array controller";
	case NO_UNIT:
		return "no unit";
	default:
		return "other device";
	}
}

static void print_unit(const struct unit *u, bool is_json)
{
	char bytes[CLUSTER_BYTES_TEXT] = "";

	if (u->has_size)
		cluster_view_bytes(u->blocks * u->block_bytes, bytes);
	if (!is_json) {
		printf("LUN %-5u %-24s %10s  %s %s %s\n", u->lun, type_name(u->type), bytes,
		       u->vendor, u->product, u->revision);
		return;
	}
	printf("{\"lun\":%u,\"device_type\":%u,\"vendor\":", u->lun, u->type & 0x1f);
	iscsi_user_json_text(u->vendor);
	printf(",\"product\":");
	iscsi_user_json_text(u->product);
	printf(",\"revision\":");
	iscsi_user_json_text(u->revision);
	if (u->has_size)
		printf(",\"size\":%" PRIu64 ",\"block\":%" PRIu64, u->blocks * u->block_bytes,
		       u->block_bytes);
	printf("}\n");
}

static int fail(const char *what, enum weft_reason reason, const struct weft_iscsi_result *result)
{
	char text[WEFT_ISCSI_TEXT_MAX] = "";

	if (result->reason != WEFT_OK)
		weft_iscsi_result_text(result, text);
	return iscsi_user_fail(what, reason, text);
}

static int show_unit(struct weft_iscsi_session *session, const uint8_t lun[LUN_BYTES], bool is_json)
{
	struct unit unit = { .lun = scsi_lun_decode(lun) };
	struct weft_iscsi_result result = { 0 };
	enum weft_reason reason;
	char what[32];

	if (unit.lun == SCSI_NO_LUN) {
		fprintf(stderr, "weft iscsi: a LUN has an address of several levels, which is left "
				"out\n");
		return 0;
	}
	reason = look_at(session, &unit, &result);
	snprintf(what, sizeof(what), "INQUIRY of LUN %u", unit.lun);
	if (reason != WEFT_OK)
		return fail(what, reason, &result);
	measure(session, &unit);
	print_unit(&unit, is_json);
	return 0;
}

/* What the target sent, which may be less than it says that there is. */
static int show_units(struct weft_iscsi_session *session, struct span list, bool is_json)
{
	struct rd r = rd_of(list.bytes, list.length);
	uint32_t said = rd_u32(&r) / LUN_BYTES, count = 0;
	int status = 0;

	if (list.length > LIST_HEADER_BYTES)
		count = (uint32_t)(list.length - LIST_HEADER_BYTES) / LUN_BYTES;
	if (said > count) {
		fprintf(stderr,
			"weft iscsi: the target says that it has %" PRIu32
			" LUNs, and names %" PRIu32 "\n",
			said, count);
		status = 1;
	}
	for (uint32_t i = 0; i < count && i < said; i++)
		status |= show_unit(session, list.bytes + LIST_HEADER_BYTES + i * LUN_BYTES,
				    is_json);
	return status;
}

static int list_units(struct iscsi_user *u, const char *url)
{
	const uint32_t bytes_max = LIST_HEADER_BYTES + LUNS_MAX * LUN_BYTES;
	uint8_t cdb[WEFT_ISCSI_CDB_BYTES] = { OPCODE_REPORT_LUNS };
	struct wr w = wr_of(cdb + 6, 4);
	struct weft_iscsi_result result = { 0 };
	struct weft_iscsi_session *session;
	uint8_t *list = calloc(1, bytes_max);
	enum weft_reason reason;
	int status;

	if (!list)
		return iscsi_user_fail("REPORT LUNS", WEFT_R_NO_MEMORY, "");
	/* Its LUNs need not be that of the URL. */
	u->options.skips_unit = true;
	session = iscsi_user_open(u, url);
	if (!session) {
		free(list);
		return 1;
	}
	wr_u32(&w, bytes_max);
	reason = ask(session, 0, cdb, (struct span){ list, bytes_max }, &result);
	if (reason != WEFT_OK)
		status = fail("REPORT LUNS", reason, &result);
	else
		status = show_units(session, (struct span){ list, result.done_bytes }, u->is_json);
	weft_iscsi_session_close(session);
	free(list);
	return status;
}

/* ---- The command ---------------------------------------------------------------------------- */

int iscsi_discover(int argc, char **argv)
{
	struct iscsi_url_complaint complaint;
	struct iscsi_user user;
	struct iscsi_url parsed;
	const char *url;
	int status;

	if (!iscsi_user_init(&user, argc, argv, NULL, &status))
		return status;
	if (!iscsi_user_words(argc, argv, &url, 1))
		return cmd_options_wrong(iscsi_help);
	/* What is wrong with it the session says. */
	if (iscsi_url_parse(url, &parsed, &complaint) && parsed.target.length > 0)
		return list_units(&user, url);
	return list_targets(&user, url);
}
