#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which test proves which requirement.

    coverage.py ROOT           writes docs/coverage.md
    coverage.py ROOT --check   is it up to date, and is every requirement spoken for?

A test claims the ids in its name: TEST(test_loc_s1_rkey_s2_each_check_alone) claims LOC-S1 and
RKEY-S2; so does a function of a script ..._test.py. The ids that exist are the rows of docs/requirements.md. docs/open.tsv says, a line for an id,
why one has no test yet: id, tab, sentence.
"""
import collections
import os
import re
import sys

Requirement = collections.namedtuple("Requirement", "id rule is_optional")
Test = collections.namedtuple("Test", "name path")

# Every group of the source documents, so that a mistyped or premature id is noticed.
GROUPS = ("SYS QP MEM SQR LOC VMM RKEY IWARP TOUCH ISCSI RC RD UD RAW TRN IPT FAB RIO PUSH "
          "SEND").split()
RULE_WIDTH = 90


def read(root, path):
    full = os.path.join(root, path)
    if not os.path.exists(full):
        return ""
    with open(full, encoding="utf-8") as f:
        return f.read()


def requirements(root):
    """[(title, [Requirement])], in the order of the page."""
    groups = []
    for line in read(root, "docs/requirements.md").splitlines():
        heading = re.match(r"## (([A-Z]+)[:,].*)", line)
        row = re.match(r"\| ([A-Z]+-(?:\d\d[a-z]?|S\d)) \| (.*) \| [^|]* \|$", line)
        if heading:
            groups.append((heading[1], []))
        elif row and not row[1].startswith("AMB"):
            is_optional = row[2].startswith("*OPTIONAL*")
            rule = row[2].replace("*OPTIONAL*", "").strip()
            groups[-1][1].append(Requirement(row[1], rule, is_optional))
    return groups


def is_demanded(title):
    """A group that is here only in part asks for nothing yet."""
    return ", in part" not in title


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
                for one in re.findall(r'"([A-Z]+-(?:\d\d[a-z]?|S\d))"', read(root, path)):
                    yield one, path


def open_notes(root):
    notes = {}
    for line in read(root, "docs/open.tsv").splitlines():
        one, _, sentence = line.partition("\t")
        if sentence.strip():
            notes[one] = sentence.strip()
    return notes


def rows_of(parent, reqs):
    """The lettered rows of a requirement."""
    return [r for r in reqs if re.fullmatch(re.escape(parent.id) + "[a-z]", r.id)]


def is_covered(req, reqs, found):
    if found.get(req.id):
        return True
    rows = [r for r in rows_of(req, reqs) if not r.is_optional]
    return bool(rows) and all(found.get(r.id) for r in rows)


def short(rule):
    rule = re.sub(r"\s*-> AMB-\d+", "", rule)
    if len(rule) <= RULE_WIDTH:
        return rule
    return rule[:RULE_WIDTH].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


def status(req, reqs, found, notes):
    """The cells `test` and `file` of a row."""
    tests = found.get(req.id, [])
    if tests:
        more = " and %d more" % (len(tests) - 1) if len(tests) > 1 else ""
        return "`%s`%s" % (tests[0].name, more), tests[0].path
    if is_covered(req, reqs, found):
        return "all its rows", ""
    if req.id in notes:
        return "*open:* " + notes[req.id], ""
    return "*open*" + (", optional" if req.is_optional else ""), ""


def page(root):
    found, notes = claims(root), open_notes(root)
    groups = requirements(root)
    out = ["# Coverage", "",
           "Written by `./dev coverage` from the names of the tests; do not edit. The rules are those of",
           "[requirements.md](requirements.md). *Open* means that no test proves it yet.", "",
           "| Group | Proved | Open | of them optional |", "|---|---|---|---|"]
    for title, reqs in groups:
        missing = [r for r in reqs if not is_covered(r, reqs, found)]
        out.append("| %s | %d of %d | %d | %d |" % (
            title, len(reqs) - len(missing), len(reqs), len(missing),
            sum(r.is_optional for r in missing)))
    for title, reqs in groups:
        out += ["", "## " + title, "", "| Id | What | Test | File |", "|---|---|---|---|"]
        for req in reqs:
            test, path = status(req, reqs, found, notes)
            mark = "*optional:* " if req.is_optional else ""
            out.append("| %s | %s%s | %s | %s |" % (req.id, mark, short(req.rule), test, path))
    return "\n".join(out) + "\n"


def unknown(root):
    """Ids that are claimed or cited and do not exist."""
    known = {r.id for _, reqs in requirements(root) for r in reqs}
    for one, tests in claims(root).items():
        if one not in known:
            yield "%s: %s claims %s, which docs/requirements.md does not have" % (
                tests[0].path, tests[0].name, one)
    for one, path in reasons_cited(root):
        if one not in known:
            yield "%s: cites %s, which docs/requirements.md does not have" % (path, one)
    for one in open_notes(root):
        if one not in known:
            yield "docs/open.tsv: %s is not in docs/requirements.md" % one


def unspoken(root):
    """Ids with neither a test nor a sentence; and sentences for what has a test."""
    found, notes = claims(root), open_notes(root)
    for title, reqs in requirements(root):
        missing = []
        for req in reqs:
            covered = is_covered(req, reqs, found)
            if covered and req.id in notes:
                yield "%s has a test; remove it from docs/open.tsv" % req.id
            elif not covered and is_demanded(title) and not req.is_optional and \
                    req.id not in notes and not spoken_by_rows(req, reqs, found, notes):
                missing.append(req.id)
        if missing:
            yield "no test, and no sentence in docs/open.tsv: " + " ".join(missing)


def spoken_by_rows(req, reqs, found, notes):
    rows = [r for r in rows_of(req, reqs) if not r.is_optional]
    return bool(rows) and all(found.get(r.id) or r.id in notes for r in rows)


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
