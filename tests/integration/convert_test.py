"""composer convert on the real binary: a file with names of Composer, llm-foundry and DeepSpeed becomes one that trains,
and trains by itself, too; sharded with one of torch's other optimizers, and resumed on another number of ranks."""
import json
import unittest

import harness

FOREIGN = """
width: 32
model: {name: mlp, sizes: ["${width}", 16, 10]}
train_loader: {name: gaussian_classification, size: 250, features: "${width}"}
eval_loader: {name: gaussian_classification, size: 64, features: "${width}", sample_seed: 1}
device_eval_batch_size: 32
max_epochs: 2
optimizers: {name: NAdam, lr: 0.01}
scheduler: {name: CosineAnnealingWithWarmupScheduler, t_warmup: 0.1dur}
algorithms: [{LabelSmoothing: {smoothing: 0.1}}]
callbacks: {SpeedMonitor: {window_size: 2}}
deepspeed_config: {train_batch_size: 16, zero_optimization: {stage: 3}, gradient_clipping: 1.0}
"""
REFUSED = "python_log_level: INFO\nloggers: {NeptuneLogger: {workspace: x}}\n"


class ConvertTest(harness.JobTest):
    def losses(self, name):
        return [m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m]

    def test_a_foreign_file_trains_as_what_it_is_converted_to(self):
        foreign = self.folder / "foreign.yaml"
        foreign.write_text(FOREIGN)
        ours = self.folder / "ours.yaml"
        _, err = self.run_composer("convert", foreign, "-o", ours)
        self.assertEqual(err, "")
        self.assertNotIn("deepspeed", ours.read_text())
        for name, job in (("foreign", foreign), ("ours", ours)):
            self.run_composer("-n", 2, job, f"run_name={name}", f"run_folder={self.run_folder(name)}")
        self.assertEqual(self.losses("foreign"), self.losses("ours"))
        self.assertEqual(len(self.losses("ours")), 32)

    def test_what_is_left_out_is_listed_and_refused_by_a_launch(self):
        foreign = self.folder / "foreign.yaml"
        foreign.write_text(FOREIGN + REFUSED)
        out, err = self.run_composer("convert", foreign)
        for text in (out, err):
            self.assertIn("python_log_level: unknown key; leave it out: there is no Python", text)
            self.assertIn("loggers.NeptuneLogger: there is no logger `NeptuneLogger`", text)
        _, err = self.run_composer("-n", 1, foreign, f"run_folder={self.run_folder('never')}", code=64)
        self.assertIn("python_log_level: unknown key; leave it out: there is no Python", err)
        self.assertFalse(self.run_folder("never").exists())
        self.run_composer("convert", self.folder / "none.yaml", code=64)

    def test_a_sharded_run_of_another_optimizer_is_resumed(self):
        for optimizer in ("nadam", "asgd"):
            with self.subTest(optimizer=optimizer):
                changes = dict(optimizers={"name": optimizer}, parallelism_config={"fsdp": {}})
                whole = self.write_job(f"{optimizer}_whole", **changes)
                self.run_composer("-n", 2, whole)
                parts = self.write_job(f"{optimizer}_parts", **changes)
                self.run_composer("-n", 2, parts, "max_duration=20ba", "schedulers.t_max=40ba")
                self.run_composer("-n", 1, parts, "schedulers.t_max=40ba")
                for a, b in zip(self.losses(f"{optimizer}_whole")[-5:], self.losses(f"{optimizer}_parts")[-5:]):
                    self.assertAlmostEqual(a, b, places=4)

    def test_fast_dev_run_leaves_the_run_alone(self):
        job = self.write_job("run", run_folder=None)
        self.run_composer("-n", 1, job, "fast_dev_run=3")
        self.run_composer("-n", 1, job, "fast_dev_run=3")  # begins anew
        self.assertFalse(self.run_folder("run").exists())
        lines = (self.folder / "runs" / "run.dev" / "metrics.jsonl").read_text().splitlines()
        batches = [json.loads(line) for line in lines]
        self.assertEqual(len([m for m in batches if "loss/train/total" in m]) % 3, 0)

    def test_env_says_versions(self):
        out, _ = self.run_composer("env")
        self.assertRegex(out, r"worker: +LibTorch \d+\.\d+")


if __name__ == "__main__":
    unittest.main()
