/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/vlans.h"

#include <string.h>

void lan_vlans_put(struct lan_vlans *v, int index, uint16_t id)
{
	uint32_t i = 0;

	while (i < v->count && v->of[i].index != index)
		i++;
	if (i < v->count)
		v->of[i] = v->of[--v->count];
	if (id == 0 || id > LAN_VLAN_ID_MAX)
		return;
	v->has_more |= v->count == LAN_VLAN_INTERFACES_MAX;
	if (v->count < LAN_VLAN_INTERFACES_MAX)
		v->of[v->count++] = (struct lan_vlan){ index, id };
}

uint32_t lan_vlans_list(const struct lan_vlans *v, uint16_t ids[LAN_VLANS_MAX])
{
	bool is_there[LAN_VLAN_ID_MAX + 1] = { false }, has_more = v->has_more;
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->count; i++)
		is_there[v->of[i].id] = true;
	memset(ids, 0, LAN_VLANS_MAX * sizeof(ids[0]));
	for (uint16_t id = 1; id <= LAN_VLAN_ID_MAX && !has_more; id++) {
		has_more = is_there[id] && count == LAN_VLANS_MAX;
		if (is_there[id] && !has_more)
			ids[count++] = id;
	}
	if (!has_more)
		return count;
	memset(ids, 0, LAN_VLANS_MAX * sizeof(ids[0]));
	return 0;
}
