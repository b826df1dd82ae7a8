#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Installs weft's Debian packages in a bare Debian of this machine's release, and uses them there.

    bare.py FOLDER          FOLDER holds the packages

The bare Debian is made by mmdebstrap once and kept in $WEFT_RIG_CACHE (default ~/.cache/weft-rig); the packages
are installed in a copy of it, which is removed. Only apt reaches the network, programs have no more than
loopback. The last line is `N passed, N failed, N skipped`; `skipped: reason` and exit status 0 if this machine
cannot do it.
"""
import fcntl
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "../distro"), os.path.join(HERE, "../dropin")]
import distro  # noqa: E402
from script import expect, expect_equal  # noqa: E402

PATIENCE_S = 900
ENTER = """
set -e
tree=$1 packages=$2
shift 2
mkdir -p "$tree/packages"
mount --bind "$packages" "$tree/packages"
mount -t proc proc "$tree/proc"
mount -t sysfs sysfs "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t tmpfs tmpfs "$tree/dev/shm"
mount -t tmpfs tmpfs "$tree/tmp"
exec chroot "$tree" "$@"
"""
INSTALL = "apt-get install -y --no-install-recommends -o APT::Keep-Downloaded-Packages=true "
# What apt and dpkg write for themselves, and the loader's list of all libraries.
KEPT = re.compile(r"\./(var/(log|cache|backups)|var/lib/(apt|dpkg|systemd)|etc/ld\.so\.cache|packages)(/|$)")
RPING = """
weft run rping -s -a 127.0.0.1 -C 3 -v >/tmp/server 2>&1 &
server=$!
# Until the server listens, clients are refused.
until weft run rping -c -a 127.0.0.1 -C 3 -v >/tmp/client 2>&1; do
	kill -0 $server || break
