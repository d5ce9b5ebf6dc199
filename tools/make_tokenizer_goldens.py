#!/usr/bin/env python3
"""Small tokenizers of every kind, trained on this repository's documents, and what the real packages make of texts with
them, below tests/golden/tokenizers/. Run it with a Python that has tokenizers==0.23.3 and sentencepiece==0.2.3.
SPDX-License-Identifier: Apache-2.0
"""
import importlib.metadata
import io
import json
import pathlib
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SEED = 18
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "golden" / "tokenizers"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# What the Unigram model replaces; SentencePiece's own table would be 240 KB.
RULES = [("\ufb01", "fi"), ("\u00bd", "1/2"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", ""), ("e\u0301", "\u00e9"),
         ("\u212b", "\u00c5"), ("\u2167", "VIII"), ("\u3002", "."), ("\x07", ""), ("\u2581", " ")]
FOREIGN = ["Привет, мир! Как дела?", "Größe und Maß; été à Noël", "日本語の文章です。", "한국어 문장", "naïve café ½ ﬁ Ⅷ", "🙂👩‍👩‍👧 emoji"]
PARTS = ["the ", "The", " don't", "'S", "1234567", "  ", "\n", "\r\n\t", " checkpoint", "\u00e9", "e\u0301", "ß", "中文", "한", "Я", "🙂", "\u00a0", "\u3000",
         "_", "--", "...", "</s>", "<mask>", " <mask> ", "<|end|>", "[MASK]", "word", "İ", "ﬁ", "\u212b", "\u2581", "##", "\x07", "x" * 120]


def corpus():
    lines = (ROOT / "docs" / "launcher.md").read_text().splitlines() + (ROOT / "docs" / "data.md").read_text().splitlines()
    return [line for line in lines if line.strip()] + FOREIGN * 4


def texts():
    rng = random.Random(SEED)
    fuzzed = ["".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 12))) for _ in range(24)]
    return ["", " ", "a", "Hello, y'all! How are you 😁 ?"] + FOREIGN + corpus()[5:8] + fuzzed


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bytes_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=["<|end|>"],
                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def split_bpe():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=["<s>", "</s>"],
                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])])
    return tokenizer


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=600, show_progress=False,
                                               special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def word_end():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                                                       pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.BPEDecoder()
    return train(tokenizer, trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["<unk>"], end_of_word_suffix="</w>"))


def unigram(charsmap):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    train(tokenizer, trainers.UnigramTrainer(vocab_size=500, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>"))
    return tokenizer


def sentence_piece(name, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, minloglevel=2,
                                             num_threads=1, **options)
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    (FOLDER / name / "tokenizer.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def llama(pieces):
    """The layout that transformers makes of a SentencePiece BPE model."""
    vocab = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    merges = []
    for token, i in vocab.items():
        cuts = [(token[:c], token[c:]) for c in range(1, len(token)) if token[:c] in vocab and token[c:] in vocab]
        merges += [(i, pair) for pair in cuts if not pieces.is_byte(i) and not pieces.is_control(i) and not pieces.is_unknown(i)]
    tokenizer = Tokenizer(models.BPE(vocab, [pair for _, pair in sorted(merges, key=lambda m: m[0])], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def cases_of(tokenizer):
    for text in texts():
        places = [0]
        for character in text:
            places.append(places[-1] + len(character.encode()))
        plain = tokenizer.encode(text, add_special_tokens=False)
        yield {"text": text, "ids": plain.ids, "spans": [[places[begin], places[end]] for begin, end in plain.offsets],
               "special": tokenizer.encode(text).ids, "decoded": tokenizer.decode(plain.ids, skip_special_tokens=False)}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    bpe = sentence_piece("sp_bpe", vocab_size=700, model_type="bpe", byte_fallback=True, character_coverage=0.99,
                         normalization_rule_name="identity", remove_extra_whitespaces=False)
    rules = FOLDER / "rules.tsv"
    rules.write_text("".join("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) + "\n" for rule in RULES))
    uni = sentence_piece("sp_unigram", vocab_size=500, model_type="unigram", normalization_rule_tsv=str(rules), user_defined_symbols=["<mask>"])
    rules.unlink()
    specs = FOLDER / "sp_unigram" / "tokenizer.model"
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(specs.read_bytes())
    made = {"bytes": bytes_bpe(), "split": split_bpe(), "wordpiece": word_piece(), "word_end": word_end(),
            "unigram": unigram(proto.normalizer_spec.precompiled_charsmap), "llama": llama(bpe)}
    values = {}
    # The package misplaces what follows a \r\n that its Precompiled drops.
    has_true_spans = lambda name, text: name != "unigram" or "\r\n" not in text
    for name, tokenizer in made.items():
        (FOLDER / name).mkdir(exist_ok=True)
        tokenizer.save(str(FOLDER / name / "tokenizer.json"), pretty=False)
        values[name] = [{key: value for key, value in case.items() if key != "spans" or has_true_spans(name, case["text"])}
                        for case in cases_of(tokenizer)]
    for name, pieces in {"sp_bpe": bpe, "sp_unigram": uni}.items():
        values[name] = [{"text": text, "ids": pieces.encode(text), "decoded": pieces.decode(pieces.encode(text))} for text in texts()]
    versions = {name: importlib.metadata.version(name) for name in ("tokenizers", "sentencepiece")}
    (FOLDER / "values.json").write_text(json.dumps({"versions": versions, "seed": SEED, "cases": values}, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
