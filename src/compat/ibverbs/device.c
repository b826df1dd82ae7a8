/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two devices for each network interface that is up and has an address: roce_lo and iw_lo,
 * roce_eth0 and iw_eth0. A program that runs on a node of a fabric has its adapter, and no other.
 */
#include "compat/ibverbs/device.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/say.h"
#include "driver/sys/fabric_client.h"

/* Devices stay until the process ends: programs keep pointers to them. */
static struct {
	pthread_mutex_t lock;
	struct list devices;
	uint32_t made;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const struct {
	const char *prefix;
	enum ibv_node_type node;
	enum ibv_transport_type transport;
} kinds[DEVICE_KINDS] = {
	[DEVICE_ROCE] = { "roce_", IBV_NODE_CA, IBV_TRANSPORT_IB },
	[DEVICE_IWARP] = { "iw_", IBV_NODE_RNIC, IBV_TRANSPORT_IWARP },
	[DEVICE_FABRIC] = { "fab0", IBV_NODE_CA, IBV_TRANSPORT_IB },
};

/* ---- Which there are ------------------------------------------------------------------------ */

/* A name, or the beginning of one with a star behind it. */
static bool is_meant(const char *wish, size_t length, const char *name)
{
	if (length > 0 && wish[length - 1] == '*')
		return strncmp(name, wish, length - 1) == 0;
	return length == strlen(name) && memcmp(wish, name, length) == 0;
}

/* WEFT_DEVICES: names with commas between them; not set: all. */
static bool is_wanted(const char *name)
{
	const char *at = getenv("WEFT_DEVICES");

	if (!at)
		return true;
	while (*at) {
		size_t n = strcspn(at, ", ");

		if (is_meant(at, n, name))
			return true;
		at += n + (at[n] != '\0');
	}
	return false;
}

/* Of an interface. Addresses of IPv4 may have a label behind its name: eth0:1. */
static int name_length(const struct ifaddrs *i)
{
	return (int)strcspn(i->ifa_name, ":");
}

/* By the name of its interface; in a fabric that is empty. */
static struct device *find(const char *interface, size_t length, enum device_kind kind)
{

	for (struct list *at = all.devices.next; at != &all.devices; at = at->next) {
		struct device *d = CONTAINER_OF(at, struct device, link);

		if (d->kind == kind && strlen(d->interface) == length &&
		    memcmp(d->interface, interface, length) == 0)
			return d;
	}
	return NULL;
}

static struct device *find_of(const struct ifaddrs *i, enum device_kind kind)
{
	return find(i->ifa_name, (size_t)name_length(i), kind);
}

static struct device *device_create(const char *interface, int length, enum device_kind kind)
{
	static const char other_ops; /* its address equals no provider's table of operations */
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->kind = kind;
	d->ibv.node_type = kinds[kind].node;
	d->ibv.transport_type = kinds[kind].transport;
	d->ops = &other_ops;
	snprintf(d->interface, sizeof(d->interface), "%.*s", length, interface);
	snprintf(d->ibv.name, sizeof(d->ibv.name), "%s%s", kinds[kind].prefix, d->interface);
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs%u", all.made++);
	snprintf(d->ibv.dev_path, sizeof(d->ibv.dev_path), "/sys/class/infiniband_verbs/%s",
		 d->ibv.dev_name);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "/sys/class/infiniband/%s",
		 d->ibv.name);
	list_add_tail(&all.devices, &d->link);
	return d;
}

static bool is_usable(const struct ifaddrs *i, enum device_kind kind)
{
	char name[IF_NAMESIZE + 8];

	snprintf(name, sizeof(name), "%s%.*s", kinds[kind].prefix, name_length(i), i->ifa_name);
	return (i->ifa_flags & IFF_UP) && i->ifa_addr &&
	       (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
	       is_wanted(name);
}

/* What identifies the interface on its link; loopback has zeros there, and others may have none. */
static void take_hardware_address(struct device *d, const struct ifaddrs *i)
{
	const struct sockaddr_ll *link = (const void *)i->ifa_addr;

	if (link->sll_halen == sizeof(d->mac))
		memcpy(d->mac, link->sll_addr, sizeof(d->mac));
}

/* The hardware address made 64 bits long as EUI-64 does, or the interface's number. */
static uint64_t guid_of(const struct device *d)
{
	const uint8_t *m = d->mac;
	const uint8_t eui[8] = { m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5] };
	static const uint8_t none[sizeof(d->mac)];
	uint64_t guid;

	memcpy(&guid, eui, sizeof(guid));
	if (memcmp(m, none, sizeof(none)) == 0)
		guid = htobe64(UINT64_C(0x020000fffe000000) | d->index);
	return guid;
}

