"""Runs the real binaries with a sharded model: the GPT example on several ranks trains as on one, reports its plan, and
resumes on another number of ranks. Mistakes in fsdp_config are user errors."""
import os
import pathlib
import re
import resource
import signal
import unittest

import harness

GPT_JOB = {
    "model": {"name": "gpt", "n_layers": 3, "n_heads": 2, "d_model": 32, "max_seq_len": 16, "vocab_size": 256},
    "train_dataloader": {"name": "text_bytes", "max_seq_len": 16},
    "global_train_batch_size": 12,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.001, "weight_decay": 1e-5},
    "schedulers": None,
    "max_duration": "12ba",
    "save_interval": "6ba",
}


class FsdpTest(harness.JobTest):
    def job(self, name, **changes):
        text = self.folder / "text.txt"
        text.write_text("In the beginning was the word, and the word was sharded over many ranks. " * 100)
        job = dict(GPT_JOB, **changes)
        job["train_dataloader"] = dict(job["train_dataloader"], path=str(text))
        return self.write_job(name, **job)

    def test_strategies_train_as_one_process(self):
        self.run_composer("-n", 1, self.job("one"))
        one = self.losses("one")
        self.assertEqual(len(one), 12)
        for name, ranks, config in [("full", 2, {"verbose": True}),
                                    ("zero2", 3,
                                     {"sharding_strategy": "SHARD_GRAD_OP", "backward_prefetch": "BACKWARD_PRE"}),
                                    ("hybrid", 4,
                                     {"sharding_strategy": "HYBRID_SHARD", "data_parallel_replicate_degree": 2})]:
            with self.subTest(name):
                _, err = self.run_composer("-n", ranks, self.job(name, parallelism_config={"fsdp": config}))
                self.assert_same_losses(self.losses(name), one)
                if config.get("verbose"):
                    self.assertIn("FULL_SHARD over 2 ranks x 1 replica, 4 units", err)
                    self.assertIn("transformer.blocks.2", err)
                    self.assertRegex(
                        err,
                        r"memory of a rank: [0-9.]+ MB = parameters .* \+ batches .* \+ activations [0-9.]+ MB\n")
                    self.assertRegex(err,
                                     r"activations: of 1 microbatch of 6 samples a step, without activation_checkpointing; with it a rank would take [0-9.]+ MB")

    def test_goes_on_with_another_number_of_ranks(self):
        self.run_composer("-n", 1, self.job("alone"))
        self.run_composer("-n", 2, self.job("moved", max_duration="6ba", fsdp_config={}))
        self.run_composer("-n", 3, self.job("moved", fsdp_config={"mixed_precision": "FULL"}))
        self.assert_same_losses(self.losses("moved"), self.losses("alone"))

    # A step of root + 3 blocks gathers the root, 3 blocks forward and 3 backward, and sums 3 blocks and the root.
    POINTS = [
        ("root", "all_gather", 1, {}),
        ("forward", "all_gather", 3, {}),
        ("backward", "all_gather", 6, {"collectives": "gloo"}),
        ("sums-of-a-block", "reduce_scatter", 2, {}),
        ("sums-of-the-root", "reduce_scatter", 4, {"collectives": "gloo"}),
        ("checkpoint", "save", 1, {}),
    ]

    def check_killed_at(self, name, ranks, calm, **changes):
        self.run_composer("-n", ranks, self.job(name, **changes))
        summary = self.summary(name)
        self.assertEqual(summary["restarts"], 1, summary)
        self.assertIn("SIGKILL", summary["generations"][0]["cause"])
        self.assert_same_state(calm, self.newest_checkpoint(name))

    def test_killed_in_the_middle_of_each_collective(self):
        common = {"fsdp_config": {}, "save_async": False}
        self.run_composer("-n", 2, self.job("calm", **common))
        calm = self.newest_checkpoint("calm")
        for name, when, nth, changes in self.POINTS:
            with self.subTest(name):
                batch = 6 if when == "save" else 8
                self.check_killed_at(name, 2, calm,
                                     callbacks={"fail_at": {"rank": 1, "batch": batch, "when": when, "nth": nth}},
                                     **common, **changes)
                if when != "save":
                    log = (self.run_folder(name) / "logs" / "gen-001" / "rank-00000.log").read_text()
                    # The cause comes from the launcher or from the collective itself, whichever reaches the survivor
                    # first.
                    self.assertRegex(
                        log,
                        f"rank 1 was killed by SIGKILL|{when.replace('_', '-')} number [0-9]+ failed on rank 0")

    def test_killed_in_the_middle_of_a_sum_over_replicas(self):
        hybrid = {"save_async": False, "fsdp_config": {"sharding_strategy": "HYBRID_SHARD",
                                                       "data_parallel_replicate_degree": 2}}
        self.run_composer("-n", 4, self.job("calm", **hybrid))
        self.check_killed_at("killed", 4, self.newest_checkpoint("calm"),
                             callbacks={"fail_at": {"rank": 3, "batch": 8, "when": "all_reduce", "nth": 2}}, **hybrid)

    def data_bytes(self, process, name):
        """Returns the most private memory (VmData) that a worker of the running job has had by the end of the job."""
        most = 0
        while process.poll() is None:
            for pid in self.workers(name).values():
                try:
                    found = re.search(r"VmData:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
                except OSError:
                    continue
                most = max(most, int(found[1]) * 1024 if found else 0)
        _, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        return most

    def test_a_model_larger_than_a_rank_may_be(self):
        """The model is built, trained, saved, killed and resumed on another number of ranks by workers that cannot hold
        its parameters even once."""
        layers, width = 28, 384
        whole = layers * 12 * width * width * 4
        model = dict(GPT_JOB["model"], n_heads=4, d_model=width)
        changes = {"seed": 3, "optimizers": {"name": "sgd", "lr": 0.05}, "global_train_batch_size": 5,
                   "save_async": False, "save_interval": "2ba", "max_duration": "4ba"}
        sharded = {"verbose": True}
        small = self.job("small", model=dict(model, n_layers=1), fsdp_config=sharded, **changes)
        # The number of malloc's arenas depends on how threads happen to collide, and thus on the machine's load.
        settled = {"env": dict(self.environment(), MALLOC_ARENA_MAX="2")}
        small_bytes = self.data_bytes(self.start("-n", 4, small, **settled), "small")
        limit = small_bytes + whole * 85 // 100
        limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)), **settled}

        model["n_layers"] = layers
        large = self.job("large", model=model, fsdp_config=sharded, **changes)
        process = self.start("-n", 4, large, **limited)
        checkpoint = self.run_folder("large") / "checkpoints" / "latest"
        self.wait_for(lambda: checkpoint.exists() or process.poll() is not None, "the first checkpoint", timeout=200)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, err)
        self.assertIn("one parameter is whole at a time", err)
        self.assertTrue(checkpoint.exists(), err)
        self.wait_for(lambda: not self.workers("large"), "the workers' end")
        _, err = self.run_composer("-n", 5, large, timeout=250, **limited)
        self.assertEqual([m["time/batch"] for m in self.metrics("large") if "loss/train/total" in m][-1], 4)
        self.assertIn("FULL_SHARD over 5 ranks", err)

        losses = self.losses("large")
        self.assertLess(losses[-1], losses[0])
        # The limit is effective: a single rank cannot even begin.
        process = self.start("-n", 1, self.job("refused", model=model, max_restarts=0, **changes), **limited)
        _, err = process.communicate(timeout=250)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, "memory")

    def test_mistakes_are_user_errors(self):
        _, err = self.run_composer("-n", 2, self.job("typo", fsdp_config={"sharding_stratgy": "FULL_SHARD"}), code=64)
        self.assertIn("did you mean `sharding_strategy`?", err)
        _, err = self.run_composer("-n", 2, self.job("degree", fsdp_config={"data_parallel_shard_degree": 3}), code=64)
        self.assertIn("there are 2 ranks", err)


if __name__ == "__main__":
    unittest.main()
