#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Builds and tests this checkout on another release of Debian, in a tree that mmdebstrap makes.

    distro.py SUITE         SUITE is a release's name: trixie, bookworm, sid

The tree is in $WEFT_RIG_CACHE (default ~/.cache/weft-rig), about 3 GB, and is used again; so is its build.
The checkout is seen there read-only. The tests run without any network but loopback. The last line is
`N passed, N failed, N skipped`; `skipped: reason` and exit status 0 if this machine cannot do it.
"""
import fcntl
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Parts of the names of cases in tests/interop/programs.
PROGRAMS = ["ibv_devinfo", "pingpong", "rping_ipv4", "ucmatose_ipv6", "roce_udaddy", "mckey_ipv4",
            "rdma_client_and_server", "roce_cmtime", "bw_many_queue_pairs", "bw_queue_pairs",
            "lat_eight_bytes", "ib_atomic_bw_fetch", "fio_write", "iser_tools", "ucx_info",
            "ucx_rc_v_tag", "ucx_ud_v_tag", "ucx_sample", "mpi_rc"]
# What /proc, /dev and the rest are there, then the tree is the root: a mere chroot would forbid its
# programs namespaces of their own.
ENTER = """
set -e
tree=$1 checkout=$2
shift 2
mount --bind "$tree" "$tree"
cd "$tree"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mkdir -p weft weft-build
mount --bind "$checkout" weft
mount -o remount,bind,ro weft
mount --bind weft-build weft/build
pivot_root . .
umount -l .
cd /weft
exec "$@"
"""
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
LINE = re.compile(r"^(ok|not ok|skip) \S")


class Skip(Exception):
    pass


def run_quietly(command, log):
    with open(log, "w", encoding="utf-8") as f:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=f,
                              stderr=subprocess.STDOUT).returncode == 0


def find_tools(log):
    if os.geteuid() != 0:
        raise Skip("only root may make the tree and enter it")
    for tool in ("unshare", "mount", "pivot_root", "ip"):
        if not shutil.which(tool):
            raise Skip(tool + " is not installed")
    if shutil.which("mmdebstrap"):
        return
    if not shutil.which("apt-get"):
        raise Skip("mmdebstrap is not installed, and apt-get is not here")
    if not run_quietly(["apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap"], log):
        raise Skip("mmdebstrap cannot be installed, see " + log)


def make_tree(suite, tree, log):
    """A small Debian; ./dev installs in it what it needs. It has its name only when it is whole."""
    if os.path.exists(tree):
        return
    print("== make the tree of Debian %s" % suite, flush=True)
    new = tree + ".new"
    shutil.rmtree(new, ignore_errors=True)
    if not run_quietly(["mmdebstrap", "--mode=root", "--variant=apt", suite, new], log):
        raise Skip("mmdebstrap cannot make a tree of %s, see %s" % (suite, log))
    os.rename(new, tree)


def enter(tree, command, has_network):
    """Runs a command in the tree; its lines are shown. All its processes end with it."""
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    script = ENTER
    if not has_network:
        words.append("--net")
        script = "ip link set lo up || exit 1\n" + ENTER
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_") or "SEEDS" in k}
    env.update({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                "TMPDIR": "/tmp"})
    process = subprocess.Popen(words + ["sh", "-c", script, "enter", tree, ROOT] + command, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               errors="replace")
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        print(lines[-1], flush=True)
    return process.wait(), lines


def install_and_build(tree):
    shutil.copyfile("/etc/resolv.conf", os.path.join(tree, "etc/resolv.conf"))
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    status, lines = enter(tree, ["./dev", "distro", "--inside"], has_network=True)
    if status == 0:
        return
    # Packages that cannot be had are this machine's lack; what does not compile is ours.
    if lines and lines[-1].startswith("== install"):
        raise Skip("packages cannot be installed in " + tree)
    print("not ok build: see above")
    print("0 passed, 1 failed, 0 skipped")
    sys.exit(1)


def count_suites(status, lines):
    """[passed, failed, skipped] of tests/run.py, which says so in its last line: without it, it failed."""
    found = COUNTS.match(lines[-1]) if lines else None
    counts = [int(n) for n in found.groups()] if found else [0, 1, 0]
    if status != 0 and counts[1] == 0:
        counts[1] = 1
    return counts


def count_programs(status, lines):
    """The same of programs.py, which says a line for each; if it says none, it failed."""
    kinds = [found[1] for found in map(LINE.match, lines) if found]
    counts = [kinds.count(kind) for kind in ("ok", "not ok", "skip")]
    if counts[1] == 0 and (status != 0 or not kinds):
        counts[1] = 1
    return counts


def run_tests(tree):
    """[passed, failed, skipped] of the suites in C and of the programs."""
    suites = count_suites(*enter(tree, ["python3", "tests/run.py", "distro", "--"],
                                 has_network=False))
    print("== programs", flush=True)
    programs = count_programs(*enter(tree, ["python3", "tests/interop/programs/programs.py",
                                            "build"] + PROGRAMS, has_network=False))
    return [a + b for a, b in zip(suites, programs)]


def main(args):
    if len(args) != 1 or not re.fullmatch(r"[a-z]+", args[0]):
        sys.exit("usage: ./dev distro SUITE, the name of a release of Debian, such as trixie")
    cache = os.environ.get("WEFT_RIG_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft-rig")
    tree = os.path.join(cache, "distro-" + args[0])
    os.makedirs(cache, exist_ok=True)
    with open(tree + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            find_tools(tree + ".log")
            make_tree(args[0], tree, tree + ".log")
            install_and_build(tree)
        except Skip as why:
            print("skipped: %s" % why)
            return 0
        counts = run_tests(tree)
    print("%d passed, %d failed, %d skipped" % tuple(counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
