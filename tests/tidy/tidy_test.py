#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Can every rule of tidy.py fail? Each is shown a small tree that breaks it and one that does not."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

SPDX = "/* SPDX-License-Identifier: BSD-2-Clause */\n"
GOOD = {
    "src/mem/mem.h": SPDX + "#pragma once\n\n#include \"base/list.h\"\n\n#include <stdint.h>\n\n"
                     "int mem_add(int a, int (*b)(int, int), int c, int d, int e);\n",
    "src/mem/mem.c": SPDX + "#include \"mem/mem.h\"\n\n#include <weft/weft.h>\n\n"
                     "static const int three = 3;\n\n"
                     "int mem_add(int a, int (*b)(int, int), int c, int d, int e)\n{\n"
                     "\treturn b(a, three) + c + d + e;\n}\n",
    "cmd/trace/sum.c": SPDX + "#include \"mem/mem.h\"\n\nint sum(void)\n{\n"
                 "\treturn mem_add(1, NULL, 2, 3, 4);\n}\n",
    "cmd/meson.build": "# SPDX-License-Identifier: BSD-2-Clause\ncmd_src = files('trace/sum.c')\n",
    "src/mem/meson.build": "# SPDX-License-Identifier: BSD-2-Clause\nmem_src = files('mem.c')\n",
    "include/weft/weft.h": SPDX + "#pragma once\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n",
}


def long_function(lines):
    return SPDX + "\nvoid f(void)\n{\n" + "\tg();\n" * (lines - 3) + "}\n"


# rule: trees that break it, as {path: text} added to the good tree
BAD = {
    "file_length": [{"src/mem/a.c": SPDX + "\n" * 799 + "int x;\n"}],
    "function_length": [{"src/mem/a.c": long_function(71)},
                        {"tests/a_test.c": long_function(69).replace("(void)", "(int a,\n\tint b,\n\tint c)")}],
    "parameters": [{"cmd/a.c": "int f(int a, int b, int c, int d,\n      int e, int (*f)(int))\n{\n}\n"}],
    "columns": [{"cmd/a.c": "\t/* " + "x" * 90 + " */\n"}],
    "includes": [{"src/base/a.c": '#include "mem/mem.h"\n'},
                 {"src/iwarp/a.c": '#include "ib/ib.h"\n'},
                 {"src/driver/loop/a.c": '#include "sim/rio/rio_world.h"\n'},
                 {"src/driver/loop/a.c": '#include "driver/tcp/tcp.h"\n'},
                 {"src/driver/tcp/a.c": '#include "driver/roce/roce.h"\n'},
                 {"src/driver/udp/a.c": '#include "driver/calls/a.h"\n'},
                 {"src/roles/a.c": '#include "driver/tcp/tcp.h"\n'},
                 {"src/sim/iwarp/a.c": '#include "sim/rio/rio_world.h"\n'},
                 {"src/sim/world/a.c": '#include "driver/loop/net.h"\n'},
                 {"src/compat/ibverbs/a.c": '#include "compat/rdmacm/rdmacm.h"\n'},
                 {"src/compat/umad/a.c": '#include "verbs/qp.h"\n'},
                 {"src/store/a.c": '#include "mem/mem.h"\n'},
                 {"cmd/a.c": '#include "cmd/dump/packet.h"\n'},
                 {"cmd/dump/a.c": '#include "cmd/sim/story.h"\n'},
                 {"cmd/trace/a.c": '#include "cmd/sim/story.h"\n'},
                 {"cmd/roles/a.c": '#include "cmd/demo/demo_parts.h"\n'},
                 {"cmd/run/a.c": '#include "driver/tcp/tcp.h"\n'},
                 {"src/driver/stat/a.c": '#include "cmd/stat/stat_client.h"\n'},
                 {"src/verbs/a.c": "#include <stdio.h>\n"},
                 {"examples/a.c": '#include "mem/mem.h"\n'},
                 {"include/weft/a.h": '#include "mem/mem.h"\n'}],
    "room_size": [{"src/mem/%d.c" % i: SPDX + "int x;\n" * 700 for i in range(20)}],
    "preprocessor": [{"src/mem/a.c": "#ifdef DEBUG\n#endif\n"},
                     {"src/mem/a.c": "  # if 1\n#endif\n"},
                     {"src/mem/a.h": "#ifndef A_H\n#define A_H\n#endif\n"},
                     {"include/weft/a.h": "#pragma once\n#if 1\n#endif\n"},
                     {"src/mem/a.h": "int x;\n"}],
    "spdx": [{"src/mem/a.c": "int x;\n"}, {"dev": "#!/bin/sh\n\n# hello\n"}],
    "words": [{"README.md": "TO" "DO: write\n"}, {"src/mem/a.c": "/* XX" "X */\n"}],
    "vague_words": [{"src/mem/a.c": "/* No" "body has it. */\n"},
                    {"tests/tidy/vague_words": "2\n", "README.md": "who" "ever asks\n"}],
    "walks": [{"docs/architecture.md": "    mem_g()   mem/mem.c   gone\n"}],
    "whitespace": [{"README.md": "weft \n"}, {"src/mem/a.c": "int x;\n\n"}],
    "typedef": [{"src/mem/a.h": "typedef struct mem mem;\n"},
                {"src/mem/a.h": "typedef unsigned int mem_tag_t;\n"},
                {"src/mem/a.h": "typedef void (*mem_call_t)(int);\n"}],
    "meson": [{"src/mem/forgotten.c": SPDX}, {"tests/unit/mem/a_test.c": SPDX}],
    "test_only": [{"src/mem/a.h": "/* cmd_a() calls mem_g(). */\nint mem_g(void);\n"},
                  {"src/mem/a.h": "int mem_g(void);\n", "src/mem/a.c": "int mem_g(void)\n{\n}\n",
                   "tests/a_test.c": "\tmem_g();\n"},
                  {"tests/tidy/test_only": "mem_gone\n"}],
    "paths": [{"README.md": "see /ho" "me/ada/notes\n"}],
    "format": [{"src/mem/mem.c": SPDX + "int f( void ){ return 1; }\n"}],
}
HOLDS = {
    "function_length": {"src/mem/a.c": long_function(70)},
    "includes": {"src/cm/a.c": '#include "ib/ib.h"\n', "cmd/sim/a.c": '#include "sim/rio/rio_world.h"\n',
                 "cmd/sim/b.c": '#include "cmd/trace/trace_words.h"\n',
                 "cmd/dump/a.c": '#include "cmd/line.h"\n', "bench/a.c": '#include "cmd/perf/perf_run.h"\n',
                 "src/driver/sys/a.c": "#include <unistd.h>\n"},
    "meson": {"tests/meson.build": "'unit/mem/a_test.c'", "tests/unit/mem/a_test.c": SPDX},
    "paths": {".git": "gitdir: /ho" "me/ada/weft/.git/worktrees/a\n"},
    "test_only": {"tests/tidy/test_only": "mem_g\n", "src/mem/a.h": "int mem_g(void);\nint mem_h(void);\n",
                  "cmd/sim/a.c": "\tmem_h();\n"},
    "preprocessor": {"src/driver/sys/a.c": "#ifdef __linux__\n#endif\n"},
}
# rule: (room: C text) that breaks it
BAD_OBJECTS = {
    "globals": [{"mem": "int mem_count;\n"}, {"mem": "int *f(void)\n{ static int x = 3; return &x; }\n"}],
    "symbols": [{"mem": "int puts(const char *);\nvoid f(void)\n{ puts(\"x\"); }\n"},
                {"mem": "void abort(void);\nvoid f(void)\n{ abort(); }\n"}],
    "symbol_arrows": [{"base": "void mem_f(void);\nvoid base_f(void)\n{ mem_f(); }\n",
                       "mem": "void mem_f(void)\n{ }\n"},
                      {"driver_loop": "void tcp_f(void);\nvoid loop_f(void)\n{ tcp_f(); }\n",
                       "driver_tcp": "void tcp_f(void)\n{ }\n"}],
}
GOOD_OBJECTS = {
    "base": "void check_failed(void);\nvoid base_f(void)\n{ check_failed(); }\n",
    "mem": "void base_f(void);\nvoid mem_f(void)\n{ base_f(); }\n"
           "void *const mem_table[] = { (void *)base_f };\n",
}


