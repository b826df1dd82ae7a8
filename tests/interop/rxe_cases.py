# SPDX-License-Identifier: BSD-2-Clause
"""The cases of interop.py against the kernel's rxe: weft's RoCE device, by unmodified programs.

NAME_client: the program that dials, and acts, is on weft; NAME_server: it is on rxe.
"""
import socket

from interop_cases import AWAIT_LISTEN, GUEST, GUEST6, HOST, HOST6, Group, make

WEFT, RXE = "roce_rig0", "rxe0"
GID4, GID6 = 1, 2  # of both devices; 0 is the link-local address
ENDS4 = tuple(socket.inet_aton(a) for a in (HOST, GUEST))
ENDS6 = tuple(socket.inet_pton(socket.AF_INET6, a) for a in (HOST6, GUEST6))
SMALL = [0, 1, 2, 3, 4, 5, 63, 1023, 1024, 1025, 4097]
LARGE = (1 << 20) + 1


def both(name, serve, dial, says, **more):
    """The same program at both ends, in both roles.

    serve and dial are commands in which DEVICE and PEER are filled in; says are the lines of
    (the serving side, the dialling side).
    """
    more.setdefault("roce", ENDS4)
    on_weft = [c.replace("DEVICE", WEFT).replace("PEER", GUEST) for c in (serve, dial)]
    on_rxe = [c.replace("DEVICE", RXE).replace("PEER", HOST) for c in (serve, dial)]
    return [
        make("rxe_%s_client" % name, on_weft[1].split(), on_rxe[0] + AWAIT_LISTEN,
             is_program=True, weft_says=says[1], guest_says=["listening"] + says[0], **more),
        make("rxe_%s_server" % name, on_weft[0].split(), on_rxe[1], is_program=True,
             weft_listens=True, weft_says=says[0], guest_says=says[1], **more),
    ]


def ends_of(gid):
    return ENDS6 if gid == GID6 else ENDS4


def pingpong(kind, count, words="", name="", gid=GID4):
    """-c: the dialling side looks into what came back; it says so and goes on if it is not right."""
    command = "ibv_%s_pingpong -d DEVICE -g %d -p PORT -n %d -c %s " % (kind, gid, count, words)
    says = [r"\d+ bytes in .* seconds = .*", r"\d+ iters in .* seconds = .* usec/iter"]
    return both("%s_pingpong%s" % (kind, name), command, command + "PEER", [says, says],
                never="invalid data", roce=ends_of(gid))


def pingpongs():
    cases = pingpong("rc", 100)
    cases += pingpong("rc", 50, "-s 3001 -m 256 -e", "_odd")
    cases += pingpong("rc", 5, "-s %d" % LARGE, "_long")
    cases += pingpong("rc", 50, "-s 5001", "_ipv6", GID6)
    cases += pingpong("uc", 50)
    cases += pingpong("uc", 20, "-s 3001", "_ipv6", GID6)
    cases += pingpong("ud", 50, "-s 1000")
    cases += pingpong("ud", 50, "-s 1021", "_ipv6", GID6)
    cases += pingpong("srq", 50, "-q 4")
    cases += pingpong("srq", 20, "-q 3 -s 10001", "_ipv6", GID6)
    return cases


def perftest(tool, size, count, words="", name="", gid=GID4):
    """Each end prints its row; the servers of reads and atomics only look on. What the guest
    measures is by an emulated clock: its figures do not count."""
    size_words = "" if "atomic" in tool else "-s %d" % size
    command = "%s -d DEVICE -x %d -F -p PORT -n %d %s %s " % (tool, gid, count, size_words, words)
    pairs = 4 if "-q 4" in words else 1
    row = [r"%d +%d +.*" % (size, pairs * count)]  # of all queue pairs together
    serves = [] if "_lat" in tool and ("read" in tool or "atomic" in tool) else row
    return both(tool + name, command, command + "PEER", [serves, row], roce=ends_of(gid))


