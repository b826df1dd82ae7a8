/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/recording.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

struct recording {
	pcap_t *pcap;
	enum packet_link link;
	uint64_t count;
};

static bool link_of(int type, enum packet_link *link)
{
	switch (type) {
	case DLT_EN10MB:
		*link = PACKET_ETHERNET;
		return true;
	case DLT_LINUX_SLL:
		*link = PACKET_SLL;
		return true;
	case DLT_LINUX_SLL2:
		*link = PACKET_SLL2;
		return true;
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
		*link = PACKET_IP;
		return true;
	case DLT_NULL:
	case DLT_LOOP:
		*link = PACKET_NULL;
		return true;
	case DLT_INFINIBAND:
		*link = PACKET_INFINIBAND;
		return true;
	case DLT_ERF:
		*link = PACKET_ERF;
		return true;
	default:
		return false;
	}
}

struct recording *recording_open_file(FILE *own_file, char error[RECORDING_ERROR_BYTES])
{
	char why[PCAP_ERRBUF_SIZE] = "";
	struct recording *c = calloc(1, sizeof(*c));
	const char *name;
	int type;

	if (!c) {
		snprintf(error, RECORDING_ERROR_BYTES, "cannot be opened: no memory");
		(void)fclose(own_file);
		return NULL;
	}
	c->pcap = pcap_fopen_offline_with_tstamp_precision(own_file, PCAP_TSTAMP_PRECISION_NANO,
							   why);
	if (!c->pcap) {
		snprintf(error, RECORDING_ERROR_BYTES, "is not a capture: %s", why);
		(void)fclose(own_file);
		free(c);
		return NULL;
	}
	type = pcap_datalink(c->pcap);
	if (!link_of(type, &c->link)) {
		name = pcap_datalink_val_to_description_or_dlt(type);
		snprintf(error, RECORDING_ERROR_BYTES,
			 "is of a kind of link that I do not know: %s", name);
		recording_close(c);
		return NULL;
	}
	return c;
}

struct recording *recording_open(const char *path, char error[RECORDING_ERROR_BYTES])
{
	FILE *file = strcmp(path, "-") == 0 ? fdopen(0, "rb") : fopen(path, "rb");

	if (!file) {
		snprintf(error, RECORDING_ERROR_BYTES, "cannot be opened: %s", strerror(errno));
		return NULL;
	}
	return recording_open_file(file, error);
}

int recording_next(struct recording *c, struct recorded_packet *p,
		   char error[RECORDING_ERROR_BYTES])
{
	struct pcap_pkthdr *head;
	const u_char *bytes;
	int got = pcap_next_ex(c->pcap, &head, &bytes);

	if (got == PCAP_ERROR_BREAK)
		return 0;
	if (got != 1) {
		snprintf(error, RECORDING_ERROR_BYTES, "%s", pcap_geterr(c->pcap));
		return -1;
	}
	*p = (struct recorded_packet){
		.number = ++c->count,
		/* The microseconds are nanoseconds: that precision was asked for. */
		.time_ns = (uint64_t)head->ts.tv_sec * 1000000000U + (uint64_t)head->ts.tv_usec,
		.is_cut = head->caplen < head->len,
	};
	p->kind = packet_decode(&p->packet, c->link, rd_of(bytes, head->caplen),
				head->len > head->caplen ? head->len : head->caplen);
	return 1;
}

void recording_close(struct recording *own_c)
{
	if (!own_c)
		return;
	pcap_close(own_c->pcap); /* and with it the file */
	free(own_c);
}
