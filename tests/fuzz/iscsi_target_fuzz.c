/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core of the iSCSI target against initiators that send what the input says, by TCP and by
 * iSER: logins, commands, data, task management, texts and logouts with any fields, digests that
 * mostly fit, tags and numbers that mostly exist, and bytes that are none of it. Devices take their
 * time, initiators do not read, connections are lost, the node ends.
 *
 * Whatever comes: nothing crashes, no invariant breaks, what is sent are PDUs of a target, and once
 * all connections are closed and the devices are done no task, text or memory is in use.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "iscsi/target/target_iser.h"
#include "store/store.h"
#include "wire/iscsi.h"

enum {
	BLOCK = 512,
	MEDIUM = 256 * BLOCK,
	CLIENTS = 4,
	STEPS_MAX = 150,
	OUT_MAX = 1 << 18,
	DATA_MAX = 20000,
	POSTED_MAX = 64,
	REMOTE_TAG = 0x77,
	REMOTE_MAX = 1 << 18,
	DELAY_NS = 1000,
};

#define SECOND_NS UINT64_C(1000000000)

struct client {
	struct iscsi_connection *c; /* NULL: there is none */
	bool is_iser, is_stalled, is_slow;
	bool is_open; /* its login has succeeded */
	bool has_header_digest, has_data_digest;
	bool has_agreed_header_digest, has_agreed_data_digest; /* for after the login */
	uint8_t isid;
	uint16_t tsih;
	uint32_t cmd_sn, exp_stat_sn;
	uint32_t itt, r2t_itt, r2t_ttt, r2t_offset, r2t_bytes, text_ttt, text_itt, ping_ttt;
	uint32_t unasked_itt, unasked_offset, data_sn; /* what comes next of a command's data */
	uint32_t out_bytes;
	uint64_t posted[POSTED_MAX];
	uint32_t posted_count;
	/* From here on it is not set to zero. */
	uint8_t out[OUT_MAX];
};

struct world {
	struct iscsi_node *node;
	struct scsi_target *scsi;
	struct store *memory, *delay;
	uint64_t now_ns;
	struct client clients[CLIENTS];
	uint8_t medium[MEDIUM];
};

static uint8_t remote[REMOTE_MAX], data[DATA_MAX + 64];

/* ---- The node ------------------------------------------------------------------------------- */

static void admit(void *owner, const struct iscsi_peer *peer, uint16_t target,
		  struct iscsi_admission *answer)
{
	(void)owner;
	(void)peer;
	(void)target;
	*answer = (struct iscsi_admission){ .status = ISCSI_STATUS_SUCCESS };
}

static bool tell(void *owner, const struct iscsi_peer *peer, uint16_t target, struct wr *w)
{
	(void)owner;
	(void)target;
	iscsi_text_put(w, "TargetAddress", iscsi_word("10.0.0.1:3260,1"));
	return peer->initiator.length > 0;
}

static const struct iscsi_node_calls calls = { .admit = admit, .tell = tell };

static void world_open(struct world *w)
{
	struct mem_store_config memory = { .bytes = w->medium,
					   .size_bytes = MEDIUM,
					   .block_bytes = BLOCK };
	struct scsi_target_config scsi = { .name = "iqn.2020-01.x:d",
					   .port = 1,
					   .units_max = 1,
					   .nexuses_max = 8,
					   .registrations_max = 2 };
	struct scsi_unit_config unit = { .transfer_bytes_max = MEDIUM, .serial = "1" };
	struct iscsi_target_config target = { .name = iscsi_word("iqn.2020-01.x:d"),
					      .portal_group_tag = 1 };
	struct iscsi_node_config node;
	uint16_t index;

	iscsi_node_config_init(&node, 3);
	node.targets_max = 1;
	node.connections_max = CLIENTS;
	node.texts_max = 2;
	node.window_max = 4;
	node.tasks_max = 3 * 4 + 2;
	node.memory_bytes = 2 * (uint64_t)ISCSI_TRANSFER_MAX;
	node.calls = &calls;
	CHECK(mem_store_create(&memory, &w->memory) == WEFT_OK);
	CHECK(delay_store_create(w->memory, DELAY_NS, &w->delay) == WEFT_OK);
	unit.store = w->delay;
	CHECK(scsi_target_create(&scsi, &w->scsi) == WEFT_OK);
	CHECK(scsi_unit_add(w->scsi, &unit) == WEFT_OK);
	CHECK(iscsi_node_create(&node, &w->node) == WEFT_OK);
	target.scsi = w->scsi;
	iscsi_target_wish_init(&target.wish);
	CHECK(iscsi_target_add(w->node, &target, &index) == WEFT_OK);
	w->now_ns = SECOND_NS;
}

