#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own test suite (packages python3-pyverbs and rdma-core) on the drop-in libraries.

    pyverbs_suite.py [--asan | --tsan] [--write PAGE] LIBRARIES

Runs it on iw_lo. None of its tests may fail, and PASSED_LEAST must pass: what is skipped has a
reason, which --write puts on a page with the counts. --asan and --tsan as for programs.py.
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

import sanitizers

SUITE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"  # the packages are for Debian's
PASSED_LEAST = 60
SECONDS = 250
SKIP = 77
RESULT = re.compile(r"^(.*?) \.\.\. (ok|FAIL|ERROR|skipped (.*))$")
NAME = re.compile(r"(test_\w+) \(tests\.(\w+)\.")
# Of other vendors' adapters.
VENDORS = re.compile(r"mlx5|efa|cuda")


def unpack(folder):
    shutil.copytree(SUITE, os.path.join(folder, "tests"))
    for path in glob.glob(os.path.join(folder, "tests", "*.gz")):
        with gzip.open(path) as packed, open(path[:-3], "wb") as plain:
            shutil.copyfileobj(packed, plain)
        os.remove(path)


def run(libraries, sanitizer, folder):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(libraries))
    env.update(sanitizer(libraries) if sanitizer else {})
    return subprocess.run([PYTHON, "tests/run_tests.py", "--dev", "iw_lo", "-v"], cwd=folder, env=env,
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


def page(found):
    count = collections.Counter(result for _, _, result, _ in found)
    reasons = collections.Counter(reason for _, _, result, reason in found if result == "skipped")
    rows = "".join("| %s | %d |\n" % (r.replace("|", "/"), n)
                   for r, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0])))
    passed = "".join("- `%s`: %s\n" % (module, ", ".join(sorted(
        name[5:] for m, name, result, _ in found if m == module and result == "ok")))
        for module in sorted({m for m, _, result, _ in found if result == "ok"}))
    failed = "".join("- `%s`\n" % name for _, name, r, _ in found if r in ("FAIL", "ERROR"))
    return PAGE % (count["ok"], count["skipped"], count["FAIL"] + count["ERROR"], failed or "None.\n",
                   rows, passed)


PAGE = """# rdma-core's own test suite on weft

Made by `tests/interop/programs/pyverbs_suite.py --write`, on the device `iw_lo`, with rdma-core 44
of Debian 12. Tests of other vendors' adapters are left out.

%d passed, %d skipped, %d failed.

Queue pairs in these tests are connected by number, without librdmacm: two of one process can be, as
the adapter has a way between them. Between processes an iWARP device needs librdmacm.

## Failed

%s
## Skipped, by the reason that the suite gives

| reason | tests |
|---|---|
%s
## Passed

%s"""


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    sanitizers.add_options(parser)
    parser.add_argument("--write")
    parser.add_argument("libraries")
    o = parser.parse_args()
    if not os.path.isdir(SUITE) or subprocess.run(
            [PYTHON, "-c", "import pyverbs"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("skip pyverbs_suite: python3-pyverbs or rdma-core is not installed")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder)
        text = run(o.libraries, o.sanitizer, folder)
    found = results(text)
    says = sanitizers.SAYS.search(sanitizers.without_remarks(text))
    bad = [f for f in found if f[2] in ("FAIL", "ERROR")]
    passed = sum(f[2] == "ok" for f in found)
    if o.write:
        with open(o.write, "w", encoding="utf-8") as f:
            f.write(page(found))
    if bad or says or passed < PASSED_LEAST:
        print(text[-4000:])
        print("not ok pyverbs_suite: %d passed, at least %d should; %d failed: %s%s"
              % (passed, PASSED_LEAST, len(bad), ", ".join(f[1] for f in bad),
                 "; sanitizer: " + says[0] if says else ""))
        return 1
    print("ok pyverbs_suite")
    return 0


if __name__ == "__main__":
    sys.exit(main())
