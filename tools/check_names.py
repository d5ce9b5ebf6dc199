#!/usr/bin/env python3
"""A type of namespace composer has one definition: two of one name in different headers link together without a word, and
the wrong destructor runs. (Functions: the linker tells, since composer_worker takes its archives whole.)"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("base", "contract", "config", "fault", "job", "rendezvous", "launcher", "worker", "trainer", "checkpoint", "storage", "include")
DEFINITION = re.compile(r"^(?:template <.*> )?(?:struct|class|enum class|enum) (?:ABSL_\w+ )?(\w+)(?: final)?(?: :.*)?\s*\{")


def definitions(path):
    """Types at the left margin, outside unnamed namespaces."""
    unnamed = False
    for line in path.read_text().splitlines():
        if line.startswith("namespace {"):
            unnamed = True
        elif line == "}  // namespace":
            unnamed = False
        elif not unnamed and (found := DEFINITION.match(line)):
            yield found.group(1)


def main():
    where = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                for name in definitions(path):
                    where[name].append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in where.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name} is defined in {', '.join(files)}")
    print(f"names: {len(where)} types" + (f", {len(twice)} of them twice" if twice else ", each defined once"))
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
