#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Breaks one rule at a time and looks whether the test that must fail does.

    mutate.py ROOT [ROOM|NAME|ID...]  all mutants of the table, or those; exit status 1: one survived
    mutate.py ROOT --list [...]       lists them
    mutate.py ROOT --check            does the table fit the sources? As a test: `ok NAME` or `not ok NAME: why`

table.py says what the table is. A mutant is built in a copy of the checkout, in build/mutate/, by gcc without
optimisation. Only the test program that it names is built, and only the test is run. Before that, the test must pass
without the mutant.
"""
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "runner")]
import progress  # noqa: E402
import table  # noqa: E402
from jobs import Job  # noqa: E402

CAUGHT, SURVIVED, ARGUED, SKIPPED, FAULTY = "caught", "SURVIVED", "equivalent", "skipped", "FAULTY"
# A test that a mutant makes hang is ended after this many times what all tests of its program took before, and some
# seconds.
PATIENCE, PATIENCE_S = 10, 10
NOT_COPIED = {".git", "build", "__pycache__"}
USAGE = """./dev mutate [--list] [ROOM|NAME|ID...]

Breaks one rule at a time and looks whether the test that must fail does. With words only the mutants of those: ROOM
is a file of tests/mutate/ without .txt (mem), NAME a mutant (tag-index), ID a requirement that its rule or its test
names (VMM-04). --list lists them. Exit status 1: one survived."""
OPTIONS = ["-Dbuildtype=plain", "-Doptimization=0", "-Dwerror=false", "-Dwarning_level=0"]
RESULT = re.compile(r"^(ok|not ok|skip) (\w+)", re.M)

Outcome = collections.namedtuple("Outcome", "mutant what why")


def copy_tree(source, target):
    """Makes target like source. A file that is the same keeps its time, so that it is not built again."""
    there = set()
    for folder, folders, names in os.walk(source):
        at = os.path.relpath(folder, source)
        folders[:] = [d for d in folders if d not in NOT_COPIED]
        os.makedirs(os.path.join(target, at), exist_ok=True)
        for name in names:
            path = os.path.normpath(os.path.join(at, name))
            there.add(path)
            copy_file(os.path.join(source, path), os.path.join(target, path))
    for folder, _, names in os.walk(target):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.relpath(path, target) not in there:
                os.remove(path)


def copy_file(source, target):
    with open(source, "rb") as f:
        data = f.read()
    if os.path.exists(target):
        with open(target, "rb") as f:
            if f.read() == data:
                return
    with open(target, "wb") as f:
        f.write(data)
    shutil.copymode(source, target)


class Scratch:
    """The copy of the checkout with its build."""

    def __init__(self, root):
        self.root = root
        self.place = os.path.join(root, "build", "mutate")
        self.tree, self.build_dir = os.path.join(self.place, "tree"), os.path.join(self.place, "build")
        self.broken = None  # the file that is not as in the checkout

    def prepare(self):
        copy_tree(self.root, self.tree)
        if not os.path.exists(os.path.join(self.build_dir, "build.ninja")):
            done = subprocess.run(["meson", "setup"] + OPTIONS + [self.build_dir, self.tree],
                                  env=dict(os.environ, CC="gcc"), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, universal_newlines=True)
            if done.returncode:
                raise table.TableError("meson setup failed:\n" + done.stdout[-2000:])

    def restore(self):
        if self.broken:
            copy_file(os.path.join(self.root, self.broken), os.path.join(self.tree, self.broken))
        self.broken = None

    def mutate(self, mutant):
        if self.broken != mutant.file:
            self.restore()
        text = table.apply(mutant, table.read(self.root, mutant.file))
        with open(os.path.join(self.tree, mutant.file), "w", encoding="utf-8") as f:
            f.write(text)
        self.broken = mutant.file

    def finish(self, job, limit_s=None):
        job.start()
        try:
            while not job.is_done() and not (limit_s and job.wall_s > limit_s):
                time.sleep(0.02)
        finally:
            job.kill()
        return job

    def build(self, program):
        """What the compiler says if the program cannot be built; None if it can."""
        job = self.finish(Job("build", ["ninja", "-C", self.build_dir, "tests/" + program],
                              os.path.join(self.place, "build")))
        return job.output()[-2000:] if job.status else None

    def run(self, program, tests, limit_s):
        """({test: ok, not ok or skip}, seconds). A test that ends the program, or hangs, has not passed. All tests of
        the program as one are "*"."""
        env = dict(os.environ, MALLOC_PERTURB_="85", WEFT_CONFORMANCE_SEEDS="4")
        env.pop("WEFT_TEST", None)
        words = [] if table.EVERY_TEST in tests else sorted(tests)
        job = self.finish(Job(program, [os.path.join(self.build_dir, "tests", program)] + words,
                              os.path.join(self.place, "test"), env=env, cwd=self.build_dir), limit_s)
        results = {name: what for what, name in RESULT.findall(job.output())}
        results[table.EVERY_TEST] = "ok" if job.status == 0 and "ok" in results.values() else "not ok"
        return {test: results.get(test, "not ok") for test in tests}, job.wall_s


def named_test(mutant):
    return mutant.test.split("/")


class Session:
    def __init__(self, root, mutants, line):
        self.mutants, self.line = mutants, line
        self.scratch = Scratch(root)
        self.sources = table.Sources(root)
        self.sound, self.outcomes = {}, []  # {(program, test): what it does without a mutant}
        self.limit_s = {}

    def note(self, mutant, what, why=""):
        self.outcomes.append(Outcome(mutant, what, why))
        if what in (SURVIVED, FAULTY):
            self.line.say("   %s %s: %s" % (what, mutant.name, why))

    def look_at_tests(self, program, mutants):
        """Runs what the mutants name in the program that has no mutant yet."""
        tests = {named_test(m)[1] for m in mutants}
        self.scratch.restore()
        fault = self.scratch.build(program)
        if fault:
            raise table.TableError("%s does not build without a mutant:\n%s" % (program, fault))
        results, wall_s = self.scratch.run(program, tests, None)
        self.limit_s[program] = PATIENCE * wall_s + PATIENCE_S
        self.sound.update(((program, test), what) for test, what in results.items())

    def judge(self, mutant):
        program, test = named_test(mutant)
        before = self.sound[program, test]
        if before != "ok":
            what = SKIPPED if before == "skip" else FAULTY
            return self.note(mutant, what, "%s is \"%s\" without it" % (mutant.test, before))
        self.scratch.mutate(mutant)
        fault = self.scratch.build(program)
        if fault:
            return self.note(mutant, FAULTY, "it does not build:\n" + fault)
        results, _ = self.scratch.run(program, [test], self.limit_s[program])
        if results[test] == "not ok" and mutant.equivalent:
            return self.note(mutant, FAULTY, "it is argued to be equivalent, but %s fails" % mutant.test)
        if results[test] == "not ok":
            return self.note(mutant, CAUGHT)
        return self.note(mutant, ARGUED if mutant.equivalent else SURVIVED,
                         mutant.equivalent or "%s passes: %s" % (mutant.test, mutant.rule))

    def run(self):
        fitting = []
        for mutant in self.mutants:
            fault = self.sources.fault(mutant)
            if fault:
                self.note(mutant, FAULTY, fault)
            elif not mutant.test:
                self.note(mutant, ARGUED, mutant.equivalent)
            else:
                fitting.append(mutant)
        by_program = collections.defaultdict(list)
        for mutant in fitting:
            by_program[named_test(mutant)[0]].append(mutant)
        if fitting:
            self.line.say("== copy the checkout and configure it")
            self.scratch.prepare()
        for program, mutants in by_program.items():
            self.line.say("== %s: %d mutants" % (program, len(mutants)))
            self.look_at_tests(program, mutants)
            # Of one file after the other: then that file only is compiled.
            for mutant in sorted(mutants, key=lambda m: m.file):
                self.judge(mutant)
                if self.line.is_due():
                    self.line.show(self.words())
        self.scratch.restore()

    def words(self):
        counts = collections.Counter(o.what for o in self.outcomes)
        return "mutants %d/%d; %d survived; %s" % (
            len(self.outcomes), len(self.mutants), counts[SURVIVED],
            progress.clock(self.line.elapsed_s()))


def report(outcomes, line):
    """A line for each room, then what must be mended. The exit status."""
    rooms = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        rooms[outcome.mutant.room][outcome.what] += 1
    for room, counts in sorted(rooms.items()):
        line.say("%-10s %s" % (room, ", ".join("%d %s" % (counts[w], w) for w in
                                               (CAUGHT, ARGUED, SKIPPED, SURVIVED, FAULTY) if counts[w])))
    bad = [o for o in outcomes if o.what in (SURVIVED, FAULTY)]
    for outcome in bad:
        line.say("%s %s %s: %s" % (outcome.what, outcome.mutant.room, outcome.mutant.name, outcome.why))
    counts = collections.Counter(o.what for o in outcomes)
    line.say("%d mutants, %d caught, %d equivalent, %d skipped, %d survived, %d faulty, in %s" % (
        len(outcomes), counts[CAUGHT], counts[ARGUED], counts[SKIPPED], counts[SURVIVED], counts[FAULTY],
        progress.clock(line.elapsed_s())))
    return 1 if bad else 0


def check(root):
    """The table as a test."""
    try:
        found = table.faults(root)
    except table.TableError as error:
        found = [str(error)]
    for fault in found[1:]:
        print("mutate_table: " + fault)
    print("not ok mutate_table: " + found[0] if found else "ok mutate_table")
    return 1 if found else 0


def main(args):
    root, words = os.path.abspath(args[0]), args[1:]
    if words == ["--check"]:
        return check(root)
    if "--help" in words or "-h" in words:
        print(USAGE)
        return 0
    # What ends this ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        mutants = table.choose(table.load(root)[0], [w for w in words if w != "--list"])
        if "--list" in words:
            for m in mutants:
                print("%-10s %-36s %s%s" % (m.room, m.name, m.rule, " (equivalent)" if m.equivalent else ""))
            return 0
        session = Session(root, mutants, progress.Progress())
        session.run()
        return report(session.outcomes, session.line)
    except table.TableError as error:
        print("mutate: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
