#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""calls_test.py SOURCE_DIR BUILD_DIR: what the libraries export, and rules that all calls keep.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import sys

from api import DIRECT_VERBS, functions, header_text, headers, structs

from script import expect, expect_equal, main, need, run

SOURCE, BUILD = (os.path.realpath(a) for a in sys.argv[1:3])
INCLUDE = os.path.join(SOURCE, "include")
NATIVE = [name for name in headers(INCLUDE) if name != DIRECT_VERBS]

# What a call is on, the second word of its name (the third of weft_rio_).
OBJECTS = set("""adapter address advert ah capture cm_id cm_service cq ee event listener opcode pd qp
 port qp_state raw reason region request roce space srq status system tag version window""".split())
ISCSI_OBJECTS = set("memory request result session target".split())
RIO_OBJECTS = set("device iounit memory owner public request requester".split())
DIRECT_OBJECTS = set("device ee key mr pd qp reason".split())
# Values that never grow: those of the wire, of IP, or of the specification.
VALUES = set("""weft_address weft_advert weft_rio_platform weft_rio_sge weft_rio_share weft_rio_term
 weft_sge""".split())


def nodes(path):
    """{version: names} of a linker map."""
    with open(os.path.join(SOURCE, path)) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    found = {}
    for node, body in re.findall(r"(\w[\w.]*) \{(.*?)\}", text, re.S):
        found[node] = set(re.findall(r"^\s*(\w[\w*]*);", body.split("local:")[0], re.M))
    return found


def exported(library):
    """{name: version} of what a library defines for others."""
    found = {}
    for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).stdout.split("\n"):
        words = line.split()
        if len(words) == 3 and words[1] != "A":
            name, _, version = words[2].partition("@")
            found[name] = version.lstrip("@")
    return found


def test_api_map_names_each_call_once(_):
    history = nodes("src/libweft.map")
    names = [name for node in history.values() for name in node]
    expect_equal("names that stand twice", len(names), len(set(names)))
    expect_equal("not in the map", functions(INCLUDE, NATIVE) - set(names), set())
    expect_equal("not declared", set(names) - functions(INCLUDE, NATIVE), set())
    for node in history:
        expect("%s is a version" % node, re.fullmatch(r"WEFT_\d+\.\d+", node))


def test_api_library_exports_each_call_with_its_version_and_nothing_else(_):
    need("nm")
    wanted = {name: node for node, names in nodes("src/libweft.map").items() for name in names}
    expect_equal("libweft", exported(os.path.join(BUILD, "libweft.so")), wanted)


def test_api_direct_verbs_are_exported_with_a_version(_):
    need("nm")
    seen = exported(os.path.join(BUILD, "libibverbs.so.1"))
    calls = functions(INCLUDE, [DIRECT_VERBS])
    expect_equal("map", nodes("src/compat/ibverbs/libibverbs.map")["WEFT_DV_1.0"], calls)
    expect_equal("libibverbs", {n: v for n, v in seen.items() if n.startswith("weftdv_")},
                 {name: "WEFT_DV_1.0" for name in calls})


def test_api_calls_are_named_object_then_verb(_):
    for name in functions(INCLUDE, headers(INCLUDE)):
        match = re.match(r"(weft_rio|weft_iscsi|weftdv|weft)_(\w+)", name)
        objects = {"weft": OBJECTS, "weft_rio": RIO_OBJECTS, "weft_iscsi": ISCSI_OBJECTS,
                   "weftdv": DIRECT_OBJECTS}
        rest = match.group(2)
        expect("%s names no object" % name,
               any(rest == o or rest.startswith(o + "_") for o in objects[match.group(1)]))


def test_api_structs_end_with_reserved_space_or_are_values(_):
    for name in headers(INCLUDE):
        for struct, fields in structs(INCLUDE, name):
            if struct in VALUES:
                expect("%s has no reserved space" % struct, "reserved" not in fields)
            else:
                expect_equal("last field of %s" % struct, fields[-1], "reserved")


def test_api_null_is_tested_for_each_call_on_an_object(_):
    """A call whose first parameter is a pointer to a struct that is only named in the headers."""
    text = "".join(header_text(INCLUDE, name) for name in NATIVE)
    defined = set(re.findall(r"\bstruct (\w+) \{", text))
    with open(os.path.join(SOURCE, "tests/api/null_test.c")) as f:
        tested = f.read()
    calls = re.findall(r"\b(weft_\w+)\((?:const )?struct (\w+) \*", text)
    expect("there are calls", len(calls) > 100)
    for name, struct in calls:
        if struct not in defined:
            expect("%s(NULL) is not tested" % name, name + "(NULL" in tested)


main(globals())
