#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""soak.py WEFT [MIB]: a large file through a split card, over both wires; its digest must be right.

Prints `ok NAME` or `not ok NAME: why`. ./dev test moves 1 GiB, ./dev soak card as much as it is told.
"""
import hashlib
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../dropin"))
from card import SERVER, Card, HttpServer, made_file  # noqa: E402
from script import expect, expect_equal, main, need  # noqa: E402

MIB = int(sys.argv[2]) if len(sys.argv) > 2 else 1024


def soak(folder, wire):
    need("curl")
    path, digest = made_file(folder, MIB)
    with Card(folder, wire=wire).start() as card, HttpServer(card, path):
        words = card.host_spaces[0].enter("curl", "-sS", "http://%s:8080/page" % SERVER)
        with subprocess.Popen(words, stdout=subprocess.PIPE) as curl:
            got = hashlib.sha256()
            for piece in iter(lambda: curl.stdout.read(1 << 20), b""):
                got.update(piece)
        expect_equal("curl", curl.returncode, 0)
        expect_equal("the file's digest", got.hexdigest(), digest)
        link = card.hosts[0].link()
        expect("by the card: %r" % link, link["bytes_in"] > MIB << 20 and link["refused"] == 0)


def test_a_large_file_over_roce(folder):
    soak(folder, "roce")


def test_a_large_file_over_iwarp(folder):
    soak(folder, "iwarp")


main(globals())
