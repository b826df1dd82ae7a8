# SPDX-License-Identifier: BSD-2-Clause
"""A run of builds and tests. One variant is built at a time, without haste as soon as there are tests to
run beside it: many tests wait, and leave the processors to the compilers."""
import os
import time

import plan
import progress
import records

POLL_S = 0.05
PART_S = 1  # what is expected of a program, or of a variant, of which only some tests are run


class Session:
    """on_test(test) is told of every test that has ended."""

    def __init__(self, variants, names, is_building, on_test):
        self.names, self.on_test = names, on_test
        self.line, self.times = progress.Progress(), records.load()
        self.builds = list(variants) if is_building else []  # still to be started
        self.build = None  # (variant, job, where its ninja log ended before) that runs
        self.queue, self.running, self.ended = [], [], []
        self.found = {}  # variant: its tests
        self.failed_build = None  # (variant, job)
        self.failed = 0
        for variant in variants:
            self.found[variant] = []
            if not is_building:
                self.add_tests(variant)

    def add_tests(self, variant):
        tests = plan.tests_of(variant, self.names)
        self.found[variant] = tests
        self.queue += tests
        # What takes longest starts first: else it runs alone at the end, on one processor. What
        # wants the machine for itself comes last, because it waits until the others have ended.
        self.queue.sort(key=lambda t: (t.weight >= plan.capacity(), -t.priority,
                                       -self.expected(t)["wall_s"]))

    def run(self):
        try:
            while self.step():
                if self.line.is_due():
                    self.line.show(self.words())
                time.sleep(POLL_S)
        finally:
            for job in [t.job for t in self.running] + ([self.build[1]] if self.build else []):
                job.kill()
            records.save(self.times)

    def step(self):
        """Starts what can start and looks what has ended; false: nothing is left to do."""
        if self.builds and not self.build:
            self.start_build(self.builds.pop(0))
        self.start_tests()
        if self.build and self.build[1].is_done():
            self.end_build()
        for test in self.running:
            test.job.note_lines()
        for test in [t for t in self.running if t.job.is_done()]:
            self.end_test(test)
        if self.failed_build:
            return False
        return bool(self.builds or self.build or self.queue or self.running)

    # --- builds

    def ninja_log(self, variant):
        return os.path.join(plan.build_dir(variant), ".ninja_log")

    def start_build(self, variant):
        job = plan.build_job(variant, is_nice=bool(self.queue or self.running))
        path = self.ninja_log(variant)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        self.line.say("== build " + variant)
        job.start()
        self.build = (variant, job, size)

    def end_build(self):
        variant, job, size = self.build
        self.build = None
        if job.status != 0:
            self.failed_build = (variant, job)
            return
        steps = plan.steps_of(job.output())
        if steps:
            slowest = records.ninja_steps(self.ninja_log(variant), size)[:records.SLOWEST_STEPS]
            records.note_build(self.times, variant, {
                "wall_s": job.wall_s, "cpu_s": job.cpu_s, "steps": steps[1], "slowest": slowest})
            self.line.say("   built %s in %.0f s, %.0f s of CPU" % (variant, job.wall_s, job.cpu_s))
        self.add_tests(variant)

    # --- tests

    def start_tests(self):
        used = sum(t.weight for t in self.running)
        for test in list(self.queue):
            if used + test.weight > plan.capacity():
                continue  # a smaller one may fit
            self.queue.remove(test)
            self.running.append(test)
            used += test.weight
            test.job.start()

    def end_test(self, test):
        self.running.remove(test)
        self.ended.append(test)
        tests = records.test_lines(test.job.path + ".times") or test.job.timed_lines()
        # With names, a program runs a part of its tests: that says nothing about the whole.
        if not self.names:
            records.note_test(self.times, test.variant, test.name, {
                "wall_s": test.job.wall_s, "cpu_s": test.job.cpu_s, "tests": tests})
        self.failed += self.on_test(test)
        if all(t in self.ended for t in self.found[test.variant]):
            self.on_variant(test.variant)

    def on_variant(self, variant):
        tests = self.found[variant]
        start = min(t.job.started for t in tests)
        end = max(t.job.started + t.job.wall_s for t in tests)
        self.line.say("   tested %s in %.0f s, %.0f s of CPU" % (
            variant, end - start, sum(t.job.cpu_s for t in tests)))

    # --- how far it is

    def expected(self, test):
        if self.names:
            return {"wall_s": PART_S, "cpu_s": PART_S}
        known = self.times["tests"].get(test.variant, {}).get(test.name)
        each = plan.PLAN[test.variant].tests_s / max(1, len(self.found[test.variant]))
        return known or {"wall_s": each, "cpu_s": each}

    def expected_tests_s(self, variant):
        """Of all tests of a variant that is not built yet."""
        if self.names:
            return PART_S
        known = self.times["tests"].get(variant)
        return sum(c["cpu_s"] for c in known.values()) if known else plan.PLAN[variant].tests_s

    def expected_build_s(self, variant):
        known = self.times["builds"].get(variant)
        return known["cpu_s"] if known else plan.PLAN[variant].build_s

    def build_part(self):
        """(part of the running build that is done, steps done, steps)"""
        done, total = plan.steps_of(self.build[1].output()) or [0, plan.STEPS]
        return done / max(1, total), done, total

    def work(self):
        """(CPU seconds that are done, that are left, wall seconds of the longest that is left)"""
        left, longest = 0.0, 0.0
        for test in self.queue + self.running:
            known = self.expected(test)
            past = test.job.wall_s if test in self.running else 0
            part = max(0, 1 - past / max(known["wall_s"], 0.01))
            left += known["cpu_s"] * part
            longest = max(longest, known["wall_s"] * part)
        done = sum(self.expected(t)["cpu_s"] for t in self.ended)
        for variant, tests in self.found.items():
            is_coming = variant in self.builds or (self.build and self.build[0] == variant)
            left += self.expected_tests_s(variant) if is_coming else 0
        left += sum(self.expected_build_s(v) for v in self.builds)
        if self.build:
            cost, part = self.expected_build_s(self.build[0]), self.build_part()[0]
            done, left = done + cost * part, left + cost * (1 - part)
        return done, left, longest

    def words(self):
        done, left, longest = self.work()
        elapsed_s = self.line.elapsed_s()
        parts = [("build " + self.build[0],) + self.build_part()[1:]] if self.build else []
        for variant, tests in self.found.items():
            ended = sum(t in self.ended for t in tests)
            if 0 < len(tests) != ended:
                parts.append(("test " + variant, ended, len(tests)))
        rest = progress.rest_s((left, longest), done, elapsed_s, os.cpu_count() or 1)
        return progress.words(parts, self.failed, elapsed_s, rest)
