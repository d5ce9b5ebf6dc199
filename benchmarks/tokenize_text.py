#!/usr/bin/env python3
"""Our tokenizers beside the Python packages over at least 100 MB of mixed text that a Debian machine has: the tokens of
every document of 4,096 characters must be equal, with six vocabularies (tokenize_fuzz.py), and MB per CPU second of both
sides, and of gigatoken where it has the model, on one core, measured in turns. Some ten minutes of one core.
  ./dev tokenizers --text [--megabytes 100] [--only NAME,…] [--work DIR]
The text is licences, headers, sources, pages and messages out of /usr/share, /usr/include and Python's own library, the
files of each folder in turns, with a random string of all scripts behind every eighth document. Exit code 1: some tokens
differ; the first ones are printed. SPDX-License-Identifier: Apache-2.0
"""
import argparse
import itertools
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import unicodedata

import tokenize_fuzz
import tokenize_peers

FOLDERS = ("/usr/share", "/usr/include", sysconfig.get_path("stdlib"), "/usr/lib/python3")
MOST_OF_A_FILE, DOCUMENT, PART = 400_000, 4096, 10_000_000
ENDINGS = {".txt", ".py", ".h", ".hpp", ".md", ".html", ".rst", ".json", ".pm", ".pl", ".po", ".msg", ".tcl", ".xml", ".css", ".js", ""}


def files_of(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        try:
            if path.suffix not in ENDINGS or not path.is_file() or path.is_symlink():
                continue
            text = path.read_bytes()[:MOST_OF_A_FILE].decode()
        except (OSError, UnicodeDecodeError):
            continue
        if "\0" not in text:
            yield text


def documents(size):
    """Characters that Unicode 14 does not know are left out: the packages differ among themselves there."""
    rng, written = random.Random(18), 0
    for text in filter(None, itertools.chain.from_iterable(itertools.zip_longest(*map(files_of, FOLDERS)))):
        if not text.isascii():
            text = "".join(c for c in text if c.isascii() or unicodedata.category(c) not in ("Cn", "Co"))
        for begin in range(0, len(text), DOCUMENT):
            document = text[begin:begin + DOCUMENT]
            if rng.random() < 0.125:
                document += re.sub(r"\0", "", tokenize_peers.fuzzed(rng))
            written += len(document.encode())
            yield document
            if written >= size:
                return


def parts(texts):
    part, size = [], 0
    for text in texts:
        part.append(text)
        size += len(text)
        if size >= PART:
            yield part
            part, size = [], 0
    if part:
        yield part


def our_rates(path, flags, texts):
    """MB a CPU second over these texts: with an empty cache of words, and with a full one."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write("".join(texts))
        file.flush()
        lines = subprocess.run([tokenize_peers.BINARY, path, file.name, *flags], capture_output=True, text=True, check=True).stdout
    rates = [float(rate) for rate in re.findall(r"([\d.]+) MB a CPU second", lines)]
    return rates[0], rates[-1]


def gigatoken_of(name, path):
    """A maker of gigatoken's tokenizer with an empty cache of words, or None where it has no such model."""
    import gigatoken
    if name == "gpt2":
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        made = Tokenizer(models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt")))
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        made.add_special_tokens(["<|endoftext|>"])
        return lambda text=made.to_str(): gigatoken.Tokenizer.from_json(text)
    return {"cl100k": lambda: gigatoken.Tokenizer.from_tiktoken(path), "o200k": lambda: gigatoken.Tokenizer.from_tiktoken(path),
            "bpe": lambda: gigatoken.Tokenizer.from_sentencepiece(path)}.get(name)


def gigatoken_rates(make, texts, size):
    """MB a CPU second on one core, cold and warm, of the part as one text, as ours; and the tokens of each text."""
    made, whole, rates = make(), "".join(texts), []
    for _ in range(3):
        start = time.process_time()
        made.encode(whole)
        rates.append(1e-6 * size / (time.process_time() - start))
    return rates[0], rates[-1], made.encode_batch_list(texts, parallel=False)


def compare(name, args):
    makers = {"gpt2": tokenize_fuzz.gpt2, "cl100k": tokenize_fuzz.cl100k, "o200k": tokenize_fuzz.o200k, "minilm": tokenize_fuzz.minilm}
    path, flags, encode = (makers[name](args.work) if name in makers else
                           tokenize_fuzz.sentencepiece_of(name, args.work, tokenize_fuzz.corpus_of(random.Random(7))))
    make, giga, giga_differ = gigatoken_of(name, path), [], 0
    if make is not None:
        make().encode("The first call of a process is slower.")
    different, tokens, size, count, cold, warm, peers = [], 0, 0, 0, [], [], []
    for texts in parts(documents(int(args.megabytes * 1e6))):
        start = time.process_time()
        theirs = [encode(text) for text in texts]
        bytes_ = sum(len(text.encode()) for text in texts)
        peers.append(1e-6 * bytes_ / (time.process_time() - start))
        for (text, a), b in zip(zip(texts, theirs), tokenize_peers.ours(path, texts, flags)):
            if a != b:
                different.append(text)
        rates = our_rates(path, flags, texts)
        if make is not None:
            giga.append(gigatoken_rates(make, texts, bytes_))
            giga_differ += sum(a != list(b) for a, b in zip(theirs, giga[-1][2]))
        cold.append(rates[0])
        warm.append(rates[1])
        tokens, size, count = tokens + sum(map(len, theirs)), size + bytes_, count + len(texts)
    ours, other = statistics.median(cold), statistics.median(peers)
    print(f"{name}: {count} documents, {size} bytes, {tokens} tokens, {len(different)} documents differ; MB a CPU second: ours {ours:.1f} "
          f"cold, {statistics.median(warm):.1f} warm, the package {other:.2f}, ours / the package {ours / other:.1f}", flush=True)
    if giga:
        print(f"{name}: gigatoken {statistics.median(rate[0] for rate in giga):.1f} cold, {statistics.median(rate[1] for rate in giga):.1f} warm, "
              f"{giga_differ} documents differ from the package's", flush=True)
    for text in different[:3]:
        print(json.dumps(text), flush=True)
    return len(different)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--only", default="gpt2,minilm,cl100k,o200k,bpe,unigram")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/composer-peers/vocabularies"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    return 1 if sum(compare(name, args) for name in args.only.split(",")) else 0


if __name__ == "__main__":
    sys.exit(main())
