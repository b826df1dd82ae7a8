/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directed remote I/O: an owner says who may use which device; an I/O unit has the devices and
 * moves data straight between them and the memory of a requester. The data never comes near the
 * owner. docs/rio.md tells the whole; docs/config.md how the roles are set up by files.
 *
 * The conventions of weft.h hold, and:
 *  - A role is a process of the cluster with a platform identifier (7.1) and a key. It talks only
 *    to those whose platform, role and public key it was told when it was opened.
 *  - Connections are made and made again by the library, in the background, for as long as the role
 *    is open.
 */
#pragma once

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which unit of the cluster, and which process in it. Unit 0 names no unit. */
struct weft_rio_platform {
	uint32_t unit, process;
};

enum weft_rio_role {
	WEFT_RIO_REQUESTER = 1,
	WEFT_RIO_OWNER,
	WEFT_RIO_IOUNIT,
};

enum {
	WEFT_RIO_KEY_BYTES = 32,
	WEFT_RIO_NAME_MAX = 64,
	WEFT_RIO_TEXT_MAX = 200,
	WEFT_RIO_WHY_MAX = 400
};

/* A peer: a process of another role. */
struct weft_rio_peer {
	struct weft_rio_platform platform;
	enum weft_rio_role role;
	uint8_t key[WEFT_RIO_KEY_BYTES];  /* public */
	struct weft_address address;	  /* an owner's for requesters, an I/O unit's for owners */
	char name[WEFT_RIO_NAME_MAX + 1]; /* for people; may be empty */
	uint64_t reserved[4];		  /* zero */
};

/* The caller's identity, and its peers. All of it is copied. */
struct weft_rio_self {
	struct weft_rio_platform platform;
	uint8_t seed[WEFT_RIO_KEY_BYTES]; /* secret: the key pair is made of it */
	/*
	 * Where connections are taken: control connections by owner and I/O unit, data connections
	 * by a requester. Zero: any address, and a port that is free.
	 */
	struct weft_address listen;
	const struct weft_rio_peer *peers;
	uint32_t peer_count;
	/*
	 * Asked for the address of a peer, by its index, each time before it is dialled. False: it
	 * is not known at present. NULL: the addresses above are where they are.
	 */
	bool (*find)(void *context, uint32_t peer, struct weft_address *address);
	void *context;	  /* given to it */
	uint64_t spin_ns; /* looks for what comes for so long before it sleeps; default 0 */
	/*
	 * A peer that answers nothing for so long is taken for gone: see alive_ns of
	 * struct weft_connect_options. Default 10 s; at least 1 s.
	 */
	uint64_t alive_ns;
	uint64_t reserved[8]; /* zero */
};

/* The public key of a seed. */
void weft_rio_public_key(const uint8_t seed[WEFT_RIO_KEY_BYTES], uint8_t key[WEFT_RIO_KEY_BYTES]);

/* ---- Requester ------------------------------------------------------------------------------ */

struct weft_rio_requester;

struct weft_rio_requester_options {
	uint32_t requests_max; /* under way at a time; default 64, at most 4096 */
	uint32_t sges_max;     /* of all of them together; default 4096, at most 65536 */
	uint64_t timeout_ns;   /* of requests that name none; default 30 s */
	/*
	 * Of addresses in the lists that it sends: 8, or 4 for shorter lists; then a request can
	 * name only memory below 4 GiB (WEFT_R_SGL_WRAP). Default 8.
	 */
	uint32_t address_bytes;
	/* Of a page frame, for information: a power of two, 4096 to 1 GiB. Default 4096. */
	uint32_t page_bytes;
	uint64_t reserved[7]; /* zero */
};

/* Opens it and begins to connect to the one owner among the peers. */
enum weft_reason weft_rio_requester_open(const struct weft_rio_self *self,
					 const struct weft_rio_requester_options *options,
					 struct weft_rio_requester **requester);

/*
 * Requests under way end, and are not told any more. No other thread may be in a call. Waits until
 * the owner has heard of those that ended, a tenth of a second at most.
 */
void weft_rio_requester_close(struct weft_rio_requester *requester);

/* Where data connections are taken, with the port that was found. */
void weft_rio_requester_address(struct weft_rio_requester *requester, struct weft_address *address);

struct weft_rio_device {
	/*
	 * By which requests name it. When its I/O unit comes back with other devices than it had,
	 * or other instances of them, those have other numbers: what is asked for by the former
	 * ends with WEFT_R_RIO_DEVICE.
	 */
	uint32_t number;
	uint32_t block_bytes;
	uint64_t size_bytes;
	bool is_readonly, can_flush, can_fua, can_discard, can_write_zeroes;
	struct weft_rio_platform iounit;
	uint64_t instance; /* of its opening; another one: see WEFT_RIO_FLUSH */
	char name[WEFT_RIO_NAME_MAX + 1];
	uint64_t loss; /* the last one of writes of this requester: see struct weft_rio_result */
	uint64_t reserved[4]; /* zero */
};

