# SPDX-License-Identifier: BSD-2-Clause
"""An initiator that says whatever a test wants it to: PDUs of RFC 7143 over a socket."""
import hashlib
import re
import socket
import struct
import time

NAME = "iqn.2026-11.org.example:attacker"
PATIENCE_S = 60
NONE = 0xffffffff
NOP_OUT, COMMAND, MANAGE, LOGIN, TEXT, DATA_OUT, LOGOUT, SNACK = 0, 1, 2, 3, 4, 5, 6, 16
NOP_IN, RESPONSE, MANAGED, LOGGED_IN, TEXT_BACK, DATA_IN, LOGGED_OUT, R2T, ASYNC, REJECT = \
    0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x31, 0x32, 0x3f
IMMEDIATE, FINAL, READ, WRITE = 0x40, 0x80, 0x40, 0x20
GOOD, CHECK_CONDITION = 0, 2


class Gone(Exception):
    """The target has closed the connection."""


class Pdu:
    def __init__(self, header, data):
        self.header, self.data, self.opcode = header, data, header[0] & 0x3f
        self.flags, self.status = header[1], header[3]
        self.itt, self.ttt = struct.unpack(">II", header[16:24])
        self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn = struct.unpack(">III", header[24:36])

    def sense(self):
        """Key, code and qualifier."""
        return (self.data[4] & 15, self.data[14], self.data[15]) if len(self.data) > 15 else None


def text(**pairs):
    return b"".join(b"%s=%s\0" % (k.encode(), v.encode()) for k, v in pairs.items())


def cdb(opcode, lba, blocks):
    return struct.pack(">BBIBHB", opcode, 0, lba, 0, blocks, 0)


