# SPDX-License-Identifier: BSD-2-Clause
"""The cases of interop.py: what both ends are told to do, and what they must say.

NAME_client: weft dials and acts; NAME_server: the guest dials and acts, weft listens.
"""
import collections

# weft: words for siw_peer; or, if is_program, a program and its words for `weft run`. never: what
# no line may have. roce: the addresses between which there must be RoCE packets, and no iWARP. env:
# of the program on weft; await_weft: what the shell does until that listens. serves: instead of all
# that, the configuration of weft's iSCSI target, which is told to end when the guest has. ready: what the
# listening side says when it listens. has_mpa: what TCP carries is iWARP. seconds: that it may take.
Case = collections.namedtuple(
    "Case", "name weft guest weft_listens has_listener weft_says guest_says crc rtr "
            "weft_terminates guest_terminates is_program connections may_miss never roce "
            "env await_weft serves ready has_mpa seconds")
# What is put on eth0, cases, the interfaces' MTU, and of how many packets one is lost (0: none).
Group = collections.namedtuple("Group", "use cases mtu lose", defaults=(1500, 0))

CASE_SECONDS = 40
HOST, GUEST = "10.77.0.1", "10.77.0.11"
HOST6, GUEST6 = "fd77::1", "fd77::11"


def make(name, weft, guest, **more):
    """A case of any commands; the rest by name."""
    fields = dict(weft_listens=False, has_listener=True, weft_says=[], guest_says=[], crc=None,
                  rtr="any", weft_terminates=None, guest_terminates=None, is_program=False,
                  connections=1, may_miss=None, never=None, roce=None,
                  env=(), await_weft=AWAIT_LISTEN, serves=None, ready="listening", has_mpa=True,
                  seconds=CASE_SECONDS)
    fields.update(more)
    return Case(name, weft, guest, **fields)


def bracket(address):
    return "[%s]" % address if ":" in address else address


def act_lines(ops):
    """What the dialling side says of operations that go well."""
    return [op.replace(":", " ") + " success" for op in ops]


def serve_lines(ops, invalidated):
    """What the listening side says. siw's library does not tell what was invalidated."""
    lines = []
    for op in ops:
        kind, _, size = op.partition(":")
        if kind == "send":
            lines.append("received %s good" % size)
        elif kind == "sendinv":
            lines.append("received %s good%s" % (size, invalidated))
        elif kind in ("write", "writes"):
            lines.append("written %s good" % size)
        elif kind == "sends":
            lines += ["received %s good" % size] * 12
    return lines


def client(name, ops, weft="", guest="", **more):
    """weft dials and acts. ops that go well; `fails` and `end`: what the last says, if it fails."""
    address, at = more.pop("address", GUEST), list(ops)
    fails, end = more.pop("fails", None), more.pop("end", None)
    terms, says = more.pop("terms", None), more.pop("guest_adds", [])
    lines = (["connected " + terms] if terms else []) + ["private .* good"] + act_lines(ops)
    if fails:
        op, line = fails
        at += [op, "end"]
        lines.append(line)
    lines.append("end " + (end or "flushed"))
    return make(name + "_client",
                ["dial", "%s:PORT" % bracket(address)] + weft.split() + at,
                "verbs listen %s PORT %s" % (address, guest),
                weft_says=lines,
                guest_says=["listening", "private .* good", "connected"] + serve_lines(ops, "")
                + says + ["end"], **more)


def server(name, ops, weft="", guest="", **more):
    """The guest dials and acts, weft listens."""
    address, at = more.pop("address", HOST), list(ops)
    fails, end = more.pop("fails", None), more.pop("end", None)
    terms, says = more.pop("terms", None), more.pop("weft_adds", [])
    lines = ["connected.*", "private .* good"] + act_lines(ops)
    if fails:
        op, line = fails
        at += [op, "end"]
        lines += [line, "event RDMA_CM_EVENT_DISCONNECTED"]
    return make(name + "_server",
                ["listen", "%s:PORT" % bracket(address)] + weft.split(),
                "verbs dial %s PORT %s %s" % (address, guest, " ".join(at)),
                weft_listens=True,
                weft_says=["listening", "private .* good"]
                + (["connected " + terms] if terms else [])
                + serve_lines(ops, " invalidated") + says
                + ["end " + (end or "peer_gone")],
                guest_says=lines + ["end"], **more)


def both(name, ops, **more):
    return [client(name, ops, **more), server(name, ops, **more)]


