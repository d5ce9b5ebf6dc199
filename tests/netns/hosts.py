"""Network namespaces as hosts. Each has a network card (a TAP device) whose cable ends at a switch in this process, so
that a test can cut a cable in one direction or both, or slow it down, without any packet that reveals it.

Needs root, `ip` and /dev/net/tun; `why_not()` reports what is missing. The machine's own network is not touched, no
kernel module for traffic shaping is needed, and everything is gone at the end, including the processes. Linux, Python's
standard library only.
SPDX-License-Identifier: Apache-2.0"""
import collections
import fcntl
import heapq
import itertools
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import threading
import time
import uuid


def sh(*words, check=True):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def why_not():
    """Returns why this machine cannot simulate several hosts, "" when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "`ip` is missing (Debian: iproute2)"
    probe = f"composer-probe-{os.getpid()}"
    if sh("ip", "netns", "add", probe, check=False).returncode != 0:
        return "`ip netns add` is not permitted here"
    sh("ip", "netns", "delete", probe, check=False)
    try:
        os.close(open_tap(f"cprobe{os.getpid() % 100000}"))
    except OSError as error:
        return f"/dev/net/tun cannot be used here: {error.strerror}"
    return ""


def open_tap(name):
    """Creates an Ethernet device of that name in this namespace; it lasts as long as the descriptor."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    except OSError:
        os.close(fd)
        raise
    return fd


def tcp_ports(frame):
    """Returns source and destination of a TCP segment over IPv4, nothing for other frames."""
    if len(frame) < 38 or frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return ()
    return struct.unpack_from("!HH", frame, 14 + 4 * (frame[14] & 15))


class Cable:
    """What the switch does with the frames of one host."""

    def __init__(self, fd):
        self.fd = fd
        self.passes_in = self.passes_out = True  # to the host, from the host
        self.blocked_port = None                 # frames of this TCP port are dropped, either way; the others pass
        self.delay_s = 0.0                       # each way
        self.bytes_per_s = None                  # each way; None means unlimited
        self.free_at = {"in": 0.0, "out": 0.0}   # when the last frame will be through


class Switch(threading.Thread):
    """Learns which host has which address and forwards frames, with one thread for all cables."""

    def __init__(self):
        super().__init__(daemon=True)
        self.cables, self.where, self.waiting = [], {}, []
        self.poll = select.poll()
        self.wake_read, self.wake_write = os.pipe()
        self.poll.register(self.wake_read, select.POLLIN)
        self.stopping = False

    def plug(self, cable):
        self.cables.append(cable)
        self.poll.register(cable.fd, select.POLLIN)
        os.write(self.wake_write, b"x")

    def stop(self):
        self.stopping = True
        os.write(self.wake_write, b"x")
        self.join()
        for fd in (self.wake_read, self.wake_write, *[c.fd for c in self.cables]):
            os.close(fd)

    def run(self):
        order = itertools.count()
        while not self.stopping:
            wait = max(0.0, self.waiting[0][0] - time.monotonic()) * 1000 if self.waiting else None
            for fd, _ in self.poll.poll(wait):
                if fd == self.wake_read:
                    os.read(fd, 4096)
                    continue
                source = next(c for c in self.cables if c.fd == fd)
                for frame in self.frames(fd):
                    self.forward(source, frame, order)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, cable, frame = heapq.heappop(self.waiting)
                self.deliver(cable, frame)

    @staticmethod
    def frames(fd):
        for _ in range(64):
            try:
                yield os.read(fd, 65536)
            except (BlockingIOError, OSError):
                return

    def forward(self, source, frame, order):
        to, sender = frame[:6], frame[6:12]
        self.where[sender] = source
        if not source.passes_out or source.blocked_port in tcp_ports(frame):
            return
        known = self.where.get(to)
        for cable in ([known] if known else [c for c in self.cables if c is not source]):
            due = self.through(cable, "in", self.through(source, "out", time.monotonic(), frame), frame)
            if due <= time.monotonic():
                self.deliver(cable, frame)
            else:
                heapq.heappush(self.waiting, (due, next(order), cable, frame))

    @staticmethod
    def through(cable, way, now, frame):
        """Returns when a frame that enters the cable at `now` comes out at its other end."""
        begin = max(now, cable.free_at[way])
        cable.free_at[way] = begin + (len(frame) / cable.bytes_per_s if cable.bytes_per_s else 0.0)
        return cable.free_at[way] + cable.delay_s

    @staticmethod
    def deliver(cable, frame):
        if cable.passes_in and cable.blocked_port not in tcp_ports(frame):
            try:
                os.write(cable.fd, frame)
            except OSError:
                pass  # its queue is full: the frame is lost, as on any network


