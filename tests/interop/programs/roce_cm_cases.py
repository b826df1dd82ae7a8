# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect by librdmacm on RoCE devices, each case in a network of its own.

Packets of RoCE go to one port of the host, which all its processes share.
"""
import dataclasses

import cm_cases
from runner import Case, Side

RPING_NOT = cm_cases.RPING_NOT


def on_roce(case):
    """A server that has devices of both kinds; a client that has RoCE's."""
    client = dataclasses.replace(case.client, env=dict(case.client.env, WEFT_DEVICES="roce_*"))
    return dataclasses.replace(case, name="roce_" + case.name, network=True, client=client)


# What is the same on both kinds of devices.
SAME = ["rping_ipv4", "rping_ipv6", "rping_any_address", "rping_any_address_ipv6",
        "rping_any_address_both_families", "rping_smallest", "rping_large", "rping_own_queue_pair",
        "rping_own_queue_pair_client", "rping_persistent_server_50_clients",
        "ucmatose_100_connections", "ucmatose_ipv6", "ucmatose_migrating",
        "rdma_client_and_server", "cmtime_200_connections"]
CASES = [on_roce(c) for c in cm_cases.CASES if c.name in SAME]

CASES += [on_roce(c) for c in [
    Case("rping_nobody_there",
         client=Side("rping -c -a 127.0.0.1 -p PORT -C 1", ["RDMA_CM_EVENT_REJECTED, error 8"],
                     status=255)),
]]
