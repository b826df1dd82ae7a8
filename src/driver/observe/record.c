/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures: which streams and packets of which adapters go to which file. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver/observe/observe.h"
#include "driver/sys/address.h"
#include "driver/sys/clock.h"
#include "driver/sys/guard.h"
#include "ib/ib.h"
#include "wire/iba_icrc.h"

enum { PIECE_BYTES = 16384 };

struct recording {
	/* Guarded by the process's lock. */
	struct list link; /* of the process */
	uint32_t users;
	bool is_kept;
	/* Guarded by its own lock. */
	pthread_mutex_t lock;
	struct capture *capture;
	struct list records; /* of streams captured in this file */
	uint64_t flushed_ns;
	char path[]; /* the path as given */
};

/* Guarded by the process's lock. */
static struct list recordings = { &recordings, &recordings };

static const uint64_t flush_every_ns = 500 * 1000 * 1000;

/* ---- Files ---------------------------------------------------------------------------------- */

static struct recording *recording_find(const char *path)
{
	for (struct list *at = recordings.next; at != &recordings; at = at->next) {
		struct recording *r = CONTAINER_OF(at, struct recording, link);

		if (strcmp(r->path, path) == 0)
			return r;
	}
	return NULL;
}

static int recording_create(const char *path, struct recording **made)
{
	size_t length = strlen(path) + 1;
	struct recording *r = calloc(1, sizeof(*r) + length);
	int err;

	if (!r)
		return -ENOMEM;
	err = capture_open(path, &r->capture);
	if (err < 0) {
		free(r);
		return err;
	}
	/* The file is a valid capture even if nothing ever happens. */
	capture_flush(r->capture);
	pthread_mutex_init(&r->lock, NULL);
	list_init(&r->link);
	list_init(&r->records);
	memcpy(r->path, path, length);
	*made = r;
	return 0;
}

int recording_get(const char *path, bool is_kept, struct recording **r)
{
	int err = 0;

	observe_lock();
	*r = recording_find(path);
	if (!*r) {
		err = recording_create(path, r);
		if (err == 0)
			list_add_tail(&recordings, &(*r)->link);
	}
	if (err == 0) {
		(*r)->users++;
		(*r)->is_kept |= is_kept;
	}
	observe_unlock();
	return err;
}

int recording_put(struct recording *r)
{
	bool is_over;
	int err;

	pthread_mutex_lock(&r->lock);
	capture_flush(r->capture);
	err = capture_error(r->capture);
	pthread_mutex_unlock(&r->lock);
	observe_lock();
	is_over = --r->users == 0 && !r->is_kept;
	if (is_over)
		list_remove(&r->link);
	observe_unlock();
	if (is_over) {
		capture_close(r->capture);
		pthread_mutex_destroy(&r->lock);
		free(r);
	}
	return err;
}

void recording_flush(struct recording *r, uint64_t now_ns)
{
	pthread_mutex_lock(&r->lock);
	if (now_ns - r->flushed_ns >= flush_every_ns) {
		capture_flush(r->capture);
		r->flushed_ns = now_ns;
	}
	pthread_mutex_unlock(&r->lock);
}

void recordings_flush(void)
{
	observe_lock();
	for (struct list *at = recordings.next; at != &recordings; at = at->next) {
		struct recording *r = CONTAINER_OF(at, struct recording, link);

		/*
		 * Do not block: the holder of the lock may be a thread that was stopped for good.
		 */
		if (pthread_mutex_trylock(&r->lock) == 0) {
			capture_flush(r->capture);
			pthread_mutex_unlock(&r->lock);
		}
	}
	observe_unlock();
}

void recordings_forget(void)
{
	list_init(&recordings);
}

/* ---- Streams -------------------------------------------------------------------------------- */

/* Whether the other end is captured in the same file: then the bytes would be there twice. */
static bool has_mirror(const struct recording *r, const struct record *record)
{
	for (const struct list *at = r->records.next; at != &r->records; at = at->next) {
		const struct record *other = CONTAINER_OF(at, const struct record, link);

		if (address_is_same_end(&other->local, &record->remote) &&
		    address_is_same_end(&other->remote, &record->local))
			return true;
	}
	return false;
}

