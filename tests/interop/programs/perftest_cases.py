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

# Over iWARP the client of ib_send_bw stops one Send short of the receives that the server has,
# until an RDMA Write of the server's tells it of more. With -e it sleeps even then, for a completion
# of which nothing is under way, and if the Write comes late both sides sleep for ever: perftest 4.5
# does so on any device. The server has as many receives as there are Sends, and one more if that is
# odd: then the client never stops.
CASES = [
    perftest("ib_write_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_read_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_send_bw", "all_sizes", "-a -n 50", SIZES),
    perftest("ib_write_bw", "both_directions", "-b -n 500"),
    perftest("ib_send_bw", "both_directions", "-b -n 500"),
    perftest("ib_write_bw", "many_queue_pairs", "-q 16 -n 200", iterations="3200"),
    perftest("ib_send_bw", "events", "-e -n 499"),  # odd: see above
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
