#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""umad_test.py DIRECTORY: the drop-in libibumad.so.3 there, beside rdma-core's where that is.

Prints `ok NAME`, `not ok NAME: why` or `skip NAME: reason`, a line for each test.
"""
import ctypes
import errno
import os
import re
import subprocess
import sys

from script import Skip, expect_equal, main

OURS = os.path.join(sys.argv[1], "libibumad.so.3")
TEXTS = ("umad_class_str umad_method_str umad_attribute_str umad_common_mad_status_str "
         "umad_sa_mad_status_str").split()


def load(path):
    library = ctypes.CDLL(path, use_errno=True)
    for name in TEXTS:
        getattr(library, name).restype = ctypes.c_char_p
    library.umad_get_ca_device_list.restype = ctypes.c_void_p
    library.umad_get_mad.restype = library.umad_get_mad_addr.restype = ctypes.c_void_p
    return library


def theirs():
    """Where rdma-core's library is."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"libibumad\.so\.3 .*=> (\S+)", listed)
    if not found:
        raise Skip("rdma-core's libibumad is not installed")
    return found[1]


def exports(path):
    text = subprocess.run(["readelf", "--dyn-syms", "-W", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return sorted(re.findall(r"(\S+@@IBUMAD_\S+)", text))


def swap(number):
    return (number & 255) << 8 | number >> 8


def test_umad_exports_what_rdma_core_does(_folder):
    expect_equal("exports", exports(OURS), exports(theirs()))


def test_umad_says_what_rdma_core_says(_folder):
    a, b = load(OURS), load(theirs())

    def same(name, *args):
        ours, upstream = (getattr(lib, name)(*args) for lib in (a, b))
        # rdma-core forgets a bracket in one place.
        if upstream == b"<unknown":
            upstream = b"<unknown>"
        expect_equal("%s%r" % (name, args), ours, upstream)

    for kind in range(256):
        same("umad_class_str", kind)
        for method in range(256):
            same("umad_method_str", kind, method)
        for attribute in list(range(0x110)) + [0xff00, 0xff90, 0xffff]:
            same("umad_attribute_str", kind, swap(attribute))
    for status in list(range(0x40)) + list(range(0, 0x10000, 0x80)):
        same("umad_common_mad_status_str", swap(status))
        same("umad_sa_mad_status_str", swap(status))


class Port(ctypes.Structure):
    _fields_ = ([("ca_name", ctypes.c_char * 20), ("portnum", ctypes.c_int)] +
                [(name, ctypes.c_uint) for name in ("base_lid", "lmc", "sm_lid", "sm_sl", "state",
                                                    "phys_state", "rate", "capmask")] +
                [("gid_prefix", ctypes.c_uint64), ("port_guid", ctypes.c_uint64),
                 ("pkeys_size", ctypes.c_uint), ("pkeys", ctypes.POINTER(ctypes.c_uint16)),
                 ("link_layer", ctypes.c_char * 20)])


class Ca(ctypes.Structure):
    _fields_ = [("ca_name", ctypes.c_char * 20), ("node_type", ctypes.c_uint), ("numports", ctypes.c_int),
                ("fw_ver", ctypes.c_char * 20), ("ca_type", ctypes.c_char * 40),
                ("hw_ver", ctypes.c_char * 20), ("node_guid", ctypes.c_uint64),
                ("system_guid", ctypes.c_uint64), ("ports", ctypes.POINTER(Port) * 10)]


class Node(ctypes.Structure):
    pass


Node._fields_ = [("next", ctypes.POINTER(Node)), ("ca_name", ctypes.c_char_p)]


def test_umad_tells_of_channel_adapters(_folder):
    os.environ["WEFT_DEVICES"] = "roce_lo,iw_lo"
    lib = load(OURS)
    lib.umad_get_ca_device_list.restype = ctypes.POINTER(Node)
    names, ca, port = ((ctypes.c_char * 20) * 32)(), Ca(), Port()
    expect_equal("names", (lib.umad_get_cas_names(names, 32), names[0].value), (1, b"roce_lo"))
    expect_equal("no room", lib.umad_get_cas_names(names, 0), 0)
    for name in (b"roce_lo", None):
        expect_equal("device", lib.umad_get_ca(name, ctypes.byref(ca)), 0)
        expect_equal("it", (ca.ca_name, ca.node_type, ca.numports, ca.ca_type),
                     (b"roce_lo", 1, 1, b"weft"))
        expect_equal("its ports", [bool(p) for p in ca.ports], [False, True] + [False] * 8)
        expect_equal("its port", (ca.ports[1].contents.state, ca.ports[1].contents.link_layer),
                     (4, b"Ethernet"))
        expect_equal("release device", lib.umad_release_ca(ctypes.byref(ca)), 0)
    expect_equal("port", lib.umad_get_port(b"roce_lo", 0, ctypes.byref(port)), 0)
    expect_equal("GID 0", (port.gid_prefix, port.port_guid.to_bytes(8, "little").hex()),
                 (0, "0000ffff7f000001"))
    expect_equal("keys", (port.pkeys_size, port.pkeys[0]), (1, 0xffff))
    expect_equal("release port", lib.umad_release_port(ctypes.byref(port)), 0)
    expect_equal("no port", lib.umad_get_port(b"roce_lo", 2, ctypes.byref(port)), -errno.EINVAL)
    guids = (ctypes.c_uint64 * 3)()
    expect_equal("GUIDs", lib.umad_get_ca_portguids(b"roce_lo", guids, 3), 2)
    expect_equal("as the port's", (guids[0], guids[1]), (0, port.port_guid))
    head = lib.umad_get_ca_device_list()
    expect_equal("list", (head.contents.ca_name, bool(head.contents.next)), (b"roce_lo", False))
    expect_equal("sort", lib.umad_sort_ca_device_list(ctypes.byref(head), 1), 0)
    lib.umad_free_ca_device_list(head)
    expect_equal("but not open", lib.umad_open_port(b"roce_lo", 1), -errno.ENODEV)


def test_umad_has_no_devices_of_iwarp(_folder):
    os.environ["WEFT_DEVICES"] = "iw_lo"
    lib = load(OURS)
    room = ctypes.create_string_buffer(4096)
    expect_equal("init", lib.umad_init(), 0)
    expect_equal("names", lib.umad_get_cas_names(room, 10), 0)
    ctypes.set_errno(errno.EIO)
    expect_equal("list", lib.umad_get_ca_device_list(), None)
    expect_equal("errno of the empty list", ctypes.get_errno(), 0)
    head = ctypes.c_void_p()
    expect_equal("sort", lib.umad_sort_ca_device_list(ctypes.byref(head), 0), 0)
    expect_equal("sort what is not there", lib.umad_sort_ca_device_list(ctypes.byref(head), 3),
                 errno.EINVAL)
    lib.umad_free_ca_device_list(None)
    for name in (None, b"iw_lo"):
        expect_equal("GUIDs", lib.umad_get_ca_portguids(name, room, 3), -errno.ENODEV)
        expect_equal("device", lib.umad_get_ca(name, room), -errno.ENODEV)
        expect_equal("port", lib.umad_get_port(name, 0, room), -errno.ENODEV)
        expect_equal("path", lib.umad_get_issm_path(name, 1, room, 9), -errno.ENODEV)
        expect_equal("open", lib.umad_open_port(name, 1), -errno.ENODEV)
    expect_equal("untouched", room.raw, bytes(4096))
    expect_equal("done", lib.umad_done(), 0)


def test_umad_has_no_open_port(_folder):
    lib = load(OURS)
    room = ctypes.create_string_buffer(4096)
    length = ctypes.c_int(256)
    mask = (ctypes.c_long * 2)()
    for port in (-1, 0, 7):
        for what, result in (
                ("close", lib.umad_close_port(port)), ("poll", lib.umad_poll(port, -1)),
                ("fd", lib.umad_get_fd(port)), ("register", lib.umad_register(port, 1, 1, 0, mask)),
                ("oui", lib.umad_register_oui(port, 0x30, 0, room, mask)),
                ("unregister", lib.umad_unregister(port, 0))):
            expect_equal(what, result, -errno.EINVAL)
        expect_equal("register2", lib.umad_register2(port, room, room), errno.EINVAL)
        for what, call in (("send", lambda: lib.umad_send(port, 0, room, 256, 0, 0)),
                           ("recv", lambda: lib.umad_recv(port, room, ctypes.byref(length), -1))):
            ctypes.set_errno(0)
            expect_equal(what, call(), -errno.EINVAL)
            expect_equal("errno of " + what, ctypes.get_errno(), errno.EINVAL)


def test_umad_buffer(_folder):
    lib = load(OURS)
    umad = ctypes.create_string_buffer(320)
    at = ctypes.addressof(umad)
    address = lib.umad_get_mad_addr(umad) - at
    expect_equal("size", lib.umad_size(), 64)
    expect_equal("mad", lib.umad_get_mad(umad) - at, 64)
    umad[4] = 110
    expect_equal("status", lib.umad_status(umad), 110)
    expect_equal("set", lib.umad_set_addr(umad, 0x1234, 5, 6, 0x80010000 - (1 << 32)), 0)
    expect_equal("address", umad.raw[address:address + 11].hex(), "00000005" "80010000" "1234" "06")
    lib.umad_set_addr_net(umad, 0x1234, 5, 3, 7)
    expect_equal("as it is", umad.raw[address:address + 11].hex(), "05000000" "07000000" "3412" "03")
    other = ctypes.create_string_buffer(bytes(range(64, 108)))
    expect_equal("route", lib.umad_set_grh(umad, other), 0)
    expect_equal("with route", umad.raw[address + 12:address + 36].hex(),
                 "01" "00" "4e4f" "505152535455565758595a5b5c5d5e5f" "63626160")
    lib.umad_set_grh(umad, None)
    expect_equal("no route", umad.raw[address + 12], 0)
    expect_equal("P_Key", lib.umad_set_pkey(umad, 0x2345), 0)
    expect_equal("P_Key again", lib.umad_get_pkey(umad), 0x2345)


def test_umad_debug_keeps_its_level(_folder):
    lib = load(OURS)
    expect_equal("first", lib.umad_debug(-1), 0)
    expect_equal("set", lib.umad_debug(2), 2)
    expect_equal("kept", lib.umad_debug(-1), 2)
    expect_equal("none again", lib.umad_debug(0), 0)


def test_umad_dumps_to_stderr(_folder):
    code = ("import ctypes; l = ctypes.CDLL(%r); u = ctypes.create_string_buffer(64);"
            "l.umad_set_addr(u, 9, 5, 6, 7); l.umad_dump(u)" % OURS)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    expect_equal("stdout", done.stdout, "")
    expect_equal("stderr", done.stderr.splitlines()[:2],
                 ["agent id 0 status 0 timeout 0", "qpn 5 qkey 0x7 lid 9 sl 6"])


main(globals())
