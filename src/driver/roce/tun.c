/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/tun.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "driver/roce/roce_line.h"
#include "driver/sys/calls.h"
#include "driver/sys/system_reason.h"

enum { FRAMES_MAX = 64 }; /* then others have their turn */

struct tun {
	struct watch watch;
	struct roce *roce;
	uint8_t frame[IB_RAW_MAX + 1]; /* one byte more, to detect a long frame */
};

enum weft_reason tun_reason_of(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return WEFT_R_TUN_RIGHTS;
	case EBUSY:
	case EINVAL:
		return WEFT_R_TUN_NAME;
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return WEFT_R_TUN_NONE;
	case EMFILE:
	case ENFILE:
		return WEFT_R_DESCRIPTORS;
	default:
		return system_reason(error);
	}
}

static void take(struct tun *tun, size_t length)
{
	struct roce *r = tun->roce;

	if (r->fabric && !ib_port_wants_raw(r->port, tun->frame, length))
		roce_line_bridge(r, tun->frame, length);
	else
		(void)ib_port_recv_raw(r->port, tun->frame, length);
}

/* The core drops packets without a receiver; the host sends some by itself. */
static void on_readable(struct watch *w, uint32_t events)
{
	struct tun *tun = CONTAINER_OF(w, struct tun, watch);
	ssize_t n = 0;

	(void)events;
	for (int i = 0; i < FRAMES_MAX && n >= 0; i++) {
		n = call_read(w->fd, tun->frame, sizeof(tun->frame));
		if (n >= 0)
			take(tun, (size_t)n);
	}
	roce_line_flush(tun->roce);
	/* The interface is gone, and epoll would report it again and again. */
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		net_watch(tun->roce->net, w, 0);
		tun_abandon(tun);
	}
}

/* A descriptor of the interface, or a negative errno. */
static int descriptor_of(const char *interface)
{
	struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd, error;

	if (interface[0] == '\0' || strlen(interface) >= sizeof(r.ifr_name))
		return -EINVAL;
	strcpy(r.ifr_name, interface);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, TUNSETIFF, &r) < 0) {
		error = errno;
		call_close(fd);
		return -error;
	}
	return fd;
}

enum weft_reason tun_open(struct roce *roce, const char *interface, struct tun **opened)
{
	struct tun *tun = calloc(1, sizeof(*tun));

	if (!tun)
		return WEFT_R_NO_MEMORY;
	tun->roce = roce;
	tun->watch.ready = on_readable;
	tun->watch.fd = descriptor_of(interface);
	if (tun->watch.fd < 0) {
		enum weft_reason r = tun_reason_of(-tun->watch.fd);

		free(tun);
		return r;
	}
	net_watch(roce->net, &tun->watch, EPOLLIN);
	*opened = tun;
	return WEFT_OK;
}

void tun_close(struct tun *tun)
{
	net_watch(tun->roce->net, &tun->watch, 0);
	tun_abandon(tun);
	free(tun);
}

/* Asks the kernel: epoll may not have been asked since. */
bool tun_is_open(const struct tun *tun)
{
	struct ifreq r;

	return tun && tun->watch.fd >= 0 && ioctl(tun->watch.fd, TUNGETIFF, &r) == 0;
}

void tun_abandon(struct tun *tun)
{
	if (tun->watch.fd >= 0)
		call_close(tun->watch.fd);
	tun->watch.fd = -1;
	tun->watch.interest = 0;
}

void tun_write(struct tun *tun, const uint8_t *frame, size_t length)
{
	if (call_write(tun->watch.fd, frame, length) >= 0)
		return;
	tun->roce->refused++; /* lost, as on any network */
	tun->roce->refused_for = WEFT_R_TUN_REFUSED;
}

bool tun_output(struct tun *tun)
{
	struct roce *roce = tun->roce;
	bool has_moved = false;
	size_t length;

	/* Bound: the posted requests; the lock is held, so no more are posted meanwhile. */
	while (ib_port_send_raw(roce->port, tun->frame, &length)) {
		has_moved = true;
		tun_write(tun, tun->frame, length);
	}
	return has_moved;
}