/*
 * The nth device that the owner lets this requester use at present, from 0. WEFT_R_RIO_DEVICE:
 * there are not so many.
 */
enum weft_reason weft_rio_device_get(struct weft_rio_requester *requester, uint32_t nth,
				     struct weft_rio_device *device);

/*
 * Waits for a device of this name, or, if that is empty, for any. WEFT_R_RIO_DEVICE: it did not
 * come; else the reason why the owner could not be reached.
 */
enum weft_reason weft_rio_device_find(struct weft_rio_requester *requester, const char *name,
				      uint64_t timeout_ns, struct weft_rio_device *device);

/*
 * Memory that requests may name parts of. Only the I/O unit that carries out a request can reach
 * it: the part that the request names, while the request is under way.
 */
enum weft_reason weft_rio_memory_add(struct weft_rio_requester *requester, void *memory,
				     uint64_t length, uint32_t *tag);
enum weft_reason weft_rio_memory_remove(struct weft_rio_requester *requester, uint32_t tag);

enum weft_rio_operation {
	WEFT_RIO_READ = 1, /* from the device into memory */
	WEFT_RIO_WRITE,	   /* from memory to the device */
	/*
	 * What was written before becomes durable. WEFT_R_RIO_WRITES_LOST, once: writes of this
	 * requester that were acknowledged and not flushed may be lost, as the I/O unit lost power,
	 * or its device was memory. The request has failed: it was done or not done. Flushes of the
	 * device that were under way when the first of them said so fail with the same reason. If a
	 * requester has several users, see loss of struct weft_rio_result.
	 */
	WEFT_RIO_FLUSH,
	WEFT_RIO_WRITE_ZEROES, /* needs no memory */
	WEFT_RIO_DISCARD       /* the device may forget what is there */
};

/* A fragment of memory. */
struct weft_rio_sge {
	void *memory;
	uint32_t length;
	uint32_t tag; /* of weft_rio_memory_add() */
	/*
	 * Unit 0: own. That of the I/O unit which has the device: the unit's own memory; tag is 0,
	 * and memory the number of the byte in it, from 0. Else whose it is: memory is its address
	 * there, tag the handle of its exposure.
	 */
	struct weft_rio_platform platform;
};

/*
 * Exposes a part of own memory to the requesters that the owner lets name it (struct
 * weft_rio_share): to be written, else to be read. It is reached by this handle and its address, by
 * I/O units that the owner has announced, until weft_rio_memory_conceal(). They connect while a
 * thread is in weft_rio_request_wait() or another call that waits.
 */
enum weft_reason weft_rio_memory_expose(struct weft_rio_requester *requester,
					const struct weft_rio_sge *part, bool is_written,
					uint32_t *handle);
enum weft_reason weft_rio_memory_conceal(struct weft_rio_requester *requester, uint32_t handle);

struct weft_rio_transaction {
	enum weft_rio_operation operation;
	bool is_fua; /* of what writes: durable when it has ended */
	uint32_t device;
	uint64_t offset, length; /* bytes, multiples of the block size; a flush has neither */
	const struct weft_rio_sge *sges; /* of read and write: length bytes in all */
	uint32_t sge_count;
	/*
	 * Of a write, instead of sges: length bytes, which are copied and travel in the request
	 * itself. For little data, as no memory has to be exposed; 256 KiB are too many.
	 */
	const void *data;
	/* How many of the sges each buffer has, in order; NULL: all of them are one buffer. */
	const uint32_t *buffers;
	uint64_t buffer_count;
	uint64_t reserved[1]; /* zero */
};

/* Transactions are carried out one after the other; their devices are of one I/O unit. */
struct weft_rio_request {
	const struct weft_rio_transaction *transactions;
	uint32_t transaction_count;
	uint64_t timeout_ns;  /* 0: the requester's */
	void *context;	      /* given back when it has ended */
	uint64_t reserved[4]; /* zero */
};

struct weft_rio_result {
	void *context;
	enum weft_reason reason; /* WEFT_OK: all of it was done */
	uint32_t transaction;	 /* the one that failed, from 0 */
	uint64_t done_bytes;
	char text[WEFT_RIO_TEXT_MAX + 1]; /* what the peer that refused it says, if anything */
	/*
	 * The requester numbers the losses of its acknowledged writes, from 1. This is the last
	 * loss of the devices that the request flushed, as of its end; of WEFT_OK and
	 * WEFT_R_RIO_WRITES_LOST.
	 *
	 * WEFT_R_RIO_WRITES_LOST comes once for a requester. Each of several users of one requester
	 * remembers the last loss of the device that it knows of, at first that of struct
	 * weft_rio_device, as it was before the flush was asked for. A flush that went well and
	 * has a later one is to be taken for WEFT_R_RIO_WRITES_LOST: another user was told.
	 */
	uint64_t loss;
	uint64_t reserved[4]; /* zero */
};

