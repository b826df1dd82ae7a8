#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The house rules as tests.

    tidy.py SOURCE_DIR [BUILD_DIR]

Prints `ok tidy_RULE`, `not ok tidy_RULE: file:line why` or `skip tidy_RULE: reason`. Without BUILD_DIR the rules about compiled objects are skipped.
"""
import os
import re
import shutil
import subprocess
import sys

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5
COLUMNS_MAX = 100
CLANG_FORMAT_MAJOR = "14"  # others format a little differently

# Which rooms a room may include and need; itself and <weft/...> always.
BELOW_MEM = ["base", "wire"]
BELOW_TRANSPORT = BELOW_MEM + ["mem", "verbs"]
TRANSPORTS = ["loopback", "iwarp", "ib"]
BELOW_UPPER = BELOW_TRANSPORT + TRANSPORTS + ["cm", "fabric", "mad", "store"]
CORE_ROOMS = BELOW_UPPER + ["near", "scsi", "rio", "iscsi", "lan", "push"]
BELOW_LOOP = ["driver/sys", "driver/observe"]
CARRIERS = BELOW_LOOP + ["driver/loop", "driver/tcp", "driver/udp", "driver/near", "driver/fabric", "driver/roce"]
WORLDS = ["sim/world", "sim/loopback", "sim/iwarp", "sim/roce", "sim/rio", "sim/iscsi", "sim/card", "sim/fabric", "sim/cells"]
DIVIDED = ["driver", "sim", "compat", "cmd"]  # rooms with rooms inside
ARROWS = {
    "base": [],
    "wire": ["base"],
    "mem": BELOW_MEM,
    "verbs": BELOW_MEM + ["mem"],
    "loopback": BELOW_TRANSPORT,
    "iwarp": BELOW_TRANSPORT,
    "ib": BELOW_TRANSPORT,
    "near": BELOW_TRANSPORT + ["ib"],  # its packets
    "fabric": BELOW_MEM,
    "mad": BELOW_MEM,
    "store": BELOW_MEM,
    "scsi": BELOW_MEM + ["store"],
    "cm": BELOW_TRANSPORT + TRANSPORTS,
    "rio": BELOW_UPPER,
    "iscsi": BELOW_UPPER + ["scsi"],
    "lan": BELOW_MEM,
    "push": BELOW_MEM,
    "driver/sys": CORE_ROOMS,
    "driver/observe": CORE_ROOMS + ["driver/sys"],
    "driver/loop": CORE_ROOMS + BELOW_LOOP,
    "driver/tcp": CORE_ROOMS + BELOW_LOOP + ["driver/loop", "driver/near"],
    "driver/udp": CORE_ROOMS + BELOW_LOOP + ["driver/loop"],
    "driver/near": CORE_ROOMS + BELOW_LOOP + ["driver/loop"],
    "driver/fabric": CORE_ROOMS + BELOW_LOOP + ["driver/loop", "driver/near"],
    "driver/roce": CORE_ROOMS + BELOW_LOOP + ["driver/loop", "driver/udp", "driver/near", "driver/fabric"],
    "driver/stat": CORE_ROOMS + CARRIERS,
    "driver/calls": CORE_ROOMS + CARRIERS + ["driver/stat"],
    "driver/file": CORE_ROOMS + ["driver/sys"],
    "driver/lan": BELOW_MEM + ["lan", "driver/sys"],
    "roles": ["base", "wire", "fabric", "mad", "store", "scsi", "rio", "iscsi", "lan", "push", "driver/fabric", "driver/file", "driver/lan",
              "driver/sys"],  # and <weft/...>
    "sim/world": CORE_ROOMS,
    "sim/loopback": CORE_ROOMS + ["sim/world"],
    "sim/iwarp": CORE_ROOMS + ["sim/world"],
    "sim/roce": CORE_ROOMS + ["sim/world"],
    "sim/rio": CORE_ROOMS + ["sim/world"],
    "sim/iscsi": CORE_ROOMS + ["sim/world"],
    "sim/card": CORE_ROOMS + ["sim/world", "sim/roce"],  # its wires
    "sim/fabric": CORE_ROOMS + ["sim/world"],
    "sim/cells": CORE_ROOMS + ["sim/world", "sim/fabric"],  # its wires
    "sim": CORE_ROOMS + WORLDS,
    "compat": ["base"],
    "compat/ibverbs": ["base", "wire", "compat", "driver/sys", "driver/observe"],  # and <weft/...>
    "compat/rdmacm": ["base", "wire", "compat", "compat/ibverbs", "driver/sys"],
    "compat/sysfs": ["base", "compat/ibverbs"],
    "compat/umad": ["base", "wire", "compat/ibverbs", "driver/sys"],
    "compat/nbdkit": ["base", "roles", "driver/sys"],
    "cmd": ["base"],  # what its folders share; each of them knows this, and other folders only as said here
    "cmd/card": ["base", "wire", "rio", "lan", "driver/lan", "roles", "cmd", "cmd/roles", "cmd/stat"],
    "cmd/demo": ["base", "rio", "roles", "cmd", "cmd/roles"],
    "cmd/dump": ["base", "wire", "cmd"],
    "cmd/fabric": ["base", "wire", "fabric", "driver/sys", "roles", "cmd", "cmd/roles", "cmd/stat",
                   "cmd/topology"],
    "cmd/iscsi": ["base", "store", "scsi", "iscsi", "roles", "cmd", "cmd/roles", "cmd/stat"],
    "cmd/perf": ["cmd"],  # and <weft/...>
    "cmd/roles": ["base", "rio", "roles", "driver/sys", "cmd"],
    "cmd/run": ["base", "wire", "driver/observe", "driver/sys", "cmd", "cmd/fabric"],
    "cmd/sim": CORE_ROOMS + WORLDS + ["sim", "cmd", "cmd/topology", "cmd/trace"],
    "cmd/stat": ["cmd"],
    "cmd/topology": ["base", "wire", "fabric", "cmd"],
    "cmd/trace": CORE_ROOMS + ["driver/tcp", "cmd"],
    "examples": [],  # only what everybody may use: <weft/...>
}
# The core sees no more of the C library than this: no system call, clock, lock, or printing.
CORE_HEADERS = ("errno inttypes limits stdalign stdarg stdatomic stdbool stddef stdint stdlib "
                "stdnoreturn string isa-l/crc "
                "nettle/md5 nettle/sha1 nettle/sha2 nettle/sha3 "
                "sodium/crypto_generichash_blake2b sodium/crypto_scalarmult_curve25519 "
                "sodium/crypto_shorthash_siphash24 "
                "sodium/crypto_sign_ed25519 sodium/utils").split()
CORE_SYMBOLS = set(
    "memcpy memmove memset memcmp memchr bcmp strlen strcmp strncmp strnlen "
    "malloc calloc aligned_alloc free "
    "crc32_iscsi crc32_gzip_refl "   # ISA-L's, in base/crc.c only
    "crypto_generichash_blake2b crypto_generichash_blake2b_init "  # libsodium's, in rio/ only
    "crypto_generichash_blake2b_update crypto_generichash_blake2b_final "
    "crypto_scalarmult_curve25519 crypto_scalarmult_curve25519_base crypto_shorthash_siphashx24 "
    "crypto_sign_ed25519_seed_keypair crypto_sign_ed25519_detached "
    "nettle_md5_init nettle_md5_update nettle_md5_digest "  # Nettle's, in base/digest.c only
    "nettle_sha1_init nettle_sha1_update nettle_sha1_digest "
    "nettle_sha256_init nettle_sha256_update nettle_sha256_digest "
    "nettle_sha3_256_init nettle_sha3_256_update nettle_sha3_256_digest "
    "crypto_sign_ed25519_verify_detached sodium_memcmp sodium_memzero "
    "__cpu_model "   # the compiler's, of what the processor can, in base/vector_x86_64.c only
    "check_failed "  # the driver's: what CHECK does when it fails
    "__stack_chk_fail __stack_chk_guard _GLOBAL_OFFSET_TABLE_".split())
CORE_SYMBOL_PREFIXES = ("__aarch64_",)  # atomics by gcc's own library
CODE_DIRS = ["include", "src", "cmd", "tests", "bench", "examples"]


class Tree:
    """The sources, read once: path relative to the root -> list of lines."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        for folder, folders, names in os.walk(root):
            at = os.path.relpath(folder, root)
            hidden = [d for d in folders if d in (".git", "__pycache__", "corpus")]
            folders[:] = sorted(d for d in folders if d not in hidden)
            if at == ".":
                folders[:] = [d for d in folders if d != "build"]
            # Headers of earlier versions are kept as they were.
            if at.startswith(os.path.join("tests", "api", "old")):
                folders[:] = [d for d in folders if d != "weft"]
            # Of a worktree .git is a file.
            for name in sorted(n for n in names if n != ".git"):
                path = os.path.normpath(os.path.join(at, name))
                try:
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        self.files[path] = f.read().splitlines()
                except (UnicodeDecodeError, OSError):
                    continue  # not text

    def code(self):
        return {p: l for p, l in self.files.items()
                if p.endswith((".c", ".h")) and p.split("/")[0] in CODE_DIRS}

    def core(self):
        return {p: l for p, l in self.code().items() if room_of(p) in CORE_ROOMS}


