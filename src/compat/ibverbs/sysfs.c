/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that programs read under /sys/class/infiniband, for our devices: through
 * ibv_read_sysfs_file(), and by opening the files under `weft run` (compat/sysfs). Programs may
 * also check that the device has its file in /dev, as UCX does; it cannot be opened.
 */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/sysfs_fabric.h"

static const char root[] = "/sys/class/infiniband";

/* A file whose text is being written. */
struct file {
	const struct device *device;
	const char *name; /* what follows the device's folder */
	char *text;
	size_t size;
	int number; /* the last part of its name */
};

__attribute__((format(printf, 2, 3))) static int put(const struct file *f, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(f->text, f->size, format, args);
	va_end(args);
	return n < 0 || (size_t)n >= f->size ? -EOVERFLOW : n;
}

/* ---- The device ----------------------------------------------------------------------------- */

static int put_guid(const struct file *f)
{
	uint64_t g = be64toh(f->device->guid);

	return put(f, "%04x:%04x:%04x:%04x\n", (unsigned int)(g >> 48),
		   (unsigned int)(g >> 32) & 0xffff, (unsigned int)(g >> 16) & 0xffff,
		   (unsigned int)g & 0xffff);
}

static int put_node_type(const struct file *f)
{
	return put(f, "%s\n", f->device->kind == DEVICE_ROCE ? "1: CA" : "4: RNIC");
}

static int put_version(const struct file *f)
{
	return put(f, "%s\n", weft_version());
}

static int put_board(const struct file *f)
{
	return put(f, "weft %s\n", weft_version());
}

static int put_name(const struct file *f)
{
	return put(f, "weft\n");
}

static int put_zero(const struct file *f)
{
	return put(f, "0\n");
}

/* The device is this process: near to all processors. */
static int put_numa_node(const struct file *f)
{
	return put(f, "-1\n");
}

static int put_processors(const struct file *f)
{
	enum { WORD = 32 };
	long n = sysconf(_SC_NPROCESSORS_CONF);
	size_t used = 0;

	f->text[0] = '\0';
	for (long word = (n - 1) / WORD; word >= 0 && used < f->size; word--) {
		long here = n - word * WORD < WORD ? n - word * WORD : WORD;

		used += (size_t)snprintf(f->text + used, f->size - used, "%08x%s",
					 (unsigned int)((UINT64_C(1) << here) - 1),
					 word ? "," : "\n");
	}
	return used < f->size ? (int)used : -EOVERFLOW;
}

static int put_processor_list(const struct file *f)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	return n > 1 ? put(f, "0-%ld\n", n - 1) : put(f, "0\n");
}

static int put_driver(const struct file *f)
{
	return put(f, "../../../../bus/platform/drivers/weft");
}

/* ---- Its port ------------------------------------------------------------------------------- */

static int put_state(const struct file *f)
{
	struct ibv_port_attr attr;
	int error = port_tell(f->device, 1, &attr);

	if (error)
		return -error;
	return put(f, "%s\n", attr.state == IBV_PORT_ACTIVE ? "4: ACTIVE" : "1: DOWN");
}

static int put_physical_state(const struct file *f)
{
	struct ibv_port_attr attr;
	int error = port_tell(f->device, 1, &attr);

	if (error)
		return -error;
	return put(f, "%s\n", attr.state == IBV_PORT_ACTIVE ? "5: LinkUp" : "3: Disabled");
}

static int put_rate(const struct file *f)
{
	static const struct {
		uint8_t speed;
		const char *name;
		int tenths; /* of a gigabit in a second, on one lane */
	} speeds[] = {
		{ 1, "SDR", 25 }, { 2, "DDR", 50 }, { 8, "FDR10", 100 }, { 32, "EDR", 250 }
	};
	struct ibv_port_attr attr;
	int error = port_tell(f->device, 1, &attr), lanes, tenths;
	size_t i = 0;

	if (error)
		return -error;
	while (i < sizeof(speeds) / sizeof(speeds[0]) - 1 && speeds[i].speed != attr.active_speed)
		i++;
	lanes = attr.active_width == 2 ? 4 : 1;
	tenths = lanes * speeds[i].tenths;
	return put(f, "%d%s Gb/sec (%dX %s)\n", tenths / 10, tenths % 10 ? ".5" : "", lanes,
		   speeds[i].name);
}

