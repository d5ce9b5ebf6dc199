#!/usr/bin/env python3
"""Checks that docs/parity.md is what tools/parity.tsv says (--write makes it), and that every test it names exists."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "parity.md"
STATUSES = ("works", "better", "partial", "missing")
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
PYTHON_TEST = re.compile(r"^    def (test\w*)\(", re.M)


def tests():
    for path in (ROOT / "tests").rglob("*.cc"):
        for suite, name in TEST.findall(path.read_text()):
            yield f"{suite}.{name}"
    for path in (ROOT / "tests").rglob("*.py"):
        for name in PYTHON_TEST.findall(path.read_text()):
            yield f"{path.name}:{name}"


def rows():
    for line in (ROOT / "tools" / "parity.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def page(table):
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
    return "\n".join(lines) + "\n"


def main():
    table, known = list(rows()), set(tests())
    found = []
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
        PAGE.write_text(page(table))
    if not found and (not PAGE.exists() or PAGE.read_text() != page(table)):
        found.append("docs/parity.md is not what tools/parity.tsv says: run tools/check_parity.py --write")
    print("\n".join(found) if found else f"parity: {len(table)} rows, every test exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