class Process:
    """A program on a host. Every line that it prints is kept with its arrival time."""

    started = []  # waited for when the network is shut down

    def __init__(self, namespace, argv, **options):
        Process.started.append(self)
        self.popen = subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, argv)], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL, text=True, start_new_session=True, errors="replace",
                                      **options)
        self.lines = collections.deque()  # (time.monotonic(), text)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.popen.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
        self.popen.stdout.close()

    def said(self, text, since=0.0):
        """Returns when a line with `text` first came after `since`, or None when it did not."""
        return next((at for at, line in list(self.lines) if at >= since and text in line), None)

    def text(self):
        return "\n".join(f"{at:.3f} {line}" for at, line in list(self.lines))

    def exit_code(self, timeout):
        """Returns the exit code, once the process has ended and all its output was read, or None."""
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return code


class Host:
    def __init__(self, network, number):
        self.name = f"{network.name}-{number}"
        self.address = f"10.77.0.{number + 1}"
        sh("ip", "netns", "add", self.name)
        device = f"c{os.getpid() % 100000}n{number}"
        self.cable = Cable(open_tap(device))
        sh("ip", "link", "set", device, "netns", self.name, "name", "eth0")
        sh("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        sh("ip", "-n", self.name, "link", "set", "lo", "up")
        sh("ip", "-n", self.name, "link", "set", "eth0", "up")
        network.switch.plug(self.cable)

    def run(self, argv, **options):
        return Process(self.name, argv, **options)

    def pids(self):
        return [int(pid) for pid in sh("ip", "netns", "pids", self.name, check=False).stdout.split()]

    def pid_of(self, name):
        """Returns the pid of the process whose comm is `name`, or None."""
        for pid in self.pids():
            try:
                if (pathlib.Path("/proc") / str(pid) / "comm").read_text().strip() == name:
                    return pid
            except OSError:
                pass
        return None

    def signal_all(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def cut(self, incoming=True, outgoing=True):
        """Cuts silently, like a broken cable or a dead switch: no packet passes, and nobody is notified."""
        if incoming:
            self.cable.passes_in = False
        if outgoing:
            self.cable.passes_out = False

    def block(self, port):
        """Blocks one TCP port silently; the rest of the network works."""
        self.cable.blocked_port = port

    def mend(self):
        self.cable.passes_in = self.cable.passes_out = True
        self.cable.blocked_port = None

    def slow(self, delay_s, bytes_per_s):
        """Slows both directions."""
        self.cable.delay_s, self.cable.bytes_per_s = delay_s, bytes_per_s

    def power_off(self):
        """Cuts the power without a farewell: the cable goes first, so that the kernel's FIN and RST reach nobody."""
        self.cut()
        self.signal_all(signal.SIGKILL)

    def freeze(self):
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        self.signal_all(signal.SIGCONT)


class Network:
    """Use as `with Network(2) as hosts: ...`."""

    def __init__(self, count):
        self.name = f"composer-{os.getpid()}-{uuid.uuid4().hex[:4]}"
        self.count = count
        self.hosts = []
        self.switch = Switch()

    def __enter__(self):
        self.switch.start()
        try:
            for number in range(self.count):
                self.hosts.append(Host(self, number))
        except BaseException:
            self.__exit__()
            raise
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            for _ in range(100):
                pids = host.pids()
                if not pids:
                    break
                host.signal_all(signal.SIGKILL)
                time.sleep(0.02)
        self.switch.stop()
        for process in Process.started:
            process.popen.wait()
        Process.started.clear()
        for host in self.hosts:
            sh("ip", "netns", "delete", host.name, check=False)
