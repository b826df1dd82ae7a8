#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""install_test.py BUILD_DIR SOURCE_DIR: what `meson install` puts where, and that it works there.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import fnmatch
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from script import (Skip, compile_c, environment, expect, expect_equal, main, need, need_root, run,
                    write)

BUILD, SOURCE = (os.path.realpath(a) for a in sys.argv[1:3])
DROPIN = ("libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3")


@functools.lru_cache(None)
def options():
    text = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return {o["name"]: o["value"] for o in json.loads(text)}


def option(name):
    return options()[name]


@functools.lru_cache(None)
def first_tree():
    """Installed once; the object is the folder's life."""
    folder = tempfile.TemporaryDirectory()
    done = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder.name)
    expect_equal("meson install: " + done.stdout + done.stderr, done.returncode, 0)
    return folder


class Installed:
    """A tree that was installed below a folder of its own."""

    def __init__(self, folder):
        need("meson")
        self.root = os.path.join(folder, "root")
        shutil.copytree(first_tree().name, self.root, symlinks=True)
        self.prefix = self.root + option("prefix")
        self.libdir = os.path.join(self.prefix, option("libdir"))
        self.private = os.path.join(self.libdir, "weft")
        self.weft = os.path.join(self.prefix, option("bindir"), "weft")


def test_install_puts_every_file_in_its_place(folder):
    tree = Installed(folder)
    lib = option("libdir")
    places = ["bin/weft", "include/weft/*.h", lib + "/libweft.so*", lib + "/pkgconfig/weft.pc",
              lib + "/weft/lib*.so*", "share/weft/ld.so.conf", "share/man/man1/weft*.1",
              "share/bash-completion/completions/weft", "share/doc/weft/README.md",
              "share/doc/weft/docs/*"]
    # Where nbdkit's header was there to build it.
    if os.path.exists(os.path.join(BUILD, "nbdkit-weft-plugin.so")):
        places += [lib + "/nbdkit/plugins/nbdkit-weft-plugin.so", "share/man/man1/nbdkit-weft-plugin.1"]
    seen = set()
    for at, _, names in os.walk(tree.root):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), tree.prefix)
            place = [p for p in places if fnmatch.fnmatch(path, p)]
            expect("%s belongs nowhere" % path, place)
            seen.update(place)
    expect_equal("places", seen, set(places))
    names = os.listdir(tree.libdir)
    expect("nothing of rdma-core's beside other libraries: %s" % names,
           not any("ibverbs" in n or "rdmacm" in n or "ibumad" in n for n in names))
    for name in DROPIN + ("libibverbs.so",):
        expect(name, name in os.listdir(tree.private))


def test_install_runs_programs(folder):
    need("ibv_devices")
    tree = Installed(folder)
    done = run(tree.weft, "run", "ibv_devices")
    expect("iw_lo in " + done.stdout + done.stderr, done.returncode == 0 and "iw_lo " in done.stdout)
    path = run(tree.weft, "run", "sh", "-c", "echo $LD_LIBRARY_PATH").stdout.strip()
    expect_equal("libraries", path, os.path.realpath(tree.private))
    # A tree may be moved, and weft be called by a link.
    moved = os.path.join(folder, "elsewhere")
    shutil.move(tree.prefix, moved)
    link = os.path.join(folder, "link")
    os.symlink(os.path.join(moved, option("bindir"), "weft"), link)
    done = run(link, "run", "ibv_devices")
    expect("iw_lo in " + done.stdout + done.stderr, done.returncode == 0 and "iw_lo " in done.stdout)
    expect("doctor", run(link, "doctor").returncode == 0)
    expect("devices", "iw_lo" in run(link, "devices").stdout)


def test_install_forgets_the_build(folder):
    tree = Installed(folder)
    files = [tree.weft, os.path.join(tree.libdir, "libweft.so.0")]
    files += [os.path.join(tree.private, name) for name in DROPIN]
    for path in files:
        text = run("readelf", "-d", path).stdout
        expect(path + " is dynamic", "NEEDED" in text)
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
        expect("search path of %s: %s" % (path, paths), set(paths) <= {"$ORIGIN"})
    # librdmacm must not meet another libibverbs than the one beside it.
    text = run("readelf", "-d", os.path.join(tree.private, "librdmacm.so.1")).stdout
    expect("librdmacm looks beside itself", "[$ORIGIN]" in text)


def test_install_native_library_exports_its_header(folder):
    tree = Installed(folder)
    text = run("nm", "-D", "--defined-only", os.path.join(tree.libdir, "libweft.so.0")).stdout
    exported = set(re.findall(r" [A-Z] (\w+)", text)) - {"WEFT_0"}
    declared = set()
    for name in os.listdir(os.path.join(SOURCE, "include/weft")):
        with open(os.path.join(SOURCE, "include/weft", name)) as f:
            header = f.read()
        declared |= set(re.findall(r"\b(weft_\w+)\(", header))
        declared -= set(re.findall(r"static inline [^;{]*\b(weft_\w+)\(", header))
    expect_equal("not declared", exported - declared, set())
    expect_equal("not exported", declared - exported, set())


def test_install_serves_programs_that_build_with_it(folder):
    need("gcc", "pkg-config")
    tree = Installed(folder)
    env = environment(PKG_CONFIG_PATH=os.path.join(tree.libdir, "pkgconfig"))
    words = subprocess.run(["pkg-config", "--define-variable=prefix=" + tree.prefix, "--cflags",
                            "--libs", "weft"], env=env, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    path = compile_c(os.path.join(folder, "user"),
                     '#include <stdio.h>\n#include <weft/weft.h>\n'
                     'int main(void) { return puts(weft_version()) < 0; }\n', *words)
    done = run(path, LD_LIBRARY_PATH=tree.libdir)
    version = subprocess.run(["pkg-config", "--modversion", "weft"], env=env, text=True,
                             stdout=subprocess.PIPE).stdout
    expect_equal("version", done.stdout, version)
    expect("by soname", "[libweft.so.0]" in run("readelf", "-d", path).stdout)


def test_install_can_be_opted_into_by_a_whole_machine(folder):
    need("unshare", "mount", "ldconfig", "ibv_devices")
    need_root()
    tree = Installed(folder)
    with open(os.path.join(tree.prefix, "share/weft/ld.so.conf")) as f:
        text = f.read()
    expect("the directory: " + text, text.endswith("\n%s\n" % tree.private[len(tree.root):]))
    # The machine's own file with ours before it, as /etc/ld.so.conf.d/000-weft.conf would be.
    conf = write(os.path.join(folder, "conf"), "%s\ninclude /etc/ld.so.conf\n" % tree.private, 0o644)
    cache = os.path.join(folder, "cache")
    done = run("/sbin/ldconfig", "-X", "-f", conf, "-C", cache)
    expect_equal("ldconfig: " + done.stderr, done.returncode, 0)
    done = run("unshare", "-m", "sh", "-c", "mount --bind %s /etc/ld.so.cache || exit 77; exec "
               "ibv_devices" % cache)
    if done.returncode == 77 or "unshare" in done.stderr:
        raise Skip("no leave to cover the loader's cache")
    expect("iw_lo in " + done.stdout + done.stderr, done.returncode == 0 and "iw_lo " in done.stdout)


main(globals())