def room_of(path):
    """src/mem/att.c -> mem; src/driver/tcp/link.c -> driver/tcp; cmd/sim/sim.c -> cmd/sim."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return included_room("/".join(parts[1:]))
    return included_room(path) if parts[0] == "cmd" else parts[0]


def included_room(name):
    """mem/att.h -> mem; driver/tcp/link.h -> driver/tcp."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in DIVIDED and len(parts) > 2 else parts[0]


def functions(lines):
    """(index of the first line of the signature, of `{`, of `}`) of each function definition."""
    opened = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            opened = i
        elif line.startswith("}") and opened is not None:
            first = opened
            while first > 0 and re.match(r"[\w\s*(),\[\].\"/-]*$", lines[first - 1]) and \
                    lines[first - 1].strip():
                first -= 1
            yield first, opened, i
            opened = None


def parameters(signature):
    """How many parameters the signature's last pair of parentheses holds."""
    depth = 0
    count = 1
    end = signature.rstrip()
    start = None
    for i in range(len(end) - 1, -1, -1):
        depth += (end[i] == ")") - (end[i] == "(")
        if depth == 0 and end[i] == "(":
            start = i
            break
    if start is None:
        return 0
    inside = end[start + 1:-1]
    if inside.strip() in ("", "void"):
        return 0
    for c in inside:
        depth += (c == "(") - (c == ")")
        count += c == "," and depth == 0
    return count


