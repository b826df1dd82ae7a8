#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ibsim_test.py WEFT: Debian's infiniband-diags say of a fabric what they say of ibsim with the same topology.

What they say is compared line by line, but for facts of the hardware that either is, as docs/fabric.md lists them:
vendor, sizes of tables, capabilities, widths and speeds that it could have, MTU, lanes; and counts of what was sent.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import difflib
import os
import re
import sys

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import Fabric, HOSTS, Ibsim, expect, expect_equal, up  # noqa: E402
from script import main  # noqa: E402

# Lines and parts of lines that are no matter of the topology, of any tool.
FACTS = re.compile("|".join((
    r"generated on .*", r"vend(id|or_id|orId)\W*0x\w+", r"VendorId:\.*0x\w+",
    r"(PartCap|partition_cap|PartEnforceCap|LinearFdbCap)\W+\w+", r"LocalPort:.*", r"GidPrefix:.*",
    r"CapMask2?: ?[.\w]+", r"capability_mask\W+\w+", r"^\s+Is[A-Z]\w+$", r"MkeyLeasePeriod:.*",
    r"LinkWidth(Enabled|Supported):.*", r"LinkSpeedSupported:.*", r"LinkSpeedExt\w+:.*", r"NeighborMTU:.*", r"MtuCap:.*",
    r"VLCap:.*", r"OperVLs:.*", r"VLArb(High|Low)Cap:.*", r"PartEnforce(Inb|Outb):.*", r"(In|Out)boundPartEnf:.*",
    r"(SubnetTimeout|RespTimeVal|LocalPhysErr|OverrunErr|HoqLife|GuidCap|CapabilityMask2):.*", r"^\s*(mtu|rate)\.+.*",
    r"Port(Xmit|Rcv)(Data|Pkts):.*", r"activity count \d+", r"\((Could be [^)]*| )\)$",
    r"(CA|CA type:|Firmware version:|Capability mask:|Link layer:) \S+$", r"[ \t]+$")), re.M)
LINES = re.compile(r"\n\s*\n+")

TOPOLOGY = ("ibnetdiscover", "ibnetdiscover -l", "ibnetdiscover -p", "ibnetdiscover -g", "ibnetdiscover -s", "ibhosts", "ibswitches", "ibnodes",
            "iblinkinfo", "iblinkinfo -l", "iblinkinfo -D 0")
ROUTES = ("ibtracert 5 7", "ibtracert -f 5 8", "ibtracert -G 0x100101 0x100301", "ibroute 2", "ibroute 3", "ibroute -M 2",
          "dump_fts", "dump_mfts", "dump_lfts", "ibaddr", "ibaddr 7", "sminfo", "sminfo 1")
PORTS = ("ibstat", "ibstat -p", "smpquery nodeinfo 3", "smpquery nodeinfo 7", "smpquery -D nodeinfo 0,1",
         "smpquery -G nodeinfo 0x100201", "smpquery nodedesc 3", "smpquery portinfo 3 1", "smpquery portinfo 3 8",
         "smpquery portinfo 7 1", "smpquery switchinfo 3", "ibportstate 7 1", "ibportstate -D 0,1 1")
COUNTERS = ("perfquery 2 1", "perfquery 7 1", "perfquery -a 2", "perfquery -l -a 2", "ibqueryerrors", "ibqueryerrors -r",
            "ibqueryerrors --details")
# ibsim loses what follows the first packet of a long answer.
SUBNET = ("saquery NR 6", "saquery NR 3", "saquery PIR 6/1", "saquery PIR 3/1", "saquery SL2VL 3/1/2", "saquery LFTR 3/0", "saquery LR",
          "saquery MCMR", "saquery -g", "saquery -m", "saquery -c", "saquery -s", "saquery -p --src-to-dst 5:7",
          "saquery -p --sgid fe80::10:101 --dgid fe80::10:301")


def plain(said):
    return LINES.sub("\n", FACTS.sub("", said)).strip().splitlines()


def compare(folder, commands):
    """Of an endnode's place, after OpenSM has given the same LIDs."""
    sim, live = (os.path.join(folder, name) for name in ("sim", "live"))
    os.mkdir(sim)
    os.mkdir(live)
    with Ibsim(sim) as simulated, Fabric(live) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        for words in commands:
            theirs, ours = (plain(of.run("H2", *words.split())) for of in (simulated, fabric))
            expect("%s says something: %s" % (words, ours), ours)
            expect_equal(words, "\n".join(difflib.unified_diff(theirs, ours, "ibsim", "weft", lineterm="", n=0)), "")


def test_fab_22d_nodes_and_cables_are_those_of_ibsim(folder):
    compare(folder, TOPOLOGY)


def test_fab_22d_routes_are_those_of_ibsim(folder):
    compare(folder, ROUTES)


def test_fab_22d_ports_are_those_of_ibsim(folder):
    compare(folder, PORTS)


def test_fab_22d_counters_are_those_of_ibsim(folder):
    compare(folder, COUNTERS)


def test_fab_22d_records_of_the_subnet_are_those_of_ibsim(folder):
    compare(folder, SUBNET)


def test_facts_of_the_hardware_are_all_that_is_passed_over(folder):
    """A line of each kind that says where something is, or how it is, stays."""
    for line in ("[3]     \"S-0000000000100600\"[3]         # \"S2\" lid 3 4xSDR", "LinkState:.......................Active",
                 "LinkWidthActive:.................4X", "SymbolErrorCounter:..............0", "Lid:.............................6",
                 "\t\tslid....................5", "LMC:.............................0", "PortXmitDiscards:................0",
                 "sminfo: sm lid 1 sm guid 0x100001, priority 0 state 3 SMINFO_MASTER", "LinkSpeedEnabled:................2.5 Gbps",
                 "\t\tBase lid: 5", "\t\tState: Active", "VLHighLimit:.....................0"):
        expect_equal("stays", plain(line), [line.strip()])
    expect_equal("goes", plain("VendorId:........................0x626d74\n\t\t\t\tIsTrapSupported\n"), [])


main(globals())
