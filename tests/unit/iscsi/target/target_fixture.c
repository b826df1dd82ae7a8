/* SPDX-License-Identifier: BSD-2-Clause */
#include "target_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"

static uint8_t data_of_last[1 << 20];
static uint32_t data_of_last_bytes;

/* ---- The owner ------------------------------------------------------------------------------ */

static void rig_admit(void *owner, const struct iscsi_peer *peer, uint16_t target,
		      struct iscsi_admission *answer)
{
	struct rig *r = owner;

	(void)peer;
	(void)target;
	*answer = r->admission;
}

static bool rig_tell(void *owner, const struct iscsi_peer *peer, uint16_t target, struct wr *w)
{
	struct rig *r = owner;

	(void)peer;
	iscsi_text_put(w, "TargetAddress", iscsi_word("127.0.0.1:3260,1"));
	return target >= 2 || r->tells[target];
}

static void rig_note(void *owner, const struct iscsi_note *note)
{
	struct rig *r = owner;

	r->last = *note;
	memset(r->account, 0, sizeof(r->account));
	memcpy(r->account, note->peer.account.at, note->peer.account.length);
	r->notes[r->note_count++ % 64] = note->kind;
}

static const struct iscsi_node_calls calls = { rig_admit, rig_tell, rig_note };

void rig_init(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	iscsi_node_config_init(&r->config, 8);
	r->config.memory_bytes = 2 * (uint64_t)ISCSI_TRANSFER_MAX;
	r->config.calls = &calls;
	r->config.owner = r;
	r->tells[0] = r->tells[1] = true;
	r->now_ns = RIG_SECOND;
	iscsi_target_wish_init(&r->wish);
}

static void make_unit(struct rig *r, int i)
{
	struct mem_store_config m = { .size_bytes = RIG_DISK_BYTES, .block_bytes = RIG_BLOCK };
	struct scsi_target_config c = { .name = i ? RIG_OTHER : RIG_TARGET,
					.port = 1,
					.units_max = 2,
					.nexuses_max = 16,
					.registrations_max = 4 };
	struct scsi_unit_config u = { .transfer_bytes_max = RIG_DISK_BYTES,
				      .id = 7,
				      .serial = "1" };

	r->disk[i] = calloc(1, RIG_DISK_BYTES);
	m.bytes = r->disk[i];
	for (size_t k = 0; k < RIG_DISK_BYTES; k++)
		r->disk[i][k] = (uint8_t)(k / RIG_BLOCK * 3 + k);
	REQUIRE(mem_store_create(&m, &r->memory[i]) == WEFT_OK);
	r->store[i] = r->memory[i];
	if (r->delay_ns > 0)
		REQUIRE(delay_store_create(r->memory[i], r->delay_ns, &r->store[i]) == WEFT_OK);
	u.store = r->store[i];
	REQUIRE(scsi_target_create(&c, &r->scsi[i]) == WEFT_OK);
	REQUIRE(scsi_unit_add(r->scsi[i], &u) == WEFT_OK);
}

void rig_start(struct rig *r)
{
	REQUIRE(iscsi_node_create(&r->config, &r->node) == WEFT_OK);
	for (int i = 0; i < 2; i++) {
		struct iscsi_target_config c = { .name = iscsi_word(i ? RIG_OTHER : RIG_TARGET),
						 .alias = iscsi_word("rig"),
						 .portal_group_tag = 1,
						 .wish = r->wish };
		uint16_t index;

		make_unit(r, i);
		c.scsi = r->scsi[i];
		REQUIRE(iscsi_target_add(r->node, &c, &index) == WEFT_OK && index == i);
	}
}

