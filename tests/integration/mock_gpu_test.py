"""Runs the real binaries with `device: gpu` on the mock accelerator (tests/support/accelerator), which the worker loads
in place of libtorch_cuda.so and composer_cuda.so: the same jobs as on CPUs, with their bits where both devices compute
the same operators; kills, resuming, and checkpoints that change devices. A missing wait ends a worker, so that each
run here is also a check of the worker's streams.
SPDX-License-Identifier: Apache-2.0
"""
import gzip
import json
import os
import pathlib
import shutil
import signal
import struct
import tempfile
import time
import unittest

import harness
from fsdp_test import GPT_JOB

MOCK = harness.BIN.resolve().parent / "tests" / "mock_gpu"
# Without these a GPU run has another precision than a CPU's.
ON_GPU = {"device": "gpu", "precision": "fp32"}


def write_idx(path, shape, values):
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
    path.write_bytes(gzip.compress(header + values))


class MockGpuTest(harness.JobTest):
    @classmethod
    def setUpClass(cls):
        if not (MOCK / "libtorch_cuda.so").exists():
            raise unittest.SkipTest("mock_worker_module is not built")
        # The loader looks beside the worker, and the launcher too.
        cls.bin = pathlib.Path(tempfile.mkdtemp(prefix="mock_gpu_", dir=MOCK.parent))
        cls.addClassCleanup(shutil.rmtree, cls.bin)
        for name in ("composer", "composer_worker"):
            os.link(harness.BIN / name, cls.bin / name)
        for name in ("libtorch_cuda.so", "composer_cuda.so"):
            os.link((MOCK / "libtorch_cuda.so").resolve(), cls.bin / name)

    def environment(self):
        return dict(super().environment(), LD_LIBRARY_PATH=str(self.bin))

    def train(self, name, ranks, **changes):
        self.run_composer("-n", ranks, self.write_job(name, **changes), timeout=200)

    def assert_same_run(self, one, other):
        self.assertEqual(len(self.losses(one)), len(self.losses(other)))
        for a, b in zip(self.losses(one), self.losses(other)):
            self.assertAlmostEqual(a, b, delta=1e-14 * abs(a))
        self.assert_same_state(self.newest_checkpoint(one), self.newest_checkpoint(other))

    def gpt(self, **changes):
        text = self.folder / "text.txt"
        text.write_text("In the beginning was the word, and the word was copied to the device. " * 100)
        job = dict(GPT_JOB, **changes)
        job["train_dataloader"] = dict(job["train_dataloader"], path=str(text))
        return job

    def test_a_perceptron_has_the_bits_of_the_cpu_on_one_and_two_ranks(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.train(f"cpu{ranks}", ranks)
                self.train(f"gpu{ranks}", ranks, **ON_GPU)
                self.assert_same_run(f"cpu{ranks}", f"gpu{ranks}")

    def test_pinned_loaders_clipping_and_profiler(self):
        clipping = {"algorithms": {"gradient_clipping": {"clipping_type": "norm", "clipping_threshold": 0.5}}}
        self.train("cpu", 2, **clipping)
        self.train("gpu", 2, callbacks={"speed_monitor": {}, "memory_monitor": {}},
                   profiler={"schedule": {"skip_first": 2, "active": 2}},
                   train_dataloader=dict(harness.TINY_JOB["train_dataloader"], num_workers=1, pin_memory=True),
                   **clipping, **ON_GPU)
        self.assert_same_losses(self.losses("gpu"), self.losses("cpu"))
        self.assertTrue(any("memory/" in key for line in self.metrics("gpu") for key in line))

    # A rate that float32 has, so that the bits are those of a run without graphs.
    def test_graphs_have_the_bits_of_eager_steps_and_survive_a_kill(self):
        rate = {"optimizers": dict(harness.TINY_JOB["optimizers"], lr=2**-9), "schedulers": None}
        for name, ranks, more in [("eager", 1, {}), ("ddp", 2, {}), ("full", 2, {"fsdp_config": {}})]:
            graphs = "graphs" if name == "eager" else f"graphs_{name}"
            self.train(name, ranks, **rate, **more, **ON_GPU)
            self.train(graphs, ranks, cuda_graphs=True, **rate, **more, **ON_GPU)
            self.assert_same_run(name, graphs)
        replays = [line["trainer/graph_replay"] for line in self.metrics("graphs") if "trainer/graph_replay" in line]
        self.assertEqual(replays[:5] + replays[-1:], [0, 0, 0, 1, 1, 1])
        self.train("killed", 1, cuda_graphs=True, callbacks={"fail_at": {"rank": 0, "batch": 23}}, **rate, **ON_GPU)
        self.assertEqual(self.summary("killed")["restarts"], 1)
        self.assert_same_state(self.newest_checkpoint("eager"), self.newest_checkpoint("killed"))
        self.train("killed2", 2, cuda_graphs=True, fsdp_config={}, callbacks={"fail_at": {"rank": 1, "batch": 23}},
                   **rate, **ON_GPU)
        self.assertEqual(self.summary("killed2")["restarts"], 1)
        self.assert_same_state(self.newest_checkpoint("full"), self.newest_checkpoint("killed2"))

    def test_a_run_that_cannot_be_captured_says_why(self):
        self.train("fp16", 1, cuda_graphs=True, device="gpu", precision="amp_fp16")
        self.assertIn("no step is captured: the scaler of precision: amp_fp16", (self.run_folder("fp16") / "logs/gen-001/rank-00000.log").read_text())

    # Attention and the order of its sums differ, as between a CPU and a GPU.
    def test_gpt_with_each_strategy(self):
        self.train("cpu", 1, **self.gpt())
        for name, ranks, fsdp in [("one", 1, None), ("ddp", 2, None), ("full", 2, {"activation_checkpointing": True}),
                                  ("zero2", 3, {"sharding_strategy": "SHARD_GRAD_OP",
                                                "activation_cpu_offload": True}),
                                  ("hybrid", 4, {"sharding_strategy": "HYBRID_SHARD",
                                                 "data_parallel_replicate_degree": 2})]:
            with self.subTest(name):
                changes = {} if fsdp is None else {"fsdp_config": fsdp}
                self.train(name, ranks, **self.gpt(**changes, **ON_GPU))
                self.assert_same_losses(self.losses(name), self.losses("cpu"))

    def test_amp_is_near_fp32(self):
        self.train("cpu", 1, **self.gpt())
        for precision in ("amp_bf16", "amp_fp16"):
            self.train(precision, 2, **self.gpt(device="gpu", precision=precision))
            self.assertEqual(len(self.losses(precision)), 12)
            self.assertAlmostEqual(self.losses(precision)[-1], self.losses("cpu")[-1], delta=0.1)

    def test_pictures(self):
        data = self.folder / "fashion"
        data.mkdir()
        for split, size in (("train", 64), ("t10k", 32)):
            write_idx(data / f"{split}-images-idx3-ubyte.gz", (size, 28, 28),
                      bytes((i * 7919 >> 3) % 256 for i in range(size * 784)))
            write_idx(data / f"{split}-labels-idx1-ubyte.gz", (size,), bytes(i % 10 for i in range(size)))
        job = {"model": {"name": "resnet_small", "num_classes": 10, "in_channels": 1, "widths": [8, 16]},
               "train_dataloader": {"name": "fashion_mnist", "path": str(data), "split": "train"},
               "eval_dataloader": {"name": "fashion_mnist", "path": str(data), "split": "test", "batch_size": 16},
               "max_duration": "2ep", "save_interval": "1ep", "eval_interval": "1ep"}
        self.train("cpu", 2, **job)
        self.train("gpu", 2, **job, **ON_GPU)
        for ours, theirs in zip(self.losses("gpu"), self.losses("cpu")):
            self.assertAlmostEqual(ours, theirs, delta=0.02)

    def test_a_killed_rank_changes_no_bit(self):
        self.train("calm", 2, **ON_GPU)
        self.train("killed", 2, callbacks={"fail_at": {"rank": 1, "batch": 23}}, **ON_GPU)
        self.assertEqual(self.summary("killed")["restarts"], 1)
        self.assert_same_state(self.newest_checkpoint("calm"), self.newest_checkpoint("killed"))

    def test_peers_of_a_killed_rank_leave_out_of_a_collective_and_record_it(self):
        process = self.start("-n", 2, "--max-restarts", 0, self.write_job("killed", max_duration="100000ba",
                                                                          save_interval=0, **ON_GPU))
        self.wait_for_batch("killed", 5)
        pids = self.workers("killed")
        os.kill(pids[1], signal.SIGKILL)
        begin = time.monotonic()
        self.wait_for(lambda: not self.workers("killed"), "the other rank leaves")
        print(f"the other rank left {1000 * (time.monotonic() - begin):.0f} ms after the kill")
        _, err = process.communicate(timeout=60)
        self.assertIn("rank 1 was killed by SIGKILL", err)
        path = self.run_folder("killed") / "logs/collectives-rank-00000.json"
        log = (self.run_folder("killed") / "logs/gen-001/rank-00000.log").read_text()
        self.assertIn(f"; flight record: {path}", log)
        record = json.loads(path.read_text())
        self.assertIn("the generation is over", record["why"])
        self.assertEqual(record["groups"][0]["name"], "world")
        self.assertIn("all-reduce number", record["groups"][0]["calls"][-1]["call"])

    def test_a_rank_that_hangs_is_named_with_the_record(self):
        hangs = {"fail_at": {"rank": 1, "batch": 5, "how": "hang"}}
        _, err = self.run_composer("-n", 2, "--max-restarts", 0,
                                   self.write_job("hangs", callbacks=hangs, dist_timeout=2, **ON_GPU), code=69)
        self.assertIn("did not end in 2 s (dist_timeout): rank 1 has not come to it, its last one is", err)
        self.assertIn(f"; flight record: {self.run_folder('hangs')}/logs/collectives-rank-00000.json", err)

    def test_calls_are_compared_on_request(self):
        self.train("plain", 2, **ON_GPU)
        self.train("compared", 2, debug_collectives=True, **ON_GPU)
        self.assert_same_run("plain", "compared")

    def test_what_the_driver_says_of_a_gpu_is_in_the_cause(self):
        driver = MOCK.parent / "fake_nvml.so"
        if not driver.exists():
            self.skipTest("fake_nvml is not built")
        os.link(driver, self.bin / "libnvidia-ml.so.1")
        self.addCleanup((self.bin / "libnvidia-ml.so.1").unlink)
        _, err = self.run_composer("-n", 2, "--max-restarts", 0,
                                   self.write_job("xid", callbacks={"fail_at": {"rank": 1, "batch": 5, "how": "abort"}},
                                                  **ON_GPU), code=134, env=dict(self.environment(), FAKE_XIDS=",79"))
        self.assertIn("rank 1 was killed by SIGABRT (6): GPU 1 reported Xid 79 (the GPU has fallen off the bus)", err)

    def test_a_run_may_change_devices(self):
        unscheduled = {"schedulers": None}  # a schedule would follow the shorter duration
        self.train("whole", 1, **unscheduled)
        for first, then in (({}, ON_GPU), (ON_GPU, {})):
            name = "gpu_last" if then else "cpu_last"
            self.train(name, 1, max_duration="20ba", **unscheduled, **first)
            self.train(name, 1, **unscheduled, **then)
            self.assert_same_state(self.newest_checkpoint("whole"), self.newest_checkpoint(name))

    def test_too_many_ranks_for_the_devices(self):
        _, err = self.run_composer("-n", 5, self.write_job("five", **ON_GPU), code=64, timeout=60)
        self.assertIn("this node has 4 GPUs for 5 ranks", err)


if __name__ == "__main__":
    unittest.main()
