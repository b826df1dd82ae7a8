#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes man pages and the completion of bash from the help texts of weft's commands and of nbdkit's plugin.

    manual.py pages HELP VERSION DOCUMENTS FOLDER         weft.1 and weft-COMMAND.1 in a new FOLDER
    manual.py plugin PLUGIN HELP VERSION DOCUMENTS FILE   nbdkit-weft-plugin.1
    manual.py completion HELP FILE                        for bash-completion

HELP is what `weft help --all` prints, PLUGIN the help text of the plugin (src/compat/nbdkit/help.c). DOCUMENTS
is where docs/ is installed. A help text has this form:

    usage: weft COMMAND FILE       a note on this way of calling it, or none
           weft COMMAND --option

    A paragraph, and others.

      --option FILE  an item: a term, two spaces or more, and its text, which goes on below
                     itself
      word           another

A paragraph that begins with "Exit status" or "The exit status" gets that section of the page, others that follow
the options the section NOTES; items of the form `name=VALUE` get the section PARAMETERS.
"""
import os
import re
import shutil
import sys
import textwrap
import time

# What bash offers for a value or an argument of this name: see _weft_offer. For others: nothing.
KINDS = {"COMMAND": "COMMAND", "FILE": "FILE", "LIST": "LIST", "NAME": "FILE", "PID": "PID",
         "PROGRAM": "PROGRAM", "REASON": "REASON"}
# Values that the option's text lists: "off, error or info, on stderr".
LISTED = {"KIND", "LEVEL", "OP", "WHICH"}
WORD = r"[a-z]+(?: \(default\))?"


class Help:
    """A help text taken apart. Its parts are (kind, what): a paragraph, or items (term, text)."""

    def __init__(self, text):
        lines = text.rstrip("\n").split("\n")
        self.calls = []  # (call, note)
        while lines and lines[0].strip():
            call, _, note = lines.pop(0).replace("usage: ", "", 1).strip().partition("  ")
            self.calls.append((call, note.strip()))
        self.parts = [part for block in "\n".join(lines).split("\n\n") if block.strip("\n")
                      for part in [self.part(block.strip("\n"))]]
        self.name = self.calls[0][0].split()[1]

    @staticmethod
    def part(block):
        if not block.startswith("  "):
            return "paragraph", block.replace("\n", " ")
        items = []
        for line in block.split("\n"):
            if re.match(r"  \S", line):
                term, _, text = line.strip().partition("  ")
                items.append([term, text.strip()])
            else:
                items[-1][1] += " " + line.strip()
        return "items", [tuple(item) for item in items]

    def items(self):
        return [item for kind, what in self.parts if kind == "items" for item in what]

    def options(self):
        """{option: what its value is called, or its values in small letters, or None: it takes none}"""
        found = {"--help": None}
        for call, _ in self.calls:
            found.update((word, None) for word in re.findall(r"--[a-z-]+", call))
        for term, text in self.items():
            names = re.findall(r"(?<!\S)--?[a-z][a-z-]*", term)
            value = re.sub(r"^[, ]+", "", term[len(", ".join(names)):])
            for name in names:
                found[name] = self.values(found.get(name), value, text)
        return found

    @staticmethod
    def values(before, value, text):
        if not value or not before and value.upper() == value and value not in LISTED:
            return value or before
        if value in LISTED:
            found = re.search(r"(?:^|: )((?:%s, )*%s or %s)" % (WORD, WORD, WORD), text)
            return re.sub(r" \(default\)|,| or(?= )", "", found[1]) if found else value
        return "%s %s" % (before, value) if before else value  # its values have an item each

    def places(self):
        """What the arguments are that are no options: a list of words and names for each place."""
        places = []
        for call, _ in self.calls:
            rest = re.sub(r"\[-[^]]*\]|\[OPTIONS\]|--[a-z]+( [A-Z])?\b", "", call)
            for i, word in enumerate(rest.split()[2:]):
                if i == len(places):
                    places.append([])
                places[i] += [w for w in word.strip("[].").split("|") if w not in places[i]]
        return places


def read(path):
    """The list of commands with what each does, and the help of each."""
    with open(path, encoding="utf-8") as f:
        texts = re.split(r"\n(?=usage: )", f.read())
    return Help(texts[0]), [Help(text) for text in texts[1:]]


# --- man pages ------------------------------------------------------------------------------------


class Page:
    def __init__(self, commands, documents):
        self.commands = commands
        self.documents = documents
        self.lines = []
        self.mentioned = set()

    def mark(self, text):
        """Text as man(7) wants it, with commands and options bold, and values in italics."""
        text = text.replace("\\", "\\e")
        text = re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"\\fB\1\\fR", text)
        text = re.sub(r"\b[A-Z]+\b(?![_/=])",
                      lambda m: "\\fI%s\\fR" % m[0] if m[0] in self.names else m[0], text)
        text = re.sub(r"\bweft (%s)\b" % "|".join(self.commands), self.mention, text)
        text = re.sub(r"\bdocs/(\S+\.md)\b", r"\\fI%s/\1\\fR" % self.documents, text)
        return text.replace("-", "\\-")

    def mention(self, found):
        self.mentioned.add(found[1])
        return "\\fB%s\\fR" % found[0]

    def say(self, text):
        """Each sentence begins a line, as roff likes it; none has more than 80 characters."""
        for sentence in re.split(r"(?<=[a-z)R0-9][.:]) (?=[A-Z\\])", self.mark(text)):
            for line in textwrap.wrap(sentence, 79, break_long_words=False, break_on_hyphens=False):
                self.lines.append("\\&" + line if line[0] in ".'" else line)

    def section(self, name):
        if ".SH " + name not in self.lines:
            self.lines.append(".SH " + name)
        else:
            self.lines.append(".PP")

    def item(self, term, text):
        self.lines += [".TP", "\\fB%s\\fR" % self.term(term)]
        self.say(text)

    @staticmethod
    def term(text):
        """Of which words are bold and values in italics, in a text that is bold."""
        text = re.sub(r"\b([A-Z]+)\b(?!_)", r"\\fI\1\\fB", text)
        text = re.sub(r"(\[|\]|\||\.\.\.)", r"\\fR\1\\fB", text)
        return text.replace("-", "\\-")

    def synopsis(self, calls):
        self.lines.append(".SH SYNOPSIS")
        for i, (call, _) in enumerate(calls):
            self.lines += ([".br"] if i else []) + ["\\fB%s\\fR" % self.term(call)]

    def write(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(self.lines) + "\n")


def begin(commands, documents, title, what, version):
    page = Page(commands, documents)
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH",
                                                                    time.time()))))
    page.lines = ['.\\" Made by cmd/manual/manual.py from the help texts.',
                  '.TH %s 1 %s "weft %s" weft' % (title.upper(), date, version), ".nh", ".ad l",
                  ".SH NAME", "%s \\- %s" % (title.replace("-", "\\-"), what.replace("-", "\\-"))]
    return page


def see(page, others, more=()):
    page.section("SEE ALSO")
    names = sorted([*more] + ["weft" + (other and "\\-" + other) for other in others])
    page.lines += [".BR %s (1)%s" % (name, "," if name != names[-1] else "") for name in names]


def command_page(page, text, more=()):
    page.names = set(re.findall(r"\b[A-Z]+\b", " ".join(
        [call for call, _ in text.calls] + [term for term, _ in text.items()])))
    page.synopsis(text.calls)
    page.section("DESCRIPTION")
    has_options = False
    for kind, what in text.parts:
        if kind == "items":
            is_options = what[0][0].startswith("-")
            if is_options and not has_options:
                page.section("OPTIONS")
            elif re.match(r"[a-z]+=", what[0][0]):
                page.section("PARAMETERS")
            has_options |= is_options
            for item in what:
                page.item(*item)
            continue
        if re.match("(The e|E)xit status", what):
            page.section("EXIT STATUS")
        elif has_options:
            page.section("NOTES")
        elif page.lines[-1] != ".SH DESCRIPTION":
            page.lines.append(".PP")
        page.say(what)
    at = page.lines.index(".SH OPTIONS") if has_options else len(page.lines)
    rest = page.lines[at:]
    del page.lines[at:]
    for call, note in text.calls:
        if note:
            page.item(call, note)
    page.lines += rest
    see(page, {""} | page.mentioned - {text.name}, more)


def main_page(page, text, commands):
    page.names = {"COMMAND"}
    page.lines += [".SH SYNOPSIS", "\\fBweft\\fR \\fICOMMAND\\fR"]
    page.section("DESCRIPTION")
    page.say("Each command has a page of its own.")
    kinds = iter(text.parts)
    page.section("COMMANDS")
    for term, what in next(kinds)[1]:
        name, _, args = term.partition(" ")
        args, _, what = what.partition("  ") if "  " in what else ("", "", what)
        page.item(("weft %s %s" % (name, args)).strip(), what.strip())
    page.section("ENVIRONMENT")
    for kind, what in kinds:
        if kind == "items":
            for item in what:
                page.item(*item)
        else:
            page.say(what)
    see(page, {name for name in commands})


def make_pages(path, version, documents, folder):
    listed, texts = read(path)
    what = {}
    for term, text in listed.parts[0][1]:
        what[term] = text.rpartition("  ")[2].strip()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    commands = [text.name for text in texts]
    page = begin(commands, documents, "weft", "RDMA without an RDMA adapter, in user space", version)
    main_page(page, listed, commands)
    page.write(os.path.join(folder, "weft.1"))
    for text in texts:
        page = begin(commands, documents, "weft-" + text.name, what[text.name], version)
        command_page(page, text)
        page.write(os.path.join(folder, "weft-%s.1" % text.name))


def make_plugin_page(path, help_path, version, documents, to):
    commands = [text.name for text in read(help_path)[1]]
    with open(path, encoding="utf-8") as f:
        text = Help(f.read())
    page = begin(commands, documents, "nbdkit-weft-plugin", "block devices for nbdkit", version)
    command_page(page, text, ["nbdkit"])
    page.write(to)


# --- completion -----------------------------------------------------------------------------------

COMPLETION = """\
# bash completion for weft. Made by cmd/manual/manual.py from what weft help --all prints.

