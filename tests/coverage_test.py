#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Can coverage.py refuse? It is shown a small page and tests in which all is well, then each fault."""
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import coverage  # noqa: E402

GROUPS = {"QP": coverage.Group(3, 1, "02b"), "FAB": coverage.Group(1, 0, "")}
PAGE = """# Requirements

## QP: queue pairs

| Id | Rule | Source |
|---|---|---|
| QP-01 | One -> AMB-01 | D1 |
| QP-02 | Two | D1 |
| QP-02a | first row | D1 |
| QP-02b | second row | D1 |
| QP-03 | Three | D1 |
| QP-S1 | Scenario | D1 |

## FAB: fabric, not built yet

| Id | Rule | Source |
|---|---|---|
| FAB-01 | Flits | D3 |

## What is open

| Id | State | Why |
|---|---|---|
| QP-03 | definition | a name |

## Where the documents are unclear

| AMB-01 | D1 | unclear | clear |
"""
C_TEST = "tests/unit/a_test.c"
WIRE_TEST = "tests/live/b_test.c"
TREE = {
    "docs/requirements.md": PAGE,
    C_TEST: "TEST(test_%s_01_works)\nTEST(test_%s_02a_%s_02b_work)\n" % (("qp",) * 3),
    WIRE_TEST: "TEST(test_%s_s1_works)\n" % "qp",
    "src/a.c": 'say("QP-01");\n',
}


def problems(changes):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**TREE, **changes}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        return list(coverage.unknown(root)) + list(coverage.unspoken(root)), coverage.page(root)


def page_with(old, new):
    assert old in PAGE
    return {"docs/requirements.md": PAGE.replace(old, new)}


def noted(line):
    return page_with("| QP-03 | definition | a name |\n", "| QP-03 | definition | a name |\n" + line)


def without(path, test):
    assert test in TREE[path]
    return {path: TREE[path].replace(test, "TEST(test_works)")}


ROWS = "TEST(test_%s_02a_%s_02b_work)" % (("qp",) * 2)
FIRST_ROW = {C_TEST: TREE[C_TEST].replace(ROWS, "TEST(test_%s_02a_%s_02_work)" % (("qp",) * 2))}

# name: changes of the tree, and what is said of them
REFUSED = {
    "a_missing_id": (page_with("| QP-03 | Three | D1 |\n", ""), "lacks QP-03"),
    "a_missing_row": (page_with("| QP-02b | second row | D1 |\n", ""), "lacks QP-02b"),
    "a_missing_group": ({"docs/requirements.md": re.sub("## FAB.*?(?=## What)", "", PAGE, flags=re.S)},
                        "lacks FAB-01"),
    "an_id_too_many": (page_with("| QP-03 | Three", "| QP-04 | Four | D1 |\n| QP-03 | Three"),
                       "has QP-04"),
    "a_claim_of_no_id": ({"tests/c_test.py": "def test_%s_09_works():\n" % "qp"}, "claims QP-09"),
    "a_cited_id_that_is_none": ({"src/b.c": 'say("QP-09");\n'}, "cites QP-09"),
    "a_note_on_no_id": (noted("| QP-09 | in part | half |\n"), "QP-09 does not exist"),
    "a_pointer_to_nothing": (page_with("AMB-01 | D1 | unclear", "AMB-02 | D1 | unclear"), "AMB-01"),
    "an_id_without_test": (without(WIRE_TEST, "TEST(test_%s_s1_works)" % "qp"), "QP-S1 has no test"),
    "a_row_without_test": (FIRST_ROW, "QP-02b has no test"),
    "a_parent_whose_row_is_open": (
        {**FIRST_ROW, **noted("| QP-02b | not built yet | later |\n")}, "QP-02 is not proved"),
    "a_parent_whose_row_is_in_part": (noted("| QP-02b | in part | half |\n"), "QP-02 is not proved"),
    "a_definition_with_a_test": (noted("| QP-01 | definition | a name |\n"), "QP-01 has a test"),
    "unbuilt_with_a_test": (noted("| QP-S1 | not built yet | later |\n"), "QP-S1 has a test"),
    "an_unbuilt_group_with_a_test": ({"tests/c_test.py": "def test_%s_01_works():\n" % "fab"},
                                     "FAB-01 has a test"),
    "in_part_without_a_test": (page_with("| QP-03 | definition", "| QP-03 | in part"),
                               "QP-03 has no test"),
    "a_note_without_sentence": (noted("| QP-01 | in part |  |\n"), "QP-01: needs one line"),
    "an_unknown_state": (noted("| QP-01 | nearly | half |\n"), "QP-01: needs one line"),
    "two_notes_on_one_id": (noted("| QP-03 | definition | again |\n"), "QP-03: needs one line"),
}
ACCEPTED = {
    "all_as_it_should_be": {},
    "a_parent_in_part": {**FIRST_ROW, **noted("| QP-02b | not built yet | later |\n"
                                              "| QP-02 | in part | its row 02b |\n")},
    "several_ids_in_a_note": page_with("| QP-03 | definition", "| QP-03 FAB-01 | definition"),
}
# Another claim of QP-01 by this file: is it end to end?
END_TO_END = {
    "tests/live/c_test.c": "yes",
    "tests/dropin/c_test.py": "yes",
    "tests/spec/paging_test.py": "yes",
    "tests/unit/compat/c_test.c": "no",  # one process with one adapter
    "tests/spec/conformance_sim.c": "no",
    "tests/c_test.py": "no",  # a script need not start two processes
    "tests/spec/seeing_test.py": "no",
}
# id: the cells that the page has of it
PAGE_ROWS = {
    "QP-01": "`test_%s_01_works` | no | tests/unit/a_test.c |" % "qp",
    "QP-02": "all its rows | no |  |",
    "QP-03": "*definition*: a name |  |  |",
    "QP-S1": "`test_%s_s1_works` | yes | tests/live/b_test.c |" % "qp",
    "FAB-01": "*not built yet* |  |  |",
}


def judge(name, fault):
    print("ok test_" + name if not fault else "not ok test_%s: %s" % (name, fault))
    return not fault


def main():
    known = list(coverage.every_id())
    good = judge("coverage_knows_404_ids", "" if len(set(known)) == 404 == len(known) else len(known))
    coverage.GROUPS = GROUPS
    for name, (changes, said) in REFUSED.items():
        found, _ = problems(changes)
        good &= judge("coverage_refuses_" + name,
                      "" if any(said in one for one in found) else "said only %r" % found)
    for name, changes in ACCEPTED.items():
        good &= judge("coverage_accepts_" + name, problems(changes)[0])
    page = problems({})[1].splitlines()
    for one, cells in PAGE_ROWS.items():
        row = [line for line in page if line.startswith("| %s |" % one)]
        good &= judge("coverage_page_shows_" + one.replace("-", "").lower(),
                      "" if row and row[0].endswith(cells) else row)
    for path, wanted in END_TO_END.items():
        claim = ("def test_%s_01_again(_):\n" if path.endswith(".py") else "TEST(test_%s_01_again)\n") % "qp"
        rows = [line for line in problems({path: claim})[1].splitlines() if line.startswith("| QP-01 |")]
        good &= judge("coverage_end_to_end_%s" % re.sub(r"\W", "_", path),
                      "" if rows[0].split(" | ")[3] == wanted else rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