/*
 * Asks. WEFT_OK: it ends exactly once, whatever happens to the others, and weft_rio_request_wait()
 * has it; so does a flush that is told of a loss at once. The memory must stay until then; no peer
 * can reach it from then on. WEFT_R_BUSY: so many are under way.
 */
enum weft_reason weft_rio_request_submit(struct weft_rio_requester *requester,
					 const struct weft_rio_request *request);

/* Takes up to max requests that have ended; waits up to timeout_ns for the first. */
enum weft_reason weft_rio_request_wait(struct weft_rio_requester *requester, uint64_t timeout_ns,
				       struct weft_rio_result *ended, uint32_t max,
				       uint32_t *count);

/*
 * Asks and waits; any number of threads may. Returns the reason that it ended with, or why it was
 * not asked; ended, which may be NULL, has it too.
 */
enum weft_reason weft_rio_request_do(struct weft_rio_requester *requester,
				     const struct weft_rio_request *request,
				     struct weft_rio_result *ended);

/* What moved between this requester and I/O units: by the adapter's counters. */
struct weft_rio_traffic {
	uint64_t payload_in, payload_out; /* of data connections */
	uint64_t control_in, control_out; /* of control connections: messages and lists */
	uint64_t connections;		  /* data connections that were made */
	uint64_t reserved[4];		  /* zero */
};

void weft_rio_requester_traffic(struct weft_rio_requester *requester,
				struct weft_rio_traffic *moved);

enum weft_rio_kind {
	WEFT_RIO_IS_REQUESTER = WEFT_RIO_REQUESTER,
	WEFT_RIO_IS_OWNER = WEFT_RIO_OWNER,
	WEFT_RIO_IS_IOUNIT = WEFT_RIO_IOUNIT,
	WEFT_RIO_IS_DEVICE,
};

/* A role or a device, as the owner sees it. */
struct weft_rio_member {
	enum weft_rio_kind kind;
	bool is_here;			   /* connected */
	struct weft_rio_platform platform; /* of a device: of the I/O unit that has it */
	char name[WEFT_RIO_NAME_MAX + 1];  /* as the owner calls it; may be empty */
	uint32_t now;			   /* requests under way */
	/* Of requesters and I/O units, since they connected. */
	uint64_t requests, refused, failed;
	uint64_t read_bytes, written_bytes;
	struct weft_rio_traffic moved; /* of the owner: what its adapter carried */
	struct weft_rio_device device; /* of a device */
	uint64_t reserved[8];	       /* zero */
};

/*
 * How the cluster stands: the owner, then the roles that are connected, after each I/O unit its
 * devices, then the roles that are not. Waits up to timeout_ns for the owner. Takes up to max
 * entries; count is how many there are in all. They come in parts, so an entry that changes its
 * place meanwhile may be there twice or not at all. WEFT_R_RIO_DENIED: the owner does not let this
 * requester watch. WEFT_R_RIO_TIMEOUT: it did not answer.
 */
enum weft_reason weft_rio_requester_inquire(struct weft_rio_requester *requester,
					    uint64_t timeout_ns, struct weft_rio_member *seen,
					    uint32_t max, uint32_t *count);

/* ---- I/O unit ------------------------------------------------------------------------------- */

struct weft_rio_iounit;

struct weft_rio_store {
	uint32_t number;      /* 1 to 65535, of one's choice */
	const char *name;     /* UTF-8, without control characters */
	const char *text;     /* "mem:1G", "file:/dev/sdb,direct": docs/store.md */
	uint64_t reserved[4]; /* zero */
};

/* Of an owner: of two with one identity the one with the higher number counts. */
struct weft_rio_term {
	uint64_t number;
	uint64_t incarnation; /* random: decides between two that have the same number */
};

