#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""devices_test.py WEFT: weft devices as a person meets it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import shutil
import sys

from script import Skip, compile_c, expect, expect_equal, main, need, run

WEFT = os.path.realpath(sys.argv[1])


def without_network(*words):
    """In a network namespace of its own, where only a loopback is that is down."""
    need("unshare")
    if run("unshare", "-rn", "true").returncode != 0:
        raise Skip("no leave to make a network namespace")
    return run("unshare", "-rn", *words)


def test_devices_shows_loopback(_folder):
    done = run(WEFT, "devices")
    expect_equal("status", done.returncode, 0)
    found = re.search(r"^iw_lo +lo +active +([0-9a-f]{4}:){3}[0-9a-f]{4} TCP +127\.0\.0\.1( ::1)?$",
                      done.stdout, re.M)
    expect("loopback in " + done.stdout, found)
    found = re.search(r"^roce_lo +lo +active +([0-9a-f]{4}:){3}[0-9a-f]{4} near +0=127\.0\.0\.1( 1=::1)?$",
                      done.stdout, re.M)
    expect("its GIDs in " + done.stdout, found)


def test_devices_says_how_connections_within_the_host_go(_folder):
    for wish, way in ("off", "UDP"), ("packets", "packets"), ("on", "near"):
        rows = [line.split() for line in run(WEFT, "devices", WEFT_NEAR=wish).stdout.splitlines()]
        ways = {row[0]: row[4] for row in rows if row[0].endswith("_lo")}
        expect_equal("WEFT_NEAR=" + wish, ways, {"roce_lo": way, "iw_lo": "TCP"})


def test_devices_shows_what_programs_see(_folder):
    need("ibv_devices")
    ours = {line.split()[0]: line.split()[3].replace(":", "")
            for line in run(WEFT, "devices").stdout.splitlines()[1:]}
    seen = dict(line.split() for line in run(WEFT, "run", "ibv_devices").stdout.splitlines()[2:])
    expect_equal("names and GUIDs", ours, seen)


def test_devices_are_narrowed(_folder):
    lines = run(WEFT, "devices", WEFT_DEVICES="iw_lo,other").stdout.splitlines()
    expect_equal("devices", [line.split()[0] for line in lines], ["device", "iw_lo"])
    lines = run(WEFT, "devices", WEFT_DEVICES="roce_lo").stdout.splitlines()
    expect_equal("devices", [line.split()[0] for line in lines], ["device", "roce_lo"])
    for wish in ("iw_nothing", "", "lo", "iw_", "roce_"):
        done = run(WEFT, "devices", WEFT_DEVICES=wish)
        expect_equal("status", done.returncode, 1)
        expect_equal("stdout", done.stdout, "")
        expect("why: " + done.stderr, "WEFT_DEVICES=%s names none" % wish in done.stderr and
               "iw_lo" in done.stderr)


def test_devices_says_that_loopback_is_down(_folder):
    done = without_network(WEFT, "devices")
    expect_equal("status", done.returncode, 1)
    expect_equal("why", done.stderr, "weft devices: none: no network interface is up and has an "
                 "address (lo is down); ip link set lo up\n")


def test_devices_are_interfaces_whatever_labels_their_addresses_have(_folder):
    need("ip")
    done = without_network("sh", "-c", "ip link set lo up && ip addr add 127.9.0.1/8 dev lo label "
                           "lo:one && exec " + WEFT + " devices")
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    expect_equal("devices", [row[0] for row in rows], ["roce_lo", "iw_lo"])
    expect("addresses: " + done.stdout, {"127.0.0.1", "127.9.0.1"} <= set(rows[1]))
    expect("GIDs: " + done.stdout, {"0=127.0.0.1", "1=127.9.0.1"} <= set(rows[0]))


