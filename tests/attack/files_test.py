#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""files_test.py SAMPLE: another user lays a trap where a program is to write its capture or trace.

SAMPLE (spec/seeing_sample.c) is the victim. It must not touch what the trap leads to, must not wait, and
must name the file and what is wrong with it; its own work goes on.
"""
import os
import sys

from attack import NOBODY, expect, expect_equal, main, need_users, place_for_all, run, write

SAMPLE = os.path.realpath(sys.argv[1])
PRECIOUS = "precious\n"
VARIABLES = ("WEFT_PCAP", "WEFT_TRACE")


def writes_to(path, why):
    """The victim is told to write there: it refuses with this reason, and does its work."""
    for variable in VARIABLES:
        done = run(SAMPLE, "story", **{variable: path})
        expect_equal("status of %s: %s" % (variable, done.stderr), done.returncode, 0)
        expect("%s: the file and %r: %s" % (variable, why, done.stderr),
               "%s=%s: " % (variable, path) in done.stderr and why in done.stderr)


def precious(folder):
    return write(os.path.join(folder, "precious"), PRECIOUS, 0o600)


def expect_untouched(path):
    with open(path) as f:
        expect_equal("what the file holds", f.read(), PRECIOUS)


def test_a_symbolic_link_to_a_file_of_ones_own_is_not_followed(folder):
    """Its target would be emptied: any user can lay such a link in /tmp."""
    target = precious(folder)
    link = os.path.join(folder, "out")
    os.symlink(target, link)
    writes_to(link, "symbolic link")
    expect_untouched(target)


def test_a_symbolic_link_to_no_file_makes_none(folder):
    link, target = os.path.join(folder, "out"), os.path.join(folder, "made")
    os.symlink(target, link)
    writes_to(link, "symbolic link")
    expect("no file was made", not os.path.exists(target))


def test_a_hard_link_to_a_file_of_ones_own_is_not_emptied(folder):
    target, link = precious(folder), os.path.join(folder, "out")
    os.link(target, link)
    writes_to(link, "another name")
    expect_untouched(target)


def test_a_fifo_without_a_reader_keeps_nobody_waiting(folder):
    fifo = os.path.join(folder, "out")
    os.mkfifo(fifo)
    writes_to(fifo, "no process reads")


def test_a_fifo_of_another_user_gets_nothing(folder):
    """Its reader would see all that the program does."""
    need_users()
    fifo = os.path.join(place_for_all(folder), "out")
    os.mkfifo(fifo)
    os.chown(fifo, NOBODY, NOBODY)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writes_to(fifo, "another user")
        expect_equal("bytes that the reader got", os.read(reader, 65536), b"")
    finally:
        os.close(reader)


def test_a_file_of_another_user_gets_nothing(folder):
    """Root may write to all files; what it writes there would be the other user's to read."""
    need_users()
    path = write(os.path.join(place_for_all(folder), "out"), PRECIOUS, 0o644)
    os.chown(path, NOBODY, NOBODY)
    writes_to(path, "another user")
    expect_untouched(path)


def test_a_file_that_others_may_read_or_write_gets_nothing(folder):
    for mode in (0o604, 0o640, 0o602, 0o620):
        path = write(os.path.join(folder, "out%o" % mode), PRECIOUS, mode)
        writes_to(path, "other users")
        expect_untouched(path)


def test_a_directory_is_refused(folder):
    writes_to(folder, "irectory")


def test_what_the_user_opened_or_owns_is_written(folder):
    """No attack: a descriptor that the user handed over, a file of one's own, /dev/null."""
    own = write(os.path.join(folder, "own"), PRECIOUS, 0o600)
    by_shell = os.path.join(folder, "shell")
    for variable in VARIABLES:
        for path in (own, "/dev/null", "/dev/stdout", "/dev/fd/2"):
            done = run("sh", "-c", '%s=%s "$0" story > %s 2>&1' % (variable, path, by_shell), SAMPLE)
            expect_equal("status of %s=%s" % (variable, path), done.returncode, 0)
            with open(by_shell, errors="replace") as f:
                said = f.read()
            expect("no complaint of %s=%s: %s" % (variable, path, said), variable + "=" not in said)
            if path.startswith("/dev/std") or path.startswith("/dev/fd"):
                expect("what was seen is there", os.path.getsize(by_shell) > 100)
        expect("the file was written anew", os.path.getsize(own) > len(PRECIOUS))
        with open(own, "rb") as f:
            expect("nothing old is left", PRECIOUS.encode() not in f.read())


main(globals())