static int put_capabilities(const struct file *f)
{
	struct ibv_port_attr attr;
	int error = port_tell(f->device, 1, &attr);

	return error ? -error : put(f, "0x%08x\n", attr.port_cap_flags);
}

static int put_link_layer(const struct file *f)
{
	return put(f, "Ethernet\n");
}

static int put_lid(const struct file *f)
{
	return put(f, "0x0\n");
}

static int put_key(const struct file *f)
{
	return f->number == 0 ? put(f, "0xffff\n") : -ENOENT;
}

/* The GID of that index. Zeros where there is none, as the kernel has it. 0 or -errno. */
static int gid_get(const struct file *f, struct gid *g)
{
	struct gid_table t;
	int error;

	if (f->number < 0 || f->number >= GIDS_MAX)
		return -ENOENT;
	if (f->device->kind != DEVICE_ROCE) {
		uint64_t guid = f->device->guid;

		*g = (struct gid){ { 0xfe, 0x80 } };
		memcpy(g->raw + 8, &guid, sizeof(guid));
		return f->number == 0 ? 0 : -ENOENT;
	}
	error = gid_table_read(f->device->interface, &t);
	*g = (struct gid){ { 0 } };
	if (!error && (uint32_t)f->number < t.count)
		*g = t.gids[f->number];
	return -error;
}

static int put_gid(const struct file *f)
{
	struct gid g;
	int error = gid_get(f, &g);
	char text[48] = "";

	for (int i = 0; i < GID_BYTES; i += 2)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%02x%02x%s", g.raw[i],
			 g.raw[i + 1], i < GID_BYTES - 2 ? ":" : "\n");
	return error ? error : put(f, "%s", text);
}

/* Those of empty entries cannot be read. */
static int put_gid_type(const struct file *f)
{
	struct gid g;
	int error = gid_get(f, &g);

	if (error || gid_is_none(&g))
		return error ? error : -EINVAL;
	return put(f, "%s\n", f->device->kind == DEVICE_ROCE ? "RoCE v2" : "IB/RoCE v1");
}

