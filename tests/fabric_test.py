#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""weft fabric as a person meets it.

    fabric_test.py WEFT GOLDEN_DIR

Prints `ok NAME` or `not ok NAME: why`, a line for each test.
"""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

WEFT, GOLDEN = sys.argv[1:3]


def weft(*args, data=None):
    done = subprocess.run([WEFT, *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def fabric(*args, data=None):
    return weft("fabric", *args, data=data)


def load(*args, data=None):
    return weft("sim", "--world", "fabric", "--topology", *args, data=data)


def golden(name):
    return os.path.join(GOLDEN, "opensm", name)


def expect(what, is_true):
    if not is_true:
        raise AssertionError(what)


def test_fab_22b_fabric_shows_what_ibnetdiscover_printed():
    status, out, err = fabric("show", golden("ibnetdiscover.txt"))
    expect(out + err, status == 0 and err == "")
    expect(out, out.endswith("4 endnodes, 2 switches, 0 routers, 5 cables\n"))
    expect(out, "switch S2, 3 of 8 ports used, GUID 0000000000200001\n"
                "    1 - S1 3\n    2 - H3 1\n    3 - H4 1\n" in out)
    expect(out, "endnode H1, 1 of 2 ports used, GUID 0000000000100000\n    1 - S1 1\n" in out)


def test_fabric_shows_a_net_file_of_ibsim():
    with open(golden("ibsim.net"), "rb") as f:
        status, out, err = fabric("show", "-", data=f.read())
    expect(out + err, status == 0 and "switch S1, 3 of 8 ports used\n" in out)


def test_fabric_says_which_nodes_are_not_joined():
    status, out, _ = fabric("show", "-", data=b'Switch 2 "a"\n[1] "b"[1]\nCa 1 "b"\nCa 1 "c"\n')
    expect(out, status == 1 and "endnode c, 0 of 1 ports used, not joined with the first node\n" in out)
    expect(out, out.endswith("1 of 3 nodes are not joined with the first\n"))


def test_fabric_names_the_line_that_is_wrong():
    status, out, err = fabric("show", "-", data=b'Switch 2 "a"\n[3] "a"[1]\n')
    expect(err, status == 1 and out == "" and err.startswith("weft fabric: -:2: A topology has a port "))
    expect(err, err.endswith(" (topology_port)\n"))
    status, _, err = fabric("show", "/nonexistent")
    expect(err, status == 1 and err == "weft fabric: /nonexistent: No such file or directory\n")


def test_fab_22d_fabric_makes_topologies_by_size():
    for form, size, what in (("fat-tree", "100", "100 endnodes, 24 switches, 0 routers, 208 cables\n"),
                             ("fat-tree", "16x4", "16 endnodes, 20 switches, 0 routers, 48 cables\n"),
                             ("torus", "4x4x2", "32 endnodes, 32 switches, 0 routers, 112 cables\n"),
                             ("torus", "3x2", "6 endnodes, 6 switches, 0 routers, 15 cables\n"),
                             ("dragonfly", "2", "72 endnodes, 36 switches, 0 routers, 162 cables\n"),
                             ("ring", "5", "5 endnodes, 5 switches, 0 routers, 10 cables\n")):
        status, text, err = fabric("make", form, size)
        expect(err, status == 0 and err == "")
        status, out, err = fabric("show", "-", data=text.encode())
        expect(form + " " + size + ": " + out[-80:] + err, status == 0 and out.endswith(what))
    status, out, err = fabric("make", "ring", "2")
    expect(err, status == 1 and out == "" and err.startswith("weft fabric: ring 2: A topology ") and
           err.endswith(" (topology_limit)\n"))
    for args in (["make"], ["make", "ring"], ["make", "star", "3"], ["make", "ring", "3x3"], ["make", "torus", "x"],
                 ["make", "torus", "3x"], ["make", "torus", "3y3"], ["make", "ring", "3", "3"]):
        status, out, err = fabric(*args)
        expect(err, status == 2 and out == "" and "fat-tree 64" in err)


SVG = "{http://www.w3.org/2000/svg}"


def titles(text, kind):
    """What a picture says of its nodes, or of its cables; and that it is XML."""
    picture = xml.etree.ElementTree.fromstring(text)
    expect(picture.tag, picture.tag == SVG + "svg")
    return [group.find(SVG + "title").text for group in picture.iter(SVG + "g") if group.get("class") == kind]


def test_fabric_draws_every_node_and_every_cable_once():
    for form, size, nodes, cables in (("fat-tree", "16x4", 36, 48), ("torus", "3x3", 18, 27), ("ring", "5", 10, 10),
                                      ("dragonfly", "1", 12, 12)):
        _, text, _ = fabric("make", form, size)
        status, out, err = fabric("draw", "-", data=text.encode())
        expect(err, status == 0 and err == "")
        names, ends = titles(out, "node"), titles(out, "cable")
        expect(form + ": " + str(names), len(names) == nodes and len(set(names)) == nodes)
        expect(form + ": " + str(ends), len(ends) == cables and len(set(ends)) == cables)
        expect(form + ": " + str(names), "S1, switch, " in " ".join(names) and "H1, endnode, 1 port" in names)


def test_fabric_draws_names_and_widths_and_speeds():
    status, out, err = fabric("draw", golden("ibnetdiscover.txt"))
    expect(out + err, status == 0 and err == "")
    expect(out, sorted(titles(out, "cable")) == ["S1 port 1 - H1 port 1, 4xSDR", "S1 port 2 - H2 port 1, 4xSDR",
                                                 "S2 port 1 - S1 port 3, 4xSDR", "S2 port 2 - H3 port 1, 4xSDR",
                                                 "S2 port 3 - H4 port 1, 4xSDR"])
    expect(out, "cables: 5, each 4xSDR<" in out)
    # A name that is no XML, two cables between the same nodes, of other speeds, and one from a node to itself.
    text = (b'Switch 4 "<a>&\xff"\n[1] "b"[1] # 4xSDR\n[2] "b"[2] # 1xEDR\n[3] "<a>&\xff"[4]\nRt 2 "b"\nCa 1 "c"\n')
    status, out, err = fabric("draw", "-", data=text)
    expect(out + err, status == 0 and titles(out, "node") == ["<a>&?, switch, 4 ports", "b, router, 2 ports",
                                                              "c, endnode, 1 port"])
    expect(out, len(titles(out, "cable")) == 3 and ">1xEDR<" in out and ">4xSDR<" in out)


def test_fabric_draws_into_a_file_unless_there_is_nothing_to_draw():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.svg")
        status, out, err = fabric("draw", "-", "-o", path, data=b'Switch 2 "a"\n[3] "a"[1]\n')
        expect(err, status == 1 and not os.path.exists(path) and "(topology_port)" in err)
        status, out, err = fabric("draw", golden("ibnetdiscover.txt"), "-o", path)
        expect(out + err, status == 0 and out + err == "")
        with open(path, encoding="utf-8") as file:
            expect(path, len(titles(file.read(), "node")) == 6)
        status, _, err = fabric("draw", golden("ibnetdiscover.txt"), "-o", os.path.join(folder, "no", "x.svg"))
        expect(err, status == 1 and err.endswith("No such file or directory\n"))


def made(*plan):
    return fabric("make", *plan)[1].encode()


def test_fabric_workloads_are_told_in_words_and_drawn():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "load.svg")
        status, out, err = load("-", "--workload", "incast", "--load", "200", "--probes", "10", "--messages", "20",
                                "--svg", path, data=made("fat-tree", "16x4"))
        expect(out + err, status == 0 and err == "")
        expect(out, out.startswith("incast of 16 endnodes: 15 of them send 20 messages of 4096 bytes each, at a load "
                                   "of 200 %\nlinks of 100 Gbit/s, 4 lanes, up/down, store and forward\n"
                                   "450 of 450 messages came, in "))
        expect(out, "\nprobes of high priority took " in out and "throughput " in out)
        expect(out, "  S1           port 1   to H1           port 1    " in out)
        expect(out, "dropped: 0 too old or for a port that is down, 0 for no port, 0 for other reasons\n" in out)
        expect(out, load("-", "--workload", "incast", "--load", "200", "--probes", "10", "--messages", "20",
                         data=made("fat-tree", "16x4"))[1] == out)
        with open(path, encoding="utf-8") as file:
            cables = titles(file.read(), "cable")
        expect(str(cables), len(cables) == 48 and all(", load " in cable for cable in cables))
        expect(str(cables), not any(cable.startswith("S1 port 1 - H1 port 1, load 0 %") for cable in cables))


def test_fab_s2_sim_explains_a_deadlock_in_words_and_lanes_or_tables_free_it():
    args = ("-", "--workload", "permutation", "--load", "300", "--lanes", "1", "--seed", "3", "--routing")
    status, out, err = load(*args, "minhop", data=made("ring", "8"))
    expect(out + err, status == 1 and "deadlock: 8 ports" in out and "lane 0: waits for room at S" in out)
    status, out, err = load(*args, "updn", data=made("ring", "8"))
    expect(out + err, status == 0 and "deadlock" not in out and "1600 of 1600 messages came" in out)


def test_fabric_workload_arguments():
    for args, what in ((("--workload", "x"), "all-to-all, incast, permutation or storage"), (("--load", "0"), "1 to 10000"),
                       (("--lanes", "3"), "1, 2, 4, 8 or 15"), (("--routing", "x"), "minhop or updn"),
                       (("--bytes", "66"), "multiple of 4"), (("--nothing", "1"), "--nothing"), (("--svg",), "a file"),
                       (("--seed", "x"), "--seed")):
        status, out, err = load("-", *args, data=made("ring", "3"))
        expect(str(args) + err, status == 2 and out == "" and what in err)
    status, out, err = load("/nonexistent")
    expect(err, status == 1 and err == "weft sim: /nonexistent: No such file or directory\n")
    status, out, err = load("-", data=b'Ca 1 "a"\n')
    expect(err, status == 1 and out == "" and "(topology_limit)" in err)


def test_fabric_arguments():
    status, out, err = fabric("--help")
    expect(out, status == 0 and out.startswith("usage: weft fabric ") and err == "")
    for args in ([], ["show"], ["draw"], ["draw", "x", "-o"], ["draw", "x", "y", "z"], ["print", "x"], ["show", "a", "b"]):
        status, out, err = fabric(*args)
        expect(err, status == 2 and out == "" and "usage: weft fabric " in err)


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
