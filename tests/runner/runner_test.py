#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does run.py start, end, count and measure what it should? With tests and builds of this file's own."""
import io
import os
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../dropin")]
import jobs  # noqa: E402
import plan  # noqa: E402
import progress  # noqa: E402
import records  # noqa: E402
import run as runner  # noqa: E402
from script import expect, expect_equal, main  # noqa: E402

TESTS_OF = plan.tests_of  # which others of this file replace


def shell(folder, name, words, **how):
    return jobs.Job(name, ["sh", "-c", words], os.path.join(folder, name), **how)


def finish(job):
    job.start()
    while not job.is_done():
        time.sleep(0.01)
    return job


class Plays:
    """Takes the place of builds, of tests and of what is kept between runs; tells in which order they ran."""

    def __init__(self, folder, builds, tests):
        self.folder, self.log = folder, os.path.join(folder, "log")
        self.tests = tests  # variant: {name: (words, weight)}
        plan.build_job = lambda variant, is_nice: self.job("build_" + variant, builds[variant])
        plan.tests_of = self.tests_of
        plan.capacity = lambda: 4
        records.load = lambda: {"builds": {}, "tests": {}}
        records.save = self.save
        open(self.log, "w").close()

    def save(self, times):
        self.times = times

    def job(self, name, words):
        return shell(self.folder, name, "echo +%s >>%s; %s; status=$?; echo -%s >>%s; exit $status" % (
            name, self.log, words, name, self.log))

    def tests_of(self, variant, names):
        return [plan.Test(variant, name, "script", self.job(name, words), weight, 0)
                for name, (words, weight) in self.tests[variant].items()]

    def run(self, *variants):
        out, sys.stdout = sys.stdout, io.StringIO()
        progress.Progress.__init__.__defaults__ = (sys.stdout, time.monotonic)
        try:
            results = runner.run(list(variants), [], True)
            status = runner.report(results)
            self.said = sys.stdout.getvalue()
        finally:
            sys.stdout = out
        with open(self.log) as log:
            self.order = log.read().split()
        return status


def test_cost_of_a_job_is_that_of_its_children_too(folder):
    job = finish(shell(folder, "a", "i=0; (while [ $i -lt 60000 ]; do i=$((i + 1)); done)"))
    expect("%s s of CPU" % job.cpu_s, 0.01 < job.cpu_s)
    expect("%s s on the clock" % job.wall_s, job.wall_s >= job.cpu_s * 0.5)
    expect_equal("status", job.status, 0)


def test_a_job_that_is_late_is_ended_with_all_it_started(folder):
    jobs.wanted_by_each_processor = lambda: 1
    job = shell(folder, "a", "sleep 1000 & echo $!; wait")
    job.start()
    while not job.output().endswith("\n"):
        expect("it runs", not job.is_done())
    job.limit_s = 0.001
    while not job.is_done():
        pass
    expect("late", job.is_late)
    pid = int(job.output())
    until = time.monotonic() + 20
    while os.path.exists("/proc/%d" % pid) and "Z" not in open("/proc/%d/stat" % pid).read():
        expect("its child is still there", time.monotonic() < until)
        time.sleep(0.01)
    got = runner.program_results("gcc", job)
    expect_equal("result", [r.what for r in got], ["not ok"])
    expect_equal("why", got[0].why.split(",")[0], "took too long")


def test_a_limit_grows_with_what_wants_the_processors(folder):
    jobs.wanted_by_each_processor = lambda: 1000
    job = finish(shell(folder, "a", "sleep 0.3", limit_s=0.1))
    expect_equal("late, status", (job.is_late, job.status), (False, 0))


def test_a_limit_grows_by_what_the_disk_kept_waiting(folder):
    jobs.wanted_by_each_processor = lambda: 1
    stalls = iter((50.0, 50.0))  # when it started, and when it was first asked whether it is late
    jobs.stalled_by_disk_s = lambda: next(stalls, 60.0)
    job = shell(folder, "a", "sleep 1000", limit_s=0.001)
    job.start()
    time.sleep(0.002)
    expect_equal("allowed", job.allowed_s(), 0.001)
    expect_equal("done", job.is_done(), False)
    jobs.stalled_by_disk_s = lambda: 50.0
    while not job.is_done():
        pass
    expect("late", job.is_late)


