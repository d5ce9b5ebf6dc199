#!/usr/bin/env python3
"""Runs a command in a terminal of its own and draws what it showed as an SVG that plays it again: each line from when to
when it was to be seen. Where nothing plays, the end is shown.

  benchmarks/terminal.py OUT.svg [--columns 100] [--kill RANK AT] -- COMMAND…

--kill sends SIGKILL to a rank of a job as soon as the screen shows the text AT, as an out-of-memory kill would.
SPDX-License-Identifier: Apache-2.0"""
import argparse
import fcntl
import html
import os
import pathlib
import pty
import re
import signal
import struct
import termios
import time

ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
INK, GROUND, DIM = "#e6edf3", "#0d1117", "#7d8590"
LINE, CHARACTER, FRAME = 18, 8.43, 0.12  # height and width in pixels; seconds between two looks at the screen
SPACE, NO_BREAK = " ", "\u00a0"  # a row of spaces would be shown as one


class Screen:
    """Enough of a terminal for a bar that is redrawn: carriage return, line feed, erasing to the end of the line, wrapping."""
    def __init__(self, columns):
        self.columns, self.lines, self.column = columns, [""], 0

    def write(self, text):
        at = 0
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                if escape[2] == "K":
                    self.lines[-1] = self.lines[-1][:self.column]
                at = escape.end()
                continue
            character = text[at]
            at += 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.lines.append("")
                self.column = 0
            elif character >= " ":
                if self.column == self.columns:
                    self.lines.append("")
                    self.column = 0
                line = self.lines[-1].ljust(self.column)
                self.lines[-1] = line[:self.column] + character + line[self.column + 1:]
                self.column += 1


def kill(rank, under):
    """Kills the process with RANK among the descendants of `under`."""
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    for process in parents:
        above = process
        while above in parents and above != under:
            above = parents[above]
        try:
            wanted = f"RANK={rank}".encode() in (pathlib.Path("/proc") / str(process) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if above == under and wanted:
            os.kill(process, signal.SIGKILL)
            return


def record(command, columns, victim):
    """Returns the frames, (seconds, lines), and how long it took."""
    child, master = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    os.set_blocking(master, False)
    screen, frames, began, rest = Screen(columns), [], time.monotonic(), b""
    while True:
        time.sleep(FRAME)
        try:
            rest += os.read(master, 1 << 20)
        except BlockingIOError:
            continue
        except OSError:  # it has ended
            break
        text = rest.decode(errors="ignore")
        rest = b""
        screen.write(text)
        frames.append((time.monotonic() - began, list(screen.lines)))
        if victim and victim[1] in text:
            kill(victim[0], child)
            victim = None
    os.waitpid(child, 0)
    return frames, time.monotonic() - began


def spans(frames, end):
    """Returns (row, text, from, to) of everything that was to be seen."""
    shown, found = {}, []
    for at, lines in frames:
        for row, text in enumerate(lines):
            if row in shown and shown[row][0] == text:
                continue
            if row in shown and shown[row][0]:
                found.append((row, *shown[row], at))
            shown[row] = (text, at)
    return found + [(row, text, at, end) for row, (text, at) in shown.items() if text]


def draw(frames, end, command, columns):
    pause = end + 4  # before it plays again
    rows = max(len(lines) for _, lines in frames)
    width, height = columns * CHARACTER + 24, (rows + 1) * LINE + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
             f'font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="14">',
             f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>',
             f'<text x="12" y="24" fill="{DIM}">$ {html.escape(" ".join(command))}</text>']
    for row, text, begin, until in spans(frames, end):
        last = until >= end
        times = f"0;{begin / pause:.4f}" + ("" if last else f";{until / pause:.4f}")
        parts.append(f'<text x="12" y="{24 + LINE * (row + 1)}" fill="{INK}" visibility="{"visible" if last else "hidden"}">'
                     f'{html.escape(text).replace(SPACE, NO_BREAK)}<animate attributeName="visibility" values="hidden;visible{"" if last else ";hidden"}" '
                     f'keyTimes="{times}" calcMode="discrete" dur="{pause:.2f}s" repeatCount="indefinite"/></text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--kill", nargs=2, metavar=("RANK", "AT"))
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    frames, end = record(arguments.command, arguments.columns, arguments.kill)
    arguments.out.write_text(draw(frames, end, [pathlib.Path(arguments.command[0]).name, *arguments.command[1:]], arguments.columns))


if __name__ == "__main__":
    main()
