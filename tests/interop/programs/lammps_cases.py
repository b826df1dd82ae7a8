# SPDX-License-Identifier: BSD-2-Clause
"""LAMMPS (package lammps), a program of MPI that people compute with: 4 ranks over weft's device and over
shared memory have the same result, to the last digit that it prints.
"""
import os
import re
import shutil

import ucx_cases
from runner import Case, Side

RANKS = 4
STEPS = 200
# 4,000 atoms of argon melt: forces between neighbours, atoms that move from rank to rank, sums of all.
INPUT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 1 delay 0 check yes
fix 1 all nve
thermo_style custom step temp pe ke etotal press
thermo_modify format float %%.15g
thermo 20
run %d
""" % STEPS

MPIRUN = ("mpirun -np %d --allow-run-as-root --oversubscribe %s --mca orte_tmpdir_base DIR "
          "lmp -in DIR/melt -log DIR/%s.log -screen none")
SHARED = MPIRUN % (RANKS, "--mca pml ob1 --mca btl vader,self", "shared")
RDMA = MPIRUN % (RANKS, "--mca pml ucx --mca osc ucx --mca btl self", "rdma")


def lack():
    return None if shutil.which("lmp") else "lmp is not installed"


def prepare(folder):
    with open(os.path.join(folder, "melt"), "w", encoding="ascii") as f:
        f.write(INPUT)


def rows(folder, name):
    """The table that it prints, and how many ranks took part."""
    with open(os.path.join(folder, name + ".log"), encoding="utf-8") as f:
        text = f.read()
    ranks = re.search(r"Loop time of \S+ on (\d+) procs", text)
    return re.findall(r"^ *\d+(?: +-?\d\S*){5} *$", text, re.MULTILINE), ranks and int(ranks[1])


def check(folder):
    shared, rdma = rows(folder, "shared"), rows(folder, "rdma")
    if len(shared[0]) != STEPS // 20 + 1 or shared[1] != RANKS:
        return "over shared memory there are %d rows of %s ranks" % (len(shared[0]), shared[1])
    if shared == rdma:
        return None
    return "the results differ: %s; over shared memory %s" % (rdma[0][-1:], shared[0][-1:])


def lammps(transport):
    env = dict(ucx_cases.env_of(transport), UCX_LOG_LEVEL="info")
    goes_by = ucx_cases.GOES_BY % ("tag", transport.replace("_v", "_verbs"))
    return Case("lammps_" + transport,
                steps=[Side(SHARED, [], ucx_cases.NOT), Side(RDMA, [goes_by], ucx_cases.NOT, env=env)],
                network=True, seconds=120, needs=lack, prepare=prepare, check=check)


CASES = [lammps("rc_v"), lammps("ud_v")]
