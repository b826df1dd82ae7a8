#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""dpdk_test.py WEFT: DPDK's virtio-user as the client of a host's vhost-user port, of a card that is split.

DPDK needs neither hugepages nor a device for it: its memory is a file that cannot be sealed (--no-huge).
Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import SERVER, Card, wait_until  # noqa: E402
from script import PATIENCE_S, expect, expect_equal, main, need  # noqa: E402

MAC, ADDRESS = "02:00:00:00:00:78", "192.0.2.9"
BURST, RING = 10000, 256


class Testpmd:
    """dpdk-testpmd with one port, in one of its modes, until it is told to end."""

    def __init__(self, card, mode):
        cpu = min(os.sched_getaffinity(0))
        words = ["dpdk-testpmd", "--lcores=0@%d,1@%d" % (cpu, cpu), "--no-huge", "-m", "64", "--no-pci", "--no-telemetry",
                 "--vdev=net_virtio_user0,path=%s/guest,mac=%s" % (card.folder, MAC), "--", "--total-num-mbufs=2048",
                 "--forward-mode=" + mode, "--auto-start", "--stats-period=1"]
        self.process = card.host_spaces[0].start(*words, wishes={"RUNTIME_DIRECTORY": card.folder},
                                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self):
        """In order: packets that it has received and sent."""
        self.process.terminate()
        said = self.process.communicate(timeout=PATIENCE_S)[0]
        return [int(re.findall(r"%s-packets: (\d+)" % way, said)[-1]) for way in ("RX", "TX")]


def dpdk_card(folder, **wishes):
    need("dpdk-testpmd")
    return Card(folder, port="vhost-user:%s/guest" % folder, macs=[MAC], **wishes)


def port_of(end):
    return end.status()["ports"][0]


def answers(card):
    """The server asks by ARP who has an address, and DPDK echoes what comes."""
    done = card.server.run("ping", "-c", "20", "-i", "0.05", "-w", str(PATIENCE_S // 2), "-s", "1472", ADDRESS)
    expect_equal("ping: " + done.stdout + done.stderr, done.returncode, 0)


def echoes(folder, wire):
    with dpdk_card(folder, wire=wire).start() as card:
        with Testpmd(card, "icmpecho") as dpdk:
            answers(card)
            received, sent = dpdk.end()
        expect("DPDK counts them: %d, %d" % (received, sent), received >= 21 and sent >= 21)
        # The next one is served, too.
        with Testpmd(card, "icmpecho") as dpdk:
            answers(card)
            dpdk.process.kill()
            wait_until("the host misses it", lambda: port_of(card.hosts[0]).get("why") == "lan_ended")
        with Testpmd(card, "icmpecho"):
            answers(card)
        link = card.hosts[0].link()
        expect("by the card: %r" % link, link["refused"] == 0 and link["bytes_in"] > 60 * 1472)


def test_push_01_dpdk_by_vhost_user_over_roce(folder):
    echoes(folder, "roce")


def test_push_01_dpdk_by_vhost_user_over_iwarp(folder):
    echoes(folder, "iwarp")


def on_the_lan(card):
    said = json.loads(card.server.must("ip", "-j", "-s", "link", "show", "srv0"))
    return said[0]["stats64"]["rx"]["packets"]


def taken_by_the_lan(card):
    """Frames that the unit has sent, or dropped and counted."""
    said = card.unit.status()
    return said["ports"][0]["frames_out"] + sum(drop["count"] for drop in said["drops"] if drop["way"] == "out")


def test_push_24_dpdk_that_sends_without_a_pause_loses_nothing_unsaid(folder):
    with dpdk_card(folder).start() as card, Testpmd(card, "txonly") as dpdk:
        wait_until("the LAN has %d frames" % BURST, lambda: on_the_lan(card) > BURST)
        sent = dpdk.end()[1]
        wait_until("the host misses it", lambda: port_of(card.hosts[0]).get("why") == "lan_ended")
        taken = port_of(card.hosts[0])["frames_in"]
        expect("all but what lay in the ring at the end: %d of %d" % (taken, sent), sent - RING <= taken <= sent)
        wait_until("the unit has all of it", lambda: taken_by_the_lan(card) >= taken)
        expect_equal("frames", taken_by_the_lan(card), taken)


main(globals())
