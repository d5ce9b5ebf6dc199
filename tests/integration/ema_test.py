"""Runs the real binaries with EMA: when killed with SIGKILL, the job ends as if it had not been, sharded or not, from
checkpoints and from snapshots in memory. The model in a checkpoint is the average, and everything that reads
checkpoints reads it."""
import json
import os
import pathlib
import signal
import struct
import unittest

import harness

EMA = {"ema": {"half_life": "5ba"}}
EVAL = {"name": "gaussian_classification", "size": 64, "features": 32, "classes": 10, "batch_size": 16}


def tensors_of(folder):
    """Returns {name: bytes} of all safetensors files below a folder."""
    found = {}
    for path in pathlib.Path(folder).rglob("*.safetensors"):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = data[8 + length + begin:8 + length + end]
    return found


def below(tensors, prefix):
    return {name[len(prefix):]: data for name, data in tensors.items() if name.startswith(prefix)}


class EmaTest(harness.JobTest):
    def job(self, name, **changes):
        return self.write_job(name, **{"algorithms": EMA, "eval_dataloader": EVAL, "eval_interval": "7ba", **changes})

    def test_killed_ranks_change_nothing(self):
        fsdp = {"fsdp": {"sharding_strategy": "FULL_SHARD"}}
        late = {"ema": {"half_life": "1ep", "ema_start": "20ba"}}
        for name, changes in [("ddp", {}), ("sharded", {"parallelism_config": fsdp}),
                              ("late", {"parallelism_config": fsdp, "algorithms": late}),
                              ("memory", {"parallelism_config": fsdp, "save_memory_interval": "3ba",
                                          "save_interval": "40ba"})]:
            with self.subTest(name):
                self.run_composer("-n", 2, self.job(f"calm-{name}", **changes))
                process = self.start("-n", 2, self.job(name, callbacks={"throttle": {"seconds": 0.03}}, **changes))
                self.wait_for_batch(name, 17)
                os.kill(self.workers(name)[1], signal.SIGKILL)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, err)
                summary = self.summary(name)
                self.assertEqual(summary["restarts"], 1, summary)
                if name == "memory":
                    self.assertGreaterEqual(summary["generations"][1]["start_step"], 12, summary)
                self.assert_same_state(self.newest_checkpoint(f"calm-{name}"), self.newest_checkpoint(name))

    def test_any_number_of_ranks_has_the_same_bits(self):
        elastic = {"determinism": "elastic", "virtual_shards": 4}
        self.run_composer("-n", 1, self.job("one", **elastic))
        self.run_composer("-n", 2, self.job("two", parallelism_config={"fsdp": {}}, **elastic))
        self.assert_same_state(self.newest_checkpoint("one"), self.newest_checkpoint("two"))
        job = self.job("grown", max_duration="20ba", schedulers=None, parallelism_config={"fsdp": {}}, **elastic)
        self.run_composer("-n", 4, job)
        self.run_composer("-n", 2,
                          self.job("grown", schedulers=None,
                                   parallelism_config={"fsdp": {"sharding_strategy": "SHARD_GRAD_OP"}}, **elastic))
        self.run_composer("-n", 1, self.job("plain", schedulers=None, **elastic))
        self.assert_same_state(self.newest_checkpoint("plain"), self.newest_checkpoint("grown"))

    def test_the_model_of_a_checkpoint_is_the_average(self):
        self.run_composer("-n", 1, self.job("with", callbacks={"export_for_inference": {}}))
        self.run_composer("-n", 1, self.job("without", algorithms=None))
        with_ema, without = tensors_of(self.newest_checkpoint("with")), tensors_of(self.newest_checkpoint("without"))
        averages, weights = below(with_ema, "model/"), below(with_ema, "algorithms/EMA/")
        self.assertEqual(weights, below(without, "model/"), "EMA changes nothing of the training")
        self.assertEqual(averages.keys(), weights.keys())
        self.assertNotEqual(averages, weights)
        out, _ = self.run_composer("checkpoint", "show", self.newest_checkpoint("with"))
        self.assertIn("algorithms/EMA/", out)
        self.run_composer("checkpoint", "verify", self.newest_checkpoint("with"))
        self.run_composer("checkpoint", "export", self.newest_checkpoint("with"), self.folder / "exported")
        self.assertEqual(tensors_of(self.folder / "exported"), averages)
        self.assertEqual(tensors_of(self.run_folder("with") / "export"), averages)
        with_ema, without = self.metrics("with"), self.metrics("without")
        self.assertEqual([m["loss/train/total"] for m in with_ema if "loss/train/total" in m],
                         [m["loss/train/total"] for m in without if "loss/train/total" in m])
        evaluated = [[m["metrics/eval/CrossEntropy"] for m in run if "metrics/eval/CrossEntropy" in m]
                     for run in (with_ema, without)]
        self.assertEqual(len(evaluated[0]), len(evaluated[1]))
        self.assertNotEqual(*evaluated)

    def test_runs_without_it_load_the_average(self):
        self.run_composer("-n", 2,
                          self.job("with", parallelism_config={"fsdp": {}}, callbacks={"export_for_inference": {}}))
        source = self.newest_checkpoint("with")
        self.run_composer("checkpoint", "export", source, self.folder / "exported")
        self.assertEqual(tensors_of(self.folder / "exported"), tensors_of(self.run_folder("with") / "export"))
        _, err = self.run_composer("-n", 1, self.job("without", algorithms=None, load_path=source, max_duration="41ba"))
        self.assertIn("algorithm EMA of the checkpoint is not in this run", err)
        _, err = self.run_composer("-n", 2, self.job("again", load_path=source, max_duration="44ba"))
        self.assertNotIn("is not in this run", err)
        _, err = self.run_composer("-n", 1, self.job("new", load_path=source, load_exclude_algorithms=["EMA"],
                                                     max_duration="41ba"))
        self.assertNotIn("is not in this run", err)

    def test_mistakes(self):
        for arguments, expected in [({"half_life": "5ba", "smoothing": 0.9}, "give one of the two"),
                                    ({"half_life": "5ba", "update_interval": "1ep"}, "both must be in batches"),
                                    ({"half_lief": "5ba"}, "half_life")]:
            _, err = self.run_composer("-n", 1, self.job("wrong", algorithms={"ema": arguments}), code=64)
            self.assertIn(expected, err)


if __name__ == "__main__":
    unittest.main()
