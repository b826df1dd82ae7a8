/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer with a plain socket on the loopback interface, and the weft side that it meets: an
 * adapter with a listener, and two queue pairs beside it whose connection must not be disturbed.
 */
#pragma once

#include <weft/weft.h>

#include "test.h"

enum {
	RAW_MS = 30000, /* how long anything may take before a test fails */
	SOON_MS = 60,	/* a time-out of set-up that is short */
	MEMORY_BYTES = 1 << 20,
	START_BYTES = 20
};

struct rig {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_listener *listener;
	struct weft_address at;
	uint8_t *memory;
	uint32_t tag;		    /* of all of it, with all rights */
	struct weft_qp *near, *far; /* the bystanders */
	struct weft_cq *near_cq;
	int descriptors; /* that were open before */
};

/* NULL: the listener's defaults. */
void rig_open(struct rig *r, const struct weft_listener_options *options);

/* The bystanders still talk; everything can be closed, and no descriptor is left. */
void rig_close(struct rig *r);
void expect_undisturbed(struct rig *r);

struct weft_qp *rig_qp(struct rig *r);

/* Waits for the next request; NULL: none came in time. */
struct weft_request *rig_request(struct rig *r, uint64_t timeout_ms);

/* Waits for an event of this queue pair. False: none came. */
bool rig_event(struct rig *r, const struct weft_qp *qp, enum weft_event_kind kind,
	       enum weft_reason *reason);
void expect_event(struct rig *r, const struct weft_qp *qp, enum weft_event_kind kind,
		  enum weft_reason reason);

/* Why the queue pair is in Error; WEFT_OK: it is not. */
enum weft_reason error_of(struct weft_qp *qp);

uint64_t now_ms(void);

/* ---- The raw side --------------------------------------------------------------------------- */

/* Connected to the rig's listener. */
int raw_dial(const struct rig *r);

/* A socket that listens, with so much room for connections, and where. */
int raw_listen(int backlog, struct weft_address *at);
int raw_accept(int listener);
void raw_send(int fd, const void *bytes, size_t length);

/* All of these bytes. */
void raw_recv(int fd, void *bytes, size_t length);

/* Reads and forgets until the other end closes or resets; false: neither in time. */
bool raw_ends(int fd);

/* Closes with a reset. */
void raw_reset(int fd);

/* A start frame; flags and lengths as they are given. */
struct start {
	const char *kind; /* "Req" or "Rep" */
	uint8_t flags, revision;
	uint16_t private_bytes;
	uint16_t words[2]; /* of RFC 6581, with 0x10 in flags */
};

void raw_start(int fd, const struct start *s);

/* A good request of revision 2 without more to say; with one, the connection is accepted. */
void raw_request(int fd);
int raw_connect(struct rig *r, struct weft_qp *qp);

/* An FPDU with a good CRC. */
void raw_fpdu(int fd, const void *ulpdu, uint32_t length);
