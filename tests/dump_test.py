#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""weft dump as a person meets it.

    dump_test.py WEFT GOLDEN_DIR

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import os
import subprocess
import sys
import tempfile

WEFT, GOLDEN = sys.argv[1:3]
FRAME_AT = 24  # where the first packet's header begins in a pcap file

BADREAD = """\
connection 1: A is 10.77.0.12:59739, B is 10.77.0.11:7471
    0.001811  1 A>B  MPA Request, revision 2, IRD 4, ORD 4, private data of 9 bytes \
776566742d72696700
    0.018241  1 B>A  MPA Reply, revision 2, IRD 4, ORD 4, private data of 16 bytes \
0000ffffab4bf000af8dc10000040000; agreed: no CRC, no markers
    0.023732  1 A>B  RDMA Read Request, MSN 1, 64 bytes of STag 0xaf286400 at 0xffffab4bf000 \
into STag 0xcf724800 at 0xffff8176f000
    0.024650  1 B>A  Terminate: RDMAP remote protection: invalid STag (0/1/00), about a Read of 64 \
bytes of STag 0xaf286400 at 0xffffab4bf000 into STag 0xcf724800 at 0xffff8176f000; in the order of \
Linux siw
1 iWARP connection, 2 messages in 2 FPDUs
all RDMA traffic decoded
"""


