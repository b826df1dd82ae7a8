/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair in iSCSI mode on TCP of this host, as a program has it, and two targets: weft's own,
 * in a thread, with a disk in memory; and a script of PDUs that the test plays, which may lie.
 */
#pragma once

#include <pthread.h>

#include <weft/iscsi_qp.h>

#include "live/verbs_fixture.h"
#include "wire/iscsi.h"

enum {
	DATA_BYTES = 512 * 1024, /* of a consumer's memory; receives are behind them */
	PDU_BYTES = 9 * 1024,	 /* of a receive: header, and a data segment of 8 KiB */
	RECEIVES = 64,
	BLOCK_BYTES = 512
};

/* ---- The consumer --------------------------------------------------------------------------- */

struct consumer {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *sent, *received;
	struct weft_qp *qp;
	uint8_t *memory;
	uint32_t tag;		      /* of all of it */
	uint32_t receives;	      /* ever posted */
	bool is_beside, is_in_domain; /* the adapter, and the domain, are another's */
	uint32_t cmd_sn;
	uint64_t id;
};

struct consumer_options {
	const struct weft_adapter_options *adapter;
	enum weft_failure on_failure;
	bool is_privileged;
	uint32_t outstanding_max;
	struct weft_adapter *beside;   /* opened already, and closed by its owner */
	const struct consumer *domain; /* whose domain it shares, with an adapter beside */
};

/* NULL: defaults. Its receives are posted. */
void consumer_open(struct consumer *c, const struct consumer_options *o);
void consumer_close(struct consumer *c);

/* Posts all receives: of a queue pair that has none. */
void consumer_receives(struct consumer *c);

/* Another queue pair of its domain, with receives of the consumer's memory. */
struct weft_qp *consumer_qp(struct consumer *c, const struct consumer_options *o);

/* Connects to a target, and waits until that is done. */
void consumer_connect(struct consumer *c, const struct weft_address *at);

/* The next event of this kind: its reason. */
enum weft_reason consumer_await(struct consumer *c, enum weft_event_kind kind);

/* Logs in by one exchange, with further keys (a text of KEY=VALUE, each with its zero). */
void consumer_login(struct consumer *c, const char *keys, size_t bytes,
		    const struct weft_iscsi_terms *terms);

/* Its halves. */
void consumer_login_begin(struct consumer *c, const char *keys, size_t bytes);
void consumer_login_end(struct consumer *c, const struct weft_iscsi_terms *terms);

struct weft_sge consumer_sge(const struct consumer *c, size_t offset, uint32_t length);

/* A SCSI Command: READ(10) or WRITE(10) of blocks; with other CDBs, by its bytes. */
enum way { WAY_NONE, WAY_IN, WAY_OUT };
struct iscsi_pdu read_pdu(struct consumer *c, uint32_t lba, uint32_t blocks);
struct iscsi_pdu write_pdu(struct consumer *c, uint32_t lba, uint32_t blocks);
struct weft_iscsi_pdu wr_pdu(const struct iscsi_pdu *p);

/* Posts a command with one element at this offset of memory; its Command ID. */
uint32_t consumer_command(struct consumer *c, const struct iscsi_pdu *p, size_t offset);
enum weft_reason consumer_try(struct consumer *c, const struct iscsi_pdu *p, size_t offset,
			      uint32_t *command_id);
enum weft_reason consumer_control(struct consumer *c, const struct iscsi_pdu *p, const void *data);

/* The next receive, with its PDU; its memory is posted again at the call after that. */
struct arrival {
	struct weft_completion completion;
	struct iscsi_pdu pdu;
	const uint8_t *data; /* the data segment, if it is in the receive */
};

struct arrival consumer_next(struct consumer *c);

/* The next receive must be of this kind, and reason. */
struct arrival expect_arrival(struct consumer *c, enum weft_opcode opcode, enum weft_reason reason);

/* The next request must have ended so. */
void expect_sent_well(struct consumer *c);
void expect_no_arrival(struct consumer *c);

struct weft_iscsi_attr consumer_query(const struct consumer *c);
uint64_t consumer_entries(const struct consumer *c);

/* ---- A target by script --------------------------------------------------------------------- */

struct script {
	int listener, fd; /* fd -1: none */
	struct weft_address at;
	uint32_t stat_sn;
	struct weft_iscsi_terms terms, after_login;
	bool is_header_bad, is_data_bad; /* the digest of the next PDU */
};

/* With a port that refuses connections until there is a listen(); listening. */
void script_bind(struct script *s);
void script_open(struct script *s);
void script_close(struct script *s);
void script_accept(struct script *s);

/* Closes the connection; in order, or by a reset. */
void script_hang_up(struct script *s, bool is_reset);

/* Answers consumer_login() well, which was taken. */
void script_login_response(struct script *s);

/* Reads until the connection has ended. */
void script_drain(struct script *s);

/* Consumer and script are connected. The consumer has logged in; or has not. */
void script_connect(struct script *s, struct consumer *c);
void script_connect_raw(struct script *s, struct consumer *c);

void script_bytes(struct script *s, const void *bytes, size_t length);
void script_pdu(struct script *s, const struct iscsi_pdu *p, const void *data);
void script_data_in(struct script *s, uint32_t itt, uint32_t offset, const void *data,
		    uint32_t length);
void script_r2t(struct script *s, uint32_t itt, uint32_t offset, uint32_t length);
void script_response(struct script *s, uint32_t itt);

struct said {
	struct iscsi_pdu pdu;
	uint8_t header[ISCSI_HEADER_MAX];
	uint8_t data[DATA_BYTES];
};

/* The next PDU of the adapter must be of this opcode. */
const struct said *script_take(struct script *s, enum iscsi_opcode opcode);

/* A consumer, a script, and a connection of theirs, logged in. */
struct pair {
	struct consumer c;
	struct script s;
};

void pair_open(struct pair *p, const struct consumer_options *o,
	       const struct weft_iscsi_terms *terms);
void pair_close(struct pair *p);

/* Posts a read or write of memory from this offset on, which the script takes: its task tag. */
uint32_t pair_read(struct pair *p, size_t offset, uint32_t blocks, uint32_t *command_id);
uint32_t pair_write(struct pair *p, size_t offset, uint32_t blocks, uint32_t *command_id);

/* The script ends it well, and the consumer hears of that. */
void pair_finish(struct pair *p, uint32_t itt);

/* A pattern of the test, for what is sent. */
extern uint8_t pattern[DATA_BYTES];
void fill_pattern(uint32_t seed);

/* Reads and ends a command: the connection works as ever. */
void expect_goes_on(struct pair *p);

/* The adapter has closed its direction, and no byte is left. False: by a reset. */
bool script_ended(struct script *s);

/* ---- weft's own target ---------------------------------------------------------------------- */

struct disk {
	struct iscsi_server *server;
	struct iscsi_host *host;
	pthread_t thread;
	struct weft_address at;
	char folder[64];
};

/* A disk of 4 MiB; with further lines in its configuration. */
void disk_open(struct disk *d, const char *lines);
void disk_close(struct disk *d);
