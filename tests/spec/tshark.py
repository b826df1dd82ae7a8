# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts here share: what Wireshark makes of a capture, and saying results."""
import collections
import os
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree


def dissect(path, *options):
    """Of each frame {field: [values]} and {field: [what a person is shown]}."""
    with tempfile.TemporaryDirectory() as config:  # without the user's settings
        env = dict(os.environ, HOME=config, XDG_CONFIG_HOME=config, WIRESHARK_CONFIG_DIR=config)
        done = subprocess.run(["tshark", "-n", "-r", path, "-T", "pdml", *options], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stderr = done.stderr.decode()
    if done.returncode != 0 or "Lua" in stderr:  # a script that fails is no failure to tshark
        raise ValueError("tshark: " + stderr)
    frames = []
    for packet in ElementTree.fromstring(done.stdout).iter("packet"):
        fields, text = collections.defaultdict(list), collections.defaultdict(list)
        for element in packet.iter():
            name = element.get("name")
            if name:
                fields[name].append(element.get("show", ""))
                text[name].append(element.get("showname", ""))
        frames.append((fields, text))
    return frames


def number(text):
    """Wireshark shows numbers in either base, truth as 1 and 0 or True and False."""
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def report(name, faults):
    """A line for the first fault, or that there is none; whether there is none."""
    for fault in faults[1:20]:
        print("%s: %s" % (name, fault))
    if faults:
        print("not ok %s: %s (%d faults)" % (name, faults[0].replace("\n", " "), len(faults)))
    else:
        print("ok " + name)
    return not faults
