#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""manual_test.py BUILD_DIR SOURCE_DIR: the help of the commands, and what is made from it; what packages say.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../dropin"))
from script import Skip, expect, expect_equal, main, need, run, write  # noqa: E402

BUILD, SOURCE = (os.path.realpath(a) for a in sys.argv[1:3])
WEFT = os.path.join(BUILD, "weft")
MANUAL = os.path.join(BUILD, "cmd/manual")
PLUGIN, PLUGIN_PAGE = os.path.join(BUILD, "nbdkit-weft-plugin.so"), os.path.join(MANUAL, "nbdkit-weft-plugin.1")
LOADER = "/usr/share/bash-completion/bash_completion"


def commands():
    return re.findall(r"^  (\w+) ", run(WEFT, "help").stdout.partition("Environment")[0], re.M)


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as f:
        return f.read()


def words(text):
    return set(re.findall(r"[^\s,;:.()\[\]]+", text))


def test_help_of_every_command_is_the_same_by_both_ways(folder):
    whole = run(WEFT, "help", "--all").stdout
    expect("some", len(commands()) > 10)
    for name in commands():
        done = run(WEFT, name, "--help")
        expect_equal(name, (done.returncode, done.stderr), (0, ""))
        expect("usage of " + name, done.stdout.startswith("usage: weft %s" % name))
        expect_equal(name + " -h", run(WEFT, name, "-h").stdout, done.stdout)
        expect_equal("help " + name, run(WEFT, "help", name).stdout, done.stdout)
        expect(name + " is in help --all", "\n" + done.stdout in whole)
    expect_equal("--help", run(WEFT, "--help").stdout, run(WEFT, "help").stdout)


def test_help_of_no_command_is_refused(folder):
    for args in (["nothing"], ["help", "nothing"]):
        done = run(WEFT, *args)
        expect_equal("status", (done.returncode, done.stdout), (2, ""))
        expect("names it: " + done.stderr, 'no command "nothing"' in done.stderr)
    expect_equal("two words", run(WEFT, "help", "run", "sim").returncode, 2)


def test_pages_are_those_of_the_commands(folder):
    expect_equal("pages", sorted(os.listdir(os.path.join(MANUAL, "man1"))),
                 sorted(["weft.1"] + ["weft-%s.1" % name for name in commands()]))


def test_pages_say_all_that_help_says(folder):
    need("mandoc")
    for name in [""] + commands():
        page = os.path.join(MANUAL, "man1", "weft%s.1" % (name and "-" + name))
        text = run("mandoc", "-T", "ascii", "-O", "width=200", page).stdout
        text = re.sub(".\b", "", text)  # bold and underlined
        said = words(run(WEFT, "help", *([name] if name else [])).stdout)
        said = {re.sub("^docs/", "/usr/local/share/doc/weft/docs/", word) for word in said}
        expect_equal(page, said - words(text) - {"usage"}, set())


def test_page_of_the_plugin_says_all_that_nbdkit_says_of_it(folder):
    need("nbdkit", "mandoc")
    if not os.path.exists(PLUGIN):
        raise Skip("there is no plugin")
    done = run("nbdkit", PLUGIN, "--help")
    said = done.stdout[done.stdout.index("weft block devices"):].replace(PLUGIN, "")
    expect("its parameters: " + said, all(name in said for name in ("config=FILE", "device=DEVICE", "wait=TIME")))
    text = re.sub(".\b", "", run("mandoc", "-T", "ascii", "-O", "width=200", PLUGIN_PAGE).stdout)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "PARAMETERS", "SEE ALSO"):
        expect(heading + " in " + text, re.search("^%s$" % heading, text, re.M))
    missing = {re.sub("^docs/", "/usr/local/share/doc/weft/docs/", word) for word in words(said)} - words(text)
    expect_equal("said by nbdkit only", missing, set())


def test_pages_are_as_roff_wants_them(folder):
    pages = [os.path.join(MANUAL, "man1", name) for name in os.listdir(os.path.join(MANUAL, "man1"))]
    pages += [PLUGIN_PAGE] if os.path.exists(PLUGIN) else []
    need("mandoc", "man")
    done = run("mandoc", "-T", "lint", *pages)
    expect_equal("mandoc: " + done.stdout, done.returncode, 0)
    for page in pages:
        # Else some print a hyphen, with which an option that is copied does not work.
        lines = [line for line in read(page).splitlines() if not line.startswith((".TH", '.\\"'))]
        expect_equal("hyphens", [line for line in lines if re.search(r"(?<!\\)-", line)], [])
        done = run("man", "--warnings", "-l", page, MANWIDTH="80", LC_ALL="C.UTF-8")
        expect_equal("man " + page, (done.returncode, done.stderr), (0, ""))


