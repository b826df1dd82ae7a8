/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cmd/run/device_list.h"

enum { GIDS_MAX = 128 };

/* What is asked of the library; its inline functions would need it at link time. */
struct verbs {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	__be64 (*get_device_guid)(struct ibv_device *device);
	int (*read_sysfs_file)(const char *dir, const char *file, char *text, size_t size);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	const char *(*port_state_str)(enum ibv_port_state state);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_bytes);
};

static bool take(void *library, const char *name, void *to)
{
	void *symbol = dlsym(library, name);

	memcpy(to, &symbol, sizeof(symbol));
	return symbol != NULL;
}

/* The library stays loaded: it has threads of its own once a device was open. */
static int verbs_load(const struct dropin *d, struct verbs *v, char *why, size_t size)
{
	char path[PATH_MAX + 32];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", d->directory, dropin_names[0]);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library && take(library, "ibv_get_device_list", &v->get_device_list) &&
	    take(library, "ibv_free_device_list", &v->free_device_list) &&
	    take(library, "ibv_get_device_name", &v->get_device_name) &&
	    take(library, "ibv_get_device_guid", &v->get_device_guid) &&
	    take(library, "ibv_read_sysfs_file", &v->read_sysfs_file) &&
	    take(library, "ibv_open_device", &v->open_device) &&
	    take(library, "ibv_close_device", &v->close_device) &&
	    take(library, "ibv_port_state_str", &v->port_state_str) &&
	    take(library, "_ibv_query_gid_table", &v->query_gid_table))
		return 0;
	snprintf(why, size, "%s", dlerror());
	return -ENOSYS;
}

/* 0=127.0.0.1 1=::1 */
static void gids_text(const struct verbs *v, struct ibv_context *context, char *text, size_t size)
{
	static struct ibv_gid_entry entries[GIDS_MAX];
	ssize_t count = v->query_gid_table(context, entries, GIDS_MAX, 0, sizeof(entries[0]));
	size_t used = 0;

	for (ssize_t i = 0; i < count && used < size; i++) {
		static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
		const uint8_t *raw = entries[i].gid.raw;
		bool is_ipv4 = memcmp(raw, mapped, sizeof(mapped)) == 0;
		char address[INET6_ADDRSTRLEN] = "";

		(void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? raw + 12 : raw, address,
				sizeof(address));
		used += (size_t)snprintf(text + used, size - used, "%s%zd=%s", i ? " " : "", i,
					 address);
	}
}

/* The state of the device's first port, or why it cannot be had. */
static const char *port_state(const struct verbs *v, struct ibv_device *device,
			      struct device_row *row)
{
	struct ibv_context *context = v->open_device(device);
	struct verbs_context *extended;
	struct ibv_port_attr attr = { 0 };
	const char *state = "unknown";

	if (!context)
		return strerrorname_np(errno);
	extended = verbs_get_ctx_op(context, query_port);
	if (extended && extended->query_port(context, 1, &attr, sizeof(attr)) == 0)
		state = v->port_state_str(attr.state);
	if (device->transport_type == IBV_TRANSPORT_IB)
		gids_text(v, context, row->gids, sizeof(row->gids));
	v->close_device(context);
	return state;
}

int device_list_read(const struct dropin *d, struct device_list *list, char *why, size_t size)
{
	struct ibv_device **devices;
	struct verbs v;
	int result = verbs_load(d, &v, why, size);

	list->count = 0;
	if (result < 0)
		return result;
	devices = v.get_device_list(NULL);
	if (!devices) {
		result = errno ? -errno : -ENOSYS;
		snprintf(why, size, "ibv_get_device_list: %s", strerror(-result));
		return result;
	}
	for (size_t i = 0; devices[i] && i < DEVICES_MAX; i++) {
		struct device_row *row = &list->rows[list->count++];

		snprintf(row->name, sizeof(row->name), "%s", v.get_device_name(devices[i]));
		row->guid = be64toh(v.get_device_guid(devices[i]));
		if (v.read_sysfs_file(devices[i]->ibdev_path, "ports/1/gid_attrs/ndevs/0",
				      row->interface, sizeof(row->interface)) <= 0)
			snprintf(row->interface, sizeof(row->interface), "-");
		row->gids[0] = '\0';
		row->state = port_state(&v, devices[i], row);
	}
	v.free_device_list(devices);
	return 0;
}

/* ---- Why there are none --------------------------------------------------------------------- */

static void add(char *text, size_t size, const char *between, const char *word)
{
	size_t length = strlen(text);

	snprintf(text + length, size - length, "%s%s", length ? between : "", word);
}

/* Whether there would be devices if WEFT_DEVICES did not choose among them; then why says so. */
static bool is_narrowed(const struct dropin *d, char *why, size_t size)
{
	static struct device_list all;
	const char *now = getenv("WEFT_DEVICES");
	char *wanted = now ? strdup(now) : NULL, names[512] = "", ignored[256];

	if (!wanted)
		return false;
	unsetenv("WEFT_DEVICES");
	if (device_list_read(d, &all, ignored, sizeof(ignored)) < 0)
		all.count = 0;
	setenv("WEFT_DEVICES", wanted, 1);
	for (size_t i = 0; i < all.count; i++)
		add(names, sizeof(names), ", ", all.rows[i].name);
	snprintf(why, size, "WEFT_DEVICES=%s names none of those that are here: %s", wanted, names);
	free(wanted);
	return all.count > 0;
}

bool device_list_is_of(const struct ifaddrs *address, const char *interface)
{
	size_t length = strcspn(address->ifa_name, ":");

	return strlen(interface) == length && memcmp(address->ifa_name, interface, length) == 0;
}

static const char *lack(const struct ifaddrs *list, const struct if_nameindex *interface)
{
	const struct ifaddrs *i;
	bool is_up = false;

	for (i = list; i; i = i->ifa_next)
		is_up |= device_list_is_of(i, interface->if_name) && (i->ifa_flags & IFF_UP);
	return is_up ? "has no address" : "is down";
}

void device_list_why_none(const struct dropin *d, char *why, size_t size)
{
	struct if_nameindex *interfaces;
	struct ifaddrs *list = NULL;
	char lacks[512] = "";

	if (is_narrowed(d, why, size))
		return;
	interfaces = if_nameindex();
	(void)getifaddrs(&list);
	for (struct if_nameindex *i = interfaces; i && i->if_index; i++) {
		char one[64];

		snprintf(one, sizeof(one), "%s %s", i->if_name, lack(list, i));
		add(lacks, sizeof(lacks), ", ", one);
	}
	snprintf(why, size, "no network interface is up and has an address (%s); ip link set lo up",
		 *lacks ? lacks : "there is none");
	freeifaddrs(list);
	if (interfaces)
		if_freenameindex(interfaces);
}
