# SPDX-License-Identifier: BSD-2-Clause
"""The line that says how far a run is: rewritten on a terminal, in a log a line now and then."""
import os
import shutil
import sys
import time

TERMINAL_S, LOG_S = 0.5, 60.0
# The first estimate: each processor does a second of work in a second. It counts this many seconds
# against what the run itself shows.
FIRST_S = 30.0


def clock(seconds):
    return "%d:%02d" % divmod(int(seconds), 60)


def rest_s(left, done, elapsed_s, processors):
    """Seconds that what is left will take: left = (CPU seconds of all of it, wall seconds of the longest)."""
    rate = (done + FIRST_S * processors) / (elapsed_s + FIRST_S)
    return max(left[0] / rate, left[1])


def words(parts, failed, elapsed_s, rest):
    """parts: (what, done, total), such as ("test gcc", 12, 98)."""
    counts = ["%s %d/%d" % part for part in parts]
    return "; ".join(counts + ["%d failed" % failed, clock(elapsed_s),
                               "about %s left" % clock(rest)])


class Progress:
    def __init__(self, out=sys.stdout, now=time.monotonic):
        self.out, self.now = out, now
        self.is_terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.start_s = now()
        self.shown_s = self.start_s
        self.has_line = False

    def elapsed_s(self):
        return self.now() - self.start_s

    def is_due(self):
        return self.now() - self.shown_s >= (TERMINAL_S if self.is_terminal else LOG_S)

    def show(self, text):
        self.shown_s = self.now()
        if self.is_terminal:
            width = shutil.get_terminal_size().columns
            self.out.write("\r%s\x1b[K" % text[:width - 1])
            self.has_line = True
        else:
            self.out.write("   %s\n" % text)
        self.out.flush()

    def say(self, text):
        """A line that stays."""
        if self.has_line:
            self.out.write("\r\x1b[K")
            self.has_line = False
        self.out.write(text + "\n")
        self.out.flush()
