/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand transport on UDP (RoCEv2): queue pairs of a weft adapter that talk to those of
 * other processes, of other hosts, of the Linux kernel's rxe and of hardware. The conventions are
 * those of <weft/weft.h>.
 *
 * Two queue pairs are connected by telling each of the other: weft_qp_to_rtr(), weft_qp_to_rts().
 * How the two ends learn what to tell is their own affair, or that of cm_ids, below. Those of
 * datagrams are told of none; what RD needs besides is an end-to-end context for each other node.
 */
#pragma once

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Address handles ------------------------------------------------------------------------ */

/*
 * How packets go from one address to another: through an IP network or, with LIDs, through a
 * fabric, where addresses (GIDs, family 6) may be missing: family 0 in both.
 */
struct weft_path {
	struct weft_address from, to; /* from.port 0: one that stands for the flow label */
	uint32_t mtu_bytes;	      /* of payload; 0: as the queue pair's port has it */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;	   /* 20 bits */
	uint64_t service_level;	   /* with LIDs: 0 to 15 */
	uint32_t from_lid, to_lid; /* 0: none */
	uint64_t reserved[2];	   /* zero */
};

/*
 * A path for datagrams of queue pairs of the same domain. Destroyed while requests that name it
 * wait to be sent, it fails those (WEFT_R_PEER_UNKNOWN).
 */
enum weft_reason weft_ah_create(struct weft_pd *pd, const struct weft_path *path,
				struct weft_ah **ah);
enum weft_reason weft_ah_destroy(struct weft_ah *ah);

/* ---- Queue pairs ---------------------------------------------------------------------------- */

/*
 * Takes the adapter to the network as a RoCE port, if it is not there yet: UDP port 4791, which all
 * adapters of a host share. Queue pairs that are made before this have numbers that no packet
 * finds: the calls below refuse them (WEFT_R_QP_SLOT).
 */
enum weft_reason weft_roce_open(struct weft_adapter *adapter);

enum { WEFT_RNR_RETRY_FOREVER = 7, WEFT_PSN_MAX = 0xffffff };

/*
 * In a fabric a connection of RC or UC may have an alternate path (automatic path migration, IBA
 * 17.2.8). Both ends load theirs and go to REARM; as soon as each knows that the other is there it
 * is ARMED. When retries by the path are spent, or the consumer of an ARMED end asks for
 * WEFT_MIGRATED, it takes the alternate path, the peer follows, and both get
 * WEFT_EVENT_PATH_MIGRATED. The path that was left is the alternate one then: until it is mended,
 * and both go to REARM again, the connection has none.
 *
 * A peer that takes a path which is not the alternate one here is refused, and this end gets
 * WEFT_EVENT_PATH_REFUSED (WEFT_R_PATH_ALTERNATE).
 */
enum weft_migration {
	WEFT_MIGRATED = 0, /* stays on its path */
	WEFT_REARM,	   /* would migrate, and waits until the peer would */
	WEFT_ARMED	   /* migrates when need be; never asked for */
};

struct weft_alternate {
	struct weft_path path; /* mtu_bytes is that of the connection */
	uint16_t p_key;	       /* 0: the default one */
	uint8_t timeout_code;
	uint64_t reserved[2]; /* zero */
};

/* What two queue pairs have agreed on, and what this end wants. Codes are those of IBA. */
struct weft_roce_attr {
	/*
	 * To receive. UD: path and peer_number are of no use, but for path.mtu_bytes. RD: only
	 * rnr_timer_code, q_key, rdd and reads_out count, in both calls: the rest is the contexts'.
	 */
	struct weft_path path;
	uint32_t peer_number;
	uint32_t psn_recv;	/* of the peer's first packet */
	uint8_t reads_in;	/* of the peer that are served at a time; 0: none */
	uint8_t rnr_timer_code; /* told to a peer that finds no receive */
	uint16_t p_key;		/* 0: the default one */
	uint32_t q_key;		/* UD, RD: of what is taken */
	uint32_t rdd;		/* RD: the domain of the contexts that it goes with */
	/* To send. */
	uint32_t psn_send;
	uint8_t reads_out;    /* of ours in flight; 0: none */
	uint8_t timeout_code; /* 4.096 us * 2^code; 0: wait for ever */
	uint8_t retries;      /* 0 to 7 */
	uint8_t rnr_retries;  /* 0 to 7, of which the last is for ever */
	uint64_t rate_bps;    /* at most; 0: as fast as the network takes it */
	/* Of weft_qp_modify_roce() only. */
	const struct weft_alternate *alternate;
	enum weft_migration migration; /* WEFT_REARM, or WEFT_MIGRATED */
	uint64_t reserved[6];	       /* zero */
};

