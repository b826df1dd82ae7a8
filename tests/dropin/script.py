# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts here share: running commands and programs made on the spot, and saying results."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PATIENCE_S = 60
NOBODY = 65534


class Skip(Exception):
    pass


def expect(what, is_true):
    if not is_true:
        raise AssertionError(what)


def expect_equal(what, got, wanted):
    if got != wanted:
        raise AssertionError("%s: %r, not %r" % (what, got, wanted))


def environment(**wishes):
    """That of this process without weft's variables; a wish of None takes one away."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LD_"))}
    env.update({k: v for k, v in wishes.items() if v is not None})
    for name, value in wishes.items():
        if value is None:
            env.pop(name, None)
    return env


def run(*words, **wishes):
    """Ends with its status, stdout and stderr."""
    return subprocess.run(words, env=environment(**wishes), timeout=PATIENCE_S, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def patient(words):
    """perftest waits 67 ms for an answer, eight times: a busy machine may keep a process waiting for longer."""
    is_perftest = re.fullmatch("ib_(write|read|send|atomic)_(bw|lat)", words[0])
    return [*words, "-u", "18"] if is_perftest and "-u" not in words and "-R" not in words else list(words)


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise Skip("there is no " + program)


def need_root():
    if os.geteuid() != 0:
        raise Skip("only root can make such a file")


def write(path, text, mode=0o755):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def compile_c(path, text, *options):
    source = write(path + ".c", text, 0o644)
    done = subprocess.run(["gcc", "-o", path, source, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise AssertionError("gcc: " + done.stdout)
    return path


def run_with_port(folder, how, *words, **wishes):
    """In a network namespace of its own, where UDP port 4791 is "held" by another socket, or "free"."""
    need("unshare", "ip")
    text = ("import socket, subprocess, sys\n"
            "subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "if sys.argv[1] == 'held': s.bind(('', 4791))\n"
            "sys.exit(subprocess.run(sys.argv[2:]).returncode)\n")
    script = write(os.path.join(folder, "holder.py"), text, 0o644)
    done = run("unshare", "-rn", sys.executable, script, how, *words, **wishes)
    if "unshare" in done.stderr:
        raise Skip("no leave to make a network namespace")
    return done


def go_to_own_network():
    """
    The script begins again in a network namespace of its own: no other process has an adapter or a port there. False:
    none can be had.
    """
    mark = "SCRIPT_HAS_OWN_NETWORK"
    if mark not in os.environ:
        if not shutil.which("unshare") or not shutil.which("ip") or \
                subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL).returncode:
            return False
        os.environ[mark] = "1"
        os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return True


def main(tests):
    """Runs every test_... of a script's globals, each with a folder of its own."""
    failed = 0
    for name, function in sorted(tests.items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(folder)
                print("ok", name, flush=True)
            except Skip as why:
                print("skip %s: %s" % (name, why), flush=True)
            except Exception as why:  # whatever it is, it failed
                failed += 1
                said = str(why).replace("\n", " | ")
                print("not ok %s: %s: %s" % (name, type(why).__name__, said), flush=True)
    sys.exit(1 if failed else 0)
