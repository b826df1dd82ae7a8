# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs for scripts, by iser_wire.c: initiators and targets by iSER (RFC 7145) that say what a test wants."""
import queue
import struct
import subprocess
import threading

from initiator import NAME, NOP_IN, PATIENCE_S, Gone, Initiator, text
from liar import FINAL, UNDERFLOW, Connection, Liar

HEADER, SHORT_HEADER = 28, 12
WSV, RSV, CONTROL, HELLO, HELLO_REPLY = 0x08, 0x04, 0x10, 0x20, 0x30
KEYS = {"RDMAExtensions": "Yes", "TargetRecvDataSegmentLength": "8192", "InitiatorRecvDataSegmentLength": "8192"}


class Wire:
    """program: iser_wire; wire: roce or iwarp. to: a port, else it listens."""

    def __init__(self, program, wire, to=None):
        words = ["dial", "127.0.0.1:%d" % to] if to else ["listen"]
        self.process = subprocess.Popen([program, wire, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.lines, self.why = queue.Queue(), None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.read_tag, self.write_tag, self.address = map(int, self.next("lent"))
        self.port = None if to else int(self.next("port")[0])

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["down", "the_process_ended"])

    def next(self, *wanted):
        """The rest of the next line that begins so; others are left out. Gone: the connection has ended instead."""
        while True:
            try:
                word, *rest = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError("none of %s comes" % (wanted,)) from None
            if word in wanted:
                return rest
            if word == "down":
                self.why = rest[0]
                raise Gone(rest[0])

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def send(self, message, invalidated=None):
        self.say("send", message.hex() or "-", *([] if invalidated is None else [invalidated]))

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()


def header(kind=CONTROL, write=None, read=None):
    """write, read: (STag, offset) of what the target may read, and write."""
    flags = kind | (WSV if write else 0) | (RSV if read else 0)
    return struct.pack(">B3xIQIQ", flags, *(write or (0, 0)), *(read or (0, 0)))


class Messages:
    """Stands for the socket of a connection: PDUs with iSER headers in front."""

    def __init__(self, wire):
        self.wire, self.next_header, self.invalidated = wire, None, None
        self.got = b""  # the iSER header of what came last

    def sendall(self, pdu):
        self.wire.send((self.next_header or header()) + pdu, self.invalidated)
        self.next_header = self.invalidated = None

    def recv(self, _):
        message = bytes.fromhex(self.wire.next("got")[0])
        self.got = message[:HEADER]
        # Padding is left out of a Send.
        return message[HEADER:] + bytes(-len(message) % 4)

    def tag(self, is_read):
        """(STag, offset) of the command that came last."""
        return struct.unpack(">IQ", self.got[16:28] if is_read else self.got[4:16])

    def close(self):
        self.wire.close()


class IserInitiator(Initiator):
    def __init__(self, program, wire, port, target=None, isid=1):  # pylint: disable=super-init-not-called
        self.wire = Wire(program, wire, port)
        self.wire.next("up")
        self.socket = Messages(self.wire)
        self.target, self.isid = target, struct.pack(">BHBH", 0x40, 0, 0, isid)
        self.has_data_digest, self.answers_pings = False, True
        self.cmd_sn, self.stat_sn, self.itt, self.buffer = 1, 0, 0, b""

    def names(self):
        return text(InitiatorName=NAME, TargetName=self.target)

    def log_in(self, **keys):
        return super().log_in(**{**KEYS, **keys})

    def reads_into(self, tag, offset=0):
        """Of the next command."""
        self.socket.next_header = header(read=(tag, self.wire.address + offset))
        return self

    def writes_from(self, tag, offset=0):
        self.socket.next_header = header(write=(tag, self.wire.address + offset))
        return self

    def memory(self, length):
        self.wire.say("show", length)
        return bytes.fromhex(self.wire.next("memory")[0])

    def end_or_ping(self):
        """Until the target has taken what was sent: it answers, or ends the connection."""
        try:
            self.ping()
            while self.take().opcode != NOP_IN:
                pass
        except Gone:
            pass

    def end(self):
        """Why the connection ended."""
        try:
            while True:
                self.take()
        except Gone as why:
            return str(why)


class IserConnection(Connection):
    """That of a target: data goes by RDMA Write."""

    def write(self, data):
        """Into the memory of the command that came last."""
        tag, address = self.socket.tag(True)
        for at in range(0, len(data), 4096):
            self.socket.wire.say("put", data[at:at + 4096].hex())
            self.socket.wire.say("write", tag, address + at, len(data[at:at + 4096]))
            self.done("ok")

    def done(self, *wanted):
        """How what was asked for last has ended."""
        reason = self.socket.wire.next("done")[0]
        if reason not in wanted and wanted:
            raise AssertionError("it ended with %s" % reason)
        return reason

    def send(self, *words, **more):
        super().send(*words, **more)
        self.socket.wire.next("done")

    def reply(self, command, data):
        want = int.from_bytes(command[20:24], "big")
        data = data[:want]
        self.write(data)
        self.respond(command, 0, FINAL | (UNDERFLOW if len(data) < want else 0), want - len(data))


class IserLiar(Liar):
    """lie(connection, header, length) as a Liar's."""

    def __init__(self, program, wire, lie):  # pylint: disable=super-init-not-called
        self.lie, self.last, self.block, self.connections = lie, 2047, 512, 0
        self.wire = Wire(program, wire)
        self.url = "iser://127.0.0.1:%d/iqn.2026-11.org.example:liar/0?wire=%s" % (self.wire.port, wire)
        self.login, self.answers, self.failed, self.held = None, {}, None, []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __exit__(self, *_):
        self.wire.close()
        self.thread.join(PATIENCE_S)

    def accept(self):
        while True:
            try:
                self.wire.next("up")
                self.connections += 1
                IserConnection(self, Messages(self.wire)).serve()
            except Gone as why:
                if str(why) == "the_process_ended":
                    return
            except AssertionError as why:
                self.failed = why