static int put_interface(const struct file *f)
{
	struct gid g;
	int error = gid_get(f, &g);

	if (error || gid_is_none(&g))
		return error ? error : -EINVAL;
	return put(f, "%s\n", f->device->interface);
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* A name that ends with a slash is of files with numbers. */
static const struct {
	const char *name;
	int (*put)(const struct file *f);
} files[] = {
	{ "board_id", put_board },
	{ "device/driver", put_driver },
	{ "device/local_cpulist", put_processor_list },
	{ "device/local_cpus", put_processors },
	{ "device/numa_node", put_numa_node },
	{ "fw_ver", put_version },
	{ "hca_type", put_name },
	{ "hw_rev", put_zero },
	{ "node_desc", put_name },
	{ "node_guid", put_guid },
	{ "node_type", put_node_type },
	{ "ports/1/cap_mask", put_capabilities },
	{ "ports/1/gid_attrs/ndevs/", put_interface },
	{ "ports/1/gid_attrs/types/", put_gid_type },
	{ "ports/1/gids/", put_gid },
	{ "ports/1/lid", put_lid },
	{ "ports/1/lid_mask_count", put_zero },
	{ "ports/1/link_layer", put_link_layer },
	{ "ports/1/phys_state", put_physical_state },
	{ "ports/1/pkeys/", put_key },
	{ "ports/1/rate", put_rate },
	{ "ports/1/sm_lid", put_lid },
	{ "ports/1/sm_sl", put_zero },
	{ "ports/1/state", put_state },
	{ "sys_image_guid", put_guid },
};

enum { FILES = sizeof(files) / sizeof(files[0]) };

static bool is_numbered(const char *name)
{
	return name[strlen(name) - 1] == '/';
}

/* Its number is read, if it has one. */
static bool is_file(struct file *f, const char *name)
{
	size_t length = strlen(name);
	char *end;
	long n;

	if (!is_numbered(name))
		return strcmp(f->name, name) == 0;
	if (strncmp(f->name, name, length) != 0 || f->name[length] < '0' || f->name[length] > '9')
		return false;
	n = strtol(f->name + length, &end, 10);
	f->number = n < GIDS_MAX ? (int)n : GIDS_MAX;
	return *end == '\0';
}

/* What follows a folder's name in that of a file that is below it; NULL: it is not. */
static const char *below(const char *file, const char *folder, size_t length)
{
	if (length == 0)
		return file;
	return strncmp(file, folder, length) == 0 && file[length] == '/' ? file + length + 1 : NULL;
}

/*
 * What is in a folder, one name a line; files with numbers are left out. Names follow one another
 * in the table, so the one before is the only one that can be the same. -ENOENT: there is none.
 */
static int put_folder(struct file *f)
{
	const char *last = NULL;
	size_t length = strlen(f->name), used = 0, last_length = 0;
	bool is_there = length == 0;

	while (length > 0 && f->name[length - 1] == '/')
		length--;
	for (int i = 0; i < FILES; i++) {
		const char *name = below(files[i].name, f->name, length);
		size_t n = name ? strcspn(name, "/") : 0;

		is_there |= name != NULL;
		if (n == 0 || (n == last_length && strncmp(name, last, n) == 0))
			continue;
		used += (size_t)snprintf(f->text + used, f->size - used, "%.*s\n", (int)n, name);
		if (used >= f->size)
			return -EOVERFLOW;
		last = name;
		last_length = n;
	}
	return is_there ? (int)used : -ENOENT;
}

/* The folder that names the interface has a folder of its name, with nothing in it. */
static int put_net(const struct file *f)
{
	static const char where[] = "device/net";
	const char *name = below(f->name, where, sizeof(where) - 1);

	if (f->device->kind == DEVICE_FABRIC) /* no interface stands for it */
		return -ENOENT;
	if (!name)
		return strcmp(f->name, where) == 0 ? put(f, "%s\n", f->device->interface) : -ENOENT;
	name += strspn(name, "/");
	if (*name == '\0')
		return put(f, "%s\n", f->device->interface);
	return strcmp(name, f->device->interface) == 0 ? 0 : -ENOENT;
}

/* The path behind the root, from the device's name on; NULL: it is not below it. */
static const char *below_root(const char *path)
{
	size_t length = sizeof(root) - 1;

	if (strncmp(path, root, length) != 0 || (path[length] != '/' && path[length] != '\0'))
		return NULL;
	path += length;
	while (*path == '/')
		path++;
	return path;
}

static bool is_device_file(const char *path)
{
	static const char where[] = "/dev/infiniband/";

	return strncmp(path, where, sizeof(where) - 1) == 0 &&
	       device_is_known_as(path + sizeof(where) - 1);
}

/* The folder of all: weft's, as they are all that the program has. */
static int put_devices(const struct file *f)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t used = 0;

	for (int i = 0; list && list[i] && used < f->size; i++)
		used += (size_t)snprintf(f->text + used, f->size - used, "%s\n",
					 ibv_get_device_name(list[i]));
	if (list)
		ibv_free_device_list(list);
	return used < f->size ? (int)used : -EOVERFLOW;
}

int weftv_sysfs(const char *path, char *text, size_t size, unsigned int *mode)
{
	const char *name = below_root(path);
	struct file f = { .text = text, .size = size };
	size_t length;
	int n = sysfs_fabric(path, text, size, mode);

	if (n != -ENOENT)
		return n;
	*mode = is_device_file(path) ? S_IFCHR | 0666 : S_IFDIR | 0555;
	if (!name)
		return S_ISCHR(*mode) ? 0 : -ENOENT;
	if (*name == '\0')
		return put_devices(&f);
	length = strcspn(name, "/");
	f.device = device_named(name, length);
	if (!f.device)
		return -ENOENT;
	f.name = name + length;
	while (*f.name == '/')
		f.name++;
	for (int i = 0; i < FILES; i++) {
		if (is_file(&f, files[i].name)) {
			*mode = files[i].put == put_driver ? S_IFLNK | 0777 : S_IFREG | 0444;
			return files[i].put(&f);
		}
	}
	text[0] = '\0';
	n = put_net(&f);
	return n == -ENOENT ? put_folder(&f) : n;
}
