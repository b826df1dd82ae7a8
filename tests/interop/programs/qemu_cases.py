# SPDX-License-Identifier: BSD-2-Clause
"""Live migration by QEMU (package qemu-system-x86) over RDMA: migrate.py has the guest."""
import os
import shutil

from network import ADDRESS
from runner import Case, Side

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrate.py")


def lack():
    return None if shutil.which("qemu-system-x86_64") else "qemu-system-x86_64 is not installed"


def migration(name, devices, address, options=""):
    """A migration that succeeded ends without a word of an error, on either side."""
    env = {"WEFT_LOG": "error"}
    if devices:
        env["WEFT_DEVICES"] = devices
    return Case("qemu_migration_" + name,
                client=Side("python3 %s DIR %s PORT %s" % (SCRIPT, address, options), ["^migrated: "],
                            ["(?i)failed", "(?i)error"], env=env),
                network=True, seconds=60, needs=lack)


CASES = [
    migration("roce", None, ADDRESS),
    migration("roce_pin_all", None, "127.0.0.1", "--pin-all"),
    # What changes while it is sent has another CRC than its frame: docs/programs.md.
    migration("iwarp", "iw_*", ADDRESS, "--paused"),
    migration("iwarp_pin_all", "iw_*", "127.0.0.1", "--pin-all --paused"),
]
