# SPDX-License-Identifier: BSD-2-Clause
"""Failures on purpose (WEFT_FAULTS) for programs on a RoCE device: packets, and connections.

Not for programs that end when they have received all, as ibv_rc_pingpong does: if their last packet is lost,
no process is left to send it again. perftest's two ends wait for each other, over TCP.
"""
import dataclasses

from fault_cases import ALONE, CUT_OFF, made, rping
from roce_cases import ROW
from runner import Case, Side

NOT = ["(?i)error", "(?i)failed", "(?i)unable", "(?i)couldn't", "(?i)unexpected"]


def perftest(tool, name, faults, kinds, options=""):
    """Both ends have them, on what they send and on what they receive, and both do not notice."""
    command = "%s -d roce_lo -p PORT -u 16 -n 200 %s" % (tool, options)
    env = {"WEFT_FAULTS": faults}
    says = [made(*[k + r" \d+" for k in kinds])]
    return Case("roce_faults_%s_%s" % (tool, name), Side(command, says, NOT, env=env),
                Side(command + " 127.0.0.1", says + [(ROW % (r"\d+", r"\d+"), 1)], NOT, env=env),
                network=True, seconds=60)


PACKETS = [
    perftest("ib_send_bw", "loss", "seed=1,loss=0.005", ["loss"]),
    perftest("ib_write_bw", "corrupt", "seed=2,corrupt=0.005", ["corrupt"]),
    perftest("ib_read_bw", "loss_ipv6", "seed=3,loss=0.002", ["loss"], "-x 1 -s 8192"),
    perftest("ib_atomic_bw", "all", "seed=4,loss=0.01,duplicate=0.05,corrupt=0.01,reorder=0.01,"
             "delay=0.01:1ms", ["loss", "duplicate", "corrupt", "reorder", "delay"], "-n 1000"),
    perftest("ib_send_lat", "reorder_and_delay", "seed=5,reorder=0.05,delay=0.05:500us",
             ["reorder", "delay"], "-s 5000"),
]

CONNECTIONS = [
    # How many acknowledgements are among the bytes is up to the time.
    rping("disconnect_after", "disconnect_after=4KB",
          Side("", [made("disconnect_after 1"), "^ping data: rdma-ping-2: "], ["rdma-ping-60: "]),
          CUT_OFF, count=1000, pings=0),
    rping("connect_refused", "connect_refused=1",
          Side("", ["RDMA_CM_EVENT_REJECTED, error 8", made("connect_refused 1")], status=255),
          ALONE, pings=0),
    rping("wc_delay", "seed=1,wc_delay=0.3:2ms", Side("", [made(r"wc_delay \d+")]), Side("")),
    rping("rnr", "seed=1,rnr=0.5:3ms", Side("", [made(r"rnr \d+")]), Side("")),
    rping("qp_error_of_seed_5", "seed=5,qp_error=0.02",
          Side("", [made("qp_error 1")], status=None), CUT_OFF, count=1000, pings=6),
    rping("duplicate", "seed=1,duplicate=0.2", Side("", [made(r"duplicate \d+")]), Side("")),
]

CASES = PACKETS + [dataclasses.replace(case, name="roce_" + case.name, devices="roce_*", network=True)
                   for case in CONNECTIONS]
