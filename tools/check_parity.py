#!/usr/bin/env python3
"""Checks that docs/parity.md is what tools/parity.tsv and tools/surface.tsv say (--write makes it), that every test they
name exists, and that every name of mosaicml (tools/surface_names.txt) has an answer: a key or a C++ name that exists, or
a refusal that config/missing_keys.cc gives a user, too."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "parity.md"
STATUSES = ("works", "better", "partial", "missing")
ANSWERS = (*STATUSES, "refused")
# What a job's file can name, so that a refusal must be in the table that users are answered from.
IN_FILES = re.compile(r"^(?:Trainer\((\w+)\)|FSDPConfig\.(\w+)|FSDP2Config\.(\w+)|TPConfig\.(\w+)"
                      r"|composer\.(?:algorithms|loggers|callbacks)\.(\w+?)(?:Logger|Callback)?)$")
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
PYTHON_TEST = re.compile(r"^    def (test\w*)\(", re.M)


def tests():
    for path in (ROOT / "tests").rglob("*.cc"):
        for suite, name in TEST.findall(path.read_text()):
            yield f"{suite}.{name}"
    for path in (ROOT / "tests").rglob("*.py"):
        for name in PYTHON_TEST.findall(path.read_text()):
            yield f"{path.name}:{name}"


def lines_of(name):
    return [line for line in (ROOT / "tools" / name).read_text().splitlines() if line and not line.startswith("#")]


def rows():
    return (line.split("\t") for line in lines_of("parity.tsv"))


def names_here():
    """Returns every key and name of config/keys, and every word of a header."""
    keys = "".join(path.read_text() for path in (ROOT / "config/keys").glob("*.cc"))
    known = set(re.findall(r"^(\w+) \| ", keys, re.M)) | set(re.findall(r"^\[\w+ (\w+)\]", keys, re.M))
    for room in ("base", "checkpoint", "job", "storage", "trainer"):
        for path in (ROOT / room).rglob("*.h"):
            known |= set(re.findall(r"\w+", path.read_text()))
    return known


def surface_problems(answers):
    answered = {row[0]: row for row in answers}
    known, refusals = names_here(), set(re.findall(r'"([\w. ]+)"', (ROOT / "config/missing_keys.cc").read_text()))
    refusals = {word.split(".")[-1].replace("_", "") for text in refusals for word in text.split()}
    names = lines_of("surface_names.txt")
    yield from (f"tools/surface.tsv: no answer to {name}" for name in names if name not in answered)
    yield from (f"tools/surface.tsv: mosaicml has no {name}" for name in answered if name not in names)
    for row in answers:
        if len(row) != 4 or row[1] not in ANSWERS:
            yield f"tools/surface.tsv: bad row: {row}"
            continue
        name, status, here, why = row
        here = [] if here == "-" else here.split()
        yield from (f"tools/surface.tsv: {name}: there is no {word}" for word in here if word not in known)
        if bool(here) == (status in ("missing", "refused")) or (not here and why == "-"):
            yield f"tools/surface.tsv: {name}: {status}, but it names {here or 'nothing here and no reason'}"
        match = IN_FILES.match(name)
        if not here and match:
            key = next(group for group in match.groups() if group).lower().replace("_", "")
            if key not in refusals and not key.endswith("transform"):
                yield f"tools/surface.tsv: {name}: config/missing_keys.cc does not refuse it"


def page(table, answers):
    counts = collections.Counter((section, status) for section, _, status, *_ in table)
    lines = ["# Composer's features", "",
             "Made by `tools/check_parity.py --write` from `tools/parity.tsv`; a test holds it to its tests.",
             "Compared with mosaicml 0.32.1. `partial`: a part of the feature; `better`: does more, or is safer.", "",
             "| section | " + " | ".join(STATUSES) + " |", "|---|" + "---|" * len(STATUSES)]
    sections = list(dict.fromkeys(section for section, *_ in table))
    lines += [f"| {section} | " + " | ".join(str(counts[section, status]) for status in STATUSES) + " |"
              for section in sections]
    for section in sections:
        lines += ["", f"## {section}", "", "| of Composer | status | tests | what differs |", "|---|---|---|---|"]
        for of, item, status, named, differs in table:
            if of == section:
                shown = "" if named == "-" else ", ".join(f"`{test}`" for test in named.split())
                lines.append(f"| {item} | {status} | {shown} | {'' if differs == '-' else differs} |")
    counts = collections.Counter(row[1] for row in answers)
    lines += ["", "## Every argument and class", "",
              f"All {len(answers)} names of the Trainer, its parallelism configurations and the public modules:",
              ", ".join(f"{counts[status]} {status}" for status in ANSWERS) + ".", "",
              "| of Composer | status | here | what differs, or why |", "|---|---|---|---|"]
    for name, status, here, why in answers:
        shown = "" if here == "-" else ", ".join(f"`{word}`" for word in here.split())
        lines.append(f"| `{name.removeprefix('composer.')}` | {status} | {shown} | {'' if why == '-' else why} |")
    return "\n".join(lines) + "\n"


def main():
    table, known = list(rows()), set(tests())
    answers = [line.split("\t") for line in lines_of("surface.tsv")]
    found = list(surface_problems(answers))
    for row in table:
        if len(row) != 5 or row[2] not in STATUSES:
            found.append(f"tools/parity.tsv: bad row: {row}")
            continue
        names = [] if row[3] == "-" else row[3].split()
        if not names and row[2] != "missing":
            found.append(f"tools/parity.tsv: {row[1]}: {row[2]}, but no test is named")
        found += [f"tools/parity.tsv: {row[1]}: there is no test {name}" for name in names
                  if name.split("/")[-1] not in known]
    if not found and "--write" in sys.argv:
        PAGE.write_text(page(table, answers))
    if not found and (not PAGE.exists() or PAGE.read_text() != page(table, answers)):
        found.append("docs/parity.md is not what the tables say: run tools/check_parity.py --write")
    print("\n".join(found) if found else f"parity: {len(table)} rows, every test exists; {len(answers)} names of mosaicml are answered")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