# For programs that do not say when they listen; their status is that of wait.
AWAIT_LISTEN = (" & p=$!; while kill -0 $p &&"
                " ! grep -qi ':HEX .* 0A ' /proc/net/tcp /proc/net/tcp6;"
                " do usleep 20000; done; echo listening; wait $p; ")


def rping(name, size, address, host, **more):
    """rping as it comes, in both roles: in a round its server reads and writes."""
    start = "rping -s -a %s -p PORT -C 3 -S %d -V -v" % (address, size)
    return [
        make(name + "_client", ["rping-dial", "%s:PORT" % bracket(address), "3", str(size)],
             start + AWAIT_LISTEN + "echo ended",
             weft_says=["connected.*", "rounds 3", "end flushed"],
             guest_says=["server ping data: .*"] * 3 + ["ended"], **more),
        make(name + "_server", ["rping-listen", "%s:PORT" % bracket(host), "3", str(size)],
             "rping -c -a %s -p PORT -C 3 -S %d -V -v" % (host, size), weft_listens=True,
             weft_says=["connected.*", "rounds 3", "end peer_gone"],
             guest_says=["ping data: .*"] * 3, **more),
    ]


# siw may fail a Send that has gone out whole, if the peer closes as soon as it has come
# (siw_qp_sq_proc_tx(), tx_suspend). It is perftest's last one, after its results.
KEEP = " >/tmp/out 2>&1"
TELL = "s=$?; cat /tmp/out; echo; echo status $s $(grep -o 'Bad wc status 2' /tmp/out)"
ENDED = "status (0|[01] Bad wc status 2)"
# An id takes the RoCE device where both kinds are.
IWARP = ("WEFT_DEVICES=iw_*",)


def programs(name, weft, guest, says, weft_row=None, **more):
    """The same program at both ends, as Debian has it, in both roles: weft's by `weft run`.

    weft, guest: (as a server, as a client). says: lines of both as (server, client); weft_row
    takes the place of the client's where weft is that.
    """
    serves, dials = says
    return [
        make(name + "_client", weft[1].split(), guest[0] + KEEP + AWAIT_LISTEN + TELL,
             is_program=True, env=IWARP, rtr="write", weft_says=weft_row or dials,
             guest_says=["listening"] + serves + [ENDED], **more),
        make(name + "_server", weft[0].split(), guest[1] + KEEP + "; " + TELL,
             is_program=True, env=IWARP, weft_listens=True, weft_says=serves,
             guest_says=dials + [ENDED], **more),
    ]


def rping_program(name, size, address, host):
    """-V: the client looks at every byte that came back, and stops where one is wrong."""
    words = "-p PORT -C 3 -S %d -V -v" % size
    command = ["rping -s -a %s " + words, "rping -c -a %s " + words]
    says = [[who + r"ping data: rdma-ping-%d: .*" % n for n in range(3)]
            for who in ("server ", "")]
    return programs("siw_run_rping" + name, [command[0] % host, command[1] % address],
                    [command[0] % address, command[1] % host], says)


# perftest's server closes its listener amid it all and opens another one. The emulated guest may
# take longer for that than weft tries, or miss a connection that comes just then: so the case is
# tried again.
PERFTEST_MISSED = "RDMA_CM_EVENT_(UNREACHABLE|REJECTED); error: -1(10|11)"


def perftest(tool, size, count=20, name=""):
    """Each end prints its row; the server of ib_read_lat only looks on. The guest's clock is
    emulated and not always one by which perftest can measure: its figures do not count."""
    words = "%s -R -F -p PORT -n %d -s %d " % (tool, count, size)
    row = r"%d +%d +" % (size, count)
    commands = [[words + "-d %s " % device, words + "-d %s %s" % (device, to)]
                for device, to in (("iw_rig0", GUEST), ("siw0", HOST))]
    return programs("siw_run_" + tool + name, commands[0], commands[1],
                    [[] if tool == "ib_read_lat" else [row + ".*"], [row + ".*"]],
                    weft_row=[row + r"\d+\.\d+ +.*"], connections=2, may_miss=PERFTEST_MISSED)


