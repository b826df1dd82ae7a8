/* SPDX-License-Identifier: BSD-2-Clause */
/* A session of an initiator whose port and target are the test. Time is virtual. */
#pragma once

#include "iscsi/initiator/initiator.h"
#include "wire/iscsi_sn.h"

#define BENCH_SECOND 1000000000ULL

enum { BENCH_DEPTH = 8, BENCH_REQUESTS = 24, BENCH_LOG = 256, BENCH_TAG = 0x1000 };

/* A PDU that the session sent. */
struct bench_pdu {
	struct iscsi_pdu pdu;
	uint8_t data[512];
	uint32_t data_bytes;
	uint32_t slot; /* of a command */
};

struct bench {
	struct iscsi_initiator_config config; /* changed before bench_open() */
	struct iscsi_initiator *i;
	uint64_t now_ns;
	struct bench_pdu log[BENCH_LOG]; /* since bench_clear() */
	uint32_t count;
	struct iscsi_params agreed;
	int agreements, closes, forgets;
	bool is_full;	 /* the port has no room */
	bool is_tagless; /* it knows no ITTs of commands yet */
	bool cannot_forget;
	bool is_open[BENCH_DEPTH]; /* by slot: the port has the command */
	struct iscsi_port_calls calls;
	/* The target's numbers, for bench_give(). */
	uint32_t stat_sn, exp_cmd_sn, max_cmd_sn;
	struct iscsi_event event;
	char address[ISCSI_ADDRESS_MAX + 1];
};

/* Logs in with recovery of 3 attempts and 3 retries, Time2Wait of 2 seconds. */
void bench_init(struct bench *b);
void bench_open(struct bench *b);
/* Ends the session at once; the second one destroys it as well. */
void bench_end(struct bench *b);
void bench_close(struct bench *b);

/* Takes events until one of this kind. False: there is none. */
bool bench_event(struct bench *b, enum iscsi_event_kind kind);

/* On ISCSI_EVENT_CONNECT: a connection stands. Then the login is answered. */
void bench_connect(struct bench *b);
void bench_login(struct bench *b);

/* bench_init(), bench_open(), bench_connect() and bench_login(). */
void bench_start(struct bench *b);

void bench_clear(struct bench *b);

/* The last PDU that was sent with this opcode; NULL: none since bench_clear(). */
const struct bench_pdu *bench_sent(const struct bench *b, uint8_t opcode);
uint32_t bench_count(const struct bench *b, uint8_t opcode);

/* A PDU of the target with these fields; numbers are set by the fixture's. slot < 0: of none. */
void bench_give(struct bench *b, const struct iscsi_pdu *p, int slot, const void *data,
		uint32_t data_bytes);
/* The same with the numbers as they are in *p. */
void bench_give_raw(struct bench *b, const struct iscsi_pdu *p, int slot, const void *data,
		    uint32_t data_bytes);

/* A SCSI Response with this status. */
void bench_answer(struct bench *b, uint32_t slot, uint8_t status);
void bench_task_answer(struct bench *b, uint32_t itt, uint8_t response);

/* The connection is gone, for this reason. */
void bench_lose(struct bench *b, enum weft_reason reason);

/* Time passes, to the next deadlines and beyond. */
void bench_pass(struct bench *b, uint64_t ns);

/* A command in progress: READ (10), WRITE (10) or another, of 512 bytes. */
void bench_command(struct iscsi_request *r, uint8_t opcode);
void bench_submit(struct bench *b, struct iscsi_request *r);

/* Loses the connection, waits, and logs in again. */
void bench_again(struct bench *b);
