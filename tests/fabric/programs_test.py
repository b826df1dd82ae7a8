#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""programs_test.py WEFT [--write]: programs of others on nodes of a fabric that OpenSM has brought up.

--write: what rdma-core's suite says becomes part of docs/conformance.md.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import subprocess
import sys
import threading

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)),
                os.path.join(os.path.dirname(os.path.realpath(__file__)), "../interop/programs")]
import pyverbs_suite  # noqa: E402
import ucx_cases  # noqa: E402
from live import (PATIENCE_S, WEFT, Fabric, Skip, expect, expect_equal, need, patient, topology_of, up,
                  wait_until)  # noqa: E402
import migrating  # noqa: E402
from script import go_to_own_network, main  # noqa: E402

# Two switches with two cables between them, and two hosts at each.
BRIDGE = """
Switch 8 "S1"
[1] "H1"[1]
[2] "H2"[1]
[3] "S2"[3]
[4] "S2"[4]
Switch 8 "S2"
[1] "H3"[1]
[2] "H4"[1]
Hca 1 "H1"
Hca 1 "H2"
Hca 1 "H3"
Hca 1 "H4"
"""


# The address of H3 for the connection manager: port 1 of node 4, counted from 0.
H3 = "127.1.0.4"


def pair(fabric, *words, to="localhost", **wishes):
    """A server, and a client that is started until there is a server. What the client said."""
    words = patient(words)
    serving = fabric.start("H3", *words, **wishes)
    done = None

    def is_done():
        nonlocal done
        done = subprocess.run([WEFT, "run", "--node", "H2", *words, to], env=fabric.env(**wishes), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)
        return done.returncode == 0 or serving.process.poll() is not None

    wait_until(lambda: "%s: %s server: %s" % (words, done.stdout, serving.said()), is_done)
    expect("%s: %s server: %s" % (words, done.stdout, serving.said()), done.returncode == 0)
    serving.succeeds()
    return done.stdout


class Up(Fabric):
    """A fabric that OpenSM has brought up from H1."""

    def __init__(self, folder, *words):
        super().__init__(folder, BRIDGE)
        self.words = words

    def __enter__(self):
        super().__enter__()
        self.manager = self.opensm("H1", *self.words)
        self.await_active("H1", "H2", "H3", "H4")
        return self


def test_fab_15_pingpong_through_switches(folder):
    need("ibv_rc_pingpong")
    with Up(folder) as fabric:
        for number, kind in enumerate(("rc", "uc", "ud", "srq", "xsrq")):
            said = pair(fabric, "ibv_%s_pingpong" % kind, "-p", str(18600 + number), "-n", "100")
            expect(said, "100 iters in" in said or kind == "xsrq")


def rows(said):
    return re.findall(r"^ *(\d+) +(\d+) +\d+\.\d+ ", said, re.M)


PERFTEST = (("ib_write_bw", "-s 65536"), ("ib_read_bw", "-s 65536"), ("ib_send_bw", "-c RC -s 4096"),
            ("ib_send_bw", "-c UC -s 2048"), ("ib_send_bw", "-c UD -s 2048"), ("ib_atomic_bw", ""),
            ("ib_write_lat", "-s 8"), ("ib_read_lat", "-s 8"), ("ib_send_lat", "-s 8"), ("ib_atomic_lat", ""))


def perftest(folder, options, to="localhost"):
    need("ib_write_bw")
    with Up(folder) as fabric:
        for number, (tool, own) in enumerate(PERFTEST):
            if "-R" in options and "UC" in own:
                continue  # perftest has none by librdmacm
            said = pair(fabric, tool, "-p", str(18620 + number), "-n", "100", *own.split(), *options, to=to)
            expect(tool + ": " + said, len(rows(said)) == 1)


def test_fab_23_perftest_by_lid(folder):
    perftest(folder, [])


def test_fab_23_perftest_by_gid(folder):
    perftest(folder, ["-x", "0"])


def test_fab_20_perftest_by_the_connection_manager(folder):
    perftest(folder, ["-R"], H3)


# ---- A second path ------------------------------------------------------------------------------

# Two LIDs a port: OpenSM sends frames to them by different cables.
LIDS_2 = ["-l", "1"]


def cables_to(fabric, lids, node, other):
    """By which of the two cables between the switches the two LIDs of a node are reached from another."""
    cables = []
    for lid in (lids[node], lids[node] + 1):
        way = fabric.run(other, "ibtracert", str(lids[other]), str(lid))
        cables.append(int(re.search(r'\[([34])\] -> switch port', way)[1]))
    expect_equal("cables to " + node, sorted(cables), [3, 4])
    return cables