/* ---- What the target sends ------------------------------------------------------------------ */

/* What a client learns of it. */
static void learn(struct client *k, const struct iscsi_pdu *p)
{
	if (p->opcode == ISCSI_R2T) {
		k->r2t_itt = p->itt;
		k->r2t_ttt = p->ttt;
		k->r2t_offset = p->offset;
		k->r2t_bytes = p->desired_bytes;
		k->data_sn = 0;
	} else if (p->opcode == ISCSI_TEXT_RESPONSE) {
		k->text_ttt = p->ttt;
	} else if (p->opcode == ISCSI_NOP_IN) {
		k->ping_ttt = p->ttt;
	} else if (p->opcode == ISCSI_LOGIN_RESPONSE && p->status_class == 0 && p->is_final &&
		   p->nsg == ISCSI_STAGE_FULL_FEATURE) {
		k->is_open = true;
		k->tsih = p->tsih;
		k->has_header_digest = k->has_agreed_header_digest;
		k->has_data_digest = k->has_agreed_data_digest;
	}
	k->exp_stat_sn = p->stat_sn + 1;
}

static bool has_pair(const uint8_t *text, uint32_t length, const char *pair)
{
	return memmem(text, length, pair, strlen(pair) + 1) != NULL;
}

/* A header, with its data behind it. */
static void take_pdu(struct client *k, const uint8_t *bytes)
{
	const uint8_t *text = bytes + ISCSI_BHS_BYTES;
	struct iscsi_pdu p;

	CHECK(iscsi_decode(&p, ISCSI_TARGET, rd_of(bytes, ISCSI_BHS_BYTES), ISCSI_DATA_MAX) ==
	      WEFT_OK);
	CHECK(k->is_open || p.opcode == ISCSI_LOGIN_RESPONSE);
	if (p.opcode == ISCSI_LOGIN_RESPONSE) {
		k->has_agreed_header_digest |= has_pair(text, p.data_bytes, "HeaderDigest=CRC32C");
		k->has_agreed_data_digest |= has_pair(text, p.data_bytes, "DataDigest=CRC32C");
	}
	learn(k, &p);
}

static void take_stream(struct client *k)
{
	uint32_t at = 0;

	while (k->out_bytes - at >= ISCSI_BHS_BYTES) {
		const uint8_t *pdu = k->out + at;
		uint32_t bytes = iscsi_pdu_bytes(pdu, k->has_header_digest, k->has_data_digest);

		if (bytes > k->out_bytes - at)
			break;
		take_pdu(k, pdu);
		at += bytes;
	}
	memmove(k->out, k->out + at, k->out_bytes - at);
	k->out_bytes -= at;
}

static void finish_posted(struct world *w, struct client *k, enum weft_reason reason)
{
	uint32_t count = k->posted_count;

	k->posted_count = 0;
	for (uint32_t i = 0; i < count; i++)
		iscsi_iser_done(k->c, k->posted[i], reason, w->now_ns);
}

