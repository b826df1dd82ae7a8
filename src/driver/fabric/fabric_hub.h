/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapters of a fabric, in the process that runs it: connections of fabric_attach.h, their
 * rings, and which adapter of a port a frame is for. The fabric itself is behind three calls.
 *
 * An adapter is not trusted: it can post frames of its node's LIDs only, and none of subnet
 * management; what it writes ends at most its own connection. One that does not read holds back the
 * frames of its port, as an adapter without credit would; but one that takes less than half of its
 * ring in 200 ms, as its process is stopped, loses what comes until half of it is empty, so that
 * others have the port. One that has died holds back none, and what it had put still goes; where as
 * many of its port as there are slots wait so, it is lost.
 *
 *	fabric_hub_fd() is ready: fabric_hub_hear()
 *	then, and while the last run was not the end: fabric_hub_run()
 *	a frame came for the owner of a port: fabric_hub_deliver()
 *	fabric_ready() told a port: fabric_hub_room(), and deliver what is there
 *	fabric_hub_ready() tells a port: frames that were refused have room now, or are lost
 *	fabric_hub_due() has passed: fabric_hub_expire()
 *	a port has changed: fabric_hub_changed()
 */
#pragma once

#include "driver/fabric/attach_message.h"

struct fabric_hub;
struct epoll_event;

/* Of frames that cross the fabric at once. */
struct fabric_hub_way {
	uint32_t node, port; /* in: where they enter; out: where they come out */
	uint32_t bytes_max;
	uint8_t lane; /* on which they come */
};

struct fabric_hub_config {
	uint32_t nodes;
	/*
	 * Whether a frame of data with these headers would come out at once, as would those with
	 * the same local route header and P_Key that come next. Then they are handed to adapters
	 * there, and never posted. NULL: none does.
	 */
	bool (*cross)(void *owner, const uint8_t *headers, uint32_t length,
		      struct fabric_hub_way *way);
	/* So many did, by the way that was asked for last. */
	void (*crossed)(void *owner, uint64_t frames, uint64_t words, uint64_t flits);
	/* Where a frame may be that is posted, so that it is not copied again. NULL: nowhere. */
	uint8_t *(*room)(void *owner);
	/* A frame enters at a port; false: no room now. */
	bool (*post)(void *owner, uint32_t node, uint32_t port, const uint8_t *bytes,
		     uint32_t length);
	/* A port was given no frame that it may send (see refused below). NULL: of no interest. */
	void (*refused)(void *owner, uint32_t node, uint32_t port);
	/* One that came to a port is lost, as its adapter stands still. NULL: of no interest. */
	void (*untaken)(void *owner, uint32_t node, uint32_t port);
	/* What a port is like. False: there is no such port. */
	bool (*tell)(void *owner, uint32_t node, uint32_t port, struct attach_state *state);
	/* The node of a name, and the first of its ports that has a cable; or why not. */
	enum weft_reason (*find)(void *owner, const char *name, uint32_t *node, uint32_t *port);
	void *owner;
};

/* Listens for adapters of a fabric. WEFT_R_ADDRESS_IN_USE: there is one of that name. */
enum weft_reason fabric_hub_open(const struct fabric_hub_config *config, const char *fabric,
				 struct fabric_hub **hub);
void fabric_hub_close(struct fabric_hub *h);

/*
 * An epoll, ready when an adapter has said something, or the descriptor handed over is readable:
 * the caller sleeps there, as adapters are what wakes it most.
 */
int fabric_hub_fd(const struct fabric_hub *h);
enum weft_reason fabric_hub_watch(struct fabric_hub *h, int fd);

/*
 * Of what epoll_wait() says there: reads connections; what is left of them leaves them ready. True:
 * the descriptor that was handed over is readable.
 */
bool fabric_hub_hear(struct fabric_hub *h, const struct epoll_event *events, int count);

/* Reads rings. True: something moved, or there may be more: call it again before waiting. */
bool fabric_hub_run(struct fabric_hub *h);

/*
 * From the next run on, it is called again without waiting: adapters need not wake it (SYS-06).
 * With false they do again, and that run may find something.
 */
void fabric_hub_stay_awake(struct fabric_hub *h, bool is_awake);

enum fabric_hub_result {
	FABRIC_HUB_TAKEN,   /* it is in the ring of its adapter, or there is none for it */
	FABRIC_HUB_NO_ROOM, /* offer it again when fabric_hub_ready() has told the port */
	FABRIC_HUB_OTHER    /* it is a management datagram of no adapter */
};

/* A frame that came at a port. */
enum fabric_hub_result fabric_hub_deliver(struct fabric_hub *h, uint32_t node, uint32_t port,
					  const uint8_t *bytes, uint32_t length);

/* Wakes those that have got frames. */
void fabric_hub_flush(struct fabric_hub *h);

/* The next port whose adapters have room for what was refused. */
bool fabric_hub_ready(struct fabric_hub *h, uint32_t *node, uint32_t *port);

/*
 * When an adapter without room is looked at again, by the clock of driver/sys/clock.h; UINT64_MAX:
 * never. Those that stand still lose what comes.
 */
uint64_t fabric_hub_due(const struct fabric_hub *h);
void fabric_hub_expire(struct fabric_hub *h, uint64_t now_ns);

/* A port takes frames again that it has refused. */
void fabric_hub_room(struct fabric_hub *h, uint32_t node, uint32_t port);

/* news: enum attach_news. */
void fabric_hub_changed(struct fabric_hub *h, uint32_t node, uint32_t port, uint32_t news);

struct fabric_hub_counts {
	uint64_t adapters;		/* now */
	uint64_t frames_in, frames_out; /* from and to adapters */
	uint64_t crossed;		/* of frames_in: at once */
	uint64_t held;	  /* times that a frame waited, as an adapter had no room for it */
	uint64_t refused; /* of frames_in: spoofed, malformed, or the port is not Active */
	uint64_t lost;	  /* no adapter had the queue pair */
	uint64_t untaken; /* lost, as their adapter stood still */
	uint64_t broken;  /* adapters whose ring or messages made no sense */
};

const struct fabric_hub_counts *fabric_hub_counts(const struct fabric_hub *h);
