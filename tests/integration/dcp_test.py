"""Exchanges checkpoints with the real torch.distributed.checkpoint: a folder that two ranks of it wrote is imported here
and exported again, bit for bit; a run that is exported is loaded by dcp.load into a model and its optimizer, also
sharded over two ranks, and trains on there with the losses that it has here. Skipped without the `torch211` environment
of tools/peers_setup.sh.
SPDX-License-Identifier: Apache-2.0"""
import json
import os
import pathlib
import subprocess
import unittest

import harness

PYTHON = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers")) / "torch211/bin/python"
GOLDEN = harness.ROOT / "tests/golden/weights"

# Loads a folder into tensors of the right shapes, sharded over the ranks where there are several, and compares.
LOAD = """
import json, os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
folder, values, world = sys.argv[1], json.load(open(sys.argv[2]))["files"]["dcp"], int(sys.argv[3])

def load(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[4], RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (world,))
    model = {}
    for name, saved in values.items():
        model[name] = torch.zeros(saved["shape"], dtype=getattr(torch, saved["dtype"]))
        if model[name].dim() > 0: model[name] = distribute_tensor(model[name], mesh, [Shard(model[name].dim() - 1)])
    dcp.load({"model": model}, checkpoint_id=folder)
    for name, saved in values.items():
        whole = model[name].full_tensor() if isinstance(model[name], DTensor) else model[name]
        assert whole.to(torch.float64).flatten().tolist() == saved["values"], name
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.start_processes(load, nprocs=world, start_method="fork")
    print(len(values))
"""

# Goes on from a folder with torch's AdamW: prints its losses.
GO_ON = """
import json, sys, numpy, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
folder, rows, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
x, y = torch.from_numpy(numpy.load(rows + "/inputs.npy")), torch.from_numpy(numpy.load(rows + "/targets.npy"))
layers = [torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)]
names = json.loads(sys.argv[4])
model = torch.nn.Module()
model.layers = torch.nn.Module()
for name, layer in zip(names, (layers[0], layers[2])): model.layers.add_module(name.removeprefix("layers."), layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, weight_decay=0.3)
weights, state = get_state_dict(model, optimizer)
dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
losses = []
for _ in range(steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(torch.nn.Sequential(*layers)(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""
ROWS = """
import sys, numpy
random = numpy.random.default_rng(17)
numpy.save(sys.argv[1] + "/inputs.npy", random.standard_normal((24, 6)).astype("float32"))
numpy.save(sys.argv[1] + "/targets.npy", random.integers(0, 3, 24))
"""


@unittest.skipUnless(PYTHON.exists(), "no torch211 here: tools/peers_setup.sh")
class DcpTest(harness.JobTest):
    def python(self, script, *args):
        file = self.folder / "script.py"
        file.write_text(script)
        done = subprocess.run([str(PYTHON), str(file), *map(str, args)], capture_output=True, text=True, timeout=200,
                              env=dict(self.environment(), OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout.strip().splitlines()[-1:]

    def test_there_here_and_there_again_on_other_numbers_of_ranks(self):
        for name in ("dcp", "dcp3"):
            self.run_composer("checkpoint", "import", GOLDEN / name, self.folder / "ours" / name)
            out = self.folder / "out" / name
            self.run_composer("checkpoint", "export", "--dcp", "--weights-only", self.folder / "ours" / name, out)
            world = {"dcp": 3, "dcp3": 2}[name]
            loaded = self.python(LOAD, out, GOLDEN / "values.json", world, harness.free_port())
            self.assertEqual(loaded, ["7"])

    def test_torch_goes_on_with_the_optimizer(self):
        self.python(ROWS, self.folder)
        job = dict(model={"name": "mlp", "sizes": [6, 8, 3]}, global_train_batch_size=24,
                   optimizers={"name": "adamw", "lr": 0.02, "weight_decay": 1e-3}, save_interval="1dur",
                   schedulers={"name": "constant"},
                   train_dataloader={"name": "tensors", "path": [str(self.folder / "inputs.npy"),
                                                                 str(self.folder / "targets.npy")]})
        self.run_composer(self.write_job("part", max_duration="10ba", **job))
        self.run_composer(self.write_job("whole", max_duration="20ba", **job))
        out = self.folder / "dcp"
        self.run_composer("checkpoint", "export", "--dcp", self.run_folder("part"), out)
        shown, _ = self.run_composer("checkpoint", "show", self.run_folder("part"))
        names = sorted({line.split("model/")[1].split(".weight")[0] for line in shown.splitlines()
                        if "model/" in line and ".weight" in line})
        losses = json.loads(self.python(GO_ON, out, self.folder, 10, json.dumps(names))[0])
        for ours, theirs in zip(self.losses("whole")[10:], losses, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
