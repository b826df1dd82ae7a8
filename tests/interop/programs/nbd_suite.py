#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Block clients of others on a directed device, by way of nbdkit.

    nbd_suite.py [--asan | --tsan] BUILD [NAME...]

BUILD has weft and nbdkit-weft-plugin.so. Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`
for each case whose name contains one of the NAMEs. (The nbd client of the Linux kernel is not here:
it needs root and a module.)
"""
import argparse
import os
import shutil
import sys

import nbd_cases
import nbd_fault_cases
import sanitizers
from nbd_cluster import Cluster, Failure, Tools

CASES = nbd_cases.CASES + nbd_fault_cases.CASES


def why_skip(tools, case):
    if not os.path.exists(tools.plugin):
        return "weft was built without nbdkit (nbdkit-plugin-dev)"
    for program in ["nbdkit"] + case.needs.split():
        if not shutil.which(program):
            return "%s is not installed" % program
    return None


def run(tools, case):
    """True: it passed or was skipped. Prints the line for it."""
    name, why = "nbd_" + case.name, why_skip(tools, case)
    if why:
        print("skip %s: %s" % (name, why), flush=True)
        return True
    cluster = Cluster(tools, case.device, **case.more)
    try:
        case.run(cluster)
        cluster.check_kit()
        print("ok " + name, flush=True)
        return True
    except Failure as e:
        cluster.show()
        print("not ok %s: %s" % (name, e), flush=True)
        return False
    finally:
        cluster.end()
        cluster.remove()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    sanitizers.add_options(parser)
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    tools = Tools(os.path.join(o.build, "weft"), os.path.join(o.build, "nbdkit-weft-plugin.so"),
                  o.sanitizer and o.sanitizer(o.build), sanitizers.PATIENCE if o.sanitizer else 1)
    chosen = [c for c in CASES if not o.names or any(n in "nbd_" + c.name for n in o.names)]
    return 0 if all([run(tools, case) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