# --- rules: each yields (path, line number or 0, why) --------------------------------------------


def rule_file_length(tree):
    for path, lines in tree.code().items():
        if len(lines) > FILE_LINES_MAX:
            yield path, 0, "%d lines, %d allowed" % (len(lines), FILE_LINES_MAX)


def rule_function_length(tree):
    for path, lines in tree.code().items():
        for first, _, last in functions(lines):
            if last - first + 1 > FUNCTION_LINES_MAX:
                yield path, first + 1, "function of %d lines, %d allowed" % (
                    last - first + 1, FUNCTION_LINES_MAX)


def rule_parameters(tree):
    for path, lines in tree.code().items():
        for first, opened, _ in functions(lines):
            signature = " ".join(lines[first:opened])
            count = parameters(signature)
            # What the drop-in libraries export has the form that it has everywhere, as has what UCX calls.
            is_export = room_of(path).startswith("compat") and re.search(
                r"\b(_?(ibv|rdma|umad)_\w+|sendto|recvfrom|__recvfrom_chk)\(", signature)
            is_abi = is_export or "ucp_am_recv_param_t" in signature
            if count > PARAMETERS_MAX and not is_abi:
                yield path, first + 1, "%d parameters, %d allowed" % (count, PARAMETERS_MAX)


def rule_columns(tree):
    for path, lines in tree.code().items():
        for i, line in enumerate(lines):
            if len(line.expandtabs(8)) > COLUMNS_MAX and '"' not in line:  # texts stay whole
                yield path, i + 1, "wider than %d columns" % COLUMNS_MAX


