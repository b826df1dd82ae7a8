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

enum { TEXT = 4096, PKEYS = 128, GROUPS = 8, NODE_CA = 1, ACTIVE = 4, LINK_UP = 5 };

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
	snprintf(ca, UMAD_CA_NAME_LEN, "%s", name);
	return 0;
}

static unsigned int port_number_of(const char *ca, int port, const char *file)
{
	char name[64];

	snprintf(name, sizeof(name), "ports/%d/%s", port, file);
	return (unsigned int)number_of(ca, name);
}

/* The keys up to the first that cannot be read. 0 or -ENOMEM. */
static int pkeys_read(const char *ca, umad_port_t *port)
{
	port->pkeys = calloc(PKEYS, sizeof(*port->pkeys));
	if (!port->pkeys)
		return -ENOMEM;
	for (; port->pkeys_size < PKEYS; port->pkeys_size++) {
		char name[64], text[TEXT];

		snprintf(name, sizeof(name), "ports/%d/pkeys/%u", port->portnum, port->pkeys_size);
		read_text(ca, name, text);
		if (*text == '\0')
			break;
		port->pkeys[port->pkeys_size] = (uint16_t)strtoul(text, NULL, 0);
	}
	return 0;
}

static int port_read(const char *ca, int number, umad_port_t *port)
{
	char name[64];
	__be64 gid[2];
	int r;

	*port = (umad_port_t){
		.portnum = number,
		.base_lid = port_number_of(ca, number, "lid"),
		.lmc = port_number_of(ca, number, "lid_mask_count"),
		.sm_lid = port_number_of(ca, number, "sm_lid"),
		.sm_sl = port_number_of(ca, number, "sm_sl"),
		.state = port_number_of(ca, number, "state"),
		.phys_state = port_number_of(ca, number, "phys_state"),
		.rate = port_number_of(ca, number, "rate"),
		.capmask = htobe32(port_number_of(ca, number, "cap_mask")),
	};
	r = pkeys_read(ca, port);
	if (r != 0)
		return r;
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", ca);
	snprintf(name, sizeof(name), "ports/%d/gids/0", number);
	groups_of(ca, name, gid);
	port->gid_prefix = gid[0];
	port->port_guid = gid[1];
	snprintf(name, sizeof(name), "ports/%d/link_layer", number);
	line_of(ca, name, port->link_layer, sizeof(port->link_layer));
	return 0;
}

/* The numbers of its ports that can be told: from 1 on. */
static int port_count(const char *ca)
{
	int count = 0;

	while (count + 1 < UMAD_CA_MAX_PORTS) {
		char name[64], text[TEXT];

		snprintf(name, sizeof(name), "ports/%d/state", count + 1);
		read_text(ca, name, text);
		if (*text == '\0')
			break;
		count++;
	}
	return count;
}

/* Without a number: the first that is active, else the first that has a link, else the first. */
static int port_find(const char *ca, int wanted)
{
	int count = port_count(ca), up = 0;

	if (wanted != 0)
		return wanted >= 1 && wanted <= count ? wanted : -EINVAL;
	for (int i = 1; i <= count; i++) {
		if (port_number_of(ca, i, "state") == ACTIVE)
			return i;
		if (up == 0 && port_number_of(ca, i, "phys_state") == LINK_UP)
			up = i;
	}
	if (count == 0)
		return -ENODEV;
	return up ? up : 1;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	char ca[UMAD_CA_NAME_LEN];
	int r = find(ca_name, ca);

	if (r == 0)
		r = port_find(ca, portnum);
	return r > 0 ? port_read(ca, r, port) : r;
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
	*ca = (umad_ca_t){ .node_type = NODE_CA, .numports = port_count(name) };
	snprintf(ca->ca_name, sizeof(ca->ca_name), "%s", name);
	line_of(name, "fw_ver", ca->fw_ver, sizeof(ca->fw_ver));
	line_of(name, "hca_type", ca->ca_type, sizeof(ca->ca_type));
	line_of(name, "hw_rev", ca->hw_ver, sizeof(ca->hw_ver));
	groups_of(name, "node_guid", guid);
	ca->node_guid = guid[0];
	groups_of(name, "sys_image_guid", guid);
	ca->system_guid = guid[0];
	for (int i = 1; r == 0 && i <= ca->numports; i++) {
		ca->ports[i] = calloc(1, sizeof(*ca->ports[i]));
		r = ca->ports[i] ? port_read(name, i, ca->ports[i]) : -ENOMEM;
	}
	if (r != 0)
		(void)umad_release_ca(ca);
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
	char ca[UMAD_CA_NAME_LEN];
	int r = find(ca_name, ca), count;

	if (r != 0)
		return r;
	count = port_count(ca);
	if (max < count + 1)
		return -ENOMEM;
	portguids[0] = 0;
	for (int i = 1; i <= count; i++) {
		char name[64];
		__be64 gid[2];

		snprintf(name, sizeof(name), "ports/%d/gids/0", i);
		groups_of(ca, name, gid);
		portguids[i] = gid[1];
	}
	return count + 1;
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
