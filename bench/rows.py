# SPDX-License-Identifier: BSD-2-Clause
"""What the benches that are scripts share: subjects that are measured in rounds, of which the calmest
count, and how figures and goals are printed."""
import argparse
import json
import os
import signal
import statistics
import sys
import time

# What is measured wants to run on so many processors at once; what is missing others have used.
PROCESSORS_WANTED, PROCESSORS_MISSING = 4, 0.2


class Failure(Exception):
    pass


def cpu_s(pid):
    """All processor time of a process, user and system: its clock, as clock_getcpuclockid() makes it.
    The same as in /proc/PID/stat, but not in ticks of 10 ms."""
    return time.clock_gettime(~pid << 3 | 2)


# ---- The machine -------------------------------------------------------------------------------

class Mark:
    """How much of the machine others use while we measure. pids() are processes that count as ours."""

    def __init__(self, pids):
        self.pids = pids
        self.start = self.now()

    def now(self):
        t = os.times()
        ours = t.user + t.system + t.children_user + t.children_system
        ours += sum(cpu_s(pid) for pid in self.pids())
        with open("/proc/stat", encoding="ascii") as f:
            # cpu user nice system idle iowait irq softirq steal, in ticks
            ticks = [int(word) for word in f.readline().split()[1:9]]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, ours

    def processors_left(self):
        wall, busy, ours = (now - then for now, then in zip(self.now(), self.start))
        return os.cpu_count() - max(0, busy - ours) / wall


def is_calm(left):
    return left >= min(os.cpu_count(), PROCESSORS_WANTED) - PROCESSORS_MISSING


# ---- Subjects ----------------------------------------------------------------------------------

class Subject:
    """What is measured: run(seconds) gives one value of it."""

    rounds_used = 3  # the calmest

    def __init__(self, name, title, unit, run, why=None):
        self.name, self.title, self.unit, self.run, self.why = name, title, unit, run, why
        self.samples = []  # (value, processors left)

    def sample(self, pids, seconds):
        if self.why:
            return
        mark = Mark(pids)
        try:
            value = self.run(seconds)
        except Failure as e:
            self.why = str(e)
            return
        self.samples.append((value, mark.processors_left()))

    def used(self):
        return sorted(self.samples, key=lambda s: -s[1])[:self.rounds_used]

    def value(self):
        """None: there is none."""
        return None if self.why else statistics.median(value for value, _ in self.used())

    def is_disturbed(self):
        return not self.why and not all(is_calm(left) for _, left in self.used())


def tell(what):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + ("measuring: " + what if what else ""))
        sys.stderr.flush()


# ---- What is shown -----------------------------------------------------------------------------

SHOWN = {"B/s": ("GB/s", 1e-9, "%.3f"), "requests/s": ("requests/s", 1, "%.0f"), "ns": ("us", 1e-3, "%.1f")}
DISTURBED = "~: others used the machine meanwhile; do not trust this figure"


def verdict(is_met):
    return "met" if is_met else "missed"


def ratio_of(ours, theirs):
    """None: one of the two is not known."""
    return ours / theirs if ours is not None and theirs else None


def show_value(s):
    if s.why:
        print("%-52s %12s  %s" % (s.title, "-", s.why))
        return
    unit, scale, form = SHOWN[s.unit]
    print("%-52s %12s %s%s" % (s.title, form % (s.value() * scale), unit,
                               " ~" if s.is_disturbed() else ""))


def show_goal_head():
    print("\n%-52s %10s %10s" % ("goal", "ratio", "goal"))


def show_goal(text, pair, goal, is_most):
    """pair: ours and theirs."""
    ratio = ratio_of(*(s.value() for s in pair))
    if ratio is None:
        print("%-52s %10s" % (text, "not known"))
        return
    print("%-52s %8.2f x %4s %3g x  %s%s"
          % (text, ratio, "<=" if is_most else ">=", goal,
             verdict(ratio <= goal if is_most else ratio >= goal),
             " ~" if any(s.is_disturbed() for s in pair) else ""))


def show_line(name, value, unit, versus, ratio, is_disturbed=False):
    print(json.dumps({"bench": name, "value": round(value, 4), "unit": unit, "versus": versus,
                      "ratio": round(ratio, 4), "is_disturbed": is_disturbed}))


def show_pair_line(ours, theirs):
    ratio = ratio_of(ours.value(), theirs.value())
    if ratio is not None:
        show_line(ours.name, ours.value(), ours.unit, theirs.name, ratio,
                  ours.is_disturbed() or theirs.is_disturbed())
    else:
        print(json.dumps({"bench": ours.name, "value": ours.value(), "unit": ours.unit,
                          "versus": theirs.name, "ratio": None, "why": ours.why or theirs.why}))


# ---- The command -------------------------------------------------------------------------------

def command(doc, rounds, seconds):
    """The parser of a bench's options, with those that all have."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    parser = argparse.ArgumentParser(usage=doc.split(":")[0], description=doc.partition("\n\n")[2])
    parser.add_argument("--json", action="store_true", help="one object a line instead of the table")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each measurement")
    parser.add_argument("--weft", default=os.path.join(root, "build/weft"))
    return parser


def options_read(parser):
    options = parser.parse_args()
    if options.rounds < 1 or not 0.1 <= options.seconds <= 600:
        parser.error("at least one round, of 0.1 to 600 seconds")
    options.weft = os.path.realpath(options.weft)
    return options


def run_bench(name, place, bench_of, show):
    """Measures in the place, and shows it; the exit status. Whatever ends it, the place is closed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # by the way of all errors: everything is ended
    try:
        bench = bench_of(place)
        bench.measure()
        show(bench)
        for s in bench.failed():
            sys.stderr.write("%s: %s: %s\n" % (name, s.name, s.why))
        return 1 if bench.failed() else 0
    except (Failure, OSError) as e:
        tell(None)
        sys.stderr.write("%s: %s\n" % (name, e))
        return 1
    except KeyboardInterrupt:
        tell(None)
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is impatient leaves nothing behind either
        place.close()
