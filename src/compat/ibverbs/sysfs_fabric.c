/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/sysfs_fabric.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/weft.h>

#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/ibverbs.h"
#include "driver/sys/fabric_client.h"

enum { PORTS_SHOWN_MAX = 64, NAME = 64 };

/* A file whose text is being written. */
struct file {
	char *text;
	size_t size, used;
	int number; /* the last part of its name */
	struct fabric_msg_port port;
};

__attribute__((format(printf, 2, 3))) static int put(struct file *f, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(f->text + f->used, f->size - f->used, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= f->size - f->used)
		return -EOVERFLOW;
	f->used += (size_t)n;
	return (int)f->used;
}

/* ---- The adapter ---------------------------------------------------------------------------- */

static int put_guid(struct file *f, uint64_t g)
{
	return put(f, "%04x:%04x:%04x:%04x\n", (unsigned int)(g >> 48),
		   (unsigned int)(g >> 32) & 0xffff, (unsigned int)(g >> 16) & 0xffff,
		   (unsigned int)g & 0xffff);
}

static int put_node_guid(struct file *f)
{
	return put_guid(f, f->port.node_info.node_guid);
}

static int put_system_guid(struct file *f)
{
	return put_guid(f, f->port.node_info.system_guid);
}

static int put_node_type(struct file *f)
{
	static const char *const names[] = { "1: CA", "2: switch", "3: router" };
	uint8_t type = f->port.node_info.node_type;

	return put(f, "%s\n", type >= 1 && type <= 3 ? names[type - 1] : "1: CA");
}

static int put_description(struct file *f)
{
	return put(f, "%.*s\n", SM_DESCRIPTION_BYTES, (const char *)f->port.description.text);
}

static int put_version(struct file *f)
{
	return put(f, "%s\n", weft_version());
}

static int put_type(struct file *f)
{
	return put(f, "weft\n");
}

static int put_revision(struct file *f)
{
	return put(f, "%x\n", f->port.node_info.revision);
}

/* ---- A port --------------------------------------------------------------------------------- */

static int put_lid(struct file *f)
{
	return put(f, "0x%x\n", f->port.port_info.lid);
}

static int put_sm_lid(struct file *f)
{
	return put(f, "0x%x\n", f->port.port_info.sm_lid);
}

static int put_lmc(struct file *f)
{
	return put(f, "%u\n", f->port.port_info.lmc);
}

static int put_sm_level(struct file *f)
{
	return put(f, "%u\n", f->port.port_info.sm_level);
}

static int put_capabilities(struct file *f)
{
	return put(f, "0x%08x\n", f->port.port_info.capabilities);
}

