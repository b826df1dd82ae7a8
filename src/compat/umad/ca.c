/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which channel adapters there are, and what is known of them: what libibverbs tells under
 * /sys/class/infiniband. As in rdma-core's library, adapters of iWARP are none.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/ibverbs/ibverbs.h"

enum { TEXT = 4096, PORT = 1, GROUPS = 8, NODE_CA = 1, ACTIVE = 4 };

/* ---- Reading --------------------------------------------------------------------------------- */

/* The text of a file of the adapter, or of the folder of all; empty: there is none. */
static void read_text(const char *ca, const char *file, char *text)
{
	char path[256];
	unsigned int mode;
	int n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", ca, file);
	n = weftv_sysfs(path, text, TEXT - 1, &mode);
	text[n > 0 ? n : 0] = '\0';
}

static unsigned long number_of(const char *ca, const char *file)
{
	char text[TEXT];

	read_text(ca, file, text);
	return strtoul(text, NULL, 0);
}

/* A line, as much of it as there is room for. */
static void line_of(const char *ca, const char *file, char *line, size_t size)
{
	char text[TEXT];

	read_text(ca, file, text);
	text[strcspn(text, "\n")] = '\0';
	snprintf(line, size, "%.*s", (int)size - 1, text);
}

/* Groups of four digits, up to eight, in the order of the wire. */
static void groups_of(const char *ca, const char *file, __be64 halves[2])
{
	uint64_t values[2] = { 0, 0 };
	char text[TEXT], *at = text;

	read_text(ca, file, text);
	for (int i = 0; i < GROUPS && *at; i++) {
		values[i / 4] = values[i / 4] << 16 | strtoul(at, &at, 16);
		at += *at == ':';
	}
	halves[0] = htobe64(values[0]);
	halves[1] = htobe64(values[1]);
}

/* ---- Adapters -------------------------------------------------------------------------------- */

static bool is_adapter(const char *name, size_t length)
{
	char ca[UMAD_CA_NAME_LEN];

	if (length == 0 || length >= sizeof(ca))
		return false; /* a longer name cannot be told */
	memcpy(ca, name, length);
	ca[length] = '\0';
	return number_of(ca, "node_type") == NODE_CA;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	char text[TEXT];
	int count = 0;

	read_text("", "", text);
	for (const char *at = text; *at && count < max;) {
		size_t length = strcspn(at, "\n");

		if (is_adapter(at, length)) {
			memcpy(cas[count], at, length);
			cas[count++][length] = '\0';
		}
		at += length + (at[length] == '\n');
	}
	return count;
}

/* The one of that name, or without a name the first. 0 or -ENODEV. */
static int find(const char *name, char ca[UMAD_CA_NAME_LEN])
{
	if (!name)
		return umad_get_cas_names((char(*)[UMAD_CA_NAME_LEN])ca, 1) == 1 ? 0 : -ENODEV;
	if (!is_adapter(name, strlen(name)))
		return -ENODEV;
	strcpy(ca, name);
	return 0;
}

static int port_read(const char *ca, umad_port_t *port)
{
	__be64 gid[2];

	*port = (umad_port_t){
		.portnum = PORT,
		.base_lid = (unsigned int)number_of(ca, "ports/1/lid"),
		.lmc = (unsigned int)number_of(ca, "ports/1/lid_mask_count"),
		.sm_lid = (unsigned int)number_of(ca, "ports/1/sm_lid"),
		.sm_sl = (unsigned int)number_of(ca, "ports/1/sm_sl"),
		.state = (unsigned int)number_of(ca, "ports/1/state"),
		.phys_state = (unsigned int)number_of(ca, "ports/1/phys_state"),
		.rate = (unsigned int)number_of(ca, "ports/1/rate"),
		.capmask = htobe32((uint32_t)number_of(ca, "ports/1/cap_mask")),
		.pkeys_size = 1,
		.pkeys = calloc(1, sizeof(*port->pkeys)),
	};
	if (!port->pkeys)
		return -ENOMEM;
	strcpy(port->ca_name, ca);
	port->pkeys[0] = (uint16_t)number_of(ca, "ports/1/pkeys/0");
	groups_of(ca, "ports/1/gids/0", gid);
	port->gid_prefix = gid[0];
	port->port_guid = gid[1];
	line_of(ca, "ports/1/link_layer", port->link_layer, sizeof(port->link_layer));
	return 0;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	char ca[UMAD_CA_NAME_LEN];
	int r = find(ca_name, ca);

	if (r == 0 && portnum != PORT && portnum != 0) /* 0: the first that is active */
		r = -EINVAL;
	return r == 0 ? port_read(ca, port) : r;
}

int umad_release_port(umad_port_t *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	return 0;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	char name[UMAD_CA_NAME_LEN];
	int r = find(ca_name, name);
	__be64 guid[2];

	if (r != 0)
		return r;
	*ca = (umad_ca_t){ .node_type = NODE_CA, .numports = PORT };
	strcpy(ca->ca_name, name);
	line_of(name, "fw_ver", ca->fw_ver, sizeof(ca->fw_ver));
	line_of(name, "hca_type", ca->ca_type, sizeof(ca->ca_type));
	line_of(name, "hw_rev", ca->hw_ver, sizeof(ca->hw_ver));
	groups_of(name, "node_guid", guid);
	ca->node_guid = guid[0];
	groups_of(name, "sys_image_guid", guid);
	ca->system_guid = guid[0];
	ca->ports[PORT] = calloc(1, sizeof(*ca->ports[PORT]));
	r = ca->ports[PORT] ? port_read(name, ca->ports[PORT]) : -ENOMEM;
	if (r != 0)
		free(ca->ports[PORT]);
	return r;
}

int umad_release_ca(umad_ca_t *ca)
{
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++) {
		if (!ca->ports[i])
			continue;
		(void)umad_release_port(ca->ports[i]);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
	return 0;
}

/* By the numbers of ports: a channel adapter has no port 0. */
int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	umad_port_t port;
	int r;

	if (max < PORT + 1)
		return -ENOMEM;
	r = umad_get_port(ca_name, PORT, &port);
	if (r != 0)
		return r;
	portguids[0] = 0;
	portguids[PORT] = port.port_guid;
	(void)umad_release_port(&port);
	return PORT + 1;
}

/* ---- As a list ------------------------------------------------------------------------------- */

struct umad_device_node *umad_get_ca_device_list(void)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES);
	struct umad_device_node *first = NULL, **last = &first;

	errno = 0; /* so programs tell an empty list from one that could not be made */
	for (int i = 0; i < count; i++) {
		struct umad_device_node *node = calloc(1, sizeof(*node));
		char *name = strdup(names[i]);

		if (!node || !name) {
			free(node);
			free(name);
			umad_free_ca_device_list(first);
			errno = ENOMEM;
			return NULL;
		}
		node->ca_name = name;
		*last = node;
		last = &node->next;
	}
	return first;
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free((void *)(uintptr_t)head->ca_name);
		free(head);
		head = next;
	}
}

/* They come in the order of libibverbs, which is as good as any: only the length is looked at. */
int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	size_t count = 0;

	for (const struct umad_device_node *at = *head; at; at = at->next)
		count++;
	return size && size != count ? EINVAL : 0;
}
