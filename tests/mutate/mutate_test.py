#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does mutate.py find what survives, and refuse a table that does not fit? On a small checkout of its own."""
import contextlib
import io
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../dropin")]
import mutate  # noqa: E402
import table  # noqa: E402
from script import expect, expect_equal, main, write  # noqa: E402

SOURCE = """int gate_check(int length)
{
	if (length < 0)
		return WEFT_R_WRAP;
	if (length > 7)
		return WEFT_R_BOUNDS;
	return 0;
}

int gate_other(int length)
{
	if (length < 0)
		return -1;
	return length;
}
"""
# The test looks at one of both bounds; another one fails by itself, and one is skipped.
TEST_PROGRAM = """#include <stdio.h>
#include <string.h>
enum { WEFT_R_WRAP = 1, WEFT_R_BOUNDS };
#include "../src/gate.c"
#define TEST(name) static const char *name(void)
TEST(test_upper)
{
	return gate_check(8) ? "ok" : "not ok";
}
TEST(test_hangs)
{
	while (gate_check(8) == 0)
		;
	return "ok";
}
TEST(test_broken)
{
	return "not ok";
}
TEST(test_absent)
{
	return "skip";
}
int main(int argc, char **argv)
{
	if (argc == 1)
		printf("%s test_upper\\n", test_upper());
	for (int i = 1; i < argc; i++)
		printf("%s %s\\n", !strcmp(argv[i], "test_upper") ? test_upper() :
			!strcmp(argv[i], "test_hangs") ? test_hangs() :
			!strcmp(argv[i], "test_absent") ? test_absent() : test_broken(), argv[i]);
	return 0;
}
"""
BUILD = "project('small', 'c')\nsubdir('tests')\n"
TESTS_BUILD = ("programs = {\n    'gate': ['gate_test.c'],\n    'gate_swarm': ['gate_test.c'],\n}\n"
               "env = {'gate': ['A=1']}\nexecutable('gate', 'gate_test.c')\n")
REASONS = "enum { WEFT_R_WRAP = 1, WEFT_R_BOUNDS };\n"
UPPER = {"rule": "WEFT_R_BOUNDS", "file": "src/gate.c", "old": "if (length > 7)", "new": "if (false)",
         "test": "gate/test_upper"}
LOWER = dict(UPPER, rule="WEFT_R_WRAP", function="gate_check", old="if (length < 0)", new="if (0)")


def checkout(folder, argued="", **mutants):
    """A checkout whose table has the mutants, as {name: fields}."""
    for path, text in (("meson.build", BUILD), ("tests/meson.build", TESTS_BUILD), ("src/gate.c", SOURCE),
                       ("tests/gate_test.c", TEST_PROGRAM), ("include/weft/reason.h", REASONS),
                       ("tests/mutate/argued.txt", argued)):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        write(os.path.join(folder, path), text, 0o644)
    lines = ["# a comment", ""]
    for name, fields in mutants.items():
        lines.append("[%s]" % name)
        lines += ["%s  %s" % (field, line) for field, value in fields.items() for line in value.split("\n")]
    write(os.path.join(folder, "tests/mutate/gate.txt"), "\n".join(lines) + "\n", 0o644)
    return folder


