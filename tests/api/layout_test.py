#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""layout_test.py SOURCE_DIR: what earlier headers promised still holds.

tests/api/old/VERSION/weft/ has the headers of a version. Sizes of structs, offsets and sizes of
their fields, and values of constants are the same today; a field may become of what was reserved.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import shutil
import sys

from api import enumerators, functions, headers, structs

from script import compile_c, expect, expect_equal, main, need, run

SOURCE = os.path.realpath(sys.argv[1])
INCLUDE = os.path.join(SOURCE, "include")
OLD = os.path.join(SOURCE, "tests/api/old")
# How many there are: more in a later version.
GROWS = re.compile(r"_COUNT$")


def versions():
    return sorted(os.listdir(OLD))


def lines_of(include):
    """A program's statements that print all that an include directory promises."""
    lines = []
    for name in headers(include):
        for struct, fields in structs(include, name):
            lines.append('printf("%s %%zu\\n", sizeof(struct %s));' % (struct, struct))
            for field in fields:
                if field != "reserved":
                    lines.append('printf("%s.%s %%zu %%zu\\n", offsetof(struct %s, %s), '
                                 'sizeof(((struct %s *)0)->%s));'
                                 % (struct, field, struct, field, struct, field))
        for constant in enumerators(include, name):
            if not GROWS.search(constant):
                lines.append('printf("%s %%lld\\n", (long long)%s);' % (constant, constant))
    return lines


def layout(folder, statements, include, names):
    """{what: its numbers}, as the compiler sees them with these headers."""
    text = ["#include <stddef.h>", "#include <stdio.h>"]
    text += ["#include <weft/%s>" % name for name in names]
    text += ["int main(void)", "{"] + statements + ["return 0;", "}", ""]
    program = compile_c(os.path.join(folder, "layout"), "\n".join(text), "-I", include)
    return dict(line.split(" ", 1) for line in run(program).stdout.splitlines())


def expect_kept(folder, include):
    need("gcc")
    for version in versions():
        old = os.path.join(OLD, version)
        statements, names = lines_of(old), headers(old)
        was = layout(folder, statements, old, names)
        now = layout(folder, statements, include, names)
        expect("%s promises something" % version, len(was) > 600)
        changed = sorted(k for k in was if was[k] != now.get(k))
        expect_equal("changed since %s" % version, changed, [])


def test_api_layout_of_earlier_versions_is_kept(folder):
    expect_kept(folder, INCLUDE)


def test_api_calls_of_earlier_versions_are_declared(_):
    today = functions(INCLUDE, headers(INCLUDE))
    for version in versions():
        old = os.path.join(OLD, version)
        expect_equal("gone since %s" % version, functions(old, headers(old)) - today, set())


def changed_headers(folder, name, before, after):
    include = os.path.join(folder, "include")
    shutil.copytree(INCLUDE, include)
    path = os.path.join(include, "weft", name)
    with open(path) as f:
        text = f.read()
    expect("%s is in %s" % (before, name), before in text)
    with open(path, "w") as f:
        f.write(text.replace(before, after, 1))
    return include


def expect_noticed(folder, name, before, after, what):
    try:
        expect_kept(folder, changed_headers(folder, name, before, after))
    except AssertionError as why:
        expect("%s in: %s" % (what, why), what in str(why))
        return
    raise AssertionError("it was not seen that %s has changed" % what)


def test_api_layout_notices_a_field_in_the_middle(folder):
    expect_noticed(folder, "weft.h", "struct weft_cq_options {\n",
                   "struct weft_cq_options {\n\tuint64_t more;\n", "weft_cq_options.entries_max")


def test_api_layout_notices_a_struct_that_grows(folder):
    expect_noticed(folder, "space.h", "reserved[3]", "reserved[4]", "weft_space_options")


def test_api_layout_notices_a_reason_in_the_middle(folder):
    expect_noticed(folder, "reason.h", "\tWEFT_R_BUSY,\n", "\tWEFT_R_MORE,\n\tWEFT_R_BUSY,\n",
                   "WEFT_R_SYSTEM")


def test_api_layout_lets_a_field_take_reserved_space(folder):
    include = changed_headers(folder, "space.h", "\tuint64_t reserved[3];",
                              "\tuint32_t more;\n\tuint32_t yet_more;\n\tuint64_t reserved[2];")
    expect_kept(folder, include)


main(globals())
