# SPDX-License-Identifier: BSD-2-Clause
"""The strict policy (WEFT_POLICY): programs that only send run, those that let peers reach regions are refused."""
from runner import Case, Side

STRICT = {"WEFT_POLICY": "strict", "WEFT_LOG": "error"}
UNKNOWN = "WEFT_POLICY=lax: This is not open or strict, so no device opens"


def pingpong(name, server_env, client_env):
    """Sends and receives: messages need no window."""
    said = [r"bytes in .* seconds", r"iters in .* seconds"]
    return Case("policy_" + name,
                Side("ibv_rc_pingpong -d roce_lo -g 0 -c -p PORT", said, env=server_env),
                Side("ibv_rc_pingpong -d roce_lo -g 0 -c -p PORT 127.0.0.1", said, env=client_env),
                network=True)


CASES = [
    pingpong("strict_ibv_rc_pingpong", STRICT, STRICT),
    pingpong("strict_and_open_ibv_rc_pingpong", STRICT, {}),
    # The client's Writes name a region of the server's, whose own word refuses them.
    Case("policy_strict_refuses_ib_write_bw",
         Side("ib_write_bw -d roce_lo -x 0 -p PORT -n 100 -s 4096", ["tag_region_remote"], status=None,
              env=STRICT),
         Side("ib_write_bw -d roce_lo -x 0 -p PORT -n 100 -s 4096 127.0.0.1",
              ["Completion with error at client", "Failed status 10"], status=1),
         network=True),
    # The server of rping reads the client's memory.
    Case("policy_strict_refuses_rping",
         Side("rping -s -a 127.0.0.1 -p PORT -v -C 3", [r"failed status 10"], ["server ping data"],
              status=None),
         Side("rping -c -a 127.0.0.1 -p PORT -v -C 3", ["tag_region_remote"], ["^ping data"], status=None,
              env=STRICT), network=True),
    Case("policy_that_is_none",
         client=Side("rping -c -a 127.0.0.1 -p PORT -C 1", [(UNKNOWN, 1)], status=255,
                     env={"WEFT_POLICY": "lax"}), network=True),
]
