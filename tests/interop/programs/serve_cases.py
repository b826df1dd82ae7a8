# SPDX-License-Identifier: BSD-2-Clause
"""A thread of weft's does all of the work (WEFT_SERVE): programs that poll, and programs that wait for events.
Variables that mean nothing are reported."""
from runner import Case, Side

ON = {"WEFT_SERVE": "on"}
# Four threads spin, on machines with two processors too.
ITERATIONS = 40
UNKNOWN = "WEFT_SERVE=yes: This is not on or off, and counts as off"


def pingpong(name, options, server_env, client_env, says=()):
    command = "ibv_rc_pingpong -d roce_lo -g 0 -c -p PORT -n %d " % ITERATIONS + options
    said = [r"^%d iters in \d" % ITERATIONS]
    return Case("serve_" + name, Side(command, said, env=server_env),
                Side(command + " 127.0.0.1", said + list(says), env=client_env), network=True, seconds=60)


CASES = [
    pingpong("ibv_rc_pingpong", "", ON, ON),
    pingpong("ibv_rc_pingpong_events", "-e", ON, ON),
    pingpong("one_side_ibv_rc_pingpong", "", ON, {}),
    pingpong("that_is_neither", "", {}, {"WEFT_SERVE": "yes"}, [(UNKNOWN, 1)]),
    pingpong("beside_a_path_that_is_none", "", {}, {"WEFT_NEAR": "yes"},
             [("WEFT_NEAR=yes: This is not on, off or packets, and counts as on", 1)]),
    Case("serve_rping_iwarp",
         Side("rping -s -a 127.0.0.1 -p PORT -v -V -C 20", env=ON),
         Side("rping -c -a 127.0.0.1 -p PORT -v -V -C 20", [(r"^ping data: rdma-ping-\d+: ", 20)], env=ON),
         network=True, devices="iw_*", seconds=60),
    Case("serve_ib_write_bw",
         Side("ib_write_bw -d roce_lo -x 0 -p PORT -n 500 -s 4096", env=ON),
         Side("ib_write_bw -d roce_lo -x 0 -p PORT -n 500 -s 4096 127.0.0.1", [r"^ *4096 +500 +\d"], env=ON),
         network=True, seconds=60),
]
