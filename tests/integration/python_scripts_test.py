"""Python programs run unchanged under our launcher: torch.distributed with gloo, and the real mosaicml Trainer. Needs
the peers of tools/peers_setup.sh (COMPOSER_PEERS, /tmp/composer-peers); without them the tests are skipped with a
message."""
import json
import os
import pathlib
import unittest

import harness

PEERS = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers"))

# What any script for torchrun does, without anything of ours.
ALL_REDUCE = """
import json, os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
pathlib = __import__("pathlib")
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if len(sys.argv) > 1 and sys.argv[1] == "fail" and first and dist.get_rank() == 1:
    raise RuntimeError("bad luck on purpose")
dist.barrier()
pathlib.Path(f"rank{dist.get_rank()}.json").write_text(json.dumps({
    "sum": total.item(), "world": dist.get_world_size(), "restarts": os.environ["TORCHELASTIC_RESTART_COUNT"],
    "local": os.environ["LOCAL_RANK"]}))
dist.destroy_process_group()
"""

# The mosaicml Trainer on two ranks; parameters at the end must be the same on both, as DDP keeps them.
TRAINER = """
import json, pathlib
import torch
from torch.utils.data import DataLoader, TensorDataset
from composer import Trainer
from composer.models import ComposerClassifier
from composer.utils import dist

torch.manual_seed(3)
generator = torch.Generator().manual_seed(5)
x = torch.randn(64, 8, generator=generator)
data = TensorDataset(x, (x.sum(1) > 0).long())
dist.initialize_dist("cpu", timeout=60)
loader = DataLoader(data, batch_size=8, sampler=dist.get_sampler(data, shuffle=True))
model = ComposerClassifier(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)), num_classes=2)
trainer = Trainer(model=model, train_dataloader=loader, max_duration="6ep", device="cpu", progress_bar=False,
                  optimizers=torch.optim.SGD(model.parameters(), lr=0.2))
trainer.fit()
weights = [p.detach().double().sum().item() for p in model.parameters()]
accuracy = (model.module(x).argmax(1) == data.tensors[1]).float().mean().item() if hasattr(model.module, "forward") else None
pathlib.Path(f"rank{dist.get_global_rank()}.json").write_text(json.dumps({
    "batches": int(trainer.state.timestamp.batch), "samples": int(trainer.state.timestamp.sample), "world": dist.get_world_size(),
    "weights": weights, "accuracy": accuracy}))
"""


class PythonScripts(harness.JobTest):
    def script(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def python(self, peer):
        """Returns the environment in which `python3` is the peer's: composer takes python3 from PATH."""
        if not (PEERS / peer / "bin/python3").exists():
            self.skipTest(f"{PEERS / peer} is not there: tools/peers_setup.sh makes it")
        environment = self.environment()
        environment["PATH"] = f"{PEERS / peer / 'bin'}:{environment['PATH']}"
        environment["OMP_NUM_THREADS"] = "1"
        return environment

    def environment(self):
        return getattr(self, "chosen", None) or super().environment()

    def launch(self, peer, *args, code=0):
        self.chosen = self.python(peer)
        return self.run_composer(*args, code=code, timeout=240)

    def results(self):
        return [json.loads((self.folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]

    def test_torch_distributed_over_gloo(self):
        self.script("all_reduce.py", ALL_REDUCE)
        self.launch("torch211", "-n", 2, "all_reduce.py")
        for rank, result in enumerate(self.results()):
            self.assertEqual(result, {"sum": 3.0, "world": 2, "restarts": "0", "local": str(rank)})

    def test_a_failed_script_is_started_again(self):
        self.script("all_reduce.py", ALL_REDUCE)
        _, err = self.launch("torch211", "-n", 2, "--max-restarts", 1, "all_reduce.py", "fail")
        # Python decides which rank's process ends first: rank 0 may be faster in leaving the broken collective.
        self.assertIn("bad luck on purpose", err)
        self.assertIn("restart 1 of 1", err)
        for result in self.results():
            self.assertEqual((result["sum"], result["restarts"]), (3.0, "1"))

    def test_as_a_module(self):
        self.script("all_reduce.py", ALL_REDUCE)
        self.launch("torch211", "-n", 2, "-m", "all_reduce")
        self.assertEqual([r["sum"] for r in self.results()], [3.0, 3.0])

    def test_the_mosaicml_trainer(self):
        self.script("train.py", TRAINER)
        self.launch("mosaic", "-n", 2, "train.py")
        first, second = self.results()
        self.assertEqual((first["batches"], first["samples"], first["world"]), (24, 384, 2))
        self.assertEqual(first["weights"], second["weights"])
        self.assertGreater(first["accuracy"], 0.8)


if __name__ == "__main__":
    unittest.main()
