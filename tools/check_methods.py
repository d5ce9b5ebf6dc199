#!/usr/bin/env python3
"""Checks the cards of docs/methods: each algorithm of config/keys has one, each has its parts in their order, and the
index, README.md, is the one that follows from them. --write makes the index; with --costs it also
takes the costs of algorithms from docs/results/algorithms_cost.md: only when those were measured on a quiet machine;
with --quality the effects from docs/results/method_effects.md."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARDS = ROOT / "docs" / "methods"
PARTS = ["What", "When", "Set", "Quality", "Cost", "Pitfalls", "Source"]
OTHER_NAMES = {"fused_layernorm"}  # another name of low_precision_layernorm
KINDS = {"muon": "optimizer", "normuon": "optimizer", "schedule_free_adamw": "optimizer", "warmup_stable_decay": "schedule", "scale_schedule": "key of the job"}


def algorithms():
    text = (ROOT / "config" / "keys" / "algorithm_keys.cc").read_text()
    return set(re.findall(r"^\[algorithm (\w+)\]", text, re.M)) - OTHER_NAMES


def cards():
    return {path.stem: path.read_text() for path in sorted(CARDS.glob("*.md")) if path.stem != "README"}


def summary(text):
    return " ".join(text.split("\n\n")[1].split())


def measured():
    """Returns {name: [(variant, sign and percent, workload)]} of the table of costs, ours."""
    path, costs = ROOT / "docs" / "results" / "algorithms_cost.md", {}
    if not path.exists():
        return costs
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 4 and re.fullmatch(r"[+-]\d+ %", cells[4]):
            name, _, variant = cells[0].partition(" ")
            costs.setdefault(name, []).append((variant, cells[4], cells[1]))
    return costs


def with_cost(text, rows):
    """Puts the figures into the card in place of older ones; what else is said of the cost stays."""
    part = r"- \*\*Cost\*\*: (.*?)(?=\n- \*\*Pitfalls)"
    said = " ".join(re.search(part, text, re.S)[1].split())
    said = re.sub(r"^(in the \[table\].*?machine\.|not in the table yet; |.*?\(\[table\]\([^)]*\)\)\.) ?", "", said)
    figures = ", ".join(f"{variant + ' ' if variant else ''}{cost}" for variant, cost, _ in rows)
    line = f"- **Cost**: {figures} CPU time of a step of a small {rows[0][2]} model ([table](../results/algorithms_cost.md)). "
    line = (line + said[:1].upper() + said[1:]).strip()
    wrapped = "\n".join(textwrap.wrap(line, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return re.sub(part, lambda _: wrapped, text, flags=re.S)


def effects():
    """Returns {name: sentence} of the table of effects."""
    path, said = ROOT / "docs" / "results" / "method_effects.md", {}
    for line in path.read_text().splitlines() if path.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[5] in ("better", "worse", "no clear difference"):
            name, what, without, with_it, differences, verdict = cells[:6]
            seeds = differences.count(",") + 1
            result = f"{verdict} {'in' if verdict.startswith('no') else 'with each of'} {seeds} seeds"
            what = what.replace(" of a ", " of a small ")
            said[name] = (f"{what[:1].upper()}{what[1:]} after a short run {with_it}, without it {without}: {result} "
                          "([table](../results/method_effects.md)).")
    return said


def with_quality(text, sentence):
    """Puts the sentence into the card in place of an older one; what else is said of the quality stays."""
    part = r"- \*\*Quality\*\*: (.*?)(?=\n- \*\*Cost)"
    said = " ".join(re.search(part, text, re.S)[1].split())
    said = re.sub(r"^(not measured here\.|.*?\(\[table\]\(../results/method_effects.md\)\)\.) ?", "", said)
    said = said.replace("; by itself not measured", "")
    wrapped = "\n".join(textwrap.wrap(f"- **Quality**: {sentence} {said}".strip(), 100, subsequent_indent="  ",
                                      break_long_words=False, break_on_hyphens=False))
    return re.sub(part, lambda _: wrapped, text, flags=re.S)


def index(all_cards):
    lines = ["# Methods", "",
             "What makes training better or cheaper, one screen for each; `composer methods NAME` prints it, with",
             "the keys and their defaults. Made by `tools/check_methods.py --write`.", "",
             "| name | kind | what it does |", "|---|---|---|"]
    lines += [f"| [{name}]({name}.md) | {KINDS.get(name, 'algorithm')} | {summary(text)} |"
              for name, text in all_cards.items()]
    return "\n".join(lines) + "\n"


def problems(all_cards):
    for name in sorted(algorithms() - set(all_cards)):
        yield f"docs/methods: the algorithm {name} has no card"
    for name in sorted(set(all_cards) - algorithms() - set(KINDS)):
        yield f"docs/methods/{name}.md: there is no such algorithm, and tools/check_methods.py does not know its kind"
    for name, text in all_cards.items():
        if not text.startswith(f"# {name}\n\n") or re.findall(r"^- \*\*(\w+)\*\*: ", text, re.M) != PARTS:
            yield f"docs/methods/{name}.md: expected the heading {name}, a summary, and a list of {', '.join(PARTS)}"
        if max(map(len, text.splitlines())) > 100 or text.count("\n") > 30:
            yield f"docs/methods/{name}.md: a card has at most 30 lines of 100 columns"
    readme = CARDS / "README.md"
    if not readme.exists() or readme.read_text() != index(all_cards):
        yield "docs/methods/README.md is not what tools/check_methods.py --write makes"


def main():
    if "--write" in sys.argv:
        costs = measured() if "--costs" in sys.argv else {}
        qualities = effects() if "--quality" in sys.argv else {}
        for name, text in cards().items():
            text = with_cost(text, costs[name]) if name in costs else text
            (CARDS / f"{name}.md").write_text(with_quality(text, qualities[name]) if name in qualities else text)
        (CARDS / "README.md").write_text(index(cards()))
    found = list(problems(cards()))
    print("\n".join(found) if found else f"methods: {len(cards())} cards, all as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