def rule_includes(tree):
    for path, lines in tree.code().items():
        room = room_of(path)
        for i, line in enumerate(lines):
            found = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if not found:
                continue
            is_ours, name = found[1] == '"', found[2]
            target = included_room(name) if "/" in name else room
            if room == "include":
                if is_ours:
                    yield path, i + 1, "a public header includes only <weft/...> and C's own"
            elif is_ours and room in ARROWS and target != room and target not in ARROWS[room]:
                yield path, i + 1, "%s must not know %s" % (room, target)
            elif not is_ours and room in CORE_ROOMS and not name.startswith("weft/") and \
                    name.replace(".h", "") not in CORE_HEADERS:
                yield path, i + 1, "<%s> is not for the core" % name


ROOM_SHARE_MAX = 0.12
HOUSE_LINES_MIN = 10000  # a small house may have one large room


def rule_room_size(tree):
    lines = {}
    for path, text in tree.code().items():
        if path.startswith(("include/", "src/", "cmd/")):
            lines[room_of(path)] = lines.get(room_of(path), 0) + len(text)
    total = sum(lines.values())
    for room, count in sorted(lines.items()):
        if total > HOUSE_LINES_MIN and count > ROOM_SHARE_MAX * total:
            yield room, 0, "%d %% of the code, %d %% allowed: divide it" % (
                100 * count // total, 100 * ROOM_SHARE_MAX)


def rule_preprocessor(tree):
    for path, lines in tree.code().items():
        is_public = path.startswith("include/")
        if not is_public and room_of(path) not in CORE_ROOMS:
            continue
        depth_cpp = 0
        for i, line in enumerate(lines):
            if is_public and re.match(r"#ifdef __cplusplus$", line):
                depth_cpp += 1
            elif depth_cpp and re.match(r"#endif", line):
                depth_cpp -= 1
            elif re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else)\b", line):
                yield path, i + 1, "no conditional compilation here"
        if path.endswith(".h") and "#pragma once" not in lines:
            yield path, 0, "headers say #pragma once"


def rule_spdx(tree):
    for path, lines in tree.files.items():
        if not path.endswith((".c", ".h", ".py", ".sh")) and path != "dev":
            continue
        if not any("SPDX-License-Identifier: BSD-2-Clause" in line for line in lines[:2]):
            yield path, 1, "no SPDX-License-Identifier: BSD-2-Clause"


def rule_words(tree):
    for path, lines in tree.files.items():
        for i, line in enumerate(lines):
            if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", line):
                yield path, i + 1, "finish it, or leave it out"


# Packets, threads and processes have names. tests/tidy/vague_words has the count, which only falls.
VAGUE = re.compile(r"\b(who|whom)ever\b|\b(no|some|any|every)body\b|\bthat one\b", re.IGNORECASE)
GIVEN = ("docs/requirements.md", "docs/coverage.md", "tests/tidy/")  # others' words, and the rule


def rule_vague_words(tree):
    allowed = int(tree.files.get("tests/tidy/vague_words", ["0"])[0])
    found = [(path, i + 1) for path, lines in tree.files.items() if not path.startswith(GIVEN)
             for i, line in enumerate(lines) for _ in VAGUE.finditer(line)]
    if len(found) > allowed:
        path, line = found[-1]
        yield path, line, (f"{len(found)} uses of whoever, nobody, that one and the like in all, "
                           f"{allowed} allowed: name the noun")
    elif len(found) < allowed:
        yield "tests/tidy/vague_words", 1, f"lower it to {len(found)}"


def rule_walks(tree):
    """The calls that docs/architecture.md walks through are where it says."""
    for i, line in enumerate(tree.files.get("docs/architecture.md", [])):
        for name, path in re.findall(r"(\w+)\(\) +((?:\w+/)+\w+\.c)\b", line):
            code = tree.files.get("src/" + path, [])
            if not any(re.search(rf"^[^\s].*\b{name}\(", line) for line in code):
                yield "docs/architecture.md", i + 1, f"src/{path} has no {name}()"