def run_programs():
    """No ib_atomic_bw and _lat: siw has no atomics. No more of perftest's modes either: what
    weft does with them ./dev test says, here it is siw that would be tried."""
    cases = rping_program("", 64, GUEST, HOST)
    cases += rping_program("_long", 20000, GUEST, HOST)
    cases += rping_program("_ipv6", 1000, GUEST6, HOST6)
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        cases += perftest(tool, 4096)
    for tool in ("ib_write_lat", "ib_read_lat", "ib_send_lat"):
        cases += perftest(tool, 64)
    cases += perftest("ib_write_bw", 262144, 5, "_long")
    cases += perftest("ib_read_bw", 262144, 5, "_long")
    return cases


SIZES = [0, 1, 2, 3, 4, 5, 63, 64, 65, 1441, 1442, 1443, 4097, 65537]
LARGE = 1 << 20
MIXED = ["send:64", "write:4097", "read:4097", "send:1", "write:3", "read:3"]


def of(kind, sizes):
    return ["%s:%d" % (kind, n) for n in sizes]


def transfers():
    cases = []
    cases += both("siw_send", of("send", SIZES), crc=True, terms="crc on rev 2 .*")
    cases += both("siw_write", of("write", SIZES), crc=True)
    # siw answers a Read of no bytes with bytes of an earlier answer if its transmitter is still
    # busy with that, so here such a Read is alone.
    cases += both("siw_read", of("read", SIZES[1:]), crc=True)
    cases += both("siw_read_zero", ["read:0"])
    cases += both("siw_large", of("send", [LARGE]) + of("write", [LARGE]) + of("read", [LARGE]))
    cases.append(client("siw_many", ["reads:4096", "sends:700", "writes:3000", "reads:65000"]))
    cases.append(client("siw_many_shallow", ["reads:4096"], weft="--depth 1",
                        terms="crc on rev 2 ird 1 ord 1"))
    cases += both("siw_crc_off", MIXED + of("write", [LARGE]) + of("read", [LARGE]),
                  weft="--crc-off", crc=False, terms="crc off rev 2 .*")
    cases.append(client("siw_invalidate", ["write:64", "sendinv:64"]))
    cases.append(server("siw_invalidate", ["write:64", "sendinv:64", "send:32"], weft="--window"))
    return cases


def connections():
    cases = []
    cases += both("siw_ipv6", MIXED, crc=True)
    cases[0] = client("siw_ipv6", MIXED, address=GUEST6)
    cases[1] = server("siw_ipv6", MIXED, address=HOST6)
    # siw counts what it sends in a byte, four of its own included.
    cases += both("siw_private_most", ["send:64"], weft="--private 252", guest="--private 251")
    cases.append(client("siw_client_server", MIXED, weft="--client-server", rtr=None))
    cases.append(client("siw_rtr_write", MIXED, rtr="write"))
    cases.append(client("siw_rev1", ["send:64", "write:4097", "send:1", "write:3"],
                        weft="--rev 1", rtr=None, terms="crc on rev 1 .*"))
    cases.append(make("siw_reject_client", ["dial", GUEST + ":PORT"],
                      "verbs listen %s PORT --reject --private 40" % GUEST,
                      weft_says=["not connected: connect_rejected", "private 40 good"],
                      guest_says=["private 16 good", "rejected"]))
    cases.append(make("siw_reject_server", ["listen", HOST + ":PORT", "--reject", "--private",
                                            "40"],
                      "verbs dial %s PORT send:1" % HOST, weft_listens=True,
                      weft_says=["private 16 good", "rejected"],
                      guest_says=["not connected: Connection refused"]))  # siw drops the rest
    cases.append(make("siw_no_listener_client", ["dial", GUEST + ":PORT"], "", has_listener=False,
                      weft_says=["not connected: connect_refused"]))
    cases.append(make("siw_no_listener_server", [], "verbs dial %s PORT send:1" % HOST,
                      has_listener=False, weft_listens=True,
                      guest_says=["not connected: .*"]))
    cases.append(make("siw_markers_client", ["dial", GUEST + ":PORT", "--markers"],
                      "timeout 6 verbs listen %s PORT; true" % GUEST,
                      weft_says=["not connected: connect_rejected"]))
    cases += rping("siw_rping", 64, GUEST, HOST)
    cases += rping("siw_rping_long", 20000, GUEST, HOST)
    cases += rping("siw_rping_ipv6", 1000, GUEST6, HOST6)
    return cases