def perftests():
    cases = []
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        cases += perftest(tool, 65536, 100)
        cases += perftest(tool, 4097, 100, name="_odd")
        cases += perftest(tool, 1 << 20, 8, name="_long")
        cases += perftest(tool, 10001, 50, name="_ipv6", gid=GID6)
    cases += perftest("ib_send_bw", 1024, 100, "-c UD", "_ud")
    cases += perftest("ib_send_bw", 1021, 100, "-c UD", "_ud_ipv6", GID6)
    cases += perftest("ib_send_bw", 4097, 100, "-c UC", "_uc")
    cases += perftest("ib_send_lat", 63, 100)
    cases += perftest("ib_write_lat", 8, 100)
    cases += perftest("ib_read_lat", 8, 100)
    cases += perftest("ib_atomic_bw", 8, 100)
    cases += perftest("ib_atomic_bw", 8, 100, "-A CMP_AND_SWAP", "_cswap")
    cases += perftest("ib_atomic_lat", 8, 100)
    cases += perftest("ib_write_bw", 4096, 50, "-q 4", "_many")
    cases += perftest("ib_send_bw", 4096, 50, "-b -e", "_both_ways")
    return cases


def pair(name, ops, words="", gid=GID4, fails=None):
    """pair.c at both ends: every byte is looked at. fails: the last operation and its end."""
    words = "DEVICE %d %s " % (gid, words)
    acts = list(ops) + ([fails[0]] if fails else [])

    def line(op, end):
        kind, _, size = op.partition(":")
        return "%s %s %s" % (kind, size or 64, end)

    dials = ["connected"] + [line(op, "success") for op in ops]
    dials += [line(*fails)] if fails else []
    return both(name, "pair listen 0.0.0.0 PORT " + words,
                "pair dial PEER PORT " + words + " ".join(acts),
                [["connected"] + [line(op, "good") for op in ops] + ["end"], dials + ["end"]],
                never=r"\bbad\b", roce=ends_of(gid))


def of(kind, sizes):
    return ["%s:%d" % (kind, n) for n in sizes]


ATOMICS = ["fadd", "fadd", "cswap", "fadd"]
MIXED = of("send", [3, 5001]) + of("write", [4097, 70001]) + of("read", [4097, 70001]) + \
    ["sendimm:1025", "writeimm:9001", "sends:3000", "writes:5000", "reads:9000"] + ATOMICS


def pairs():
    cases = pair("send", of("send", SMALL) + of("sendimm", SMALL))
    cases += pair("write", of("write", SMALL) + of("writeimm", SMALL))
    cases += pair("read", of("read", SMALL) + ATOMICS)
    cases += pair("large", of("send", [LARGE]) + of("write", [LARGE]) + of("read", [LARGE]))
    cases += pair("many", ["sends:700", "writes:65000", "reads:4096", "sends:65000", "reads:65000"])
    cases += pair("many_shallow", ["reads:4096"] + ATOMICS, "--depth 1")
    cases += pair("ipv6", MIXED, gid=GID6)
    cases += pair("mtu256", MIXED, "--mtu 256")
    # Nothing comes back.
    uc = pair("uc", ["send:1", "sends:3000", "sendimm:1025", "writeimm:9001"], "--uc")
    cases += [uc[0]._replace(roce=ENDS4[:1]), uc[1]._replace(roce=ENDS4[1:])]
    cases += pair("late_receive", ["send:64", "late:5000", "send:64"])
    return cases


def refusals():
    access, invalid = "remote access error", "remote invalid request error"
    return sum([
        pair("bad_write", ["write:64"], fails=("badwrite:5000", access)),
        pair("bad_read", ["read:64"], fails=("badread:5000", access)),
        pair("beyond_write", ["write:64"], fails=("oobwrite:64", access)),
        pair("beyond_read", ["read:64"], fails=("oobread:64", access)),
        pair("bad_atomic", ["fadd"], fails=("badatomic", access)),
        # rxe does not let its own programs ask for that.
        pair("odd_atomic", ["fadd"], fails=("oddatomic", invalid))[:1],
        pair("no_receive", ["send:64"], fails=("norecv:64", "RNR retry counter exceeded")),
    ], [])


