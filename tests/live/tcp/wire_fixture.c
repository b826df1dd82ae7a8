/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/tcp/wire_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "own_network.h"

enum { TURN_MS = 20, IP_HEADER = 20, TCP_HEADER = 20 };

struct weft_address wire_address(int end)
{
	return (struct weft_address){ .family = 4, .ip = { 10, 77, 0, (uint8_t)(end + 1) } };
}

void wire_enter(const struct wire *w, int end)
{
	REQUIRE(setns(w->spaces[end], CLONE_NEWNET) == 0);
}

/* ---- Interfaces ----------------------------------------------------------------------------- */

static void set_address(struct ifreq *r, uint32_t address)
{
	const struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };

	memcpy(&r->ifr_addr, &at, sizeof(at));
}

/* Of the namespace that the thread is in; all of 10.77.0.0/24 is reached by it. */
static int tun_make(int end)
{
	struct ifreq r = { .ifr_name = "wire", .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	REQUIRE(fd >= 0 && s >= 0);
	REQUIRE(ioctl(fd, TUNSETIFF, &r) == 0);
	set_address(&r, 0x0a4d0001 + (uint32_t)end);
	REQUIRE(ioctl(s, SIOCSIFADDR, &r) == 0);
	set_address(&r, 0xffffff00);
	REQUIRE(ioctl(s, SIOCSIFNETMASK, &r) == 0);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	REQUIRE(ioctl(s, SIOCSIFFLAGS, &r) == 0);
	close(s);
	return fd;
}

/* ---- The thread ----------------------------------------------------------------------------- */

static bool falls(struct prng *prng, uint32_t chance, atomic_uint *count)
{
	if (prng_below(prng, 1000) >= chance)
		return false;
	atomic_fetch_add(count, 1);
	return true;
}

/* The kernel also sends what IPv6 wants to know of a new interface. */
static bool is_tcp(const struct wire_packet *p)
{
	return p->bytes >= IP_HEADER + TCP_HEADER && p->data[0] >> 4 == 4 &&
	       p->data[9] == IPPROTO_TCP;
}

static uint32_t payload_at(const struct wire_packet *p)
{
	return (uint32_t)(p->data[0] & 0xf) * 4 + (uint32_t)(p->data[IP_HEADER + 12] >> 4) * 4;
}

/* Two words of 16 bits that differ; the sum of all stays as it was. */
static void swap_words(struct wire *w, struct wire_packet *p)
{
	uint32_t from = atomic_load(&w->swap_at), at = payload_at(p);
	uint8_t *a, *b, was[2];

	if (from == 0 || p->bytes < at + from + 8)
		return;
	a = p->data + at + (from & ~1U);
	b = a + 4;
	if (memcmp(a, b, 2) == 0)
		return;
	memcpy(was, a, 2);
	memcpy(a, b, 2);
	memcpy(b, was, 2);
	atomic_store(&w->swap_at, 0);
}

static void put(const struct wire *w, int end, const struct wire_packet *p)
{
	(void)!write(w->fds[1 - end], p->data, p->bytes); /* else it is lost */
}

static void carry(struct wire *w, struct prng *prng, int end, struct wire_packet *p)
{
	struct wire_packet *late = &w->late[end];

	if (end == 0 && is_tcp(p)) {
		swap_words(w, p);
		if (w->is_recorded && w->record_count < w->record_max)
			w->record[w->record_count++] = *p;
	}
	if (falls(prng, w->faults.lose, &w->lost))
		return;
	if (falls(prng, w->faults.flip, &w->flipped))
		p->data[IP_HEADER + prng_below(prng, p->bytes - IP_HEADER)] ^=
			(uint8_t)(1 << prng_below(prng, 8));
	if (late->bytes == 0 && falls(prng, w->faults.hold, &w->held)) {
		*late = *p;
		return;
	}
	put(w, end, p);
	if (falls(prng, w->faults.repeat, &w->repeated))
		put(w, end, p);
	if (late->bytes > 0)
		put(w, end, late);
	late->bytes = 0;
}

static void *run(void *argument)
{
	struct pollfd wait[WIRE_ENDS];
	struct prng prng = { 15 };
	struct wire *w = argument;
	struct wire_packet p;

	for (int i = 0; i < WIRE_ENDS; i++)
		wait[i] = (struct pollfd){ .fd = w->fds[i], .events = POLLIN };
	while (!atomic_load(&w->is_done)) {
		if (poll(wait, WIRE_ENDS, TURN_MS) <= 0)
			continue;
		for (int i = 0; i < WIRE_ENDS; i++) {
			ssize_t n = read(w->fds[i], p.data, sizeof(p.data));

			if (n <= IP_HEADER)
				continue;
			p.bytes = (uint32_t)n;
			carry(w, &prng, i, &p);
		}
	}
	return NULL;
}

/* ---- Both ----------------------------------------------------------------------------------- */

static int space_here(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

const char *wire_open(struct wire *w, const struct wire_faults *faults, uint32_t record_max)
{
	const char *why_not = own_network_enter();

	if (!why_not && access("/dev/net/tun", R_OK | W_OK) != 0)
		why_not = "this host has no TUN interfaces";
	if (why_not)
		return why_not;
	memset(w, 0, sizeof(*w));
	w->faults = *faults;
	w->is_recorded = record_max > 0;
	w->record_max = record_max;
	w->record = calloc(record_max > 0 ? record_max : 1, sizeof(*w->record));
	REQUIRE(w->record);
	w->spaces[0] = space_here();
	w->fds[0] = tun_make(0);
	REQUIRE(unshare(CLONE_NEWNET) == 0);
	w->spaces[1] = space_here();
	w->fds[1] = tun_make(1);
	wire_enter(w, 0);
	REQUIRE(pthread_create(&w->thread, NULL, run, w) == 0);
	return NULL;
}

void wire_stop(struct wire *w)
{
	if (!atomic_exchange(&w->is_done, true))
		REQUIRE(pthread_join(w->thread, NULL) == 0);
}

void wire_close(struct wire *w)
{
	wire_stop(w);
	for (int i = 0; i < WIRE_ENDS; i++) {
		close(w->fds[i]);
		close(w->spaces[i]);
	}
	free(w->record);
}

void wire_connect(const struct wire *w, struct tcp_end *near, struct tcp_end *far)
{
	struct tcp_end *ends[WIRE_ENDS] = { near, far };

	for (int i = 0; i < WIRE_ENDS; i++) {
		const struct weft_address at = wire_address(i);

		wire_enter(w, i);
		MUST(weft_adapter_open(NULL, &ends[i]->adapter));
		node_open(ends[i]->adapter, &ends[i]->node, NULL);
		MUST(weft_listener_open(ends[i]->adapter, &at, NULL, &ends[i]->listener));
		MUST(weft_listener_address(ends[i]->listener, &ends[i]->at));
		node_be_patient(&ends[i]->node);
	}
	wire_enter(w, 0);
	tcp_ends_connect(near, far, NULL);
}
