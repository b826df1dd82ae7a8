# SPDX-License-Identifier: BSD-2-Clause
"""The cases of interop.py for iSCSI and iSER: weft's target and the kernel's initiators, and the kernel's
target (LIO) with programs with libiscsi on weft and with weft's initiator."""
import socket

from interop_cases import GUEST, HOST, Group, make

NAME = "iqn.2026-11.org.example:disk"
LIO = "iqn.2026-11.org.example:lio"
ENDS = tuple(socket.inet_aton(a) for a in (HOST, GUEST))
SERVES = """role iscsi-target
%s
target %s
lun 0 mem:32M
allow iqn.2026-11.org.example:guest %s
"""


def initiator(name, portal, words, module, logins, **more):
    """The kernel logs in at weft's target; logins: so many are seen there."""
    transport = "tcp" if module == "iscsi_tcp" else "iser"
    session = r".* session of iqn\.2026-11\.org\.example:guest at 10\.77\.0\.11:\d+ with %s" % NAME
    says = ["disk of 65536 blocks by " + module, "written and read back", "ext4 good", "fio good"]
    says += ["unplugged, and good again"] if "unplug" in words else []
    more.setdefault("has_mpa", False)
    return make("iscsi_" + name, [], "%sdisk %s %s PORT %s %s" % (
        more.pop("digest", ""), transport, HOST, NAME, words), weft_listens=True,
        serves=SERVES % (portal, NAME, GUEST), ready=r".* iSCSI target serves at .*",
        weft_says=[session] * logins + [".* iSCSI target has ended"],
        guest_says=says + ["logged out"], seconds=150, **more)


def target(name, transport, devices, **more):
    """A program with libiscsi on weft logs in at the kernel's target."""
    url = "%s://%s:PORT/%s/0" % ("iscsi" if transport == "tcp" else "iser", GUEST, LIO)
    commands = ["write -P 0x5a 0 64k", "write -f -P 0xa5 1M 256k", "flush", "read -P 0x5a 0 64k",
                "read -P 0xa5 1M 256k", "read -P 0 512k 64k"]
    words = ["qemu-io", "-f", "raw"]
    for command in commands:
        words += ["-c", command]
    says = [r"wrote (\d+)/\1 bytes.*"] * 2 + [r"read (\d+)/\1 bytes.*"] * 3
    return make("iscsi_lio_" + name, words + [url], "lio %s %s PORT %s" % (transport, GUEST, LIO),
                is_program=True, env=["WEFT_DEVICES=" + devices], weft_says=says,
                guest_says=["listening", "disk good", "ended"], never="verification failed",
                has_mpa=False, seconds=80, **more)


def target_of_weft(name, transport, wire="", **more):
    """weft's own initiator writes to the kernel's target, and reads again. The guest ends with the first session."""
    url = "%s://%s:PORT/%s/0%s" % ("iscsi" if transport == "tcp" else "iser", GUEST, LIO, wire and "?wire=" + wire)
    part = "head -c %d /dev/zero | tr '\\0' '\\%s' >>$file"
    script = " && ".join(["file=$(mktemp)", part % (65536, "132"), part % (983040, "000"), part % (262144, "245"),
                          "OURWEFT iscsi write '%s' $file --fua --verify" % url, "rm $file", "echo all the same"])
    return make("iscsi_lio_" + name, ["sh", "-c", script], "lio %s %s PORT %s" % (transport, GUEST, LIO),
                is_program=True, weft_says=["all the same"],
                guest_says=["listening", "disk good", "ended"], has_mpa=False, seconds=80, **more)


def groups():
    return [
        Group("siw", [
            initiator("tcp", "listen %s:PORT" % HOST, "unplug", "iscsi_tcp", 2),
            initiator("tcp_digests", "listen %s:PORT" % HOST, "", "iscsi_tcp", 1,
                      digest="DIGEST=CRC32C "),
            target("tcp", "tcp", "roce_*"),
            target_of_weft("weft_tcp", "tcp"),
        ]),
        Group("siw", [
            initiator("iser_siw", "iser iwarp %s:PORT" % HOST, "unplug", "ib_iser", 2),
            target("iser_siw", "iser", "iw_*"),
            target_of_weft("weft_iser_siw", "iser", "iwarp"),
        ]),
        Group("rxe", [
            initiator("iser_rxe", "iser roce %s:PORT" % HOST, "unplug", "ib_iser", 2, roce=ENDS),
            target("iser_rxe", "iser", "roce_*", roce=ENDS),
            target_of_weft("weft_iser_rxe", "iser", "roce", roce=ENDS),
        ]),
    ]
