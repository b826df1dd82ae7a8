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

A rule that many functions have alike needs one entry: each place is a mutant of its own, called NAME@FUNCTION.

    [null-argument]
    rule  WEFT_R_NULL_ARGUMENT
    file  src/driver/calls/*.c src/roles/rio_*.c
    each  return WEFT_R_NULL_ARGUMENT;   instead of old; at most once in a function
    new   return WEFT_OK;
    test  api/*                          any test of the program

tests/mutate/argued.txt has reasons without a mutant: `WEFT_R_NAME why`, and refusals: `FUNCTION WEFT_R_NAME why`.
"""
import collections
import glob
import os
import re

FIELDS = ("rule", "file", "function", "old", "each", "new", "test", "equivalent")
NEEDED = ("rule", "file", "old", "new", "test")
EVERY_TEST = "*"
ARGUED = "argued.txt"
FOLDER = os.path.join("tests", "mutate")
REASON = re.compile(r"\bWEFT_R_\w+")
ARGUMENT = re.compile(r"((?:\w+ )?WEFT_R_\w+) (.+)")
FUNCTION = re.compile(r"^[a-z][^;{}=]*?\b(\w+)\([^;{}]*\)\s*\n\{\n.*?^\}", re.M | re.S)
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
        if field not in fields and field != "new" and not (field == "test" and "equivalent" in fields or
                                                           field == "old" and "each" in fields):
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


def expanded(root, mutant):
    """A mutant for each place of one that has many; else just itself."""
    if not mutant.each:
        return [mutant]
    found = []
    for pattern in mutant.file.split():
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            path = os.path.relpath(path, root)
            for function in FUNCTION.finditer(read(root, path)):
                if mutant.each in function[0]:
                    found.append(mutant._replace(name="%s@%s" % (mutant.name, function[1]), file=path,
                                                 function=function[1], old=mutant.each, each=""))
    return found or [mutant._replace(old=mutant.each)]


def load(root):
    """Every mutant, in the order of rooms and lines; {reason, or function and reason: why it has none}."""
    mutants, argued = [], {}
    for file in sorted(os.listdir(os.path.join(root, FOLDER))):
        text = read(root, os.path.join(FOLDER, file)) if file.endswith(".txt") else ""
        if file == ARGUED:
            argued = dict(ARGUMENT.match(line).groups() for line in text.splitlines()
                          if line and not line.startswith("#"))
        else:
            mutants += [m for one in parse(file[:-len(".txt")], text) for m in expanded(root, one)]
    return mutants, argued


def is_called(mutant, word):
    """By its room, its name, or the id of a requirement that its rule or its test names (VMM-04)."""
    in_test = "_%s_" % word.lower().replace("-", "_")
    return (word in (mutant.room, mutant.name, mutant.name.partition("@")[0]) or
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


def place(mutant, text):
    """(start, end) of what the mutant changes."""
    first, last = function_span(text, mutant.function) if mutant.function else (0, len(text))
    pattern = r"\n[ \t]*".join(re.escape(line) for line in mutant.old.split("\n"))
    found = list(re.compile(pattern).finditer(text, first, last))
    if len(found) != 1:
        raise TableError("the old text is there %d times" % len(found))
    return found[0].span()


def apply(mutant, text):
    """The text with the change made."""
    start, end = place(mutant, text)
    if mutant.old == mutant.new:
        raise TableError("it changes nothing")
    return text[:start] + mutant.new + text[end:]


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
            if mutant.test and test not in self.tests_of(program) | {EVERY_TEST}:
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
NO_REFUSAL = ("src/base/reason.c", "src/base/reason_fabric.c", "src/base/reason_iscsi.c", "src/base/reason_lan.c",
              "src/base/reason_push.c", "src/sim/")


# The machine refuses, not a rule.
NO_RULE = {"WEFT_R_NO_MEMORY"}
# With what decides on it: the condition, or the case.
REFUSAL = re.compile(r"(?:if \([^;{}]*?\)\s*|(?:case [^;{}]*?|default):\s*)?(?:\{\s*)?return\b[^;]*?\bWEFT_R_\w+[^;]*;")
COMPARED = re.compile(r"[!=]= WEFT_R_\w+")

Refusal = collections.namedtuple("Refusal", "path line function reasons start end")


def code_files(root):
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        for path in (os.path.relpath(os.path.join(folder, n), root) for n in sorted(names) if n.endswith(".c")):
            if not path.startswith(NO_REFUSAL):
                yield path


def returned_reasons(sources):
    """Every reason that the code names where it can refuse something."""
    return {reason for path in code_files(sources.root) for reason in REASON.findall(sources.text(path))}


def refusals(sources):
    """Every statement that returns a reason, with what decides on it."""
    for path in code_files(sources.root):
        # Comments are blanked, so that places stay.
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), sources.text(path), flags=re.S)
        for function in FUNCTION.finditer(text):
            for found in REFUSAL.finditer(text, *function.span()):
                reasons = set(REASON.findall(COMPARED.sub("", found[0]))) - NO_RULE
                if reasons:
                    yield Refusal(path, text.count("\n", 0, found.start()) + 1, function[1], reasons,
                                  *found.span())


def bare_refusals(sources, mutants):
    """Those that no mutant breaks: it changes the statement, or names the reason and changes the same function."""
    by_file = collections.defaultdict(list)
    for m in mutants:
        by_file[m.file].append((m, place(m, sources.text(m.file))))
    for r in refusals(sources):
        first, last = function_span(sources.text(r.path), r.function)
        if not any(start < r.end and end > r.start or
                   first <= start < last and r.reasons & set(REASON.findall(m.rule))
                   for m, (start, end) in by_file[r.path]):
            yield r


def refusal_faults(sources, mutants, argued):
    """Refusals that neither a mutant nor an argument is for, and arguments that no refusal needs."""
    bare, needed = [], {key for key in argued if " " not in key}
    for r in bare_refusals(sources, mutants):
        keys = {"%s %s" % (r.function, reason) for reason in r.reasons}
        needed |= keys & set(argued)
        if not (keys | r.reasons) & set(argued):
            bare.append("%s:%d: no mutant breaks the refusal of %s for %s" % (
                r.path, r.line, r.function, ", ".join(sorted(r.reasons))))
    return ["%s argues for %s, which needs no argument" % (ARGUED, key) for key in sorted(set(argued) - needed)] + bare


def faults(root):
    """Everything that is wrong with the table, a line for each."""
    mutants, argued = load(root)
    sources = Sources(root)
    found = [f for f in map(sources.fault, mutants) if f]
    names = collections.Counter(m.name for m in mutants)
    found += ["two mutants are called " + name for name, count in names.items() if count > 1]
    reasons = returned_reasons(sources)
    covered = {reason for m in mutants for reason in REASON.findall(m.rule)}
    general = {key for key in argued if " " not in key}
    found += ["no mutant breaks a refusal for %s, and %s does not say why" % (reason, ARGUED)
              for reason in sorted(reasons - covered - general)]
    found += ["%s argues for %s, which needs no argument" % (ARGUED, reason)
              for reason in sorted(general & covered | general - reasons)]
    return found or refusal_faults(sources, mutants, argued)
