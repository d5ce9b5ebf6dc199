#!/usr/bin/env python3
"""Plants the mistakes of tests/integration/mistakes.py one after the other, and writes how long each answer took and
what it lacks; beside them torchrun, where it can make the same mistake.

  benchmarks/mistakes.py [--rounds 3] [--torchrun PATH] [--only TEXT] [--write]

--write writes docs/results/mistakes.md. The time is from the start of the program to its end; of mistakes at run time
from the mistake (a kill), or from the start where the mistake comes by itself. SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests/integration"), str(HERE)]  # both have a file of this name

import harness  # noqa: E402
import mistakes  # noqa: E402
import mistakes_test  # noqa: E402
import report  # noqa: E402

SCRIPTS = {"script.py": "print('ran')\n",
           "throw.py": "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('a mistake')\n",
           "kill.py": "import os, signal, time\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), signal.SIGKILL)\n"
                      "time.sleep(60)\n",
           "card.py": "import os\nos.environ['GLOO_SOCKET_IFNAME'] = 'eth9'\nimport torch.distributed as dist\n"
                      "dist.init_process_group('gloo')\n",
           "gpu.py": "import torch\ntorch.nn.Linear(32, 10).to('cuda')\n",
           "shapes.py": "import torch\ntorch.nn.Linear(31, 10)(torch.randn(8, 32))\n",
           "classes.py": "import torch\ntorch.nn.functional.cross_entropy(torch.randn(8, 5), torch.arange(8))\n",
           "vocabulary.py": "import torch\ntorch.nn.Embedding(50, 8)(torch.tensor([116]))\n",
           "data.py": "import torch\nopen('nowhere.txt').read()\n",
           "load.py": "import torch\ntorch.load('runs/gone/model.pt')\n",
           "other_model.py": "import torch\ntorch.nn.Linear(32, 48).load_state_dict(torch.nn.Linear(32, 64).state_dict())\n",
           # Damaged as ours: one bit of the weights; torch's zip file has a checksum that torch.load does not read.
           "damaged.py": "import os, torch\nname = f'{os.getpid()}.pt'\ntorch.save(torch.zeros(1000), name)\n"
                         "b = bytearray(open(name, 'rb').read())\nb[len(b) // 2] ^= 1\nopen(name, 'wb').write(b)\n"
                         "torch.load(name)\n",
           "nan.py": "import torch\nmodel = torch.nn.Linear(32, 10)\nsgd = torch.optim.SGD(model.parameters(), lr=1e30)\n"
                     "for _ in range(40):\n    model(torch.randn(8, 32)).square().mean().backward()\n    sgd.step()\n",
           "hang.py": "import os, threading, torch.distributed as dist\ndist.init_process_group('gloo')\n"
                      "if os.environ['RANK'] == '1':\n    threading.Event().wait()\ndist.barrier()\n"}


def ours(mistake):
    """Returns (seconds, the processors' seconds, what the answer lacks, its first line), or why it could not be planted."""
    test = mistakes_test.MistakesTest()
    test.setUp()
    try:
        code, said, seconds = test.answer(mistake)
        line = next((line for line in said.splitlines() if line.startswith(("composer:", "error:"))), "")
        return seconds, test.processors, test.missing(mistake, code, said), line.replace(str(test.folder) + "/", "")
    except unittest.SkipTest as skipped:
        return None, None, [str(skipped)], ""
    finally:
        test.doCleanups()


def end(process):
    """Ends a torchrun and its workers, which have sessions of their own."""
    children = [process.pid]
    for pid in children:
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            children += map(int, task.read_text().split())
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate()


def peer(torchrun, mistake):
    """Returns (seconds, exit code, lines, lines of a Python stack) of the same mistake under torchrun."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mistakes-"))
    running = []
    try:
        for name, text in SCRIPTS.items():
            (folder / name).write_text(text)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            values = {"taken": taken.getsockname()[1], "free": harness.free_port()}

            def start(words):
                running.append(subprocess.Popen([torchrun, *(word.format(**values) for word in words)], cwd=folder, text=True,
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL))
            if mistake.peer_first:
                start(mistake.peer_first)
            began = time.monotonic()
            start(mistake.peer[1:])
            try:
                said = "".join(running[-1].communicate(timeout=60))
            except subprocess.TimeoutExpired:
                return 60, None, 0, 0
            seconds = time.monotonic() - began
        lines = said.splitlines()
        stack = [line for line in lines if line.strip().startswith("File \"") or "Traceback" in line]
        return seconds, running[-1].returncode, len(lines), len(stack)
    finally:
        for process in running:
            end(process)
        shutil.rmtree(folder, ignore_errors=True)


def peer_cell(torchrun, mistake):
    if not torchrun or not mistake.peer:
        return ""
    seconds, code, lines, stack = peer(torchrun, mistake)
    if code is None:
        return "not ended in 60 s"
    if code == 0:
        return "no answer: it ends as if all were well"
    return f"{seconds:.1f} s, exit {code}, {lines} line{'s' if lines != 1 else ''}" + (", with a Python stack" if stack else "")


def rows(arguments):
    for mistake in mistakes.PANEL:
        if arguments.only and arguments.only not in mistake.name:
            continue
        found = [ours(mistake) for _ in range(arguments.rounds)]
        times = [seconds for seconds, _, _, _ in found if seconds is not None]
        used = [processors for _, processors, _, _ in found if processors is not None]
        lacks = sorted({part for _, _, parts, _ in found for part in parts})
        seconds = f"{statistics.median(times):.2f}" if times else "-"
        said = " ".join(mistake.says)
        processors = f"{statistics.median(used):.2f}" if used else "-"
        row = (mistake.name, "while it runs" if mistake.at_run_time else "at the start", seconds, processors, said, ", ".join(lacks) or "nothing",
               peer_cell(arguments.torchrun, mistake))
        print(f"{row[0]}: {row[2]} s, processors {row[3]} s, lacks {row[5]}  {found[-1][3][:160]}", flush=True)
        yield row, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torchrun", default=shutil.which("torchrun"))
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    host = report.machine()
    table = list(rows(arguments))
    if not arguments.write:
        return
    start = [statistics.median(times) for row, times in table if times and row[1] == "at the start"]
    good = sum(row[5] == "nothing" for row, _ in table)
    text = [f"# Answers to {len(table)} planted mistakes", "",
            f"{host['date']}, commit {host['commit']}, {host['cores']} x {host['cpu']}, load {host['load_before']:.1f} before the run. "
            "Made by `benchmarks/mistakes.py --write`; the panel is `tests/integration/mistakes.py`.", "",
            "An answer must name the field, the value and the fix, or at run time the rank, the node and the place, with "
            "the right exit code, in at most 25 lines. "
            f"{good} of {len(table)} do. The median of those at the start is {statistics.median(start):.2f} s, "
            f"{sum(seconds <= 1 for seconds in start)} of {len(start)} take at most 1 s.", "",
            "| mistake | found | seconds | of processors | must say | lacks | torchrun, the same mistake |", "|---|---|---|---|---|---|---|"]
    text += ["| " + " | ".join(row) + " |" for row, _ in table]
    (HERE.parent / "docs/results/mistakes.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