/* From RESET or INIT to RTR: what peers send is served. */
enum weft_reason weft_qp_to_rtr(struct weft_qp *qp, const struct weft_roce_attr *roce);

/* From RTR to RTS: requests are sent. Of the struct only the second half counts. */
enum weft_reason weft_qp_to_rts(struct weft_qp *qp, const struct weft_roce_attr *roce);

enum weft_roce_field {
	/* At any time. */
	WEFT_ROCE_RNR_TIMER = 1 << 0,
	WEFT_ROCE_Q_KEY = 1 << 1,
	WEFT_ROCE_RATE = 1 << 2,
	/* In SQD, drained. */
	WEFT_ROCE_PATH = 1 << 3, /* but for its mtu_bytes */
	WEFT_ROCE_P_KEY = 1 << 4,
	WEFT_ROCE_TIMEOUT = 1 << 5,
	WEFT_ROCE_RETRIES = 1 << 6,
	WEFT_ROCE_RNR_RETRIES = 1 << 7,
	WEFT_ROCE_READS_OUT = 1 << 8,
	WEFT_ROCE_READS_IN = 1 << 9,
	/* At any time; an alternate path that is loaded takes ARMED to REARM. */
	WEFT_ROCE_ALTERNATE = 1 << 10,
	WEFT_ROCE_MIGRATION = 1 << 11
};

/* Changes the fields of the mask: all of them or, if one is refused, none. */
enum weft_reason weft_qp_modify_roce(struct weft_qp *qp, const struct weft_roce_attr *roce,
				     uint32_t fields);

struct weft_qp_paths {
	struct weft_path path, alternate; /* alternate.to_lid 0: there is none */
	enum weft_migration migration;
	uint32_t migrations;  /* how often it has gone from one to the other */
	uint64_t reserved[4]; /* zero */
};

/* WEFT_R_QP_STATE: it has no connection. */
enum weft_reason weft_qp_query_paths(struct weft_qp *qp, struct weft_qp_paths *paths);

/*
 * UD: takes what is sent to a group (an address of IP multicast), as it comes to the interface that
 * has the local address; no longer.
 */
enum weft_reason weft_qp_join(struct weft_qp *qp, const struct weft_address *group,
			      const struct weft_address *local);
enum weft_reason weft_qp_leave(struct weft_qp *qp, const struct weft_address *group,
			       const struct weft_address *local);

/* ---- Ports of a fabric ---------------------------------------------------------------------- */

enum weft_port_news {
	WEFT_PORT_INACTIVE = 1, /* it carries no packets any more */
	WEFT_PORT_ACTIVE = 2,	/* it does, after it did not: if both are set, this came last */
	WEFT_PORT_LID = 4,
	WEFT_PORT_SM = 8, /* another subnet manager */
	WEFT_PORT_P_KEYS = 16,
	WEFT_PORT_GIDS = 32,
	WEFT_PORT_REREGISTER = 64 /* memberships of groups, and services, are to be told anew */
};

/*
 * From now on changes of the ports that the adapter has in a fabric are events WEFT_EVENT_PORT,
 * with this context. It opens the port, as weft_roce_open(). By UDP there are none.
 */
enum weft_reason weft_port_watch(struct weft_adapter *adapter, void *context);

/* ---- Raw datagrams -------------------------------------------------------------------------- */