static int put_state(struct file *f)
{
	static const char *const names[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	uint8_t state = f->port.port_info.state;

	return put(f, "%u: %s\n", state, state <= SM_PORT_ACTIVE ? names[state] : "NOP");
}

static int put_phys_state(struct file *f)
{
	static const char *const names[] = { "<unknown>",
					     "Sleep",
					     "Polling",
					     "Disabled",
					     "PortConfigurationTraining",
					     "LinkUp",
					     "LinkErrorRecovery" };
	uint8_t state = f->port.port_info.phys_state;

	return put(f, "%u: %s\n", state, state <= SM_PHYS_RECOVERY ? names[state] : names[0]);
}

/* Of one wire, in tenths of a gigabit in a second, as InfiniBand rounds them. */
static int put_rate(struct file *f)
{
	static const struct {
		uint8_t active, extended;
		const char *name;
		unsigned int tenths;
	} speeds[] = { { 0, 4, "HDR", 500 }, { 0, 2, "EDR", 250 }, { 0, 1, "FDR", 140 },
		       { 4, 0, "QDR", 100 }, { 2, 0, "DDR", 50 },  { 1, 0, "SDR", 25 } };
	const struct sm_port_info *p = &f->port.port_info;
	unsigned int wires = p->width_active == 1   ? 1
			     : p->width_active == 2 ? 4
			     : p->width_active == 4 ? 8
			     : p->width_active == 8 ? 12
						    : 1;
	unsigned int tenths;
	size_t i = 0;

	while (i < sizeof(speeds) / sizeof(speeds[0]) - 1 &&
	       !(speeds[i].extended ? p->extended_active & speeds[i].extended
				    : p->speed_active & speeds[i].active))
		i++;
	tenths = wires * speeds[i].tenths;
	return put(f, "%u%s Gb/sec (%uX %s)\n", tenths / 10, tenths % 10 ? ".5" : "", wires,
		   speeds[i].name);
}

static int put_link_layer(struct file *f)
{
	return put(f, "InfiniBand\n");
}

static int put_gid(struct file *f)
{
	uint64_t prefix = f->port.port_info.subnet_prefix, guid;

	if (f->number >= SM_GUIDS)
		return -ENOENT;
	guid = f->port.guids.guids[f->number];
	if (guid == 0)
		prefix = 0;
	for (int i = 0; i < 8; i++) {
		uint64_t half = i < 4 ? prefix : guid;

		(void)put(f, "%04x%s", (unsigned int)(half >> (48 - i % 4 * 16)) & 0xffff,
			  i < 7 ? ":" : "\n");
	}
	return (int)f->used;
}

static int put_pkey(struct file *f)
{
	if (f->number >= SM_PKEYS || f->number >= f->port.node_info.pkeys)
		return -ENOENT;
	return put(f, "0x%04x\n", f->port.pkeys.pkeys[f->number]);
}

/* ---- Which files there are ------------------------------------------------------------------ */

struct entry {
	const char *name; /* one that ends with a slash is a folder of numbers */
	int (*put)(struct file *f);
};

static const struct entry adapter_files[] = {
	{ "board_id", put_type },
	{ "fw_ver", put_version },
	{ "hca_type", put_type },
	{ "hw_rev", put_revision },
	{ "node_desc", put_description },
	{ "node_guid", put_node_guid },
	{ "node_type", put_node_type },
	{ "sys_image_guid", put_system_guid },
	{ "ports/", NULL },
};

static const struct entry port_files[] = {
	{ "cap_mask", put_capabilities },
	{ "gids/", put_gid },
	{ "lid", put_lid },
	{ "lid_mask_count", put_lmc },
	{ "link_layer", put_link_layer },
	{ "phys_state", put_phys_state },
	{ "pkeys/", put_pkey },
	{ "rate", put_rate },
	{ "sm_lid", put_sm_lid },
	{ "sm_sl", put_sm_level },
	{ "state", put_state },
};

enum {
	ADAPTER_FILES = sizeof(adapter_files) / sizeof(adapter_files[0]),
	PORT_FILES = sizeof(port_files) / sizeof(port_files[0])
};

static int put_names(struct file *f, const struct entry *entries, int count)
{
	for (int i = 0; i < count; i++)
		(void)put(f, "%.*s\n", (int)strcspn(entries[i].name, "/"), entries[i].name);
	return (int)f->used;
}

static int put_numbers(struct file *f, const char *before, int first, int count)
{
	for (int i = first; i < first + count; i++)
		(void)put(f, "%s%d\n", before, i);
	return (int)f->used;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* The next part of a path: true if it has this name; then *path is behind it. */
static bool takes(const char **path, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(*path, name, length) != 0 || ((*path)[length] && (*path)[length] != '/'))
		return false;
	*path += length;
	*path += strspn(*path, "/");
	return true;
}

static bool takes_number(const char **path, const char *before, int *number)
{
	size_t length = strlen(before);
	char *end;
	long n;

	if (strncmp(*path, before, length) != 0 || (*path)[length] < '0' || (*path)[length] > '9')
		return false;
	n = strtol(*path + length, &end, 10);
	if (n > 9999 || (*end && *end != '/'))
		return false;
	*number = (int)n;
	*path = end + strspn(end, "/");
	return true;
}

/* A port of the node; each of them tells of the node, too. 0 or -ENOENT. */
static int port_get(struct file *f, uint32_t port)
{
	return fabric_client_port(port, &f->port) == WEFT_OK ? 0 : -ENOENT;
}

static int ports_shown(const struct file *f)
{
	return f->port.node_info.ports < PORTS_SHOWN_MAX ? f->port.node_info.ports
							 : PORTS_SHOWN_MAX;
}

static int look_below_port(struct file *f, const char *path, unsigned int *mode)
{
	if (*path == '\0')
		return put_names(f, port_files, PORT_FILES);
	for (int i = 0; i < PORT_FILES; i++) {
		const struct entry *e = &port_files[i];
		size_t length = strcspn(e->name, "/");
		char name[NAME];
		bool is_folder = e->name[length] == '/';

		snprintf(name, sizeof(name), "%.*s", (int)length, e->name);
		if (!takes(&path, name))
			continue;
		if (is_folder && *path == '\0')
			return put_numbers(f, "", 0,
					   e->put == put_gid ? SM_GUIDS : f->port.node_info.pkeys);
		if (is_folder != takes_number(&path, "", &f->number) || *path)
			return -ENOENT;
		*mode = S_IFREG | 0444;
		return e->put(f);
	}
	return -ENOENT;
}

static int look_below_adapter(struct file *f, const char *path, unsigned int *mode)
{
	int number;

	if (*path == '\0')
		return put_names(f, adapter_files, ADAPTER_FILES);
	if (takes(&path, "ports")) {
		if (*path == '\0')
			return put_numbers(f, "", 1, ports_shown(f));
		if (!takes_number(&path, "", &number) || port_get(f, (uint32_t)number) < 0)
			return -ENOENT;
		return look_below_port(f, path, mode);
	}
	for (int i = 0; i < ADAPTER_FILES; i++) {
		if (!adapter_files[i].put || !takes(&path, adapter_files[i].name) || *path)
			continue;
		*mode = S_IFREG | 0444;
		return adapter_files[i].put(f);
	}
	return -ENOENT;
}

/* umadN and issmN: the devices of port N + 1. */
static int look_below_mad(struct file *f, const char *path, unsigned int *mode)
{
	int number;

	if (*path == '\0') {
		(void)put(f, "abi_version\n");
		(void)put_numbers(f, "issm", 0, ports_shown(f));
		return put_numbers(f, "umad", 0, ports_shown(f));
	}
	if (takes(&path, "abi_version")) {
		*mode = S_IFREG | 0444;
		return put(f, "5\n");
	}
	if (!takes_number(&path, "umad", &number) && !takes_number(&path, "issm", &number))
		return -ENOENT;
	if (number >= ports_shown(f))
		return -ENOENT;
	if (*path == '\0')
		return put(f, "ibdev\nport\n");
	*mode = S_IFREG | 0444;
	if (takes(&path, "ibdev") && *path == '\0')
		return put(f, "%s\n", FABRIC_DEVICE);
	return takes(&path, "port") && *path == '\0' ? put(f, "%d\n", number + 1) : -ENOENT;
}

static const char dev_root[] = "/dev/infiniband", verbs_root[] = "/sys/class/infiniband",
		  mad_root[] = "/sys/class/infiniband_mad";

int sysfs_fabric(const char *path, char *text, size_t size, unsigned int *mode)
{
	struct file f = { .text = text, .size = size };
	int number;

	if (!fabric_client_node())
		return -ENOENT;
	*mode = S_IFDIR | 0555;
	text[0] = '\0';
	if (takes(&path, dev_root)) {
		*mode = S_IFCHR | 0666;
		return takes_number(&path, "issm", &number) || takes_number(&path, "umad", &number)
			       ? 0
			       : -ENOENT;
	}
	if (takes(&path, verbs_root)) {
		if (*path == '\0')
			return put(&f, "%s\n", FABRIC_DEVICE);
		return takes(&path, FABRIC_DEVICE) && port_get(&f, 1) == 0
			       ? look_below_adapter(&f, path, mode)
			       : -ENOENT;
	}
	return takes(&path, mad_root) && port_get(&f, 1) == 0 ? look_below_mad(&f, path, mode)
							      : -ENOENT;
}

/* The port is a subnet manager's as long as the descriptor is open. */
int weftv_device_open(const char *path)
{
	struct fabric_msg ask = { .kind = FABRIC_MSG_MANAGER }, answer;
	const char *node = fabric_client_node();
	int number, fd;

	if (!node || !takes(&path, dev_root) || !takes_number(&path, "issm", &number))
		return -ENOENT;
	if (strlen(node) >= sizeof(ask.where.node))
		return -ENXIO;
	memcpy(ask.where.node, node, strlen(node) + 1);
	ask.where.port = (uint32_t)number + 1;
	if (fabric_client_connect(NULL, &fd) != WEFT_OK)
		return -ENXIO;
	if (fabric_client_ask(fd, &ask, &answer) == WEFT_OK)
		return fd;
	close(fd);
	return -ENXIO;
}
