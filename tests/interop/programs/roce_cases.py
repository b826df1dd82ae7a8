# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect queue pairs of a RoCE device by number (ibverbs-utils, perftest).

Programs of one host share UDP port 4791, so each case has a network of its own. In it loopback has
127.0.0.1 and ::1, which are the GIDs 0 and 1.
"""
from network import ADDRESS, INTERFACE
from runner import Case, Side

NOT = ["(?i)error", "(?i)fail", "(?i)unable", "(?i)couldn't", "(?i)invalid data", "(?i)unexpected"]
# A line of results: size, iterations, then figures, none of which may be missing.
ROW = r"^ *%s +%s +\d+\.\d+ "


def pingpong(service, name, options="", count=200, gid=0, size=None):
    """-c: the server looks at every page that it got. Both count the bytes of both ways."""
    command = "ibv_%s_pingpong -d roce_lo -p PORT -g %d -n %d -c %s" % (service, gid, count, options)
    says = [r"^%d iters in \d" % count]
    if size:
        command += " -s %d" % size
        says.append(r"^%d bytes in \d" % (2 * size * count))
    return Case("roce_%s_pingpong%s" % (service, name), Side(command, says, NOT),
                Side(command + " 127.0.0.1", says, NOT), network=True, seconds=60)


def xrc_pingpong(name, options, gid=0):
    """It says only that all has come."""
    command = "ibv_xsrq_pingpong -d roce_lo -p PORT -g %d -n 200 %s" % (gid, options)
    return Case("roce_xsrq_pingpong" + name, Side(command, ["^success"], NOT),
                Side(command + " 127.0.0.1", ["^success"], NOT), network=True, seconds=60)


PINGPONGS = [
    pingpong("rc", "", size=4096),
    pingpong("rc", "_ipv6", gid=1, size=4096),
    pingpong("rc", "_odd_size", size=10007),
    pingpong("rc", "_one_byte", size=1),
    pingpong("rc", "_mtu_256", "-m 256", size=5001),
    pingpong("rc", "_mtu_4096", "-m 4096", size=20001),
    pingpong("rc", "_large", "-m 4096", count=10, size=4000001),
    pingpong("rc", "_events", "-e", size=3000),
    pingpong("rc", "_builders", "-N", size=3000),
    pingpong("uc", "", size=4096),
    pingpong("uc", "_ipv6", gid=1, size=4096),
    pingpong("uc", "_odd_size", "-m 512", size=3001),
    pingpong("uc", "_mtu_2048_events", "-m 2048 -e", size=6000),
    pingpong("ud", "", size=2048),
    pingpong("ud", "_ipv6", gid=1, size=2048),
    pingpong("ud", "_odd_size", size=1021),
    pingpong("ud", "_events", "-e", size=1024),
    pingpong("srq", "", count=1000),
    pingpong("srq", "_ipv6_events", "-e -q 4", count=1000, gid=1),
    pingpong("srq", "_odd_size", "-q 5 -m 2048 -s 9001", count=1000),
    xrc_pingpong("", "-s 4096"),
    xrc_pingpong("_odd_size_ipv6", "-s 9001 -m 1024", gid=1),
    xrc_pingpong("_events_on_demand", "-e -o -s 3000"),
]


def perftest(tool, name, options, rows=None, iterations=r"\d+", device="roce_lo", address="127.0.0.1"):
    """Both sides alike; the client prints a row of results for each size.

    -u: after a second without an answer the peer is asked again, seven times. The default, half a
    second in all, is not much on a machine that has others to serve.
    """
    command = "%s -d %s -p PORT -u 18 %s" % (tool, device, options)
    says = [(ROW % (size, iterations), 1) for size in rows or [r"\d+"]]
    return Case("roce_%s_%s" % (tool, name), Side(command, [], NOT),
                Side(command + " " + address, says, NOT), network=True, seconds=60)


SIZES = [1 << n for n in range(1, 24)]  # 2 bytes to 8 MiB: what -a means

# For every row perftest measures the processor's clock for half a second, so not all of them with -a.
PERFTESTS = [
    perftest("ib_send_bw", "all_sizes", "-a -n 10", SIZES),
    perftest("ib_write_bw", "large", "-s 8388607 -n 10", ["8388607"]),
    perftest("ib_read_bw", "large", "-s 8388607 -n 10", ["8388607"]),
    perftest("ib_write_bw", "one_byte", "-s 1 -n 200", ["1"]),
    perftest("ib_read_bw", "one_byte", "-s 1 -n 200", ["1"]),
    perftest("ib_write_bw", "ipv6", "-x 1 -n 200"),
    perftest("ib_write_bw", "odd_size", "-s 65521 -m 256 -n 50", ["65521"]),
    perftest("ib_read_bw", "odd_size", "-s 65521 -m 2048 -n 50", ["65521"]),
    perftest("ib_write_bw", "queue_pairs", "-q 4 -n 100", iterations="400"),
    perftest("ib_read_bw", "queue_pairs", "-q 4 -n 100", iterations="400"),
    perftest("ib_send_bw", "queue_pairs", "-q 4 -n 100", iterations="400"),
    perftest("ib_write_bw", "both_directions", "-b -n 200"),
    perftest("ib_read_bw", "both_directions", "-b -n 200"),
    perftest("ib_send_bw", "both_directions", "-b -n 200"),
    perftest("ib_write_bw", "inline", "-s 60 -I 64 -n 500", ["60"]),
    perftest("ib_write_bw", "lists", "-l 8 -n 400"),
    perftest("ib_read_bw", "events", "-e -n 200"),
    perftest("ib_send_bw", "events", "-e -n 200"),
    perftest("ib_send_bw", "inline", "-s 60 -I 64 -n 500", ["60"]),
    perftest("ib_send_bw", "shared_receives", "--use-srq -q 4 -n 100", iterations="400"),
    perftest("ib_write_bw", "uc", "-c UC -n 200"),
    perftest("ib_write_bw", "uc_odd_size", "-c UC -s 4099 -m 256 -n 200", ["4099"]),
    perftest("ib_send_bw", "uc", "-c UC -s 2048 -n 50", ["2048"]),
    perftest("ib_send_bw", "ud", "-c UD -s 1024 -n 50", ["1024"]),
    perftest("ib_send_bw", "ud_ipv6", "-c UD -x 1 -s 1024 -n 50", ["1024"]),
    perftest("ib_send_bw", "ud_queue_pairs", "-c UD -q 4 -s 512 -n 20", ["512"], "80"),
    perftest("ib_write_lat", "eight_bytes", "-s 8 -n 100", ["8"]),
    perftest("ib_write_lat", "uc", "-c UC -s 8 -n 100", ["8"]),
    perftest("ib_write_lat", "odd_size", "-s 4093 -n 100", ["4093"]),
    perftest("ib_read_lat", "eight_bytes", "-s 8 -n 200", ["8"]),
    perftest("ib_read_lat", "events", "-e -s 4093 -n 200", ["4093"]),
    perftest("ib_send_lat", "eight_bytes", "-s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "events", "-e -s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "uc", "-c UC -s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "ud", "-c UD -s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "ud_ipv6", "-c UD -x 1 -s 1000 -n 200", ["1000"]),
    perftest("ib_send_lat", "ud_events", "-c UD -e -s 8 -n 200", ["8"]),
    perftest("ib_send_lat", "shared_receives", "--use-srq -s 8 -n 200", ["8"]),
    perftest("ib_send_bw", "xrc", "-c XRC -n 200"),
    perftest("ib_write_bw", "xrc", "-c XRC -n 200"),
    perftest("ib_send_lat", "xrc", "-c XRC -n 200"),
    perftest("ib_atomic_bw", "fetch_and_add", "-A FETCH_AND_ADD -n 200", ["8"]),
    perftest("ib_atomic_bw", "compare_and_swap", "-A CMP_AND_SWAP -q 4 -n 50", ["8"], "200"),
    perftest("ib_atomic_bw", "both_directions", "-b -n 200", ["8"]),
    perftest("ib_atomic_lat", "fetch_and_add", "-A FETCH_AND_ADD -n 200", ["8"]),
    perftest("ib_atomic_lat", "compare_and_swap", "-A CMP_AND_SWAP -n 200", ["8"]),
]



def multicast(tool, name, options):
    """The groups are perftest's own, of IPv6: not on loopback, where Linux delivers none."""
    return perftest(tool, name, "-c UD -g " + options, device="roce_" + INTERFACE, address=ADDRESS)


MULTICAST = [
    multicast("ib_send_lat", "multicast", "-n 200"),
    multicast("ib_send_lat", "multicast_ipv4_gid", "-x 1 -n 200"),
    Case("roce_ib_send_lat_multicast_on_loopback",
         Side("ib_send_lat -d roce_lo -p PORT -c UD -g", status=None),
         Side("ib_send_lat -d roce_lo -p PORT -c UD -g 127.0.0.1",
              ["groups of IPv6 do not work on loopback"], status=1, env={"WEFT_LOG": "info"}),
         network=True),
]

CASES = PINGPONGS + PERFTESTS + MULTICAST
