#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""VMM-04: runtimes that handle SIGSEGV themselves live with weft's handler: null pointers are still
exceptions of their languages, while accesses to missing memory are refused in the same process.

    runtimes_test.py under_fire.so [NAME...]
"""
import os
import shutil
import subprocess
import sys
import tempfile

JAVA = """
import java.io.File;

public class Nulls {
    static int depth(int n) { return n + depth(n + 1); }

    static int length(String s) { return s.length(); }

    public static void main(String[] args) throws Exception {
        File done = new File(System.getenv("WEFT_DONE"));
        long caught = 0;
        String[] texts = { "one", null };
        for (int i = 0; i < 200000; i++)
            caught += length(texts[0]) - 3; // compiled, with the null check left to the signal
        new File(System.getenv("WEFT_BEGIN")).createNewFile();
        for (long n = 0; caught < 1000 || !done.exists(); n++) {
            try {
                length(texts[1]);
            } catch (NullPointerException e) {
                caught++;
            }
            if (n % 1000 == 0) {
                try {
                    depth(0);
                } catch (StackOverflowError e) {
                    caught++;
                }
            }
        }
        System.out.println("caught");
    }
}
"""

GO = """
package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
)

type node struct{ next *node; value int }

func look(n *node) (is_caught bool) {
	defer func() { is_caught = recover() != nil }()
	return n.next.value == 1
}

func main() {
	C.free(C.malloc(1))
	caught := 0
	os.WriteFile(os.Getenv("WEFT_BEGIN"), nil, 0600)
	for is_done := false; caught < 1000 || !is_done; {
		if look(&node{}) && look(nil) {
			caught++
		}
		_, err := os.Stat(os.Getenv("WEFT_DONE"))
		is_done = err == nil
	}
	fmt.Println("caught")
}
"""


def run_there(command, place, library):
    """Runs it with the library, in that folder."""
    environment = dict(os.environ, LD_PRELOAD=library, WEFT_BEGIN=place + "/begin",
                       WEFT_DONE=place + "/done")
    return subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100)


def build(command, place, name, text):
    with open(os.path.join(place, name), "w", encoding="utf-8") as out:
        out.write(text)
    environment = dict(os.environ, GOCACHE=place + "/cache", GOFLAGS="-mod=mod", GO111MODULE="off")
    subprocess.run(command, cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL,
                   timeout=200)


def java(place, library):
    build(["javac", "Nulls.java"], place, "Nulls.java", JAVA)
    return run_there(["java", "-Xss512k", "-cp", ".", "Nulls"], place, library)


def go(place, library):
    build(["go", "build", "-o", "nulls", "nulls.go"], place, "nulls.go", GO)
    return run_there(["./nulls"], place, library)


TESTS = {
    "test_vmm_04_null_pointers_of_java_are_exceptions": (java, "javac"),
    "test_vmm_04_nil_pointers_of_go_are_panics": (go, "go"),
}


def main(library, *names):
    status = 0
    for name, (function, tool) in TESTS.items():
        if names and not any(n in name for n in names):
            continue
        if not shutil.which(tool):
            print("skip %s: %s is not installed" % (name, tool))
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                result = function(place, os.path.abspath(library))
                fault = "" if result.returncode == 0 and result.stdout.endswith("caught\n") else (
                    "exit status %d: %s" % (result.returncode, result.stdout[-500:]))
            except (subprocess.SubprocessError, OSError) as error:
                fault = str(error)
        print("not ok %s: %s" % (name, fault) if fault else "ok " + name)
        status |= bool(fault)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
