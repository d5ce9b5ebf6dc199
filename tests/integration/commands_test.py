"""composer eval, predict and generate on the real binaries: what they print is what training would have found, on any
number of ranks and however the model is distributed; they need no training data and leave the run folder as it is."""
import json
import pathlib
import struct
import unittest
import zipfile

import harness
from fsdp_test import GPT_JOB

DATA = {"name": "gaussian_classification", "features": 32, "classes": 10, "sample_seed": 1}
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")
EVAL = [dict(DATA, label="eval", size=45, batch_size=8), dict(DATA, label="small", size=1, batch_size=4)]


def read_safetensors(path):
    """Returns {name: (dtype, shape, floats)}."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        body = data[8 + length + begin:8 + length + end]
        tensors[name] = (entry["dtype"], entry["shape"], struct.unpack(f"<{len(body) // 4}f", body))
    return tensors


class CommandsTest(harness.JobTest):
    def trained(self, name, **changes):
        """Trains a job and returns the same job without what only training needs, and its last metrics."""
        self.run_composer("-n", 1, self.write_job(name, eval_dataloader=EVAL, algorithms={"ema": {"half_life": "4ba"}},
                                                  **changes))
        last = [m for m in self.metrics(name) if "metrics/eval/CrossEntropy" in m][-1]
        wanted = {key: value for key, value in last.items() if key.startswith("metrics/")}
        wanted.update({k: v for m in self.metrics(name)[-3:] for k, v in m.items() if k.startswith("metrics/small")})
        return self.bare(name, eval_dataloader=EVAL, algorithms={"ema": {"half_life": "4ba"}}, **changes), wanted

    def bare(self, name, **changes):
        job = self.write_job(name, train_dataloader=None, global_train_batch_size=None, max_duration=None, **changes)
        return job.rename(self.folder / f"{name}_bare.yaml")

    def files(self, name):
        return {str(path): path.stat().st_mtime_ns for path in self.run_folder(name).rglob("*")}

    def test_eval_finds_what_training_found_and_leaves_the_run_alone(self):
        job, wanted = self.trained("run")
        self.assertEqual(len(wanted), 4, wanted)
        before = self.files("run")
        sharded = "+parallelism_config={fsdp: {}}"
        for words in ((job,), (job, self.run_folder("run")), (job, self.newest_checkpoint("run"), "seed=1"),
                      ("-n", 2, job), ("-n", 3, job, sharded)):
            with self.subTest(words=words):
                out, _ = self.run_composer("eval", *words, "--json")
                found = json.loads(out)
                self.assertEqual(found["checkpoint"], self.newest_checkpoint("run"))
                self.assertEqual(set(found["metrics"]), set(wanted))
                for key, value in wanted.items():
                    self.assertAlmostEqual(found["metrics"][key], value, places=5)
        self.assertEqual(self.files("run"), before)
        out, err = self.run_composer("-n", 2, "eval", job)
        lines = out.splitlines()
        self.assertEqual((lines[0], len(lines), err), (self.newest_checkpoint("run"), 5, ""))
        self.assertIn(f"metrics/eval/CrossEntropy         {wanted['metrics/eval/CrossEntropy']:.6g}", lines)
        self.assertIn("2 workers: ", self.run_composer("--dry-run", "eval", job, "nproc=2")[0], "as in training")
        first = self.run_folder("run") / "checkpoints" / "ep0-ba10"
        other = json.loads(self.run_composer("eval", job, first, "--json")[0])
        self.assertEqual(other["checkpoint"], str(first))
        self.assertNotEqual(other["metrics"], found["metrics"])

    def test_a_runs_model_becomes_an_onnx_file(self):
        self.run_composer("-n", 1, self.write_job("run", algorithms={"ema": {"half_life": "4ba"}}))
        run, out = self.run_folder("run"), self.folder / "model.onnx"
        export = ("checkpoint", "export", run, out)
        self.assertIn("--shape: required", self.run_composer(*export, code=64)[1])
        before = self.files("run")
        said, _ = self.run_composer(*export, "--shape", "32")
        self.assertEqual(said, f"exported  {self.newest_checkpoint('run')}\nwrote     {out}\n")
        self.assertIn(b"layers.0.weight", out.read_bytes())
        small = self.folder / "small.onnx"
        self.run_composer("checkpoint", "export", run, small, "--shape", "32", "--quantize", "int8")
        self.assertLess(small.stat().st_size, out.stat().st_size)
        self.assertIn("must be int8", self.run_composer(*export, "--quantize", "int4", code=64)[1])
        script = self.folder / "model.ts"
        self.run_composer("checkpoint", "export", run, script, "--shape", "32")
        self.assertIn("archive/code/__torch__/composer.py", zipfile.ZipFile(script).namelist())
        wrong = ("checkpoint", "export", run, script, "--quantize", "int8")
        self.assertIn("only x.onnx has int8", self.run_composer(*wrong, code=64)[1])
        shown, _ = self.run_composer("checkpoint", "show", run)
        self.assertRegex(shown, r'environment = \{"kernel":"Linux .*"os":')
        self.assertEqual(self.files("run"), before)
        self.assertIn("--overwrite replaces it", self.run_composer(*export, "--shape", "32", code=64)[1])
        newest = pathlib.Path(self.newest_checkpoint("run"))
        self.run_composer("checkpoint", "export", newest, out, "--shape", "32", "--overwrite")
        self.assertIn("there is no config.yaml", self.run_composer("checkpoint", "export", "/tmp", out, "--overwrite",
                                                                   code=64)[1])

    def test_a_place_for_checkpoints_is_tried(self):
        place = self.folder / "store"
        said, _ = self.run_composer("store", "check", place)
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["ok"] * 7 + ["all"])
        self.assertEqual([path for path in place.rglob("*") if path.is_file()], [])
        self.assertIn("unknown scheme", self.run_composer("store", "check", "ftp://a/b", code=64)[1])

    def test_predict_writes_a_row_for_each_sample_in_order(self):
        job, _ = self.trained("run")
        before = self.files("run")
        rows = None
        for n, words in enumerate([(), ("-n", 2), ("-n", 3, "+parallelism_config={fsdp: {}}")]):
            launch, settings = words[:2], words[2:]
            out = self.folder / f"{n}.jsonl"
            said, _ = self.run_composer(*launch, "predict", job, "--output", out, "--dataloader", "eval", *settings)
            self.assertEqual(said, f"{out}: 45 outputs of {self.newest_checkpoint('run')}\n")
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            self.assertEqual([line["index"] for line in lines], list(range(45)))
            found = [line["output"] for line in lines]
            rows = rows or found
            for a, b in zip(rows, found):
                self.assertEqual(len(a), 10)
                for x, y in zip(a, b):
                    self.assertAlmostEqual(x, y, places=4)
        tensors = self.folder / "all.safetensors"
        self.run_composer("-n", 2, "predict", job, "--output", tensors, "--dataloader=eval", "--subset-num-batches", 2)
        dtype, shape, values = read_safetensors(tensors)["outputs"]
        self.assertEqual((dtype, shape), ("F32", [32, 10]), "two batches of 8 on each of two ranks")
        for x, y in zip(values, [x for row in rows for x in row]):
            self.assertAlmostEqual(x, y, places=4)
        # One sample, so that a rank has none.
        one = self.folder / "one.jsonl"
        self.run_composer("-n", 2, "predict", job, "--output", one, "--dataloader", "small",
                          "+parallelism_config={fsdp: {}}")
        self.assertEqual(len(one.read_text().splitlines()), 1)
        self.assertEqual(self.files("run"), before)
        self.assertEqual(list(self.folder.glob("*.partial")), [])

    @unittest.skipUnless(IMAGES.exists(), "no dataset-fashion-mnist")
    def test_a_model_that_an_algorithm_changed_is_used_as_it_was_trained(self):
        changes = {"model": {"name": "resnet_small", "num_classes": 10},
                   "eval_dataloader": {"name": "fashion_mnist", "split": "test", "batch_size": 50, "label": "test",
                                       "subset_num_batches": 2}}
        excite = {"squeeze_excite": {"latent_channels": 4, "min_channels": 8}}
        self.run_composer("-n", 1, self.write_job("run", train_dataloader={"name": "fashion_mnist"}, max_duration="2ba",
                                                  schedulers=None, algorithms=excite, **changes))
        wanted = [m for m in self.metrics("run") if "metrics/test/CrossEntropy" in m][-1]["metrics/test/CrossEntropy"]
        for algorithms in (excite, None):
            out, err = self.run_composer("eval", self.bare("run", algorithms=algorithms, **changes), "--json")
            self.assertAlmostEqual(json.loads(out)["metrics"]["metrics/test/CrossEntropy"], wanted, places=5)
            self.assertEqual("SqueezeExcite" in err, algorithms is None, "the checkpoint's own algorithm is added")

    def test_generate_continues_as_the_callback_did(self):
        text = self.folder / "text.txt"
        text.write_text("In the beginning was the word, and the word was learned by heart. " * 100)
        generate = {"prompts": ["In the", "word"], "interval": "0ba", "max_new_tokens": 6, "do_sample": True}
        changes = dict(GPT_JOB, callbacks={"generate": generate})
        changes["train_dataloader"] = dict(changes["train_dataloader"], path=str(text))
        self.run_composer("-n", 1, self.write_job("gpt", **changes))
        (table,) = map(json.loads, (self.run_folder("gpt") / "tables.jsonl").read_text().splitlines())
        before = self.files("gpt")
        job = self.write_job("gpt", **dict(changes, train_dataloader=None, max_duration=None))
        for words in ((job,), ("-n", 2, job, "+parallelism_config={fsdp: {}}"),
                      ("-n", 2, job, "+parallelism_config={tp: {tensor_parallel_degree: 2}}")):
            with self.subTest(words=words):
                lines = self.run_composer("generate", *words, "--json")[0].splitlines()
                self.assertEqual([list(json.loads(line).values()) for line in lines], table["data"])
        out, _ = self.run_composer("-n", 2, "generate", job, "--prompt", "the word", "--prompt=by", "--max-new-tokens", 3)
        self.assertTrue(out.startswith("the word"), out)
        self.assertIn("\nby", out)
        # Beams find at least as likely a text as the greedy one; both streams print what is printed at once.
        for words in ((), ("--repetition-penalty=1.2", "--no-repeat-ngram-size=3"), ("--stop-string", "a")):
            words = ("generate", job, "callbacks.generate.do_sample=false", "--prompt=the word", "--prompt=by", *words)
            at_once = self.run_composer(*words)[0]
            self.assertEqual(self.run_composer("-n", 2, *words, "--stream")[0], at_once)
        self.assertIn('"generation"', self.run_composer("generate", job, "callbacks.generate.do_sample=false",
                                                        "--prompt=by", "--num-beams=3", "--json")[0])
        template = self.folder / "chat.jinja"
        template.write_text("{{ messages[0]['content'] }} the{% if add_generation_prompt %} {% endif %}")
        chat = ("generate", job, "callbacks.generate.do_sample=false", "--max-new-tokens=4",
                f"+callbacks.generate.chat_template={template}", "+tokenizer={name: bytes}")
        said = self.run_composer(*chat, "--prompt=by", "--chat")[0]
        plain = self.run_composer("generate", job, "callbacks.generate.do_sample=false", "--max-new-tokens=4",
                                  "--prompt=by the ", "--json")[0]
        self.assertEqual(said, "by\n" + json.loads(plain)["generation"] + "\n")
        self.assertEqual(self.files("gpt"), before)
        for words, message in ((("--chat",), "--chat: needs a tokenizer with a chat template"),
                               (("--num-beams=2", "--do-sample"), "num_beams above 1 needs do_sample: false"),
                               (("--num-beams=2", "--stream"), "cannot stream"),
                               (("--min-new-tokens=99",), "min_new_tokens must be from 0 to max_new_tokens")):
            _, err = self.run_composer("generate", job, "callbacks.generate.do_sample=false", *words, code=64)
            self.assertIn(message, err)
        _, err = self.run_composer("generate", job, "--prompt", "too long for the model", code=64)
        self.assertIn("generate: prompts[0]", err)

    def test_mistakes_are_user_errors_that_name_the_field(self):
        job = self.bare("never", eval_dataloader=EVAL)
        for words, message in [
                (("eval", job), "save_folder: "),
                (("eval", job, self.folder / "no"), "checkpoint: "),
                (("-n", 2, "eval", job), "train the job first, or name a checkpoint"),
                (("eval", self.bare("none")), "eval_dataloader: required by composer eval"),
                (("eval", job, "--jsn"), "did you mean `--json`?"),
                (("eval", "--json", job), "flags of eval itself come after the YAML file"),
                (("eval", job, "a", "b"), "`b` is one checkpoint too many"),
                (("eval",), "no job file given"),
                (("eval", "no.yaml"), "no such file: no.yaml"),
                (("eval", job, "model.sises=[1]"), "did you mean `sizes`?"),
                (("predict", job), "--output: required"),
                (("predict", job, "--output", "x.csv"), "must end in .jsonl or .safetensors"),
                (("predict", job, "--output", "x.jsonl"), "--dataloader: required; eval_dataloader has eval, small"),
                (("predict", job, "--output", "/no/x.jsonl", "--dataloader", "small"), "--output: /no/x.jsonl.partial"),
                (("generate", job), "--prompt: required"),
                (("generate", job, "--prompt", "x", "--do-sample", "--temperature", 0), "temperature")]:
            with self.subTest(words=words):
                self.assertIn(message, self.run_composer(*words, code=64)[1])
        trained, _ = self.trained("run")
        _, err = self.run_composer("generate", trained, "--prompt", "x", code=64)
        self.assertIn("the model is not a language model", err)
        _, err = self.run_composer("-n", 2, "eval", trained, "eval_dataloader.0.features=16", code=64)
        self.assertIn("model.sizes: begins with 32, but a sample has 16 features", err)
        self.assertFalse(self.run_folder("never").exists())
        damaged = self.run_folder("run") / "checkpoints" / "ep2-ba40"
        self.assertTrue(damaged.is_dir(), list(damaged.parent.iterdir()))
        (damaged / "manifest.json").write_text("{}")
        out, err = self.run_composer("eval", trained, "--json")
        self.assertTrue(json.loads(out)["checkpoint"].endswith("ep1-ba30"), out)
        self.assertIn("checkpoint refused", err)


if __name__ == "__main__":
    unittest.main()