static void look_at(const struct ifaddrs *i, enum device_kind kind)
{
	struct device *d = find_of(i, kind);

	if (!is_usable(i, kind))
		return;
	if (!d)
		d = device_create(i->ifa_name, name_length(i), kind);
	if (!d)
		return;
	d->is_present = true;
	d->index = if_nametoindex(d->interface);
}

static void look_at_link(const struct ifaddrs *i)
{
	for (int kind = 0; kind < DEVICE_FABRIC; kind++) {
		struct device *d = find_of(i, (enum device_kind)kind);

		if (d && i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET)
			take_hardware_address(d, i);
	}
}

static void forget(void)
{
	for (struct list *at = all.devices.next; at != &all.devices; at = at->next)
		CONTAINER_OF(at, struct device, link)->is_present = false;
}

/* One that cannot be asked of is not there; the user is told why, once. */
static int look_at_node(void)
{
	static bool is_reported;
	struct device *d = find("", 0, DEVICE_FABRIC);

	forget();
	if (!is_wanted(FABRIC_DEVICE))
		return 0;
	if (!d)
		d = device_create("", 0, DEVICE_FABRIC);
	if (!d)
		return ENOMEM;
	d->is_present = fabric_node_look(d) == 0;
	if (!d->is_present && !is_reported)
		say_anyway("%s is not there: no fabric of that name runs here, or it has no node "
			   "%s",
			   FABRIC_DEVICE, fabric_client_node());
	is_reported |= !d->is_present;
	return 0;
}

/* 0 or errno: then what was known before is all that is known. */
static int look(void)
{
	struct ifaddrs *list, *i;

	if (fabric_client_node())
		return look_at_node();
	if (getifaddrs(&list) < 0)
		return errno;
	forget();
	for (int kind = 0; kind < DEVICE_FABRIC; kind++) {
		for (i = list; i; i = i->ifa_next)
			look_at(i, (enum device_kind)kind);
	}
	for (i = list; i; i = i->ifa_next)
		look_at_link(i);
	for (struct list *at = all.devices.next; at != &all.devices; at = at->next) {
		struct device *d = CONTAINER_OF(at, struct device, link);

		d->guid = guid_of(d);
	}
	freeifaddrs(list);
	return 0;
}

void device_list_lock(void)
{
	pthread_mutex_lock(&all.lock);
}

void devices_forked(void)
{
	for (struct list *at = all.devices.next; at && at != &all.devices; at = at->next) {
		struct device *d = CONTAINER_OF(at, struct device, link);

		/* Kept: ids that the child has from its parent know it. */
		if (d->shared)
			d->parents = d->shared;
		d->shared = NULL;
	}
}

/* Looks at the interfaces again. The list, locked until device_list_put(); *error as look(). */
static struct list *device_list_get(int *error)
{
	device_list_lock();
	if (!all.devices.next)
		list_init(&all.devices);
	*error = look();
	return &all.devices;
}

void device_list_put(void)
{
	pthread_mutex_unlock(&all.lock);
}

/* Locked. Puts the present devices of a kind behind n others; how many there are then. */
static int gather(enum device_kind kind, struct device **list, int n)
{
	for (struct list *at = all.devices.next; at != &all.devices; at = at->next) {
		struct device *d = CONTAINER_OF(at, struct device, link);

		if (d->is_present && d->kind == kind)
			list[n++] = d;
	}
	return n;
}

/*
 * RoCE's come first: many programs take the first device and connect queue pairs by number, which
 * iWARP cannot do.
 */
static int gather_all(struct device **list)
{
	int n = gather(DEVICE_ROCE, list, gather(DEVICE_FABRIC, list, 0));

	return gather(DEVICE_IWARP, list, n);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	int n = 0, error;
	struct ibv_device **list;
	struct device **found;

	(void)device_list_get(&error);
	list = calloc(all.made + 1, sizeof(*list));
	found = calloc(all.made + 1, sizeof(struct device *));
	if (list && found)
		n = gather_all(found);
	for (int i = 0; i < n; i++)
		list[i] = &found[i]->ibv;
	if (!found) {
		free(list);
		list = NULL;
	}
	free(found);
	device_list_put();
	if (count)
		*count = error ? 0 : n;
	if (list && !error)
		return list;
	errno = list ? error : ENOMEM;
	free(list);
	return NULL;
}

/* Locked. */
static struct device *find_name(const char *name, size_t length)
{
	for (struct list *at = all.devices.next; at != &all.devices; at = at->next) {
		struct device *d = CONTAINER_OF(at, struct device, link);

		if (d->is_present && strlen(d->ibv.name) == length &&
		    memcmp(d->ibv.name, name, length) == 0)
			return d;
	}
	return NULL;
}