static void post(struct client *k, const struct iser_work *work, const uint8_t *message)
{
	struct rd at = rd_of(message, work->length);
	struct iser_header h;

	k->posted[k->posted_count++] = work->id;
	if (work->kind == ISER_SEND) {
		CHECK(iser_decode(&h, ISER_RFC7145, &at) == WEFT_OK && h.kind == ISER_CONTROL);
		take_pdu(k, at.at);
		return;
	}
	CHECK(work->memory.length > 0 && work->remote_tag == REMOTE_TAG);
	if (work->remote_addr + work->memory.length > REMOTE_MAX)
		return;
	if (work->kind == ISER_WRITE)
		memcpy(remote + work->remote_addr, work->memory.bytes, work->memory.length);
	else
		memcpy(work->memory.bytes, remote + work->remote_addr, work->memory.length);
}

static void serve_iser(struct world *w, struct client *k)
{
	uint8_t message[ISER_ANSWER_MAX];
	const struct iser_room room = { message, true };
	struct iser_work work;

	while (k->posted_count < POSTED_MAX && !k->is_stalled &&
	       iscsi_iser_next(k->c, &room, &work)) {
		post(k, &work, message);
		if (!k->is_slow)
			finish_posted(w, k, WEFT_OK);
	}
}

static void serve_tcp(struct world *w, struct client *k)
{
	struct span_list l;

	while (!k->is_stalled) {
		uint32_t bytes = 0;

		iscsi_connection_have(k->c, w->now_ns, &l);
		if (l.length == 0)
			return;
		for (uint32_t i = 0; i < l.count && bytes < OUT_MAX - k->out_bytes; i++) {
			uint32_t room = OUT_MAX - k->out_bytes - bytes;
			uint32_t n = l.spans[i].length < room ? (uint32_t)l.spans[i].length : room;

			memcpy(k->out + k->out_bytes + bytes, l.spans[i].bytes, n);
			bytes += n;
		}
		k->out_bytes += bytes;
		iscsi_connection_sent(k->c, w->now_ns, bytes);
		take_stream(k);
		CHECK(k->out_bytes < OUT_MAX);
	}
}

static void client_end(struct world *w, struct client *k)
{
	if (k->c)
		finish_posted(w, k, WEFT_R_FLUSHED);
	if (k->c)
		iscsi_connection_destroy(k->c, w->now_ns);
	memset(k, 0, offsetof(struct client, out));
}

static void serve(struct world *w, struct client *k)
{
	if (k->is_iser)
		serve_iser(w, k);
	else
		serve_tcp(w, k);
	if (iscsi_connection_action(k->c) != ISCSI_ACTION_NONE)
		client_end(w, k);
}

static void run(struct world *w)
{
	struct iscsi_connection *c;

	do {
		iscsi_node_run(w->node, w->now_ns);
		c = iscsi_node_attend(w->node);
		if (c)
			serve(w, iscsi_connection_owner(c));
	} while (c);
}

static void pass(struct world *w, uint64_t ns)
{
	uint64_t end_ns = w->now_ns + ns;

	while (iscsi_node_due(w->node) <= end_ns) {
		if (iscsi_node_due(w->node) > w->now_ns)
			w->now_ns = iscsi_node_due(w->node);
		iscsi_node_expire(w->node, w->now_ns);
		run(w);
	}
	w->now_ns = end_ns;
	run(w);
}

/* ---- What initiators send ------------------------------------------------------------------- */

static void send_bytes(struct world *w, struct client *k, const uint8_t *bytes, size_t length,
		       size_t cut)
{
	size_t done = 0;

	while (done < length && k->c && iscsi_connection_wants(k->c)) {
		size_t n = length - done < cut ? length - done : cut, left;
		struct span_list l;

		iscsi_connection_want(k->c, w->now_ns, &l);
		n = n < l.length ? n : l.length;
		left = n;
		for (uint32_t i = 0; i < l.count && left > 0; i++) {
			size_t piece = l.spans[i].length < left ? l.spans[i].length : left;

			memcpy(l.spans[i].bytes, bytes + done + n - left, piece);
			left -= piece;
		}
		iscsi_connection_got(k->c, w->now_ns, &l, n);
		done += n;
		run(w);
	}
}