/*
 * Whole IPv6 frames that software makes and reads, for a network stack or a tunnel of one's own.
 * They come from and go to the host's network by a TUN interface, to which the host routes what
 * queue pairs are to get; its MTU may be up to WEFT_RAW_MAX. This opens it, or makes it: with
 * CAP_NET_ADMIN in the network namespace; without, it must have been made for this user
 * (ip tuntap add NAME mode tun user USER). The adapter keeps it until it is closed, and has one:
 * WEFT_R_BUSY. When the interface is deleted, frames are lost until one is opened anew.
 *
 * At a node of a fabric the adapter is a bridge from then on: packets of the host that are for no
 * queue pair of it go to the port whose GID they are for, and those of the fabric to the host. The
 * raw packets of its port are its own (WEFT_R_ADDRESS_IN_USE: another adapter has them) until the
 * adapter is closed, even when the interface is gone; a call that fails takes none.
 */
enum weft_reason weft_raw_open(struct weft_adapter *adapter, const char *interface);

enum { WEFT_RAW_MAX = 4096 };

/* Frames of an upper protocol to an address, or to any but those that others have asked for. */
struct weft_raw_options {
	uint8_t next_header;	/* of the IPv6 header itself */
	struct weft_address to; /* family 6; 0: any */
	uint64_t reserved[4];	/* zero */
};

/*
 * A queue pair of UD that receives (weft_qp_to_rtr()) becomes a raw one for as long as it lives:
 * such frames take a receive each, whole, and what it sends are frames as they stand, without an
 * address handle. A frame that finds no receive, or one that is too short, is dropped.
 * WEFT_R_ADDRESS_IN_USE: another queue pair of the adapter has asked for just these.
 *
 * In a fabric frames come from the port itself, without an interface, to one adapter of the port
 * (WEFT_R_ADDRESS_IN_USE: another one has them) until it is closed, and those that are sent need an
 * address handle, which has the LID.
 */
enum weft_reason weft_qp_to_raw(struct weft_qp *qp, const struct weft_raw_options *raw);

/* ---- End-to-end contexts -------------------------------------------------------------------- */

/*
 * What two adapters share for all reliable datagrams between them, however many queue pairs of RD
 * use it: sequence numbers, acknowledgements, times. One at each end, which are told of each other;
 * then a request of any queue pair of RD here reaches any one there, by the context
 * (weft_send_wr.ee), the queue pair's number (dest_qp_number) and its Q_Key (remote_q_key).
 *
 * Messages go one at a time, and the queue pairs take turns: more contexts between the same two
 * adapters carry more at a time. A request that the other end refuses takes its queue pair to SQE
 * (weft_qp_modify() takes it back), and the context goes on. When the other end does not answer the
 * context fails: what waits for it ends with WEFT_ERR_PEER_GONE, and so does what names it later.
 */
struct weft_ee_options {
	struct weft_path path; /* mtu_bytes must be 256, 512, 1024, 2048 or 4096 */
	uint16_t p_key;	       /* 0: the default one */
	uint32_t rdd;	       /* queue pairs of this domain may use it, and no others */
	uint32_t psn_send;     /* of the first packet */
	uint8_t timeout_code, retries, rnr_retries; /* as in struct weft_roce_attr */
	void *context;				    /* returned in WEFT_EVENT_EE_FAILED */
	uint64_t reserved[4];			    /* zero */
};

/* Makes one, and opens the port as weft_roce_open(). Requests that name it wait until connected. */
enum weft_reason weft_ee_create(struct weft_adapter *adapter, const struct weft_ee_options *options,
				struct weft_ee **ee);
uint32_t weft_ee_number(const struct weft_ee *ee);

/* The number of the one at the other end, and the psn_send it has: once. */
enum weft_reason weft_ee_connect(struct weft_ee *ee, uint32_t peer_number, uint32_t psn_recv);

struct weft_ee_attr {
	uint32_t number;
	uint32_t peer_number; /* 0: it is not connected yet */
	uint32_t rdd;
	enum weft_reason reason; /* why it failed; WEFT_OK: it has not */
	struct weft_address to;	 /* the other node */
	uint64_t reserved[1];	 /* zero */
};

enum weft_reason weft_ee_query(struct weft_ee *ee, struct weft_ee_attr *attr);

/* What waits for it ends (WEFT_ERR_PEER_GONE). The other end is not told, and hears no more. */
enum weft_reason weft_ee_destroy(struct weft_ee *ee);

