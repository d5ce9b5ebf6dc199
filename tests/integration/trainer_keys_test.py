"""Keys of Composer's Trainer on the real binaries: names of checkpoints that are links, the best of them, a seed that is
drawn once, and tables of what evaluations saw."""
import json
import unittest

import harness

EVAL = dict(harness.TINY_JOB["train_dataloader"], size=45, sample_seed=1, batch_size=8)


class TrainerKeys(harness.JobTest):
    def checkpoints(self, name):
        folder = self.run_folder(name) / "checkpoints"
        return sorted(path.name for path in folder.iterdir() if (path / "manifest.json").exists())

    def test_links_lead_to_checkpoints_and_the_best_are_kept(self):
        self.run_composer("-n", 2, self.write_job(
            "named", eval_dataloader=EVAL, eval_interval="10ba", save_metrics=True,
            save_filename="epoch{epoch}/step{batch:04}-rank{rank}.pt",
            save_top_k={"monitor": "metrics/eval/CrossEntropy", "k": 1}))
        values = {m["time/batch"]: m["metrics/eval/CrossEntropy"] for m in self.metrics("named")
                  if "metrics/eval/CrossEntropy" in m}
        best = min(values, key=values.get)
        self.assertEqual({int(name.split("ba")[1]) for name in self.checkpoints("named")}, {best, 40})
        folder = self.run_folder("named") / "checkpoints"
        links = [path for path in folder.rglob("*.pt")]
        self.assertEqual([path.name for path in links], ["step0040-rank0.pt"])
        _, err = self.run_composer("-n", 1, self.write_job("onward", load_path=str(links[0]), max_duration="50ba"))
        self.assertRegex(err, rf"\] loaded {folder}/ep\d+-ba40\n")
        self.assertEqual(len(self.losses("onward")), 10)
        self.run_composer("eval", self.write_job("named", eval_dataloader=EVAL), links[0])

    def test_why_a_run_ends_early_is_said_once(self):
        _, err = self.run_composer("-n", 2, self.write_job("early", callbacks={
            "threshold_stopper": {"monitor": "loss/train/total", "threshold": 100.0, "stop_on_batch": True}}))
        self.assertEqual(err.count("threshold_stopper: loss/train/total is "), 1, err)
        self.assertLess(len(self.losses("early")), 40)

    def test_a_random_seed_is_drawn_once_and_shared(self):
        job = self.write_job("drawn", seed="random", max_duration="20ba", schedulers=None)
        _, err = self.run_composer("-n", 2, job)
        kept = (self.run_folder("drawn") / "seed").read_text().strip()
        self.assertIn(f"seed: random is {kept}, kept in ", err)
        self.run_composer("-n", 1, job, "max_duration=40ba")
        whole = self.write_job("whole", seed=int(kept), schedulers=None)
        self.run_composer("-n", 1, whole)
        self.assert_same_losses(self.losses("drawn"), self.losses("whole"))
        other = self.write_job("other", seed="random", schedulers=None)
        self.run_composer("-n", 1, other)
        self.assertNotEqual(self.losses("other"), self.losses("whole"))
        (self.run_folder("drawn") / "seed").write_text("x")
        _, err = self.run_composer("-n", 1, job, "max_duration=50ba", code=64)
        self.assertIn("holds no number", err)

    def test_tables_of_evaluations_are_the_same_on_any_ranks(self):
        tables = []
        for ranks in (1, 2):
            self.run_composer("-n", ranks, self.write_job(
                f"tables{ranks}", eval_dataloader=EVAL, eval_interval="40ba", loggers={"in_memory": None},
                callbacks={"eval_output_logging": {"num_samples": 9}}))
            lines = (self.run_folder(f"tables{ranks}") / "tables.jsonl").read_text().splitlines()
            tables.append([json.loads(line) for line in lines][-1])
        self.assertEqual(tables[0]["table"], "eval_outputs/eval")
        rows = [table["data"] for table in tables]
        self.assertEqual([[row[0], row[2]] for row in rows[0]], [[row[0], row[2]] for row in rows[1]])
        self.assertEqual([row[0] for row in rows[0]], [str(i) for i in range(9)])


if __name__ == "__main__":
    unittest.main()
