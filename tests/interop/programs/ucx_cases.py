# SPDX-License-Identifier: BSD-2-Clause
"""UCX (packages ucx-utils, libucx-dev) and Open MPI on it (openmpi-bin, libopenmpi-dev).

UCX_TLS allows no way between two processes but a transport over weft's device. Programs of one host
share UDP port 4791, so each case has a network of its own.
"""
import glob
import os
import re
import shutil
import subprocess

from network import ADDRESS, INTERFACE
from runner import Case, Side

HERE = os.path.dirname(os.path.abspath(__file__))
NOT = ["ERROR", "WARN", "(?i)wrong", "(?i)fatal"]
# Of results: iterations, then figures. The average of a last interval without iterations is inf.
ROW = r"^ +%d +\d+\.\d+ +(?:\d+\.\d+|inf) "


def env_of(transport, device="roce_lo", gid=None):
    env = {"UCX_TLS": transport + ",self", "UCX_NET_DEVICES": device + ":1"}
    return dict(env, UCX_IB_GID_INDEX=str(gid)) if gid is not None else env


# ---- ucx_perftest -------------------------------------------------------------------------------

def knows(command, word):
    """Whether the release of UCX that is installed has a word in what this command prints."""
    try:
        return word in subprocess.run(command.split(), stdin=subprocess.DEVNULL, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    except OSError:
        return False  # the runner says what is not installed


# One that was built with MPI must be told that mpirun has not started it.
PERFTEST = "ucx_perftest -P 0" if knows("ucx_perftest -h", "enable MPI mode") else "ucx_perftest"
# Else UCX 1.18 wants a remote flush, which it has for mlx5 alone.
FENCE = {"UCX_FENCE_MODE": "weak"} if knows("ucx_info -c", "UCX_FENCE_MODE") else {}


def perftest(transport, test, options="", count=200, **where):
    command = PERFTEST + " -p PORT -f -w 10 -n %d -t %s %s" % (count, test, options)
    env = env_of(transport, **where)
    name = "_".join(["ucx", transport, test, *where.keys()] + re.findall(r"(?<=-D )\w+|\d{2,}", options))
    address = ADDRESS if where.get("device") else "127.0.0.1"
    return Case(name, Side(command, [], NOT, env=env),
                Side(command + " " + address, [ROW % count], NOT, env=env), network=True, seconds=60)


def uct(transport, test, options=""):
    """The transport itself, without protocols on it."""
    return perftest(transport, test, ("-d roce_lo:1 -x %s %s" % (transport, options)).strip())


# What a transport has is UCX's: over UD no one-sided operations, and no swap over RC.
PERFTESTS = [perftest(transport, test) for transport in ("rc_v", "ud_v") for test in (
    "tag_lat", "tag_bw", "ucp_am_lat", "ucp_am_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add",
    "ucp_fadd", "ucp_swap", "ucp_cswap", "stream_bw")]
PERFTESTS += [
    perftest("rc_v", "tag_lat", gid=1),
    perftest("ud_v", "tag_lat", gid=1),
    perftest("rc_v", "tag_bw", "-s 1000001", 20),
    perftest("ud_v", "tag_bw", "-s 1000001", 20),
    perftest("rc_v", "tag_sync_bw", "-s 4099"),
    perftest("rc_v", "tag_lat", device="roce_" + INTERFACE),
    perftest("ud_v", "tag_lat", device="roce_" + INTERFACE),
    uct("rc_verbs", "am_lat"),
    uct("rc_verbs", "am_bw", "-D zcopy -s 8000"),
    uct("rc_verbs", "put_lat"),
    uct("rc_verbs", "put_bw", "-D zcopy -s 100001"),
    uct("rc_verbs", "get", "-D zcopy -s 8193"),
    uct("rc_verbs", "add_lat"),
    uct("rc_verbs", "fadd"),
    uct("rc_verbs", "cswap"),
    uct("ud_verbs", "am_lat"),
    uct("ud_verbs", "am_bw", "-D zcopy -s 1001"),
]

INFO_SAYS = [r"^# +Transport: rc_verbs$", r"^# +Transport: ud_verbs$", r"^# +Device: roce_lo:1$",
             r"^# +Device: roce_%s:1$" % INTERFACE]
INFO = [
    Case("ucx_info", client=Side("ucx_info -d", INFO_SAYS, NOT), network=True),
    Case("ucx_info_by_weft_run", client=Side("LIBRARIES/weft run ucx_info -d", INFO_SAYS, NOT),
         network=True, no_tsan="the command has a thread sanitizer of its own"),
]

# ---- Programs of ours that look at what they get ------------------------------------------------


def compiler_of(compiler, libraries, header):
    """Functions for a Case: what is missing to compile NAME_sample.c, and compiling it."""
    def lack():
        if not shutil.which(compiler):
            return "%s is not installed" % compiler
        if header and not glob.glob(header):
            return "there is no %s" % header
        return None

    def prepare_of(name):
        def prepare(folder):
            subprocess.run([compiler, "-O1", "-g", "-o", os.path.join(folder, name),
                            os.path.join(HERE, name + ".c")] + libraries, check=True)
        return prepare
    return lack, prepare_of


lack_ucx, prepare_ucx = compiler_of("cc", ["-lucp", "-lucs"], "/usr/include/ucp/api/ucp.h")
lack_mpi, prepare_mpi = compiler_of("mpicc", [], None)


def sample(name, transport, **where):
    """Tagged and active messages, put, get and atomics between two processes."""
    says = ["^%s: every byte is right$" % w for w in ("tag", "am", "put", "get", "atomics")]
    return Case("ucx_sample_" + name,
                client=Side("DIR/ucx_sample", says + ["^both have ended$"], NOT,
                            env=env_of(transport, **where)),
                network=True, seconds=60, needs=lack_ucx, prepare=prepare_ucx("ucx_sample"))


SAMPLES = [
    sample("rc", "rc_v"),
    sample("rc_ipv6", "rc_v", gid=1),
    sample("ud", "ud_v"),
    sample("ud_ipv6", "ud_v", gid=1),
    sample("rc_interface", "rc_v", device="roce_" + INTERFACE),
]


def listener(name, env, address="127.0.0.1"):
    """ucp_listener_create() at all addresses, and ucp_ep_create() to one of them."""
    env = dict(env, UCX_LOG_LEVEL="info")
    client = "DIR/ucx_listener_sample PORT " + address
    return Case("ucx_listener_" + name, Side("DIR/ucx_listener_sample PORT", [], NOT, env=env),
                Side(client, ["^every byte is right$", r"tag\(rc_verbs/roce_"], NOT, env=env), network=True,
                seconds=60, needs=lack_ucx, prepare=prepare_ucx("ucx_listener_sample"))


SAMPLES += [
    # By its default transports, with devices of both kinds: it listens at the port by TCP, too.
    listener("by_default", {}),
    listener("by_default_interface", {}, ADDRESS),
    listener("by_default_roce", {"WEFT_DEVICES": "roce_*"}),
]

MPI_TESTS = ["messages", "broadcast", "reduce", "alltoall", "fence", "lock"]
# As UCX says it with info: what goes from one rank to another goes by this.
GOES_BY = r"UCX +INFO .*\b%s\(%s/roce_lo:1\)"
MPIRUN = ("mpirun -np %d --allow-run-as-root --oversubscribe --mca pml ucx --mca osc ucx --mca btl self "
          "--mca orte_tmpdir_base DIR DIR/mpi_sample")


def mpi_case(name, side):
    return Case("mpi_" + name, client=side, network=True, seconds=100, needs=lack_mpi,
                prepare=prepare_mpi("mpi_sample"))


def mpi(name, transport, says, ranks=4):
    env = dict(env_of(transport), UCX_LOG_LEVEL="info", **FENCE)
    return mpi_case(name, Side(MPIRUN % ranks, says, NOT, env=env))


# One rank without mpirun, which, where its ranks end at once, now and then dies with them by a signal of its own
# (Open MPI 4.1, with weft and without).
ALONE = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx",
         "OMPI_MCA_btl": "self", "OMPI_MCA_orte_tmpdir_base": "DIR"}


def mpi_alone(name, says, says_not, status=0, devices="roce_lo"):
    env = dict(env_of("rc_v"), WEFT_DEVICES=devices, **ALONE)
    return mpi_case(name, Side("DIR/mpi_sample", says, says_not, env=env, status=status))


def mpi_says(ranks):
    return [("^%s: all %d ranks have what they should$" % (t, ranks), 1) for t in MPI_TESTS]


MPIS = [
    mpi("rc", "rc_v", mpi_says(4) + [GOES_BY % ("tag", "rc_verbs"), GOES_BY % ("rma", "rc_verbs")]),
    mpi("ud", "ud_v", mpi_says(4) + [GOES_BY % ("tag", "ud_verbs")]),
    mpi("rc_and_ud", "rc_v,ud_v", mpi_says(2), 2),
    # The proof of the others: without weft's device there is no way.
    mpi_alone("with_the_device", mpi_says(1), NOT),
    mpi_alone("without_the_device", ["PML ucx cannot be selected|No components were able to be opened"],
              ["ranks have"], 1, "iw_lo"),
]

CASES = INFO + PERFTESTS + SAMPLES + MPIS
