#!/usr/bin/env python3
"""Checks that docs/environment.md lists every environment variable that the product reads or sets, and no other. The
table of flags there is made from the option tables: --write writes it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/environment.md"
FOLDERS = ("base", "net", "contract", "config", "storage", "rendezvous", "launcher", "checkpoint", "tracking", "trainer", "job", "worker")
TABLES = ("launcher/options/launch_option_table.cc", "launcher/options/service_flags.cc")
# Where these stand, a literal in capitals is a variable; elsewhere it is one where an Environment is asked for it.
NAMED = ("base/console.cc", "config/job_identity.cc", "job/loggers/", "launcher/", "storage/", "worker/", "trainer/collectives/launcher_variables.cc")
NAME = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|RANK|HOME|PATH|TERM|TMPDIR)"')
ASKED = re.compile(r'\b(?:Get|GetOr|Set|Remove)\(\s*"([A-Z][A-Z0-9_]*)"')
ANSWERS = {"MIGRATE_ON_HOST_MAINTENANCE", "TERMINATE_ON_HOST_MAINTENANCE", "PRETTY_NAME"}  # of a cloud, of /etc/os-release
FLAG = re.compile(r'\{\.name = "([a-z-]+)",(.*?)\.set = ', re.S)
MARK = "| flag | variables | meaning | default |\n|---|---|---|---|\n"


def text_of(field, entry):
    match = re.search(rf'\.{field} =\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', entry)
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1))).replace('\\"', '"') if match else ""


def flags():
    """Yields (name, variables, meaning, default) of each flag that has variables."""
    for table in TABLES:
        for name, entry in FLAG.findall((ROOT / table).read_text()):
            if match := re.search(r"\.environment = \{([^}]*)\}", entry):
                yield name, re.findall(r'"(\w+)"', match.group(1)), text_of("help", entry), text_of("fallback", entry)


def table():
    rows = [f"| `--{name}` | {', '.join(f'`{v}`' for v in variables)} | {meaning} | {default} |\n"
            for name, variables, meaning, default in flags()]
    return MARK + "".join(row.replace("N|MIN", "N\\|MIN") for row in rows)


def in_sources():
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.cc")) + sorted((ROOT / folder).rglob("*.h")):
            name = str(path.relative_to(ROOT))
            for variable in (NAME if name.startswith(NAMED) else ASKED).findall(path.read_text()):
                found.setdefault(variable, name)
    return {variable: path for variable, path in found.items() if variable not in ANSWERS}


def in_document(text):
    """Returns the variables of the first column, and of the second one in the table of flags."""
    found = []
    for line in text.splitlines():
        cells = line.split("|")
        if line.startswith("| `"):
            found += re.findall(r"`([A-Z][A-Z0-9_]*)`", cells[2] if cells[1].strip().startswith("`--") else cells[1])
    return found


def main():
    text = DOCUMENT.read_text()
    begin = text.index(MARK)
    end = text.index("\n\n", begin) + 1
    if sys.argv[1:] == ["--write"]:
        text = text[:begin] + table() + text[end:]
        DOCUMENT.write_text(text)
    sources, rows = in_sources(), in_document(text)
    found = [f"{path}: `{variable}` is not in docs/environment.md" for variable, path in sorted(sources.items())
             if variable not in rows]
    found += [f"docs/environment.md: nothing reads or sets `{variable}`" for variable in rows if variable not in sources]
    found += [f"docs/environment.md: `{variable}` has two rows" for variable in sorted(set(rows)) if rows.count(variable) > 1]
    if text[begin:end] != table() and sys.argv[1:] != ["--write"]:
        found.append("docs/environment.md: its flags are not those of the option tables: run with --write")
    print("\n".join(found) if found else f"environment: {len(rows)} variables, each documented")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