class Initiator:
    """A connection. Context manager: closed at the end."""

    def __init__(self, port, target=None, isid=1, address="127.0.0.1"):
        self.socket = socket.create_connection((address, port), timeout=PATIENCE_S)
        self.target, self.isid = target, struct.pack(">BHBH", 0x40, 0, 0, isid)
        self.has_data_digest, self.answers_pings = False, True
        self.cmd_sn, self.stat_sn, self.itt, self.buffer = 1, 0, 0, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, opcode, flags, rest, data=b"", itt=None, eight=bytes(8), ahs=b"", said=None):
        """rest: from byte 20 on; eight: bytes 8 to 15; said: the length of the data as announced."""
        length = len(data) if said is None else said
        header = struct.pack(">BBHI", opcode, flags, 0, length | len(ahs) // 4 << 24) + eight
        header += struct.pack(">I", self.itt if itt is None else itt) + rest
        header += bytes(48 - len(header))
        self.socket.sendall(header + ahs + data + bytes(-len(data) % 4))

    def bytes_of(self, count):
        while len(self.buffer) < count:
            try:
                piece = self.socket.recv(1 << 20)
            except ConnectionError:
                piece = b""
            if not piece:
                raise Gone("after %d bytes" % len(self.buffer))
            self.buffer += piece
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def take(self):
        """The next PDU."""
        header = self.bytes_of(48)
        length = int.from_bytes(header[5:8], "big")
        data = self.bytes_of(header[4] * 4 + length + -length % 4)[header[4] * 4:]
        if self.has_data_digest and length:
            self.bytes_of(4)
        pdu = Pdu(header, data[:length])
        self.stat_sn = pdu.stat_sn - (pdu.opcode in (R2T, NOP_IN) and pdu.itt == NONE)
        if pdu.opcode == NOP_IN and pdu.ttt != NONE and self.answers_pings:
            self.send(NOP_OUT | IMMEDIATE, FINAL, struct.pack(">I", pdu.ttt) + self.numbers(), itt=NONE,
                      eight=header[8:16])
            return self.take()
        return pdu

    def take_only(self, opcode):
        pdu = self.take()
        if pdu.opcode != opcode:
            raise AssertionError("PDU %#x, not %#x" % (pdu.opcode, opcode))
        return pdu

    def is_closed(self):
        """Reads what comes until the target closes. False: it does not."""
        end_s = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < end_s:
                self.take()
        except (Gone, ConnectionError):
            return True
        return False

    # ---- Login ----------------------------------------------------------------------------------

    def ask_to_log_in(self, data, stages=0x87, tsih=0):
        """One Login Request (0x87: from the operational stage to the full feature phase), and its answer."""
        self.itt += 1
        self.send(LOGIN | IMMEDIATE, stages, struct.pack(">HHII", 0, 0, self.cmd_sn, self.stat_sn + 1), data,
                  eight=self.isid + struct.pack(">H", tsih))
        return self.take_only(LOGGED_IN)

    def names(self):
        return text(InitiatorName=NAME, **({"TargetName": self.target} if self.target else
                                           {"SessionType": "Discovery"}))

    def log_in(self, **keys):
        answer = self.ask_to_log_in(self.names() + text(**keys))
        if answer.header[36]:
            raise AssertionError("login status %02x%02x" % tuple(answer.header[36:38]))
        self.has_data_digest = keys.get("DataDigest") == "CRC32C"
        return self

    def challenge(self):
        """As far as the target's challenge: (identifier, bytes, text)."""
        self.ask_to_log_in(self.names() + text(AuthMethod="CHAP"), 0x00)
        said = self.ask_to_log_in(text(CHAP_A="5"), 0x00).data.decode()
        number = int(re.search(r"CHAP_I=(\d+)", said)[1])
        return number, bytes.fromhex(re.search(r"CHAP_C=0x([0-9a-f]+)", said)[1]), said

    # ---- The full feature phase -----------------------------------------------------------------

    def numbers(self, cmd_sn=None):
        return struct.pack(">II", self.cmd_sn if cmd_sn is None else cmd_sn, self.stat_sn + 1)

    def command(self, block, expected=0, flags=0, data=b"", cmd_sn=None, lun=0, **more):
        """A SCSI Command; its Initiator Task Tag."""
        self.itt += 1
        self.send(COMMAND, FINAL | flags, struct.pack(">I", expected) + self.numbers(cmd_sn) +
                  block.ljust(16, b"\0"), data, eight=struct.pack(">HHI", lun, 0, 0), **more)
        if cmd_sn is None:
            self.cmd_sn += 1
        return self.itt

    def read(self, lba, blocks, **more):
        return self.command(cdb(0x28, lba, blocks), 512 * blocks, READ, **more)

    def write(self, lba, blocks, data=b"", **more):
        return self.command(cdb(0x2a, lba, blocks), 512 * blocks, WRITE, data, **more)

    def data_out(self, itt, ttt, data_sn, offset, data, flags=FINAL):
        self.send(DATA_OUT, flags, struct.pack(">IIIIII", ttt, 0, self.stat_sn + 1, 0, data_sn, offset), data,
                  itt=itt)

    def ping(self, data=b"", cmd_sn=None):
        self.itt += 1
        self.send(NOP_OUT | IMMEDIATE, FINAL, struct.pack(">I", NONE) + self.numbers(cmd_sn), data)

    def answer(self):
        """Status and data of the command that is answered next; gives what R2Ts ask for."""
        data = b""
        while True:
            pdu = self.take()
            if pdu.opcode == R2T:
                offset, length = struct.unpack(">II", pdu.header[40:48])
                self.data_out(pdu.itt, pdu.ttt, 0, offset, b"\xee" * length)
            elif pdu.opcode == DATA_IN:
                data += pdu.data
                if pdu.flags & 1:
                    return pdu, data
            elif pdu.opcode == RESPONSE:
                return pdu, data

    def ready(self):
        """Takes the unit attention of a new session."""
        while True:
            self.command(bytes(6))
            if self.answer()[0].status == GOOD:
                return self


def chap_response(number, secret, challenge):
    return hashlib.md5(bytes([number]) + secret.encode() + challenge).hexdigest()
