/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/link.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/device.h"

/* False: its interface has gone meanwhile. */
static bool tell(const struct device *d, struct weftv_link *to)
{
	struct ibv_port_attr port;

	if (port_tell(d, 1, &port) != 0)
		return false;
	*to = (struct weftv_link){
		.index = device_index(d),
		.interface_index = d->index,
		.guid = be64toh(d->guid),
		.capabilities = device_capabilities(d),
		.node_type = (uint8_t)d->ibv.node_type,
		.state = (uint8_t)port.state,
		.physical_state = port.phys_state,
		.is_roce = d->kind == DEVICE_ROCE,
		.is_in_fabric = d->kind == DEVICE_FABRIC,
	};
	snprintf(to->name, sizeof(to->name), "%s", d->ibv.name);
	snprintf(to->version, sizeof(to->version), "%s", weft_version());
	snprintf(to->interface, sizeof(to->interface), "%s", d->interface);
	return true;
}

int weftv_links(struct weftv_link **links)
{
	int found, n = 0;
	struct ibv_device **list = ibv_get_device_list(&found);

	if (!list)
		return errno ? -errno : -ENOMEM;
	*links = calloc((size_t)found + 1, sizeof(**links));
	for (int i = 0; *links && i < found; i++)
		n += tell(device_of(list[i]), *links + n);
	ibv_free_device_list(list);
	return *links ? n : -ENOMEM;
}
