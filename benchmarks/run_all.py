#!/usr/bin/env python3
"""Measures us beside torchrun, PyTorch and the Python Composer, alternating in one run; results are in docs/results/.

    tools/peers_setup.sh                       once: installs the peers outside the repository
    benchmarks/run_all.py                      all benches (about half an hour)
    benchmarks/run_all.py --only start step    some of them

Our programs are taken from build/release/bin; a bench whose program is missing measures the peers only. Only ratios
within one run are valid for another machine. Python 3.11, standard library only.
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import algorithms_cost
import checkpoint
import collectives
import data
import elastic
import ema
import generate
import instructions
import launch
import method_effects
import muon_share
import programs
import rendezvous
import report
import respawn
import sharding
import soak
import start
import step

BENCHES = {bench.NAME: bench for bench in (start, launch, *step.BENCHES, collectives, sharding, elastic, ema,
                                           algorithms_cost, method_effects, muon_share, generate, instructions, respawn, soak,
                                           rendezvous, checkpoint, data)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES), help="benches to run")
    parser.add_argument("--build", default=programs.REPOSITORY / "build" / "release", help="folder that holds bin/")
    parser.add_argument("--results", type=pathlib.Path, default=programs.REPOSITORY / "docs" / "results",
                        help="folder for the JSON and Markdown files")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of start, launch, step, respawn and checkpoint")
    parser.add_argument("--blocks", type=int, default=5, help="blocks of a step measurement")
    parser.add_argument("--steps", type=int, default=2000, help="steps a block")
    parser.add_argument("--kills", type=int, default=100, help="kills of our soak")
    parser.add_argument("--peer-kills", type=int, default=11, help="kills of each form of torchrun")
    parser.add_argument("--seed", type=int, default=17, help="of the soak's random moments")
    options = parser.parse_args()
    options.programs = programs.Programs(options.build)
    return options


def main():
    sys.stdout.reconfigure(line_buffering=True)
    options = parse_arguments()
    options.programs.check_peers()
    failed = []
    for name in options.only:
        host = report.machine()
        try:
            result = BENCHES[name].run(options)
        except RuntimeError as error:
            print(f"benchmarks: {name} failed: {error}", file=sys.stderr)
            failed.append(name)
            continue
        samples, facts = result if isinstance(result, tuple) else (result, {})
        print("\n" + report.write(options.results, BENCHES[name], samples, facts, host))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