def refusals_by_siw():
    """weft errs, siw terminates. What siw's library is told of it is its own affair."""
    return [
        client("siw_bad_write", ["write:64"], fails=("badwrite:64", "badwrite 64 success"),
               end="tag_invalid", guest_terminates="1100"),
        client("siw_bad_read", ["read:64"], fails=("badread:64", "badread 64 .*"),
               end="tag_invalid", guest_terminates="1000"),
        client("siw_beyond_write", ["write:64"], fails=("oobwrite:64", "oobwrite 64 success"),
               end="range_bounds", guest_terminates="1101"),
        client("siw_beyond_read", ["read:64"], fails=("oobread:64", "oobread 64 .*"),
               end="range_bounds", guest_terminates="1001"),
        # siw fails the receive, and says nothing.
        make("siw_bad_invalidate_client",
             ["dial", GUEST + ":PORT", "send:64", "badinv:64", "send:32"],
             "verbs listen %s PORT" % GUEST,
             weft_says=["send 64 success", "badinv 64 success", "send 32 success", "end flushed"],
             guest_says=["received 64 good", "received failed: remote invalid request error",
                         "received 32 good", "end"]),
        client("siw_stale_write", ["write:64", "sendinv:64"],
               fails=("rawwrite:64", "rawwrite 64 success"), end="tag_invalid",
               guest_terminates="1100"),
        # With a ready-to-receive message that comes together with what it refuses, siw never
        # says to its program that the connection was there, and hangs.
        client("siw_no_receive", [], weft="--client-server", guest="--recvs 0",
               fails=("send:64", "send 64 success"), end="receiver_not_ready",
               guest_terminates="2102"),
        client("siw_short_receive", [], weft="--client-server", guest="--recv-bytes 32",
               fails=("send:64", "send 64 success"), end="receiver_not_ready",
               guest_terminates="2102"),
    ]


def refusals_by_weft():
    """The guest errs, weft terminates."""
    return [
        server("siw_bad_write", ["write:64"], fails=("badwrite:64", "badwrite 64 .*"),
               end="tag_.*", weft_terminates="1100"),
        server("siw_bad_read", ["read:64"], fails=("badread:64", "badread 64 .*"),
               end="tag_.*", weft_terminates="0100"),
        server("siw_beyond_write", ["write:64"], fails=("oobwrite:64", "oobwrite 64 .*"),
               end="range_bounds", weft_terminates="1101"),
        server("siw_beyond_read", ["read:64"], fails=("oobread:64", "oobread 64 .*"),
               end="range_bounds", weft_terminates="0101"),
        server("siw_bad_invalidate", ["send:64"], fails=("badinv:64", "badinv 64 .*"),
               end="tag_.*", weft_terminates="0109"),
        server("siw_invalidate_region", ["send:64"], fails=("sendinv:64", "sendinv 64 .*"),
               end="invalidate_region", weft_terminates="0109"),
        server("siw_stale_write", ["write:64", "sendinv:64"], weft="--window",
               fails=("rawwrite:64", "rawwrite 64 .*"), end="tag_.*", weft_terminates="1100"),
        server("siw_no_receive", [], weft="--recvs 0", fails=("send:64", "send 64 .*"),
               end="receiver_not_ready", weft_terminates="1202"),
        server("siw_short_receive", [], weft="--recv-bytes 32", fails=("send:64", "send 64 .*"),
               end="receive_too_short", weft_terminates="1205"),
    ]


def tunable(prefix, **more):
    return both(prefix, MIXED, **more) + rping(prefix + "_rping", 64, GUEST, HOST, **more)


def groups():
    return [
        Group("siw", transfers() + connections() + refusals_by_siw() + refusals_by_weft()),
        Group("siw", run_programs()),
        Group("siw:mpa_crc_required=1",
              tunable("siw_crc_required", crc=True)
              # The listening side does not insist, whatever siw's parameter says.
              + [client("siw_crc_required_weft_off", MIXED, weft="--crc-off", crc=False),
                 server("siw_crc_required_weft_off", MIXED, weft="--crc-off", crc=True)]),
        # As a listener siw always takes a Write to open, as weft does; the dialling side has the choice.
        Group("siw:peer_to_peer=1", tunable("siw_p2p", rtr="write")),
        Group("siw:peer_to_peer=1,rtr_type=0x40",
              [c._replace(rtr="read" if c.weft_listens else "write")
               for c in tunable("siw_p2p_read")]),
        Group("siw:mpa_version=1",
              [server("siw_mpa1", ["send:64", "write:4097", "send:1", "write:3"], rtr=None,
                      terms="crc on rev 1 .*")]),
        Group("siw:try_gso=1", both("siw_gso", of("write", [LARGE]) + of("read", [LARGE]))),
    ]
