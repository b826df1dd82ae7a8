#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""doctor_test.py WEFT: weft doctor finds what would stop a program, and its remedies are such.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import os
import re
import shutil
import sys

from script import (NOBODY, Skip, compile_c, expect, expect_equal, main, need, need_root, run,
                    run_with_port, write)

WEFT = os.path.realpath(sys.argv[1])
LIBRARIES = os.path.dirname(WEFT)
PROGRAM = "int main(void) { return 7; }\n"
# Asks for the devices; prints how many there are.
ASKS = ("#include <stdio.h>\nvoid **ibv_get_device_list(int *);\n"
        'int main(void) { int n = -1; ibv_get_device_list(&n); printf("%d\\n", n); return 0; }\n')
FAKE = "void **ibv_get_device_list(int *n) { *n = 1000; return 0; }\n"
FAKE_MAP = "IBVERBS_1.1 { global: ibv_get_device_list; local: *; };\n"
# Forbids one system call, then becomes another program.
JAIL = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return 99;
	execv(argv[1], argv + 1);
	return 98;
}
"""


def doctor(*words, **wishes):
    return run(WEFT, "doctor", *words, **wishes)


def findings(done, verdict):
    """What is said about each subject with that verdict."""
    return re.findall(r"^%s +(.*)$" % verdict, done.stdout, re.M)


def expect_finding(done, verdict, *words):
    """Exactly one line of that verdict has all the words."""
    lines = [line for line in findings(done, verdict) if all(w in line for w in words)]
    expect("%s %r in:\n%s%s" % (verdict, words, done.stdout, done.stderr), len(lines) == 1)
    expect_equal("status", done.returncode, 1 if findings(done, "stop") else 0)


def fake_library(folder, code, versions):
    """A libibverbs.so.1 that is not weft's."""
    map_file = write(os.path.join(folder, "map"), versions, 0o644)
    path = os.path.join(folder, "libibverbs.so.1")
    return compile_c(path, code, "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1",
                     "-Wl,--version-script=" + map_file)


def test_doctor_finds_this_machine_well(_folder):
    done = doctor()
    expect_equal("stderr", done.stderr, "")
    expect_equal("status", done.returncode, 0)
    expect_equal("stops", findings(done, "stop"), [])
    expect_finding(done, "ok", "libraries: " + LIBRARIES)
    expect_finding(done, "ok", "devices: ", "iw_lo")
    expect_finding(done, "ok", "loopback: lo is up")
    expect_finding(done, "ok", "rights: ", "ptrace")


def test_doctor_finds_programs_well(_folder):
    programs = "ibv_devices ibv_devinfo rping ucmatose ib_write_bw ib_send_bw fi_info fio tgtd".split()
    found = [p for p in programs if shutil.which(p)]
    if not found:
        raise Skip("there is none")
    for program in found:
        done = doctor(program)
        expect_finding(done, "ok", "program: " + shutil.which(program))
        expect_finding(done, "ok", "loader: it gets weft's libraries")
        expect_finding(done, "ok", "versions: weft has all")
        expect_equal("stops of " + program, findings(done, "stop"), [])


def test_doctor_looks_at_libraries(folder):
    need("gcc")
    write(os.path.join(folder, "x.c"), "", 0o644)
    plain = compile_c(os.path.join(folder, "plugin.so"), "int x;\n", "-shared", "-fPIC")
    os.chmod(plain, 0o644)
    done = doctor(plain)
    expect_finding(done, "ok", "program: " + plain, "a library")
    expect_finding(done, "warn", "no RDMA library")
    done = doctor(os.path.join(LIBRARIES, "librdmacm.so.1"))
    expect_finding(done, "ok", "loader: it gets weft's")
    done = run(WEFT, "run", os.path.join(LIBRARIES, "librdmacm.so.1"))
    expect("not to be run: " + done.stderr, done.returncode == 126 and "is a library" in done.stderr)


