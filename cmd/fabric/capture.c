/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric capture: frames of a port of a fabric that runs, as a file for Wireshark. */
#include <errno.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/fabric/fabric.h"
#include "cmd/roles/rio_role.h"
#include "driver/sys/fabric_client.h"
#include "wire/erf.h"
#include "wire/iba_frame.h"

enum { NS_PER_S = 1000000000, ERF_MAX = ERF_BYTES + IBA_FRAME_MAX };

struct capture {
	int fd;
	pcap_t *form;
	pcap_dumper_t *file;
	uint64_t frames, lost, lost_now;
};

static atomic_bool is_stopping;
static atomic_int source = -1; /* where frames come from */

/* By a signal. What has come before can still be read; then the connection is at its end. */
static void stop(void *of)
{
	int fd = atomic_load(&source);

	(void)of;
	atomic_store(&is_stopping, true);
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
}

static void frame_write(struct capture *c, const struct fabric_packet *p)
{
	uint8_t bytes[ERF_MAX];
	struct pcap_pkthdr head = {
		.ts = { .tv_sec = (time_t)(p->m.value / NS_PER_S),
			.tv_usec = (suseconds_t)(p->m.value % NS_PER_S) }, /* of a file in ns */
		.caplen = (bpf_u_int32)(ERF_BYTES + p->tail_bytes),
		.len = (bpf_u_int32)(ERF_BYTES + p->tail_bytes),
	};

	if (p->tail_bytes > IBA_FRAME_MAX)
		return;
	erf_infiniband_encode(p->m.value, (uint32_t)p->tail_bytes, c->lost_now, bytes);
	memcpy(bytes + ERF_BYTES, p->tail, p->tail_bytes);
	pcap_dump((u_char *)c->file, &head, bytes);
	c->frames++;
	c->lost_now = 0;
}

/* Until it is told to end, or the fabric has ended. */
static void frames_write(struct capture *c)
{
	static struct fabric_packet packet;

	atomic_store(&source, c->fd);
	if (atomic_load(&is_stopping))
		return;
	for (;;) {
		struct pollfd at = { .fd = c->fd, .events = POLLIN };
		int r = fabric_packet_receive(c->fd, &packet, false);

		if (r == -EAGAIN) {
			(void)pcap_dump_flush(c->file);
			(void)poll(&at, 1, -1);
			continue;
		}
		if (r < 0)
			return;
		if (packet.m.kind == FABRIC_MSG_FRAME)
			frame_write(c, &packet);
		c->lost_now += packet.m.kind == FABRIC_MSG_ANSWER ? packet.m.value : 0;
		c->lost += packet.m.kind == FABRIC_MSG_ANSWER ? packet.m.value : 0;
		fabric_packet_done(&packet);
	}
}

static bool file_open(struct capture *c, const char *path)
{
	c->form = pcap_open_dead_with_tstamp_precision(DLT_ERF, ERF_MAX,
						       PCAP_TSTAMP_PRECISION_NANO);
	c->file = c->form ? pcap_dump_open(c->form, path) : NULL;
	if (!c->file)
		fprintf(stderr, "weft fabric: %s: %s\n", path,
			c->form ? pcap_geterr(c->form) : "no memory");
	return c->file;
}

static enum weft_reason begin(struct capture *c, const struct fabric_msg *ask)
{
	struct fabric_msg answer;
	enum weft_reason reason = fabric_client_connect(NULL, &c->fd);

	return reason == WEFT_OK ? fabric_client_ask(c->fd, ask, &answer) : reason;
}

int fabric_capture(int argc, char **argv)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_CAPTURE };
	struct capture c = { .fd = -1 };
	enum weft_reason reason;
	bool is_open;

	if (argc != 3 || !fabric_where_read(argv[1], &ask.where))
		return fabric_misused("capture takes NODE or NODE:PORT, and a file");
	rio_role_until_signal(stop, NULL);
	reason = begin(&c, &ask);
	is_open = reason == WEFT_OK && file_open(&c, argv[2]);
	if (is_open) {
		printf("capturing to %s\n", argv[2]);
		(void)fflush(stdout);
		frames_write(&c);
		printf("%" PRIu64 " frames, %" PRIu64 " lost\n", c.frames, c.lost);
	}
	if (c.file)
		pcap_dump_close(c.file);
	if (c.form)
		pcap_close(c.form);
	if (c.fd >= 0)
		close(c.fd);
	if (reason != WEFT_OK)
		return fabric_failed(argv[1], ask.where.node, reason);
	return is_open ? 0 : 1;
}
