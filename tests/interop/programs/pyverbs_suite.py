#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own test suite (packages python3-pyverbs and rdma-core) on the drop-in libraries.

    pyverbs_suite.py [--asan | --tsan] [--write] LIBRARIES [DEVICE...]

Runs it on roce_lo and iw_lo by weft run, in a network of its own where the machine allows that. None of
its tests may fail but those of LEFT_OUT, and what docs/conformance.md says has passed on a device must
pass again; what is skipped has a reason. --write makes that page anew. --asan and --tsan as for
programs.py.
"""
import argparse
import collections
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

import network
import sanitizers

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # the packages are for Debian's
DEVICES = ("roce_lo", "iw_lo")
FABRIC = "fab0"  # tests/fabric/programs_test.py runs it there
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/conformance.md")
SECONDS = 120
SKIP = 77
# What a test's processes say may stand between its name and its result.
RESULT = re.compile(r"^(.*? \.\.\. )?(ok|FAIL|ERROR|skipped (.*))$")
NAME = re.compile(r"(test_\w+) \(tests\.(\w+)\.")
# Of other vendors' adapters.
VENDORS = re.compile(r"mlx5|efa|cuda")
# What cannot pass on a device, where the suite does not ask: device -> test -> why.
LEFT_OUT = {
    "iw_lo": {
        ("test_rdmacm", "test_rdmacm_async_udp_traffic"): "iWARP has no datagrams",
        ("test_rdmacm", "test_rdmacm_async_write"):
            "a Write of iWARP has ended when it is sent, and the test looks before it has arrived",
    },
}
# Those whose children start threads: the thread sanitizer counts their parent's among them, and ends.
FORKING = re.compile(r"test_rdmacm_\w+|test_multi_process_alloc_dm")


def rename_forking(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"\bdef (%s)\(" % FORKING.pattern, r"def left_out_\1(", text))


def unpack(folder, is_tsan):
    shutil.copytree(SUITE, os.path.join(folder, "tests"))
    for path in glob.glob(os.path.join(folder, "tests", "*.gz")):
        with gzip.open(path) as packed, open(path[:-3], "wb") as plain:
            shutil.copyfileobj(packed, plain)
        os.remove(path)
    for path in glob.glob(os.path.join(folder, "tests", "test_*.py")) if is_tsan else []:
        rename_forking(path)


def by_weft_run(device, libraries):
    return [os.path.join(os.path.abspath(libraries), "weft"), "run", "--devices", device]


def sanitized_env(device, libraries, sanitizer):
    """As weft run has it, which would bring a sanitizer of its own."""
    folder = os.path.abspath(libraries)
    env = sanitizer(libraries)
    return dict(env, LD_LIBRARY_PATH=folder, WEFT_DEVICES=device,
                LD_PRELOAD=env["LD_PRELOAD"] + ":" + os.path.join(folder, "libweft-sysfs.so"))


def run(device, libraries, sanitizer, folder, net):
    """The suite asks /sys for the device's network interface, and takes its address for librdmacm."""
    env = dict(os.environ)
    env.update(sanitized_env(device, libraries, sanitizer) if sanitizer else {})
    command = ([] if sanitizer else by_weft_run(device, libraries)) + [
        PYTHON, "tests/run_tests.py", "--dev", device, "-v"]
    return subprocess.run((net.enter() if net else []) + command, cwd=folder, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          timeout=SECONDS * (sanitizers.PATIENCE if sanitizer else 1),
                          check=False).stdout


def results(text):
    """(module, test, result, reason): a test's name may stand in the line before its result."""
    name, found = None, []
    for line in text.splitlines():
        name = NAME.search(line) or name
        at = RESULT.match(line)
        if at and name:
            found.append((name[2], name[1], at[2].split()[0], (at[3] or "").strip("'\"")))
    return [f for f in found if not VENDORS.search(f[0])]


def without_left_out(device, found):
    return [f for f in found if f[:2] not in LEFT_OUT.get(device, {})]


def passed_of(found):
    return {(module, name) for module, name, result, _ in found if result == "ok"}


def failed_of(found):
    return ["%s.%s" % (module, name) for module, name, r, _ in found if r in ("FAIL", "ERROR")]


def lines_of(passed):
    return "".join("- `%s`: %s\n" % (module, ", ".join(sorted(n[5:] for m, n in passed if m == module)))
                   for module in sorted({m for m, _ in passed}))


