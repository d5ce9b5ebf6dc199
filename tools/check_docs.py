#!/usr/bin/env python3
"""Checks the documents: README.md, CONTRIBUTING.md and docs/*.md (docs/results and CHANGELOG.md are records of their day and stay as they are).

Fails on
  - a relative link to a file or to a heading that does not exist,
  - a link whose text is a function in backticks, [`TrainBatch::Run`](../trainer/loop/train_batch.cc), when the file does not contain `Run`,
  - a path in backticks (`trainer/loop/train_batch.cc`, `launcher/supervise/`, `tests/fuzz/*_fuzz.cc`) that matches nothing in the tree,
  - a line of more than 100 columns outside tables and code blocks,
  - a task of docs/tasks.md that a reader of README.md does not reach by the links it names, in two clicks, or whose answer is not in the document
    at their end.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = ROOT / "docs/tasks.md"
MAX_COLUMNS = 100
FENCE = re.compile(r"^ *```")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
FUNCTION = re.compile(r"`(?:\w+::)*(~?\w+)(?:\(\))?`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
SOURCE = re.compile(r"/.*\.(?:h|cc|cu|py|proto|cmake)$")


def tree():
    """The files of the project and the folders that they are in, as paths below ROOT. What git ignores is not there for others."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [pathlib.PurePosixPath(name) for name in files if (ROOT / name).exists()]
    return {str(path) for file in files for path in [file, *file.parents]}


def metrics():
    """The names of a run's metrics, of which some begin like a folder."""
    return set(re.findall(r'\{"([^"]+)"', (ROOT / "views/read/metric_names.cc").read_text()))


def documents():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def without_code_blocks(text):
    """The text with its fenced blocks emptied, so that line numbers stay."""
    lines, inside = [], False
    for line in text.split("\n"):
        fence = FENCE.match(line)
        lines.append("" if fence or inside else line)
        inside ^= bool(fence)
    return "\n".join(lines)


def anchors(path):
    """The names that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", without_code_blocks(path.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def wrong_link(document, text, target, known):
    """What is wrong with one link, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.is_relative_to(ROOT) or str(path.relative_to(ROOT)) not in known:
        return f"the link to {target} points to nothing"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{target}: the document has no such heading"
    function = FUNCTION.fullmatch(text.strip())
    if function and path.is_file() and path.suffix != ".md" and not re.search(rf"(?<!\w){re.escape(function.group(1))}\b", path.read_text()):
        return f"{name} does not contain {function.group(1)}"
    return None


def wrong_path(code, known):
    """What is wrong with one text in backticks, or None. A path is judged when its first folder is one of the tree, or when it ends like a source."""
    code = code.removeprefix("./")
    if "/" not in code or not PATH.fullmatch(code) or not (code.split("/")[0] in known or SOURCE.search(code)):
        return None
    found = any(fnmatch.fnmatchcase(path, code) for path in known) if "*" in code else code.rstrip("/") in known
    return None if found and not (code.endswith("/") and (ROOT / code.rstrip("/")).is_file()) else f"`{code}` is not in the tree"


def problems(document, known):
    text = without_code_blocks(document.read_text())
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("|"):
            yield number, f"{len(line)} columns, more than {MAX_COLUMNS}"
    for match in LINK.finditer(text):
        if wrong := wrong_link(document, match.group(1), match.group(2), known):
            yield text.count("\n", 0, match.start()) + 1, wrong
    for match in CODE.finditer(text):
        if wrong := wrong_path(match.group(1), known):
            yield text.count("\n", 0, match.start()) + 1, wrong


def linked(document):
    """The documents that a document links."""
    targets = (target.partition("#")[0] for _, target in LINK.findall(without_code_blocks(document.read_text())))
    return {(document.parent / name).resolve() for name in targets if name and not re.match(r"[a-z]+:", name)}


def wrong_task(row):
    """What is wrong with one row of docs/tasks.md, or None. The links of tasks.md itself do not count as clicks."""
    task, _, here, where = [cell.strip() for cell in row.strip("|").split(" | ")]
    at = ROOT / "README.md"
    clicks = [(TASKS.parent / target.partition("#")[0]).resolve() for _, target in LINK.findall(where)]
    if not 1 <= len(clicks) <= 2:
        return f"`{task}` takes {len(clicks)} clicks, not one or two"
    for click in clicks:
        if click not in linked(at):
            return f"`{task}`: {at.relative_to(ROOT)} has no link to {click.relative_to(ROOT)}"
        at = click
    missing = [code for code in CODE.findall(here) if code not in at.read_text()]
    return f"`{task}`: {at.relative_to(ROOT)} does not mention {missing[0]}" if missing else None


def task_problems():
    rows = [(number, line) for number, line in enumerate(TASKS.read_text().split("\n"), 1) if line.startswith("| ")][1:]
    if len(rows) < 40:
        yield 1, f"{len(rows)} tasks, fewer than 40"
    for number, row in rows:
        if wrong := wrong_task(row):
            yield number, wrong


def main():
    known = tree() | metrics()
    found = [f"{path.relative_to(ROOT)}:{number}: {wrong}" for path in documents() for number, wrong in sorted(problems(path, known))]
    found += [f"{TASKS.relative_to(ROOT)}:{number}: {wrong}" for number, wrong in task_problems()]
    print("\n".join(found) if found else f"docs: {len(documents())} documents, every link and path is right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