void rig_stop(struct rig *r)
{
	struct iscsi_node_counts counts;

	for (int i = 0; i < r->client_count; i++) {
		client_close(r, &r->clients[i]);
		free(r->clients[i].in);
	}
	rig_wait(r, r->delay_ns * 10);
	iscsi_node_counts(r->node, &counts);
	REQUIRE(counts.memory_used == 0 && counts.tasks == 0 && counts.texts == 0);
	REQUIRE(iscsi_node_is_idle(r->node));
	iscsi_node_destroy(r->node);
	for (int i = 0; i < 2; i++) {
		scsi_target_destroy(r->scsi[i]);
		if (r->store[i] != r->memory[i])
			store_destroy(r->store[i]);
		store_destroy(r->memory[i]);
		free(r->disk[i]);
	}
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void close_by_target(struct rig *r, struct client *k)
{
	k->action = iscsi_connection_action(k->c);
	iscsi_connection_destroy(k->c, r->now_ns);
	k->c = NULL;
}

static void take_output(struct rig *r, struct client *k)
{
	struct span_list l;

	while (k->c && !k->is_stalled) {
		iscsi_connection_have(k->c, r->now_ns, &l);
		if (l.length == 0)
			break;
		REQUIRE(k->in_bytes + l.length <= RIG_WIRE_BYTES);
		for (uint32_t i = 0; i < l.count; i++) {
			memcpy(k->in + k->in_bytes, l.spans[i].bytes, l.spans[i].length);
			k->in_bytes += l.spans[i].length;
		}
		iscsi_connection_sent(k->c, r->now_ns, l.length);
	}
	if (k->c && iscsi_connection_action(k->c) != ISCSI_ACTION_NONE)
		close_by_target(r, k);
}

void client_resume(struct rig *r, struct client *k)
{
	k->is_stalled = false;
	take_output(r, k);
	rig_run(r);
}

void rig_run(struct rig *r)
{
	struct iscsi_connection *c;

	do {
		iscsi_node_run(r->node, r->now_ns);
		c = iscsi_node_attend(r->node);
		if (c)
			take_output(r, iscsi_connection_owner(c));
	} while (c);
}

void rig_wait(struct rig *r, uint64_t ns)
{
	uint64_t end_ns = r->now_ns + ns, due_ns = iscsi_node_due(r->node);

	for (; due_ns <= end_ns; due_ns = iscsi_node_due(r->node)) {
		r->now_ns = due_ns > r->now_ns ? due_ns : r->now_ns;
		iscsi_node_expire(r->node, r->now_ns);
		rig_run(r);
	}
	r->now_ns = end_ns;
	rig_run(r);
}

struct client *client_connect(struct rig *r)
{
	struct client *k = &r->clients[r->client_count++];
	struct iscsi_accept a = { .peer = "10.0.0.1:5000", .local = "10.0.0.2:3260", .owner = k };

	REQUIRE(r->client_count <= RIG_CLIENTS);
	*k = (struct client){ .cut = UINT32_MAX, .isid = 0x400000000001, .cmd_sn = 100 };
	k->in = malloc(RIG_WIRE_BYTES);
	REQUIRE(iscsi_node_accept(r->node, &a, r->now_ns, &k->c) == WEFT_OK);
	return k;
}

void client_close(struct rig *r, struct client *k)
{
	if (k->c) {
		iscsi_connection_eof(k->c, r->now_ns);
		iscsi_connection_destroy(k->c, r->now_ns);
	}
	k->c = NULL;
	rig_run(r);
}

void client_bytes(struct rig *r, struct client *k, const void *bytes, size_t length)
{
	size_t done = 0;

	while (done < length && k->c) {
		size_t n = length - done < k->cut ? length - done : k->cut, left;
		struct span_list l;

		if (!iscsi_connection_wants(k->c)) {
			rig_run(r);
			if (k->c && !iscsi_connection_wants(k->c))
				return; /* it reads no more */
			continue;
		}
		iscsi_connection_want(k->c, r->now_ns, &l);
		n = n < l.length ? n : l.length;
		left = n;
		for (uint32_t i = 0; i < l.count && left > 0; i++) {
			size_t piece = l.spans[i].length < left ? l.spans[i].length : left;

			memcpy(l.spans[i].bytes, (const uint8_t *)bytes + done + n - left, piece);
			left -= piece;
		}
		iscsi_connection_got(k->c, r->now_ns, &l, n);
		done += n;
	}
	rig_run(r);
}

void client_send(struct rig *r, struct client *k, const struct iscsi_pdu *p, const void *data)
{
	uint32_t length = p->data_bytes, pad = iscsi_pad(length);
	uint8_t *bytes = calloc(1, ISCSI_HEADER_MAX + (size_t)length + 16);
	struct wr w = wr_of(bytes, ISCSI_HEADER_MAX);
	size_t n;

	iscsi_encode(p, &w);
	n = (size_t)(w.at - bytes);
	if (k->has_header_digest) {
		iscsi_digest_encode(iscsi_header_digest(bytes, n), bytes + n);
		n += ISCSI_DIGEST_BYTES;
	}
	if (data && length > 0)
		memcpy(bytes + n, data, length);
	if (k->has_data_digest && length > 0) {
		uint32_t crc = crc32c_add(CRC32C_BEGIN, bytes + n, length + pad);

		iscsi_digest_encode(crc32c_end(crc), bytes + n + length + pad);
		n += ISCSI_DIGEST_BYTES;
	}
	client_bytes(r, k, bytes, n + length + pad);
	free(bytes);
}

/* ---- PDUs of the target --------------------------------------------------------------------- */

bool client_has(const struct client *k)
{
	return k->in_at < k->in_bytes;
}

const uint8_t *client_data(void)
{
	return data_of_last;
}

struct iscsi_pdu client_expect(struct client *k, uint8_t opcode)
{
	const uint8_t *bytes = k->in + k->in_at;
	uint32_t header_bytes, whole;
	struct iscsi_pdu p;

	REQUIRE(k->in_bytes - k->in_at >= ISCSI_BHS_BYTES);
	header_bytes = iscsi_header_bytes(bytes);
	whole = iscsi_pdu_bytes(bytes, k->has_header_digest, k->has_data_digest);
	REQUIRE(k->in_bytes - k->in_at >= whole);
	REQUIRE(iscsi_decode(&p, ISCSI_TARGET, rd_of(bytes, header_bytes), ISCSI_DATA_MAX) ==
		WEFT_OK);
	if (k->has_header_digest) {
		REQUIRE(iscsi_header_check(bytes, header_bytes, bytes + header_bytes) == WEFT_OK);
		header_bytes += ISCSI_DIGEST_BYTES;
	}
	REQUIRE(p.data_bytes <= sizeof(data_of_last));
	memcpy(data_of_last, bytes + header_bytes, p.data_bytes);
	data_of_last_bytes = p.data_bytes;
	if (k->has_data_digest && p.data_bytes > 0) {
		uint32_t covered = p.data_bytes + iscsi_pad(p.data_bytes);
		uint32_t crc = crc32c_add(CRC32C_BEGIN, bytes + header_bytes, covered);

		REQUIRE(iscsi_data_check(crc, bytes + header_bytes + covered) == WEFT_OK);
	}
	k->in_at += whole;
	if (p.opcode != opcode)
		harness_true(__FILE__, __LINE__, iscsi_opcode_name(p.opcode), false);
	REQUIRE(p.opcode == opcode);
	/* Status is numbered without a gap (section 4.2.2.2). */
	if (p.opcode != ISCSI_R2T && (p.opcode != ISCSI_DATA_IN || p.has_status) &&
	    (p.opcode != ISCSI_NOP_IN || p.itt != ISCSI_TAG_NONE)) {
		REQUIRE(p.stat_sn == k->exp_stat_sn || p.opcode == ISCSI_LOGIN_RESPONSE);
		k->exp_stat_sn = p.stat_sn + 1;
	}
	/* The window never closes by what it was said to be (section 4.2.2.1). */
	if (k->tsih != 0)
		REQUIRE((int32_t)(p.max_cmd_sn - k->max_cmd_sn) >= 0 &&
			(int32_t)(p.exp_cmd_sn - k->exp_cmd_sn) >= 0);
	k->exp_cmd_sn = p.exp_cmd_sn;
	k->max_cmd_sn = p.max_cmd_sn;
	return p;
}

uint32_t client_sense(void)
{
	if (data_of_last_bytes < 16)
		return 0;
	return (uint32_t)(data_of_last[4] & 0xf) << 16 | (uint32_t)data_of_last[14] << 8 |
	       data_of_last[15];
}

struct iscsi_pdu client_status(struct client *k, const struct iscsi_pdu *command, uint8_t status)
{
	struct iscsi_pdu p = client_expect(k, ISCSI_SCSI_RESPONSE);

	REQUIRE(p.itt == command->itt);
	REQUIRE(p.status == status);
	REQUIRE(p.code == ISCSI_COMPLETED);
	return p;
}

void client_reject(struct client *k, enum iscsi_reject_reason why)
{
	struct iscsi_pdu p = client_expect(k, ISCSI_REJECT);

	REQUIRE(p.code == why);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Spaces become zero bytes. */
static uint32_t text_of(const char *pairs, char *to)
{
	uint32_t n = (uint32_t)strlen(pairs);

	for (uint32_t i = 0; i < n; i++)
		to[i] = pairs[i] == ' ' ? '\0' : pairs[i];
	return n;
}

struct iscsi_pdu client_login_text(struct rig *r, struct client *k, const char *pairs)
{
	static char text[ISCSI_TEXT_MIN];
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .nsg = ISCSI_STAGE_FULL_FEATURE,
			       .isid = k->isid,
			       .tsih = k->tsih,
			       .itt = ++k->itt,
			       .cmd_sn = k->cmd_sn,
			       .exp_stat_sn = k->exp_stat_sn };

	k->tsih = 0; /* what is said about the window before counts no more */
	p.data_bytes = text_of(pairs, text);
	client_send(r, k, &p, text);
	return client_expect(k, ISCSI_LOGIN_RESPONSE);
}

struct client *client_login(struct rig *r, const char *keys)
{
	struct client *k = client_connect(r);
	char pairs[1024] = "InitiatorName=" RIG_INITIATOR " TargetName=" RIG_TARGET " ";
	struct iscsi_pdu p;

	k->isid += (uint64_t)r->client_count;
	strcat(pairs, keys);
	p = client_login_text(r, k, pairs);
	REQUIRE(p.status_class == 0 && p.is_final && p.nsg == ISCSI_STAGE_FULL_FEATURE);
	REQUIRE(p.exp_cmd_sn == k->cmd_sn);
	k->tsih = p.tsih;
	k->has_header_digest = strstr(keys, "HeaderDigest=CRC32C") != NULL;
	k->has_data_digest = strstr(keys, "DataDigest=CRC32C") != NULL;
	return k;
}

struct iscsi_pdu client_command(struct client *k, const uint8_t *cdb, uint32_t expected)
{
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_COMMAND,
			       .is_final = true,
			       .attr = ISCSI_ATTR_SIMPLE,
			       .itt = ++k->itt,
			       .expected_bytes = expected,
			       .cmd_sn = k->cmd_sn++,
			       .exp_stat_sn = k->exp_stat_sn };

	memcpy(p.cdb, cdb, sizeof(p.cdb));
	return p;
}

