# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect by librdmacm on RoCE devices, each case in a network of its own.

Packets of RoCE go to one port of the host, which all its processes share.
"""
import dataclasses
import ipaddress

import cm_cases
import perftest_cases
from network import ADDRESS
from runner import Case, Side, is_listening


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

UDADDY_PORT = 7174  # which no option changes


def udaddy(name, options, address="127.0.0.1", listen=""):
    """Each side sends to the other, and looks at what came."""
    done = ["^data transfers complete$", "^return status 0$"]
    return Case("udaddy" + name, Side("udaddy %s %s" % (options, listen), done),
                Side("udaddy %s -s %s" % (options, address), done),
                ready=lambda pid: is_listening(pid, UDADDY_PORT))


def has_joined(group):
    """A function that says whether a process's network takes what is sent to the group."""
    packed = ipaddress.ip_address(group).packed
    if len(packed) == 4:
        table, word = "igmp", packed[::-1].hex().upper()
    else:
        table, word = "igmp6", packed.hex()

    def has(pid):
        with open("/proc/%d/net/%s" % (pid, table), encoding="ascii") as f:
            return word in f.read()
    return has


def mckey(name, group, address, options=""):
    """The sender sends when the receiver has joined: what comes earlier is lost."""
    command = "mckey -m %s -b %s -c 2 -C 20 %s" % (group, address, options)
    done = ["^data transfers complete$", "^return status 0$"]
    return Case("mckey_" + name, Side(command, done), Side(command + " -s", done),
                ready=has_joined(group))


def perftest(tool, name, options, rows=None, iterations=r"\d+"):
    """Both sides alike; the client prints a row of results for each size."""
    command = "%s -R -d roce_lo -p PORT %s" % (tool, options)
    says = [(perftest_cases.ROW % (size, iterations), 1) for size in rows or [r"\d+"]]
    return Case("cm_%s%s" % (tool, name and "_" + name), Side(command, [], perftest_cases.NOT),
                Side(command + " 127.0.0.1", says, perftest_cases.NOT), seconds=60)


CASES += [on_roce(c) for c in [
    Case("rping_nobody_there",
         client=Side("rping -c -a 127.0.0.1 -p PORT -C 1", ["RDMA_CM_EVENT_REJECTED, error 8"],
                     status=255)),
    udaddy("", "-c 10 -C 50"),
    udaddy("_ipv6", "-c 3", "::1", "-b ::1"),
    udaddy("_not_loopback", "-c 3", ADDRESS),
    Case("udaddy_nobody_there",
         client=Side("udaddy -s 127.0.0.1", ["RDMA_CM_EVENT_UNREACHABLE, error: 1"],
                     status=None)),
    mckey("ipv4", "239.1.1.1", ADDRESS),
    mckey("loopback", "239.1.1.2", "127.0.0.1"),
    mckey("ipoib", "239.1.1.3", ADDRESS, "-p 2"),
    perftest("ib_write_bw", "all_sizes", "-a -n 20", perftest_cases.SIZES),
    perftest("ib_write_bw", "many_queue_pairs", "-q 4 -n 200", iterations="800"),
    perftest("ib_write_bw", "both_directions", "-b -n 200"),
    perftest("ib_read_bw", "", "-n 200"),
    perftest("ib_send_bw", "events", "-e -n 200"),
    perftest("ib_send_bw", "shared_receives", "--use-srq -n 200"),
    perftest("ib_send_bw", "datagrams", "-c UD -s 1024 -n 200", ["1024"]),
    perftest("ib_atomic_bw", "compare_and_swap", "-A CMP_AND_SWAP -n 200", ["8"]),
    perftest("ib_write_lat", "eight_bytes", "-s 8 -n 500", ["8"]),
    perftest("ib_read_lat", "eight_bytes", "-s 8 -n 500", ["8"]),
    perftest("ib_send_lat", "events", "-e -s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "datagrams", "-c UD -s 64 -n 500", ["64"]),
    perftest("ib_atomic_lat", "fetch_and_add", "-n 200", ["8"]),
]]
