#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which test proves which requirement.

    coverage.py ROOT           writes docs/coverage.md
    coverage.py ROOT --check   is it up to date, and is every requirement spoken for?

A test claims the ids in its name: TEST(test_loc_s1_rkey_s2_each_check_alone) claims LOC-S1 and
RKEY-S2; so does a function of a script ..._test.py. docs/requirements.md has the rule of every id. An
id is proved by tests that claim it, or stands in that page's table "What is open" with its state and
a sentence, or belongs to a group whose title says "not built yet".
"""
import collections
import os
import re
import sys

Requirement = collections.namedtuple("Requirement", "id rule is_optional")
Test = collections.namedtuple("Test", "name path")
Note = collections.namedtuple("Note", "state sentence")
Group = collections.namedtuple("Group", "numbers scenarios last_rows")

# Every id of the source documents: how many numbers a group has, how many scenarios, and the last
# lettered row of each number that has rows.
GROUPS = {
    "SYS": Group(13, 1, ""),
    "QP": Group(18, 4, "07h"),
    "MEM": Group(14, 4, "04m"),
    "SQR": Group(11, 4, "04d 06b"),
    "LOC": Group(6, 1, "02g"),
    "VMM": Group(12, 2, "02d 05g"),
    "RKEY": Group(12, 3, "02d 08d"),
    "IWARP": Group(18, 4, "01e 04e 06f 09f"),
    "TOUCH": Group(11, 3, "05f"),
    "ISCSI": Group(11, 3, "01l 05g 06c"),
    "RC": Group(5, 0, ""),
    "RD": Group(4, 0, ""),
    "UD": Group(3, 0, ""),
    "RAW": Group(3, 0, ""),
    "IPT": Group(1, 0, ""),
    "TRN": Group(0, 3, ""),
    "FAB": Group(23, 3, "22h"),
    "RIO": Group(16, 7, "02i 13d"),
    "PUSH": Group(24, 6, "16h"),
    "SEND": Group(15, 4, ""),
}
ID = r"[A-Z]+-(?:\d\d[a-z]?|S\d)"
PROVED, IN_PART, NOT_BUILT, DEFINITION = "proved", "in part", "not built yet", "definition"
OPEN_TITLE = "What is open"
RULE_WIDTH = 90

# Where both ends are adapters with sockets of their own, or processes, in C and in scripts. Conformance tests
# run so in conformance_iwarp and conformance_roce; the files named last run in virtual time only.
WIRE = ("tests/attack/", "tests/dropin/", "tests/interop/", "tests/live/", "tests/rio/",
        "tests/spec/conformance_", "tests/spec/hostile_", "tests/spec/paging_test.py")
NO_WIRE = ("tests/spec/conformance_ib_rd.c", "tests/spec/conformance_ib_sim.c",
           "tests/spec/conformance_iwarp_sim.c", "tests/spec/conformance_sim.c",
           "tests/spec/conformance_loopback.c")


def read(root, path):
    full = os.path.join(root, path)
    if not os.path.exists(full):
        return ""
    with open(full, encoding="utf-8") as f:
        return f.read()


def every_id():
    """The ids that docs/requirements.md must have."""
    for name, group in GROUPS.items():
        last = {row[:2]: row[2] for row in group.last_rows.split()}
        for number in ("%02d" % n for n in range(1, group.numbers + 1)):
            yield "%s-%s" % (name, number)
            for letter in range(ord("a"), ord(last.get(number, "`")) + 1):
                yield "%s-%s%c" % (name, number, letter)
        for scenario in range(1, group.scenarios + 1):
            yield "%s-S%d" % (name, scenario)


class Coverage:
    """What the page says, and which tests claim what."""

    def __init__(self, root):
        self.root = root
        self.groups = []  # [(title, [Requirement])], in the order of the page
        self.notes = {}
        self.bad_notes = []
        self.ambiguities = set()
        self.read_page()
        self.requirements = {r.id: r for _, reqs in self.groups for r in reqs}
        self.not_built = {r.id for title, reqs in self.groups
                          if title.endswith(", " + NOT_BUILT) for r in reqs}
        self.tests = claims(root)

    def read_page(self):
        section = ""
        for line in read(self.root, "docs/requirements.md").splitlines():
            if line.startswith("## "):
                section = line[3:]
                if re.match(r"[A-Z]+[:,]", section):
                    self.groups.append((section, []))
            elif section == OPEN_TITLE:
                self.read_note(line)
            elif line.startswith("| AMB-"):
                self.ambiguities.add(line.split()[1])
            elif self.groups and section == self.groups[-1][0]:
                row = re.match(r"\| (%s) \| (.*) \| [^|]* \|$" % ID, line)
                if row:
                    rule = row[2].replace("*OPTIONAL*", "").strip()
                    self.groups[-1][1].append(
                        Requirement(row[1], rule, row[2].startswith("*OPTIONAL*")))

    def read_note(self, line):
        row = re.match(r"\| (%s(?: %s)*) \| ([^|]*) \| (.*) \|$" % (ID, ID), line)
        if not row:
            return
        for one in row[1].split():
            if one in self.notes or row[2] not in (IN_PART, NOT_BUILT, DEFINITION) or not row[3].strip():
                self.bad_notes.append(one)
            self.notes[one] = Note(row[2], row[3].strip())

    def rows(self, one):
        """The lettered rows of a requirement that are not optional."""
        return [r.id for r in self.requirements.values()
                if re.fullmatch(one + "[a-z]", r.id) and not r.is_optional]

    def open_rows(self, one):
        return [r for r in self.rows(one) if self.state(r) not in (PROVED, DEFINITION)]

    def state(self, one):
        """None: nothing says what it is."""
        if one in self.notes:
            return self.notes[one].state
        if one in self.not_built:
            return NOT_BUILT
        if (self.tests.get(one) or self.rows(one)) and not self.open_rows(one):
            return PROVED
        return None

    def is_end_to_end(self, one):
        if self.tests.get(one):
            return any(is_on_wire(t) for t in self.tests[one])
        return bool(self.rows(one)) and all(self.is_end_to_end(r) for r in self.rows(one))


def is_on_wire(test):
    return test.path.startswith(WIRE) and test.path not in NO_WIRE


def ids_of(name):
    words = name.split("_")
    for group, number in zip(words, words[1:]):
        if group.upper() in GROUPS and re.fullmatch(r"\d\d[a-z]?|s\d", number):
            yield group.upper() + "-" + (number.upper() if number[0] == "s" else number)


def claims(root):
    """id -> [Test]."""
    found = collections.defaultdict(list)
    for folder, folders, names in os.walk(os.path.join(root, "tests")):
        folders.sort()
        for name in sorted(names):
            if not name.endswith((".c", ".h", "_test.py")):
                continue
            path = os.path.relpath(os.path.join(folder, name), root)
            for test in re.findall(r"^(?:TEST\(|def (?=test_))(\w+)[()]", read(root, path), re.M):
                for one in ids_of(test):
                    found[one].append(Test(test, path))
    return found


def reasons_cited(root):
    """Ids that the program itself names to its user."""
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith(".c"):
                path = os.path.relpath(os.path.join(folder, name), root)
                for one in re.findall(r'"(%s)"' % ID, read(root, path)):
                    yield one, path


def short(rule):
    rule = re.sub(r"\s*-> AMB-\d+", "", rule)
    if len(rule) <= RULE_WIDTH:
        return rule
    return rule[:RULE_WIDTH].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


def cells(coverage, one):
    """The cells `Test`, `End to end` and `File` of a row. A test on the wire stands for the others."""
    tests = sorted(coverage.tests.get(one, []), key=lambda t: not is_on_wire(t))
    state = coverage.state(one)
    said = ""
    if state != PROVED and state is not None:
        note = coverage.notes.get(one, Note(state, ""))
        said = "*%s*%s" % (state, ": " + note.sentence if note.sentence else "")
    elif not tests:
        said = "all its rows" if state == PROVED else "*open*"
    if tests:
        more = " and %d more" % (len(tests) - 1) if len(tests) > 1 else ""
        said = "`%s`%s%s" % (tests[0].name, more, "; " + said if said else "")
    is_judged = state in (PROVED, IN_PART)
    wire = ("yes" if coverage.is_end_to_end(one) else "no") if is_judged else ""
    return said, wire, tests[0].path if tests else ""


def page(root):
    coverage = Coverage(root)
    out = ["# Coverage", "",
           "Written by `./dev coverage` from the names of the tests; do not edit. The rules are those of",
           "[requirements.md](requirements.md), which also says what is open. *End to end*: a test of it has two",
           "processes, or two adapters with sockets of their own.", "",
           "| Group | Ids | Proved | of them end to end | In part | Not built yet | Definition |",
           "|---|---|---|---|---|---|---|"]
    for title, reqs in coverage.groups:
        out.append("| %s | %s |" % (title, " | ".join(map(str, counts(coverage, reqs)))))
    out.append("| all | %s |" % " | ".join(
        map(str, counts(coverage, list(coverage.requirements.values())))))
    for title, reqs in coverage.groups:
        out += ["", "## " + title, "", "| Id | What | Test | End to end | File |", "|---|---|---|---|---|"]
        for req in reqs:
            mark = "*optional:* " if req.is_optional else ""
            out.append("| %s | %s%s | %s |" % (
                req.id, mark, short(req.rule), " | ".join(cells(coverage, req.id))))
    return "\n".join(out) + "\n"


def counts(coverage, reqs):
    states = [coverage.state(r.id) for r in reqs]
    on_wire = sum(s == PROVED and coverage.is_end_to_end(r.id) for r, s in zip(reqs, states))
    return [len(reqs), states.count(PROVED), on_wire] + [
        states.count(s) for s in (IN_PART, NOT_BUILT, DEFINITION)]


def unknown(root):
    """Ids that the page lacks, and ids that are claimed or cited and do not exist."""
    coverage = Coverage(root)
    missing = [one for one in every_id() if one not in coverage.requirements]
    if missing:
        yield "docs/requirements.md lacks " + " ".join(missing)
    known = set(every_id())
    for one in coverage.requirements:
        if one not in known:
            yield "docs/requirements.md has %s, which coverage.py does not know" % one
    for one, tests in coverage.tests.items():
        if one not in known:
            yield "%s: %s claims %s, which does not exist" % (tests[0].path, tests[0].name, one)
    for one, path in reasons_cited(root):
        if one not in known:
            yield "%s: cites %s, which does not exist" % (path, one)
    for req in coverage.requirements.values():
        for one in re.findall(r"-> (AMB-\d\d)", req.rule):
            if one not in coverage.ambiguities:
                yield "docs/requirements.md: %s points at %s, which has no row" % (req.id, one)
    for one in coverage.notes:
        if one not in known:
            yield "docs/requirements.md, %s: %s does not exist" % (OPEN_TITLE, one)


def unspoken(root):
    """Ids of which nothing says what they are, and of which the page says what the tests deny."""
    coverage = Coverage(root)
    for one in coverage.bad_notes:
        yield "%s: needs one line in %s, with a state and a sentence" % (one, OPEN_TITLE)
    for one in coverage.requirements:
        state, tests = coverage.state(one), coverage.tests.get(one)
        parts = tests or any(coverage.tests.get(r) for r in coverage.rows(one))
        if state in (NOT_BUILT, DEFINITION) and tests:
            yield "%s has a test (%s), yet the page calls it %s" % (one, tests[0].name, state)
        elif state == IN_PART and not parts:
            yield "%s has no test, yet the page calls it %s" % (one, state)
        elif state is None and parts and coverage.open_rows(one):
            yield "%s is not proved while rows are open: %s" % (
                one, " ".join(coverage.open_rows(one)))
        elif state is None:
            yield "%s has no test, and no line in docs/requirements.md, %s" % (one, OPEN_TITLE)


def judge(name, problems):
    """Prints every problem but the first, then the test's line; true if there is none."""
    for problem in problems[1:]:
        print("%s: %s" % (name, problem))
    if not problems:
        print("ok " + name)
        return True
    print("not ok %s: %s%s" % (
        name, problems[0], " (and %d more, above)" % (len(problems) - 1) if problems[1:] else ""))
    return False


def check(root):
    stale = []
    if read(root, "docs/coverage.md") != page(root):
        stale = ["docs/coverage.md is not what the tests say; run ./dev coverage"]
    return all([judge("coverage_ids_exist", list(unknown(root))),
                judge("coverage_is_complete", list(unspoken(root))),
                judge("coverage_is_fresh", stale)])


def main(args):
    if "--check" in args:
        return 0 if check(args[0]) else 1
    with open(os.path.join(args[0], "docs/coverage.md"), "w", encoding="utf-8") as f:
        f.write(page(args[0]))
    print("wrote docs/coverage.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