static void send_message(struct world *w, struct client *k, const struct iscsi_pdu *p, uint8_t how)
{
	struct iser_header h = { .kind = how == 9 ? ISER_HELLO : ISER_CONTROL,
				 .has_read = p->is_read && how != 10,
				 .has_write = p->is_write && how != 10,
				 .read_stag = REMOTE_TAG,
				 .write_stag = REMOTE_TAG };
	static uint8_t message[ISER_MESSAGE_MAX];
	struct wr out = wr_of(message, sizeof(message));

	if (!k->c)
		return;
	iser_encode(&h, ISER_RFC7145, &out);
	iscsi_encode(p, &out);
	wr_bytes(&out, data, p->data_bytes < 8192 ? p->data_bytes : 8192);
	iscsi_iser_received(k->c, message, (uint32_t)(out.at - message) - (how == 11), w->now_ns);
	run(w);
}

/* how: what is wrong with it, if anything. */
static void send_pdu(struct world *w, struct client *k, const struct iscsi_pdu *p, uint8_t how)
{
	static const size_t cuts[] = { SIZE_MAX, 48, 1000, 7, 49, 4096, SIZE_MAX, 1 };
	static uint8_t bytes[ISCSI_HEADER_MAX + DATA_MAX + 64];
	uint32_t pad = iscsi_pad(p->data_bytes);
	struct wr out = wr_of(bytes, sizeof(bytes));
	uint8_t digest[ISCSI_DIGEST_BYTES];

	if (k->is_iser) {
		send_message(w, k, p, how);
		return;
	}
	iscsi_encode(p, &out);
	if (how == 1)
		bytes[how * 7 % 48] ^= 0x41;
	if (k->has_header_digest) {
		iscsi_digest_encode(iscsi_header_digest(bytes, (size_t)(out.at - bytes)), digest);
		digest[0] ^= how == 2;
		wr_bytes(&out, digest, sizeof(digest));
	}
	wr_bytes(&out, data, p->data_bytes + pad);
	if (k->has_data_digest && p->data_bytes > 0) {
		uint32_t crc = crc32c_add(CRC32C_BEGIN, data, p->data_bytes + pad);

		iscsi_digest_encode(crc32c_end(crc), digest);
		digest[0] ^= how >= 3 && how < 6;
		wr_bytes(&out, digest, sizeof(digest));
	}
	send_bytes(w, k, bytes, (size_t)(out.at - bytes), cuts[how >> 5]);
}

static void log_in(struct world *w, struct client *k, struct rd *r)
{
	static const char *const texts[] = {
		"InitiatorName=iqn.2020-01.x:h\0TargetName=iqn.2020-01.x:d\0",
		"InitiatorName=iqn.2020-01.x:h\0SessionType=Discovery\0",
		"InitiatorName=iqn.2020-01.x:h\0TargetName=iqn.2020-01.x:d\0InitialR2T=No\0"
		"FirstBurstLength=4096\0MaxBurstLength=8192\0MaxOutstandingR2T=3\0",
		"InitiatorName=iqn.2020-01.x:h\0TargetName=iqn.2020-01.x:d\0InitialR2T=No\0"
		"HeaderDigest=CRC32C\0DataDigest=CRC32C\0iSCSIProtocolLevel=2\0",
		"InitiatorName=iqn.2020-01.x:h\0TargetName=iqn.2020-01.x:d\0RDMAExtensions=Yes\0",
		"InitiatorName=iqn.2020-01.x:h\0TargetName=iqn.2020-01.x:d\0ImmediateData=No\0"
		"MaxRecvDataSegmentLength=512\0FirstBurstLength=65536\0",
	};
	static const uint8_t lengths[] = { 57, 52, 133, 130, 76, 126 };
	uint8_t how = rd_u8(r), which = rd_u8(r) % 6;
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_final = how < 200,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .nsg = how < 200 ? ISCSI_STAGE_FULL_FEATURE : 0,
			       .isid = UINT64_C(0x400000000000) + (k->isid & 3),
			       .tsih = how & 16 ? k->tsih : 0,
			       .itt = 1,
			       .cmd_sn = k->cmd_sn };

	if (k->is_iser && !k->is_open)
		which = which == 1 ? 1 : 4;
	p.data_bytes = how == 255 ? 0 : lengths[which];
	memcpy(data, texts[which], lengths[which]);
	send_pdu(w, k, &p, rd_u8(r) % 16);
}

