#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""weft dump as a person meets it.

    dump_test.py WEFT GOLDEN_DIR

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

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


# --- iSCSI ---------------------------------------------------------------------------------------

PCAP_RAW_IP = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000")
ISCSI = """\
connection 1: A is 10.0.0.1:40000, B is 10.0.0.2:3260
    0.000002  1 A>B  Login Request, ITT 0x00000001, immediate, stage operational to full feature, \
ISID 800000000001, TSIH 0, CID 1, 52 bytes, CmdSN 1, ExpStatSN 0
    0.000003  1 B>A  Login Response, ITT 0x00000001, stage operational to full feature, \
ISID 800000000001, TSIH 1, status 0000, 38 bytes, StatSN 1, ExpCmdSN 1, MaxCmdSN 32
    0.000004  1 A>B  SCSI Command, ITT 0x00000002, LUN 0001000000000000, final, R, simple, \
CDB 28000000000800000100000000000000, expects 5 bytes, CmdSN 1, ExpStatSN 2
    0.000005  1 B>A  SCSI Data-In, ITT 0x00000002, final, status 0x00, 5 bytes, at 0, DataSN 0, \
StatSN 2, ExpCmdSN 2, MaxCmdSN 33
1 iSCSI connection, 4 PDUs
all iSCSI traffic decoded
"""


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return (crc ^ 0xffffffff).to_bytes(4, "little")


def pdu(header, data=b"", has_digests=False):
    """The header in hexadecimal digits, of the layouts of RFC 7143; its data length is filled in."""
    head = bytearray(bytes.fromhex(header))
    head[5:8] = len(data).to_bytes(3, "big")
    padded = data + bytes(-len(data) % 4)
    if not has_digests:
        return bytes(head) + padded
    return bytes(head) + crc32c(head) + (padded + crc32c(padded) if data else b"")


def iscsi_session(offer=b"CRC32C,None", answer=b"CRC32C"):
    """(from the initiator, bytes), of a session with one read."""
    on = b"CRC32C" in answer
    login = b"HeaderDigest=%s\0DataDigest=%s\0X=1\0"
    return [
        (True, pdu("43870000 00000000 800000000001 0000 00000001 00010000 00000001 00000000" + "0" * 32,
                   login % (offer, offer))),
        (False, pdu("23870000 00000000 800000000001 0001 00000001 00000000 00000001 00000001 00000020" +
                    "0" * 24, (login % (answer, answer))[:-4])),
        (True, pdu("01c10000 00000000 0001000000000000 00000002 00000005 00000001 00000002"
                   "28000000 00080000 01000000 00000000", b"", on)),
        (False, pdu("25810000 00000000 0000000000000000 00000002 ffffffff 00000002 00000002 00000021"
                    "00000000 00000000 00000000", b"12345", on)),
    ]


def iscsi_capture(said, port=3260, has_syn=True):
    """The session as a capture of IPv4, a packet a microsecond."""
    seq, out, number = {True: 1000, False: 2000}, PCAP_RAW_IP, 0
    segments = [(True, 0x02, b""), (False, 0x12, b"")] if has_syn else []
    for is_initiator, flags, data in segments + [(who, 0x18, data) for who, data in said]:
        ends = (40000, port) if is_initiator else (port, 40000)
        tcp = (ends[0].to_bytes(2, "big") + ends[1].to_bytes(2, "big") +
               seq[is_initiator].to_bytes(4, "big") + seq[not is_initiator].to_bytes(4, "big") +
               bytes([0x50, flags]) + bytes(6) + data)
        addresses = [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]
        ip = (bytes.fromhex("4500") + (20 + len(tcp)).to_bytes(2, "big") + bytes.fromhex("0000400040060000") +
              b"".join(addresses if is_initiator else addresses[::-1]) + tcp)
        size = len(ip).to_bytes(4, "little")
        out += bytes(4) + number.to_bytes(4, "little") + size + size + ip
        seq[is_initiator] += len(data) + (flags & 2) // 2
        number += 1
    return out