/* What the port has seen since it was opened. */
struct weft_roce_counts {
	uint64_t messages_in, messages_out; /* once each, however often they were sent */
	uint64_t packets_in, packets_out;
	uint64_t bytes_in, bytes_out; /* of UDP, or what they would be */
	uint64_t payload_in, payload_out;
	uint64_t dropped; /* of packets_in; why the latest was: dropped_for */
	uint64_t resent;  /* of packets_out */
	uint64_t naks_in, naks_out, rnrs_in, rnrs_out, duplicates, timeouts;
	uint64_t marks_in, notices_in, notices_out; /* congestion: ECN marks, CNPs */
	uint64_t handed_in, handed_out;		    /* between the adapters of this host */
	uint64_t sent_away; /* connections of other users, refused: they could hand packets over */
	uint64_t calls_in, calls_out, calls_empty;
	uint64_t overruns; /* packets that came while a socket was full, and were lost */
	uint64_t refused;  /* packets that the host did not send; why the latest was: refused_for */
	enum weft_reason dropped_for, refused_for;
	/*
	 * Payload of Sends and Writes that was sent and is not acknowledged: now, at one time, and
	 * bytes times nanoseconds, up to its last change. Another implementation would keep it
	 * pinned; what is pinned here weft_space_query() tells (SEND-S4).
	 */
	uint64_t kept_bytes, kept_bytes_max, kept_byte_ns;
	/* Packets by memory that is shared with adapters of this host; lost: the peer has gone. */
	uint64_t near_in, near_out, near_lost;
	/* Writes and Reads without packets: of peers to this process's memory, and to theirs. */
	uint64_t direct;
	uint64_t reserved[1]; /* zero */
};

/* WEFT_R_ROCE_CLOSED before weft_roce_open(). */
enum weft_reason weft_roce_query(struct weft_adapter *adapter, struct weft_roce_counts *counts);

/* Of those packets that were dropped: how many for this reason. */
enum weft_reason weft_roce_dropped(struct weft_adapter *adapter, enum weft_reason reason,
				   uint64_t *count);

/* ---- The connection manager of InfiniBand ---------------------------------------------------- */

/*
 * A cm_id is one exchange between two connection managers, about the connection of two queue pairs
 * or, with is_datagram, about the queue pair behind a service. Queue pairs are named by number and
 * are not touched: its owner calls weft_qp_to_rtr() and weft_qp_to_rts() with what was agreed.
 *
 *	active:   open, WEFT_CM_REPLY, (queue pair to RTS), ready
 *	passive:  WEFT_CM_REQUEST at a service, (queue pair to RTR), accept,
 *		  WEFT_CM_ESTABLISHED
 *	both:     disconnect, WEFT_CM_DISCONNECTED
 */
struct weft_cm_id;
struct weft_cm_service;

enum { WEFT_CM_PRIVATE_MAX = 196 };

/* Of the RDMA connection manager, as in a service id. */
enum weft_port_space {
	WEFT_PORT_SPACE_TCP = 0x0106,
	WEFT_PORT_SPACE_UDP = 0x0111,
	WEFT_PORT_SPACE_IB = 0x013f
};

/* What an end says of itself. */
struct weft_cm_id_offer {
	uint32_t qp_number, psn; /* from which the other end shall number (IBA 12.7.31) */
	uint32_t q_key;		 /* is_datagram, passive */
	uint8_t reads_in, reads_out;
	uint8_t retries, rnr_retries, timeout_code;
	bool is_uc; /* active: the queue pairs are of that service, not RC */
	bool has_srq, has_flow_control;
	const void *private_data;
	uint32_t private_bytes;
	uint64_t reserved[4]; /* zero */
};

struct weft_cm_id_options {
	struct weft_path path; /* ports are those of the RDMA connection manager */
	bool is_datagram;
	enum weft_port_space port_space;
	/* A service that is not there is asked for again, until this has passed. */
	uint64_t refused_wait_ns;
	void *context;	      /* returned in events */
	uint64_t reserved[4]; /* zero */
};

