/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/roce.h>

#include "cmd/clock.h"
#include "cmd/perf/perf_end.h"

/* Half a second without an answer (timeout 14 is 67 ms, seven times again), as perftest has it. */
enum { TIMEOUT_CODE = 14, RETRIES = 7, RNR_TIMER_CODE = 1, READS_MAX = 16 };

static uint32_t some_psn(void)
{
	return (uint32_t)(clock_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* The address that the host would send from. */
static enum weft_reason source_of(const struct weft_address *to, struct weft_address *from)
{
	struct sockaddr_storage at = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
	bool is_v6 = to->family == 6, is_known;
	socklen_t length = is_v6 ? sizeof(*v6) : sizeof(*v4);
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return WEFT_R_SYSTEM;
	at.ss_family = is_v6 ? AF_INET6 : AF_INET;
	v4->sin_port = htons(to->port); /* the same place in both */
	memcpy(is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr, to->ip, is_v6 ? 16 : 4);
	is_known = connect(fd, (const struct sockaddr *)&at, length) == 0 &&
		   getsockname(fd, (struct sockaddr *)&at, &length) == 0;
	close(fd);
	*from = (struct weft_address){ .family = to->family };
	memcpy(from->ip, is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr,
	       is_v6 ? 16 : 4);
	return is_known ? WEFT_OK : WEFT_R_ADDRESS;
}

static struct weft_cm_id_offer offer_of(const struct perf_end *e, uint32_t psn,
					uint8_t bytes[WEFT_ADVERT_BYTES])
{
	perf_end_advert(e, bytes);
	return (struct weft_cm_id_offer){
		.qp_number = weft_qp_number(e->qp),
		.psn = psn,
		.reads_in = READS_MAX,
		.reads_out = READS_MAX,
		.retries = RETRIES,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.timeout_code = TIMEOUT_CODE,
		.private_data = bytes,
		.private_bytes = WEFT_ADVERT_BYTES,
	};
}

static struct weft_roce_attr roce_of(const struct weft_cm_id_news *news, uint32_t psn)
{
	return (struct weft_roce_attr){
		.path = news->path,
		.peer_number = news->qp_number,
		.psn_recv = psn,
		.psn_send = news->psn,
		.reads_in = READS_MAX,
		.reads_out = READS_MAX,
		.timeout_code = TIMEOUT_CODE,
		.retries = RETRIES,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.rnr_timer_code = RNR_TIMER_CODE,
	};
}

/* Waits for what the contact tells next, which must be this. */
static enum weft_reason await_news(struct perf_end *e, enum weft_cm_id_kind kind,
				   struct weft_cm_id_news *news)
{
	struct weft_event event;
	bool has_event;
	enum weft_reason r = weft_cm_id_next(e->cm_id, news);

	while (r == WEFT_OK && news->kind == WEFT_CM_NONE) {
		r = weft_event_next(e->adapter, UINT64_MAX, &event, &has_event);
		if (r == WEFT_OK)
			r = weft_cm_id_next(e->cm_id, news);
	}
	if (r == WEFT_OK && news->kind != kind)
		r = news->reason != WEFT_OK ? news->reason : WEFT_R_PEER_GONE;
	return r;
}

static enum weft_reason learn(struct perf_end *e, const struct weft_cm_id_news *news)
{
	e->remote = news->path.to;
	e->has_crc = true;
	/* The message's room is filled up with zeros. */
	return news->private_bytes < WEFT_ADVERT_BYTES
		       ? WEFT_R_BAD_ARGUMENT
		       : perf_end_take_advert(e, news->private_data, WEFT_ADVERT_BYTES);
}

enum weft_reason perf_roce_dial(struct perf_end *e, const struct weft_address *to,
				const struct perf_how *how)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_cm_id_options o = {
		.path = { .to = *to, .mtu_bytes = how->mtu_bytes },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	uint32_t psn = some_psn();
	struct weft_cm_id_offer offer = offer_of(e, psn, bytes);
	struct weft_cm_id_news news;
	struct weft_roce_attr roce;
	enum weft_reason r = source_of(to, &o.path.from);

	if (r == WEFT_OK)
		r = perf_end_ready(e);
	if (r == WEFT_OK)
		r = weft_cm_id_open(e->adapter, &o, &offer, &e->cm_id);
	if (r == WEFT_OK)
		r = await_news(e, WEFT_CM_REPLY, &news);
	if (r == WEFT_OK)
		r = learn(e, &news);
	if (r != WEFT_OK)
		return r;
	roce = roce_of(&news, psn);
	roce.path.mtu_bytes = how->mtu_bytes; /* an answer does not repeat it */
	r = weft_qp_to_rtr(e->qp, &roce);
	if (r == WEFT_OK)
		r = weft_cm_id_bind(e->cm_id, e->qp);
	if (r == WEFT_OK)
		r = weft_qp_to_rts(e->qp, &roce);
	return r == WEFT_OK ? weft_cm_id_ready(e->cm_id) : r;
}

enum weft_reason perf_roce_listen(struct perf_end *e, const struct weft_address *at,
				  struct weft_cm_service **service)
{
	const struct weft_cm_service_options o = { .at = *at, .port_space = WEFT_PORT_SPACE_TCP };

	return weft_cm_service_open(e->adapter, &o, service);
}

enum weft_reason perf_roce_take(struct perf_end *e, const struct perf_door *door)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	uint32_t psn = some_psn();
	struct weft_cm_id_offer offer = offer_of(e, psn, bytes);
	struct weft_cm_id_news news;
	struct weft_event event;
	struct weft_roce_attr roce;
	bool has_event;
	enum weft_reason r = perf_end_ready(e);

	while (r == WEFT_OK && !e->cm_id) {
		r = weft_cm_service_next(door->service, NULL, &e->cm_id);
		if (r == WEFT_OK && !e->cm_id)
			r = weft_event_next(e->adapter, UINT64_MAX, &event, &has_event);
	}
	if (r == WEFT_OK)
		r = await_news(e, WEFT_CM_REQUEST, &news);
	if (r == WEFT_OK)
		r = learn(e, &news);
	if (r != WEFT_OK)
		return r;
	roce = roce_of(&news, psn);
	r = weft_qp_to_rtr(e->qp, &roce);
	if (r == WEFT_OK)
		r = weft_cm_id_bind(e->cm_id, e->qp);
	if (r == WEFT_OK)
		r = weft_cm_id_accept(e->cm_id, &offer);
	if (r == WEFT_OK)
		r = await_news(e, WEFT_CM_ESTABLISHED, &news);
	return r == WEFT_OK ? weft_qp_to_rts(e->qp, &roce) : r;
}
