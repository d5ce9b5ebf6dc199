#!/usr/bin/env python3
"""Draws the pictures of docs/pictures as SVG: bars of the time to the first step (docs/results/start.json), the loss of a
run with a killed rank on that of one without, and what happens in the seconds around the kill.

  benchmarks/pictures.py CALM KILLED     two run folders of one job, in the second of which a rank was killed

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import html
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
INK, DIM, LINE, BLUE, AMBER, RED, GREEN = "#24292f", "#6e7781", "#d0d7de", "#3b82c4", "#c98a1b", "#c8453b", "#3a9d5d"


class Picture:
    """Shapes on a white ground; texts are escaped."""

    def __init__(self, width, height, title):
        self.size, self.parts = (width, height), []
        self.text(16, 24, title, size=15, weight="bold")

    def text(self, x, y, words, size=12, colour=INK, anchor="start", weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{html.escape(words)}</text>')

    def box(self, x, y, width, height, colour, opacity=1.0):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="2" fill="{colour}" '
                          f'fill-opacity="{opacity}"/>')

    def line(self, points, colour, width=1.5, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>')

    def write(self, name):
        width, height = self.size
        (ROOT / "docs/pictures" / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def start_bars():
    result = json.loads((ROOT / "docs/results/start.json").read_text())
    names = {"ours": "composer (this)", "torchrun": "torchrun", "python composer": "MosaicML Composer"}
    picture = Picture(640, 150, "Seconds from the command to the first step: a small GPT on 2 ranks")
    most = max(row["median"] for row in result["summary"].values())
    for place, (key, row) in enumerate(result["summary"].items()):
        y, width = 45 + 30 * place, 400 * row["median"] / most
        picture.text(150, y + 14, names.get(key, key), anchor="end")
        picture.box(160, y, width, 20, BLUE if key == "ours" else DIM)
        picture.text(168 + width, y + 14, f"{row['median']:.2f} s")
    picture.text(16, 142, f"docs/results/start.md, {result['machine']['date']}, {result['machine']['cores']} cores", 10, DIM)
    picture.write("start.svg")


def records(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss/train/total" in line]


def loss_curves(calm, killed, kill):
    picture = Picture(640, 300, "A rank is killed; the loss does not show it")
    losses = [line["loss/train/total"] for line in calm]
    low, high, last = min(losses), max(losses), calm[-1]["time/batch"]

    def place(line):
        return 50 + 570 * line["time/batch"] / last, 260 - 210 * (line["loss/train/total"] - low) / (high - low)

    picture.line([(50, 50), (50, 260), (620, 260)], LINE, 1)
    x = 50 + 570 * kill / last
    picture.line([(x, 50), (x, 260)], RED, 1, "4 3")
    picture.text(x + 5, 62, f"kill -9 of rank 1 after step {kill}", 11, RED)
    picture.line([place(line) for line in calm], AMBER, 5)
    picture.line([place(line) for line in killed], BLUE, 1.2)
    same = sum(a["loss/train/total"] == b["loss/train/total"] for a, b in zip(calm, killed))
    picture.text(330, 100, "without the kill", 12, AMBER)
    picture.text(330, 117, "with it", 12, BLUE)
    picture.text(330, 134, f"{same} of {len(calm)} losses are the same bits", 12)
    picture.text(46, 56, f"{high:.2f}", 10, DIM, "end")
    picture.text(46, 260, f"{low:.2f}", 10, DIM, "end")
    picture.text(620, 275, f"step {last}", 10, DIM, "end")
    picture.write("killed.svg")


def failure_line(killed, generations):
    """The time line of the records around the restart: their walls are the ends of the steps."""
    first = next(i for i, line in enumerate(killed) if line["generation"] > 1)
    again, before = killed[first], killed[first - 1]
    end = generations[0]["end_step"]
    lost = end - before["time/batch"]
    step = (before["wall"] - killed[max(0, first - 20)]["wall"]) / min(first, 19)
    died = before["wall"] + lost * step
    back = again["wall"] - died
    picture = Picture(640, 150, "The life of a failure")
    shown = lost * step + 1.5  # seconds before and after
    left, scale = 30, 580 / (shown + back + 1.5)

    def x(seconds):
        return left + (seconds + shown) * scale

    for name, begin, finish, colour in (("kept", -shown, -lost * step, GREEN), ("done again", -lost * step, 0, AMBER),
                                        ("noticed, restarted, loaded", 0, back, RED), ("training again", back, back + 1.5, GREEN)):
        picture.box(x(begin), 55, (finish - begin) * scale, 26, colour, 0.85)
        picture.text((x(begin) + x(finish)) / 2, 100 if colour != AMBER else 48, name, 11, INK, "middle")
    picture.line([(x(0), 40), (x(0), 112)], INK, 1)
    picture.text(x(0), 126, "kill -9", 11, INK, "middle")
    picture.text(x(back), 126, f"first step of the new generation: {back:.2f} s later", 11, INK, "middle")
    picture.text(16, 145, f"From metrics.jsonl of a run of examples/fashion on 2 ranks; {lost} steps since the checkpoint were done again.",
                 10, DIM)
    picture.write("failure.svg")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("calm", type=pathlib.Path)
    parser.add_argument("killed", type=pathlib.Path)
    arguments = parser.parse_args()
    start_bars()
    calm, killed = records(arguments.calm), records(arguments.killed)
    generations = json.loads((arguments.killed / "summary.json").read_text())["generations"]
    loss_curves(calm, killed, generations[0]["end_step"])
    failure_line(killed, generations)


if __name__ == "__main__":
    main()