static uint32_t near(uint32_t number, uint8_t how)
{
	return how < 200 ? number : how < 220 ? number + 1 : how < 240 ? number + (how & 7) : how;
}

static void send_command(struct world *w, struct client *k, struct rd *r)
{
	static const uint8_t opcodes[] = { 0x28, 0x2a, 0x28, 0x2a, 0x00, 0x89, 0x5f, 0x12,
					   0x41, 0x42, 0x2f, 0xa0, 0x8a, 0x5e, 0x35, 0x03 };
	static const uint32_t lengths[] = { 0,	  512,	 512,	1024,	4096,
					    8192, 16384, 65536, 131072, UINT32_MAX };
	static const uint32_t sizes[] = { 0, 0, 0, 512, 1, 1000, 4096, 8192 };
	uint8_t how = rd_u8(r), what = rd_u8(r), tag = rd_u8(r), size = rd_u8(r);
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_COMMAND,
			       .is_immediate = (how & 0x1f) == 7,
			       .is_final = (how & 3) != 3,
			       .attr = what >> 6 ? ISCSI_ATTR_SIMPLE : ISCSI_ATTR_ORDERED,
			       .itt = tag < 200 ? ++k->itt : tag & 7,
			       .expected_bytes = lengths[size % 10],
			       .cmd_sn = near(k->cmd_sn, rd_u8(r)),
			       .exp_stat_sn = k->exp_stat_sn };

	p.cdb[0] = opcodes[what & 15];
	p.cdb[5] = rd_u8(r);
	p.cdb[8] = rd_u8(r) & 0x3f;
	p.cdb[13] = p.cdb[8] & 3;
	p.is_write = p.cdb[0] & 2 || p.cdb[0] == 0x89 || p.cdb[0] == 0x41 || how == 255;
	p.is_read = !p.is_write;
	p.is_final |= !p.is_write || p.expected_bytes == 0;
	p.data_bytes = p.is_write || how > 250 ? sizes[how >> 5] : 0;
	if (p.expected_bytes == 0)
		p.is_read = p.is_write = false;
	p.lun = how == 200 ? UINT64_C(5) << 48 : 0;
	if (!p.is_final) {
		k->unasked_itt = p.itt;
		k->unasked_offset = p.data_bytes;
		k->data_sn = 0;
	}
	if (!p.is_immediate && p.cmd_sn == k->cmd_sn)
		k->cmd_sn++;
	send_pdu(w, k, &p, rd_u8(r));
}

