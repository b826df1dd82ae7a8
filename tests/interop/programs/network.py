# SPDX-License-Identifier: BSD-2-Clause
"""A network of its own for a case, with an interface that is not loopback.

Some programs leave loopback interfaces out. A network namespace inside a user namespace needs no
root where the machine allows it; the traffic stays inside.
"""
import select
import subprocess

INTERFACE = "weft0"
ADDRESS = "192.0.2.1"
UP_S = 10

# It lives until its input ends, so until close() or the end of this process, however that comes.
# Link-local addresses that need no time either: programs take them as they find them.
HOLD = ("(echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad) 2>/dev/null; "
        "ip link set lo up && ip link add %s type veth peer name weft1 && "
        "ip address add %s/24 dev %s && ip link set %s up && ip link set weft1 up && "
        # An address of IPv6 that needs no time: without one, names of IPv6 are not looked up.
        "(ip address add 2001:db8::1/64 dev weft1 nodad || true) && echo up && exec cat" %
        (INTERFACE, ADDRESS, INTERFACE, INTERFACE))


class Network:
    def __init__(self):
        """why_not is None, or says why there is no such network on this machine."""
        self.why_not = "no namespace: unshare is not installed"
        self.holder = None
        try:
            self.holder = subprocess.Popen(
                ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", HOLD],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            return
        can_read, _, _ = select.select([self.holder.stdout], [], [], UP_S)
        line = self.holder.stdout.readline().strip() if can_read else "it takes too long"
        self.why_not = None if line == "up" else "no network namespace here: " + line

    def enter(self):
        """What goes before a command. The process keeps its id."""
        return ["nsenter", "--target", str(self.holder.pid), "--user", "--net",
                "--preserve-credentials"]

    def close(self):
        if self.holder:
            self.holder.stdin.close()
            self.holder.wait()
            self.holder.stdout.close()