def packets(fabric, port):
    """Of S1, out of the port and into it."""
    said = fabric.run("H1", "perfquery", str(fabric.switch_lid), str(port))
    return [int(re.search(r"Port%sPkts:\.*(\d+)" % way, said)[1]) for way in ("Xmit", "Rcv")]


class TwoPaths(Up):
    """H2 and H3 with two LIDs each; a pair of queue pairs that has a path and another."""

    def __init__(self, folder):
        super().__init__(folder, *LIDS_2)

    def __enter__(self):
        super().__enter__()
        self.lids = {node: self.lid(node) for node in ("H2", "H3")}
        self.switch_lid = int(re.search(r'lid (\d+)-\d+ "S1"', self.run(
            "H2", "ibtracert", str(self.lids["H2"]), str(self.lids["H3"])))[1])
        self.cables = {node: cables_to(self, self.lids, node, other) for node, other in (("H2", "H3"), ("H3", "H2"))}
        self.samples = []
        return self

    def __exit__(self, *why):
        for sample in self.samples:
            sample.end()
        super().__exit__(*why)

    def pair(self, there, back):
        """Requests from H2 to H3 go by the one cable, and acknowledgements by the other."""
        bits = [self.cables["H2"].index(back), self.cables["H3"].index(there)]
        self.samples, words = migrating.pair(WEFT, self.env(), self.lids, bits)
        return self.samples, words


def test_fab_19_fab_s3_requests_and_acknowledgements_cross_different_cables(folder):
    need("ibtracert", "perfquery")
    with TwoPaths(folder) as fabric:
        (left, _), words = fabric.pair(there=3, back=4)
        before = {port: packets(fabric, port) for port in (3, 4)}
        expect_equal("writes", left.tell("write", words[1][1], words[1][2], 100), "success")
        crossed = {port: [now - then for now, then in zip(packets(fabric, port), before[port])] for port in (3, 4)}
        # 64 frames a Write, and an acknowledgement of some of them.
        expect(crossed, crossed[3][0] >= 6400 and crossed[4][1] >= 100)
        expect(crossed, crossed[4][0] < 100 and crossed[3][1] < 100)


def test_trn_s2_rc_04_fab_20_cable_is_pulled_under_writes(folder):
    """No subnet manager is there to find another way: the connection has one itself."""
    need("ibtracert")
    with TwoPaths(folder) as fabric:
        samples, words = fabric.pair(there=3, back=3)
        left = samples[0]
        migrating.arm(samples, words)
        fabric.manager.end()
        left.ask("write", words[1][1], words[1][2], 3000)
        fabric.weft("cut", "S1:3")
        expect_equal("writes", left.heard(), "success")
        for sample in samples:
            expect_equal("event", sample.tell("event"), "path migrated")
        expect_equal("write", samples[1].tell("write", words[0][1], words[0][2], 10), "success")


def test_fab_21_sys_03_frames_of_a_message_go_by_both_ports_of_their_node(folder):
    """Each host has a port at either switch; whole Writes come, whichever port their frames came by."""
    need("perfquery")
    text = topology_of("S1:1 H1:1,S2:1 H1:2,S1:2 H2:1,S2:2 H2:2,S1:3 S2:3,S1:4 H3:1")
    with Fabric(folder, text=text) as fabric:
        up(fabric, "H3")

        def state(node):
            return fabric.run(node, "ibstat", "fab0")

        for node in "H1", "H2":
            wait_until(lambda n=node: state(n), lambda n=node: state(n).count("State: Active") == 2)
        lids = {node: re.findall(r"Base lid: (\d+)", state(node)) for node in ("H1", "H2")}

        def sent():
            said = [fabric.run("H3", "perfquery", lids["H1"][port - 1], str(port)) for port in (1, 2)]
            return [int(re.search(r"PortXmitPkts:\.+(\d+)", text)[1]) for text in said]

        samples = [migrating.Sample(WEFT, node, fabric.env(WEFT_STRIPE="on")) for node in ("H1", "H2")]
        words = [sample.tell("qp").split() for sample in samples]
        for sample, other, to in zip(samples, reversed(words), ("H2", "H1")):
            expect_equal("connect", sample.tell("connect", other[0], lids[to][0], 0, 20), "Success")
            expect_equal("alternate", sample.tell("alternate", lids[to][1], 0, 2), "Success")
        migrating.arm(samples, words)
        before = sent()
        expect_equal("writes", samples[0].tell("write", words[1][1], words[1][2], 20), "success")
        by = [now - then for now, then in zip(sent(), before)]
        expect(by, min(by) >= 20 * 64 / 2)
        for sample in samples:
            sample.end()


