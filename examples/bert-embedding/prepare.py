#!/usr/bin/env python3
"""Makes pairs of a sentence and the function that it describes out of Python's own library, into .deps/functions. Nothing
is downloaded.

  train.jsonl   {"text": the first sentence of a function's docstring, "code": the function without it}
  test.jsonl    every eighth, by a hash of the sentence
  corpus.txt    sentences and functions of train.jsonl, a line each, for the tokenizer

Needs Python 3.9 or later; how many pairs there are depends on its version (5,900 of 3.11).
"""
import ast
import contextlib
import hashlib
import json
import pathlib
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / ".deps/functions"
LEFT_OUT = {"test", "tests", "site-packages", "dist-packages", "idle_test"}


def functions():
    """Yields (sentence, code)."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if LEFT_OUT & set(path.relative_to(library).parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or len(node.body) < 2:
                continue
            docstring = ast.get_docstring(node)
            if docstring:
                node.body = node.body[1:]
                yield " ".join(docstring.split("\n\n")[0].split(". ")[0].split()), ast.unparse(node)


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    seen, counts = set(), [0, 0]
    names = ("train.jsonl", "test.jsonl", "corpus.txt")
    with contextlib.ExitStack() as stack:
        train, test, corpus = (stack.enter_context(open(TARGET / name, "w", encoding="utf-8")) for name in names)
        for sentence, code in functions():
            if len(sentence.split()) < 4 or sentence in seen:
                continue
            seen.add(sentence)
            is_test = hashlib.sha256(sentence.encode()).digest()[0] % 8 == 0
            (test if is_test else train).write(json.dumps({"text": sentence, "code": code[:2000]}) + "\n")
            if not is_test:
                corpus.write(f"{sentence}\n{' '.join(code[:2000].split())}\n")
            counts[is_test] += 1
    print(f"{TARGET}: {counts[0]} pairs to train on, {counts[1]} to test on")


if __name__ == "__main__":
    main()
