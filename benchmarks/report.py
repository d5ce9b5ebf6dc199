"""Writes the results of a bench as JSON (every sample) and as a Markdown table (median, spread, ratio).
SPDX-License-Identifier: Apache-2.0
"""

import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess

import programs


def machine():
    model = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=programs.REPOSITORY, capture_output=True,
                            text=True, check=False).stdout.strip()
    return {"cpu": model[0] if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "load_before": os.getloadavg()[0], "commit": commit,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


def summarise(samples):
    """Returns {name: {"median", "low", "high", "count"}}; a name without samples is left out."""
    return {name: {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}
            for name, values in samples.items() if values}


def table(summary, unit, reference):
    base = summary.get(reference, {}).get("median")
    lines = [f"| program | median {unit} | lowest | highest | runs | {reference} / it |", "|---|---|---|---|---|---|"]
    for name, row in summary.items():
        ratio = f"{base / row['median']:.2f}" if base else "-"
        figures = " | ".join(f"{row[key]:.3f}" for key in ("median", "low", "high"))
        lines.append(f"| {name} | {figures} | {row['count']} | {ratio} |")
    return "\n".join(lines)


def write(folder, bench, samples, facts, host):
    """Writes <folder>/<NAME>.json and .md, and returns the Markdown."""
    summary = summarise(samples)
    content = {"bench": bench.NAME, "unit": bench.UNIT, "machine": host, "summary": summary, "facts": facts,
               "samples": samples}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{bench.NAME}.json").write_text(json.dumps(content, indent=1) + "\n")
    text = [f"# {bench.TITLE}", "", f"{host['date']}, commit {host['commit']}, {host['cores']} x {host['cpu']}, load "
            f"{host['load_before']:.1f} before the run. Made by `benchmarks/run_all.py --only {bench.NAME}`.", "",
            bench.table(summary) if hasattr(bench, "table") else table(summary, bench.UNIT, bench.REFERENCE)]
    if facts:
        text += [""] + [f"- {name}: {json.dumps(value)}" for name, value in facts.items()]
    markdown = "\n".join(text) + "\n"
    page = folder / f"{bench.NAME}.md"
    kept = getattr(bench, "KEPT_CHAPTER", None)  # written by another driver
    chapter = re.search(rf"^{kept}$.*", page.read_text(), re.S | re.M) if kept and page.exists() else None
    page.write_text(markdown + (f"\n{chapter[0]}" if chapter else ""))
    return markdown