enum weft_cm_id_kind {
	WEFT_CM_NONE = 0,
	WEFT_CM_REQUEST,     /* passive: to be accepted or rejected */
	WEFT_CM_REPLY,	     /* active: the other end has accepted; or the answer to a datagram's */
	WEFT_CM_ESTABLISHED, /* passive: the other end is ready */
	WEFT_CM_REJECTED,    /* with the code that the other end gave */
	WEFT_CM_FAILED,	     /* no answer came, or one that made no sense */
	WEFT_CM_DISCONNECTED,
	WEFT_CM_RELEASED, /* some time after that: no stray packet of it can come any more */
	WEFT_CM_NEWS_COUNT
};

/* What has happened, and what the other end said. */
struct weft_cm_id_news {
	enum weft_cm_id_kind kind;
	enum weft_reason reason;
	uint16_t code; /* REJECTED: IBA's; of a datagram's answer its status */
	struct weft_path path;
	uint32_t qp_number, psn, q_key;
	uint8_t reads_in, reads_out, retries, rnr_retries, timeout_code;
	bool has_srq;
	bool is_uc; /* REQUEST: the other end's queue pair is of that service, not RC */
	uint8_t private_data[WEFT_CM_PRIVATE_MAX];
	uint32_t private_bytes;
	uint64_t reserved[8]; /* zero */
};

/* Opens a cm_id to the service at path.to. */
enum weft_reason weft_cm_id_open(struct weft_adapter *adapter,
				 const struct weft_cm_id_options *options,
				 const struct weft_cm_id_offer *offer, struct weft_cm_id **cm_id);

/* WEFT_EVENT_CM tells that there is some. Takes the oldest; kind NONE: there is none. */
enum weft_reason weft_cm_id_next(struct weft_cm_id *cm_id, struct weft_cm_id_news *news);

enum weft_reason weft_cm_id_accept(struct weft_cm_id *cm_id, const struct weft_cm_id_offer *offer);
enum weft_reason weft_cm_id_reject(struct weft_cm_id *cm_id, uint16_t code,
				   const void *private_data, uint32_t private_bytes);
enum weft_reason weft_cm_id_ready(struct weft_cm_id *cm_id);

/* The queue pair has heard of the other end (WEFT_EVENT_ESTABLISHED): as if it had said ready. */
enum weft_reason weft_cm_id_established(struct weft_cm_id *cm_id);
enum weft_reason weft_cm_id_disconnect(struct weft_cm_id *cm_id);

/*
 * From now on they end together: when the queue pair, in RTR or further, leaves its connection the
 * other end is told, and when the other end has left the queue pair fails (WEFT_R_PEER_GONE).
 */
enum weft_reason weft_cm_id_bind(struct weft_cm_id *cm_id, struct weft_qp *qp);

/* Forgets it. What is not ended yet is: rejected, or disconnected. */
enum weft_reason weft_cm_id_close(struct weft_cm_id *cm_id);

/* Other than it was opened with, for the events to come. */
enum weft_reason weft_cm_id_set_context(struct weft_cm_id *cm_id, void *context);

struct weft_cm_service_options {
	/* Port 0: one that is free. Family 0: every address; 0.0.0.0 or ::, those of a family. */
	struct weft_address at;
	bool is_datagram;
	enum weft_port_space port_space;
	uint32_t requests_max; /* unanswered; default 128 */
	void *context;
	uint64_t reserved[4]; /* zero */
};

/*
 * Serves requests. A port is one adapter's on a host, which may serve it at several addresses.
 * WEFT_EVENT_REQUEST tells that a request has come.
 */
enum weft_reason weft_cm_service_open(struct weft_adapter *adapter,
				      const struct weft_cm_service_options *options,
				      struct weft_cm_service **service);
enum weft_reason weft_cm_service_address(struct weft_cm_service *service, struct weft_address *at);

/* Takes the next request; NULL if there is none. Its news is a WEFT_CM_REQUEST. */
enum weft_reason weft_cm_service_next(struct weft_cm_service *service, void *context,
				      struct weft_cm_id **cm_id);
enum weft_reason weft_cm_service_close(struct weft_cm_service *service);

#ifdef __cplusplus
}
#endif
