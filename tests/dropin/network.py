# SPDX-License-Identifier: BSD-2-Clause
"""A network namespace of a script's own."""
import subprocess

from script import PATIENCE_S, Skip, expect_equal, need


class Network:
    """Has lo only. It lives until its holder's input ends."""

    def __init__(self):
        need("unshare", "nsenter", "ip")
        self.holder = subprocess.Popen(
            ["unshare", "-rn", "sh", "-c", "ip link set lo up && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.holder.stdout.readline().strip()
        if said != "up":
            self.close()
            raise Skip("no network namespace here: " + said)

    def enter(self, *words):
        return ["nsenter", "--target", str(self.holder.pid), "--user", "--net",
                "--preserve-credentials", *words]

    def ip(self, *words):
        done = subprocess.run(self.enter("ip", *words), timeout=PATIENCE_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        expect_equal("ip %s: %s" % (" ".join(words), done.stdout), done.returncode, 0)

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(timeout=PATIENCE_S)
        self.holder.stdout.close()