static struct sockaddr_in6 end_of(const struct weft_address *a)
{
	struct sockaddr_in6 end = { .sin6_family = AF_INET6, .sin6_port = htons(a->port) };

	if (a->family == 6) {
		memcpy(&end.sin6_addr, a->ip, sizeof(a->ip));
	} else {
		memset(&end.sin6_addr.s6_addr[10], 0xff, 2);
		memcpy(&end.sin6_addr.s6_addr[12], a->ip, 4);
	}
	return end;
}

/*
 * The clock is read with the recording's lock held, so that adapters that share a file write in the
 * order of these times.
 */
void record_open(struct record *record, struct observed *of, bool is_initiator)
{
	struct recording *r = of->recording;
	struct sockaddr_in6 local = end_of(&record->local), remote = end_of(&record->remote);
	const struct capture_ends ends = {
		.local = (const struct sockaddr *)&local,
		.remote = (const struct sockaddr *)&remote,
		.is_initiator = is_initiator,
	};

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	if (!has_mirror(r, record)) {
		capture_stream_open(r->capture, &record->stream, &ends, clock_ns());
		list_init(&record->link);
		list_add_tail(&r->records, &record->link);
		record->of = of;
		record->recording = r;
	}
	pthread_mutex_unlock(&r->lock);
}

/* Copies memory that may be unmapped by now; unmapped bytes are captured as zeroes. */
static void put_by_copy(struct record *record, const struct span_list *l, size_t n,
			bool is_outgoing)
{
	uint64_t now_ns = clock_ns();
	uint8_t piece[PIECE_BYTES];
	struct iovec v = { piece, 0 };
	size_t at = 0; /* in the span */

	/* Bound: each iteration takes at least a byte, or passes a span. */
	for (uint32_t i = 0; n > 0;) {
		size_t k = l->spans[i].length - at, room = sizeof(piece) - v.iov_len;

		k = k < n ? k : n;
		k = k < room ? k : room;
		if (!fault_guard.copy(piece + v.iov_len, l->spans[i].bytes + at, k))
			memset(piece + v.iov_len, 0, k);
		v.iov_len += k;
		n -= k;
		at += k;
		if (at == l->spans[i].length) {
			at = 0;
			i++;
		}
		if (v.iov_len < sizeof(piece) && n > 0)
			continue;
		capture_stream_bytes(&record->stream,
				     &(struct capture_bytes){ .v = &v,
							      .length = v.iov_len,
							      .is_outgoing = is_outgoing },
				     now_ns);
		v.iov_len = 0;
	}
}

void record_bytes(struct record *record, const struct span_list *l, size_t n, bool is_outgoing)
{
	struct recording *r = record->recording;
	/* A span is an iovec, see socket.c. */
	const struct capture_bytes bytes = {
		.v = (const struct iovec *)(const void *)l->spans,
		.length = n,
		.is_outgoing = is_outgoing,
	};

	pthread_mutex_lock(&r->lock);
	if (l->may_go)
		put_by_copy(record, l, n, is_outgoing);
	else
		capture_stream_bytes(&record->stream, &bytes, clock_ns());
	pthread_mutex_unlock(&r->lock);
}

void record_end(struct record *record, bool is_outgoing, bool is_reset)
{
	struct recording *r = record->recording;

	pthread_mutex_lock(&r->lock);
	capture_stream_close(&record->stream, is_outgoing, is_reset, clock_ns());
	pthread_mutex_unlock(&r->lock);
}

/* Called with the recording's lock held. */
static void leave(struct record *record)
{
	list_remove(&record->link);
	record->recording = NULL;
}

void record_close(struct record *record, bool is_reset)
{
	struct recording *r = record->recording;

	record_end(record, true, is_reset);
	pthread_mutex_lock(&r->lock);
	leave(record);
	capture_flush(r->capture);
	pthread_mutex_unlock(&r->lock);
}

void record_leave_all(struct observed *of)
{
	struct recording *r = of->recording;
	struct list *at;

	pthread_mutex_lock(&r->lock);
	at = r->records.next;
	while (at != &r->records) {
		struct record *record = CONTAINER_OF(at, struct record, link);

		at = at->next;
		if (record->of == of)
			leave(record);
	}
	capture_flush(r->capture);
	pthread_mutex_unlock(&r->lock);
}