def plant(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def source_findings(rule, extra):
    with tempfile.TemporaryDirectory() as root:
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "../../.clang-format"), encoding="utf-8") as f:
            plant(root, dict(GOOD, **{".clang-format": f.read()}))
        plant(root, extra)
        return list(getattr(tidy, "rule_" + rule)(tidy.Tree(root)))


def object_findings(rule, rooms):
    with tempfile.TemporaryDirectory() as root:
        objects = []
        for room, text in rooms.items():
            plant(root, {room + ".c": text})
            objects.append(os.path.join(root, "src_%s_a.c.o" % room))
            subprocess.run(["gcc", "-O0", "-fPIC", "-c", "-o", objects[-1],
                            os.path.join(root, room + ".c")], check=True)
        subprocess.run(["ar", "rcs", os.path.join(root, "libweft_core.a")] + objects, check=True)
        return list(getattr(tidy, "rule_" + rule)(tidy.read_symbols(root)))


def judge(rule, bad, good, findings):
    """bad: list of breaking inputs, good: list of inputs in which the rule holds."""
    name = "test_tidy_can_fail_" + rule
    for given in good:
        found = findings(rule, given)
        if found:
            print("not ok %s: wrongly found %s" % (name, found))
            return False
    for given in bad:
        if not findings(rule, given):
            print("not ok %s: missed %r" % (name, given))
            return False
    print("ok " + name)
    return True


def main():
    good = True
    for rule in [r.__name__.replace("rule_", "") for r in tidy.SOURCE_RULES + [tidy.rule_format]]:
        if rule == "format" and tidy.format_skip():
            print("skip test_tidy_can_fail_format: " + tidy.format_skip())
            continue
        good &= judge(rule, BAD[rule], [{}, HOLDS.get(rule, {})], source_findings)
    for rule in [r.__name__.replace("rule_", "") for r in tidy.SYMBOL_RULES]:
        good &= judge(rule, BAD_OBJECTS[rule], [GOOD_OBJECTS], object_findings)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