def test_devices_whose_link_is_down_are_down(_folder):
    need("ip")
    # The other end of it is not up, so it has no carrier.
    done = without_network("sh", "-c", "ip link add weft0 type veth peer name weft1 && ip addr add "
                           "192.0.2.1/24 dev weft0 && ip link set weft0 up && exec " + WEFT +
                           " devices")
    if "Unknown device type" in done.stderr or "not supported" in done.stderr:
        raise Skip("no veth here")
    expect("weft0 in " + done.stdout + done.stderr, re.search(r"^iw_weft0 +weft0 +down ",
                                                              done.stdout, re.M))


def test_devices_are_as_fast_as_their_links(_folder):
    need("ip")
    need("ibv_devinfo")
    done = without_network("sh", "-c", "ip link add weft0 type veth peer name weft1 && ip addr add "
                           "192.0.2.1/24 dev weft0 && ip link set weft0 up && ip link set weft1 up "
                           "&& ip link set lo up && exec " + WEFT + " run ibv_devinfo -v")
    if "Unknown device type" in done.stderr or "not supported" in done.stderr:
        raise Skip("no veth here")
    speeds = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["hca_id:"]:
            device = words[1]
        elif words[:1] in (["active_width:"], ["active_speed:"]):
            speeds.setdefault(device, []).append(" ".join(words[1:]))
    expect_equal("veth, of 10 Gb/s", speeds.get("iw_weft0"), ["1X (1)", "10.0 Gbps (8)"])
    expect_equal("loopback, as fast as memory", speeds.get("iw_lo"), ["4X (2)", "25.0 Gbps (32)"])
    expect_equal("the same of RoCE", speeds.get("roce_lo"), ["4X (2)", "25.0 Gbps (32)"])


BIND = r"""
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

/* Binds to fe80::1 of each interface that it is given, and prints which devices that were. */
int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	for (int i = 1; i < argc; i++) {
		struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = {{{ 0xfe, 0x80 }}} };
		struct rdma_cm_id *id;

		at.sin6_addr.s6_addr[15] = 1;
		at.sin6_scope_id = if_nametoindex(argv[i]);
		if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
		    rdma_bind_addr(id, (struct sockaddr *)&at) != 0) {
			perror(argv[i]);
			return 1;
		}
		puts(id->verbs->device->name);
	}
	return 0;
}
"""


def test_devices_of_one_address_are_told_apart_by_its_link(folder):
    need("gcc", "ip")
    program = compile_c(os.path.join(folder, "bind"), BIND, "-lrdmacm", "-libverbs")
    done = without_network("sh", "-c", "ip link add weft0 type veth peer name weft1 && for i in "
                           "weft0 weft1; do ip link set $i up; ip addr add fe80::1/64 dev $i nodad;"
                           " done && exec %s run %s weft0 weft1" % (WEFT, program))
    if "Unknown device type" in done.stderr or "not supported" in done.stderr:
        raise Skip("no veth here")
    expect_equal("devices", done.stdout.split(), ["roce_weft0", "roce_weft1"])


def test_devices_says_that_there_is_no_address(_folder):
    need("ip")
    done = without_network("sh", "-c", "ip link set lo up && ip addr flush dev lo && exec " + WEFT +
                           " devices")
    expect("why: " + done.stderr, done.returncode == 1 and "lo has no address" in done.stderr)


def test_devices_do_not_blame_a_choice_for_what_is_not_there(_folder):
    done = without_network("env", "WEFT_DEVICES=iw_lo", WEFT, "devices")
    expect("why: " + done.stderr, "lo is down" in done.stderr)


def test_devices_refuses_wrong_calls(folder):
    done = run(WEFT, "devices", "all")
    expect("usage", done.returncode == 2 and 'what is "all"?' in done.stderr)
    expect("help", run(WEFT, "devices", "-h").stdout.startswith("usage: weft devices"))
    alone = shutil.copy(WEFT, folder)
    done = run(alone, "devices")
    expect("libraries: " + done.stderr, done.returncode == 1 and "libraries" in done.stderr)
    for name in ("libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"):
        with open(os.path.join(folder, name), "w"):
            pass
    done = run(alone, "devices")
    expect("loader's word: " + done.stderr, done.returncode == 1 and "too short" in done.stderr)


main(globals())
