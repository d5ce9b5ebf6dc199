"""A page in Debian's Chromium, driven by its DevTools protocol over a WebSocket. Uses only Python's standard library.

SPDX-License-Identifier: Apache-2.0"""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import urllib.request

from harness import wait_until

CHROMIUM = shutil.which("chromium")


class Page:
    """Use as `with Page(url) as page: ...`."""
    def __init__(self, url, size=(1000, 1400)):
        self.folder = tempfile.mkdtemp(prefix="composer-chromium-")
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={self.folder}",
             f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0", "--remote-allow-origins=*", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.calls = 0
        self.socket = None

    def __enter__(self):
        try:
            port = wait_until(self.port, "Chromium's port", timeout=90, pause=0.1)
            target = wait_until(lambda: self.target(port), "a page", timeout=90, pause=0.1)
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
            path = target["webSocketDebuggerUrl"].partition(f":{port}")[2]
            self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.exactly(1)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.socket:
            self.socket.close()
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def port(self):
        path = pathlib.Path(self.folder) / "DevToolsActivePort"
        lines = path.read_text().split() if path.exists() else []
        return int(lines[0]) if len(lines) == 2 else None

    @staticmethod
    def target(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=30) as answer:
            return next((t for t in json.load(answer) if t["type"] == "page" and t["url"].startswith("http")), None)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("Chromium has closed the connection")
            data += part
        return data

    def frame(self):
        """One message of the server's; it sends no fragments here and masks nothing."""
        size = self.exactly(2)[1]
        if size >= 126:
            size = struct.unpack("!H" if size == 126 else "!Q", self.exactly(2 if size == 126 else 8))[0]
        return json.loads(self.exactly(size))

    def call(self, method, **parameters):
        self.calls += 1
        text = json.dumps({"id": self.calls, "method": method, "params": parameters}).encode()
        size = struct.pack("!BB", 0x81, 0x80 | len(text)) if len(text) < 126 else struct.pack("!BBH", 0x81, 0xFE, len(text))
        self.socket.sendall(size + bytes(4) + text)  # a mask of zeros
        while True:
            answer = self.frame()
            if answer.get("id") == self.calls:
                return answer["result"]

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def dom(self):
        return self.evaluate("document.documentElement.outerHTML")

    def dom_when(self, expression, timeout=90):
        """Returns the page as it is as soon as the expression of JavaScript is true."""
        wait_until(lambda: self.evaluate(expression), expression, timeout, pause=0.1)
        return self.dom()

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
