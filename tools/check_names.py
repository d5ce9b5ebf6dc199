#!/usr/bin/env python3
"""Checks that every type of namespace composer has one definition: two of the same name in different headers link
together silently, and the wrong destructor runs. (For functions the linker reports it, since composer_worker links its
archives whole.)"""
import collections
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from check_layers import MAY_INCLUDE  # noqa: E402: the folders of the product

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = (*MAY_INCLUDE, "include")
DEFINITION = re.compile(
    r"^(?:template <.*> )?(?:struct|class|enum class|enum) (?:ABSL_\w+ )?(\w+)(?: final)?(?: :.*)?\s*\{")


def definitions(path):
    """Returns the types at the left margin, outside unnamed namespaces."""
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
