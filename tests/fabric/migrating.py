# SPDX-License-Identifier: BSD-2-Clause
"""Two queue pairs of libibverbs with an alternate path: tests/fabric/migrate_sample.c on two nodes."""
import os
import subprocess

from live import PATIENCE_S, expect, expect_equal


class Sample:
    """On a node: a queue pair that obeys."""

    def __init__(self, weft, node, env):
        program = os.path.join(os.path.dirname(weft), "tests", "migrate_sample")
        self.process = subprocess.Popen([weft, "run", "--node", node, "--", program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()

    def heard(self):
        return self.process.stdout.readline().strip()

    def tell(self, *words):
        self.ask(*words)
        return self.heard()

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


def pair(weft, env, lids, bits=(1, 1)):
    """
    Connected by these path bits, with the others as alternate path. lids: {node: its base LID}, bits: those of the two
    nodes.
    """
    samples = [Sample(weft, node, env) for node in lids]
    words = [sample.tell("qp").split() for sample in samples]
    ends = list(zip(words, lids.values(), bits))
    for sample, (_, _, own), (other, lid, its) in zip(samples, ends, reversed(ends)):
        expect_equal("connect", sample.tell("connect", other[0], lid + its, own), "Success")
        expect_equal("alternate", sample.tell("alternate", lid + 1 - its, 1 - own), "Success")
    return samples, words


def arm(samples, words):
    for sample in samples:
        expect_equal("REARM", sample.tell("state REARM"), "Success")
    # What each sends tells the other.
    for sample, other in zip(samples, reversed(words)):
        expect_equal("write", sample.tell("write", other[1], other[2], 1), "success")
    expect("armed", all(sample.tell("path").startswith("ARMED ") for sample in samples))
