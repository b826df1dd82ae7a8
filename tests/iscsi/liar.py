# SPDX-License-Identifier: BSD-2-Clause
"""A target that tells the truth but where a test makes it lie: a disk of 1 MiB, PDUs of RFC 7143 over a socket."""
import socket
import struct
import threading

NONE = b"\xff\xff\xff\xff"
BLOCKS, BLOCK = 2048, 512
BYTES = b"\xd5"
FINAL, STATUS, UNDERFLOW = 0x80, 1, 2
LOGIN, COMMAND, LOGOUT, NOP_OUT, DATA_OUT = 3, 1, 6, 0, 5
ANSWERS = {"InitialR2T": "Yes", "ImmediateData": "No", "HeaderDigest": "None", "DataDigest": "None",
           "AuthMethod": "None", "ErrorRecoveryLevel": "0", "iSCSIProtocolLevel": "1"}
ASYNC = 0x32
DECLARED = ("InitiatorName", "TargetName", "SessionType", "InitiatorAlias", "MaxRecvDataSegmentLength")


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xffffffff)


class Connection:
    """One connection, of which a lie has the calls."""

    def __init__(self, liar, taken):
        self.liar, self.socket, self.stat_sn, self.exp_cmd_sn, self.buffer = liar, taken, 1, 1, b""
        self.is_new, self.has_digests, self.flips = True, False, ""

    def digest(self, what, data):
        """Behind a header, or data; a wrong one if that is what it flips next."""
        if not self.has_digests or not data:
            return b""
        is_wrong = self.flips == what
        self.flips = "" if is_wrong else self.flips
        return bytes(4) if is_wrong else crc32c(data)

    def bytes_of(self, count):
        while len(self.buffer) < count:
            piece = self.socket.recv(1 << 18)
            if not piece:
                raise ConnectionError
            self.buffer += piece
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def take(self):
        header = self.bytes_of(48)
        length = int.from_bytes(header[5:8], "big")
        digest = 4 if self.has_digests else 0
        self.bytes_of(4 * header[4] + digest)
        data = self.bytes_of(length + -length % 4 + (digest if length else 0))
        return header, data[:length]

    def send(self, opcode, flags, itt=NONE, tag=NONE, rest=b"", data=b"", status=0, counts=True, said=None):
        """tag: bytes 20 to 23; rest: from byte 36 on; said: the length that the header has."""
        header = struct.pack(">BBBBI", opcode, flags, 0, status, len(data) if said is None else said) + bytes(8)
        header += itt + tag + struct.pack(">III", self.stat_sn, self.exp_cmd_sn, self.exp_cmd_sn + 63)
        self.stat_sn += counts
        header += rest.ljust(12, b"\0")
        data += bytes(-len(data) % 4)
        self.socket.sendall(header + self.digest("header", header) + data + self.digest("data", data))

    def answer_login(self, header, flags, said, status=0):
        numbers = struct.pack(">III", self.stat_sn, self.exp_cmd_sn, self.exp_cmd_sn + 63)
        self.stat_sn += 1
        self.socket.sendall(struct.pack(">BBHI", 0x23, flags, 0, len(said)) + header[8:14] + b"\0\1" + header[16:20] +
                            bytes(4) + numbers + struct.pack(">H", status) + bytes(10) + said + bytes(-len(said) % 4))

    def log_in(self, header, data):
        self.exp_cmd_sn = int.from_bytes(header[24:28], "big")
        if self.liar.login:
            self.liar.login(self, header, data)
            return
        self.agree(header, data)

    def agree(self, header, data):
        pairs = [line.split("=", 1) for line in data.decode().split("\0") if line]
        answers = dict(ANSWERS, **self.liar.answers)
        said = "".join("%s=%s\0" % (key, answers.get(key, value)) for key, value in pairs if key not in DECLARED)
        if self.is_new:
            said += "TargetPortalGroupTag=1\0"
        self.is_new = False
        self.answer_login(header, header[1], said.encode())
        # From the full feature phase on.
        self.has_digests = header[1] & 0x83 == 0x83 and "HeaderDigest" in self.liar.answers

    def tell(self, event, *parameters):
        """An asynchronous message."""
        self.send(ASYNC, FINAL, NONE, NONE, struct.pack(">BBHHH", event, 0, *parameters))

    def respond(self, command, status=0, flags=FINAL, residual=0, sense=b""):
        data = struct.pack(">H", len(sense)) + sense if sense else b""
        self.send(0x21, flags, command[16:20], bytes(4), struct.pack(">III", 0, 0, residual), data, status)

    def data_in(self, command, data, offset=0, flags=FINAL | STATUS, number=0, itt=None, status=0, said=None):
        self.send(0x25, flags, itt or command[16:20], NONE, struct.pack(">II", number, offset), data, status,
                  bool(flags & STATUS), said)

    def r2t(self, command, offset, length, number=0):
        self.send(0x31, FINAL, command[16:20], b"\0\0\0\7", struct.pack(">III", number, offset, length),
                  counts=False)

    def reply(self, command, data):
        """Parameter data, as much as is wanted."""
        want = int.from_bytes(command[20:24], "big")
        data = data[:want]
        self.send(0x25, FINAL | STATUS | (UNDERFLOW if len(data) < want else 0), command[16:20], NONE,
                  struct.pack(">III", 0, 0, want - len(data)), data)

    def command(self, header):
        cdb = header[32:48]
        if cdb[0] == 0x12 and cdb[1] & 1:
            self.respond(header, 2, sense=bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24]) + bytes(5))
        elif cdb[0] == 0x12:
            self.reply(header, bytes([0, 0, 5, 2, 31, 0, 0, 2]) + b"LIAR    disk            0001")
        elif cdb[0] == 0xa0:
            self.reply(header, struct.pack(">II", 8 * self.liar.luns, 0) + bytes(8))
        elif cdb[0] == 0x25:
            self.reply(header, struct.pack(">II", min(self.liar.last, 0xffffffff), self.liar.block))
        elif cdb[0] == 0x9e:
            self.reply(header, struct.pack(">QI", self.liar.last, self.liar.block) + bytes(20))
        elif cdb[0] == 0x1a:
            self.reply(header, bytes([3, 0, 0, 0]))
        elif cdb[0] in (0x28, 0x88, 0x2a, 0x8a):
            self.liar.lie(self, header, int.from_bytes(header[20:24], "big"))
        elif cdb[0] in (0x00, 0x35, 0x91):
            self.respond(header)
        else:
            self.respond(header, 2, sense=bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20]) + bytes(5))

    def serve(self):
        while True:
            header, data = self.take()
            opcode = header[0] & 0x3f
            if opcode == LOGIN:
                self.log_in(header, data)
                continue
            if not header[0] & 0x40 and opcode != DATA_OUT:
                self.exp_cmd_sn = int.from_bytes(header[24:28], "big") + 1
            if opcode == COMMAND:
                self.command(header)
            elif opcode == LOGOUT:
                self.send(0x26, FINAL, header[16:20], bytes(4))
            elif opcode == NOP_OUT and header[16:20] != NONE:
                self.send(0x20, FINAL, header[16:20], data=data)


class Liar:
    """
    lie(connection, header, length) answers a READ or a WRITE of so many bytes, login(connection, header, text) a Login
    Request. last: the last block that it says; answers: to keys; is_parallel: several connections at a time.
    """

    def __init__(self, lie, last=BLOCKS - 1, block=BLOCK, login=None, answers=None, is_parallel=False):
        self.lie, self.last, self.block, self.connections = lie, last, block, 0
        self.luns = 1  # that it says to have
        self.login, self.answers, self.held, self.is_parallel = login, answers or {}, [], is_parallel
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "iscsi://127.0.0.1:%d/iqn.2026-11.org.example:liar/0" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def accept(self):
        while True:
            try:
                taken = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            if self.is_parallel:
                threading.Thread(target=self.serve, args=(taken,), daemon=True).start()
            else:
                self.serve(taken)

    def serve(self, taken):
        with taken:
            try:
                Connection(self, taken).serve()
            except ConnectionError:
                pass
