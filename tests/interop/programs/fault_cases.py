# SPDX-License-Identifier: BSD-2-Clause
"""Failures on purpose (WEFT_FAULTS): programs that know nothing of them meet them, and both ends end."""
from runner import Case, Side

ON = "failures are made on purpose, by WEFT_FAULTS="


def rping(name, faults, client, server, count=20, pings=None):
    """Faults of the client; what the two say, and with which status they end."""
    common = "-a 127.0.0.1 -p PORT -v -V -C %d" % count
    data = [(r"^ping data: rdma-ping-\d+: ", count if pings is None else pings)] if pings != 0 else []
    return Case("faults_" + name,
                Side("rping -s " + common, server.says, ["WEFT_FAULTS"], server.status),
                Side("rping -c " + common, [ON + faults] + client.says + data, client.says_not,
                     client.status, env={"WEFT_FAULTS": faults}))


def made(*what):
    return "made by WEFT_FAULTS: " + ", ".join(what) + "$"


ALONE = Side("", status="ended")
CUT_OFF = Side("", ["server DISCONNECT EVENT"])

CASES = [
    rping("wc_delay", "seed=1,wc_delay=0.3:2ms", Side("", [made(r"wc_delay \d+")]), Side("")),
    rping("rnr", "seed=1,rnr=0.5:3ms", Side("", [made(r"rnr \d+")]), Side("")),
    # The seed alone decides, whatever runs beside it: this request, and no other.
    rping("qp_error_of_seed_5", "seed=5,qp_error=0.02",
          Side("", [made("qp_error 1")], status=None), CUT_OFF, count=1000, pings=6),
    rping("disconnect_after", "disconnect_after=2KB", Side("", [made("disconnect_after 1")]),
          CUT_OFF, count=1000, pings=9),
    rping("post_full", "post_full=1",
          Side("", ["post send error 12", made("post_full 1")], status=12), CUT_OFF, pings=0),
    rping("no_memory", "no_memory=1",
          Side("", ["ibv_create_cq failed", made("no_memory 1")], status=12), ALONE, pings=0),
    rping("connect_refused", "connect_refused=1",
          Side("", ["RDMA_CM_EVENT_REJECTED, error -111", made("connect_refused 1")], status=255),
          ALONE, pings=0),
    Case("faults_that_cannot_be_read",
         client=Side("rping -c -a 127.0.0.1 -p PORT -C 1",
                     [("WEFT_FAULTS: rnr=2: a chance is a number from 0 to 1", 1)], [ON],
                     status=255, env={"WEFT_FAULTS": "seed=7,rnr=2"})),
    # perftest's own verdict: it sees the failed completion, and ends.
    Case("faults_ib_write_bw_qp_error",
         Side("ib_write_bw -R -d iw_lo -p PORT -n 2000 -s 4096", status=None),
         Side("ib_write_bw -R -d iw_lo -p PORT -n 2000 -s 4096 127.0.0.1",
              ["Completion with error at client", "Failed status 11", made(r"qp_error \d+")], status=1,
              env={"WEFT_FAULTS": "seed=2,qp_error=0.01"})),
]