static void send_data(struct world *w, struct client *k, struct rd *r)
{
	static const uint32_t sizes[] = { 0, 512, 1, 1024, 4096, 8192, 16384, 512 };
	uint8_t how = rd_u8(r), tag = rd_u8(r);
	bool is_answer = how & 1 && k->r2t_bytes > 0;
	uint32_t size = sizes[how >> 5];
	struct iscsi_pdu p = { .opcode = ISCSI_DATA_OUT,
			       .itt = is_answer ? k->r2t_itt : near(k->unasked_itt, tag),
			       .ttt = is_answer ? k->r2t_ttt : ISCSI_TAG_NONE,
			       .data_sn = near(k->data_sn, rd_u8(r)),
			       .offset = is_answer ? k->r2t_offset : k->unasked_offset };

	if (how & 2 && is_answer)
		size = k->r2t_bytes < DATA_MAX ? k->r2t_bytes : DATA_MAX;
	if ((how & 0x18) == 0x18)
		p.offset = (uint32_t)(tag & 31) * 512;
	p.data_bytes = size;
	p.is_final = is_answer ? size == k->r2t_bytes : (how & 4) == 4;
	if (is_answer && size <= k->r2t_bytes) {
		k->r2t_offset += size;
		k->r2t_bytes -= size;
	} else if (!is_answer) {
		k->unasked_offset += size;
	}
	k->data_sn = p.is_final ? 0 : k->data_sn + 1;
	send_pdu(w, k, &p, rd_u8(r));
}

static void send_text(struct world *w, struct client *k, struct rd *r)
{
	static const char *const texts[] = { "SendTargets=All",
					     "SendTargets=", "MaxRecvDataSegmentLength=512",
					     "X-a=1" };
	uint8_t how = rd_u8(r);
	bool is_next = how & 4;
	struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
			       .is_immediate = how & 8,
			       .is_continued = (how & 0x30) == 0x30,
			       .itt = is_next ? k->text_itt : ++k->itt,
			       .ttt = is_next ? k->text_ttt : ISCSI_TAG_NONE,
			       .cmd_sn = near(k->cmd_sn, rd_u8(r)) };

	p.is_final = !p.is_continued && how < 128;
	p.data_bytes = how == 255 ? 9000 : (uint32_t)strlen(texts[how & 3]) + 1;
	memcpy(data, texts[how & 3], strlen(texts[how & 3]) + 1);
	k->text_itt = p.itt;
	if (!p.is_immediate && p.cmd_sn == k->cmd_sn)
		k->cmd_sn++;
	send_pdu(w, k, &p, rd_u8(r));
}

/* Task management, pings, logouts, and what an initiator never sends then. */
static void send_other(struct world *w, struct client *k, struct rd *r)
{
	static const uint8_t opcodes[] = {
		ISCSI_TASK_REQUEST, ISCSI_NOP_OUT, ISCSI_TASK_REQUEST,
		ISCSI_NOP_OUT,	    ISCSI_SNACK,   ISCSI_LOGOUT_REQUEST
	};
	static const uint32_t sizes[] = { 0, 5, 1024, 1025, 8192, 0 };
	uint8_t how = rd_u8(r), what = rd_u8(r), code = rd_u8(r);
	struct iscsi_pdu p = { .opcode = opcodes[what % 6],
			       .is_immediate = (how & 3) != 3,
			       .is_final = true,
			       .itt = how < 240 ? ++k->itt : k->itt,
			       .ttt = ISCSI_TAG_NONE,
			       .ref_itt = k->itt - (code >> 4),
			       .cmd_sn = near(k->cmd_sn, rd_u8(r)) };

	if (p.opcode == ISCSI_TASK_REQUEST) {
		p.code = 1 + (code & 15) % 12;
		p.ref_cmd_sn = k->cmd_sn - (how >> 6);
		if (p.code != ISCSI_ABORT_TASK && p.code != ISCSI_TASK_REASSIGN &&
		    p.code != ISCSI_QUERY_TASK)
			p.ref_itt = ISCSI_TAG_NONE;
	} else if (p.opcode == ISCSI_NOP_OUT) {
		p.data_bytes = sizes[code % 6];
		p.itt = how & 4 ? ISCSI_TAG_NONE : p.itt;
		p.ttt = how & 4 ? k->ping_ttt : ISCSI_TAG_NONE;
	} else if (p.opcode == ISCSI_LOGOUT_REQUEST) {
		p.code = code > 200 ? code & 3 : ISCSI_LOGOUT_RECOVERY;
	}
	if (p.opcode != ISCSI_SNACK && !p.is_immediate && p.cmd_sn == k->cmd_sn)
		k->cmd_sn++;
	send_pdu(w, k, &p, rd_u8(r));
}

