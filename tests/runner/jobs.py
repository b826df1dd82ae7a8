# SPDX-License-Identifier: BSD-2-Clause
"""Commands that run side by side. Each has a limit of time, and leaves what it cost."""
import os
import re
import signal
import subprocess
import time

NICE_OF_BUILDS = 19
STALL_MAX_S = 1200
RESULT = re.compile(r"^(?:ok|not ok|skip) ([^\s:]+)", re.M)


def wanted_by_each_processor():
    """How many processes want each processor of this machine, from 1 up."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def stalled_by_disk_s():
    """Seconds since the machine started in which a process waited for its disk; 0 if none counts them."""
    try:
        with open("/proc/pressure/io") as pressure:
            return int(re.search(r"^some .*total=(\d+)", pressure.read(), re.M)[1]) / 1e6
    except OSError:
        return 0.0


class Job:
    """One command. Its output goes to the files PATH.out and PATH.err."""

    def __init__(self, name, command, path, **how):
        self.name, self.command, self.path = name, command, path
        self.env, self.cwd = how.get("env"), how.get("cwd")
        self.limit_s = how.get("limit_s")  # on a machine that runs nothing else, and whose disk is fast
        self.is_nice = how.get("is_nice", False)
        self.process, self.status = None, None
        self.started, self.stalled_before_s = None, 0.0
        self.wall_s, self.cpu_s, self.is_late = 0.0, 0.0, False
        self.seen, self.moments = 0, []  # of its output: (how much of it there was, when)

    def start(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.started, self.stalled_before_s = time.monotonic(), stalled_by_disk_s()
        # A group of its own, so that all it starts can be ended. (A session of its own would make
        # the kernel weigh it against the others as if no process were nice.)
        with open(self.path + ".out", "wb") as out, open(self.path + ".err", "wb") as err:
            self.process = subprocess.Popen(
                self.command, env=self.env, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, preexec_fn=self.prepare)

    def prepare(self):
        os.setpgid(0, 0)
        if self.is_nice:
            os.nice(NICE_OF_BUILDS)

    def is_done(self):
        """Whether it has ended; if it has, what it cost is known. Ends it when its limit is over."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        self.wall_s = time.monotonic() - self.started
        if pid:
            self.note_end(status, usage)
            return True
        if self.limit_s and self.wall_s > self.allowed_s():
            self.is_late = True
            self.kill()
            return True
        return False

    def allowed_s(self):
        """The limit on this machine, busy as it is. What the disk kept waiting is not counted."""
        stalled_s = stalled_by_disk_s() - self.stalled_before_s
        return self.limit_s * wanted_by_each_processor() + min(stalled_s, STALL_MAX_S)

    def note_end(self, status, usage):
        self.status = os.waitstatus_to_exitcode(status)
        self.process.returncode = self.status
        self.cpu_s = usage.ru_utime + usage.ru_stime

    def kill(self):
        """Ends it with all that it has started."""
        if self.process is None or self.status is not None:
            return
        self.signal(signal.SIGTERM)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.05)
        self.signal(signal.SIGKILL)
        if not pid:
            pid, status, usage = os.wait4(self.process.pid, 0)
        self.note_end(status, usage)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def note_lines(self):
        """Notes when its output has grown: that is when one of its tests has ended."""
        size = os.path.getsize(self.path + ".out")
        if size != self.seen:
            self.seen = size
            self.moments.append((size, time.monotonic() - self.started))

    def timed_lines(self):
        """[[name, wall_s, None]...] of the results in its output, by when they came."""
        with open(self.path + ".out", "rb") as lines:
            text = lines.read()
        timed, before_s = [], 0.0
        moments = self.moments + [(len(text), self.wall_s)]
        for found in RESULT.finditer(text.decode("utf-8", errors="replace")):
            now_s = next((when for size, when in moments if size > found.start()), self.wall_s)
            timed.append([found[1], now_s - before_s, None])
            before_s = now_s
        return timed

    def output(self):
        text = ""
        for end in (".out", ".err"):
            with open(self.path + end, encoding="utf-8", errors="replace") as lines:
                text += lines.read()
        return text