struct weft_rio_iounit_options {
	const struct weft_rio_store *stores;
	uint32_t store_count;
	uint32_t commands_max; /* under way at a time; default 256 */
	uint32_t pieces_max;   /* buffers; default 64 */
	uint32_t piece_bytes;  /* of each; default 256 KiB, and not less */
	uint64_t timeout_ns;   /* of commands that name none; default 60 s */
	/* Told of what a person may want to know, in one line. May be NULL. */
	void (*tell)(void *context, const char *line);
	void *context;
	/*
	 * Owners of a lower term are refused; zeroes: of none, before the first has come. keep is
	 * told of each higher one before its owner is served. A program that stores the latest
	 * term, and passes it when it opens the I/O unit again, keeps former owners away across
	 * restarts. keep may be NULL.
	 */
	struct weft_rio_term term;
	void (*keep)(void *context, const struct weft_rio_term *term);
	/*
	 * Memory of its own, for requesters that the owner lets name it (struct weft_rio_share):
	 * see struct weft_rio_sge. Zero at first, and shared by them. Default 0.
	 */
	uint64_t memory_bytes;
	/*
	 * The data connections that it makes are spread over so many adapters; each requester has
	 * one connection, however many there are. Default 1, at most 8.
	 */
	uint64_t adapters;
	uint64_t reserved[6]; /* zero */
};

/* why (may be NULL): a sentence about the device that could not be opened. */
enum weft_reason weft_rio_iounit_open(const struct weft_rio_self *self,
				      const struct weft_rio_iounit_options *options,
				      struct weft_rio_iounit **iounit, char why[WEFT_RIO_WHY_MAX]);

/* Serves until weft_rio_iounit_stop(), which any thread or signal handler may call. */
enum weft_reason weft_rio_iounit_run(struct weft_rio_iounit *iounit);
void weft_rio_iounit_stop(struct weft_rio_iounit *iounit);

/*
 * If a member of a mirror does not answer within the mirror's wait, a thread of the library closes
 * the device later, and so outlives the call. The library is linked to stay loaded, also after
 * dlclose(); a program that links it into a library of its own must see to that itself.
 */
void weft_rio_iounit_close(struct weft_rio_iounit *iounit);

void weft_rio_iounit_address(struct weft_rio_iounit *iounit, struct weft_address *address);
void weft_rio_iounit_traffic(struct weft_rio_iounit *iounit, struct weft_rio_traffic *moved);

/* ---- Owner ---------------------------------------------------------------------------------- */

struct weft_rio_owner;

/* What a requester may do. What no rule allows is denied. */
struct weft_rio_rule {
	struct weft_rio_platform requester; /* unit 0: every requester */
	const char *device;		    /* its name, not empty; NULL: any */
	struct weft_rio_platform iounit;    /* whose device; unit 0: any */
	uint32_t operations;		    /* 1 << enum weft_rio_operation for each */
	uint64_t first, length;		    /* bytes of the device; length 0: to its end */
	uint64_t reserved[4];		    /* zero */
};

/* A requester may name the memory of another platform in its lists. */
struct weft_rio_share {
	struct weft_rio_platform requester, platform;
};

struct weft_rio_owner_options {
	const struct weft_rio_rule *rules;
	uint32_t rule_count;
	const struct weft_rio_share *shares;
	uint32_t share_count;
	/* Requesters that may call weft_rio_requester_inquire(). Unit 0: all of them. */
	const struct weft_rio_platform *watchers;
	uint32_t watcher_count;
	uint32_t requesters_max; /* at a time; default 16, at most 32 */
	uint32_t requests_max;	 /* of one requester at a time; default 64 */
	uint64_t timeout_ns;	 /* of requests that name none; default 30 s */
	/* Told of every decision, in one line, before it takes effect. May be NULL. */
	void (*note)(void *context, const char *line);
	/*
	 * Called when a log should be written out: at once, but for what is allowed or goes well
	 * within some milliseconds. May be NULL.
	 */
	void (*noted)(void *context);
	void *context;
	/*
	 * Higher than that of every owner with this identity which began before: I/O units and
	 * requesters refuse lower ones. Default: the time of day, in ns.
	 */
	uint64_t term;
	uint64_t reserved[8]; /* zero */
};

enum weft_reason weft_rio_owner_open(const struct weft_rio_self *self,
				     const struct weft_rio_owner_options *options,
				     struct weft_rio_owner **owner);
/*
 * Serves until weft_rio_owner_stop(). WEFT_R_RIO_SUPERSEDED: an I/O unit knows an owner with the
 * same identity and a higher term.
 */
enum weft_reason weft_rio_owner_run(struct weft_rio_owner *owner);

/* Its term; after WEFT_R_RIO_SUPERSEDED the other owner's, above which the next must begin. */
uint64_t weft_rio_owner_term(struct weft_rio_owner *owner);
void weft_rio_owner_stop(struct weft_rio_owner *owner);
void weft_rio_owner_close(struct weft_rio_owner *owner);
void weft_rio_owner_address(struct weft_rio_owner *owner, struct weft_address *address);
void weft_rio_owner_traffic(struct weft_rio_owner *owner, struct weft_rio_traffic *moved);

#ifdef __cplusplus
}
#endif
