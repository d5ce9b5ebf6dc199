"""Five configurations that people have (tests/config/foreign) run: each is converted, what `composer convert` leaves to
do is done as it says, and the result trains a few batches of a small model on small data. Every key that is left out
has its reason. SPDX-License-Identifier: Apache-2.0"""
import json
import math
import pathlib
import random
import unittest

import harness

FOREIGN = pathlib.Path(harness.ROOT) / "tests/config/foreign"
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 257, "hidden_size": 32,
         "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "tie_word_embeddings": True}


class ConfigurationsTest(harness.JobTest):
    def converted(self, name, left_out, to_do=()):
        """Converts a file; the notes must be about these keys, each with a reason, and the rest about what is to do."""
        job = self.folder / f"{name}.yaml"
        code = 64 if to_do else 0
        _, err = self.run_composer("convert", FOREIGN / f"{name}.yaml", "-o", job, code=code)
        notes, parts = {"left out": [], "still to do": []}, None
        for line in err.splitlines():
            if line.rstrip(":") in notes:
                parts = notes[line.rstrip(":")]
            elif parts is not None:
                parts.append(line.strip())
        self.assertEqual(sorted(line.split(":")[0] for line in notes["left out"]), sorted(left_out))
        for line in notes["left out"]:
            self.assertRegex(line, r"; | write |there is no|expected|did you mean", "a reason, or what to write")
        self.assertEqual(len(notes["still to do"]), len(to_do), notes["still to do"])
        for line, expected in zip(notes["still to do"], to_do):
            self.assertIn(expected, line)
        return job

    def train(self, job, name, *changes, ranks=2, batches=3):
        """Trains a few batches and returns their losses."""
        self.run_composer("-n", ranks, job, f"run_name={name}", f"run_folder={self.run_folder(name)}", "save_folder=",
                          f"max_duration={batches}ba", *changes, timeout=120)
        losses = self.losses(name)
        self.assertEqual(len(losses), batches)
        self.assertTrue(all(math.isfinite(loss) for loss in losses), losses)
        return losses

    def rows(self, name, rows):
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def test_mpt_125m_of_llm_foundry(self):
        job = self.converted("mpt_125m", [
            "model.init_device", "model.expansion_ratio", "model.attn_config", "tokenizer",
            "train_dataloader.max_seq_len", "eval_dataloader.drop_last", "eval_dataloader.shuffle",
            "eval_dataloader.max_seq_len"])
        draw = random.Random(3)
        for split in ("train", "val"):
            rows = [{"tokens": [draw.randrange(256) for _ in range(33)]} for _ in range(24)]
            self.run_composer("data", "write", self.rows(f"{split}.jsonl", rows), self.folder / "c4" / split,
                              "--columns", "tokens:ndarray:uint16")
        self.train(job, "mpt", f"variables.data_local={self.folder}/c4", "model.d_model=32", "model.n_heads=2",
                   "model.n_layers=2", "model.vocab_size=256", "variables.max_seq_len=32", "global_train_batch_size=8",
                   "device_train_microbatch_size=2", "eval_interval=3ba", "eval_dataloader.batch_size=4")
        self.assertIn("metrics/eval/LanguageCrossEntropy", self.metrics("mpt")[-1])

    def test_resnet_56_on_cifar_with_its_algorithms(self):
        job = self.converted("resnet_cifar", [
            "is_train", "grad_accum", "train_dataset", "train_dataloader.persistent_workers", "loggers.progress_bar"])
        draw = random.Random(4)
        folder = self.folder / "cifar"
        folder.mkdir()
        for name in [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]:
            (folder / name).write_bytes(b"".join(bytes([draw.randrange(10)]) + draw.randbytes(3072) for _ in range(8)))
        self.train(job, "resnet", f"train_dataloader.path={folder}", f"eval_dataloader.path={folder}",
                   "train_dataloader.batch_size=8", "eval_dataloader.batch_size=8",
                   "train_dataloader.transforms=[to_float]", "eval_dataloader.transforms=[to_float]")

    def test_bert_on_a_task_of_glue(self):
        job = self.converted("bert_glue", ["loggers.neptune", "loggers.mosaicml"],
                             ["there is no dataset `glue`: write `jsonl` or `parquet`"])
        draw = random.Random(5)
        rows = [{"inputs": [label + 3] + draw.choices(range(6, 61), k=draw.randrange(4, 11)), "targets": label}
                for label in draw.choices(range(3), k=48)]
        loader = f"{{name: jsonl, path: {self.rows('sst2.jsonl', rows)}, shuffle: true, collate: {{name: pad}}}}"
        losses = self.train(job, "bert", f"variables.tokenizer_name={harness.ROOT}/tests/golden/hf/bert",
                            f"train_dataloader={loader}", "optimizers.lr=0.01", batches=12)
        self.assertLess(losses[-1], losses[0])

    def test_arguments_of_a_trainer_on_mnist(self):
        job = self.converted("mnist", ["python_log_level", "load_progress_bar"])
        more = f"callbacks.checkpoint_saver.folder={self.folder}/more"
        _, err = self.run_composer("-n", 2, job, f"run_folder={self.run_folder('refused')}", more, code=64)
        self.assertIn("algorithm ChannelsLast at init: channels_last: parallelism_config.fsdp makes parameters flat", err)
        job.write_text(job.read_text().replace("  - channels_last\n", ""))  # as the message says
        losses = self.train(job, "mnist", more, batches=20)
        self.assertLess(losses[-1], losses[0])
        self.assertTrue(list((self.folder / "more").iterdir()))

    def test_lora_of_llama(self):
        job = self.converted("llama_lora", [
            "model.use_auth_token", "tokenizer", "train_dataloader.hf_name", "train_dataloader.split",
            "parallelism_config.fsdp.state_dict_type", "callbacks.scheduled_gc", "callbacks.hf_checkpointer", "icl_tasks"],
            ["train_dataloader.path: is required"])
        folder = self.folder / "llama"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(LLAMA))
        rows = [{"prompt": f"{a} and {b} is ", "response": str(a + b)} for a in range(6) for b in range(6)]
        self.train(job, "llama", f"variables.model_name_or_path={folder}", "model.pretrained=false",
                   "tokenizer={name: bytes, eos: true}", f"train_dataloader.path={self.rows('sums.jsonl', rows)}",
                   "variables.max_seq_len=32", "global_train_batch_size=8", "loggers={}", "precision=fp32")
        out, _ = self.run_composer("checkpoint", "show", self.run_folder("llama"))
        self.assertIn("lora_A", out)


if __name__ == "__main__":
    unittest.main()
