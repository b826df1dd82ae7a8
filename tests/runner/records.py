# SPDX-License-Identifier: BSD-2-Clause
"""What builds and tests cost the last time, in build/logs/times.json, and the list of the slowest.

{"builds": {VARIANT: {"wall_s", "cpu_s", "steps", "slowest": [[FILE, wall_s]...]}},
 "tests": {VARIANT: {PROGRAM: {"wall_s", "cpu_s", "tests": [[NAME, wall_s, cpu_s]...]}}}}

A run that builds or runs only a part replaces only that part. CPU is user and system time of all
processes; wall is what a clock says, and grows with what else the machine does.
"""
import json
import os

PATH = "build/logs/times.json"
SLOWEST_STEPS = 40  # of a build, that are kept
SHOWN = 25


def load(path=PATH):
    try:
        with open(path, encoding="utf-8") as text:
            read = json.load(text)
    except (OSError, ValueError):
        read = {}
    return {"builds": read.get("builds", {}), "tests": read.get("tests", {})}


def save(times, path=PATH):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as text:
        json.dump(times, text, indent=1)
    os.replace(path + ".new", path)


def note_build(times, variant, cost):
    """A build of a few files does not replace what is known of a whole one."""
    known = times["builds"].get(variant)
    if cost["steps"] and (not known or 2 * cost["steps"] >= known["steps"]):
        times["builds"][variant] = cost


def note_test(times, variant, program, cost):
    times["tests"].setdefault(variant, {})[program] = cost


def ninja_steps(path, offset):
    """[[output, wall_s]...] of what a .ninja_log has from an offset on, slowest first."""
    steps = {}
    with open(path, encoding="utf-8") as log:
        log.seek(0, os.SEEK_END)
        # Ninja writes it anew when it has grown.
        log.seek(offset if offset <= log.tell() else 0)
        for line in log:
            words = line.rstrip("\n").split("\t")
            if len(words) == 5:
                # A step with several outputs has a line for each.
                steps[words[0], words[1], words[4]] = [words[3], (int(words[1]) - int(words[0])) / 1000]
    return sorted(steps.values(), key=lambda step: -step[1])


def test_lines(path):
    """[[name, wall_s, cpu_s]...] that a test program has left in a file, if it has."""
    try:
        with open(path, encoding="utf-8") as lines:
            words = [line.split() for line in lines]
    except OSError:
        return []
    return [[w[0], float(w[1]), float(w[2])] for w in words if len(w) == 3]


def table(title, rows, total):
    """Lines: CPU and wall seconds, what. Rows are (what, wall_s, cpu_s or None), slowest first."""
    lines = ["", title, "    CPU s   wall s"]
    for what, wall_s, cpu_s in rows:
        lines.append("%9s %8.1f  %s" % ("" if cpu_s is None else "%.1f" % cpu_s, wall_s, what))
    if total:
        lines.append("%9.1f %8.1f  sum" % (sum(r[2] for r in total), sum(r[1] for r in total)))
    return lines


def slow(times):
    """What ./dev test --slow says, as lines."""
    builds = [("build " + v, b["wall_s"], b["cpu_s"]) for v, b in times["builds"].items()]
    variants, programs, single = [], [], []
    for variant, members in times["tests"].items():
        variants.append(("test " + variant, sum(c["wall_s"] for c in members.values()),
                         sum(c["cpu_s"] for c in members.values())))
        for program, cost in members.items():
            programs.append((variant + " " + program, cost["wall_s"], cost["cpu_s"]))
            single += [("%s %s/%s" % (variant, program, name), wall_s, cpu_s)
                       for name, wall_s, cpu_s in cost["tests"]]
    if not builds and not programs:
        return ["no run has left its times in %s yet: ./dev test" % PATH]
    steps = [("%s %s" % (variant, name), wall_s, None)
             for variant, cost in times["builds"].items() for name, wall_s in cost["slowest"]]
    measured = [row for row in single if row[2] is not None]
    waits = [row for row in measured if row[1] - row[2] >= 1]
    lines = table("Builds, and test programs by variant (their wall seconds overlap)",
                  sorted(builds + variants, key=lambda r: -r[2]), builds + variants)
    for title, rows, key in (
            ("The slowest steps of builds", steps, lambda r: -r[1]),
            ("The test programs that cost most CPU", programs, lambda r: -r[2]),
            ("The test programs that take longest", programs, lambda r: -r[1]),
            ("The single tests that cost most CPU", measured, lambda r: -r[2]),
            ("The single tests of scripts that take longest",
             [row for row in single if row[2] is None], lambda r: -r[1]),
            ("The single tests that wait longest", waits, lambda r: r[2] - r[1])):
        if rows:
            lines += table(title, sorted(rows, key=key)[:SHOWN], None)
    return lines[1:]