# Offers what an argument of this kind can be, or the words.
_weft_offer() {
	case $1 in
	COMMAND) COMPREPLY=($(compgen -W "$weft_commands" -- "$cur")) ;;
	FILE) _filedir ;;
	LIST) COMPREPLY=($(compgen -W "$(weft devices 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")) ;;
	NOTHING) ;;
	PID) COMPREPLY=($(compgen -W "$(weft stat 2>/dev/null | awk '$1 ~ /^[0-9]/ { print $1 }')" -- "$cur")) ;;
	PROGRAM) COMPREPLY=($(compgen -c -- "$cur")) ;;
	REASON) COMPREPLY=($(compgen -W "$(weft explain 2>/dev/null | awk 'NR > 1 { print $2 }')" -- "$cur")) ;;
	*) COMPREPLY=($(compgen -W "$*" -- "$cur")) ;;
	esac
}

# What an option of a command takes; nothing if it takes none.
_weft_value() {
	case "$1 $2" in
@VALUES@	esac
}

_weft() {
	local cur prev words cword
	_init_completion || return
	local weft_commands='@COMMANDS@'
	local options= places=() at=0 i

	if ((cword == 1)); then
		_weft_offer COMMAND
		return
	fi
	case ${words[1]} in
@PLACES@	*) return ;;
	esac
	# The options before this word, and how many arguments.
	for ((i = 2; i < cword; i++)); do
		if [[ -n $(_weft_value "${words[1]}" "${words[i]}") ]]; then
			((i++))
		elif [[ ${words[i]} != -* ]]; then
			if [[ ${places[0]} == PROGRAM && ${words[1]} == run ]]; then
				_command_offset "$i"
				return
			fi
			((at++))
		fi
	done
	if ((i > cword)); then
		_weft_offer $(_weft_value "${words[1]}" "$prev")
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
	elif [[ -n ${places[at]} ]]; then
		_weft_offer ${places[at]}
	fi
}
complete -F _weft weft
"""


def offered(names):
    """What _weft_offer is to be given for a place or a value."""
    words = [name for name in names if name.islower()]
    kinds = [KINDS[name] for name in names if name in KINDS]
    return " ".join(words or kinds[:1] or ["NOTHING"])


def make_completion(path, to):
    _, texts = read(path)
    values, places = "", ""
    for text in texts:
        options = text.options()
        for name, value in options.items():
            if value:
                values += "\t'%s %s') echo '%s' ;;\n" % (text.name, name, offered(value.split()))
        places += "\t%s)\n\t\toptions='%s'\n\t\tplaces=(%s)\n\t\t;;\n" % (
            text.name, " ".join(options), " ".join("'%s'" % offered(p) for p in text.places()))
    made = COMPLETION.replace("@COMMANDS@", " ".join(text.name for text in texts))
    with open(to, "w", encoding="utf-8") as f:
        f.write(made.replace("@VALUES@", values).replace("@PLACES@", places))


if __name__ == "__main__":
    {"pages": make_pages, "plugin": make_plugin_page, "completion": make_completion}[sys.argv[1]](*sys.argv[2:])
