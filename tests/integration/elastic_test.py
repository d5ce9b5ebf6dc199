"""determinism: elastic: the same weights, optimizer state and losses, bit for bit, on 1, 2, 4 and 8 ranks, with dropout, and when
the number of ranks changes at restarts after kill -9."""
import os
import signal
import unittest

import harness

GPT = {"name": "gpt", "n_layers": 1, "n_heads": 2, "d_model": 32, "max_seq_len": 16, "vocab_size": 256, "dropout": 0.1}


class ElasticTest(harness.JobTest):
    def job(self, name, **changes):
        text = {"name": "text_bytes", "path": str(harness.ROOT / "CONTRIBUTING.md"), "max_seq_len": 16}
        return self.write_job(name, **{"model": GPT, "train_dataloader": text, "global_train_batch_size": 27, "determinism": "elastic",
                                       "device_train_microbatch_size": 2, "max_duration": "100ba", **changes})

    def losses(self, name):
        return {m["time/batch"]: m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m}

    def test_a_hundred_steps_on_1_2_4_and_8_ranks(self):
        self.run_composer("-n", 1, self.job("ranks-1"), timeout=200)
        for ranks in (2, 4, 8):
            name = f"ranks-{ranks}"
            means = "gloo" if ranks == 4 else "auto"
            self.run_composer("-n", ranks, self.job(name, collectives=means), timeout=200)
            self.assertEqual(self.losses("ranks-1"), self.losses(name))
            self.assert_same_state(self.newest_checkpoint("ranks-1"), self.newest_checkpoint(name))

    def test_from_4_to_2_to_8_ranks_by_kills(self):
        self.run_composer("-n", 1, self.job("steady"), timeout=200)
        for ranks, until in ((4, 25), (2, 55)):
            process = self.start("-n", ranks, self.job("changing"))
            self.wait_for_batch("changing", until, timeout=120)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.wait_for(lambda: not self.workers("changing"), "end of the workers")
        self.run_composer("-n", 8, self.job("changing"), timeout=200)
        self.assertEqual(self.losses("steady")[100], self.losses("changing")[100])
        self.assert_same_state(self.newest_checkpoint("steady"), self.newest_checkpoint("changing"))

    def test_what_does_not_fit_is_refused_with_the_worlds_that_do(self):
        _, err = self.run_composer("-n", 3, self.job("three", virtual_shards=8), code=64)
        self.assertIn("runs on 1, 2, 4, 8 ranks, not on 3", err)


if __name__ == "__main__":
    unittest.main()
