# SPDX-License-Identifier: BSD-2-Clause
"""The table of mutants: how it is read, and whether it fits the sources.

tests/mutate/ROOM.txt holds the mutants of a room. Lines that begin with # are comments. A mutant is

    [tag-index]                          its name, which is one for all rooms
    rule  WEFT_R_TAG_INDEX               what it breaks: reasons that are refused there, or words
    file  src/mem/access.c
    function  entry_find                 optional: only in this function
    old   if (index >= table->count)     what is there, exactly once; more lines of old are the lines below it
    new   if (false)                     what takes its place; the indentation stays
    test  mem_gate/test_tag_index        program/function of the test that must fail
    equivalent  WHY                      only where no test can fail: the argument

tests/mutate/argued.txt has reasons without a mutant: `WEFT_R_NAME why`.
"""
import collections
import os
import re

FIELDS = ("rule", "file", "function", "old", "new", "test", "equivalent")
NEEDED = ("rule", "file", "old", "new", "test")
ARGUED = "argued.txt"
FOLDER = os.path.join("tests", "mutate")
REASON = re.compile(r"\bWEFT_R_\w+")
ID = re.compile(r"[A-Z]+-(?:\d\d[a-z]?|S\d)")

Mutant = collections.namedtuple("Mutant", ("name", "room", "line") + FIELDS)


class TableError(Exception):
    pass


def read(root, path):
    try:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        raise TableError("there is no " + path)


def finished(room, name, line, fields):
    for field in NEEDED:
        # To take something away is to put nothing in its place.
        if field != "new" and field not in fields and not (field == "test" and "equivalent" in fields):
            raise TableError("%s.txt:%d: %s has no line %s" % (room, line, name, field))
    return Mutant(name, room, line, *["\n".join(fields.get(f, [])) for f in FIELDS])


def parse(room, text):
    """The mutants of one file of the table."""
    mutants, name, begun, fields = [], None, 0, {}
    for number, line in enumerate(text.splitlines() + ["["], 1):
        if line.startswith("["):
            if name:
                mutants.append(finished(room, name, begun, fields))
            name, begun, fields = line.strip("[]"), number, {}
        elif line.strip() and not line.startswith("#"):
            field, _, value = line.partition(" ")
            if field not in FIELDS or not name:
                raise TableError("%s.txt:%d: no such line: %s" % (room, number, line))
            if field in fields and field not in ("old", "new"):
                raise TableError("%s.txt:%d: a second line %s" % (room, number, field))
            fields.setdefault(field, []).append(value.strip())
    return mutants


def load(root):
    """Every mutant, in the order of rooms and lines; {reason: why it has none}."""
    mutants, argued = [], {}
    for file in sorted(os.listdir(os.path.join(root, FOLDER))):
        text = read(root, os.path.join(FOLDER, file)) if file.endswith(".txt") else ""
        if file == ARGUED:
            argued = dict(line.split(" ", 1) for line in text.splitlines()
                          if line and not line.startswith("#"))
        else:
            mutants += parse(file[:-len(".txt")], text)
    return mutants, argued


def is_called(mutant, word):
    """By its room, its name, or the id of a requirement that its rule or its test names (VMM-04)."""
    in_test = "_%s_" % word.lower().replace("-", "_")
    return (word in (mutant.room, mutant.name) or
            bool(ID.fullmatch(word)) and (word in re.findall(r"[\w-]+", mutant.rule) or
                                          in_test in mutant.test.partition("/")[2] + "_"))


def choose(mutants, words):
    """Those of the rooms, names and ids that are asked for; all without words."""
    for word in words:
        if not any(is_called(m, word) for m in mutants):
            raise TableError("no room or mutant is called %s, and none breaks it" % word)
    return [m for m in mutants if not words or any(is_called(m, w) for w in words)]


# --- sources -------------------------------------------------------------------------------------