static void connect_client(struct world *w, struct client *k, struct rd *r)
{
	struct iscsi_accept a = { .peer = "10.0.0.1:5000", .local = "10.0.0.2:3260", .owner = k };
	uint8_t how = rd_u8(r);
	enum weft_reason reason;

	memset(k, 0, offsetof(struct client, out));
	k->isid = how >> 1;
	k->tsih = how >> 6;
	k->cmd_sn = how & 8 ? 100 : UINT32_MAX - 2;
	k->is_iser = how & 1;
	reason = k->is_iser ? iscsi_node_accept_iser(w->node, &a, w->now_ns, &k->c)
			    : iscsi_node_accept(w->node, &a, w->now_ns, &k->c);
	if (reason != WEFT_OK)
		k->c = NULL;
	run(w);
}

static void disturb(struct world *w, struct client *k, struct rd *r)
{
	uint8_t how = rd_u8(r), raw[64];

	if (how < 80) {
		pass(w, how < 60 ? DELAY_NS : how < 70 ? SECOND_NS : 40 * SECOND_NS);
	} else if (how < 110) {
		k->is_stalled = !k->is_stalled;
		k->is_slow = how & 1;
		finish_posted(w, k, WEFT_OK);
		serve(w, k);
		run(w);
	} else if (how < 116) {
		iscsi_connection_eof(k->c, w->now_ns);
		run(w);
	} else if (how < 120) {
		rd_bytes(r, raw, sizeof(raw));
		if (!k->is_iser)
			send_bytes(w, k, raw, sizeof(raw), SIZE_MAX);
	} else if (how == 255) {
		iscsi_node_end(w->node, w->now_ns, SECOND_NS);
		run(w);
	} else if (how > 245 && k->is_iser) {
		finish_posted(w, k, WEFT_R_PEER_GONE);
		run(w);
	}
}

static void step(struct world *w, struct rd *r)
{
	uint8_t how = rd_u8(r);
	struct client *k = &w->clients[how % CLIENTS];

	if (!k->c) {
		connect_client(w, k, r);
		return;
	}
	if (!k->is_open && how < 200) {
		log_in(w, k, r);
		return;
	}
	switch (how >> 5) {
	case 0:
	case 1:
		send_command(w, k, r);
		break;
	case 2:
	case 3:
		send_data(w, k, r);
		break;
	case 4:
		send_text(w, k, r);
		break;
	case 5:
		send_other(w, k, r);
		break;
	case 6:
		disturb(w, k, r);
		break;
	default:
		if (how > 253)
			log_in(w, k, r);
		else
			send_command(w, k, r);
	}
}

static void world_close(struct world *w)
{
	struct iscsi_node_counts counts;

	for (uint32_t i = 0; i < CLIENTS; i++)
		if (w->clients[i].c)
			client_end(w, &w->clients[i]);
	pass(w, 1000 * DELAY_NS);
	iscsi_node_counts(w->node, &counts);
	CHECK(counts.memory_used == 0 && counts.texts == 0 && counts.tasks == 0);
	CHECK(iscsi_node_is_idle(w->node));
	iscsi_node_destroy(w->node);
	scsi_target_destroy(w->scsi);
	store_destroy(w->delay);
	store_destroy(w->memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct world world;
	struct world *w = &world;
	struct rd r = rd_of(bytes, length);

	for (uint32_t i = 0; i < CLIENTS; i++)
		memset(&w->clients[i], 0, offsetof(struct client, out));
	world_open(w);
	for (int i = 0; i < STEPS_MAX && !r.is_short; i++)
		step(w, &r);
	world_close(w);
	return 0;
}