def test_doctor_finds_what_stops_weft_run(folder):
    need("gcc")
    expect_finding(doctor("no-such-program"), "stop", "no-such-program is not found")
    static = compile_c(os.path.join(folder, "static"), PROGRAM, "-static")
    expect_finding(doctor(static), "stop", static, "statically linked")
    pie = compile_c(os.path.join(folder, "pie"), PROGRAM, "-static-pie")
    expect_finding(doctor(pie), "stop", pie, "statically linked")
    musl = compile_c(os.path.join(folder, "musl"), PROGRAM,
                     "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    expect_finding(doctor(musl), "stop", musl, "musl")
    other = shutil.copy(shutil.which("true"), os.path.join(folder, "other"))
    with open(other, "r+b") as f:  # e_machine
        f.seek(18)
        f.write(b"\x15\x00")
    expect_finding(doctor(other), "stop", other, "another architecture")
    half = shutil.copy(shutil.which("true"), os.path.join(folder, "half"))
    os.truncate(half, os.path.getsize(half) // 8)
    expect_finding(doctor(half), "stop", "loader: it cannot be asked")
    text = write(os.path.join(folder, "text"), "text\n")
    expect_finding(doctor(text), "stop", text, "neither an ELF program nor a script")


def test_doctor_finds_more_rights(folder):
    need("gcc")
    need_root()
    path = compile_c(os.path.join(folder, "prog"), PROGRAM)
    os.chown(path, NOBODY, -1)
    os.chmod(path, 0o4755)
    expect_finding(doctor(path), "stop", path, "LD_LIBRARY_PATH", "copy")
    os.chown(path, 0, -1)
    os.chmod(path, 0o4755)
    expect_finding(doctor(path), "warn", "program: ", "other users")


def test_doctor_says_what_a_script_is(folder):
    path = write(os.path.join(folder, "script"), "#!/bin/sh\n")
    expect_finding(doctor(path), "ok", path + " is a script", "/bin/sh")


def test_doctor_finds_versions_that_are_missing(folder):
    need("gcc")
    fake_library(folder, "void fake(void) {} void newer(void) {} void ibv_new(void) {}\n" + FAKE,
                 "IBVERBS_1.1 { global: ibv_get_device_list; ibv_new; local: *; };\n"
                 "IBVERBS_1.99 { global: newer; } IBVERBS_1.1;\n"
                 "IBVERBS_PRIVATE_99 { global: fake; };\n")
    lib = "-L" + folder, "-l:libibverbs.so.1"

    def program(name, calls):
        text = "".join("void %s(void);\n" % c for c in calls)
        text += "int main(void) { %s return 0; }\n" % "".join("%s();" % c for c in calls)
        return compile_c(os.path.join(folder, name), text, *lib)

    done = doctor(program("private", ["fake"]))
    expect_finding(done, "stop", "private needs IBVERBS_PRIVATE_99 of libibverbs.so.1",
                   "built for IBVERBS_PRIVATE_", "rebuild weft on this machine")
    done = doctor(program("public", ["newer"]))
    expect_finding(done, "stop", "public needs IBVERBS_1.99 of libibverbs.so.1", "rebuild it")
    done = doctor(program("symbol", ["ibv_new", "ibv_get_device_list"]))
    expect_finding(done, "stop", "symbol needs ibv_new@IBVERBS_1.1", "rebuild it")
    expect_equal("only that", len(findings(done, "stop")), 1)
    done = doctor(program("both", ["ibv_get_device_list", "newer", "fake"]))
    expect_finding(done, "stop", "both needs IBVERBS_1.99")
    expect_finding(done, "stop", "both needs IBVERBS_PRIVATE_99")
    expect("not all of them:\n" + done.stdout, "versions: weft has all" not in done.stdout)
    # What need not be there may be missing.
    weak = compile_c(os.path.join(folder, "weak"),
                     "void ibv_new(void) __attribute__((weak)); void ibv_get_device_list(int *);\n"
                     "int main(void) { int n; ibv_get_device_list(&n); return ibv_new != 0; }\n", *lib)
    expect_equal("stops", findings(doctor(weak), "stop"), [])
    expect_equal("and it runs", run(WEFT, "run", weak).returncode, 0)
    # The loader agrees.
    done = run(WEFT, "run", os.path.join(folder, "private"))
    expect("it does not start: " + done.stderr, done.returncode == 1 and
           "IBVERBS_PRIVATE_99' not found" in done.stderr)


def test_doctor_looks_into_the_libraries_of_a_program(folder):
    need("gcc")
    fake_library(folder, "void fake(void) {}\n", "IBVERBS_PRIVATE_99 { global: fake; local: *; };\n")
    inner = os.path.join(folder, "libinner.so.1")
    compile_c(inner, "void fake(void); void inner(void) { fake(); }\n", "-shared", "-fPIC",
              "-Wl,-soname,libinner.so.1", "-L" + folder, "-l:libibverbs.so.1")
    outer = compile_c(os.path.join(folder, "outer"),
                      "void inner(void); int main(void) { inner(); return 0; }\n", "-L" + folder,
                      "-l:libinner.so.1", "-Wl,-rpath-link," + folder)
    lost = doctor(outer)
    expect_finding(lost, "stop", "loader: libinner.so.1 is not found")
    done = doctor(outer, LD_LIBRARY_PATH=folder)
    expect_finding(done, "stop", "libinner.so.1 needs IBVERBS_PRIVATE_99")
    expect_equal("only that", len(findings(done, "stop")), 1)


def test_doctor_finds_an_rpath(folder):
    need("gcc")
    fake_library(folder, FAKE, FAKE_MAP)
    options = "-L" + folder, "-l:libibverbs.so.1", "-Wl,-rpath," + folder
    wins = compile_c(os.path.join(folder, "wins"), ASKS, "-Wl,--disable-new-dtags", *options)
    expect_equal("it does win", run(WEFT, "run", wins).stdout, "1000\n")
    done = doctor(wins)
    expect_finding(done, "stop", "loader: libibverbs.so.1 comes from " + folder, "RPATH", "that of " +
                   wins, "LD_PRELOAD=")
    # The remedy is one.
    preload = re.search(r"LD_PRELOAD=(\S+)", done.stdout)[1]
    count = run(WEFT, "run", wins, LD_PRELOAD=preload).stdout
    expect("weft's devices: " + count, 1 <= int(count) < 1000)
    expect_finding(doctor(wins, LD_PRELOAD=preload), "ok", "loader: it gets weft's")
    # One of weft's and one of another's is no pair.
    mixed = compile_c(os.path.join(folder, "mixed"), ASKS, "-Wl,--disable-new-dtags,--no-as-needed",
                      "-Wl,--allow-shlib-undefined", "-L" + LIBRARIES, "-l:librdmacm.so.1", *options)
    done = doctor(mixed)
    expect_finding(done, "stop", "loader: libibverbs.so.1 comes from " + folder)
    expect("not well:\n" + done.stdout, "it gets weft's libraries" not in done.stdout)
    # What comes after LD_LIBRARY_PATH does no harm.
    loses = compile_c(os.path.join(folder, "loses"), ASKS, "-Wl,--enable-new-dtags", *options)
    expect_finding(doctor(loses), "ok", "loader: it gets weft's")
    expect("it does not win", int(run(WEFT, "run", loses).stdout) < 1000)


def test_doctor_finds_a_preloaded_library(folder):
    need("gcc")
    fake = fake_library(folder, FAKE, FAKE_MAP)
    plain = compile_c(os.path.join(folder, "plain"), ASKS, "-L" + folder, "-l:libibverbs.so.1")
    expect_finding(doctor(plain, LD_PRELOAD=fake), "stop", "by LD_PRELOAD", "unset")


def test_doctor_warns_of_rsockets(_folder):
    need("rstream")
    expect_finding(doctor("rstream"), "warn", "rstream uses rsockets", "ENOSYS")


def test_doctor_finds_no_devices(_folder):
    need("unshare")
    done = run("unshare", "-rn", WEFT, "doctor")
    if "unshare" in done.stderr:
        raise Skip("no leave to make a network namespace")
    expect_finding(done, "stop", "devices: there are none", "lo is down")
    expect_finding(done, "warn", "loopback: lo is down", "ip link set lo up")
    expect_finding(doctor(WEFT_DEVICES="nix"), "stop", "devices: ", "WEFT_DEVICES=nix names none")


def test_doctor_finds_who_holds_the_port_of_roce(folder):
    def held(how, **wishes):
        return run_with_port(folder, how, WEFT, "doctor", **wishes)

    expect_finding(held("free"), "ok", "roce: UDP port 4791")
    done = held("held")
    expect_finding(done, "stop", "roce: ", "roce_port: UDP port 4791 is held", "rxe", "WEFT_DEVICES=iw_*")
    # Linux 6.1 keeps rxe's sockets when its devices are deleted.
    expect("the module goes, not only its device:\n" + done.stdout, "rmmod rdma_rxe" in done.stdout)
    expect_equal("only that", len(findings(done, "stop")), 1)
    # There is one remedy, and a user without such a device is not told of it.
    done = held("held", WEFT_DEVICES="iw_*")
    expect_equal("stops", findings(done, "stop"), [])
    expect("not a word:\n" + done.stdout, "4791" not in done.stdout)


def test_doctor_warns_of_few_descriptors(_folder):
    done = run("sh", "-c", "ulimit -n 100; exec %s doctor" % WEFT)
    expect_finding(done, "warn", "only 100 files may be open", "ulimit -n 1024")
    done = run("sh", "-c", "ulimit -Sn 1024; exec %s doctor" % WEFT)
    expect_finding(done, "ok", "1024 files may be open")


def test_doctor_warns_of_faults(_folder):
    expect_finding(doctor(WEFT_FAULTS="seed=7"), "warn", "WEFT_FAULTS=seed=7")
    expect_finding(doctor(WEFT_FAULTS="seed=7,rnr=2"), "stop", "rnr=2: a chance is")


def test_doctor_warns_of_a_level_that_is_none(_folder):
    """In the words of the programs that meet it."""
    done = doctor(WEFT_LOG="loud")
    expect_finding(done, "warn", "log: WEFT_LOG=loud: This is not off, error or info")
    said = run(WEFT, "run", "ibv_devinfo", WEFT_LOG="loud").stderr
    words = re.search(r"log: (WEFT_LOG=loud: .*)", done.stdout)[1]
    expect("%r in %r" % (words, said), not shutil.which("ibv_devinfo") or "]: %s\n" % words in said)
    for level in ("", "off", "error", "info"):
        expect_equal(level, [w for w in findings(doctor(WEFT_LOG=level), "warn") if "WEFT_LOG" in w], [])


def test_doctor_says_what_weft_policy_does(_folder):
    expect_finding(doctor(WEFT_POLICY="lax"), "stop", "policy: WEFT_POLICY=lax: This is not open or strict")
    expect_finding(doctor(WEFT_POLICY="strict"), "warn", "peers reach memory by windows only")
    for policy in ("", "open"):
        expect_equal(policy, [w for w in findings(doctor(WEFT_POLICY=policy), "warn") if "POLICY" in w], [])


def test_sys_04_doctor_says_what_weft_profile_does(_folder):
    expect_finding(doctor(WEFT_PROFILE="big"), "stop", "profile: WEFT_PROFILE=big: This is not host or io")
    expect_finding(doctor(WEFT_PROFILE="io"), "warn", "programs have 8 queue pairs, and no peer reads")
    for profile in ("", "host"):
        expect_equal(profile, [w for w in findings(doctor(WEFT_PROFILE=profile), "warn") if "PROFILE" in w], [])


def test_doctor_says_what_weft_serve_does(_folder):
    expect_finding(doctor(WEFT_SERVE="yes"), "warn", "serve: WEFT_SERVE=yes: This is not on or off")
    expect_finding(doctor(WEFT_SERVE="on"), "warn", "every program keeps a processor busy")
    for wish in ("", "off"):
        expect_equal(wish, [w for w in findings(doctor(WEFT_SERVE=wish), "warn") if "SERVE" in w], [])


def test_doctor_says_what_weft_near_and_weft_crc_do(_folder):
    expect_finding(doctor(WEFT_NEAR="yes"), "warn", "near: WEFT_NEAR=yes: This is not on, off or packets")
    expect_finding(doctor(WEFT_NEAR="off"), "warn", "programs of this host reach each other by UDP")
    expect_finding(doctor(WEFT_CRC="no"), "warn", "crc: WEFT_CRC=no: This is not on or off, and counts as on")
    expect_finding(doctor(WEFT_CRC="off"), "warn", "iWARP connections agree to no CRC")
    for wish in ("", "on"):
        found = findings(doctor(WEFT_NEAR=wish, WEFT_CRC=wish), "warn")
        expect_equal(wish, [w for w in found if "NEAR" in w or "CRC" in w], [])


def test_doctor_finds_a_call_that_is_forbidden(folder):
    need("gcc")
    for call in ("epoll_create1", "getrandom"):
        jail = compile_c(os.path.join(folder, "jail"), JAIL, "-DFORBIDDEN=__NR_" + call)
        done = run(jail, WEFT, "doctor")
        if done.returncode in (98, 99):
            raise Skip("seccomp filters cannot be set here")
        expect_finding(done, "stop", "rights: %s() fails: Operation not permitted" % call)


def test_doctor_warns_of_the_kernels_devices(_folder):
    need("unshare", "mount")
    need_root()
    done = run("unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/class 2>/dev/null || exit 77; "
               "mkdir -p /sys/class/infiniband/mlx5_0 /sys/class/net; exec %s doctor" % WEFT)
    if done.returncode == 77 or "unshare" in done.stderr:
        raise Skip("no leave to cover /sys/class")
    expect_finding(done, "warn", "kernel: it has RDMA devices too (mlx5_0)")


def test_doctor_finds_no_libraries(folder):
    alone = shutil.copy(WEFT, folder)
    done = run(alone, "doctor", "true")
    expect_equal("status", done.returncode, 1)
    expect("libraries: " + done.stdout, any("libibumad.so.3" in s for s in findings(done, "stop")))
    for name in ("libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"):
        write(os.path.join(folder, name), "not a library, and long enough to be read as one: " * 4)
    done = run(alone, "doctor", "true")
    expect("devices: " + done.stdout, any("ELF" in s for s in findings(done, "stop")))


def test_doctor_refuses_wrong_calls(_folder):
    for words in (("a", "b"), ("--all",)):
        done = doctor(*words)
        expect("usage", done.returncode == 2 and "usage: weft doctor" in done.stderr)
    expect("help", doctor("--help").stdout.startswith("usage: weft doctor"))


main(globals())
