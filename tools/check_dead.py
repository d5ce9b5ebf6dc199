#!/usr/bin/env python3
"""Finds functions of the product that nothing but tests calls: a name that a product header declares and that no product
file, example or benchmark mentions besides its declaration and definition. What later work needs, or users call, is in KEPT
with the reason."""
import collections
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from check_layers import MAY_INCLUDE  # noqa: E402: the folders of the product

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = tuple(f"{folder}/" for folder in (*MAY_INCLUDE, "include"))
CALLERS = PRODUCT + ("examples/", "benchmarks/", "docs/api.md", "docs/plugins.md")
KEPT = {
    # Composer's API, for programs and plugins of users.
    "Iterations": "Time", "Remainder": "Time", "Compare": "Time",
    "AddOptimizer": "plugins", "AddScheduler": "plugins", "AddAlgorithm": "plugins", "AddLogger": "plugins", "AddMetric": "plugins", "AddTokenizer": "plugins", "AddTransform": "plugins", "AddCollator": "plugins", "AddOrder": "plugins", "AddStore": "plugins",
    "SetFsdpWrap": "a model marks its FSDP units",
    "DescribeValue": "composer data show (issue 17)",
    "resumed_from": "what a program asks its trainer",
    "ConstantSchedule": "recipes", "LinearSchedule": "recipes", "PolynomialSchedule": "recipes",
    "ExponentialSchedule": "recipes", "StepSchedule": "recipes", "MultiStepSchedule": "recipes",
    # For the algorithms and models that come next (issue 15, part 3).
    "SkipUpdate": "algorithms of users",
    "deallocate": "std::vector",
    # What a test of the memory or of the traffic must count.
    "is_wrapped": "test", "pool_bytes": "test", "num_partials": "test", "num_reads": "test",
}
COMMENT = re.compile(r"//[^\n]*")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
DECLARED = re.compile(r"^ *(?!return|else|if|for|while|switch|case|using|typedef|throw|delete|new|co_)(?:[\w:<>,&*\[\]~]+ +)+?[&*]*(\w+)\(", re.M)
WORD = re.compile(r"\w+")


def main():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    uses, declared, overrides = collections.Counter(), {}, set()
    for name in names:
        if not name.startswith(CALLERS) or not name.endswith((".h", ".cc", ".cu", ".md")) or not (ROOT / name).exists():
            continue
        text = (ROOT / name).read_text()
        if not name.endswith(".md"):
            text = STRING.sub('""', COMMENT.sub("", text))
        uses.update(WORD.findall(text))
        if name.endswith(".h") and name.startswith(PRODUCT):
            for match in DECLARED.finditer(text):
                line = text[match.start():text.find("\n", match.end())]
                word = match.group(1)
                if "override" in line or "virtual" in line or "operator" in line or word.isupper():
                    overrides.add(word)
                declared.setdefault(word, name)
    found = []
    for word, where in sorted(declared.items(), key=lambda item: item[1]):
        body = (ROOT / where).with_suffix(".cc")
        defined_apart = body.exists() and re.search(rf"^(?!\s)[^\n;=]*\b{word}\(", body.read_text(), re.M) is not None
        if uses[word] <= 1 + defined_apart and word not in overrides and word not in KEPT:
            found.append(f"{where}: only tests call {word}")
    found += [f"tools/check_dead.py: KEPT names {word}, which is called or gone" for word in KEPT
              if word not in declared or uses[word] > 2]
    print("\n".join(found) if found else f"dead code: {len(declared)} functions, {len(KEPT)} of them kept for later")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
