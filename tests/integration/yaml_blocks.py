"""The fenced blocks of a document, and a block of YAML as part of a whole job. SPDX-License-Identifier: Apache-2.0"""
import json
import re

FENCE = re.compile(r"^( *)(```|~~~)(\w*)\n(.*?)^\1\2", re.S | re.M)


def fenced(page):
    """(language, text) of each block."""
    return [(match[3], match[4]) for match in FENCE.finditer(page.read_text())]


def without_fences(page):
    return FENCE.sub("", page.read_text())


def of(page):
    """The blocks of YAML. One that has the same key twice at the top shows alternatives: each is a block."""
    found = []
    for language, text in fenced(page):
        if language != "yaml":
            continue
        lines, current, keys = text.splitlines(keepends=True), "", set()
        for line in lines:
            key = re.match(r"(\w+):", line)
            if key and key[1] in keys:
                found.append(current)
                current, keys = "", set()
            keys |= {key[1]} if key else set()
            current += line
        found.append(current)
    return found


def completed(text, job):
    """The text of a block, with what a job needs and it does not say."""
    keys = set(re.findall(r"^(\w+):", text, re.M))
    rest = {key: value for key, value in job.items() if key not in keys}
    if "train_dataloader" in keys or "model" in keys:
        rest.pop("schedulers", None)
    if "device_train_batch_size" in keys:
        rest.pop("global_train_batch_size", None)
    return text + "\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in rest.items())