def function_span(text, name):
    """(start, end) of the definition of a function."""
    found = re.search(r"^[a-z][^;{}=]*?\b%s\([^;{}]*\)\s*\n\{\n.*?^\}" % re.escape(name), text,
                      re.M | re.S)
    if not found:
        raise TableError("there is no function " + name)
    return found.span()


def apply(mutant, text):
    """The text with the change made."""
    first, last = function_span(text, mutant.function) if mutant.function else (0, len(text))
    pattern = r"\n[ \t]*".join(re.escape(line) for line in mutant.old.split("\n"))
    found = list(re.compile(pattern).finditer(text, first, last))
    if len(found) != 1:
        raise TableError("the old text is there %d times" % len(found))
    if mutant.old == mutant.new:
        raise TableError("it changes nothing")
    return text[:found[0].start()] + mutant.new + text[found[0].end():]


def programs(build_text):
    """{program: its sources}, from the text of tests/meson.build."""
    found, lists = {}, {}
    for name, inside in re.findall(r"^(\w+) = \[(.*?)\]", build_text, re.M | re.S):
        lists[name] = re.findall(r"'([^']+\.c)'", inside)
    for name, common, inside in re.findall(r"'(\w+)': (?:(\w+) \+ )?\[(.*?)\]", build_text, re.S):
        sources = lists.get(common, []) + re.findall(r"'([^']+\.c)'", inside)
        if sources:
            found[name] = sources
    for name, inside in re.findall(r"executable\('(\w+)',(.*?)link_with", build_text, re.S):
        found[name] = re.findall(r"'([^']+\.c)'", inside)
    return found


class Sources:
    """The tests that there are, and whether a mutant fits."""

    def __init__(self, root):
        self.root = root
        self.programs = programs(read(root, "tests/meson.build"))
        self.tests, self.texts = {}, {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = read(self.root, path)
        return self.texts[path]

    def tests_of(self, program):
        if program not in self.tests:
            self.tests[program] = {
                name for source in self.programs.get(program, [])
                for name in re.findall(r"^TEST\((\w+)\)", self.text("tests/" + source), re.M)}
        return self.tests[program]

    def fault(self, mutant):
        """Why the mutant does not fit the sources; None if it does."""
        program, _, test = mutant.test.partition("/")
        try:
            apply(mutant, self.text(mutant.file))
            if mutant.test and test not in self.tests_of(program):
                raise TableError("there is no test " + mutant.test)
            if program.endswith("swarm"):
                raise TableError("a swarm is no direct test")
            for reason in REASON.findall(mutant.rule):
                if reason not in self.text("include/weft/reason.h"):
                    raise TableError("there is no " + reason)
        except TableError as error:
            return "%s.txt:%d: %s: %s" % (mutant.room, mutant.line, mutant.name, error)
        return None


# Reasons are named there, but nothing is refused: names and texts, and models of what weft refuses.
NO_REFUSAL = ("src/base/reason.c", "src/sim/")


def returned_reasons(root):
    """Every reason that the code names where it can refuse something."""
    reasons = set()
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for path in (os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(".c")):
            if not path.startswith(NO_REFUSAL):
                reasons.update(REASON.findall(read(root, path)))
    return reasons


def faults(root):
    """Everything that is wrong with the table, a line for each."""
    mutants, argued = load(root)
    sources = Sources(root)
    found = [f for f in map(sources.fault, mutants) if f]
    names = collections.Counter(m.name for m in mutants)
    found += ["two mutants are called " + name for name, count in names.items() if count > 1]
    reasons = returned_reasons(root)
    covered = {reason for m in mutants for reason in REASON.findall(m.rule)}
    found += ["no mutant breaks a refusal for %s, and %s does not say why" % (reason, ARGUED)
              for reason in sorted(reasons - covered - set(argued))]
    found += ["%s argues for %s, which needs no argument" % (ARGUED, reason)
              for reason in sorted(set(argued) & covered | set(argued) - reasons)]
    return found
