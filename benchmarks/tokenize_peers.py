#!/usr/bin/env python3
"""Our tokenizers beside the Python packages: that all tokens are equal, over a corpus and random strings, and MB a CPU
second of both on one core. Run it with a Python that has tokenizers, tiktoken and sentencepiece:
  benchmarks/tokenize_peers.py KIND PATH CORPUS [--fuzz N] [--bytes N]
KIND: json (tokenizer.json), cl100k (a .tiktoken file) or sp (a .model). Exit code 1: some tokens differ.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import base64
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "bin" / "tokenize"
CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
PARTS = ["the", " The", "'s", "'S", "'ll", "'RE", "'\u017f", "1", "12 345", "\n", "\r\n", "  ", "\t", " ", "\u00e9", "e\u0301", "\u00df", "\u4e2d",
         "\u6587", "\ud55c", "\u3042", "\u042f", " \u043f\u0440\u0438\u0432\u0435\u0442", "\U0001f642", "\u200d", "\u00a0", "\u3000", "\u2028", "XyZ", "_",
         "--", "...", "</s>", "[MASK]", "<|endoftext|>", "/", "\u0130", "\u01c5", "\u2167", "\u00bd", "\u0300", "\u093e", "\ufb01", "\u212b", "\ufeff",
         "\u0085", "\u2581", "##", "don't", "WORLD", "iOS", "\x00", "\x07", "\ufffd", "\u00ab", "$", "\u20ac"]


def fuzzed(rng):
    """Random strings; characters that Unicode 14 does not know are left out."""
    text = []
    for _ in range(rng.randrange(1, 24)):
        kind = rng.random()
        point = rng.randrange(32, 127) if kind < 0.8 else rng.randrange(0x80, 0xfffe) if kind < 0.9 else rng.randrange(0x10000, 0x20000)
        if kind < 0.55:
            text.append(rng.choice(PARTS))
        elif not 0xd800 <= point < 0xe000 and unicodedata.category(chr(point)) != "Cn":
            text.append(chr(point))
    return "".join(text)


def peer(kind, path):
    if kind == "json":
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    if kind == "sp":
        import sentencepiece
        return sentencepiece.SentencePieceProcessor(model_file=path).encode
    import tiktoken
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in open(path)}
    return tiktoken.Encoding("peer", pat_str=CL100K, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


def ours(path, texts, flags=()):
    with tempfile.NamedTemporaryFile() as file:
        for text in texts:
            file.write(struct.pack("<I", len(text.encode())) + text.encode())
        file.flush()
        found = subprocess.run([BINARY, path, file.name, *flags, "--ids"], stdout=subprocess.PIPE, check=True).stdout
    at, lists = 0, []
    for _ in texts:
        count = struct.unpack_from("<I", found, at)[0]
        lists.append(list(struct.unpack_from(f"<{count}I", found, at + 4)))
        at += 4 + 4 * count
    return lists


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["json", "cl100k", "sp"])
    parser.add_argument("path")
    parser.add_argument("corpus")
    parser.add_argument("--fuzz", type=int, default=100000)
    parser.add_argument("--bytes", type=int, default=30_000_000)
    args = parser.parse_args()
    rng = random.Random(18)
    corpus = open(args.corpus, encoding="utf-8").read(args.bytes)
    documents = [corpus[i:i + 4096] for i in range(0, len(corpus), 4096)]
    strings = [fuzzed(rng) for _ in range(args.fuzz)]
    encode = peer(args.kind, args.path)
    start = time.process_time()
    theirs = [encode(text) for text in documents]
    rate = 1e-6 * len(corpus.encode()) / (time.process_time() - start)
    theirs += [encode(text) for text in strings]
    texts = documents + strings
    different = [text for text, a, b in zip(texts, theirs, ours(args.path, texts)) if a != b]
    print(f"{args.path}: {len(texts)} texts, {len(different)} differ; the package: {rate:.1f} MB a CPU second; ours:")
    for text in different[:5]:
        print(repr(text[:200]))
    sys.stdout.flush()
    subprocess.run([BINARY, args.path, args.corpus], check=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
