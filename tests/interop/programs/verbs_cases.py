# SPDX-License-Identifier: BSD-2-Clause
"""Programs that only look (packages ibverbs-utils, infiniband-diags, iproute2)."""
import json
import os

from runner import Case, Side

LINK = r"^link %s/1 state ACTIVE physical_state LINK_UP netdev lo $"


def rows_of(folder):
    """What the one client printed as JSON, by the names of devices."""
    with open(os.path.join(folder, "client0.out"), encoding="utf-8") as f:
        return {row["ifname"]: row for row in json.load(f)}


def differs(row, **wanted):
    found = {key: row.get(key) for key in wanted}
    return None if found == wanted else "%s, not %s" % (found, wanted)


def check_links(folder):
    rows = rows_of(folder)
    numbers = [row["ifindex"] for row in rows.values()]
    if len(set(numbers)) != len(numbers) or 0 in numbers:
        return "devices have the numbers %s" % numbers
    return next(filter(None, (
        differs(rows.get(name, {}), port=1, state="ACTIVE", physical_state="LINK_UP", netdev="lo",
                netdev_index=1) for name in ("roce_lo", "iw_lo"))), None)


def check_devices(folder):
    rows = rows_of(folder)
    return differs(rows.get("roce_lo", {}), node_type="ca", node_guid="0200:00ff:fe00:0001",
                   sys_image_guid="0200:00ff:fe00:0001") or \
        differs(rows.get("iw_lo", {}), node_type="rnic", node_guid="0200:00ff:fe00:0001")


# iproute2 asks by netlink, and refuses names that it was not told of by itself.
RDMA = [
    Case("rdma_link", client=Side("rdma link", [(LINK % "roce_lo", 1), (LINK % "iw_lo", 1)])),
    Case("rdma_link_json", client=Side("rdma link show -j"), check=check_links),
    Case("rdma_link_one_iwarp", client=Side("rdma link show iw_lo/1", [(LINK % "iw_lo", 1)], ["roce_"])),
    Case("rdma_link_one_roce", client=Side("rdma link show roce_lo/1", [(LINK % "roce_lo", 1)], ["iw_"])),
    Case("rdma_link_narrowed",
         client=Side("rdma link", [(LINK % "iw_lo", 1)], ["roce_"], env={"WEFT_DEVICES": "iw_lo"})),
    Case("rdma_link_no_such_device",
         client=Side("rdma link show roce_none/1", ["^Wrong device name"], ["^link"], status=1)),
    Case("rdma_link_add_is_refused",
         client=Side("rdma link add more type siw netdev lo", ["Operation not supported"], status=1)),
    Case("rdma_dev",
         client=Side("rdma dev", [r"^\d+: roce_lo: node_type ca fw \S+ node_guid 0200:",
                                  r"^\d+: iw_lo: node_type rnic fw \S+ node_guid 0200:"])),
    Case("rdma_dev_json", client=Side("rdma dev show -j"), check=check_devices),
    Case("rdma_dev_details",
         client=Side("rdma -d dev show roce_lo", ["caps: <.*XRC, MEM_MGT_EXTENSIONS.*>"], ["iw_"])),
    Case("rdma_system", client=Side("rdma system", ["^netns exclusive copy-on-fork on"])),
    Case("rdma_resource_is_refused",
         client=Side("rdma resource", ["Operation not supported"], status=1)),
]

CASES = RDMA + [
    Case("ibv_devices", client=Side("ibv_devices", [r"^ +iw_lo +\t[0-9a-f]{16}$"])),
    Case("ibv_devinfo",
         client=Side("ibv_devinfo -v -d iw_lo",
                     [r"^\s*transport:\s+iWARP \(1\)$", r"^\s*state:\s+PORT_ACTIVE \(4\)$",
                      r"^\s*max_qp_wr:\s+\d+$", r"^\s*GID\[ *0\]:\s+fe80:"])),
    Case("ibv_devinfo_no_such_device",
         client=Side("ibv_devinfo -d iw_none", ["not found|No IB devices|wasn't found"], status=255)),
    Case("devices_narrowed",
         client=Side("ibv_devices", [r"iw_lo"], [r"iw_(?!lo)"], env={"WEFT_DEVICES": "iw_lo"})),
    Case("ibstat",
         client=Side("ibstat", [r"^CA 'roce_lo'$", r"^\s+CA type: weft$", r"^\s+State: Active$",
                                r"^\s+Physical state: LinkUp$", r"^\s+Link layer: Ethernet$"], ["iw_"])),
    Case("ibstat_list", client=Side("ibstat -l", [("^roce_lo$", 1)], ["iw_"])),
    Case("ls_sys_class_infiniband",
         client=Side("ls /sys/class/infiniband", [("^roce_lo$", 1), ("^iw_lo$", 1)])),
    Case("ibv_asyncwatch",
         server=Side("ibv_asyncwatch -d iw_lo", [r"^iw_lo: async event FD \d+$"], status="ended"),
         ready="async event FD"),
]