def dump(*args, data=None):
    done = subprocess.run([WEFT, "dump", *args], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def golden(name):
    with open(os.path.join(GOLDEN, "siw", name + ".pcap"), "rb") as f:
        return f.read()


def packets(data):
    """The records of a pcap file, headers included."""
    at = FRAME_AT
    while at < len(data):
        size = int.from_bytes(data[at + 8:at + 12], "little")
        yield data[at:at + 16 + size]
        at += 16 + size


def data_bytes(record):
    """What TCP carries in a record of IPv4 on Ethernet."""
    ip = record[16 + 14:]
    total, head = int.from_bytes(ip[2:4], "big"), (ip[0] & 15) * 4
    return total - head - (ip[head + 12] >> 4) * 4


def expect(what, is_true):
    if not is_true:
        raise AssertionError(what)


def test_dump_in_words():
    status, out, err = dump("-", data=golden("siw_badread"))
    expect("status 0, not %d" % status, status == 0 and err == "")
    expect("the words:\n" + out, out == BADREAD)


def test_dump_every_golden_capture():
    for name in sorted(os.listdir(os.path.join(GOLDEN, "siw"))):
        if not name.endswith(".pcap"):
            continue
        status, out, err = dump(os.path.join(GOLDEN, "siw", name))
        expect(name + " ends well", status == 0 and err == "" and "**" not in out)
        quiet = dump("--quiet", os.path.join(GOLDEN, "siw", name))
        expect(name + " quietly", quiet[0] == 0 and out.endswith(quiet[1]) and
               "A>B" not in quiet[1])


def test_dump_several_fpdus_are_one_line():
    _, out, _ = dump("-", data=golden("siw_send"))
    expect(out, "Send, MSN 4, 16384 bytes in 12 FPDUs\n" in out and out.count("MSN 4") == 1)


def test_dump_rtr_and_one_connection_after_the_other():
    _, out, _ = dump("-", data=golden("siw_p2p_write_rtr"))
    expect(out, "A>B  RTR: RDMA Write, 0 bytes to STag 0x00000001 at 0x0\n" in out)
    _, out, _ = dump("-", data=golden("siw_perftest"))
    expect(out, out.count("connection 1: ") == 1 and out.count("connection 2: ") == 1)
    _, out, _ = dump("-", data=golden("siw_rping_ipv6"))
    expect(out, "A is [fd77::12]:56111, B is [fd77::11]:7174\n" in out)


def test_dump_requests_without_an_answer_and_refused_connections():
    status, out, _ = dump("-", data=golden("siw_iser_request"))
    expect(out, status == 0 and "\n1 MPA Request without an answer\n" in out)
    status, out, _ = dump("-", data=golden("siw_refused"))
    expect(out, status == 0 and out == "no iWARP connection\n1 other TCP connection\n")


def test_dump_tells_a_wrong_crc_where_it_is():
    data = bytearray(golden("siw_crc"))
    at = data.rindex(b"rdma-ping-1")
    data[at] ^= 1
    status, out, _ = dump("-", data=bytes(data))
    lines = [l for l in out.splitlines() if "**" in l]
    expect(out, status == 1 and len(lines) == 1 and out.endswith("\n1 problem\n"))
    expect(out, "RDMA Write, 64 bytes" in lines[0] and "** the CRC of an FPDU is 0x" in lines[0])
    quiet = dump("--quiet", "-", data=bytes(data))
    expect(quiet[1], quiet[0] == 1 and lines[0] in quiet[1] and "Send" not in quiet[1])


def test_dump_tells_missing_packets():
    """Each packet with data is left out in turn."""
    data = golden("siw_crc_write")
    records = list(packets(data))
    for i, record in enumerate(records):
        if data_bytes(record) == 0:
            continue
        rest = data[:FRAME_AT] + b"".join(records[:i] + records[i + 1:])
        status, out, err = dump("-", data=rest)
        expect("packet %d: %s" % (i + 1, out), status == 1 and "**" in out and err == "")


def test_dump_a_file_cut_off():
    data = golden("siw_crc_write")
    whole = {FRAME_AT}
    for record in packets(data):
        whole.add(max(whole) + len(record))
    for size in range(FRAME_AT, len(data), 97):
        status, out, err = dump("-", data=data[:size])
        expect("%d bytes: %s" % (size, out), size in whole or
               (status == 1 and "** the file is broken after packet " in out and err == ""))


def test_dump_packets_cut_when_captured():
    """As with a short snap length."""
    data = golden("siw_write")
    cut = data[:FRAME_AT]
    for record in packets(data):
        size = min(len(record) - 16, 96)
        cut += record[:8] + size.to_bytes(4, "little") + record[12:16 + size]
    status, out, _ = dump("-", data=cut)
    expect(out, status == 1 and " bytes are missing from the capture" in out)
    expect(out, " cut short when captured\n" in out)


def rxe(name):
    with open(os.path.join(GOLDEN, "rxe", name + ".pcap"), "rb") as f:
        return f.read()


def test_dump_every_golden_capture_of_roce():
    """Each packet's ICRC is good, and so is its form."""
    for name in sorted(os.listdir(os.path.join(GOLDEN, "rxe"))):
        if not name.endswith(".pcap"):
            continue
        with open(os.path.join(GOLDEN, "rxe", name), "rb") as f:
            count = len(list(packets(f.read())))
        status, out, err = dump(os.path.join(GOLDEN, "rxe", name))
        expect(name + " ends well", status == 0 and err == "" and "**" not in out)
        expect(out, out.endswith("\n%d RoCEv2 packets\nall RDMA traffic decoded\n" % count))
        quiet = dump("--quiet", os.path.join(GOLDEN, "rxe", name))
        expect(name + " quietly", quiet[0] == 0 and out.endswith(quiet[1]) and
               quiet[1].count("\n") == 2)


def test_dump_roce_in_words():
    _, out, _ = dump("-", data=rxe("rxe_cm"))
    for what in ("UD SEND Only, QP 000001, PSN 000000, from QP 000001, Q_Key 0x80010000, 256 bytes: "
                 "CM REQ, id b2134196, service ", ": CM REP, id 6d76f576 to b2134196, QP 000016",
                 ": CM RTU, id b2134196 to 6d76f576", ": CM DREQ, id ",
                 "  RC READ Request, QP 000016, PSN c906ee, 64 bytes of R_Key 0x00000927 at "
                 "0xaaaae7ce0670", "  RC READ Response Only, QP 000016, PSN c906ee, ACK, MSN 1, 64 ",
                 "  RC WRITE Only, QP 000016, PSN c906f0, 64 bytes to R_Key 0x000008c8 at "):
        expect("not there: %s in %s" % (what, out), what in out)
    _, out, _ = dump("-", data=rxe("rxe_cm_refused"))
    expect(out, ": CM REJ, id " in out and " (8)" in out)
    _, out, _ = dump("-", data=rxe("rxe_badread"))
    expect(out, ", NAK remote access error, MSN " in out)


def test_dump_roce_the_middle_of_a_message_is_one_line():
    data = rxe("rxe_rc")
    middle = [r for r in packets(data) if r[16 + 14 + 28] in (0x01, 0x07, 0x0e)]
    _, out, _ = dump("-", data=data)
    lines = [l for l in out.splitlines() if " Middle, " in l]
    folded = sum(int(l.split(" packets")[0].rsplit(" ", 1)[1]) if " packets" in l else 1
                 for l in lines)
    expect(out, len(middle) == folded and len(lines) < len(middle))


def test_dump_roce_tells_a_wrong_icrc_and_what_is_cut_off():
    data = rxe("rxe_write")
    records = list(packets(data))
    for i in (0, len(records) - 1):
        bad = bytearray(records[i])
        bad[-1] ^= 1
        status, out, _ = dump("-", data=data[:FRAME_AT] + b"".join(
            records[:i] + [bytes(bad)] + records[i + 1:]))
        expect(out, status == 1 and out.count("**") == 1 and "  ** its ICRC is wrong\n" in out)
        short = bad[:8] + (len(bad) - 16 - 4).to_bytes(4, "little") + bad[12:-4]
        status, out, _ = dump("--quiet", "-", data=data[:FRAME_AT] + bytes(short))
        expect(out, status == 1 and "  ** 4 bytes are missing from the capture\n" in out)


def test_dump_roce_that_is_none():
    """A packet of UDP to port 4791, as raw IP, without an ICRC."""
    udp = bytes.fromhex("c00012b700140000") + bytes(12)
    ip = bytes.fromhex("450000280000400040110000" "0a0000010a000002") + udp
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000")
    size = len(ip).to_bytes(4, "little")
    status, out, _ = dump("-", data=head + bytes(8) + size + size + ip)
    expect(out, status == 1 and "10.0.0.1 > 10.0.0.2  ** " in out and "\n1 problem\n" in out)


def test_dump_says_what_is_wrong_with_a_file():
    for path, why in (("/nonexistent", "cannot be opened"), (sys.argv[0], "is not a capture"),
                      ("/", "is not a capture")):
        status, out, err = dump(path)
        expect(err, status == 1 and out == "" and err.count("\n") == 1)
        expect(err, err.startswith("weft dump: %s %s" % (path, why)))
    status, out, err = dump("-", data=b"")
    expect(err, status == 1 and out == "" and err.count("\n") == 1)


def test_dump_arguments():
    status, out, err = dump("--help")
    expect(out, status == 0 and out.startswith("usage: weft dump ") and err == "")
    for args in ([], ["--what", "x"], ["a", "b"]):
        status, out, err = dump(*args)
        expect(err, status == 2 and out == "" and "usage: weft dump " in err)


def main():
    is_good = True
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print("ok " + name)
        except AssertionError as why:
            print("not ok %s: %s" % (name, str(why).replace("\n", " | ")))
            is_good = False
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