def test_dump_iscsi_in_words():
    status, out, err = dump("-", data=iscsi_capture(iscsi_session()))
    expect(out, status == 0 and err == "" and out == ISCSI)
    status, out, _ = dump("--quiet", "-", data=iscsi_capture(iscsi_session()))
    expect(out, status == 0 and out == "1 iSCSI connection, 4 PDUs\nall iSCSI traffic decoded\n")


def test_dump_iscsi_digests_are_what_the_login_agreed_on():
    for offer, answer in ((b"None", b"None"), (b"CRC32C,None", b"None"), (b"None,CRC32C", b"CRC32C")):
        status, out, _ = dump("-", data=iscsi_capture(iscsi_session(offer, answer)))
        expect(out, status == 0 and "\n1 iSCSI connection, 4 PDUs\n" in out)


def test_dump_iscsi_commands_captured_before_the_answer_to_the_login():
    """As a capture of several queues may have them: digests are known only with the answer."""
    said = iscsi_session()
    status, out, _ = dump("-", data=iscsi_capture([said[0], said[2], said[1], said[3]]))
    expect(out, status == 0 and "\n1 iSCSI connection, 4 PDUs\n" in out)


def test_dump_iscsi_tells_wrong_digests_where_they_are():
    for which, at, what in ((2, 47, "The header of an iSCSI PDU does not fit its digest"),
                            (3, 53, "The data segment of an iSCSI PDU does not fit its digest"),
                            (3, 58, "The data segment of an iSCSI PDU does not fit its digest")):
        said = iscsi_session()
        bad = bytearray(said[which][1])
        bad[at] ^= 1
        said[which] = said[which][0], bytes(bad)
        status, out, _ = dump("-", data=iscsi_capture(said))
        lines = [l for l in out.splitlines() if "**" in l]
        expect(out, status == 1 and len(lines) == 1 and "ITT 0x00000002" in lines[0] and what in lines[0])


def test_dump_iscsi_what_is_refused_and_what_is_no_pdu():
    said = iscsi_session(b"None", b"None")
    said[2] = True, b"\x01\x01" + said[2][1][2:]
    status, out, _ = dump("-", data=iscsi_capture(said))
    expect(out, status == 1 and "A>B  ** The flags of an iSCSI PDU" in out and "4 PDUs" in out)
    said[2] = True, b"\x1c" + said[2][1][1:]
    status, out, _ = dump("-", data=iscsi_capture(said))
    expect(out, status == 1 and "an opcode that is unknown" in out and "3 PDUs" in out)
    expect(out, "\n48 bytes of iSCSI could not be decoded\n" in out)
    said.append((True, iscsi_session(b"None", b"None")[2][1]))
    status, out, _ = dump("-", data=iscsi_capture(said))
    expect(out, status == 1 and "3 PDUs" in out and "\n96 bytes of iSCSI could not be decoded\n" in out)


def test_dump_iscsi_in_pieces_and_cut_off():
    said = iscsi_session()
    pieces = [(who, data[i:i + 7]) for who, data in said for i in range(0, len(data), 7)]
    status, out, _ = dump("-", data=iscsi_capture(pieces))
    expect(out, status == 0 and "\n1 iSCSI connection, 4 PDUs\n" in out)
    status, out, _ = dump("-", data=iscsi_capture(pieces[:-1]))
    expect(out, status == 1 and "B>A  ** the stream ends inside a PDU, after 63 bytes of it\n" in out)
    status, out, _ = dump("-", data=iscsi_capture(pieces[:-2] + pieces[-1:]))
    expect(out, status == 1 and "3 PDUs" in out)


def test_dump_iscsi_that_began_before_the_capture():
    said = iscsi_session(b"None", b"None")[2:]
    status, out, _ = dump("-", data=iscsi_capture(said, has_syn=False))
    expect(out, status == 0 and "\n1 iSCSI connection, 2 PDUs\n" in out and "A is 10.0.0.1:40000" in out)


