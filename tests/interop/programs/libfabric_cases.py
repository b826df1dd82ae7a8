# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's verbs provider (package libfabric-bin), which leaves loopback interfaces out.

On RoCE nothing is chosen: libfabric sees all devices, and takes RoCE's. iWARP must be asked for.
"""
from network import ADDRESS, INTERFACE
from runner import Case, Side

IWARP_ENV = {"WEFT_DEVICES": "iw_" + INTERFACE}
# rxm 1.17 crashes when it learns that the peer has gone before it has taken the peer's last message
# from the completion queue: it posts the buffer again to the endpoint that it has just freed. On iWARP
# a third of the runs do, on RoCE some on a busy machine. With shared receives, an option of its own,
# rxm has no such endpoint to post to (docs/programs.md says what is wrong with those).
RXM_ENV = {"FI_OFI_RXM_USE_SRX": "1"}
NOT = ["(?i)error", "(?i)fail", "fi_\\w+\\(\\)", "fi_getinfo: -"]
# What -S all sends, and how fi_pingpong prints it.
SIZES = ["64", "256", "1k", "4k", "64k", "1m"]


def pingpong(name, env, options, sizes=None, count=10):
    """-c: both sides look at every byte that they get, and end with an error if one is wrong."""
    command = "fi_pingpong -c -I %d %s" % (count, options)
    env = dict(env, **RXM_ENV) if "ofi_rxm" in options else env
    rows = [(r"^%s +%d +=%d +" % (size, count, count), 1) for size in sizes or SIZES]
    return Case(name, Side(command + " -B PORT", rows, NOT, env=env),
                Side(command + " -P PORT " + ADDRESS, rows, NOT, env=env), network=True, seconds=60)


def info(name, env, options, says):
    return Case(name, client=Side("fi_info -p verbs " + options, says, NOT, env=env), network=True)


def cases(prefix, env, kind):
    """Of one kind of device: what is to be seen of it, and traffic over it."""
    domain = r"^ +domain: %s_%s$" % (kind.device, INTERFACE)
    fi = prefix + "fi_pingpong_"
    return [
        info(prefix + "fi_info_verbs", env, "",
             [r"^provider: verbs$", r"^provider: verbs;ofi_rxm$", r"^ +fabric: %s" % kind.fabric, domain,
              r"^ +type: FI_EP_MSG$", r"^ +type: FI_EP_RDM$", r"^ +protocol: %s$" % kind.protocol]),
        info(prefix + "fi_info_msg", env, "-t FI_EP_MSG",
             [r"^provider: verbs$", domain, r"^ +type: FI_EP_MSG$", r"^ +protocol: %s$" % kind.protocol]),
        pingpong(fi + "msg", env, "-p verbs -e msg"),
        pingpong(fi + "rdm", env, "-p verbs;ofi_rxm -e rdm"),
        pingpong(fi + "rdm_tagged", env, "-p verbs;ofi_rxm -e rdm -m tagged"),
        pingpong(fi + "msg_often", env, "-p verbs -e msg -S 512", ["512"], 500),
        # Past what rxm sends at once: the receiver reads it by RDMA.
        pingpong(fi + "rdm_read", env, "-p verbs;ofi_rxm -e rdm -S 300000", ["292k"], 50),
    ]


class Iwarp:
    device, fabric, protocol = "iw", "Ethernet-iWARP$", "FI_PROTO_IWARP"


class Roce:
    device, fabric, protocol = "roce", "IB-0x", "FI_PROTO_RDMA_CM_IB_RC"


CASES = cases("", IWARP_ENV, Iwarp) + cases("roce_", {}, Roce)
