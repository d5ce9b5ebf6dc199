#!/usr/bin/env python3
"""Writes tests/golden/icl.json: what llm-foundry makes of in-context tasks, and its accuracies.

Run it with transformers 4.57.1, datasets 4.3 and torchmetrics in a venv, and llm-foundry's sources:
    git clone https://github.com/mosaicml/llm-foundry /tmp/llm-foundry      # or unpack its wheel 0.22.0 from PyPI
    /tmp/composer-peers/transformers/bin/python tools/make_icl_goldens.py /tmp/llm-foundry
SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import json
import pathlib
import random
import sys
import tempfile
import types

import torch
from golden_file import write
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTE = (
    "From llm-foundry's llmfoundry/eval. `shots`: get_fewshot_sample_idxs for each of `size` examples in turn. `tasks`: "
    "the lines of a file, a tokenizer of tests/golden/tokenizers, the arguments of the data set, and for each row "
    "(a choice of a question) its tokens without padding and where the answer is, [begin, end). `accuracy`: of logits "
    "[place, v] = ((7 a + 3 b + 11 v + a v) mod 101) / 10, where a and b are the tokens at the place and before it "
    "(0 at the beginning), v below `vocab`; 8 more for the next token unless place + a is a multiple "
    "of 7. `prompts`: the same of generation_task_with_answers, whose rows are prompts alone; `normalized`: pairs of a text "
    "and normalize_answer of it; `matches`: whether a text is right. `gauntlets`: EvalGauntlet's scores of `accuracies`, by label of an evaluation, with `sizes` questions.")


def foundry(folder):
    """The modules alone: the package needs all that trains."""
    eval_folder = pathlib.Path(folder) / "llmfoundry" / "eval"
    for name in ("composer", "composer.core", "composer.core.data_spec", "composer.utils", "llmfoundry",
                 "llmfoundry.registry", "llmfoundry.utils", "llmfoundry.utils.registry_utils", "llmfoundry.eval",
                 "llmfoundry.eval.datasets"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["composer.core"].DataSpec = object
    sys.modules["composer.core.data_spec"]._default_split_batch = None
    sys.modules["composer.core.data_spec"]._split_list = None
    sys.modules["composer.utils"].MissingConditionalImportError = ImportError
    sys.modules["composer.utils"].dist = None
    sys.modules["composer.utils"].get_file = None
    sys.modules["llmfoundry"].registry = sys.modules["llmfoundry.registry"]
    sys.modules["llmfoundry.utils.registry_utils"].construct_from_registry = None
    loaded = []
    for name, path in (("llmfoundry.eval.datasets.utils", "datasets/utils.py"),
                       ("llmfoundry.eval.datasets.tasks", "datasets/in_context_learning_evaluation.py"),
                       ("llmfoundry.eval.metrics", "metrics/nlp.py")):
        spec = importlib.util.spec_from_file_location(name, eval_folder / path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded.append(module)
    return loaded


def shots(utils):
    rows = []
    for size, count, seed in ((1, 3, 1234), (2, 1, 1234), (4, 3, 5), (5, 10, 1234), (21, 2, 1234), (22, 5, 7),
                              (40, 6, 1234), (100, 10, 1234), (300, 25, 99)):
        rng = random.Random(seed)
        rows.append({"size": size, "count": count, "seed": seed,
                     "chosen": [list(utils.get_fewshot_sample_idxs(size, count, i, rng)) for i in range(size)]})
    return rows


LM_LINES = [{"context": " The cat sat on the ", "continuation": "mat"}, {"context": "One two", "continuation": "three"},
            {"context": "Der Weg ist\u00a0", "continuation": "das Ziel"}, {"context": "a b c d", "continuation": " e "},
            {"context": "Question: why", "continuation": "because of it"}]
MC_LINES = [{"query": "The man turned on the faucet, therefore ", "gold": 1,
             "choices": ["the toilet filled with water.", "water flowed from the spout."]},
            {"query": "She ran", "gold": 0, "choices": ["fast", " slowly", "not"]},
            {"query": "Two and two", "gold": 2, "choices": ["three", "five", "four"]},
            {"query": "Up", "gold": 0, "choices": ["down", "left"]}]
SCHEMA_LINES = [{"context_options": ["The trophy does not fit because the trophy", "The trophy does not fit because the bag"],
                 "gold": 0, "continuation": "is too large."},
                {"context_options": [" Anna told Eve that Anna", "Anna told Eve that Eve "], "gold": 1,
                 "continuation": " had won "},
                {"context_options": ["One", "Two", "Three"], "gold": 2, "continuation": "came home"}]
TASKS = [("language_modeling", LM_LINES, "bytes", {"num_fewshot": 0}),
         ("language_modeling", LM_LINES, "bytes", {"num_fewshot": 3, "prompt_string": "Go on:\n",
                                                   "continuation_delimiter": "\nAnswer: ", "prelimiter": "Q: "}),
         ("language_modeling", LM_LINES, "llama", {"num_fewshot": 2, "example_delimiter": "\n\n"}),
         ("language_modeling", LM_LINES, "llama", {"num_fewshot": 4, "max_seq_len": 24, "strip_dataset": False}),
         ("multiple_choice", MC_LINES, "bytes", {"num_fewshot": 2, "fewshot_random_seed": 17}),
         ("multiple_choice", MC_LINES, "llama", {"num_fewshot": 0, "prelimiter": "Question: "}),
         ("multiple_choice", MC_LINES, "llama", {"num_fewshot": 3, "continuation_delimiter": ": "}),
         ("schema", SCHEMA_LINES, "bytes", {"num_fewshot": 0}),
         ("schema", SCHEMA_LINES, "llama", {"num_fewshot": 2, "prelimiter": "Q: ", "continuation_delimiter": " so "}),
         ("schema", SCHEMA_LINES, "bytes", {"num_fewshot": 1, "prompt_string": "Which?\n", "strip_dataset": False})]
GENERATION_LINES = [{"context": " Who wrote Faust? ", "answer": "Goethe", "aliases": ["Johann Wolfgang von Goethe", "Goethe"]},
                    {"context": "Two and two", "answer": " four ", "aliases": ["4"]},
                    {"context": "The capital of France", "answer": "Paris", "aliases": []},
                    {"context": "Who painted it\u00a0", "answer": "Vermeer", "aliases": ["Jan Vermeer", "J. Vermeer van Delft"]}]
THOUGHT_LINES = [{"context": "3 + 4 * 2", "answer": "11", "chain_of_thought": "4 * 2 is 8. 3 + 8 is 11. "},
                 {"context": "10 / 2 - 1", "answer": "4", "chain_of_thought": "10 / 2 is 5. 5 - 1 is 4."},
                 {"context": "7", "answer": "7", "chain_of_thought": ""}]
PROMPTS = [(GENERATION_LINES, "bytes", "<|end|>", {"num_fewshot": 0}),
           (GENERATION_LINES, "bytes", "<|end|>", {"num_fewshot": 2, "prompt_string": "Answer.\n", "prelimiter": "Q: ",
                                                   "continuation_delimiter": "\nA: ", "example_delimiter": "\n\n"}),
           (GENERATION_LINES, "llama", "</s>", {"num_fewshot": 3, "max_seq_len": 60}),
           (GENERATION_LINES, "llama", "</s>", {"num_fewshot": 1, "strip_dataset": False}),
           (THOUGHT_LINES, "llama", "</s>", {"num_fewshot": 2, "cot_delimiter": " ### "}),
           (THOUGHT_LINES, "bytes", "<|end|>", {"num_fewshot": 1})]
TEXTS = ["The Beatles", " a  cat\tand an\u00a0apple ", "An_underscore_the_word", "Don\u2019t \u2018quote\u2019 `it\u00b4!", "the",
         "ÉCOLE ÄPFEL ΟΔΟΣ İ", "\u201ca\u201d b", "a-b (the) c", "1,000.50 $", "theatre an1 a1 the\u0301", "日本 a 語", "x\x1cy\x1f\n z", ""]
MATCHES = [("Paris, of course", ["Paris"], {}), ("It is Paris", ["Paris"], {}), ("the  PARIS.", ["paris"], {}),
           ("Lyon\nParis", ["Paris"], {"stopping_criteria": ["\n"]}), (" Paris\n\nQuestion: x", ["Paris"], {"stopping_criteria": ["\n\n", "Question:"]}),
           ("Rome Question: Paris", ["Paris"], {"stopping_criteria": ["Question:"]}),
           ("1 + 1 is 2 ### 2", ["2"], {"cot_delimiter": " ### "}), ("3 ### 1 ### 2", ["1"], {"cot_delimiter": "###"}),
           ("2", ["2"], {"cot_delimiter": "###"}), ("Paris", ["paris"], {"do_normalization": False}),
           ("  Paris!  ", [" Paris "], {"do_normalization": False}), ("42", ["forty-two", "42"], {}), ("", ["x"], {}), ("x", ["The"], {}),
           ("so ### 5 Q: ### 6", ["5"], {"cot_delimiter": "###", "stopping_criteria": ["Q:"]})]
CATEGORIES = [{"name": "world", "benchmarks": [{"name": "arc", "num_fewshot": 0, "random_baseline": 0.25},
                                               {"name": "mmlu", "num_fewshot": 5, "random_baseline": 0.25}]},
              {"name": "language", "benchmarks": [{"name": "lambada", "num_fewshot": 0, "random_baseline": 0},
                                                  {"name": "winograd", "num_fewshot": 3, "random_baseline": 0.5}]},
              {"name": "missing", "benchmarks": [{"name": "arc", "num_fewshot": 9, "random_baseline": 0.25}]}]
ACCURACIES = {"arc/0-shot": 0.4, "mmlu/5-shot/law": 0.3, "mmlu/5-shot/art": 0.7, "lambada/0-shot": 0.61,
              "winograd/3-shot": 0.45}
SIZES = {"arc/0-shot": 2376, "mmlu/5-shot/law": 1500, "mmlu/5-shot/art": 10, "lambada/0-shot": 1, "winograd/3-shot": 273}


def logits(tokens, vocab):
    a = tokens
    b = torch.cat([torch.zeros(1, dtype=torch.long), tokens[:-1]])
    v = torch.arange(vocab)
    values = ((7 * a[:, None] + 3 * b[:, None] + 11 * v + a[:, None] * v) % 101) / 10
    for place in range(len(tokens) - 1):
        if (place + a[place]) % 7 != 0 and tokens[place + 1] < vocab:
            values[place, tokens[place + 1]] += 8
    return values


def task(modules, kind, lines, name, arguments):
    _, tasks, metrics = modules
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/golden/tokenizers" / name / "tokenizer.json"))
    base = tasks.InContextLearningDataset

    def read(self, uri, *_):
        from datasets import load_dataset
        return load_dataset("json", data_files=uri, split="train", streaming=False)

    base.read_dataset = read
    choose = kind != "language_modeling"
    made = {"multiple_choice": tasks.InContextLearningMultipleChoiceTaskDataset,
            "schema": tasks.InContextLearningSchemaTaskDataset,
            "language_modeling": tasks.InContextLearningLMTaskDataset}[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "task.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        data = made(dataset_uri=str(path), tokenizer=tokenizer, pad_tok_id=10**6, destination_path="",
                    **{"max_seq_len": 200, **arguments})
        batch = data.collate_fn([data[i] for i in range(len(data))])
    vocab = len(tokenizer)
    rows = [{"tokens": ids[:int(span[-1]) + 1].tolist(), "begin": int(span[0]), "end": int(span[-1]) + 1}
            for ids, span in zip(batch["input_ids"], batch["continuation_indices"])]
    metric = metrics.InContextLearningMultipleChoiceAccuracy() if choose else metrics.InContextLearningLMAccuracy()
    batch["labels"] = torch.roll(batch["labels"], -1, 1)
    metric.update(batch, [logits(ids, vocab) for ids in batch["input_ids"]], batch["labels"])
    return {"type": kind, "tokenizer": name, "arguments": arguments, "lines": lines, "rows": rows, "vocab": vocab,
            "accuracy": metric.compute().item()}


def read_json(self, uri, *_):
    from datasets import load_dataset
    return load_dataset("json", data_files=uri, split="train", streaming=False)


def prompts(modules, lines, name, eos, arguments):
    _, tasks, _ = modules
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/golden/tokenizers" / name / "tokenizer.json"), eos_token=eos)
    tasks.InContextLearningDataset.read_dataset = read_json
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "task.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        data = tasks.InContextLearningGenerationTaskWithAnswersDataset(
            dataset_uri=str(path), tokenizer=tokenizer, pad_tok_id=10**6, destination_path="", **{"max_seq_len": 200, **arguments})
        batch = data.collate_fn([data[i] for i in range(len(data))])
    return {"tokenizer": name, "eos": eos, "arguments": arguments, "lines": lines,
            "rows": [[token for token in ids.tolist() if token != 10**6] for ids in batch["input_ids"]],
            "max_new_tokens": batch["generation_kwargs"]["max_new_tokens"], "answers": [sorted(labels) for labels in batch["labels"]]}


def match(metrics, text, answers, options):
    metric = metrics.InContextLearningGenerationExactMatchAccuracy()
    metric.update(options, [text], [answers])
    return {"text": text, "answers": answers, "options": options, "right": metric.compute().item() == 1}


def gauntlet(folder, arguments):
    core, loggers = sys.modules["composer.core"], types.ModuleType("composer.loggers")
    core.Callback = core.State = loggers.Logger = object
    sys.modules["composer.loggers"] = loggers
    path = pathlib.Path(folder) / "llmfoundry" / "callbacks" / "eval_gauntlet_callback.py"
    spec = importlib.util.spec_from_file_location("llmfoundry.callbacks.eval_gauntlet", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = [f"metrics/{label}/InContextLearningLMAccuracy" for label in ACCURACIES]
    made = module.EvalGauntlet(logger_keys=names, categories=json.loads(json.dumps(CATEGORIES)), benchmark_sizes=SIZES,
                               **arguments)
    metric = lambda value: types.SimpleNamespace(compute=lambda: torch.tensor(value, dtype=torch.float64))
    state = types.SimpleNamespace(eval_metrics={label: {"InContextLearningLMAccuracy": metric(value)}
                                                for label, value in ACCURACIES.items()})
    scores = made.eval_after_all(state, None)
    return {"arguments": arguments, "categories": CATEGORIES, "accuracies": ACCURACIES, "sizes": SIZES,
            "scores": {name.removeprefix("icl/metrics/eval_gauntlet/"): value for name, value in scores.items()}}


GAUNTLETS = [{}, {"weighting": "SAMPLE_SZ", "averages": {"all": ["world", "language", "missing"], "none": ["missing"]}},
             {"weighting": "LOG_SAMPLE_SZ", "rescale_accuracy": False},
             {"subtract_random_baseline": False, "rescale_accuracy": False, "averages": {"one": ["language"]}}]


if __name__ == "__main__":
    torch.set_num_threads(1)
    modules = foundry(sys.argv[1])
    normalize = modules[2].InContextLearningGenerationExactMatchAccuracy().normalize_answer
    write("icl", NOTE, {"shots": shots(modules[0]), "tasks": [task(modules, *row) for row in TASKS],
                         "prompts": [prompts(modules, *row) for row in PROMPTS],
                         "normalized": [[text, normalize(text)] for text in TEXTS],
                         "matches": [match(modules[2], *row) for row in MATCHES],
                         "gauntlets": [gauntlet(sys.argv[1], row) for row in GAUNTLETS]})
