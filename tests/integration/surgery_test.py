"""Runs the real binaries with algorithms that change the model: a killed job ends as if it had not been, a run that no
longer names them has them from its checkpoint, and what cannot be is exit code 64 with the names."""
import json
import os
import pathlib
import signal
import unittest

import harness

GPT = {"name": "gpt", "n_layers": 2, "n_heads": 2, "d_model": 16, "max_seq_len": 16}
LOW = {"low_precision_layernorm": {}}


class SurgeryTest(harness.JobTest):
    def job(self, name, **changes):
        text = self.folder / "text.txt"
        text.write_text("".join(f"{n * n} is the square of {n}. " for n in range(600)))
        return self.write_job(name, **{
            "model": GPT, "train_dataloader": {"name": "text_bytes", "path": str(text), "max_seq_len": 16},
            "global_train_batch_size": 8, "precision": "amp_bf16", "algorithms": LOW, "max_duration": "40ba",
            "schedulers": None, **changes})

    def required(self, checkpoint):
        small = json.loads(pathlib.Path(checkpoint, "manifest.json").read_text())["small"]
        return small.get("required_algorithms")

    def test_a_killed_job_and_one_that_no_longer_names_it_end_alike(self):
        for name, parallel in [("ddp", None), ("sharded", {"fsdp": {"sharding_strategy": "FULL_SHARD"}})]:
            with self.subTest(name):
                job = {"parallelism_config": parallel}
                self.run_composer("-n", 2, self.job(f"calm-{name}", **job))
                calm = self.newest_checkpoint(f"calm-{name}")
                process = self.start("-n", 2, self.job(name, callbacks={"throttle": {"seconds": 0.03}}, **job))
                self.wait_for_batch(name, 17)
                os.kill(self.workers(name)[1], signal.SIGKILL)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, err)
                self.assert_same_state(calm, self.newest_checkpoint(name))
                self.run_composer("-n", 2, self.job(f"named-{name}", max_duration="20ba", **job))
                _, err = self.run_composer("-n", 2, self.job(f"named-{name}", algorithms=None, **job))
                self.assertIn("LowPrecisionLayerNorm changed the model of checkpoint", err)
                self.assert_same_state(calm, self.newest_checkpoint(f"named-{name}"))
                self.assertEqual(self.required(self.newest_checkpoint(f"named-{name}")),
                                 [{"arguments": {}, "key": "low_precision_layernorm", "name": "LowPrecisionLayerNorm",
                                   "plugin": ""}])
                self.run_composer("-n", 2, self.job(f"usual-{name}", algorithms=None, **job))
                self.assertIsNone(self.required(self.newest_checkpoint(f"usual-{name}")))

    def test_what_cannot_be_is_named(self):
        _, err = self.run_composer("-n", 2, self.job("tp", parallelism_config={"tp": {"tensor_parallel_degree": 2}}),
                                   code=64)
        self.assertIn("LowPrecisionLayerNorm changes layer transformer.blocks.0.ln_1", err)
        _, err = self.run_composer("-n", 1, self.job("none", algorithms={"squeeze_excite": {"min_chanels": 3}}), code=64)
        self.assertIn("did you mean `min_channels`", err)
        _, err = self.run_composer("-n", 1, self.job("idle", algorithms={"blurpool": {}}, max_duration="1ba"))
        self.assertIn("BlurPool has no effect", err)


if __name__ == "__main__":
    unittest.main()
