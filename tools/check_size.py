#!/usr/bin/env python3
"""Checks for small files, one idea each: warns over the first number of lines, fails over the second. Tests and
benchmarks may be longer. Fails for a line of more than 120 columns, except in tables (of keys, with " | ")."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = {"test": (400, 800), "header": (200, 400), "source": (300, 500), "cmake": (60, 120)}


def kind(path):
    if path.startswith(("tests/", "benchmarks/")):
        return "test"
    if path.endswith("CMakeLists.txt"):
        return "cmake"
    return "header" if path.endswith(".h") else "source"


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu", "*CMakeLists.txt"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    failed = False
    for path in files:
        if not (ROOT / path).exists():
            continue
        text = (ROOT / path).read_text().splitlines()
        lines = len(text)
        warn, fail = LIMITS[kind(path)]
        if lines > warn:
            print(
                f"{'error' if lines > fail else 'warning'}: {path} has {lines} lines (a {kind(path)} file should have at most {warn})")
        failed |= lines > fail
        for number, line in enumerate(text, 1):
            if not path.endswith(".txt") and len(line) > 120 and line.count(" | ") < 2:
                print(f"error: {path}:{number} has {len(line)} columns (at most 120)")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