def test_dump_iscsi_on_another_port():
    data = iscsi_capture(iscsi_session(), port=3999)
    status, out, _ = dump("-", data=data)
    expect(out, status == 0 and out == "no iWARP connection\n1 other TCP connection\n")
    status, out, _ = dump("--iscsi", "3999", "-", data=data)
    expect(out, status == 0 and out == ISCSI.replace("3260", "3999"))
    status, out, _ = dump("--iscsi", "0", "-", data=iscsi_capture(iscsi_session()))
    expect(out, status == 0 and "1 other TCP connection\n" in out)
    for port in ("65536", "x", "-1", ""):
        status, out, err = dump("--iscsi", port, "-", data=data)
        expect(err, status == 2 and out == "" and "usage: weft dump " in err)


def test_dump_iscsi_every_packet_left_out():
    data = iscsi_capture(iscsi_session())
    records = list(packets(data))
    for i in range(2, len(records)):
        rest = data[:FRAME_AT] + b"".join(records[:i] + records[i + 1:])
        status, out, err = dump("-", data=rest)
        expect("packet %d: %s" % (i + 1, out), err == "" and "4 PDUs" not in out)


def mads():
    """Datagrams of Debian's opensm, infiniband-diags and ibsim, by name."""
    with open(os.path.join(GOLDEN, "opensm", "mads.txt"), encoding="utf-8") as f:
        lines = [l.split() for l in f if not l.startswith("#")]
    return {name: bytes.fromhex(bytes_).ljust(256, b"\0") for name, bytes_ in lines}


def vcrc(data):
    crc = 0xffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xd008 if crc & 1 else 0)
    return (crc ^ 0xffff).to_bytes(2, "little")


def fabric_frame(mad):
    """A UD Send to QP 0, or of other classes than subnet management to QP 1."""
    qpn = 0 if mad[1] in (0x01, 0x81) else 1
    head = bytes.fromhex("f0020001" "0048" "0002" "6400ffff") + bytes([0, 0, 0, qpn]) + bytes(4) + \
        bytes.fromhex("80010000") + bytes([0, 0, 0, qpn])
    masked = bytearray(head + mad)
    masked[12] = 0xff
    whole = head + mad + zlib.crc32(masked).to_bytes(4, "little")
    return whole + vcrc(whole)


def fabric_capture(frames, link=247):
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff0000") + link.to_bytes(4, "little")
    return head + b"".join(bytes(8) + len(f).to_bytes(4, "little") * 2 + f for f in frames)


def erf_capture(frames, kind=21, extensions=0):
    """Records of ERF: the only form in which Wireshark reads frames of InfiniBand."""
    more = b"".join(bytes([0x81 if i + 1 < extensions else 1]) + bytes(7) for i in range(extensions))
    return fabric_capture([
        bytes(8) + bytes([kind | (0x80 if extensions else 0), 4]) +
        (16 + len(more) + len(f)).to_bytes(2, "big") + bytes(2) + len(f).to_bytes(2, "big") + more + f
        for f in frames], 197)


def test_dump_frames_of_a_fabric_in_words():
    status, out, err = dump("-", data=fabric_capture([fabric_frame(m) for m in mads().values()]))
    expect(out, status == 0 and err == "" and "**" not in out)
    expect(out, out.endswith("\n%d frames of a fabric\nall RDMA traffic decoded\n" % len(mads())))
    for what in ("LID 2 > 1, lane 15, level 0  UD SEND Only, QP 000000, PSN 000000, from QP 000000, ",
                 ": SMP Get NodeInfo 0x0, id ", ", at hop 0 of 1,", ": SMP GetResp NodeInfo 0x0, id ",
                 ": SMP Set LinearForwardingTable 0x0, id ", ": SMP Trap Notice 0x0, id ",
                 ", is_generic 1, type 4, producer 1, trap 144, issuer 1",
                 ": performance GetResp PortCounters 0x0, id ",
                 ": performance Get PortCountersExtended 0x0, id ",
                 ": SMP Set SLtoVLMappingTable ", ", lanes 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7"):
        expect("not there: %s in %s" % (what, out), what in out)