def offered(folder, line):
    """What bash offers at the end of a line."""
    need("bash")
    if not os.path.exists(LOADER):
        raise Skip("there is no bash-completion")
    script = write(os.path.join(folder, "ask"), """
PATH=%s:$PATH
. %s
. %s
COMP_LINE=$1
COMP_POINT=${#1}
COMP_TYPE=9
eval "COMP_WORDS=($1)"
case $1 in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
_weft
printf '%%s\\n' "${COMPREPLY[@]}"
""" % (BUILD, LOADER, os.path.join(MANUAL, "weft")))
    done = run("bash", script, line)
    expect_equal("bash: " + line, done.stderr, "")
    return set(done.stdout.split())


def test_completion_offers_commands_options_and_values(folder):
    expect_equal("commands", offered(folder, "weft "), set(commands()))
    expect_equal("one", offered(folder, "weft de"), {"demo", "devices"})
    expect_equal("of help", offered(folder, "weft help ver"), {"version"})
    expect_equal("words", offered(folder, "weft key "), {"new", "show"})
    expect_equal("verbs", offered(folder, "weft io FILE "),
                 set("list read write copy flush zero discard bench source sink".split()))
    expect_equal("after an option", offered(folder, "weft io --at 5 FILE wr"), {"write"})
    expect_equal("options", offered(folder, "weft stat -"), {"--json", "--watch", "--help"})
    expect_equal("both names", offered(folder, "weft trace -"),
                 {"-f", "--follow", "--qp", "--kind", "--help"})
    expect_equal("values", offered(folder, "weft run --log "), {"off", "error", "info"})
    expect_equal("policies", offered(folder, "weft run --policy "), {"open", "strict"})
    expect_equal("demos", offered(folder, "weft demo "), {"card", "cluster", "paging"})
    expect_equal("no values", offered(folder, "weft trace --qp "), set())
    worlds = set(re.findall(r"--world ([a-z-]+)", run(WEFT, "sim", "--help").stdout))
    expect_equal("worlds", offered(folder, "weft sim --world "), worlds)
    expect("some worlds", "iwarp" in worlds)
    expect_equal("reasons", offered(folder, "weft explain tag_inst"), {"tag_instance"})


def test_completion_offers_every_option(folder):
    for name in commands():
        said = set(re.findall(r"(?<=[\s\[])--[a-z][a-z-]*", run(WEFT, name, "--help").stdout))
        # Of others that it tells about.
        said -= {"--help"} if name == "help" else set()
        expect_equal(name, said - offered(folder, "weft %s --" % name), set())


def test_completion_offers_files_and_programs(folder):
    path = write(os.path.join(folder, "capture.pcap"), "", 0o644)
    for line in ("weft dump ", "weft run --pcap ", "weft key new ", "weft io "):
        expect_equal(line, offered(folder, line + path[:-3]), {path})
    expect("a program", "bash" in offered(folder, "weft run bas"))
    expect("what the program takes", path in offered(folder, "weft run --log off ls " + path[:-3]))


def field(name):
    """Packages that a field of debian/control names."""
    text = re.search(r"^%s:((?:.*\n)(?: .*\n)*)" % name, read(SOURCE, "debian/control"), re.M)[1]
    return {part.split()[0] for part in text.split(",")}


def test_package_builds_with_the_libraries_that_dev_installs(folder):
    listed = re.search(r"^libraries\(\) \{.*?<<'END'\n(.*?)^END$", read(SOURCE, "dev"), re.M | re.S)[1]
    wanted = {line.split()[1] for line in listed.splitlines()} - {"libc6-dev"}
    got = {name for name in field("Build-Depends") if name.endswith("-dev")}
    expect_equal("libraries", got, wanted)


def test_package_knows_every_version_of_a_symbol(folder):
    nodes = re.findall(r"^(WEFT_[\w.]+)(?: \w+)? \{", read(SOURCE, "src/libweft.map"), re.M)
    lines = re.findall(r"^ \(symver\)([\w.]+) ", read(SOURCE, "debian/libweft0.symbols"), re.M)
    expect("some", nodes)
    expect_equal("versions", lines, nodes)


main(globals())
