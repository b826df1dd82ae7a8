#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs on the drop-in libraries.

    programs.py [--asan | --tsan] [--keep] LIBRARIES [NAME...]

LIBRARIES is the folder that holds libibverbs.so.1 and librdmacm.so.1. Prints `ok NAME`,
`not ok NAME: why` or `skip NAME: reason` for each case whose name contains one of the NAMEs. --asan
says that they were built with gcc's address sanitizer (./dev build gcc-san), --tsan with clang's
thread sanitizer (./dev build tsan); --keep leaves the outputs.
"""
import argparse
import dataclasses
import sys

import cm_cases
import fault_cases
import fio_cases
import iser_cases
import lammps_cases
import libfabric_cases
import perftest_cases
import policy_cases
import qemu_cases
import roce_cases
import roce_cm_cases
import roce_fault_cases
import sanitizers
import serve_cases
import ucx_cases
import verbs_cases
from runner import Runner

# Where RoCE's devices are too, librdmacm takes those.
IWARP = [dataclasses.replace(case, devices="iw_*") for case in
         fio_cases.CASES + iser_cases.CASES + cm_cases.CASES + perftest_cases.CASES +
         fault_cases.CASES]
ROCE = [dataclasses.replace(case, name="roce_" + case.name, devices="roce_*", network=True)
        for case in fio_cases.CASES + iser_cases.CASES]
# What shared memory carries between programs of a host, UDP carries between hosts.
UDP_TOO = ["rc_pingpong", "rc_pingpong_events", "uc_pingpong", "srq_pingpong", "xsrq_pingpong",
           "ib_send_bw_all_sizes", "ib_write_bw_large", "ib_read_bw_large",
           "ib_write_bw_queue_pairs", "ib_send_bw_uc", "ib_write_lat_eight_bytes",
           "ib_send_lat_events", "ib_send_bw_xrc", "ib_atomic_bw_fetch_and_add"]
UDP = [dataclasses.replace(case, name="udp_" + case.name, is_near=False)
       for case in roce_cases.CASES if case.name.removeprefix("roce_") in UDP_TOO]
assert len(UDP) == len(UDP_TOO)
CASES = (verbs_cases.CASES + IWARP + ROCE + UDP + libfabric_cases.CASES + roce_cases.CASES +
         roce_cm_cases.CASES + roce_fault_cases.CASES + ucx_cases.CASES + lammps_cases.CASES +
         policy_cases.CASES + serve_cases.CASES + qemu_cases.CASES)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    sanitizers.add_options(parser)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("libraries")
    parser.add_argument("names", nargs="*")
    o = parser.parse_args()
    runner = Runner(o.libraries, o.sanitizer, o.keep)
    chosen = [c for c in CASES if not o.names or any(n in c.name for n in o.names)]
    return 0 if all([runner.run(case) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