def test_results_of_a_script_have_the_time_at_which_they_came(folder):
    job = shell(folder, "a", "echo ok one; read wait <%s; echo skip two: why" % (folder + "/pipe"))
    os.mkfifo(folder + "/pipe")
    job.start()
    while not job.moments:
        job.note_lines()
    at = time.monotonic() - job.started
    open(folder + "/pipe", "w").close()
    while not job.is_done():
        job.note_lines()
    timed = job.timed_lines()
    expect_equal("names", [t[0] for t in timed], ["one", "two"])
    expect("%s: the first came by %s" % (timed, at), timed[0][1] <= at)
    expect("the sum is all", abs(timed[0][1] + timed[1][1] - job.wall_s) < 0.5)


def test_dying_is_a_failure(folder):
    for words, why in (("kill -9 $$", "killed by signal 9, before a test was done"),
                       ("echo ok one; exit 3", "exit status 3, after one"),
                       ("echo ok one; exit 1", "exit status 1, after one")):
        got = runner.program_results("gcc", finish(shell(folder, "a", words)))
        expect_equal(words, (got[-1].what, got[-1].why), ("not ok", why))
    got = runner.program_results("gcc", finish(shell(folder, "a", "echo not ok one: x; exit 1")))
    expect_equal("a test that failed", [(r.test, r.what) for r in got], [("one", "not ok")])


def test_a_variant_runs_what_is_of_one_of_its_suites(folder):
    real, plan.described_tests = plan.described_tests, lambda directory: [
        {"name": name, "suite": ["weft:" + s for s in suites.split()], "cmd": ["true"], "env": {},
         "timeout": 1, "is_parallel": True, "priority": 0}
        for name, suites in (("a", "live tsan"), ("b", "unit"), ("c", "unit tsan"),
                             ("d", "script"))]
    try:
        for variant, suites in (("gcc", "a live, b unit, c unit, d script"),
                                ("tsan", "a live, c unit"),
                                ("gcc-san", "a live, b unit, c unit"), ("fuzz", "")):
            got = ", ".join("%s %s" % (t.name, t.suite) for t in TESTS_OF(variant, []))
            expect_equal(variant, got, suites)
    finally:
        plan.described_tests = real


def test_tests_run_beside_the_next_build(folder):
    # Each waits for the other: one after the other they would never end.
    mark = folder + "/mark"
    plays = Plays(folder, {"gcc": "true", "tsan": "until [ -e %s ]; do sleep .01; done" % mark},
                  {"gcc": {"a": ("until grep -q +build_tsan %s/log; do sleep .01; done; touch %s; "
                                 "echo ok a" % (folder, mark), 1)},
                   "tsan": {"b": ("echo ok b", 1)}})
    expect_equal("status", plays.run("gcc", "tsan"), 0)
    expect("built before it is tested", plays.order.index("-build_tsan") < plays.order.index("+b"))
    expect_equal("last line", plays.said.splitlines()[-1], "2 passed, 0 failed, 0 skipped")


def test_a_test_that_is_alone_runs_alone(folder):
    # The others run side by side: else "a" would never end.
    plays = Plays(folder, {"gcc": "true"}, {"gcc": {
        "alone": ("echo ok x", 4), "b": ("echo ok x", 2), "c": ("echo ok x", 2),
        "a": ("until grep -q +c %s/log; do sleep .01; done; echo ok x" % folder, 1)}})
    expect_equal("status", plays.run("gcc"), 0)
    at = plays.order.index("+alone")
    expect_equal("what came next", plays.order[at + 1], "-alone")


def test_a_build_that_fails_ends_the_run(folder):
    plays = Plays(folder, {"gcc": "true", "tsan": "echo FAILED: a.o; echo a.c:1: wrong; false",
                           "fuzz": "true"},
                  {"gcc": {"a": ("until grep -q +build_tsan %s/log; do sleep .01; done; sleep 1000" %
                                 folder, 1)}})
    start = time.monotonic()
    expect_equal("status", plays.run("gcc", "tsan", "fuzz"), 1)
    expect("the test was not waited for", time.monotonic() - start < 100)
    expect("no other build", "+build_fuzz" not in plays.order)
    expect("what was wrong is said", "a.c:1: wrong" in plays.said)
    expect_equal("last line", plays.said.splitlines()[-1], "0 passed, 1 failed, 0 skipped")


def test_a_run_leaves_what_it_cost(folder):
    plays = Plays(folder, {"gcc": "echo '[7/7] Linking'"},
                  {"gcc": {"a": ("echo ok one; echo not ok two: x; exit 1", 1)}})
    plan.build_dir = lambda variant: folder
    with open(folder + "/.ninja_log", "w") as log:
        log.write("# ninja log v5\n0\t1500\t1\ta.o\tff\n")
    records_before, real = records.ninja_steps, records.ninja_steps
    records.ninja_steps = lambda path, offset: real(path, 0)
    try:
        expect_equal("status", plays.run("gcc"), 1)
    finally:
        records.ninja_steps = records_before
    build, test = plays.times["builds"]["gcc"], plays.times["tests"]["gcc"]["a"]
    expect_equal("build", (build["steps"], build["slowest"]), (7, [["a.o", 1.5]]))
    expect_equal("tests", [t[0] for t in test["tests"]], ["one", "two"])
    expect("%r" % test, 0 < test["cpu_s"] and 0 < test["wall_s"])


