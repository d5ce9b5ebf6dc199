#!/usr/bin/env python3
"""Prints what nvcc made of our own kernels: registers, spills and shared memory of each, and how wide its loads and
stores of the device's memory are.

    tools/kernel_report.py [--arch 90] [--objects build/release/worker/cuda] [--markdown]

Registers, stack and shared memory come from `cuobjdump -res-usage`, the rest is counted in `cuobjdump -sass`. Both
programs (cuobjdump, nvdisasm) are in the toolkit, or in PyPI's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm; they must
be in the PATH. Fails when a kernel spills, or when one that works in packs has no load of 16 bytes.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ["adamw", "norm", "activations", "rotary", "cross_entropy"]
MEMORY = re.compile(r"\b(LDG|STG|LDL|STL)((?:\.\w+)*)\s")
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")


def dump(kind, arch, path):
    return subprocess.run(["cuobjdump", kind, "-arch", f"sm_{arch}", str(path)], capture_output=True, text=True,
                          check=True).stdout


def readable(name):
    """Kernel<types and constants>, without namespaces and arguments."""
    text = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
    text = re.sub(r"composer::device::(\(anonymous namespace\)|_GLOBAL__N_\w+)?(::)?", "", text)
    text = re.sub(r"\((int|bool)\)", "", text).removeprefix("void ")
    return text[:text.rfind("(")] if "(" in text else text


def width_of(modifiers):
    return next((bits for bits in ("256", "128", "64") if f".{bits}" in modifiers), "16" if ".U16" in modifiers else "32")


def kernels_of(arch, path):
    """Name -> {reg, stack, shared, loads, stores, local}."""
    found = collections.defaultdict(lambda: {"loads": collections.Counter(), "stores": collections.Counter(), "local": 0})
    name = None
    for line in dump("-res-usage", arch, path).splitlines():
        if "Function " in line:
            name = line.split("Function ")[1].rstrip(": ")
        elif (usage := USAGE.search(line)) and name:
            found[name].update(zip(("reg", "stack", "shared"), map(int, usage.groups())))
    for line in dump("-sass", arch, path).splitlines():
        if "Function :" in line:
            name = line.split("Function : ")[1].strip()
        elif match := MEMORY.search(line):
            what, modifiers = match.groups()
            if what in ("LDL", "STL"):
                found[name]["local"] += 1
            else:
                found[name]["loads" if what == "LDG" else "stores"][width_of(modifiers)] += 1
    return found


def text_of(counter):
    return " ".join(f"{count}x{bits}" for bits, count in sorted(counter.items(), key=lambda item: -int(item[0]))) or "-"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="90")
    parser.add_argument("--objects", type=pathlib.Path, default=ROOT / "build/release/worker/cuda")
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    wrong, rows = [], []
    for file in KERNELS:
        for name, facts in sorted(kernels_of(given.arch, given.objects / f"{file}.o").items(), key=lambda row: readable(row[0])):
            title = f"{file}: {readable(name)}"
            rows.append((title, facts["reg"], facts["stack"], facts["local"], facts["shared"], text_of(facts["loads"]),
                         text_of(facts["stores"])))
            if facts["local"] > 0 or facts["stack"] > 0:
                wrong.append(f"{title} spills: {facts['stack']} bytes of stack, {facts['local']} accesses")
            in_packs = re.search(r"AdamW<true|(Glu|Gelu)<\w+, true|ward<.*true|, 8>", title) is not None
            if in_packs and not facts["loads"]["128"] + facts["loads"]["256"]:
                wrong.append(f"{title} works in packs and has no load of 16 bytes")
    head = ("kernel", "registers", "stack", "spills", "shared", "loads (number x bits)", "stores")
    if given.markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        print("\n".join("| `{}` | {} | {} | {} | {} | {} | {} |".format(*row) for row in rows))
    else:
        for row in [head, *rows]:
            print("{:52} {:>9} {:>5} {:>6} {:>6}  {:34} {}".format(*row))
    print(f"sm_{given.arch}: {len(rows)} kernels" + "".join(f"\nwrong: {line}" for line in wrong))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
