# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's verbs provider (package libfabric-bin), which leaves loopback interfaces out."""
from network import ADDRESS, INTERFACE
from runner import Case, Side

ENV = {"WEFT_DEVICES": "iw_" + INTERFACE}
# rxm 1.17 crashes when it learns that the peer has gone before it has taken the peer's last message
# from the completion queue: it posts the buffer again to the endpoint that it has just freed. With
# shared receives, an option of its own, it has no such endpoint to post to.
RXM_ENV = dict(ENV, FI_OFI_RXM_USE_SRX="1")
NOT = ["(?i)error", "(?i)fail", "fi_\\w+\\(\\)"]
# What -S all sends, and how fi_pingpong prints it.
SIZES = ["64", "256", "1k", "4k", "64k", "1m"]


def pingpong(name, options, sizes=None, count=10):
    """-c: both sides look at every byte that they get, and end with an error if one is wrong."""
    command = "fi_pingpong -c -I %d %s" % (count, options)
    env = RXM_ENV if "ofi_rxm" in options else ENV
    rows = [(r"^%s +%d +=%d +" % (size, count, count), 1) for size in sizes or SIZES]
    return Case("fi_pingpong_" + name,
                Side(command + " -B PORT", rows, NOT, env=env),
                Side(command + " -P PORT " + ADDRESS, rows, NOT, env=env),
                network=True, seconds=60)


CASES = [
    Case("fi_info_verbs",
         client=Side("fi_info -p verbs",
                     [(r"^provider: verbs$", 1), r"^provider: verbs;ofi_rxm$",
                      r"^ +fabric: Ethernet-iWARP$", r"^ +domain: iw_%s$" % INTERFACE,
                      r"^ +type: FI_EP_MSG$", r"^ +type: FI_EP_RDM$",
                      r"^ +protocol: FI_PROTO_IWARP$"], NOT, env=ENV),
         network=True),
    pingpong("msg", "-p verbs -e msg"),
    pingpong("rdm", "-p verbs;ofi_rxm -e rdm"),
    pingpong("rdm_tagged", "-p verbs;ofi_rxm -e rdm -m tagged"),
    pingpong("msg_often", "-p verbs -e msg -S 512", ["512"], 500),
    # Past what rxm sends at once: the receiver reads it by RDMA.
    pingpong("rdm_read", "-p verbs;ofi_rxm -e rdm -S 300000", ["292k"], 50),
]
