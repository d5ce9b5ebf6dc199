#!/usr/bin/env python3
"""Measures how the sources are kept, at a commit (default: the working tree): `tools/house.py [COMMIT ...]` prints one
column each. Product files only, unless a row says otherwise; docs/results/house.md has the numbers of each large change.

A unit is a .h/.cc pair; an edge is a pair of folders of which one includes the other, inside launcher or trainer; a
function's length is counted from the line of its opening brace to the brace that closes it."""
import collections
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from check_layers import MAY_INCLUDE, ROOT, room_of  # noqa: E402

INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|//.*')
FUNCTION = re.compile(r"^( *)(?!namespace|class|struct|enum|union|if|for|while|switch|else|do|return|\}|//)[\w:<>,&*~ \[\]]*\w\(.*\{$")


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def sources(commit):
    """Returns {path: text} of all C++ and Markdown files."""
    wanted = (".h", ".cc", ".cu", ".md", ".py")
    if commit is None:
        names = git("ls-files", "-co", "--exclude-standard").split("\n")
        return {n: (ROOT / n).read_text() for n in names if n.endswith(wanted) and (ROOT / n).exists()}
    names = [n for n in git("ls-tree", "-r", "--name-only", commit).split("\n") if n.endswith(wanted)]
    request = "".join(f"{commit}:{n}\n" for n in names)
    batch = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, input=request.encode(), capture_output=True, check=True)
    texts, rest = {}, batch.stdout
    for name in names:
        head, _, rest = rest.partition(b"\n")
        size = int(head.split()[-1])
        texts[name], rest = rest[:size].decode(), rest[size + 1:]
    return texts


def length_from(lines, begin):
    depth = 0
    for i in range(begin, len(lines)):
        code = LITERAL.sub("", lines[i])
        depth += code.count("{") - code.count("}")
        if depth <= 0:
            return i - begin + 1
    return 1  # braces in a raw string


def function_lengths(text):
    lines, lengths = text.split("\n"), []
    for i, line in enumerate(lines):
        if FUNCTION.match(line):
            lengths.append(length_from(lines, i))
    return lengths


def measure(commit):
    files = sources(commit)
    code = {p: t for p, t in files.items() if p.split("/")[0] in MAY_INCLUDE and p.endswith((".h", ".cc", ".cu"))}
    units = collections.Counter(room_of(u) for u in {p.rsplit(".", 1)[0] for p in code})
    edges, users = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in code.items():
        for target in INCLUDE.findall(text):
            if target not in code:
                continue
            if target.rsplit(".", 1)[0] != path.rsplit(".", 1)[0]:
                users[target].add(path.rsplit(".", 1)[0])
            room, other = room_of(path), room_of(target)
            if room != other and path.split("/")[0] == target.split("/")[0]:
                edges[path.split("/")[0]].add((room, other))
    lines = [line for text in code.values() for line in text.splitlines()]
    comments = sum(line.lstrip().startswith("//") for line in lines)
    lengths = {(p, n): n for p, t in code.items() for n in function_lengths(t)}
    longest_file = max(code, key=lambda p: len(code[p].splitlines()))
    longest_function = max(lengths, key=lengths.get)
    wide = sum(len(line) > 120 for p, t in files.items() if p.endswith((".h", ".cc", ".cu")) for line in t.splitlines())
    prose = [t for p, t in files.items() if p.endswith(".md") and "results/" not in p and p != "CHANGELOG.md"]
    wide_prose = sum(len(line) > 100 and not line.lstrip().startswith("|") for t in prose for line in t.splitlines())
    largest = units.most_common(1)[0]
    return {
        "files of the product": len(code),
        "lines of the product": len(lines),
        "comment lines": f"{100 * comments / len(lines):.1f} %",
        "rooms": len(units),
        "largest room": f"{largest[0]}, {largest[1]} units",
        "inner edges of launcher / trainer": f"{len(edges['launcher'])} / {len(edges['trainer'])}",
        "headers with one user": sum(len(u) == 1 for u in users.values()),
        "longest file": f"{longest_file}, {len(code[longest_file].splitlines())}",
        "longest function": f"{longest_function[0]}, {longest_function[1]} lines",
        "functions: median / over 60 lines": f"{statistics.median(lengths.values()):.0f} / {sum(n > 60 for n in lengths.values())}",
        "C++ lines over 120 columns (tests too)": wide,
        "lines of documents over 100 columns (no tables)": wide_prose,
        "lines of C++ tests": sum(len(t.splitlines()) for p, t in files.items() if p.startswith("tests/") and p.endswith((".h", ".cc"))),
    }


def main():
    columns = sys.argv[1:] or [None]
    found = [measure(commit) for commit in columns]
    print("| | " + " | ".join(commit or "working tree" for commit in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in found[0]:
        print(f"| {row} | " + " | ".join(str(one[row]) for one in found) + " |")


if __name__ == "__main__":
    main()