/* ---- Packets of RoCE ------------------------------------------------------------------------ */

/*
 * Sockets do not report the identification of an IPv4 packet, but a valid ICRC reveals it
 * (iba_icrc.h). With an invalid ICRC it is unknown, and captured as in packets of ours.
 */
static void see_ipv4_word(const struct ib_in *in, struct capture_datagram *d)
{
	const struct iba_icrc_ip ip = { .from = &in->from, .to = &in->to };
	uint32_t word;

	d->ipv4_fragment = IBA_IPV4_DF;
	d->ipv4_id = in->is_ipv4_word_known ? in->ipv4_id : 0;
	if (in->is_ipv6 || in->is_ipv4_word_known ||
	    !iba_icrc_find_word(&ip, in->bytes, in->length, &word))
		return;
	d->ipv4_id = (uint16_t)(word >> 16);
	d->ipv4_fragment = (uint16_t)word;
}

/* The ICRC that the packet would have on a network. */
static void icrc_of(const struct ib_in *in, uint8_t icrc[IBA_ICRC_BYTES])
{
	const struct iba_icrc_ip ip = { .is_ipv6 = in->is_ipv6,
					.from = &in->from,
					.to = &in->to,
					.ipv4_id = in->ipv4_id,
					.ipv4_fragment = IBA_IPV4_DF };
	uint32_t begin = iba_icrc_begin(&ip, (uint32_t)in->length);
	uint32_t differs = iba_icrc_differs(begin, in->bytes, in->length);

	for (int i = 0; i < IBA_ICRC_BYTES; i++)
		icrc[i] = in->bytes[in->length - IBA_ICRC_BYTES + (size_t)i] ^
			  (uint8_t)(differs >> 8 * i);
}

void record_packet_in(struct observed *o, const struct ib_in *in)
{
	struct recording *r = o->recording;
	bool is_given = in->has_no_icrc && in->length >= IBA_BTH_BYTES + IBA_ICRC_BYTES;
	uint8_t icrc[IBA_ICRC_BYTES];
	const struct iovec v[] = {
		{ (void *)(uintptr_t)in->bytes, in->length - (is_given ? sizeof(icrc) : 0) },
		{ icrc, is_given ? sizeof(icrc) : 0 },
	};
	struct capture_datagram d = {
		.v = v,
		.length = in->length,
		.is_ipv6 = in->is_ipv6,
		.from = in->from,
		.to = in->to,
		.traffic_class = in->traffic_class,
		.hop_limit = in->hop_limit,
	};

	/*
	 * Not a RoCE packet: UDP over IPv6 allows such a length, and so may a process that hands
	 * packets on.
	 */
	if (in->length > INET_UDP_PAYLOAD_MAX)
		return;
	if (is_given)
		icrc_of(in, icrc);
	see_ipv4_word(in, &d);
	pthread_mutex_lock(&r->lock);
	capture_datagram(r->capture, &d, clock_ns());
	pthread_mutex_unlock(&r->lock);
}

void record_packets_out(struct observed *o, const struct ib_out *outs, uint32_t count)
{
	struct recording *r = o->recording;
	uint64_t now_ns;

	pthread_mutex_lock(&r->lock);
	now_ns = clock_ns();
	for (uint32_t i = 0; i < count; i++) {
		const struct ib_path *path = outs[i].path;
		const struct capture_datagram d = {
			.v = (const struct iovec *)(const void *)outs[i].spans.spans,
			.length = outs[i].spans.length,
			.is_outgoing = true,
			.is_ipv6 = path->is_ipv6,
			.from = path->from,
			.to = path->to,
			.traffic_class = ib_out_traffic_class(&outs[i]),
			.hop_limit = ib_path_hop_limit(path),
			.ipv4_id = outs[i].ipv4_id,
			.ipv4_fragment = IBA_IPV4_DF,
		};

		capture_datagram(r->capture, &d, now_ns);
	}
	pthread_mutex_unlock(&r->lock);
}