def called(*words):
    """(exit status, what it printed) of the command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        mutate.progress.Progress.__init__.__defaults__ = (out, mutate.time.monotonic)
        status = mutate.main(list(words))
    return status, out.getvalue()


def no_time_for_hanging():
    mutate.PATIENCE, mutate.PATIENCE_S = 1, 1


def test_mutate_a_mutant_that_survives_is_listed(folder):
    checkout(folder, caught=dict(UPPER, new="if (0)"), survivor=LOWER)
    status, text = called(folder)
    expect_equal("status", status, 1)
    expect("the survivor in " + text, "SURVIVED gate survivor: gate/test_upper passes" in text)
    expect("the sum in " + text, "2 mutants, 1 caught, 0 equivalent, 0 skipped, 1 survived, 0 faulty" in text)
    with open(os.path.join(folder, "build/mutate/tree/src/gate.c"), encoding="utf-8") as f:
        expect_equal("the copy after the run", f.read(), SOURCE)


def test_mutate_words_choose_and_all_caught_is_0(folder):
    no_time_for_hanging()
    checkout(folder, caught=dict(UPPER, new="if (0)"), survivor=LOWER,
             hangs=dict(UPPER, new="if (0)", test="gate/test_hangs"))
    status, text = called(folder, "caught", "hangs")
    expect_equal("status of " + text, status, 0)
    expect("the sum in " + text, "2 mutants, 2 caught" in text)
    status, text = called(folder, "--list", "gate")
    expect_equal("lines", [line.split()[:3] for line in text.splitlines()],
                 [["gate", "caught", "WEFT_R_BOUNDS"], ["gate", "survivor", "WEFT_R_WRAP"],
                  ["gate", "hangs", "WEFT_R_BOUNDS"]])
    status, text = called(folder, "elsewhere")
    expect_equal("a word for nothing", (status, text), (1, "mutate: no room or mutant is called elsewhere, and none breaks it\n"))


def test_mutate_an_id_chooses_what_breaks_it(folder):
    checkout(folder, by_rule=dict(UPPER, rule="VMM-04 WEFT_R_BOUNDS"), of_a_row=dict(UPPER, rule="VMM-04a"),
             by_test=dict(LOWER, test="gate/test_sys_01_vmm_04_both"), at_end=dict(LOWER, test="gate/test_vmm_04"),
             of_a_scenario=dict(UPPER, test="gate/test_vmm_s1_upper"), other=dict(UPPER, test="gate/test_vmm_04b_x"))
    for word, names in (("VMM-04", ["by_rule", "by_test", "at_end"]), ("VMM-04a", ["of_a_row"]),
                        ("VMM-04b", ["other"]), ("VMM-S1", ["of_a_scenario"]), ("SYS-01", ["by_test"])):
        status, text = called(folder, "--list", word)
        expect_equal("mutants of " + word, (status, [line.split()[1] for line in text.splitlines()]), (0, names))
    status, text = called(folder, "VMM-05")
    expect_equal("an id without mutants", (status, text),
                 (1, "mutate: no room or mutant is called VMM-05, and none breaks it\n"))


def test_mutate_help_says_how_it_is_called(folder):
    checkout(folder, caught=UPPER)
    for word in ("--help", "-h"):
        status, text = called(folder, word)
        expect_equal("status of " + word, status, 0)
        expect("the usage in " + text, "ROOM" in text and "NAME" in text and "ID" in text)
    status, text = called(folder, "--lost")
    expect("an option that is none in " + text, status == 1 and "--lost" in text)


def test_mutate_an_argued_one_may_survive_but_not_fail_its_test(folder):
    checkout(folder, fits=dict(LOWER, equivalent="no caller has a length below 0"),
             wrong=dict(UPPER, new="if (0)", equivalent="no caller has more than 7"))
    status, text = called(folder)
    expect_equal("status", status, 1)
    expect("the argument in " + text, "FAULTY gate wrong: it is argued to be equivalent" in text)
    expect("the sum in " + text, "0 caught, 1 equivalent, 0 skipped, 0 survived, 1 faulty" in text)


def test_mutate_tests_that_fail_without_it_and_changes_that_do_not_build(folder):
    checkout(folder, unsound=dict(LOWER, test="gate/test_broken"), absent=dict(LOWER, test="gate/test_absent"),
             senseless=dict(UPPER, new="if (length >"))
    status, text = called(folder)
    expect_equal("status", status, 1)
    expect("the test that fails in " + text, 'FAULTY gate unsound: gate/test_broken is "not ok" without it' in text)
    expect("what does not build in " + text, "FAULTY gate senseless: it does not build" in text)
    expect("the sum in " + text, "0 caught, 0 equivalent, 1 skipped, 0 survived, 2 faulty" in text)


def faults(folder, **how):
    return table.faults(checkout(folder, **how))


def test_mutate_the_table_is_refused_when_it_is_stale(folder):
    both = {"upper": UPPER, "lower": LOWER}
    expect_equal("a table that fits", faults(folder, **both), [])
    for what, fields, why in (
            ("gone", {"old": "if (length > 9)"}, "the old text is there 0 times"),
            ("twice", {"old": "return", "function": ""}, "the old text is there 5 times"),
            ("in no function", {"function": "gate_gone"}, "there is no function gate_gone"),
            ("in another function", {"function": "gate_other"}, "the old text is there 0 times"),
            ("the same", {"new": "if (length > 7)"}, "it changes nothing"),
            ("of no file", {"file": "src/gone.c"}, "there is no src/gone.c"),
            ("of no test", {"test": "gate/test_gone"}, "there is no test gate/test_gone"),
            ("of a swarm", {"test": "gate_swarm/test_upper"}, "a swarm is no direct test"),
            ("of no program", {"test": "gone/test_upper"}, "there is no test gone/test_upper"),
            ("for no reason", {"rule": "WEFT_R_GONE and WEFT_R_BOUNDS"}, "there is no WEFT_R_GONE")):
        found = faults(folder, upper=dict(UPPER, **fields), lower=LOWER)
        expect_equal(what, found, ["gate.txt:3: upper: " + why])
    # More lines of old are the lines below, whatever their indentation.
    two = dict(UPPER, old="if (length > 7)\nreturn WEFT_R_BOUNDS;", new="")
    expect_equal("two lines", faults(folder, upper=two, lower=LOWER), [])


def test_mutate_every_reason_has_a_mutant_or_an_argument(folder):
    expect_equal("none", faults(folder, upper=UPPER),
                 ["no mutant breaks a refusal for WEFT_R_WRAP, and argued.txt does not say why"])
    expect_equal("argued", faults(folder, upper=UPPER, argued="WEFT_R_WRAP no caller has it\n"), [])
    expect_equal("argued besides", faults(folder, upper=UPPER, lower=LOWER, argued="WEFT_R_WRAP why\n"),
                 ["argued.txt argues for WEFT_R_WRAP, which needs no argument"])
    status, text = called(checkout(folder, upper=UPPER), "--check")
    expect_equal("as a test", (status, text[:12]), (1, "not ok mutat"))
    status, text = called(checkout(folder, upper=UPPER, lower=LOWER), "--check")
    expect_equal("as a test that passes", (status, text), (0, "ok mutate_table\n"))


MORE = """int gate_lower(int length)
{
	/* Here it could return WEFT_R_WRAP, too; this is a comment. */
	if (length < 0)
		return WEFT_R_WRAP;
	return length == WEFT_R_WRAP ? 2 : 3;
}
"""
EACH = {"rule": "WEFT_R_WRAP", "file": "src/*.c", "each": "return WEFT_R_WRAP;", "new": "return 0;", "test": "gate/*"}


def test_mutate_each_place_of_a_rule_is_a_mutant(folder):
    checkout(folder, upper=UPPER, lower=EACH)
    write(os.path.join(folder, "src/more.c"), MORE, 0o644)
    expect_equal("faults", table.faults(folder), [])
    expect_equal("names", [m.name for m in table.load(folder)[0]], ["upper", "lower@gate_check", "lower@gate_lower"])
    status, text = called(folder, "lower")
    expect("the tests of the program all pass: " + text, status == 1 and "2 mutants, 0 caught" in text and
           "SURVIVED gate lower@gate_lower" in text)
    checkout(folder, upper=dict(EACH, rule="WEFT_R_BOUNDS", each="return WEFT_R_BOUNDS;"), lower=LOWER)
    status, text = called(folder, "upper@gate_check")
    expect("one of them fails: " + text, status == 0 and "1 caught" in text)
    expect_equal("of no place", faults(folder, upper=UPPER, lower=dict(EACH, file="src/gate.c", each="gone;")),
                 ["gate.txt:9: lower: the old text is there 0 times"])


def test_mutate_every_refusal_has_a_mutant_or_an_argument(folder):
    checkout(folder, upper=UPPER, lower=LOWER)
    write(os.path.join(folder, "src/more.c"), MORE, 0o644)
    expect_equal("one is bare", table.faults(folder),
                 ["src/more.c:4: no mutant breaks the refusal of gate_lower for WEFT_R_WRAP"])
    checkout(folder, upper=UPPER, lower=LOWER, argued="gate_lower WEFT_R_WRAP no caller has it\n")
    expect_equal("it is argued", table.faults(folder), [])
    checkout(folder, upper=UPPER, lower=LOWER, argued="gate_gone WEFT_R_WRAP no caller has it\n")
    expect_equal("what is argued is not there", table.faults(folder)[0],
                 "argued.txt argues for gate_gone WEFT_R_WRAP, which needs no argument")


def test_mutate_forms_of_the_table(folder):
    del folder
    for what, text in (("no line test", "[a]\nrule r\nfile f\nold o\n"),
                       ("a field of no name", "[a]\nrole r\n"),
                       ("a field before the first", "rule r\n"),
                       ("two tests", "[a]\nrule r\nfile f\nold o\ntest t\ntest u\n")):
        try:
            table.parse("gate", text)
            expect(what + " is refused", False)
        except table.TableError:
            pass


if __name__ == "__main__":
    sys.exit(main(globals()))