def rule_whitespace(tree):
    for path, lines in tree.files.items():
        if path.endswith(".tsv"):
            continue
        for i, line in enumerate(lines):
            if line != line.rstrip():
                yield path, i + 1, "white space at the end"
        if lines and not lines[-1]:
            yield path, len(lines), "empty line at the end"


def rule_typedef(tree):
    for path, lines in tree.code().items():
        if room_of(path).startswith("compat"):
            continue
        for i, line in enumerate(lines):
            if re.match(r"\s*typedef\s+(struct|union|enum)\b", line):
                yield path, i + 1, "write struct, union and enum out"
            elif re.match(r"\s*typedef\b.*\b\w+_t\s*(;|\)|\[)", line):
                yield path, i + 1, "names in _t are C's"


def rule_meson(tree):
    """A .c file is listed in the meson.build of its folder or of one above it."""
    for path in tree.code():
        if not path.endswith(".c"):
            continue
        folder, rest, is_listed = path, "", False
        while "/" in folder and not is_listed:
            folder, _, name = folder.rpartition("/")
            rest = name + ("/" + rest if rest else "")
            build = "\n".join(tree.files.get(folder + "/meson.build", []))
            is_listed = "'%s'" % rest in build
        if not is_listed:
            yield path, 0, "listed in no meson.build"


# Functions of src/ that only tests call; at each declaration a comment says why. The list only shrinks.
TEST_ONLY = "tests/tidy/test_only"
PRODUCT_DIRS = ("src", "cmd", "examples", "bench")


def uncommented(lines):
    """The lines without their comments, under the same numbers."""
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), "\n".join(lines),
                  flags=re.DOTALL).split("\n")


def rule_test_only(tree):
    allowed = tree.files.get(TEST_ONLY, [])
    declared, used = {}, set()
    for path, lines in tree.code().items():
        if path.split("/")[0] not in PRODUCT_DIRS:
            continue
        for i, line in enumerate(uncommented(lines)):
            # Outside of functions, what has parentheses is declared or defined there.
            outside = re.match(r"(?!static\b|typedef\b)[a-z][\w\s*]*?\b(\w+)\(", line)
            if not outside:
                used.update(re.findall(r"\w+", line))
            elif path.startswith("src/") and path.endswith(".h"):
                declared[outside[1]] = path, i + 1
    # What the drop-in libraries export, others call.
    unused = {n for n in declared if n not in used and not n.startswith(("weftv_", "ibv_", "__"))}
    for name in sorted(unused - set(allowed)):
        yield declared[name] + (f"only tests call {name}(): let them see it from outside",)
    for i, name in enumerate(allowed):
        if name not in unused:
            yield TEST_ONLY, i + 1, f"take {name} off the list"


def rule_paths(tree):
    for path, lines in tree.files.items():
        for i, line in enumerate(lines):
            if re.search(r"(?<![\w.$}])/(home|root|work|Users)/\w", line):
                yield path, i + 1, "names a path of somebody's machine"


# --- rules about compiled objects: given what nm says about the core ----------------------------


def read_symbols(build, archive_name="libweft_core.a"):
    """(room, object, symbol, class, section) of every symbol in an archive, by default the core's."""
    archive = os.path.join(build, archive_name)
    if not os.path.exists(archive):
        raise FileNotFoundError("there is no " + archive)
    # Of objects for link-time optimisation a plug-in would show that part, without sections.
    text = subprocess.run(["nm", "--plugin=/dev/null", "-A", "-f", "sysv", archive], check=True,
                          stdout=subprocess.PIPE, universal_newlines=True).stdout
    symbols = []
    for line in text.splitlines():
        parts = [p.strip() for p in line.split("|")]
        if len(parts) != 7:
            continue
        name, _, kind = parts[0].rpartition(":")[2], parts[1], parts[2]
        at = re.search(r"src_([a-z]+)_(\w+)\.c\.o", parts[0])
        if at and at[1] in DIVIDED:
            inner, _, rest = at[2].partition("_")
            at = [None, at[1] + "/" + inner, rest]
        if at:
            symbols.append((at[1], "src/%s/%s.c" % (at[1], at[2]), name, kind, parts[6]))
    return symbols