def test_a_small_build_does_not_replace_a_whole_one(folder):
    times = {"builds": {}, "tests": {}}
    for steps, kept in ((700, 700), (3, 700), (0, 700), (400, 400)):
        records.note_build(times, "gcc", {"steps": steps})
        expect_equal("after %d steps" % steps, times["builds"]["gcc"]["steps"], kept)


def test_steps_are_those_of_the_last_build(folder):
    path = folder + "/log"
    head = "# ninja log v5\n0\t900\t1\told.o\taa\n"
    with open(path, "w") as log:
        log.write(head + "0\t100\t1\ta.o\tbb\n5\t2005\t1\tlib.so\tcc\n5\t2005\t1\tlib.sym\tcc\n")
    expect_equal("steps", records.ninja_steps(path, len(head)), [["lib.sym", 2.0], ["a.o", 0.1]])
    expect_equal("a log that was written anew", len(records.ninja_steps(path, 10000)), 3)


def test_slow_lists_the_slowest_first_and_the_sum(folder):
    expect("nothing known", "./dev test" in records.slow({"builds": {}, "tests": {}})[0])
    times = {"builds": {"gcc": {"wall_s": 50, "cpu_s": 90, "slowest": [["b.o", 2], ["a.o", 3]]}},
             "tests": {"gcc": {"quick": {"wall_s": 9, "cpu_s": 1, "tests": [["t1", 8.5, 0.5]]},
                               "heavy": {"wall_s": 4, "cpu_s": 4, "tests": [["t2", 1, None]]}}}}
    lines = [" ".join(line.split()) for line in records.slow(times)]
    for first, then in (("90.0 50.0 build gcc", "5.0 13.0 test gcc"),
                        ("5.0 13.0 test gcc", "95.0 63.0 sum"),
                        ("3.0 gcc a.o", "2.0 gcc b.o"),
                        ("4.0 4.0 gcc heavy", "1.0 9.0 gcc quick"),
                        ("The single tests that wait longest", "0.5 8.5 gcc quick/t1")):
        expect("%s before %s" % (first, then), lines.index(first) < len(lines) - 1 -
               lines[::-1].index(then))
    expect("scripts have no CPU", "1.0 gcc heavy/t2" in lines)


def test_times_that_cannot_be_read_are_no_times(folder):
    with open(folder + "/times.json", "w") as text:
        text.write("{")
    real = LOAD(folder + "/times.json")
    expect_equal("times", real, {"builds": {}, "tests": {}})


def test_rest_is_by_the_pace_so_far_and_not_less_than_the_longest(folder):
    expect_equal("at first", progress.rest_s((200, 0), 0, 0, 2), 100)
    slow = progress.rest_s((200, 0), 100, 570, 2)
    expect_equal("at a quarter of a processor", round(slow), round(200 / (160 / 600)))
    expect_equal("one long test", progress.rest_s((10, 300), 1000, 500, 2), 300)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_on_a_terminal_and_few_in_a_log(folder):
    os.environ["TERM"] = "xterm"
    words = progress.words([("test gcc", 12, 98)], 1, 75, 130)
    expect_equal("words", words, "test gcc 12/98; 1 failed; 1:15; about 2:10 left")
    now = [0.0]
    for out, interval in ((Screen(), progress.TERMINAL_S), (io.StringIO(), progress.LOG_S)):
        line = progress.Progress(out, lambda: now[0])
        expect("not yet", not line.is_due())
        now[0] += interval
        expect("now", line.is_due())
        line.show("first")
        line.show("second")
        line.say("stays")
        last = out.getvalue().splitlines()[-1]
        if out.isatty():
            expect_equal("screen", out.getvalue(),
                         "\rfirst\x1b[K\rsecond\x1b[K\r\x1b[Kstays\n")
        else:
            expect_equal("log", out.getvalue(), "   first\n   second\nstays\n")
        expect("the line that stays", last.endswith("stays"))


def test_steps_are_read_from_what_ninja_says(folder):
    expect_equal("none", plan.steps_of("ninja: no work to do.\n"), None)
    expect_equal("last", plan.steps_of("[1/7] a\n[3/7] b\nwarning: [9/9] c\n"), [3, 7])


LOAD = records.load
main(globals())