def test_dump_frames_of_a_fabric_as_tshark_has_them():
    """LIDs, lanes and attributes are those that Wireshark finds."""
    if not shutil.which("tshark"):
        print("skip test_dump_frames_of_a_fabric_as_tshark_has_them: there is no tshark")
        return
    names = [n for n, m in mads().items() if m[1] in (0x01, 0x81)]
    data = erf_capture([fabric_frame(mads()[n]) for n in names])
    fields = ("infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.mad.method",
              "infiniband.mad.attributeid", "infiniband.mad.transactionid")
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:  # tshark reads no capture from a pipe
        file.write(data)
        file.flush()
        done = subprocess.run(["tshark", "-r", file.name, "-T", "fields"] +
                              [w for f in fields for w in ("-e", f)], stdout=subprocess.PIPE)
    _, out, _ = dump("-", data=data)
    methods = {1: "Get", 2: "Set", 5: "Trap", 0x81: "GetResp"}
    attributes = {0x02: "Notice", 0x10: "NodeDescription", 0x11: "NodeInfo", 0x12: "SwitchInfo",
                  0x15: "PortInfo", 0x16: "P_KeyTable", 0x17: "SLtoVLMappingTable",
                  0x18: "VLArbitrationTable", 0x19: "LinearForwardingTable", 0x20: "SMInfo"}
    rows = done.stdout.decode().splitlines()
    expect("%d rows" % len(rows), len(rows) == len(names))
    for name, row, line in zip(names, rows, out.splitlines()):
        values = [int(v, 0) for v in row.split("\t")]
        words = "SMP %s %s 0x" % (methods[values[2]], attributes[values[3]])
        expect("%s: %s, %s" % (name, row, line), "LID %d > %d," % (values[0], values[1]) in line and
               words in line and ", id %x" % values[4] in line)


def test_dump_tells_what_is_wrong_with_frames_of_a_fabric():
    good = fabric_frame(mads()["opensm_set_port_info"])
    reserved, value, route = (bytearray(mads()["opensm_set_port_info"]) for _ in range(3))
    reserved[40] = 1  # of the packet
    value[64 + 32] = 5  # the state of a port
    route[7] = 64  # hops
    broken = bytearray(good)
    broken[100] ^= 1
    for frame, why in ((broken, "The variant CRC of a frame is wrong: the last link damaged it."),
                       (broken[:-2] + vcrc(broken[:-2]), "The invariant CRC of a frame is wrong: "),
                       (good[:-4], "A frame of the fabric is not as long as its local route header says"),
                       (fabric_frame(reserved), "reserved bits are set"),
                       (fabric_frame(value), "A field of a management attribute has a value that is "),
                       (fabric_frame(route), "A directed route has more than 63 hops, or ")):
        status, out, _ = dump("--quiet", "-", data=fabric_capture([bytes(frame)]))
        expect("%s: %s" % (why, out), status == 1 and "** " + why in out)
    status, out, _ = dump("-", data=erf_capture([good], extensions=2))
    expect(out, status == 0 and "1 frame of a fabric" in out)
    status, out, _ = dump("-", data=erf_capture([good], kind=2))
    expect(out, status == 0 and "1 packet of other protocols" in out)
    status, out, _ = dump("-", data=fabric_capture([bytes(15)], 197))
    expect(out, "1 packet with broken headers" in out)
    record = bytearray(erf_capture([good]))
    record[FRAME_AT + 16 + 15] += 2
    status, out, _ = dump("-", data=bytes(record))
    expect(out, status == 1 and "** 2 bytes are missing from the capture" in out)
    record = bytearray(fabric_capture([good]))
    record[FRAME_AT + 12] += 3
    status, out, _ = dump("-", data=bytes(record))
    expect(out, status == 1 and "** 3 bytes are missing from the capture" in out)


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