def rule_globals(symbols):
    for _, source, name, kind, section in symbols:
        if kind in "bBdDC" and not section.startswith(".data.rel.ro"):
            yield source, 0, "%s is a variable of the whole program" % name


def definitions(symbols):
    return {name: room for room, _, name, kind, _ in symbols if kind not in "Uw" and
            (kind.isupper() or kind == "i")}


def rule_symbols(symbols):
    defined = definitions(symbols)
    for _, source, name, kind, _ in symbols:
        if kind in "Uw" and name not in defined and name not in CORE_SYMBOLS and \
                not name.startswith(CORE_SYMBOL_PREFIXES):
            yield source, 0, "the core must not need %s" % name


def rule_symbol_arrows(symbols):
    defined = definitions(symbols)
    for room, source, name, kind, _ in symbols:
        target = defined.get(name, room)
        is_free = name in CORE_SYMBOLS or (room not in CORE_ROOMS and name.startswith("weft_"))
        if kind in "Uw" and not is_free and target != room and target not in ARROWS.get(room, []):
            yield source, 0, "%s must not need %s of %s" % (room, name, target)


# --- clang-format ---------------------------------------------------------------------------------


def format_skip():
    tool = shutil.which("clang-format")
    if not tool:
        return "clang-format is not installed"
    version = subprocess.run([tool, "--version"], check=True, stdout=subprocess.PIPE,
                             universal_newlines=True).stdout
    found = re.search(r"version (\d+)", version)
    if not found or found[1] != CLANG_FORMAT_MAJOR:
        return "clang-format %s decides, here is: %s" % (CLANG_FORMAT_MAJOR, version.strip())
    return None


def rule_format(tree):
    paths = sorted(tree.code())
    if not paths:
        return
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", "--ferror-limit=1"] + paths,
                          cwd=tree.root, stderr=subprocess.PIPE, universal_newlines=True)
    for line in done.stderr.splitlines():
        found = re.match(r"(.*?):(\d+):\d+: error", line)
        if found:
            yield found[1], int(found[2]), "not as clang-format has it (./dev fmt)"


SOURCE_RULES = [rule_file_length, rule_function_length, rule_parameters, rule_columns,
                rule_includes, rule_room_size, rule_preprocessor, rule_spdx, rule_words, rule_vague_words,
                rule_walks, rule_whitespace,
                rule_typedef, rule_meson, rule_test_only, rule_paths]
SYMBOL_RULES = [rule_globals, rule_symbols, rule_symbol_arrows]


def judge(rule, subject):
    """Prints the rule's line, before it every place but the first; true if it holds."""
    name = rule.__name__.replace("rule_", "tidy_")
    found = ["%s%s %s" % (path, ":%d" % line if line else "", why)
             for path, line, why in rule(subject)]
    for place in found[1:]:
        print("%s: %s" % (name, place))
    if not found:
        print("ok " + name)
        return True
    print("not ok %s: %s%s" % (
        name, found[0], " (and %d more, above)" % (len(found) - 1) if found[1:] else ""))
    return False


def main(args):
    tree = Tree(args[0])
    good = all([judge(rule, tree) for rule in SOURCE_RULES])
    reason = format_skip()
    if reason:
        print("skip tidy_format: " + reason)
    else:
        good = judge(rule_format, tree) and good
    if len(args) > 1:
        symbols = read_symbols(args[1])
        good = all([judge(rule, symbols) for rule in SYMBOL_RULES if
                    rule is not rule_symbol_arrows]) and good
        good = judge(rule_symbol_arrows, symbols + [s for name in ("libweft_driver.a", "libweft_lan.a")
                                           for s in read_symbols(args[1], name)]) and good
    else:
        for rule in SYMBOL_RULES:
            print("skip %s: no build given" % rule.__name__.replace("rule_", "tidy_"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
