#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""manage_test.py WEFT: Debian's opensm and infiniband-diags at nodes of a fabric that runs.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import (Fabric, HOSTS, expect, expect_equal, need, read, topology_of, up, wait_until)  # noqa: E402
from script import main, write  # noqa: E402

# Two levels: any two hosts of different leaves have two ways.
TREE = topology_of("S1:1 H1:1,S1:2 H2:1,S2:1 H3:1,S2:2 H4:1,S1:3 S3:1,S1:4 S4:1,S2:3 S3:2,S2:4 S4:2")


def test_fab_22d_every_tool_is_answered(folder):
    need("ibping", "saquery", "perfquery")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        there = fabric.lid("H4")
        for words, answer in (("ibstatus", "4: ACTIVE"), ("iblinkinfo", '"S1"'), ("sminfo", "SMINFO_MASTER"),
                              ("smpquery portinfo %d" % there, "LinkState:.......................Active"),
                              ("smpquery -D switchinfo 0,1", "LinearFdbTop"), ("perfquery %d 1" % there, "PortRcvData:"),
                              ("perfquery -x %d 1" % there, "PortRcvPkts:"), ("ibportstate %d 1" % there, "LinkUp"),
                              ("saquery -N", "NodeDescription.........H3"), ("saquery PR", "PathRecord dump"),
                              ("saquery -p --src-to-dst %d:%d" % (fabric.lid("H2"), there), "dlid....................%d" % there),
                              ("ibqueryerrors", "0 ports have errors beyond threshold")):
            said = fabric.run("H2", *words.split())
            expect("%s: %s" % (words, said), answer in said)
        fabric.start("H4", "ibping", "-S")
        wait_until("ibping is answered", lambda: " 0% packet loss" in
                   fabric.run("H2", "ibping", "-c", "3", "-f", str(there), status=None))
        # A path to nowhere.
        path = fabric.run("H2", "saquery", "-p", "--sgid-to-dgid", "fe80::1-fe80::2", status=None)
        expect(path, "PathRecord dump" not in path)


def test_fab_18_every_routing_engine_of_opensm(folder):
    with Fabric(folder, TREE) as fabric:
        for engine in "minhop updn ftree lash dfsssp".split():
            manager = fabric.opensm("H1", "-R", engine, "-Q")
            manager.await_log("SUBNET UP")
            said = read(manager.log)
            expect(said, engine + " tables configured on all switches" in said)
            fabric.await_active("H1", "H2", "H3", "H4")
            lids = [str(fabric.lid(node)) for node in ("H1", "H2", "H3", "H4")]
            for to in ("H2", "H3", "H4"):
                way = fabric.run("H1", "ibtracert", lids[0], lids[int(to[1]) - 1])
                expect("%s: %s" % (engine, way), 'To ca' in way and '"%s"' % to in way)
            manager.end()
            os.remove(manager.log)


def test_fab_22d_a_standby_takes_over(folder):
    hasty = write(os.path.join(folder, "conf"), "sminfo_polling_timeout 300\npolling_retry_number 2\n", 0o644)
    with Fabric(folder) as fabric:
        first = up(fabric, "H1", "-F", hasty, "-p", "5")
        second = fabric.opensm("H3", "-F", hasty, "-p", "4")
        second.await_log("Entering STANDBY state")
        first.kill()
        second.await_log("Entering MASTER state")
        wait_until("its SM is H3", lambda: "guid 0x%s" % "100201" in fabric.run("H5", "sminfo", status=None))
        fabric.await_active(*HOSTS)


def test_fab_22d_a_port_keeps_its_m_key(folder):
    conf = write(os.path.join(folder, "conf"), "m_key 0x1234\nm_key_protection_level 2\nm_key_lease_period 0\n", 0o644)
    with Fabric(folder) as fabric:
        manager = up(fabric, "H1", "-F", conf)
        fabric.await_active(*HOSTS)
        to = str(fabric.lid("H3"))
        said = fabric.run("H2", "smpquery", "-t", "100", "portinfo", to, status=None)
        expect(said, "Lid:" not in said and "failed" in said)
        said = fabric.run("H2", "smpquery", "-y", "0x1234", "portinfo", to)
        expect(said, "LinkState:.......................Active" in said)
        expect(said, not re.search(r"MkeyViolations:\.+0\n", said))
        manager.await_log("num:256")


# Hosts are limited members, which may not talk to one another.
PARTITIONS = "Default=0x7fff : ALL=limited, SELF=full ;\n"


def refused_in(fabric, is_counted):
    """Datagrams of H2 to H3, until it is counted that their P_Key is refused."""
    need("ibv_ud_pingpong")
    words = ["ibv_ud_pingpong", "-p", str(20000 + os.getpid() % 20000), "-n", "1"]
    fabric.start("H3", *words)
    clients = []

    def is_so():
        if not clients or clients[-1].process.poll() is not None:  # the server was not there yet
            clients.append(fabric.start("H2", *words, "localhost"))
        return is_counted()

    wait_until("it is counted", is_so)


def test_fab_22f_a_switch_keeps_partitions_apart(folder):
    conf = write(os.path.join(folder, "partitions"), PARTITIONS, 0o644)
    with Fabric(folder) as fabric:
        manager = up(fabric, "H1", "-P", conf)
        fabric.await_active(*HOSTS)
        leaf = re.search(r'"S2" lid (\d+) ', fabric.run("H1", "ibnetdiscover"))[1]
        refused_in(fabric, lambda: re.search(r"PortXmitConstraintErrors:\.+[1-9]",
                                             fabric.run("H1", "perfquery", leaf, "1")))
        manager.await_log("num:259")


def test_fab_22f_a_packet_of_another_partition_is_counted_and_told(folder):
    conf = write(os.path.join(folder, "partitions"), PARTITIONS, 0o644)
    with Fabric(folder) as fabric:
        manager = up(fabric, "H1", "-P", conf, "-Z", "off")
        fabric.await_active(*HOSTS)
        refused_in(fabric, lambda: re.search(r"PkeyViolations:\.+[1-9]",
                                             fabric.run("H1", "smpquery", "portinfo", str(fabric.lid("H3")))))
        manager.await_log("num:257")


def test_fab_22d_opensm_ends_after_its_fabric(folder):
    with Fabric(folder) as fabric:
        manager = up(fabric)
        fabric.process.terminate()
        fabric.process.wait()
        manager.process.terminate()
        manager.process.wait(timeout=30)
        expect(manager.said(), "Exiting SM" in manager.said())


main(globals())