def test_rc_04_fab_20_opensm_finds_another_way(folder):
    """A connection of one path outlives the cable that it is on, within its retries."""
    need("ib_write_bw")
    with Up(folder, "-s", "1") as fabric:
        words = ["stdbuf", "-oL", "ib_write_bw", "-p", "18690", "-D", "6", "-u", "18", "-s", "65536"]
        serving = fabric.start("H3", *words)
        serving.await_line("Waiting for client")
        client = fabric.start("H2", *words, "localhost")
        client.await_line("#bytes")
        fabric.weft("cut", "S1:3")
        fabric.weft("mend", "S1:3")
        fabric.weft("cut", "S1:4")
        expect(client.succeeds(), len(rows(client.said())) == 1)
        serving.succeeds()


# ---- The conformance suite ----------------------------------------------------------------------

class Pulling(threading.Thread):
    """Pulls one of the two cables between the switches, until there is the other way; mends it; then the other one."""

    def __init__(self, fabric):
        super().__init__()
        self.fabric = fabric
        self.cuts = 0
        self.why = None
        self.is_over = threading.Event()

    def leads(self):
        """Both ways: answers may come by the other cable."""
        lids = [str(self.fabric.lid(node)) for node in ("H2", "H3")]
        return all(self.fabric.run("H2", "ibtracert", *way, status=None).startswith("From ca")
                   for way in (lids, lids[::-1]))

    def is_active(self, port):
        said = self.fabric.weft("top", "--once")
        return re.search(r"\nS1:%d - S2:%d +Active " % (port, port), said)

    def run(self):
        try:
            while not self.is_over.is_set():
                port = 3 + self.cuts % 2
                self.fabric.weft("cut", "S1:%d" % port)
                wait_until("another way", self.leads)
                self.fabric.weft("mend", "S1:%d" % port)
                wait_until("the cable", lambda p=port: self.is_active(p))
                self.cuts += 1
        except AssertionError as why:
            self.why = why

    def end(self):
        self.is_over.set()
        self.join()
        expect(self.why, self.why is None)
        return self.cuts


def ends_program():
    program = os.path.join(os.path.dirname(WEFT), "tests", "conformance_roce")
    if not os.path.exists(program):
        raise Skip("there is no " + program)
    return program


def ends_of(fabric):
    """Where its two adapters are."""
    return " ".join("%s %d %s" % (node, fabric.lid(node), re.search("Port GUID: (0x[0-9a-f]+)", fabric.state(node))[1])
                    for node in ("H2", "H3"))


def conformance(folder, *tests):
    """Two adapters of one process, at nodes of different switches."""
    program = ends_program()
    with Up(folder) as fabric:
        done = subprocess.run([program, *tests], env=fabric.env(WEFT_ENDS=ends_of(fabric)), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5 * PATIENCE_S)
        crossed = fabric.run("H1", "perfquery", str(fabric.lid("H3")), "1")
    expect_equal(done.stdout[-3000:], done.returncode, 0)
    return done.stdout, int(re.search(r"PortRcvPkts:\.*(\d+)", crossed)[1])


def test_fab_15_fab_17_conformance_suite_through_switches(folder):
    """FAB-17: the switches make no acknowledgement of their own: none of the suite's counts is disturbed."""
    said, crossed = conformance(folder)
    expect("%d tests, %d packets" % (said.count("\nok "), crossed), said.count("\nok ") > 100 and crossed > 1000)


def test_trn_s2_rc_04_fab_20_messages_come_once_while_cables_are_pulled(folder):
    """
    RC and RD: whichever cable is pulled, requests end once and in order by the other. OpenSM passes over traps of a switch
    that come too often, and would then find the other way only by its next sweep.
    """
    program = ends_program()
    tests = ("test_rkey_07_qp_07d_one_reliable", "test_qp_13_both_directions", "test_qp_07d_qp_s3_fetch_and_add",
             "test_sys_05_sends_and_rdma")
    with Up(folder) as fabric:
        pulling = Pulling(fabric)
        pulling.start()
        try:
            while pulling.cuts < 4 and not pulling.why:
                done = subprocess.run([program, *tests], env=fabric.env(WEFT_ENDS=ends_of(fabric), WEFT_ENDS_CUT="on"),
                                      text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=5 * PATIENCE_S)
                expect_equal(done.stdout, (done.returncode, done.stdout.count("ok ")), (0, len(tests)))
        finally:
            pulling.end()