const struct device *device_named(const char *name, size_t length)
{
	struct device *d = NULL;
	int error;

	device_list_lock();
	if (all.devices.next)
		d = find_name(name, length);
	device_list_put();
	if (d)
		return d;
	(void)device_list_get(&error);
	d = find_name(name, length);
	device_list_put();
	return d;
}

bool device_is_known_as(const char *dev_name)
{
	bool is_found = false;

	device_list_lock();
	for (struct list *at = all.devices.next; at && at != &all.devices; at = at->next) {
		const struct device *d = CONTAINER_OF(at, struct device, link);

		is_found |= d->is_present && strcmp(d->ibv.dev_name, dev_name) == 0;
	}
	device_list_put();
	return is_found;
}

bool device_is_ours(const struct ibv_device *device)
{
	bool is_found = false;

	pthread_mutex_lock(&all.lock);
	for (struct list *at = all.devices.next; at && at != &all.devices; at = at->next)
		is_found |= &CONTAINER_OF(at, struct device, link)->ibv == device;
	pthread_mutex_unlock(&all.lock);
	return is_found;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

/* ---- What they are called ------------------------------------------------------------------- */

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device_of(device)->guid;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)device_index(device_of(device));
}

/* ---- For librdmacm -------------------------------------------------------------------------- */

static const struct sockaddr_in6 *v6(const struct sockaddr *a)
{
	return (const struct sockaddr_in6 *)(const void *)a;
}

/* Addresses of a link (fe80::) may be the same on several: their scope tells which. */
static bool is_same_on_link(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			      &((const struct sockaddr_in *)(const void *)b)->sin_addr,
			      sizeof(struct in_addr)) == 0;
	if (v6(a)->sin6_scope_id && v6(b)->sin6_scope_id &&
	    v6(a)->sin6_scope_id != v6(b)->sin6_scope_id)
		return false;
	return memcmp(&v6(a)->sin6_addr, &v6(b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_loopback(const struct sockaddr *a)
{
	return a->sa_family == AF_INET &&
	       ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
}

/*
 * The interface that has the address. Loopback has all of 127, though it lists one: that is enough
 * for TCP, but the others are no GIDs.
 */
static bool has_address(const struct ifaddrs *i, const struct sockaddr *address,
			enum device_kind kind)
{
	if (!i->ifa_addr || i->ifa_addr->sa_family != address->sa_family)
		return false;
	return is_same_on_link(i->ifa_addr, address) ||
	       (kind == DEVICE_IWARP && (i->ifa_flags & IFF_LOOPBACK) && is_loopback(address));
}

static struct context *shared_context(struct device *d)
{
	if (!d->shared)
		d->shared = context_open(d, WEFT_POLICY_OPEN);
	if (d->shared)
		d->shared->is_shared = true;
	return d->shared;
}

static struct device *device_at(const struct ifaddrs *list, const struct sockaddr *address,
				enum device_kind kind)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct device *d = find_of(i, kind);

		if (d && d->is_present && has_address(i, address, kind))
			return d;
	}
	return NULL;
}

struct ibv_context *weftv_context_at(const struct sockaddr *address, bool is_roce)
{
	struct context *c = NULL;
	struct ifaddrs *list;
	struct device *d;
	int error;

	if (getifaddrs(&list) < 0)
		return NULL;
	(void)device_list_get(&error);
	d = device_at(list, address, is_roce ? DEVICE_ROCE : DEVICE_IWARP);
	if (d)
		c = shared_context(d);
	else
		errno = ENODEV; /* no device has it, as far as is known */
	device_list_put();
	freeifaddrs(list);
	return c ? &c->verbs.context : NULL;
}

bool weftv_is_ib(const struct ibv_context *context)
{
	return is_ib(context);
}

struct ibv_context **weftv_contexts(int *count)
{
	int n = 0, present = 0, error;
	struct ibv_context **list;
	struct device **found;

	(void)device_list_get(&error);
	list = calloc(all.made + 1, sizeof(*list));
	found = calloc(all.made + 1, sizeof(struct device *));
	if (!list || !found)
		error = ENOMEM;
	else if (!error)
		error = ENODEV;
	if (list && found)
		present = gather_all(found);
	for (int i = 0; i < present; i++) {
		struct context *c = shared_context(found[i]);

		if (c)
			list[n++] = &c->verbs.context;
		else
			error = errno;
	}
	device_list_put();
	free(found);
	if (count)
		*count = n;
	if (n == 0)
		errno = error;
	return list;
}