def losses():
    """One packet of a hundred is lost, each way."""
    cases = pair("loss", MIXED + ["writes:65000", "reads:65000", "sends:65000"])
    cases += pingpong("rc", 200, "-s 5001", "_loss")
    cases += perftest("ib_write_bw", 65536, 50, name="_loss")
    cases += perftest("ib_read_bw", 4096, 1000, name="_small_loss")
    cases += perftest("ib_read_bw", 65536, 100, name="_loss")
    cases += perftest("ib_atomic_bw", 8, 200, name="_loss")
    return cases


def large_frames():
    cases = pair("mtu4096", MIXED, "--mtu 4096")
    cases += pair("mtu4096_ipv6", MIXED, "--mtu 4096", GID6)
    cases += perftest("ib_write_bw", 1 << 20, 8, name="_mtu4096")
    cases += perftest("ib_send_bw", 4096, 50, "-c UD", "_ud_mtu4096")
    return cases


# Listeners of RoCE have no TCP socket. rxe's are told by rdma, weft's have a name (udp_door.c).
AWAIT = (" & p=$!; n=0; while kill -0 $p && [ $n -lt 400 ] && ! %s;"
         " do usleep 50000; n=$((n+1)); done; echo listening; wait $p; ")
AWAIT_RXE = AWAIT % "rdma resource show cm_id | grep -q 'LISTEN.*:PORT'"
AWAIT_WEFT = AWAIT % "grep -qi '@weft.roce.service.*HEX$' /proc/net/unix"


def by_cm(name, serve, dial, says, **more):
    """The same, for programs that are connected by librdmacm: ADDRESS is that of the server."""
    port = more.pop("port", None)
    server = more.pop("address", (HOST, GUEST))

    def at(text):
        return text.replace("PORT", str(port)).replace("HEX", "%04X" % port) if port else text

    cases = both(name, serve, dial, says, **more)
    weft = [w.replace("ADDRESS", server[1]) for w in cases[0].weft]
    guest = serve.replace("ADDRESS", server[1]).replace("DEVICE", RXE)
    cases[0] = cases[0]._replace(weft=weft, env=("WEFT_DEVICES=roce_*",),
                                 guest=guest + at(AWAIT_RXE))
    cases[1] = cases[1]._replace(weft=[w.replace("ADDRESS", server[0]) for w in cases[1].weft],
                                 guest=cases[1].guest.replace("ADDRESS", server[0]),
                                 env=("WEFT_DEVICES=roce_*",), await_weft=at(AWAIT_WEFT))
    return cases


def rping(name, size, address=(HOST, GUEST), ends=ENDS4):
    words = "-a ADDRESS -p PORT -C 3 -S %d -V -v" % size
    says = [[who + r"ping data: rdma-ping-%d: .*" % n for n in range(3)]
            for who in ("server ", "")]
    return by_cm("rping" + name, "rping -s " + words, "rping -c " + words, says, address=address,
                 roce=ends)


UDADDY_PORT = 7174  # which no option changes


def managed():
    """Connections and datagrams by librdmacm."""
    done = ["data transfers complete", "return status 0"]
    cases = rping("", 64)
    cases += rping("_long", 20000)
    cases += rping("_ipv6", 1000, (HOST6, GUEST6), ENDS6)
    cases += by_cm("udaddy", "udaddy -c 2 -C 10", "udaddy -c 2 -C 10 -s ADDRESS", [done, done],
                   port=UDADDY_PORT)
    cases += by_cm("ucmatose", "ucmatose -c 5 -C 10 -p PORT",
                   "ucmatose -c 5 -C 10 -p PORT -s ADDRESS", [done, done])
    for tool in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
        command = "%s -R -F -d DEVICE -p PORT -n 50 -s 4097 " % tool
        row = [r"4097 +50 +.*"]
        cases += by_cm("cm_" + tool, command, command + "ADDRESS", [row, row])
    return cases


def groups():
    return [
        Group("rxe", pairs() + refusals() + pingpongs() + perftests()),
        Group("rxe", managed()),
        Group("rxe", losses(), lose=100),
        Group("rxe", large_frames(), mtu=9000),
    ]
