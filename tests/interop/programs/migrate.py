#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Migrates a guest of QEMU from one process to another by RDMA, while it works in its memory.

    migrate.py FOLDER ADDRESS PORT [--pin-all] [--paused]

The guest is a boot sector. It fills 16 MiB, and from then on looks at every word, writes the next value,
and sends a dot to the serial port for each pass over all; a word that is not what it wrote is an E,
and its end. --paused stops it for the time of the migration. Prints how it went; the exit status is 0 if the guest arrived and found all in place.
"""
import json
import os
import socket
import subprocess
import sys
import time

# 16 bits: on to 32 bits and flat segments.
GUEST = """
    fa 31 c0 8e d8              cli; xor %ax, %ax; mov %ax, %ds
    66 0f 01 16 80 7c           lgdtl gdtr
    0f 20 c0 0c 01 0f 22 c0     mov %cr0, %eax; or $1, %al; mov %eax, %cr0
    66 ea 1b 7c 00 00 08 00     ljmpl $8, $1f
    66 b8 10 00                 1: mov $16, %ax
    8e d8 8e c0 8e d0           mov %ax, %ds; mov %ax, %es; mov %ax, %ss
    66 ba f8 03 31 ed           mov $0x3f8, %dx; xor %ebp, %ebp       the pass
    bf 00 00 00 01              mov $0x1000000, %edi
    89 3f 83 c7 04              fill: mov %edi, (%edi); add $4, %edi
    81 ff 00 00 00 02 72 f3     cmp $0x2000000, %edi; jb fill
    bf 00 00 00 01              pass: mov $0x1000000, %edi
    8d 04 2f 3b 07 75 14        word: lea (%edi,%ebp), %eax; cmp (%edi), %eax; jne wrong
    40 89 07 83 c7 04           inc %eax; mov %eax, (%edi); add $4, %edi
    81 ff 00 00 00 02 72 eb     cmp $0x2000000, %edi; jb word
    45 b0 2e ee eb e0           inc %ebp; mov $'.', %al; out %al, (%dx); jmp pass
    b0 45 ee                    wrong: mov $'E', %al; out %al, (%dx)
    f4 eb fd                    halt: hlt; jmp halt
    00 00 00 00 00              to a multiple of 8
    00 00 00 00 00 00 00 00     gdt: none
    ff ff 00 00 00 9a cf 00     code
    ff ff 00 00 00 92 cf 00     data
    17 00 68 7c 00 00           gdtr: its size less 1, its address
"""
SECTOR_BYTES = 512
PASSES = 3  # that show that it works
ENOUGH_S = 100
LOOK_EVERY_S = 0.02


def boot_sector():
    code = b"".join(bytes.fromhex(line[:28]) for line in GUEST.splitlines() if line.strip())
    return code.ljust(SECTOR_BYTES - 2, b"\0") + b"\x55\xaa"


class Qemu:
    """A machine, spoken to by QMP."""

    def __init__(self, folder, name, *more):
        self.name, self.serial = name, os.path.join(folder, name + ".serial")
        path = os.path.join(folder, name + ".qmp")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(ENOUGH_S)
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-nodefaults", "-no-user-config", "-display",
             "none", "-drive", "if=floppy,format=raw,readonly=on,file=" + os.path.join(folder, "guest"),
             "-serial", "file:" + self.serial, "-qmp", "unix:" + path, *more], stdin=subprocess.DEVNULL)
        connection, _ = listener.accept()
        connection.settimeout(ENOUGH_S)
        self.qmp = connection.makefile("rw", encoding="utf-8")
        self.events = []
        self.qmp.readline()  # its greeting
        self.ask("qmp_capabilities")

    def hear(self):
        line = self.qmp.readline()
        if not line:
            sys.exit("%s has ended" % self.name)
        return json.loads(line)

    def ask(self, command, **arguments):
        self.qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.qmp.flush()
        while True:
            message = self.hear()
            if "event" in message:
                self.events.append(message)
            elif "error" in message:
                sys.exit("%s: %s: %s" % (self.name, command, message["error"]["desc"]))
            else:
                return message["return"]

    def await_migration(self):
        """Until it is over. How it ended."""
        while True:
            message = self.events.pop(0) if self.events else self.hear()
            status = message.get("data", {}).get("status") if message.get("event") == "MIGRATION" else None
            if status in ("completed", "failed"):
                return status

    def passes(self):
        """How often the guest went over its memory here."""
        with open(self.serial, encoding="latin-1") as f:
            text = f.read()
        if "E" in text:
            sys.exit("%s: the guest found a word that it did not write, after %d passes" %
                     (self.name, text.index("E")))
        return text.count(".")

    def await_passes(self, count):
        end = time.monotonic() + ENOUGH_S
        while self.passes() < count:
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("%s: the guest does not work" % self.name)
            time.sleep(LOOK_EVERY_S)  # QEMU does not tell: it is looked at

    def quit(self):
        self.ask("quit")
        return self.process.wait(ENOUGH_S)


def capabilities(qemu, names):
    qemu.ask("migrate-set-capabilities",
             capabilities=[{"capability": name, "state": True} for name in names])


def migrate(folder, uri, wanted, is_paused):
    target = Qemu(folder, "target", "-incoming", "defer")
    source = Qemu(folder, "source")
    try:
        capabilities(target, wanted)
        capabilities(source, wanted)
        target.ask("migrate-incoming", uri=uri)
        # What the guest writes meanwhile need not be sent before it stops.
        source.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 34, "downtime-limit": 20000})
        source.await_passes(PASSES)
        if is_paused:
            source.ask("stop")
        source.ask("migrate", uri=uri)
        how = source.await_migration()
        if how != "completed":
            sys.exit("the migration %s: %s" % (how, source.ask("query-migrate").get("error-desc")))
        if is_paused:
            target.ask("cont")
        target.await_passes(PASSES)
        ram = source.ask("query-migrate")["ram"]
        print("migrated: %d bytes, and the guest finds its memory as it was" % ram["transferred"])
        statuses = [source.quit(), target.quit()]
        return 0 if statuses == [0, 0] else "exit statuses are %s" % statuses
    finally:
        for qemu in (source, target):
            if qemu.process.poll() is None:
                qemu.process.kill()


def main():
    folder, address, port = sys.argv[1:4]
    with open(os.path.join(folder, "guest"), "wb") as f:
        f.write(boot_sector())
    wanted = ["events"] + (["rdma-pin-all"] if "--pin-all" in sys.argv[4:] else [])
    return migrate(folder, "rdma:%s:%s" % (address, port), wanted, "--paused" in sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
