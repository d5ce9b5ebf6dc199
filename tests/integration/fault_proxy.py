"""A proxy in front of an S3 server that fails like networks and stores do, by count and not by chance, so that a run
can be repeated. Each PUT of a path that it has not seen is cut off after a part of its body, a different part each
time. Every 7th request is answered 503 SlowDown, every 11th is reset without an answer, and every 13th is carried out
with its answer cut off in the middle. Paths that contain `silent_about` get no answer at all once it is set."""
import http.client
import http.server
import socketserver
import struct
import socket
import threading
import urllib.parse

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
CUTS = 8  # the body is cut after 0/8, 1/8, … 7/8 of it, and once before its last byte


class FaultProxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, server_url):
        super().__init__(("127.0.0.1", 0), Handler)
        self.server_at = urllib.parse.urlsplit(server_url).netloc
        self.lock = threading.Lock()
        self.requests = 0
        self.seen = set()
        self.silent_about = None
        self.closing = threading.Event()
        self.faults = {"cut": 0, "503": 0, "reset": 0, "answer": 0}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def shutdown(self):
        self.closing.set()
        super().shutdown()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def plan(self, method, path, length):
        """Returns (fault, bytes of the body that are read first)."""
        if self.silent_about is not None and self.silent_about in path:
            return "silence", length
        with self.lock:
            self.requests += 1
            number, fault, read = self.requests, None, length
            key = (path.partition("?")[0], "partNumber" in path and path)
            if method == "PUT" and length > 0 and key not in self.seen:
                self.seen.add(key)
                step = len(self.seen) % (CUTS + 1)
                fault, read = "cut", length - 1 if step == CUTS else length * step // CUTS
            elif number % 7 == 0:
                fault = "503"
            elif number % 11 == 0:
                fault = "reset"
            elif number % 13 == 0:
                fault = "answer"
            if fault:
                self.faults[fault] += 1
            return fault, read

    def handle_error(self, request, client_address):
        pass  # the connection ended; what matters is how the job reacts


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def answer(self, status, headers, body, sent=None):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), None)
        self.send_header("content-length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])

    def do(self):
        length = int(self.headers.get("content-length", 0))
        fault, read = self.server.plan(self.command, self.path, length)
        body = self.rfile.read(read)
        if fault == "silence":
            self.server.closing.wait(120)
        if fault in ("cut", "reset", "silence"):
            return self.reset()
        if fault == "503":
            return self.answer(503, [("content-type", "application/xml")], SLOW_DOWN)
        upstream = http.client.HTTPConnection(self.server.server_at, timeout=60)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.endheaders(body)
        response = upstream.getresponse()
        received = response.read()
        upstream.close()
        if fault == "answer" and received:
            self.answer(response.status, response.getheaders(), received, sent=len(received) // 2)
            return self.reset()
        if fault == "answer":
            return self.reset()
        self.answer(response.status, response.getheaders(), received)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do
