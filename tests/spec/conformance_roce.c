/* SPDX-License-Identifier: BSD-2-Clause */
/* The conformance suite over RoCE on real sockets of the loopback interface: RC and UC. */
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weft/roce.h>

#include "conformance.h"

enum { SETTLED_ROUNDS = 40 };

/* Packets that nobody answers for so long wait for a receive, or for an end that has gone. */
static const uint64_t still_ns = 3 * 1000 * 1000;

/*
 * Where nobody else has RoCE, if that can be had: what the kernel gives to one of the host's
 * processes is handed on by that one, when it comes to it.
 */
static void enter_own_network(void)
{
	static bool is_tried;
	struct ifreq lo = { .ifr_name = "lo" };
	int fd;

	if (is_tried)
		return;
	is_tried = true;
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	REQUIRE(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &lo) == 0);
	lo.ifr_flags |= IFF_UP;
	REQUIRE(ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	close(fd);
}

static void roce_open(struct pair *p)
{
	const struct weft_adapter_options options = {
		.tags_max = p->options.tags_max,
		.translations_max = p->options.translations_max,
		.policy = p->options.policy,
	};

	enter_own_network();
	for (int i = 0; i < 2; i++) {
		MUST(weft_adapter_open(&options, &p->ends[i].adapter));
		MUST(weft_roce_open(p->ends[i].adapter));
	}
}

static void forget_contacts(const struct pair *p, bool is_all);

static void roce_close(struct pair *p)
{
	forget_contacts(p, true);
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void roce_progress(struct pair *p)
{
	uint32_t count;

	for (int i = 0; i < 2; i++)
		MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
}

static uint64_t roce_now_ns(const struct pair *p)
{
	struct timespec ts;

	(void)p;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/*
 * Packets that both ends have sent and received, but for those of a sender that asks again and
 * again for a receive.
 */
static uint64_t packets(const struct pair *p)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		struct weft_roce_counts c;

		MUST(weft_roce_query(p->ends[i].adapter, &c));
		sum += c.packets_in - c.rnrs_in - c.rnrs_out;
		sum += c.packets_out - c.resent - c.rnrs_out;
	}
	return sum;
}

static void roce_settle(struct pair *p)
{
	uint64_t was = packets(p), since = roce_now_ns(p);

	for (int rounds = 0; rounds < SETTLED_ROUNDS || roce_now_ns(p) - since < still_ns;
	     rounds++) {
		roce_progress(p);
		if (packets(p) != was) {
			was = packets(p);
			since = roce_now_ns(p);
			rounds = 0;
		}
	}
}

/* What a contact has to tell next, and that it is this. */
static struct weft_contact_news news_of(struct end *e, struct weft_contact *c,
					enum weft_contact_kind kind)
{
	struct weft_contact_news news = { .kind = WEFT_CONTACT_NONE };
	uint64_t since = roce_now_ns(e->pair);

	for (;;) {
		MUST(weft_contact_next(c, &news));
		if (news.kind != WEFT_CONTACT_NONE)
			break;
		REQUIRE(pair_wait(e->pair, since));
	}
	REQUIRE(news.kind == kind);
	return news;
}

static struct weft_contact_offer offer_of(struct end *e, uint32_t psn)
{
	return (struct weft_contact_offer){
		.qp_number = weft_qp_number(e->qp),
		.psn = psn,
		.reads_in = 16,
		.reads_out = 16,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.timeout_code = 14,
		.is_uc = e->pair->options.service == WEFT_UC,
	};
}

/* The queue pair as the other end's news says it. */
static struct weft_roce roce_of(const struct weft_contact_news *news, uint32_t psn)
{
	return (struct weft_roce){
		.path = { .from = news->path.from, .to = news->path.to, .mtu_bytes = 1024 },
		.peer_number = news->qp_number,
		.psn_recv = news->psn,
		.psn_send = psn,
		.reads_in = 16,
		.reads_out = 16,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.rnr_timer_code = 10,
	};
}

enum { CONTACTS_MAX = 4096 };

/* They stay until their queue pair connects anew, or the adapter closes. */
static struct {
	const struct weft_adapter *adapter;
	const struct weft_qp *qp;
	struct weft_contact *contact;
} contacts[CONTACTS_MAX];
static uint32_t contact_count;

static void forget_contacts(const struct pair *p, bool is_all)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < contact_count; i++) {
		bool is_gone = false;

		for (int k = 0; k < 2; k++)
			is_gone |= contacts[i].adapter == p->ends[k].adapter &&
				   (is_all || contacts[i].qp == p->ends[k].qp);
		if (is_gone)
			MUST(weft_contact_close(contacts[i].contact));
		else
			contacts[kept++] = contacts[i];
	}
	contact_count = kept;
}

static void keep_contact(const struct end *e, struct weft_contact *c)
{
	REQUIRE(contact_count < CONTACTS_MAX);
	contacts[contact_count].adapter = e->adapter;
	contacts[contact_count].qp = e->qp;
	contacts[contact_count++].contact = c;
	/* What is not acknowledged is not missed either. */
	if (e->pair->options.service == WEFT_RC)
		MUST(weft_contact_bind(c, e->qp));
}

static void roce_connect(struct pair *p)
{
	struct end *a = &p->ends[0], *b = &p->ends[1];
	const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_contact_options how = {
		.path = { .from = loopback, .to = loopback, .mtu_bytes = 1024 },
		.port_space = WEFT_PORT_SPACE_TCP,
	};
	const struct weft_service_options at = { .at = loopback,
						 .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_contact_offer offers[2] = { offer_of(a, 0xfffff0), offer_of(b, 1000) };
	struct weft_service_point *service;
	struct weft_contact *active, *passive = NULL;
	struct weft_contact_news news;
	struct weft_roce r;

	forget_contacts(p, false);
	roce_settle(p);
	MUST(weft_service_open(b->adapter, &at, &service));
	MUST(weft_service_address(service, &how.path.to));
	MUST(weft_contact_open(a->adapter, &how, &offers[0], &active));
	while (!passive)
		MUST(weft_service_next(service, NULL, &passive));
	news = news_of(b, passive, WEFT_CONTACT_REQUEST);
	r = roce_of(&news, offers[1].psn);
	MUST(weft_qp_receive(b->qp, &r));
	keep_contact(b, passive);
	MUST(weft_contact_accept(passive, &offers[1]));
	news = news_of(a, active, WEFT_CONTACT_REPLY);
	r = roce_of(&news, offers[0].psn);
	MUST(weft_qp_receive(a->qp, &r));
	keep_contact(a, active);
	MUST(weft_qp_start(a->qp, &r));
	MUST(weft_contact_ready(active));
	news = news_of(b, passive, WEFT_CONTACT_ESTABLISHED);
	r.psn_send = offers[1].psn;
	MUST(weft_qp_start(b->qp, &r));
	MUST(weft_service_close(service));
}

const struct pair_maker pair_maker = {
	.name = "roce",
	.abilities = PAIR_REFUSAL_COMPLETES | PAIR_READ_SCATTERS | PAIR_ATOMICS |
		     PAIR_KNOWS_SENDER | PAIR_ACKNOWLEDGES | PAIR_SEND_IMM | PAIR_CHECKS_WHOLE |
		     PAIR_PIPELINES,
	.services = 1U << WEFT_RC | 1U << WEFT_UC,
	.open = roce_open,
	.close = roce_close,
	.connect = roce_connect,
	.progress = roce_progress,
	.settle = roce_settle,
	.now_ns = roce_now_ns,
};
