#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fabric_programs_test.py BUILD_DIR: programs of others on ports of a fabric, by LIDs.

The fabric is two ports back to back (tests/fabric/bed_sample.c). Prints `ok NAME`, `not ok NAME: why` or
`skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "../fabric")]
import migrating  # noqa: E402
from live import wait_until  # noqa: E402
from script import (PATIENCE_S, environment, expect, expect_equal, go_to_own_network, main, need,
                    patient, run)

BUILD = os.path.realpath(sys.argv[1])
WEFT = os.path.join(BUILD, "weft")


class Bed:
    """The fabric's process."""

    def __enter__(self):
        # It is a test program itself: of the names of tests that are wanted none is its own.
        self.process = subprocess.Popen([os.path.join(BUILD, "tests", "fabric_bed")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment())
        self.name = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self, node, *words, **wishes):
        return subprocess.Popen([WEFT, "run", "--node", node, "--", *words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment(WEFT_FABRIC=self.name, **wishes))

    def run(self, node, *words, **wishes):
        process = self.start(node, *words, **wishes)
        out, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out

    def pair(self, *words, to="127.0.0.1", by=None):
        """A server at the right, a client at the left, which is started until there is a server."""
        where = [by, to] if by else [to]
        server = self.start("right", *words)
        for _ in range(100):
            status, out = self.run("left", *words, *where)
            if status == 0 or not re.search("onnect|REJECTED", out) or server.poll() is not None:
                break
        if status != 0:
            server.kill()
        said, _ = server.communicate(timeout=PATIENCE_S)
        expect("client: %s server: %s" % (out, said), status == 0 and server.returncode == 0)
        return out, said


def test_sys_03_node_has_its_adapter_and_no_other(_folder):
    need("ibv_devices")
    with Bed() as bed:
        status, out = bed.run("right", "ibv_devices")
        expect_equal("status", status, 0)
        expect_equal(out, [line.split() for line in out.splitlines()[2:]], [["fab0", "0000000000000101"]])
        # weft run would say it, too.
        for node, fabric in ("middle", bed.name), ("right", "no-" + bed.name):
            done = run("ibv_devices", LD_LIBRARY_PATH=BUILD, WEFT_NODE=node, WEFT_FABRIC=fabric)
            expect(done.stderr, done.stderr.count("fab0 is not there") == 1 and "0000" not in done.stdout)


def test_fab_22b_port_says_what_the_subnet_manager_has_set(_folder):
    need("ibv_devinfo")
    with Bed() as bed:
        _, out = bed.run("right", "ibv_devinfo", "-v")
        for line in ("transport:\t\t\tInfiniBand (0)", "node_guid:\t\t\t0000:0000:0000:0101", "phys_port_cnt:\t\t\t1",
                     "state:\t\t\tPORT_ACTIVE (4)", "max_mtu:\t\t4096 (5)", "active_mtu:\t\t2048 (4)", "sm_lid:\t\t\t1",
                     "port_lid:\t\t32", "port_lmc:\t\t0x01", "link_layer:\t\tInfiniBand", "active_width:\t\t4X (2)",
                     "active_speed:\t\t25.0 Gbps (32)", "phys_state:\t\tLINK_UP (5)", "pkey_tbl_len:\t\t32",
                     "GID[  0]:\t\tfe80:0000:0000:0000:0000:0000:0000:0201"):
            expect("%r in %s" % (line, out), line in out)
        bed.tell("down", "right")
        bed.tell("lid", "right", 77)
        bed.tell("gid", "right", 3, 0xabc)
        _, out = bed.run("right", "ibv_devinfo", "-v")
        for line in ("PORT_DOWN (1)", "port_lid:\t\t77", "GID[  3]:\t\tfe80:0000:0000:0000:0000:0000:0000:0abc"):
            expect("%r in %s" % (line, out), line in out)


def test_fab_23_pingpong_by_lid(_folder):
    need("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
    with Bed() as bed:
        for number, kind in enumerate(("rc", "uc", "ud", "srq")):
            before = int(bed.tell("frames"))
            out, said = bed.pair("ibv_%s_pingpong" % kind, "-p", str(18600 + number), "-n", "100", "-c")
            expect(out, "remote address: LID 0x0020" in out and "GID ::" in out)
            expect(said, "remote address: LID 0x0010" in said)
            expect(kind, int(bed.tell("frames")) >= before + 200)


def test_fab_23_pingpong_by_gid(_folder):
    need("ibv_rc_pingpong", "ibv_ud_pingpong")
    with Bed() as bed:
        for number, kind in enumerate(("rc", "ud")):
            out, _ = bed.pair("ibv_%s_pingpong" % kind, "-p", str(18610 + number), "-n", "100", "-g", "0")
            expect(out, "remote address: LID 0x0020" in out and "GID fe80::201" in out)


def rows(out):
    return re.findall(r"^ *(\d+) +(\d+) +\d+\.\d+ ", out, re.M)


PERFTEST = (("ib_write_bw", "-s 65536"), ("ib_read_bw", "-s 65536"), ("ib_send_bw", "-c RC -s 4096"),
            ("ib_send_bw", "-c UC -s 1024"), ("ib_send_bw", "-c UD -s 1024"), ("ib_atomic_bw", ""),
            ("ib_send_lat", "-s 8"))


def perftest(bed, options, to):
    for number, (tool, own) in enumerate(PERFTEST):
        if "-R" in options and "UC" in own:
            continue  # perftest has none by librdmacm
        words = patient([tool, "-p", str(18620 + number), "-n", "100", *own.split(), *options])
        out, _ = bed.pair(*words, to=to)
        expect(tool + ": " + out, len(rows(out)) == 1)


def test_fab_23_perftest_by_lid(_folder):
    need("ib_write_bw")
    with Bed() as bed:
        perftest(bed, [], "127.0.0.1")


def test_fab_23_perftest_by_gid(_folder):
    need("ib_write_bw")
    with Bed() as bed:
        perftest(bed, ["-x", "0"], "127.0.0.1")


def test_fab_20_perftest_by_the_connection_manager(_folder):
    """127.1.0.1 is port 1 of node 1."""
    need("ib_write_bw")
    with Bed() as bed:
        perftest(bed, ["-R"], "127.1.0.1")


def test_fab_20_connection_manager_finds_nodes_by_name_address_and_gid(_folder):
    need("ucmatose", "udaddy")
    with Bed() as bed:
        for program in "ucmatose", "udaddy":
            for form, to in ("name", "right"), ("ip", "127.1.0.1"), ("ip6", "fe80::201"), ("gid", "fe80::201"):
                if program == "udaddy" and form != "ip":
                    continue
                words = [program] + (["-f", form] if program == "ucmatose" else []) + (["-P", "ib"] if form == "gid" else [])
                out, said = bed.pair(*words, to=to, by="-s")
                expect(form + ": " + out, "return status 0" in out and "return status 0" in said)


def test_fab_20_path_to_nowhere_is_refused(_folder):
    need("ucmatose")
    with Bed() as bed:
        for words, event in ((["-s", "127.1.0.9"], "ADDR_ERROR, error: -113"), (["-s", "127.2.0.1"], "ADDR_ERROR, error: -113"),
                             (["-s", "10.0.0.1"], "ADDR_ERROR, error: -113"),
                             (["-f", "gid", "-P", "ib", "-s", "fe80::301"], "ROUTE_ERROR, error: -113"),
                             (["-f", "gid", "-P", "ib", "-s", "fec0::201"], "ROUTE_ERROR, error: -113")):
            _, out = bed.run("left", "ucmatose", *words)
            expect(" ".join(words) + ": " + out, "RDMA_CM_EVENT_" + event in out)
        bed.tell("down", "right")
        _, out = bed.run("left", "ucmatose", "-s", "right")
        expect(out, "RDMA_CM_EVENT_ROUTE_ERROR, error: -113" in out)


def test_fab_20_ports_are_those_of_a_node(_folder):
    """Each node has its own service of one number, and no second."""
    need("ucmatose")
    with Bed() as bed:
        servers = [bed.start(node, "stdbuf", "-oL", "ucmatose") for node in ("left", "right", "right")]
        try:
            for server in servers:
                expect("begins", "starting server" in server.stdout.readline())
            wait_until("one of two ends", lambda: any(server.poll() is not None for server in servers[1:]))
            servers.sort(key=lambda server: server.poll() is not None)  # which of the two was first, nothing says
            out, _ = servers.pop().communicate(timeout=PATIENCE_S)
            expect(out, "in use" in out)
            for _ in range(100):
                _, out = bed.run("left", "ucmatose", "-s", "right")
                if "return status 0" in out:
                    break
            expect(out, "return status 0" in out)
            said, _ = servers[1].communicate(timeout=PATIENCE_S)
            expect(said, "return status 0" in said)
            expect("left's still serves", servers[0].poll() is None)
        finally:
            for server in servers:
                server.kill()
                server.wait(PATIENCE_S)


def test_fab_22c_asyncwatch_tells_what_happens_to_the_port(_folder):
    need("ibv_asyncwatch")
    with Bed() as bed:
        watch = bed.start("left", "stdbuf", "-oL", "ibv_asyncwatch")
        first = watch.stdout.readline()
        expect(first, "async event FD" in first)
        lines = (("sm left 5", "SM_CHANGE"), ("down left", "PORT_ERR"), ("up left", "PORT_ACTIVE"),
                 ("lid left 16", "LID_CHANGE"), ("key left 1 0x8001", "PKEY_CHANGE"), ("gid left 1 7", "GID_CHANGE"),
                 ("again left", "CLIENT_REREGISTER"))
        try:
            for line, event in lines:
                expect_equal(line, bed.tell(line), "ok")
                said = watch.stdout.readline()
                expect(said, "IBV_EVENT_%s (" % event in said and said.endswith(", port 1\n"))
        finally:
            watch.kill()
            watch.wait(PATIENCE_S)


# The LIDs of the bed's nodes: two each (LMC 1). By the first goes one path, by the second the other.
LIDS = {"left": 16, "right": 32}


def migrating_pair(bed, **wishes):
    return migrating.pair(WEFT, environment(WEFT_FABRIC=bed.name, **wishes), LIDS)


def test_fab_20_trn_s2_program_goes_on_by_its_alternate_path(_folder):
    """libibverbs: a path is cut under Writes; then it is mended, and the program goes back to it."""
    with Bed() as bed:
        samples, words = migrating_pair(bed)
        left, right = samples
        try:
            expect_equal("device", left.tell("device"), "migrates")
            expect_equal("path", left.tell("path"), "MIGRATED 33 1 32 0")
            migrating.arm(samples, words)
            expect_equal("path 0 is not used", bed.tell("by 0 right"), "0")
            expect_equal("cut", bed.tell("cut 1"), "ok")
            expect_equal("writes", left.tell("write", words[1][1], words[1][2], 20), "success")
            for sample in samples:
                expect_equal("event", sample.tell("event"), "path migrated")
            expect_equal("path", left.tell("path"), "MIGRATED 32 0 33 1")
            expect_equal("path", right.tell("path"), "MIGRATED 16 0 17 1")
            expect("all by path 0", int(bed.tell("by 0 right")) >= 20 * 64)
            expect_equal("mend", bed.tell("mend 1"), "ok")
            migrating.arm(samples, words)
            before = int(bed.tell("by 1 right"))
            expect_equal("software migrates", left.tell("state MIGRATED"), "Success")
            expect_equal("event", left.tell("event"), "path migrated")
            expect_equal("write", left.tell("write", words[1][1], words[1][2], 1), "success")
            expect_equal("event", right.tell("event"), "path migrated")
            expect("by path 1", int(bed.tell("by 1 right")) >= before + 64)
            expect_equal("path", right.tell("path"), "MIGRATED 17 1 16 0")
        finally:
            for sample in samples:
                sample.end()


def test_fab_20_migration_that_is_none_is_refused(_folder):
    with Bed() as bed:
        samples, words = migrating_pair(bed, WEFT_LOG="error")
        left = samples[0]
        try:
            left.ask("state ARMED")
            expect("said", "may be IBV_MIG_REARM" in left.heard())
            expect_equal("ARMED", left.heard(), "Invalid argument")
            left.ask("alternate 0 0")
            expect("said", "dlid is 0" in left.heard())
            expect_equal("no LID", left.heard(), "Invalid argument")
            expect_equal("REARM", left.tell("state REARM"), "Success")
            left.ask("state MIGRATED")
            expect("said", "path_state: A queue pair goes to REARM" in left.heard())
            expect_equal("its peer may be armed", left.heard(), "Invalid argument")
            # The other end has not asked for it: no alternate path is taken.
            expect_equal("cut", bed.tell("cut 1"), "ok")
            expect_equal("write", left.tell("write", words[1][1], words[1][2], 1), "transport retry counter exceeded")
            expect_equal("path 0 is not used", bed.tell("by 0 right"), "0")
        finally:
            for sample in samples:
                sample.end()


if __name__ == "__main__":
    go_to_own_network()
    main(globals())
