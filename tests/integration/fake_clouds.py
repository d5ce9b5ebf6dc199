"""Imitates the metadata services of AWS, GCP and Azure, as far as preemption is concerned, on a port of this machine.

Each answers as documented for the real one: the token of IMDSv2 and its headers, Metadata-Flavor, Azure's Metadata
header. A request without them is rejected. `announce()` makes the notice appear."""
import http.server
import json
import threading
import time


class Cloud:
    def __init__(self):
        self.announced = False
        self.refused, self.acknowledged, self.asked = [], [], 0
        cloud = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length).decode()
                cloud.asked += 1
                code, text = cloud.reply(self.command, self.path, self.headers, body)
                if code in (400, 401, 403):
                    cloud.refused.append(f"{self.command} {self.path} {code}")
                data = text.encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            do_GET = do_PUT = do_POST = answer

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def announce(self):
        self.announced = True

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def later(seconds, form):
    return time.strftime(form, time.gmtime(time.time() + seconds))


class Aws(Cloud):
    TOKEN = "AQAEAFake=="

    def reply(self, method, path, headers, body):
        if path == "/latest/api/token":
            seconds = headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            return (200, self.TOKEN) if method == "PUT" and seconds.isdigit() and 1 <= int(seconds) <= 21600 else (
                400, "")
        if headers.get("X-aws-ec2-metadata-token") != self.TOKEN:
            return 401, ""
        if path == "/latest/meta-data/spot/instance-action" and self.announced:
            return 200, json.dumps({"action": "terminate", "time": later(120, "%Y-%m-%dT%H:%M:%SZ")})
        return 404, "<html>404 - Not Found</html>"


class AwsRebalance(Aws):
    def reply(self, method, path, headers, body):
        if path == "/latest/meta-data/events/recommendations/rebalance" and self.announced and headers.get(
                "X-aws-ec2-metadata-token") == self.TOKEN:
            return 200, json.dumps({"noticeTime": later(0, "%Y-%m-%dT%H:%M:%SZ")})
        self_announced, self.announced = self.announced, False
        try:
            return super().reply(method, path, headers, body)
        finally:
            self.announced = self_announced


class Gcp(Cloud):
    def reply(self, method, path, headers, body):
        if headers.get("Metadata-Flavor") != "Google":
            return 403, ""
        if path == "/computeMetadata/v1/instance/preempted":
            return 200, "TRUE" if self.announced else "FALSE"
        if path == "/computeMetadata/v1/instance/maintenance-event":
            return 200, "NONE"
        return 404, ""


class GcpMaintenance(Gcp):
    def reply(self, method, path, headers, body):
        if path.endswith("/maintenance-event") and headers.get("Metadata-Flavor") == "Google":
            return 200, "TERMINATE_ON_HOST_MAINTENANCE" if self.announced else "MIGRATE_ON_HOST_MAINTENANCE"
        code, text = super().reply(method, path, headers, body)
        return code, "FALSE" if path.endswith("/preempted") else text


class Azure(Cloud):
    def reply(self, method, path, headers, body):
        if headers.get("Metadata") != "true":
            return 400, ""
        if path.startswith("/metadata/instance/compute/name?api-version=") and path.endswith("&format=text"):
            return 200, "worker_1"
        if path != "/metadata/scheduledevents?api-version=2020-07-01":
            return 404, ""
        if method == "POST":
            self.acknowledged += [r["EventId"] for r in json.loads(body)["StartRequests"]]
            return 200, ""
        event = {"EventId": "602d9444", "EventStatus": "Scheduled", "EventType": "Preempt",
                 "ResourceType": "VirtualMachine",
                 "NotBefore": later(30, "%a, %d %b %Y %H:%M:%S GMT"), "EventSource": "Platform",
                 "DurationInSeconds": -1}
        events = [dict(event, Resources=["worker_0"], EventId="of another machine")]
        if self.announced:
            events.append(dict(event, Resources=["worker_1"]))
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": events})
