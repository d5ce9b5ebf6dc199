"""Folders of Hugging Face models in jobs: fine-tuned on two ranks, sharded and split, resumed, exported as folders that
transformers loads (where tools/make_hf_goldens.py's environment is there), refused with a reason."""
import json
import os
import pathlib
import random
import subprocess
import unittest

import harness

GOLDEN = harness.ROOT / "tests/golden/hf"
PYTHON = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers")) / "transformers/bin/python"

# Loads the folder as transformers does and compares it with its own tensors.
LOAD = """
import sys, torch, transformers
from safetensors.torch import load_file
model, info = getattr(transformers, sys.argv[2]).from_pretrained(sys.argv[1], output_loading_info=True)
assert not any(info.values()), info
wanted = load_file(sys.argv[1] + "/model.safetensors")
state = model.state_dict()
for name, tensor in wanted.items():
    assert torch.equal(state[name], tensor), name
print(len(wanted))
"""


# Loads base and adapter with peft, and the merged folder with transformers: both must give the same logits, and others than the base.
PEFT = """
import sys, torch, transformers
try:
    import peft
except ImportError:
    sys.exit(0)
kind = transformers.BertForSequenceClassification
ids = torch.arange(4, 20).view(2, 8)
base = kind.from_pretrained(sys.argv[1]).eval()
first = base(ids).logits
with torch.no_grad():
    adapted = peft.PeftModel.from_pretrained(base, sys.argv[2]).eval()(ids).logits
    merged = kind.from_pretrained(sys.argv[3]).eval()(ids).logits
assert torch.allclose(adapted, merged, atol=1e-5), (adapted, merged)
assert not torch.allclose(adapted, first, atol=1e-2)
print("same")
"""


class HfTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        random.seed(5)
        rows = []
        for _ in range(48):
            label = random.randrange(3)
            length = random.randrange(4, 11)
            rows.append({"inputs": [label + 3] + [random.randrange(6, 61) for _ in range(length)], "targets": label})
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def job(self, name, **changes):
        data = {"name": "jsonl", "path": str(self.folder / "rows.jsonl"), "collate": {"name": "pad"}}
        job = {"model": {"name": "hf", "path": str(GOLDEN / "bert")}, "train_dataloader": data,
               "optimizers": {"name": "decoupled_adamw", "lr": 0.003}, "schedulers": None, "max_duration": "12ba",
               "save_interval": "6ba"}
        job.update(changes)
        return self.write_job(name, **job)

    def test_bert_is_tuned_alike_on_one_rank_sharded_and_split(self):
        ways = {"one": (1, None), "sharded": (2, {"fsdp": {"sharding_strategy": "FULL_SHARD"}}),
                "split": (2, {"tp": {"tensor_parallel_degree": 2}})}
        for name, (ranks, parallelism) in ways.items():
            self.run_composer("-n", ranks, self.job(name, parallelism_config=parallelism))
            self.assertEqual(len(self.losses(name)), 12)
        self.assertLess(self.losses("one")[-1], 0.8 * self.losses("one")[0])
        for name in ("sharded", "split"):
            self.assert_same_losses(self.losses(name), self.losses("one"))

    def test_it_resumes_and_exports_what_transformers_loads(self):
        sharded = {"fsdp": {"sharding_strategy": "FULL_SHARD"}}
        self.run_composer("-n", 2, self.job("tuned", parallelism_config=sharded, max_duration="6ba"))
        job = self.job("tuned", parallelism_config=sharded)
        self.run_composer("-n", 2, job)
        self.assertEqual(len(self.losses("tuned")), 12)  # six by each
        out = self.folder / "out"
        self.run_composer("checkpoint", "export", self.run_folder("tuned"), out, "--hf")
        self.assertEqual(json.loads((out / "config.json").read_text())["architectures"],
                         ["BertForSequenceClassification"])
        if PYTHON.exists():
            done = subprocess.run([str(PYTHON), "-c", LOAD, str(out), "BertForSequenceClassification"],
                                  capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_lora_trains_alike_resumes_and_is_merged_or_exported_alone(self):
        lora = {"lora": {"target_modules": ["query", "value"], "modules_to_save": ["classifier"], "r": 4, "lora_alpha": 8}}
        ways = {"whole": (1, None)}
        for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
            ways[strategy] = (2, {"fsdp": {"sharding_strategy": strategy, "activation_checkpointing": strategy == "FULL_SHARD"}})
        for name, (ranks, parallelism) in ways.items():
            with self.subTest(name):
                job = {"parallelism_config": parallelism, "algorithms": lora}
                self.run_composer("-n", ranks, self.job(name, max_duration="6ba", **job))
                self.run_composer("-n", ranks, self.job(name, **job))
                self.assertEqual(len(self.losses(name)), 12)
                self.assert_same_losses(self.losses(name), self.losses("whole"))
        self.assertLess(self.losses("whole")[-1], self.losses("whole")[0])
        adapter, merged = self.folder / "adapter", self.folder / "merged"
        run = self.run_folder("FULL_SHARD")
        self.run_composer("checkpoint", "export", run, adapter, "--adapter")
        self.run_composer("checkpoint", "export", run, merged, "--hf")
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["modules_to_save"]), ("LORA", 4, ["classifier"]))
        # A run that begins with the adapter goes on where the other ended.
        begun = {"lora": {"adapter": str(adapter)}}
        self.run_composer("-n", 1, self.job("begun", algorithms=begun, max_duration="2ba"))
        self.assertLess(self.losses("begun")[0], self.losses("whole")[0])
        if PYTHON.exists():
            done = subprocess.run([str(PYTHON), "-c", PEFT, str(GOLDEN / "bert"), str(adapter), str(merged)], capture_output=True,
                                  text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_lora_refuses_what_it_cannot_do(self):
        _, err = self.run_composer("-n", 1, self.job("name", algorithms={"lora": {"target_modules": ["querry"]}}), code=64)
        self.assertIn("the model has no layer `querry` (did you mean `query`?)", err)
        _, err = self.run_composer("-n", 1, self.job("none", algorithms={"lora": {"r": 4}}), code=64)
        self.assertIn("target_modules: required", err)
        split = {"tp": {"tensor_parallel_degree": 2}}
        job = self.job("split", algorithms={"lora": {"target_modules": ["query"]}}, parallelism_config=split)
        self.run_composer("-n", 2, job, code=64)
        _, err = self.run_composer("checkpoint", "export", self.folder, self.folder / "x", "--adapter", "--hf", code=64)
        self.assertIn("--hf merges what --adapter leaves apart", err)

    def test_a_decoder_is_trained_from_its_configuration_and_generates(self):
        text = self.folder / "text.txt"
        text.write_text("the cat sat on the mat. " * 400)
        model = {"name": "hf", "config": {
            "model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 48, "tie_word_embeddings": True}}
        data = {"name": "text_bytes", "path": str(text), "max_seq_len": 24, "eval_fraction": 0.1}
        job = self.job("decoder", model=model, train_dataloader=data, max_duration="40ba", save_interval="20ba",
                       parallelism_config={"fsdp": {"sharding_strategy": "FULL_SHARD"}})
        self.run_composer("-n", 2, job)
        self.assertLess(self.losses("decoder")[-1], 0.6 * self.losses("decoder")[0])
        out, _ = self.run_composer("generate", job, "--prompt", "the cat ", "--max-new-tokens", 8)
        self.assertTrue(out)

    def test_llm_foundrys_mpt_is_imported_under_its_names(self):
        self.run_composer("checkpoint", "import", GOLDEN.parent / "weights/llm_foundry_mpt.pt", self.folder / "ours",
                          "--rename", "model.=")
        text = self.folder / "text.txt"
        text.write_bytes(bytes(7 * i % 61 for i in range(4000)))
        changes = dict(train_dataloader={"name": "text_bytes", "path": str(text), "max_seq_len": 12}, max_duration="3ba")
        model = {"name": "hf", "path": str(GOLDEN / "mpt")}
        self.run_composer("-n", 1, self.job("theirs", model=model, **changes))
        self.run_composer("-n", 1, self.job("imported", model=dict(model, pretrained=False), load_path=str(self.folder / "ours"),
                                            load_weights_only=True, **changes))
        self.assertEqual(self.losses("imported"), self.losses("theirs"))

    def test_tokens_that_the_folder_lacks_get_rows(self):
        text = self.folder / "text.txt"
        text.write_text("the cat sat on the mat. " * 400)
        model = {"name": "hf", "path": str(GOLDEN / "llama"), "allow_embedding_resizing": True}  # it has 61 tokens
        changes = dict(model=model, tokenizer={"name": "bytes"}, max_duration="8ba", save_interval="8ba",
                       train_dataloader={"name": "text_bytes", "path": str(text), "max_seq_len": 12, "eval_fraction": 0.1})
        _, err = self.run_composer("-n", 1, self.job("one", **changes))
        self.assertIn("195 tokens come behind the 61 that the model had", err)
        self.run_composer("-n", 2, self.job("two", parallelism_config={"fsdp": {}}, **changes))
        for one, two in zip(self.losses("one"), self.losses("two"), strict=True):
            self.assertAlmostEqual(one / two, 1, places=5)
        out = self.folder / "out"
        self.run_composer("checkpoint", "export", self.run_folder("two"), out, "--hf")
        self.assertEqual(json.loads((out / "config.json").read_text())["vocab_size"], 256)
        _, err = self.run_composer("-n", 1, self.job("none", **dict(changes, tokenizer=None)), code=64)
        self.assertIn("model.allow_embedding_resizing: needs the job's `tokenizer`", err)
        small = dict(model, allow_embedding_resizing=False)
        _, err = self.run_composer("-n", 1, self.job("small", **dict(changes, model=small)), code=64)
        self.assertIn("the tokenizer bytes 256; model.allow_embedding_resizing: true adds their rows", err)

    def test_what_does_not_fit_is_refused_with_a_reason(self):
        golden = str(GOLDEN / "bert")
        cases = [({"name": "hf"}, "model.path: required, or `config`"),
                 ({"name": "hf", "path": "/nowhere"}, "/nowhere/config.json"),
                 ({"name": "hf", "path": golden, "config": {"position_embedding_type": "relative_key"}},
                  "`position_embedding_type` is \"relative_key\"; supported is only \"absolute\""),
                 ({"name": "hf", "path": golden, "config": {"num_hidden_layers": 1}},
                  "model.path: unexpected: bert.encoder.layer.1"),
                 ({"name": "hf", "path": golden, "config": {"max_position_embeddings": 8}}, "of another shape"),
                 ({"name": "hf", "path": golden, "pretrained": False, "config": {"max_position_embeddings": 8}},
                  "model.max_position_embeddings: the model takes 8 tokens")]
        for number, (model, expected) in enumerate(cases):
            with self.subTest(expected):
                _, err = self.run_composer("-n", 1, self.job(f"refused{number}", model=model), code=64)
                self.assertIn(expected, err)

    def test_embeddings_are_trained_alike_on_any_ranks_resumed_and_exported(self):
        rows = [{"inputs": [3 + i, *random.choices(range(30, 61), k=4)], "positives": [3 + i, *random.choices(range(30, 61), k=6)]}
                for i in range(24)]
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = {"name": "jsonl", "path": str(self.folder / "pairs.jsonl"), "collate": {"name": "pad"}}
        base = {"model": {"name": "hf", "path": str(GOLDEN / "bert_features"), "task": "embedding", "temperature": 0.1},
                "train_dataloader": dict(data, drop_last=True), "global_train_batch_size": 12, "eval_interval": "12ba",
                "eval_dataloader": [dict(data, label="pairs")]}
        sharded = {"fsdp": {"sharding_strategy": "FULL_SHARD"}}
        for name, ranks, parallelism, ends in (("one", 1, None, ("12ba",)), ("sharded", 2, sharded, ("6ba", "12ba"))):
            for end in ends:
                self.run_composer("-n", ranks, self.job(name, **base, parallelism_config=parallelism, max_duration=end))
            self.assert_same_losses(self.losses(name), self.losses("one"))
        self.assertLess(self.losses("one")[-1], 0.7 * self.losses("one")[0])
        recall = [[record["metrics/pairs/RecallAt1"] for record in self.metrics(name) if "metrics/pairs/RecallAt1" in record][-1]
                  for name in ("one", "sharded")]
        self.assertAlmostEqual(recall[0], recall[1], delta=0.1)
        self.assertGreater(recall[0], 0.3)
        out = self.folder / "out"
        self.run_composer("checkpoint", "export", self.run_folder("sharded"), out, "--hf")
        self.assertEqual(json.loads((out / "config.json").read_text())["architectures"], ["BertModel"])
        for change, message in (({"model": dict(base["model"], task="features")}, "model.temperature: is for task: embedding"),
                                ({"train_dataloader": data, "global_train_batch_size": 10}, "train_dataloader.drop_last")):
            _, err = self.run_composer("-n", 2, self.job("wrong", **dict(base, **change)), code=64)
            self.assertIn(message, err)


if __name__ == "__main__":
    unittest.main()
