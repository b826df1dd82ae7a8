#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the private version node of the libibverbs that is installed here.

Provider libraries (libmlx5, libefa) import symbols of a node that changes with every release of
rdma-core. Programs linked to them load only if ours has the same node with the same names.

usage: private_node.py LIBIBVERBS PUBLIC_MAP OUT_MAP OUT_C
"""
import re
import subprocess
import sys

# Written by hand in provider.c.
OURS = {"__verbs_log", "ibv_query_gid_type", "verbs_allow_disassociate_destroy"}
# Names that <infiniband/verbs.h> declares where the library has them: defined as it declares them, by
# a function of ours.
PUBLIC = {
    "ibv_wr_opcode_str": ("const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)",
                          "weftv_wr_opcode_str(opcode)"),
}
# Those that return an object: nothing, with errno.
OBJECTS = re.compile(r"^(_?verbs_(init_and_alloc_context|open_device)|ibv_cmd_.*_by_handle$)")


def private_symbols(library):
    """(node, names) of the library's private node."""
    text = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True,
                          stdout=subprocess.PIPE, universal_newlines=True).stdout
    found = re.findall(r"(\w+)@@?(IBVERBS_PRIVATE_\d+)\s", text)
    nodes = {node for _, node in found}
    if len(nodes) != 1:
        sys.exit("%s has %d private nodes, not 1" % (library, len(nodes)))
    return nodes.pop(), sorted({name for name, node in found if name != node})


def main(library, public_map, out_map, out_c):
    node, names = private_symbols(library)
    register = "verbs_register_driver_" + node.rpartition("_")[2]
    with open(public_map) as f:
        public = f.read()
    with open(out_map, "w") as f:
        f.write(public)
        f.write("\n%s {\n\tglobal:\n%s};\n" % (node, "".join("\t\t%s;\n" % n for n in names)))
    with open(out_c, "w") as f:
        f.write("/* Generated from %s: names that must be there; most do nothing. */\n" % node)
        f.write("#include <errno.h>\n#include <stddef.h>\n\n")
        f.write('#include "compat/ibverbs/provider.h"\n\n')
        for name in names:
            if name in OURS:
                continue
            if name == register:
                f.write("void %s(const void *ops);\nvoid %s(const void *ops)\n{\n"
                        "\tweftv_register_driver(ops);\n}\n\n" % (name, name))
            elif name in PUBLIC:
                f.write("%s\n{\n\treturn %s;\n}\n\n" % PUBLIC[name])
            elif OBJECTS.match(name):
                f.write("void *%s(void);\nvoid *%s(void)\n{\n\terrno = EOPNOTSUPP;\n"
                        "\treturn NULL;\n}\n\n" % (name, name))
            else:
                f.write("int %s(void);\nint %s(void)\n{\n\treturn EOPNOTSUPP;\n}\n\n"
                        % (name, name))


main(*sys.argv[1:])
