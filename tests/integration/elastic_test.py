"""determinism: elastic gives the same weights, optimizer state and losses, bit for bit, on 1, 2, 4 and 8 ranks, with
dropout, and when the number of ranks changes at restarts after kill -9. elastic_sharding_test.py tests it with
sharding."""
import os
import signal
import unittest

import harness

GPT = {"name": "gpt", "n_layers": 2, "n_heads": 2, "d_model": 36, "max_seq_len": 16, "vocab_size": 257, "dropout": 0.1}


class ElasticJob(harness.JobTest):
    def job(self, name, **changes):
        text = {"name": "text_bytes", "path": str(harness.ROOT / "CONTRIBUTING.md"), "max_seq_len": 16}
        return self.write_job(name, **{"model": GPT, "train_dataloader": text, "global_train_batch_size": 27,
                                       "determinism": "elastic",
                                       "device_train_microbatch_size": 2, "max_duration": "100ba", **changes})

    def losses(self, name):
        return {m["time/batch"]: m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m}

    def assert_as_one_rank(self, runs, **changes):
        """runs: a list of (ranks, fsdp_config or None)."""
        self.run_composer("-n", 1, self.job("alone", **changes), timeout=200)
        for ranks, config in runs:
            name = f"{config['sharding_strategy'] if config else 'unsharded'}-{ranks}"
            with self.subTest(name):
                self.run_composer("-n", ranks,
                                  self.job(name, fsdp_config=config, collectives="gloo" if ranks == 4 else "auto",
                                           **changes), timeout=200)
                self.assertEqual(self.losses("alone"), self.losses(name))
                self.assert_same_state(self.newest_checkpoint("alone"), self.newest_checkpoint(name))

    def kill_at(self, batch, ranks, config):
        process = self.start("-n", ranks, self.job("changing", fsdp_config=config))
        self.wait_for_batch("changing", batch, timeout=120)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.wait_for(lambda: not self.workers("changing"), "end of the workers")

    def assert_kills_change_nothing(self, lives, last_ranks, last_config):
        """lives: a list of (ranks, fsdp_config, the batch after which it is killed)."""
        self.run_composer("-n", 1, self.job("steady"), timeout=200)
        for ranks, config, until in lives:
            self.kill_at(until, ranks, config)
        self.run_composer("-n", last_ranks, self.job("changing", fsdp_config=last_config), timeout=200)
        self.assertEqual(self.losses("steady")[100], self.losses("changing")[100])
        self.assert_same_state(self.newest_checkpoint("steady"), self.newest_checkpoint("changing"))


class ElasticTest(ElasticJob):
    def test_a_hundred_steps_on_1_2_4_and_8_ranks(self):
        self.assert_as_one_rank([(ranks, None) for ranks in (2, 4, 8)])

    def test_from_4_to_2_to_8_ranks_by_kills(self):
        self.assert_kills_change_nothing([(4, None, 25), (2, None, 55)], 8, None)

    def test_what_does_not_fit_is_refused_with_the_worlds_that_do(self):
        _, err = self.run_composer("-n", 3, self.job("three", virtual_shards=8), code=64)
        self.assertIn("runs on 1, 2, 4, 8 ranks, not on 3", err)


if __name__ == "__main__":
    unittest.main()
