#!/usr/bin/env python3
"""Checks the references that are made from the code's own tables; --write writes them:
  - docs/metrics.md: the metrics of a run (views/read/metric_names.cc). Each metric that the trainer logs under a literal
    name must be in that table.
  - docs/monitoring.md: Prometheus's metrics (PrometheusText in launcher/control/job_status.cc)
  - docs/failures.md and docs/architecture.md: the exit codes (contract/exit_code.h)
"""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = r'"((?:[^"\\]|\\.)*)"'
LOGGED = re.compile(r'\b(?:Log|Intern)\(\s*(absl::StrCat\()?"([^"]+)"')


def read(path):
    return (ROOT / path).read_text()


def joined(source):
    """Puts literals that follow each other together, as the compiler does."""
    return re.sub(r'"\s*\n\s*"', "", source)


def run_metrics():
    body = joined(read("views/read/metric_names.cc")).split("kMeanings[] = {", 1)[1].split("\n};", 1)[0]
    return re.findall(rf"\{{{TEXT},\s*{TEXT},\s*{TEXT}\}}", body)


def metrics_table():
    return "| metric | logged by | meaning |\n|---|---|---|\n" + "".join(
        f"| `{name}` | {source if ' ' in source or source == 'always' else f'`{source}`'} | {meaning} |\n" for name, source, meaning in run_metrics())


def prometheus_table():
    body = joined(read("launcher/control/job_status.cc")).split("std::string PrometheusText", 1)[1]
    rows = []
    for call, name, rest in re.findall(r'(m\.Begin|m\.One|each)\(\s*"(composer_\w+)",\s*((?:"(?:[^"\\]|\\.)*"[,\s]*)+)', body):
        texts = re.findall(TEXT, rest)
        kind, meaning = ("gauge", texts[0]) if call == "each" else texts[:2]
        labels = "{rank}" if call == "each" else ""
        if call == "m.Begin":
            added = body[body.index("m.Add(", body.index(name)):].split("\n", 1)[0]
            labels = "{" + ",".join(re.findall(r'(\w+)=\\"', added)) + "}"
        meaning = meaning[0].lower() + meaning[1:].rstrip(".")
        rows.append(f"| `{name}{labels}` | {kind} | {meaning} |\n")
    return "| metric | type | meaning |\n|---|---|---|\n" + "".join(rows)


def exit_table():
    source = read("contract/exit_code.h")
    codes = dict(re.findall(r"constexpr int (\w+) = (\d+);", source))
    rows = re.findall(rf"\{{(\w+), {TEXT}, {TEXT}\}}", source)
    unused = set(codes) - {name for name, _, _ in rows}
    if unused:
        sys.exit(f"contract/exit_code.h: {', '.join(sorted(unused))} has no meaning")
    shown = {name: "128+n" if name == "kSignalled" else code for name, code in codes.items()}
    return "| exit code | meaning | what follows |\n|---|---|---|\n" + "".join(
        f"| {shown[name]} | {meaning} | {follows} |\n" for name, meaning, follows in rows)


def logged():
    """Yields (file, name) of each metric that the trainer logs under a literal; a name that goes on ends in `*`."""
    for path in sorted((ROOT / "trainer").rglob("*.cc")):
        for goes_on, name in LOGGED.findall(path.read_text()):
            yield path.relative_to(ROOT), name + "*" * bool(goes_on)


def undocumented():
    patterns = [re.sub(r"<[^>]*>", "*", name) for name, _, _ in run_metrics()]
    for i, (name, _, _) in enumerate(run_metrics()):
        if hiding := [pattern for pattern in patterns[:i] if fnmatch.fnmatchcase(name, pattern)]:
            yield f"views/read/metric_names.cc: `{name}` is never found behind `{hiding[0]}`"
    for path, name in logged():
        begin = name.rstrip("*")
        if not any(fnmatch.fnmatchcase(name, pattern) or name.endswith("*") and pattern.startswith(begin) for pattern in patterns):
            yield f"{path}: `{name}` is not in views/read/metric_names.cc"


def main():
    tables = [("docs/metrics.md", metrics_table()), ("docs/monitoring.md", prometheus_table()),
              ("docs/failures.md", exit_table()), ("docs/architecture.md", exit_table())]
    found = list(undocumented())
    for document, table in tables:
        text = read(document)
        head = table.split("\n", 1)[0] + "\n"
        if text.count(head) != 1:
            found.append(f"{document}: it must have one table that begins with {head.strip()}")
            continue
        begin = text.index(head)
        end = text.find("\n\n", begin) + 1 or len(text)
        if text[begin:end] == table:
            continue
        if sys.argv[1:] == ["--write"]:
            (ROOT / document).write_text(text[:begin] + table + text[end:])
        else:
            found.append(f"{document}: its table is not that of the code: run tools/check_reference_doc.py --write")
    print("\n".join(found) if found else f"reference: {len(run_metrics())} metrics of runs, {len(prometheus_table().splitlines()) - 2} of Prometheus, "
          f"{len(exit_table().splitlines()) - 2} exit codes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
