#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench_test.py BENCH WEFT COPIES: the bench of iSCSI has its figures, whatever they are, says which programs are
absent, and leaves nothing behind; and what it counts, it counts.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from script import compile_c, expect, expect_equal, main  # noqa: E402

BENCH, WEFT, COPIES = (os.path.realpath(path) for path in sys.argv[1:4])
PATIENCE_S = 100
SHORT = ["--rounds", "1", "--seconds", "0.2"]
# What each line compares; and what must be installed for it.
NEEDS = {"tgt_perf_4k": ["tgtd", "tgtadm", "iscsi-perf"], "iscsi_perf_4k": ["iscsi-perf"], "nbd_4k": ["nbdkit", "fio"]}
LINES = [
    ("iscsi_perf_4k", "tgt_perf_4k"), ("iscsi_4k", "tgt_perf_4k"), ("iscsi_4k", "nbd_4k"), ("iscsi_1m", "tcp_1m"),
    ("iscsi_1m_digests", "tcp_1m"), ("iser_roce_4k", "iscsi_4k"), ("iser_iwarp_4k", "iscsi_4k"),
    ("iscsi_copied", "iscsi_read"), ("iscsi_idle_session", "iscsi_idle_goal"),
]


def processes_in(folder):
    """The running processes that have a word with the folder in their command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue  # ended meanwhile
        if folder in words:
            found.append(words)
    return found


class Run:
    """The bench, with a folder for what it makes."""

    def __init__(self, folder, options, **env):
        self.folder = os.path.join(folder, "made")
        os.mkdir(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, BENCH, "--weft", WEFT, "--copies", COPIES, *options], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=self.folder, **env))

    def end(self, status):
        """What it said."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.terminate()  # it ends what it has started
                self.process.communicate()
        expect_equal("status: " + (out + err).strip()[-500:], self.process.returncode, status)
        expect_equal("files that are left", os.listdir(self.folder), [])
        expect_equal("processes that are left", processes_in(self.folder), [])
        return out


def test_iscsi_bench_gives_every_line(folder):
    lines = [json.loads(line) for line in Run(folder, ["--json"] + SHORT).end(0).splitlines()]
    expect_equal("lines", [(x["bench"], x["versus"]) for x in lines], LINES)
    for line in lines:
        absent = [p for name in (line["bench"], line["versus"]) for p in NEEDS.get(name, [])
                  if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
        if absent:
            expect("says what is absent: %s" % line, line["ratio"] is None and absent[0] in line["why"])
        else:
            expect("a figure: %s" % line, isinstance(line["value"], (int, float)) and
                   isinstance(line["ratio"], (int, float)))
        if not line["bench"].startswith(("iscsi_copied", "iscsi_idle")) and not absent:
            expect("something was measured: %s" % line, line["value"] > 0)


def test_iscsi_bench_says_who_is_absent(folder):
    text = Run(folder, SHORT, PATH="/nonexistent").end(0)
    for name in ("nbdkit, fio", "iscsi-perf"):
        expect("names %s: %s" % (name, text), "not installed: " in text and name in text)
    rows = {line[:52].strip(): line[52:] for line in text.splitlines()}
    for goal in ("1 MiB reads without digests, against plain TCP", "iSER on RoCE, against iSCSI by TCP",
                 "copies of payload by the initiator", "memory of an idle session of the target"):
        expect("a verdict: " + rows[goal], "met" in rows[goal] or "missed" in rows[goal])
    expect("no verdict without a figure", "not known" in rows["initiator and target, against NBD"])


def test_iscsi_bench_ends_all_when_interrupted(folder):
    run = Run(folder, ["--rounds", "50"])
    until = time.monotonic() + PATIENCE_S
    while not any("target.conf" in words for words in processes_in(run.folder)):
        expect("it begins", run.process.poll() is None and time.monotonic() < until)
        time.sleep(0.01)  # nothing tells
    run.process.send_signal(signal.SIGINT)
    run.end(130)


COPIER = """
#include <string.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	size_t length = (size_t)atoi(argv[1]);
	char *a = calloc(1, length + 1), *b = calloc(1, length + 1);

	a[length / 2] = 7;
	for (int i = 0; i < argc + 1; i++)
		memcpy(b, a, length);
	memmove(b + 1, b, length);
	return b[length / 2 + 1] != 7;
}
"""


def test_iscsi_bench_counts_copies(folder):
    """Of a program that is known to copy four times; and small ones, which cannot be payload, are not counted."""
    program, out = compile_c(os.path.join(folder, "copier"), COPIER, "-O1"), os.path.join(folder, "copies")
    for length, counted in ((4096, 4 * 4096), (511, 0)):
        done = subprocess.run([program, str(length)], env=dict(os.environ, LD_PRELOAD=COPIES, WEFT_COPIES=out),
                              timeout=PATIENCE_S)
        expect_equal("status", done.returncode, 0)
        with open(out) as f:
            expect_equal("of %d bytes" % length, int(f.read()), counted)


# The parent may have set this signal to be ignored; then the bench would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
main(globals())
