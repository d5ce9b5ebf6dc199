#!/usr/bin/env python3
"""docs/configuration.md says every key of a job's YAML. Fails on a word in quotes in worker/job*.cc (keys, names, values of choices) that no `code` of the document
has, on a key of the file's top that has no row in the table, and on a key of a named thing (`speed_monitor {…}`) that is missing between its own braces."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Words that are no part of a YAML: kinds of plugins, words of messages, examples of comments.
NOT_KEYS = {"algorithm", "callback", "dataset", "logger", "metric", "optimizer", "scheduler", "label_smoothing", "required"}
# Their names have their keys between braces of their own.
WITH_BRACES = ("job_algorithms.cc", "job_callbacks.cc", "job_data.cc", "job_loggers.cc", "job_metrics.cc", "job_model.cc")
WORD = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')
GETTER = r'\b{0}\.(?:String|Int|RequiredInt|Double|RequiredDouble|Bool|Time|Choice|Is|IntList|DoubleList|StringList|Map|MapList|NamedMaps)\(\s*"(\w+)"' \
         r'|\bRead\w+(?:<[^>]*>)?\(\s*{0},\s*"(\w+)"'
CONFIG_KEY, ROOT_KEY = re.compile(GETTER.format("config")), re.compile(GETTER.format("root"))


def code_of(document):
    """The texts between backticks."""
    return re.findall(r"`([^`]+)`", document)


def words_of(texts):
    return {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}


def rows_of(document):
    """The keys that have a row in the table."""
    return words_of(code for line in document.splitlines() if line.startswith("| `") for code in code_of(line.split("|")[1]))


def without_includes(source):
    return "\n".join(line for line in source.splitlines() if not line.startswith("#include"))


def functions_of(source):
    """{name: body} of the functions at column 0."""
    return {name: body for name, body in re.findall(r"^[\w:<>&*, ]+?\b(\w+)\([^;{}]*\) \{\n(.*?)^\}", source, re.M | re.S)}


def keys_of(name, functions, seen=()):
    """What a reader asks for, itself or by the functions that it hands `config` to."""
    body = functions.get(name, "")
    keys = {first or second for first, second in CONFIG_KEY.findall(body)}
    for called in re.findall(r"\b(\w+)(?:<[^>]*>)?\((?:&?config\b)", body):
        if called in functions and called not in seen:
            keys |= keys_of(called, functions, (*seen, name))
    return keys


def missing(path, source, document):
    known = words_of(code_of(document))
    for word in sorted(set(WORD.findall(source)) - NOT_KEYS - known):
        yield f"{path}: `{word}` is not in docs/configuration.md"
    for key in sorted({first or second for first, second in ROOT_KEY.findall(source)} - rows_of(document)):
        yield f"{path}: the table of docs/configuration.md has no row for `{key}`"
    if not path.endswith(WITH_BRACES):
        return
    functions = functions_of(source)
    for name, reader in re.findall(r'\{"(\w+)",\s*(\w+)\}', source):
        own = [text for text in code_of(document) if re.match(rf"{name}(\s|$)", text)]
        for key in sorted(keys_of(reader, functions) - words_of(own)):
            yield f"{path}: `{name} {{{key}}}` is not in docs/configuration.md"


def wrong_advice(document):
    """config/renamed_keys.cc sends users to keys that are there, from keys that are not."""
    rows = rows_of(document)
    for entry in re.findall(r'^    \{("\w+".*?)\}', (ROOT / "config/renamed_keys.cc").read_text(), re.M | re.S):
        old, *rest = WORD.findall(entry)
        if old in rows:
            yield f"config/renamed_keys.cc: `{old}` is a key itself"
        if rest and rest[0] not in rows:
            yield f"config/renamed_keys.cc: `{rest[0]}` is no key"


def main():
    document = (ROOT / "docs/configuration.md").read_text()
    files = sorted((ROOT / "worker").glob("job*.cc"))
    found = [line for path in files for line in missing(str(path.relative_to(ROOT)), without_includes(path.read_text()), document)]
    found += wrong_advice(document)
    print("\n".join(found) if found else f"configuration: {len(files)} files, every key is documented")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
