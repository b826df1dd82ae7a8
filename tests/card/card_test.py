#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""card_test.py WEFT: a split network card carries what real programs send, between network namespaces.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import SERVER, SERVER6, WEFT, Card, HttpServer, key_make, made_file, wait_until  # noqa: E402
from script import PATIENCE_S, Skip, expect, expect_equal, main, need, run  # noqa: E402


def fetch(card, path, host=0):
    """The file through the card, as its digest."""
    need("curl")
    done = subprocess.run(card.host_spaces[host].enter("curl", "-sS", "--max-time", str(PATIENCE_S),
                                                       "http://%s:8080/%s" % (SERVER, os.path.basename(path))),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    expect_equal("curl: " + done.stderr.decode(), done.returncode, 0)
    return hashlib.sha256(done.stdout).hexdigest()


def pings(card):
    card.ping(SERVER)
    card.ping("-6", SERVER6)
    for size in (0, 1, 200, 1472, 1473, 8000, 65507):
        card.ping("-s", str(size), SERVER)
    for size in (1452, 1453, 65507):
        card.ping("-6", "-s", str(size), SERVER6)


def carries(folder, wire):
    path, digest = made_file(folder, 64)
    with Card(folder, wire=wire).start() as card:
        pings(card)
        with HttpServer(card, path):
            expect_equal("the page through the card", fetch(card, path), digest)
        link = card.hosts[0].link()
        expect("each packet is a Write: %r" % link, link["writes"] >= link["packets_out"] > 0)
        expect_equal("refused", link["refused"], 0)
        said = card.hosts[0].end() + card.unit.end()
        expect("both say how it ended: " + said, said.count("the card has ended") == 2)
        expect("and in which way: " + said, "u is no longer connected: The link has ended in order." in said)


def test_push_01_push_02_push_08_card_carries_over_roce(folder):
    carries(folder, "roce")


def test_push_01_push_02_push_08_card_carries_over_iwarp(folder):
    carries(folder, "iwarp")


def test_push_07_push_s2_send_mode_carries_both_ways(folder):
    path, digest = made_file(folder, 16)
    with Card(folder, lines="mode send").start() as card:
        expect("the host says so: " + card.hosts[0].said(), "in Send mode" in card.hosts[0].said())
        pings(card)
        with HttpServer(card, path):
            expect_equal("the page through the card", fetch(card, path), digest)
        for link in (card.hosts[0].link(), card.unit.link()):
            expect("each packet is a Send, into no pool: %r" % link, link["mode"] == "send" and link["writes"] == 0 and
                   link["own_pools"] == link["peer_pools"] == 0 and link["packets_out"] > 0)


def test_push_07_amb_29_send_mode_loses_and_says_so(folder):
    with Card(folder, lines="mode send\nalive 3s") as card:
        card.hosts[0].words = ["env", "WEFT_FAULTS=seed=2,loss=0.1,duplicate=0.02,reorder=0.02"]
        card.start()
        card.host_spaces[0].run("ping", "-c", "200", "-i", "0.01", "-W", "1", SERVER)
        wait_until("an end says what was lost", lambda: card.hosts[0].link()["lost"] + card.unit.link()["lost"] > 0)
        expect_equal("it was connected all the time", card.hosts[0].said().count(" is connected"), 1)


def test_push_07_kill_9_in_send_mode_is_noticed(folder):
    with Card(folder, lines="mode send\nalive 3s").start() as card:
        card.ping(SERVER)
        card.unit.kill()
        card.hosts[0].await_line("is no longer connected")
        card.unit.start()
        card.hosts[0].await_line(" is connected", times=2)
        card.ping(SERVER)
        said = card.hosts[0].end() + card.unit.end()
        expect("both say how it ended: " + said, said.count("the card has ended") == 2)


def test_push_07_hosts_of_another_mode_are_refused(folder):
    for unit_mode, host_mode in (("rdma", "send"), ("send", "rdma")):
        inside = os.path.join(folder, unit_mode)
        os.mkdir(inside)
        with Card(inside, unit_lines="mode " + unit_mode, host_lines="mode " + host_mode) as card:
            card.unit.start()
            card.hosts[0].start()
            card.unit.await_line("cannot accept a connection: ")
            expect("for its mode: " + card.unit.said(), "of one mode" in card.unit.said())
            expect("it never connects: " + card.hosts[0].said(), "is connected" not in card.hosts[0].said())


def test_push_10_small_packets_go_by_sends(folder):
    with Card(folder, lines="inline 512").start() as card:
        before = card.hosts[0].link()
        card.ping(SERVER, count=5)
        after = card.hosts[0].link()
        expect("they are messages: %r" % after, after["messages_out"] >= before["messages_out"] + 5)
        expect_equal("Writes", after["writes"], before["writes"])
        card.ping("-s", "4000", SERVER)


def test_push_04_push_s5_push_push_takes_fewer_messages_than_push_pull(folder):
    """Of the same pings: a packet of the unit costs no message of the host, or one more."""
    messages = []
    for way, lines in (("push", ""), ("pull", "pull on")):
        own = os.path.join(folder, way)
        os.mkdir(own)
        with Card(own, unit_lines=lines).start() as card:
            card.ping(SERVER)
            before = card.hosts[0].link()
            card.ping(SERVER, count=40)
            after = card.hosts[0].link()
            expect_equal("refused", after["refused"], 0)
            messages.append(after["messages_out"] - before["messages_out"])
    expect("push-push %d, push-pull %d" % tuple(messages), messages[0] < 20 and messages[1] >= 40)


HOST_END, UNIT_END = "198.51.100.1", "198.51.100.0"


def seen(folder, wire):
    """A link that has carried something and ended, captured and traced by the host: what dump and trace say of it."""
    capture, trace = (os.path.join(folder, name) for name in ("host.pcapng", "host.trace"))
    with Card(folder, wire=wire) as card:
        card.hosts[0].wishes = {"WEFT_PCAP": capture, "WEFT_TRACE": trace}
        card.start()
        card.ping("-s", "4000", SERVER)
        card.hosts[0].end()
    told = [run(WEFT, *words) for words in (("dump", capture), ("trace", "--kind", "immediate", trace))]
    for done in told:
        expect_equal("status: " + done.stderr, done.returncode, 0)
    return [done.stdout for done in told]


def expect_pushes(said):
    """said: (end that is told, words) in their order."""
    for words in ("CfgUtilRequest: hello of a host, MTU 1500", "CfgUtilReply: hello of a unit, MTU 1500",
                  "CfgUtilRequest: link, the LAN is up", "BufferPoolFlushReply"):
        expect("%r in %r" % (words, said), words in [each[1] for each in said])
    for end in (UNIT_END, HOST_END):
        pools = [words for at, words in said if at == end and words.startswith("BufferRecvPool: ")]
        expect("%s advertises: %r" % (end, said), pools and "pool 0 of 256 elements of 256 bytes" in pools[0])
        pushes = [words for at, words in said if at == end and words.startswith("pushes ")]
        expect("%s pushes: %r" % (end, pushes), "pushes (1,0,1536): pool 1, element 0, 1536 bytes" in pushes)
        expect("and asks for nothing: %r" % said, not any(words.startswith("BufferPull") for _, words in said))


def expect_traced(trace):
    """Both ways, each with the element that it was pushed into."""
    for way in ("sends", "gets"):
        expect("%s: %s" % (way, trace),
               re.search(r"QP \w+  %s \d+ bytes with immediate data 0x01000600; of a split card: "
                         r"pushed \(1,0,1536\)$" % way, trace, re.M))


def test_push_03_push_20_push_s1_dump_and_trace_tell_pushes_over_roce(folder):
    dumped, traced = seen(folder, "roce")
    expect_pushes(re.findall(r"(\S+) > \S+ .*card: (.*)", dumped))
    expect_traced(traced)


def test_push_03_push_20_push_s1_dump_and_trace_tell_pushes_over_iwarp(folder):
    dumped, traced = seen(folder, "iwarp")
    expect("the host dialled: " + dumped, "A is %s:" % HOST_END in dumped)
    said = re.findall(r"  1 (A>B|B>A)  .*card: (.*)", dumped)
    expect_pushes([({"A>B": HOST_END, "B>A": UNIT_END}[way], words) for way, words in said])
    expect_traced(traced)


def test_push_03_dump_tells_messages_of_several_packets(folder):
    """A packet of RoCE has 1024 bytes here: with its tail a SendData of 1020 has two."""
    capture = os.path.join(folder, "host.pcapng")
    with Card(folder, lines="inline 1024") as card:
        card.hosts[0].wishes = {"WEFT_PCAP": capture}
        card.start()
        card.ping("-s", "950", SERVER)
        card.hosts[0].end()
    dumped = run(WEFT, "dump", capture).stdout
    for end, other in ((HOST_END, UNIT_END), (UNIT_END, HOST_END)):
        expect("%s sends them: %s" % (end, dumped),
               re.search(r"%s > %s  RC SEND First, .*; card: SendData, in several packets$" % (end, other), dumped, re.M))


def test_push_09_plain_frames_without_offload(folder):
    path, digest = made_file(folder, 16)
    with Card(folder, host_lines="offload off").start() as card:
        expect("the host says so: " + card.hosts[0].said(), "offload" not in card.hosts[0].said().split("MTU")[1])
        pings(card)
        with HttpServer(card, path):
            expect_equal("the page through the card", fetch(card, path), digest)


def test_push_09_the_unit_gives_the_address(folder):
    with Card(folder, macs=["02:00:00:00:00:07"]).start() as card:
        shown = card.host_spaces[0].must("ip", "link", "show", "card0")
        expect("the interface has it: " + shown, "02:00:00:00:00:07" in shown)
        card.ping(SERVER)
        card.host_spaces[0].must("ip", "link", "set", "card0", "address", "02:00:00:00:00:08")
        card.hosts[0].await_line("does not agree to")


def shared(folder, wire):
    with Card(folder, wire=wire, hosts=2).start() as card:
        for host in range(2):
            card.ping(SERVER, host=host)
        card.ping("192.0.2.3", host=0)
        # What is for the one host the other does not see.
        before = card.hosts[1].link()["packets_in"]
        card.ping(SERVER, host=0, count=10)
        after = card.hosts[1].link()["packets_in"]
        expect("the other host sees no unicast: %d, then %d" % (before, after), after - before < 10)


def test_push_05_two_hosts_share_a_unit_over_roce(folder):
    shared(folder, "roce")


def test_push_05_two_hosts_share_a_unit_over_iwarp(folder):
    shared(folder, "iwarp")


def test_push_24_kill_9_of_the_unit_brings_the_interface_down(folder):
    with Card(folder).start() as card:
        card.ping(SERVER)
        card.unit.kill()
        card.hosts[0].await_line("is no longer connected")
        wait_until("the interface is down",
                   lambda: "NO-CARRIER" in card.host_spaces[0].must("ip", "link", "show", "card0"))
        card.unit.start()
        card.hosts[0].await_line(" is connected", times=2)
        wait_until("the interface is up", lambda: "state UP" in card.host_spaces[0].must("ip", "link", "show", "card0"))
        card.ping(SERVER)


def test_push_24_kill_9_of_a_host_leaves_the_unit_to_the_next(folder):
    with Card(folder).start() as card:
        card.ping(SERVER)
        card.hosts[0].kill()
        card.unit.await_line("is no longer connected")
        card.hosts[0].start()
        card.hosts[0].await_line(" is connected")
        card.address()
        card.ping(SERVER)


def test_push_05_a_host_without_a_key_gets_nothing(folder):
    with Card(folder) as card:
        card.write("host0.key", "")
        os.unlink(os.path.join(folder, "host0.key"))
        key_make(folder, "host0")  # not the one that the unit knows
        card.unit.start()
        card.hosts[0].start()
        card.unit.await_line("refused a connection from")
        # No frame gets in, and none out.
        card.address()
        tried = card.host_spaces[0].run("ping", "-c", "3", "-i", "0.1", "-w", "2", SERVER)
        expect("nothing answers: " + tried.stdout, " 0 received" in tried.stdout)
        card.server.run("ping", "-c", "3", "-i", "0.1", "-w", "2", "192.0.2.2")
        port = card.unit.status()["ports"][0]
        expect("the LAN spoke, and heard nothing: %r" % port, port["frames_in"] > 0 and port["frames_out"] == 0)
        heard = card.host_spaces[0].must("cat", "/sys/class/net/card0/statistics/rx_packets")
        expect_equal("the stranger heard", heard.strip(), "0")
        expect("it never says connected: " + card.hosts[0].said(), "is connected" not in card.hosts[0].said())
        expect_equal("no link is open", [l for l in card.unit.status()["links"] if l["state"] == "open"], [])


def test_push_05_a_unit_without_its_key_gets_nothing(folder):
    with Card(folder) as card:
        os.unlink(os.path.join(folder, "unit.key"))
        key_make(folder, "unit")  # not the one that the host knows
        card.unit.start()
        card.hosts[0].start()
        wait_until("the host refuses", lambda: card.hosts[0].status()["refused"] > 0)
        card.address()
        card.host_spaces[0].run("ping", "-c", "3", "-i", "0.1", "-w", "2", SERVER)
        card.server.run("ping", "-c", "3", "-i", "0.1", "-w", "2", "192.0.2.2")
        expect("the host says why: " + card.hosts[0].said(),
               "is not one that the configuration lets in" in card.hosts[0].said())
        expect("it never says connected: " + card.hosts[0].said(), "is connected" not in card.hosts[0].said())
        expect_equal("frames that got out", card.unit.status()["ports"][0]["frames_out"], 0)
        expect_equal("frames that got in", card.hosts[0].status()["ports"][0]["frames_out"], 0)


def test_push_03_status_in_words(folder):
    words = ("card-unit", "packet:lan0", "h0 by roce", "own pools", "its pools")
    with Card(folder).start() as card:
        card.ping(SERVER)
        pid = str(card.unit.process.pid)
        for command, more in ((("card", "status"), ()), (("stat",), ("system calls", "RoCE"))):
            done = card.unit_space.run(WEFT, *command, pid)
            expect_equal("status: " + done.stderr, done.returncode, 0)
            for word in words + more:
                expect("%r in %s" % (word, done.stdout), word in done.stdout)
        done = card.unit_space.run(WEFT, "stat", "--json", pid)
        shown = json.loads(done.stdout)
        expect("the adapter: %r" % shown, shown["adapters"][0]["qps"] == 1)
        expect("and the card: %r" % shown, shown["card"]["links"][0]["packets_in"] >= 3)


def counts_of_the_other(folder, wire):
    """What the unit has counted is told at the host, and the reverse; each report asks for the next one."""
    with Card(folder, wire=wire).start() as card:
        card.ping(SERVER, count=5)
        for end, other in ((card.hosts[0], card.unit), (card.unit, card.hosts[0])):
            wait_until("the %s knows what the %s has counted" % (end.verb, other.verb),
                       lambda e=end, o=other: e.link().get("peer_packets_in", 0) >= 5 and
                       e.link()["peer_packets_in"] == o.link()["packets_in"])
        done = card.host_spaces[0].run(WEFT, "card", "status", str(card.hosts[0].process.pid))
        expect("in words: " + done.stdout, re.search(r"it counts   \d+ packets in, \d+ out; .* told [\d.]+ s ago", done.stdout))


def test_push_16h_an_end_tells_what_the_other_counts_over_roce(folder):
    counts_of_the_other(folder, "roce")


def test_push_16h_an_end_tells_what_the_other_counts_over_iwarp(folder):
    counts_of_the_other(folder, "iwarp")


def wakes(end):
    """How often threads of an end have slept: the one that does its work, and all others together."""
    count, folder = [0, 0], "/proc/%d/task" % end.process.pid
    for thread in os.listdir(folder):
        with open("%s/%s/status" % (folder, thread), encoding="ascii") as f:
            slept = int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", f.read())[1])
        count[int(thread) != end.process.pid] += slept
    return count


def test_push_03_a_frame_wakes_one_thread_of_an_end(folder):
    """Without this rule the adapter's own thread woke for each frame, at the deadline of its acknowledgement."""
    with Card(folder) as card:
        card.start()
        card.ping(SERVER)
        before = [wakes(end) for end in card.ends]
        card.ping("-i", "0.02", SERVER, count=100)
        for end, (own, others) in zip(card.ends, before):
            now = wakes(end)
            expect("the %s's thread works: %r" % (end.verb, now), now[0] - own >= 100)
            expect("the others rest: %d, then %r" % (others, now), now[1] - others < 20)


def test_push_01_push_02_push_s1_demo_shows_it(folder):
    need("unshare", "ip", "ping")
    if run("unshare", "-rn", "true").returncode != 0 or not os.path.exists("/dev/net/tun"):
        raise Skip("no network namespaces here, or no TAP interfaces")
    done = run(WEFT, "demo", "card", TMPDIR=folder)
    expect_equal("status: " + done.stdout + done.stderr, done.returncode, 0)
    lines = done.stdout.splitlines()
    expect("no step failed: " + done.stdout, not [line for line in lines if line.startswith("no ")])
    pushed = re.search(r"^ok  (\d+) packets were pushed to the host, (\d+) to the unit, a Write each; no end asked for one$",
                       done.stdout, re.M)
    expect("pushes are counted: " + done.stdout, pushed and int(pushed[1]) > 10 and int(pushed[2]) > 3)
    for words in ("  host > unit  BufferRecvPool: pool 0 of 256 elements of 256 bytes",
                  "  unit > host  pushes (0,0,256): pool 0, element 0, 256 bytes"):
        expect("%r in %s" % (words, done.stdout), words in done.stdout)
    expect_equal("nothing is left", os.listdir(folder), [])


def test_push_18_bad_files_are_refused(folder):
    for text, why in (("role owner\n", "the roles are card-unit and card-host"),
                      ("role card-host\n", "a line is missing: card PORT"),
                      ("role card-host\ncard tap:card0\n", "a line is missing: unit NAME"),
                      ("role card-host\ncard nothing:x\n", ":2:6:"),
                      ("role card-unit\nlan packet:lan0\ncard tap:x\n", "this is not for the file of this role"),
                      ("role card-unit\nlan packet:lan0\nwire carrier-pigeon\n", "the wires are roce and iwarp"),
                      ("role card-unit\nlan packet:lan0\npull hard\n", "pull is on or off"),
                      ("role card-unit\nlan packet:lan0\nwire iwarp\ninline 100\n", "inline is for the wire roce"),
                      ("role card-unit\nlan packet:lan0\nmode rdma3\n", "the modes are send and rdma"),
                      ("role card-unit\nlan packet:lan0\nwire iwarp\nmode send\n", "mode send is for the wire roce"),
                      ("role card-unit\nlan packet:lan0\nmode send\ninline 100\n", "inline is for the mode rdma")):
        path = os.path.join(folder, "card.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        done = subprocess.run([WEFT, "card", "unit" if "unit\n" in text else "host", path], timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect_equal("status of %r" % text, done.returncode, 1)
        expect("%r in %r" % (why, done.stderr), why in done.stderr)


main(globals())