def test_rkey_s1_key_crosses_two_switches(folder):
    """A window is bound at one node, its key and address go by a Send, and the other node's Write carries both back."""
    said, crossed = conformance(folder, "test_rkey_12_rkey_s1")
    expect(said, "ok test_rkey_12_rkey_s1" in said and crossed > 0)


# ---- UCX and Open MPI ---------------------------------------------------------------------------

def ucx_env(transport, **more):
    return dict(UCX_TLS=transport + ",self", UCX_NET_DEVICES="fab0:1", **ucx_cases.FENCE, **more)


UCX_TESTS = {"rc_v": ("tag_lat", "tag_bw", "ucp_am_lat", "ucp_put_bw", "ucp_get", "ucp_fadd", "stream_bw"),
             "ud_v": ("tag_lat", "tag_bw", "ucp_am_lat", "stream_bw")}


def ucx(folder, transport):
    need("ucx_perftest")
    with Up(folder) as fabric:
        for number, test in enumerate(UCX_TESTS[transport]):
            said = pair(fabric, *ucx_cases.PERFTEST.split(), "-p", str(18650 + number), "-f", "-w", "10", "-n", "100",
                        "-t", test, **ucx_env(transport))
            expect(test + ": " + said, re.search(ucx_cases.ROW % 100, said, re.M) and "ERROR" not in said)


def test_fab_15_ucx_by_reliable_connections(folder):
    ucx(folder, "rc_v")


def test_fab_15_ucx_by_datagrams(folder):
    ucx(folder, "ud_v")


def mpi(folder, transport):
    """Four ranks, each on a node of its own."""
    need("mpirun", "mpicc")
    ucx_cases.prepare_mpi("mpi_sample")(folder)
    rank = "exec %s run --node H$((OMPI_COMM_WORLD_RANK + 1)) %s/mpi_sample" % (WEFT, folder)
    words = ucx_cases.MPIRUN.replace("DIR/mpi_sample", "").replace("DIR", folder) % 4
    with Up(folder) as fabric:
        done = subprocess.run([*words.split(), "sh", "-c", rank], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * PATIENCE_S,
                              env=fabric.env(**ucx_env(transport, UCX_LOG_LEVEL="info")))
    says = [pattern for pattern, _ in ucx_cases.mpi_says(4)] + [
        ucx_cases.GOES_BY.replace("roce_lo", "fab0") % ("tag", transport[:2] + "_verbs")]
    for pattern in says:
        expect("%s: %s" % (pattern, done.stdout), re.search(pattern, done.stdout, re.M))
    expect_equal("mpirun: " + done.stdout, done.returncode, 0)


def test_sys_01_fab_15_mpi_on_four_nodes_by_reliable_connections(folder):
    mpi(folder, "rc_v")


def test_sys_01_fab_15_mpi_on_four_nodes_by_datagrams(folder):
    mpi(folder, "ud_v")


# ---- rdma-core's suite --------------------------------------------------------------------------

def test_fab_15_suite_of_rdma_core(folder):
    """On a port of a fabric; what docs/conformance.md says has passed there must pass again."""
    need("ibv_devinfo")
    if not os.path.isdir(pyverbs_suite.SUITE):
        raise Skip("rdma-core's tests are not installed")
    pyverbs_suite.unpack(folder, False)
    with Up(folder) as fabric:
        done = subprocess.run([WEFT, "run", "--node", "H2", pyverbs_suite.PYTHON, "tests/run_tests.py", "--dev", "fab0",
                               "-v"], cwd=folder, env=fabric.env(), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5 * PATIENCE_S)
    found = pyverbs_suite.results(done.stdout)
    expected = pyverbs_suite.read_page().get(pyverbs_suite.FABRIC, set())
    if "--write" in sys.argv:
        expected = set()
        pyverbs_suite.write_section(pyverbs_suite.FABRIC, found)
    why = pyverbs_suite.judge(found, done.stdout, expected)
    expect("%s: %s" % (why, done.stdout[-4000:]), why is None)


if __name__ == "__main__":
    go_to_own_network()
    main(globals())
