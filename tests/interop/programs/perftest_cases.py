# SPDX-License-Identifier: BSD-2-Clause
"""perftest (package perftest), connected by librdmacm as iWARP needs it."""
from runner import Case, Side

NOT = ["(?i)error", "(?i)fail", "(?i)unable", "(?i)couldn't"]
# A line of results: size, iterations, then figures, none of which may be missing.
ROW = r"^ *%s +%s +\d+\.\d+ "


def perftest(tool, name, options, rows=None, iterations=r"\d+"):
    """Both sides alike; the client prints a row of results for each size."""
    command = "%s -R -d iw_lo -p PORT %s" % (tool, options)
    says = [(ROW % (size, iterations), 1) for size in rows or [r"\d+"]]
    return Case("%s_%s" % (tool, name), Side(command, [], NOT), Side(command + " 127.0.0.1", says, NOT),
                seconds=60)


SIZES = [1 << n for n in range(1, 24)]  # 2 bytes to 8 MiB: what -a means

CASES = [
    perftest("ib_write_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_read_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_send_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_write_bw", "both_directions", "-b -n 500"),
    perftest("ib_send_bw", "both_directions", "-b -n 500"),
    perftest("ib_write_bw", "many_queue_pairs", "-q 16 -n 200", iterations="3200"),
    perftest("ib_send_bw", "events", "-e -n 500"),
    perftest("ib_send_bw", "shared_receives", "--use-srq -n 500"),
    perftest("ib_send_bw", "inline", "-s 64 -I 64 -n 500"),
    perftest("ib_write_bw", "duration", "-D 1"),
    perftest("ib_write_lat", "eight_bytes", "-s 8 -n 1000", ["8"]),
    perftest("ib_read_lat", "eight_bytes", "-s 8 -n 1000", ["8"]),
    perftest("ib_send_lat", "eight_bytes", "-s 8 -n 1000", ["8"]),
    perftest("ib_send_lat", "events", "-e -s 8 -n 500", ["8"]),
    perftest("ib_atomic_bw", "fetch_and_add", "-A FETCH_AND_ADD -n 500", ["8"]),
    perftest("ib_atomic_bw", "compare_and_swap", "-A CMP_AND_SWAP -n 500", ["8"]),
    perftest("ib_atomic_lat", "fetch_and_add", "-n 500", ["8"]),
]