static struct iscsi_pdu block_command(struct client *k, uint8_t opcode, uint32_t lba, uint32_t n)
{
	uint8_t cdb[16] = { opcode,
			    0,
			    (uint8_t)(lba >> 24),
			    (uint8_t)(lba >> 16),
			    (uint8_t)(lba >> 8),
			    (uint8_t)lba,
			    0,
			    (uint8_t)(n >> 8),
			    (uint8_t)n };

	return client_command(k, cdb, n * RIG_BLOCK);
}

struct iscsi_pdu client_read(struct client *k, uint32_t lba, uint32_t blocks)
{
	struct iscsi_pdu p = block_command(k, 0x28, lba, blocks);

	p.is_read = true;
	return p;
}

struct iscsi_pdu client_write(struct client *k, uint32_t lba, uint32_t blocks)
{
	struct iscsi_pdu p = block_command(k, 0x2a, lba, blocks);

	p.is_write = true;
	return p;
}

struct iscsi_pdu client_data_out(const struct iscsi_pdu *command, uint32_t ttt, uint32_t data_sn,
				 uint32_t offset, uint32_t length)
{
	return (struct iscsi_pdu){ .opcode = ISCSI_DATA_OUT,
				   .is_final = true,
				   .itt = command->itt,
				   .ttt = ttt,
				   .data_sn = data_sn,
				   .offset = offset,
				   .data_bytes = length };
}

void client_ready(struct rig *r, struct client *k)
{
	static const uint8_t test_unit_ready[16];
	struct iscsi_pdu p = client_command(k, test_unit_ready, 0);

	client_send(r, k, &p, NULL);
	rig_wait(r, r->delay_ns);
	(void)client_status(k, &p, SCSI_CHECK_CONDITION);
	REQUIRE(client_sense() == 0x062900);
	p = client_command(k, test_unit_ready, 0);
	client_send(r, k, &p, NULL);
	rig_wait(r, r->delay_ns);
	(void)client_status(k, &p, SCSI_GOOD);
}
