# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts here share: what the public headers declare."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                                "dropin"))
# Of libibverbs, whose types it needs; the others are libweft's.
DIRECT_VERBS = "weft_dv.h"


def headers(include):
    """The names of the public headers under an include directory."""
    return sorted(n for n in os.listdir(os.path.join(include, "weft")) if n.endswith(".h"))


def header_text(include, name):
    """A header without comments and preprocessor lines."""
    with open(os.path.join(include, "weft", name)) as f:
        text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    return "\n".join(line for line in text.split("\n") if not line.startswith("#"))


def functions(include, names):
    """The functions that these headers declare and do not define."""
    found = set()
    for name in names:
        text = header_text(include, name)
        found |= set(re.findall(r"\b(weft(?:dv)?_\w+)\([^()]*(?:\([^()]*\)[^()]*)*\);", text))
    return found


def structs(include, name):
    """[(struct, [its fields])] in the order of the header."""
    found = []
    for struct, body in re.findall(r"\bstruct (\w+) \{\n(.*?)\n\};", header_text(include, name),
                                   re.S):
        fields = []
        for declaration in body.split(";"):
            callback = re.search(r"\(\*(\w+)\)", declaration)
            if callback:
                fields.append(callback.group(1))
            elif declaration.strip():
                for part in declaration.split(","):
                    fields.append(re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)?$", part).group(1))
        found.append((struct, fields))
    return found


def enumerators(include, name):
    """The names of all constants of a header's enums."""
    found = []
    for body in re.findall(r"\benum(?: \w+)? \{(.*?)\};", header_text(include, name), re.S):
        found += re.findall(r"\b(WEFT_\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip() + ",")
    return found
