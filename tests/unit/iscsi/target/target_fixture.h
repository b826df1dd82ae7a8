/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node with targets on memory, and initiators that are scripts of PDUs: they send and expect what
 * a test says, sound or not.
 */
#pragma once

#include "iscsi/target/target.h"
#include "test.h"
#include "wire/iscsi.h"

enum {
	RIG_DISK_BYTES = 1 << 20,
	RIG_BLOCK = 512,
	RIG_CLIENTS = 8,
	RIG_WIRE_BYTES = 20 << 20,
	RIG_SECOND = 1000000000,
};

#define RIG_TARGET "iqn.2020-01.org.example:disk"
#define RIG_OTHER "iqn.2020-01.org.example:other"
#define RIG_INITIATOR "iqn.2020-01.org.example:host"

struct client {
	struct iscsi_connection *c; /* NULL: closed by the target */
	enum iscsi_action action;   /* how it was closed */
	uint32_t cmd_sn, exp_stat_sn, itt;
	uint32_t exp_cmd_sn, max_cmd_sn; /* of the last PDU */
	bool has_header_digest, has_data_digest;
	uint8_t *in; /* what the target sent */
	size_t in_bytes, in_at;
	uint32_t cut;	 /* bytes that the target is given at a time */
	bool is_stalled; /* takes nothing of what the target has */
	uint16_t tsih;
	uint64_t isid;
};

struct rig {
	struct iscsi_node *node;
	struct iscsi_node_config config;
	struct scsi_target *scsi[2];
	struct store *memory[2], *store[2]; /* the second: a delay above the first */
	uint8_t *disk[2];
	uint64_t delay_ns, now_ns;
	struct iscsi_params wish;
	struct client clients[RIG_CLIENTS];
	int client_count;
	/* What the owner decides, and was told. */
	struct iscsi_admission admission;
	bool tells[2];
	struct iscsi_note last;
	enum iscsi_note_kind notes[64];
	int note_count;
	char account[64];
};

/* rig_init() sets the defaults; the test changes them; rig_start() makes the node. */
void rig_init(struct rig *r);
void rig_start(struct rig *r);
/* All connections are closed; nothing may be left. */
void rig_stop(struct rig *r);

/* Lets everything happen that needs no more time. */
void rig_run(struct rig *r);
/* The same at a later time. */
void rig_wait(struct rig *r, uint64_t ns);

/* ---- Initiators ----------------------------------------------------------------------------- */

struct client *client_connect(struct rig *r);
/* Closes the TCP connection. */
void client_close(struct rig *r, struct client *k);

/* Takes what the target has, after is_stalled. */
void client_resume(struct rig *r, struct client *k);

/* A PDU with its data. data_bytes of p counts; data may be NULL for zeros. */
void client_send(struct rig *r, struct client *k, const struct iscsi_pdu *p, const void *data);
void client_bytes(struct rig *r, struct client *k, const void *bytes, size_t length);

/* The next PDU of the target. REQUIREs one of this opcode. data: until the next call. */
struct iscsi_pdu client_expect(struct client *k, uint8_t opcode);
bool client_has(const struct client *k);
const uint8_t *client_data(void);

/* Texts are pairs with a space after each. */
struct iscsi_pdu client_login_text(struct rig *r, struct client *k, const char *pairs);
/* Logs in at RIG_TARGET with these keys, beside the names; REQUIREs success. */
struct client *client_login(struct rig *r, const char *keys);

/* Commands: CmdSN and ITT are counted. */
struct iscsi_pdu client_command(struct client *k, const uint8_t *cdb, uint32_t expected);
struct iscsi_pdu client_read(struct client *k, uint32_t lba, uint32_t blocks);
struct iscsi_pdu client_write(struct client *k, uint32_t lba, uint32_t blocks);
struct iscsi_pdu client_data_out(const struct iscsi_pdu *command, uint32_t ttt, uint32_t data_sn,
				 uint32_t offset, uint32_t length);
/* One that needs no data; takes the unit attention of a new session first. */
void client_ready(struct rig *r, struct client *k);

/* REQUIREs a SCSI Response with this status to this command. */
struct iscsi_pdu client_status(struct client *k, const struct iscsi_pdu *command, uint8_t status);
/* Sense key, code and qualifier of the last response: 0xkkccqq. */
uint32_t client_sense(void);
void client_reject(struct client *k, enum iscsi_reject_reason why);
