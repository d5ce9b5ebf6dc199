#!/usr/bin/env python3
"""Checks that docs/configuration.md lists every key of the table of keys (config/keys). Fails on a name or key that no
`code` of the document has, on a top-level key of the file that has no row in the document's table, and on a key of a
named thing (`speed_monitor {…}`) that is missing between its own braces."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Named things have their keys between their own braces in the document.
WITH_BRACES = {"algorithm", "callback", "dataset", "logger", "metric", "model"}
WORD = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')


def code_of(document):
    """Returns the texts between backticks."""
    return re.findall(r"`([^`]+)`", document)


def words_of(texts):
    return {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}


def rows_of(document):
    """Returns the keys that have a row in the table."""
    return words_of(code for line in document.splitlines() if line.startswith("| `")
                    for code in code_of(line.split("|")[1]))


def sections_of(source):
    """Returns {(kind, name): [keys]} of a table of config/keys (config/schema.h describes the format)."""
    sections, keys = {}, []
    for line in source.split('R"(', 1)[1].split(')";', 1)[0].replace("\\\n", "").splitlines():
        if header := re.match(r"\[(\w+) (\w+)\]", line):
            keys = sections.setdefault(header.groups(), [])
        elif " | " in line:
            keys.append(line.split(" | ")[0])
    return sections


def missing(path, source, document):
    known = words_of(code_of(document))
    for (kind, name), keys in sections_of(source).items():
        own = words_of(text for text in code_of(document) if re.match(rf"{name}(\s|$)", text))
        where = rows_of(document) if (kind, name) == ("map", "job") else own if kind in WITH_BRACES else known
        if kind != "map" and name.removesuffix("_with_warmup") not in known:
            yield f"{path}: the {kind} `{name}` is not in docs/configuration.md"
        for key in sorted(set(keys) - where):
            yield f"{path}: `{key}` of [{kind} {name}] is not in docs/configuration.md"


def wrong_advice(document):
    """Checks that config/renamed_keys.cc sends users to keys that exist, from keys that do not."""
    rows = rows_of(document)
    for entry in re.findall(r'^    \{("\w+".*?)\}', (ROOT / "config/renamed_keys.cc").read_text(), re.M | re.S):
        old, *rest = WORD.findall(entry)
        if old in rows:
            yield f"config/renamed_keys.cc: `{old}` is a key itself"
        if rest and rest[0] not in rows:
            yield f"config/renamed_keys.cc: `{rest[0]}` is not a key"


def main():
    document = (ROOT / "docs/configuration.md").read_text()
    files = sorted((ROOT / "config/keys").glob("*.cc"))
    found = [line for path in files for line in missing(str(path.relative_to(ROOT)), path.read_text(), document)]
    found += wrong_advice(document)
    print("\n".join(found) if found else f"configuration: {len(files)} files, every key is documented")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