done
wait $server
status=$?
cat /tmp/client
echo == server: $status
cat /tmp/server
"""
COMPLETE = """
. /usr/share/bash-completion/bash_completion
_completion_loader weft || : # 124: it has found it, and bash is to try again
complete -p weft
COMP_WORDS=(weft run --log e) COMP_CWORD=3 COMP_LINE='weft run --log e' COMP_POINT=16 COMP_TYPE=9
_weft
echo "offered: ${COMPREPLY[*]}"
"""
USER = """
cat >/tmp/user.c <<'END'
#include <stdio.h>
#include <weft/rio.h>
#include <weft/weft.h>
int main(void) { return puts(weft_version()) < 0; }
END
gcc -Wall -Werror -o /tmp/user /tmp/user.c $(pkg-config --cflags --libs weft)
/tmp/user
readelf -d /tmp/user | grep NEEDED
"""


class Bare:
    """The copy, with its steps in order. A step that fails ends the run: others stand on it."""

    def __init__(self, tree, packages):
        self.tree = tree
        self.packages = packages
        self.version = re.search(r"weft_([^_]+)_", glob.glob(packages + "/weft_*.deb")[0])[1]

    def run(self, script, network=False, shell="sh"):
        """What a script says in the tree, which must end well."""
        words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        outer = ENTER
        if not network:
            words.append("--net")
            outer = "ip link set lo up || exit 1\n" + ENTER
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(words + ["sh", "-c", outer, "enter", self.tree, self.packages, shell,
                                       "-ec", script], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=PATIENCE_S)
        expect_equal("%s: %s" % (script.strip(), done.stdout[-3000:]), done.returncode, 0)
        return done.stdout

    def apt(self, words):
        return self.run(words, network=True)

    def files(self):
        text = self.run("find . -xdev -not -path './tmp/*' -not -path './dev/*'")
        return {line for line in text.splitlines() if not KEPT.match(line)}

    # --- steps ------------------------------------------------------------------------------------

    def step_weft_needs_no_more_than_it_depends_on(self):
        self.apt("apt-get update")
        self.before = self.files()
        self.apt(INSTALL + "/packages/weft_*.deb")
        expect_equal("version", self.run("weft version").strip(), "weft " + self.version)
        expect("a simulation", " 0 worlds failed" in self.run("weft sim --seed 7"))
        self.run("weft doctor")
        expect("devices", "roce_lo" in self.run("weft devices"))
        expect_equal("rdma-core", self.run("dpkg-query -W 'libibverbs*' 'librdmacm*' 2>&1 || true")
                     .count("\t"), 0)
        self.run("weft demo cluster --size 16M")

    def step_weft_leaves_nothing_behind(self):
        added = self.files() - self.before
        expect("./usr/bin/weft was there", "./usr/bin/weft" in added)
        self.apt("apt-get purge -y --autoremove weft")
        expect_equal("left behind", self.files() ^ self.before, set())

    def step_rping_runs_between_two_processes(self):
        self.apt(INSTALL + "rdmacm-utils /packages/weft_*.deb")
        said = self.run("cd /; " + RPING)
        print(re.sub("^", "    ", said.rstrip(), flags=re.M))
        client, _, server = said.partition("== server: ")
        expect_equal("pings of the client", client.count("ping data: rdma-ping-"), 3)
        expect("server: " + server, server.startswith("0\n"))
        expect_equal("pings of the server", server.count("server ping data: rdma-ping-"), 3)

    def step_manual_has_every_command(self):
        self.apt(INSTALL + "man-db")
        names = re.findall(r"^  (\w+) ", self.run("weft help").partition("Environment")[0], re.M)
        for page in ["weft"] + ["weft-" + name for name in names]:
            text = self.run("MANWIDTH=80 man %s" % page)
            expect(page + " in " + text[:200], re.search(r"^NAME\n +%s - " % page, text, re.M))
        # What pages refer to is there.
        self.run("test -s /usr/share/doc/weft/docs/config.md")

    def step_bash_completes_commands(self):
        self.apt(INSTALL + "bash-completion")
        expect("offers", "offered: error\n" in self.run(COMPLETE, shell="bash"))

    def step_programs_are_built_with_libweft(self):
        self.apt(INSTALL + "gcc libc6-dev pkg-config /packages/libweft0_*.deb /packages/libweft-dev_*.deb")
        said = self.run(USER)
        expect_equal("version", said.splitlines()[0], self.version)
        expect("by soname: " + said, "[libweft.so.0]" in said)

    def step_nbdkit_finds_its_plugin(self):
        self.apt(INSTALL + "/packages/nbdkit-plugin-weft_*.deb")
        said = self.run("nbdkit --dump-plugin weft")
        expect("its version: " + said, "\nversion=%s\n" % self.version in said)
        text = self.run("MANWIDTH=80 man nbdkit-weft-plugin")
        expect("its page: " + text[:200], re.search(r"^NAME\n +nbdkit-weft-plugin - ", text, re.M))

    def step_packages_leave_nothing_behind(self):
        names = self.run("dpkg-query -W -f '${Package}\\n' '*weft*'").split()
        expect_equal("packages", sorted(names),
                     ["libweft-dev", "libweft0", "nbdkit-plugin-weft", "weft"])
        self.apt("apt-get purge -y " + " ".join(names))
        expect_equal("left behind", {path for path in self.files() if "weft" in path}, set())
        expect_equal("in dpkg", self.run("dpkg-query -W '*weft*' 2>/dev/null || true"), "")


def run_steps(bare):
    """[passed, failed, skipped]"""
    names = [name for name in vars(Bare) if name.startswith("step_")]
    for i, name in enumerate(names):
        try:
            getattr(bare, name)()
            print("ok package_" + name[5:], flush=True)
        except Exception as why:  # whatever it is, it failed
            print("not ok package_%s: %s" % (name[5:], why), flush=True)
            return [i, 1, len(names) - i - 1]
    return [len(names), 0, 0]


def release():
    with open("/etc/os-release", encoding="utf-8") as f:
        found = re.search(r"^VERSION_CODENAME=(\w+)$", f.read(), re.M)
    if not found:
        raise distro.Skip("/etc/os-release names no release")
    return found[1]


def main(folder):
    cache = os.environ.get("WEFT_RIG_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft-rig")
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "bare.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            tree = os.path.join(cache, "bare-" + release())
            distro.find_tools(tree + ".log")
            distro.make_tree(release(), tree, tree + ".log")
        except distro.Skip as why:
            print("skipped: %s" % why)
            return 0
        copy = tree + ".copy"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", tree, copy], check=True)
        shutil.copyfile("/etc/resolv.conf", os.path.join(copy, "etc/resolv.conf"))
        try:
            counts = run_steps(Bare(copy, os.path.realpath(folder)))
        finally:
            shutil.rmtree(copy)
    print("%d passed, %d failed, %d skipped" % tuple(counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
