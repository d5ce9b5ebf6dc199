"""The real binaries with a sharded model: the GPT example on several ranks trains as on one, says its plan, and goes on on another number of ranks; mistakes in fsdp_config are user errors."""
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

    def losses(self, name):
        return [m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m]

    def assert_same(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a, b, places=4)

    def test_strategies_train_as_one_process(self):
        self.run_composer("-n", 1, self.job("one"))
        one = self.losses("one")
        self.assertEqual(len(one), 12)
        for name, ranks, config in [("full", 2, {"verbose": True}), ("zero2", 3, {"sharding_strategy": "SHARD_GRAD_OP", "backward_prefetch": "BACKWARD_PRE"}),
                                    ("hybrid", 4, {"sharding_strategy": "HYBRID_SHARD", "data_parallel_replicate_degree": 2})]:
            with self.subTest(name):
                _, err = self.run_composer("-n", ranks, self.job(name, parallelism_config={"fsdp": config}))
                self.assert_same(self.losses(name), one)
                if config.get("verbose"):
                    self.assertIn("FULL_SHARD over 2 ranks x 1 replica, 4 units", err)
                    self.assertIn("transformer.blocks.2", err)

    def test_goes_on_with_another_number_of_ranks(self):
        self.run_composer("-n", 1, self.job("alone"))
        self.run_composer("-n", 2, self.job("moved", max_duration="6ba", fsdp_config={}))
        self.run_composer("-n", 3, self.job("moved", fsdp_config={"mixed_precision": "FULL"}))
        self.assert_same(self.losses("moved"), self.losses("alone"))

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
                self.check_killed_at(name, 2, calm, callbacks={"fail_at": {"rank": 1, "batch": batch, "when": when, "nth": nth}}, **common, **changes)
                if when != "save":
                    log = (self.run_folder(name) / "logs" / "gen-001" / "rank-00000.log").read_text()
                    # From the launcher or from the collective itself, whichever the survivor hears first.
                    self.assertRegex(log, f"rank 1 was killed by SIGKILL|{when.replace('_', '-')} number [0-9]+ failed on rank 0")

    def test_killed_in_the_middle_of_a_sum_over_replicas(self):
        hybrid = {"save_async": False, "fsdp_config": {"sharding_strategy": "HYBRID_SHARD", "data_parallel_replicate_degree": 2}}
        self.run_composer("-n", 4, self.job("calm", **hybrid))
        self.check_killed_at("killed", 4, self.newest_checkpoint("calm"), callbacks={"fail_at": {"rank": 3, "batch": 8, "when": "all_reduce", "nth": 2}}, **hybrid)

    def test_mistakes_are_user_errors(self):
        _, err = self.run_composer("-n", 2, self.job("typo", fsdp_config={"sharding_stratgy": "FULL_SHARD"}), code=64)
        self.assertIn("did you mean `sharding_strategy`?", err)
        _, err = self.run_composer("-n", 2, self.job("degree", fsdp_config={"data_parallel_shard_degree": 3}), code=64)
        self.assertIn("there are 2 ranks", err)


if __name__ == "__main__":
    unittest.main()
