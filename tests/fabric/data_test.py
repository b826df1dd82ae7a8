#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""data_test.py WEFT: programs that move data across a fabric that runs, and its bad days.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import signal
import subprocess
import sys

sys.path[:0] = [os.path.dirname(os.path.realpath(__file__))]
from live import (Fabric, HOSTS, PATIENCE_S, WEFT, expect, expect_equal, meet, need, up, wait_until)  # noqa: E402
from script import main, write  # noqa: E402

# Nodes of TRIANGLE by their numbers in it: port 1 of H3 is this address.
H3_IP = "127.1.0.2"


def sent(fabric, node, switch, port):
    """Words that have left a port."""
    said = fabric.run(node, "perfquery", "-x", str(switch), str(port))
    return int(re.search(r"PortXmitData:\.+(\d+)", said)[1])


def lid_of(fabric, node, name):
    return int(re.search(r'"%s".* lid (\d+) ' % name, fabric.run(node, "ibnetdiscover"))[1])


def test_fab_23_programs_by_lid_by_gid_and_by_address(folder):
    need("ib_write_bw", "ib_send_lat", "ibv_ud_pingpong")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        for words in ("ibv_ud_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"):
            meet(fabric, "H3", "H2", words, "-n", "20")
        meet(fabric, "H3", "H2", "ib_write_bw", "-n", "20", "-x", "0")
        meet(fabric, "H3", "H2", "ib_send_bw", "-n", "20", "-c", "UD")
        meet(fabric, "H3", "H2", "ib_read_lat", "-n", "20")
        meet(fabric, "H3", "H2", "ib_send_lat", "-n", "20", "-R", to_host=H3_IP)


def test_fab_20_a_run_goes_on_by_another_way(folder):
    need("ib_write_bw")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        first = lid_of(fabric, "H1", "S1")
        fabric.weft("degrade", "S1:3", "200")  # so that it is not done before
        words = ["ib_write_bw", "-n", "400", "-u", "18", "-p", str(20000 + os.getpid() % 20000)]
        server = fabric.start("H3", *words)
        clients = []

        def is_moving():
            if not clients or clients[-1].process.poll() is not None:
                clients.append(fabric.start("H2", *words, "localhost"))
            return sent(fabric, "H1", first, 3) > 200000

        wait_until(lambda: clients[-1].said(), is_moving)
        fabric.weft("cut", "S1:3")
        clients[-1].succeeds()
        server.succeeds()
        expect("the other way", sent(fabric, "H1", first, 4) > 200000)
        way = fabric.run("H2", "ibtracert", str(fabric.lid("H2")), str(fabric.lid("H3")))
        expect(way, '"S3"' in way)


def test_fab_13_a_program_that_is_killed_disturbs_no_other(folder):
    need("ib_write_bw")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        port = 20000 + os.getpid() % 20000
        words = ["ib_write_bw", "--run_infinitely", "-D", "1", "-p", str(port)]
        bad = [fabric.start("H3", *words)]

        def is_moving():
            if len(bad) == 1 or bad[-1].process.poll() is not None:
                bad.append(fabric.start("H2", *words, "localhost"))
            return sent(fabric, "H1", fabric.lid("H3"), 1) > 100000

        wait_until(lambda: bad[-1].said(), is_moving)
        meet(fabric, "H5", "H4", "ib_write_bw", "-n", "200", port=port + 1)
        bad[0].kill()
        meet(fabric, "H5", "H4", "ib_write_bw", "-n", "200", port=port + 2)
        bad[-1].kill()
        wait_until("adapters are gone", lambda: "\n0 adapters: " in fabric.weft("top", "--once"))
        meet(fabric, "H3", "H2", "ib_write_bw", "-n", "200", port=port + 3)


def test_fab_13_a_program_that_is_stopped_disturbs_no_other(folder):
    need("ib_write_bw", "ib_send_bw")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        port = 20000 + os.getpid() % 20000
        words = ["ib_send_bw", "-c", "UD", "--run_infinitely", "-D", "1", "-p", str(port)]
        still = fabric.start("H3", *words)
        clients = []

        def is_moving():
            if not clients or clients[-1].process.poll() is not None:
                clients.append(fabric.start("H2", *words, "localhost"))
            return sent(fabric, "H1", fabric.lid("H2"), 1) > 100000

        wait_until(lambda: clients[-1].said(), is_moving)
        still.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: fabric.weft("top", "--once"),
                   lambda: " 0 not taken," not in fabric.weft("top", "--once"))
        meet(fabric, "H3", "H1", "ib_write_bw", "-n", "200", port=port + 1)
        meet(fabric, "H4", "H2", "ib_write_bw", "-n", "200", port=port + 2)
        said = fabric.run("H3", "perfquery")
        expect(said, not re.search(r"PortRcvErrors:\.+0\n", said))
        said = fabric.run("H4", "perfquery")
        expect(said, re.search(r"PortRcvErrors:\.+0\n", said))
        still.process.send_signal(signal.SIGCONT)
        clients[-1].kill()
        still.kill()
        meet(fabric, "H3", "H2", "ib_write_bw", "-n", "200", port=port + 3)


def test_fab_20_a_switch_dies_and_comes_back(folder):
    need("ibv_rc_pingpong")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        fabric.weft("cut", "S2")
        wait_until("H3 is gone", lambda: "State: Down" in fabric.state("H3"))
        wait_until("S2 is gone", lambda: '"S2"' not in fabric.run("H2", "ibnetdiscover"))
        meet(fabric, "H5", "H2", "ibv_rc_pingpong", "-n", "20")
        fabric.weft("mend", "S2")
        fabric.await_active(*HOSTS)
        meet(fabric, "H3", "H2", "ibv_rc_pingpong", "-n", "20")


def test_fab_23_ucx_by_reliable_connections_and_by_datagrams(folder):
    need("ucx_perftest")
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        for transport in "rc_v", "ud_v":
            said = meet(fabric, "H3", "H2", "ucx_perftest", "-t", "tag_bw", "-n", "20", "-s", "65536",
                        UCX_TLS=transport + ",self", UCX_NET_DEVICES="fab0:1")
            expect(said, "Final:" in said)


MPI = """
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, sum, all[8];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < 20; i++) {
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%d ranks, sum %d, last %d\\n", size, sum, all[size - 1]);
	MPI_Finalize();
	return 0;
}
"""


def test_fab_22d_open_mpi_on_four_nodes(folder):
    need("mpirun", "mpicc")
    with open(os.path.join(folder, "ranks.c"), "w", encoding="utf-8") as f:
        f.write(MPI)
    program, rank = os.path.join(folder, "ranks"), os.path.join(folder, "rank.sh")
    built = subprocess.run(["mpicc", "-o", program, program + ".c"], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    expect_equal(built.stdout, built.returncode, 0)
    write(rank, "exec %s run --node H$((OMPI_COMM_WORLD_RANK + 2)) %s\n" % (WEFT, program))
    with Fabric(folder) as fabric:
        up(fabric)
        fabric.await_active(*HOSTS)
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", "--mca", "pml", "ucx",
                               "--mca", "osc", "ucx", "--mca", "btl", "^openib,vader,tcp", "sh", rank],
                              env=fabric.env(UCX_TLS="rc_v,self", UCX_NET_DEVICES="fab0:1"), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)
        expect(done.stdout, done.returncode == 0 and "4 ranks, sum 6, last 3\n" in done.stdout)


main(globals())