def read_page():
    """Device -> what has passed there, as lines_of() writes it."""
    passed, device = {}, None
    with open(PAGE, encoding="utf-8") as page:
        for line in page:
            heading = re.match(r"## `(\w+)`", line)
            module = re.match(r"- `(test_\w+)`: (\w.*)", line)
            device = heading[1] if heading else device
            if module and device:
                passed.setdefault(device, set()).update(
                    (module[1], "test_" + name) for name in module[2].split(", "))
    return passed


def kept_section(device):
    """The page's section of a device, as it is; empty if there is none."""
    with open(PAGE, encoding="utf-8") as page:
        found = re.search(r"\n## `%s`\n.*?(?=\n## |\Z)" % device, page.read(), re.S)
    return found[0] if found else ""


def write_section(device, found):
    """In place of the one that there is, or at the end."""
    kept = kept_section(device)
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write((text.replace(kept, "") if kept else text) + section(device, found))


def section(device, found):
    count = collections.Counter(result for _, _, result, _ in found)
    reasons = collections.Counter(reason for _, _, result, reason in found if result == "skipped")
    rows = "".join("| %s | %d |\n" % (r.replace("|", "/"), n)
                   for r, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0])))
    failed = "".join("- `%s`\n" % name for name in failed_of(found))
    left_out = "".join("- `%s.%s`: %s\n" % (test + (why,))
                       for test, why in sorted(LEFT_OUT.get(device, {}).items()))
    return SECTION % (device, count["ok"], count["skipped"], len(failed_of(found)),
                      failed and "Failed:\n\n%s\n" % failed,
                      left_out and "Left out, as the suite does not ask first:\n\n%s\n" % left_out,
                      rows, lines_of(passed_of(found)))


TEXT = """# rdma-core's own test suite on weft

Made by `tests/interop/programs/pyverbs_suite.py --write` with rdma-core 44 of Debian 12. Tests of
other vendors' adapters are left out. What has passed here must pass in every later run: the test
command looks.

The suite runs by `weft run`, which supplies what it reads under `/sys/class/infiniband`: without that
librdmacm's tests would be skipped.

On `iw_lo` queue pairs are connected by number in most of these tests, without librdmacm: two of one
process can be, as the adapter has a way between them. Between processes an iWARP device needs librdmacm.
"""

SECTION = """
## `%s`

%d passed, %d skipped, %d failed.

%s%sSkipped, by the reason that the suite gives:

| reason | tests |
|---|---|
%s
Passed:

%s"""


def expected_of(device, o):
    """What must pass."""
    passed = set() if o.write else read_page().get(device, set())
    return {t for t in passed if not (o.is_tsan and FORKING.fullmatch(t[1]))}


def judge(found, text, expected):
    """Why it is not good, or None."""
    says = sanitizers.SAYS.search(sanitizers.without_remarks(text))
    bad = failed_of(found)
    lost = expected - passed_of(found)
    if not found:
        return "it did not run"
    if bad or lost or says:
        return "failed: %s; passed before: %s%s" % (
            ", ".join(bad) or "none", ", ".join("%s.%s" % n for n in sorted(lost)) or "none lost",
            "; sanitizer: " + says[0] if says else "")
    return None


def look_at(o, folder, net):
    """True: all is good."""
    sections, is_good = [], True
    for device in o.devices or DEVICES:
        text = run(device, o.libraries, o.sanitizer, folder, net)
        found = without_left_out(device, results(text))
        sections.append(section(device, found))
        why = judge(found, text, expected_of(device, o))
        if why:
            print(text[-4000:])
            print("not ok pyverbs_suite: %s: %s" % (device, why))
            is_good = False
    if o.write and is_good:
        fabric = kept_section(FABRIC)
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(TEXT + "".join(sections) + fabric)
    return is_good


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    sanitizers.add_options(parser)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("libraries")
    parser.add_argument("devices", nargs="*")
    o = parser.parse_args()
    o.is_tsan = o.sanitizer == sanitizers.tsan_env
    if not os.path.isdir(SUITE) or subprocess.run(
            [PYTHON, "-c", "import pyverbs"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("skip pyverbs_suite: python3-pyverbs or rdma-core is not installed")
        return SKIP
    net = network.Network()
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder, o.is_tsan)
        is_good = look_at(o, folder, None if net.why_not else net)
    net.close()
    if is_good:
        print("ok pyverbs_suite")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
