# SPDX-License-Identifier: BSD-2-Clause
"""Programs that only look (packages ibverbs-utils, infiniband-diags)."""
from runner import Case, Side

CASES = [
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
