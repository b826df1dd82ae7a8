# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own programs of the connection manager (packages rdmacm-utils and librdmacm-dev)."""
from runner import Case, Side

# rping says this when it finds other data than it sent, or anything else that is wrong.
RPING_NOT = ["data mismatch", "failed", "error"]


def rping(name, options, count=10, address="127.0.0.1", server_address=None, both=""):
    listen = "-a %s " % (server_address or address) if server_address != "any" else ""
    common = "-p PORT -v -V -C %d %s" % (count, options)
    pings = [(r"^(server )?ping data: rdma-ping-\d+: ", count)]
    return Case("rping_" + name,
                Side("rping -s %s%s %s" % (listen, common, both), pings, RPING_NOT),
                Side("rping -c -a %s %s %s" % (address, common, both), pings, RPING_NOT))


CASES = [
    rping("ipv4", ""),
    rping("ipv6", "", address="::1"),
    rping("any_address", "", server_address="any"),
    rping("any_address_ipv6", "", address="::1", server_address="::"),
    rping("any_address_both_families", "", address="127.0.0.1", server_address="::"),
    rping("smallest", "-S 23", count=100),
    rping("large", "-S 65535", count=20),
    rping("debug", "-d"),
    rping("own_queue_pair", "-q"),
    Case("rping_own_queue_pair_client",
         Side("rping -s -a 127.0.0.1 -p PORT -V -C 5", [], RPING_NOT),
         Side("rping -c -q -a 127.0.0.1 -p PORT -V -C 5", [], RPING_NOT)),
    # The server copies the id of the last request: its own fault allows one at a time.
    Case("rping_persistent_server_50_clients",
         Side("rping -s -P -a 127.0.0.1 -p PORT -S 1000", [("wait for RDMA_READ_ADV state", 50)],
              RPING_NOT, status="ended"),
         Side("rping -c -a 127.0.0.1 -p PORT -v -V -S 1000 -C 5",
              [(r"^ping data: rdma-ping-\d+: ", 5)], RPING_NOT),
         clients=50),
    Case("rping_nobody_there",
         client=Side("rping -c -a 127.0.0.1 -p PORT -C 1",
                     ["RDMA_CM_EVENT_REJECTED, error -111"], status=255)),
    Case("ucmatose_100_connections",
         Side("ucmatose -c 100 -p PORT", ["^disconnected$", "^return status 0$"]),
         Side("ucmatose -c 100 -p PORT -s 127.0.0.1",
              ["^data transfers complete$", "^return status 0$"])),
    Case("ucmatose_ipv6",
         Side("ucmatose -b ::1 -c 3 -p PORT", ["^return status 0$"]),
         Side("ucmatose -s ::1 -c 3 -p PORT", ["^return status 0$"])),
    Case("ucmatose_migrating",
         Side("ucmatose -m -c 20 -C 20 -S 1000 -p PORT", ["^return status 0$"]),
         Side("ucmatose -m -c 20 -C 20 -S 1000 -p PORT -s 127.0.0.1", ["^return status 0$"])),
    Case("rdma_client_and_server",
         Side("rdma_server -p PORT", ["^rdma_server: end 0$"]),
         Side("rdma_client -s 127.0.0.1 -p PORT", ["^rdma_client: end 0$"])),
    Case("cmtime_200_connections",
         Side("cmtime -c 200 -p PORT", status="ended"),
         Side("cmtime -c 200 -p PORT -s 127.0.0.1",
              [r"^connect +: +[\d.]+", r"^disconnect +: +[\d.]+"], ["failed", "error"])),
    # iWARP has no datagrams and no multicast: a clean refusal is what is asked for.
    Case("udaddy_refused",
         client=Side("udaddy", ["No such device", "^return status -1$"], status=255)),
    Case("udaddy_client_refused",
         client=Side("udaddy -s 127.0.0.1", ["RDMA_CM_EVENT_ADDR_ERROR, error: -19"], status=237)),
    Case("mckey_refused",
         client=Side("mckey -m 239.1.1.1 -b 127.0.0.1", ["bind failure: No such device"],
                     status=255)),
    Case("rstream_refused",
         client=Side("rstream -p PORT", ["Function not implemented"], status=255)),
]
