"""1, 2 and 3 ranks see the same global batches in the same order, and train to the same loss."""
import json
import unittest

import harness


class SampleOrderTest(harness.JobTest):
    def batches(self, ranks):
        """Returns [(epoch, batch) -> sample ids of all ranks, in rank order], the shares, and the losses."""
        name = f"ranks-{ranks}"
        self.run_composer("-n", ranks, self.write_job(name, callbacks={"sample_recorder": None}))
        batches, shares = {}, []
        for rank in range(ranks):
            for line in (self.run_folder(name) / f"logs/samples-rank{rank}.jsonl").read_text().splitlines():
                record = json.loads(line)
                batches.setdefault(record["batch"], []).extend(record["sample_ids"])
                shares.append(len(record["sample_ids"]))
        losses = [m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m]
        return batches, shares, losses

    def test_order_does_not_depend_on_the_ranks(self):
        one, _, losses_one = self.batches(1)
        self.assertEqual(len(one), 40)
        self.assertEqual(len(one[min(one)]), 16)
        self.assertNotEqual(sorted(one[min(one)]), one[min(one)], "shuffled")
        for ranks in (2, 3):
            many, shares, losses = self.batches(ranks)
            self.assertEqual(one, many)
            if ranks == 3:
                self.assertIn(5, shares)
                self.assertIn(6, shares)
            for a, b in zip(losses_one, losses):
                self.assertAlmostEqual(a, b, places=4)


if __name__ == "__main__":
    unittest.main()
