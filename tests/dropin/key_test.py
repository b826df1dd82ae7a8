#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""key_test.py WEFT: weft key as a person meets it.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import resource
import signal
import stat
import subprocess
import sys

from script import expect, expect_equal, main, run

WEFT = os.path.realpath(sys.argv[1])
KEY = re.compile(r"[0-9a-f]{64}\n")


def read(path):
    with open(path) as f:
        return f.read()


def test_key_new_makes_a_file_and_shows_the_public_key(folder):
    path = os.path.join(folder, "a.key")
    made = run(WEFT, "key", "new", path)
    expect_equal("status: " + made.stderr, made.returncode, 0)
    expect("a key: " + made.stdout, KEY.fullmatch(made.stdout))
    expect_equal("mode", stat.S_IMODE(os.stat(path).st_mode), 0o600)
    shown = run(WEFT, "key", "show", path)
    expect_equal("status: " + shown.stderr, shown.returncode, 0)
    expect_equal("the same key", shown.stdout, made.stdout)
    first, secret = read(path).splitlines()
    expect_equal("the file says what it is", first, "weft secret key 1")
    for said in (made, shown):
        expect("no secret on the screen", secret not in said.stdout + said.stderr)
    other = run(WEFT, "key", "new", os.path.join(folder, "b.key"))
    expect("another one", KEY.fullmatch(other.stdout) and other.stdout != made.stdout)


def test_key_new_overwrites_nothing(folder):
    path = os.path.join(folder, "a.key")
    run(WEFT, "key", "new", path)
    before = read(path)
    again = run(WEFT, "key", "new", path)
    expect_equal("status", again.returncode, 1)
    expect_equal("no key", again.stdout, "")
    expect("it says so: " + again.stderr, "is not overwritten" in again.stderr)
    expect_equal("the file", read(path), before)


def test_key_new_that_fails_leaves_no_file(folder):
    def narrow():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))

    path = os.path.join(folder, "a.key")
    done = subprocess.run([WEFT, "key", "new", path], preexec_fn=narrow, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    expect_equal("status", done.returncode, 1)
    expect_equal("no key", done.stdout, "")
    expect("it says so: " + done.stderr, "cannot be written" in done.stderr)
    expect("no file", not os.path.exists(path))
    done = run(WEFT, "key", "new", os.path.join(folder, "nowhere", "a.key"))
    expect_equal("status", done.returncode, 1)
    expect("it says so: " + done.stderr, "cannot be made" in done.stderr)


def test_key_show_refuses_open_and_broken_files(folder):
    path = os.path.join(folder, "a.key")
    run(WEFT, "key", "new", path)
    os.chmod(path, 0o640)
    done = run(WEFT, "key", "show", path)
    expect_equal("status", done.returncode, 1)
    expect_equal("no key", done.stdout, "")
    expect("what to do: " + done.stderr, "chmod 600 " + path in done.stderr)
    os.chmod(path, 0o600)
    whole = read(path)
    for broken in (whole[:-2], whole + "x", whole.replace("1\n", "9\n", 1), ""):
        with open(path, "w") as f:
            f.write(broken)
        done = run(WEFT, "key", "show", path)
        expect_equal("status", done.returncode, 1)
        expect("it says so: " + done.stderr, "is not a key file" in done.stderr)
        expect("no secret", not re.search(r"[0-9a-f]{32}", done.stdout + done.stderr))
    done = run(WEFT, "key", "show", os.path.join(folder, "b.key"))
    expect("how to make one: " + done.stderr, "weft key new" in done.stderr)


def test_key_says_how_it_is_called(folder):
    for words in ((), ("new",), ("show",), ("new", "a", "b"), ("make", "a")):
        done = run(WEFT, "key", *words)
        expect_equal("status of %r" % (words,), done.returncode, 2)
        expect_equal("nothing on stdout", done.stdout, "")
        expect("usage: " + done.stderr, "usage: weft key new FILE" in done.stderr)
    done = run(WEFT, "key", "--help")
    expect_equal("status", done.returncode, 0)
    expect("usage: " + done.stdout, "usage: weft key new FILE" in done.stdout)
    expect_equal("no file was made", os.listdir(folder), [])


main(globals())
