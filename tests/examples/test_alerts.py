# SPDX-License-Identifier: Apache-2.0
"""usage: test_alerts.py EXAMPLES: notify.py sends what it says, to stand-ins of its receivers, and only when told."""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

NOTIFY = sys.argv[1] + "/alerts/notify.py"
EVENT = {
    "time_ns": 1, "event": "finding", "id": "COLLECTIVE_HANG", "priority": "P0", "job": "8123", "node": "node-0",
    "rank": 0, "waited_s": 180, "waiters": 7, "operation": "ncclAllReduce #41", "summary": "7 of 8 ranks wait",
    "verdict": "rank 5 never came <!channel> \"quoted\" it's", "culprits": [{"rank": 5, "pid": 7, "node": "node-1"}],
}
END = {"event": "end", "id": "COLLECTIVE_HANG", "priority": "P0", "job": "8123", "node": "node-0", "summary": "resumed"}
SECRET = "T000-very-secret"


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Alerts(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.server.got, self.server.status = [], 200
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def stand_in(self, name, status=0):
        """A command that keeps its arguments and input."""
        path = f"{self.scratch}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nprintf "%s\\n" "$@" > {path}.args\ncat > {path}.in\necho no >&2\nexit {status}\n')
        os.chmod(path, 0o755)

    def seen(self, name):
        with open(f"{self.scratch}/{name}", encoding="utf-8") as file:
            return file.read()

    def notify(self, *arguments, event=EVENT, status=0, **env):
        text = event if isinstance(event, str) else json.dumps(event) + "\n"
        done = subprocess.run([sys.executable, NOTIFY, *arguments], input=text, text=True, capture_output=True,
                              env=dict({"PATH": f"{self.scratch}:/usr/bin:/bin"}, **env), check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done

    def test_nothing_is_sent_unasked(self):
        for name in ("scontrol", "kubectl"):
            self.stand_in(name)
        env = {"SLACK_WEBHOOK": self.url, "PAGERDUTY_KEY": SECRET, "PAGERDUTY_URL": self.url, "SLURM_JOB_ID": "8123",
               "POD_NAME": "p", "POD_NAMESPACE": "n"}
        for receiver in ("slack", "pagerduty", "slurm", "kubernetes"):
            self.assertIn("rank 5", self.notify(receiver, **env).stdout)
        self.assertEqual(self.server.got, [])
        self.assertEqual([name for name in os.listdir(self.scratch) if "." in name], [])

    def test_slack(self):
        path = self.scratch + "/webhook"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.url + "\n")
        self.notify("slack", "--send", SLACK_WEBHOOK_FILE=path)
        text, = [got["text"] for got in self.server.got]
        self.assertTrue(text.startswith("job 8123: P0 COLLECTIVE_HANG. 7 of 8 ranks wait. rank 5 never came"), text)
        self.assertIn("culprit: rank 5 on node-1", text)
        self.assertIn("&lt;!channel&gt;", text)

    def test_pagerduty_is_resolved(self):
        for event in (EVENT, END):
            self.notify("pagerduty", "--send", event=event, PAGERDUTY_KEY="key", PAGERDUTY_URL=self.url)
        opened, closed = self.server.got
        self.assertEqual([opened["event_action"], closed["event_action"]], ["trigger", "resolve"])
        self.assertEqual(opened["dedup_key"], closed["dedup_key"])
        self.assertEqual((opened["routing_key"], opened["payload"]["severity"]), ("key", "critical"))
        self.assertEqual(opened["payload"]["custom_details"], EVENT)

    def test_slurm(self):
        self.stand_in("scontrol")
        self.notify("slurm", "--send", SLURM_JOB_ID="8123")
        verb, job, comment = self.seen("scontrol.args").splitlines()
        self.assertEqual((verb, job), ("update", "JobId=8123"))
        self.assertTrue(comment.startswith("Comment=ncclspy: job 8123: P0 COLLECTIVE_HANG"), comment)
        self.assertFalse({'"', "'"} & set(comment))

    def test_kubernetes(self):
        self.stand_in("kubectl")
        self.notify("kubernetes", "--send", POD_NAME="train-0", POD_NAMESPACE="ml")
        self.assertEqual(self.seen("kubectl.args").split(), ["create", "-f", "-"])
        event = json.loads(self.seen("kubectl.in"))
        self.assertEqual((event["kind"], event["reason"], event["type"]), ("Event", "CollectiveHang", "Warning"))
        self.assertEqual(event["involvedObject"]["name"], "train-0")
        self.assertLessEqual(len(event["message"]), 1024)

    def test_what_cannot_be_delivered(self):
        """One line that says why, without the secret."""
        self.server.status = 403
        self.stand_in("scontrol", status=1)
        for receiver, why, env in (("slack", "answered 403", {"SLACK_WEBHOOK": self.url}),
                                   ("slack", "not reached", {"SLACK_WEBHOOK": f"http://127.0.0.1:1/{SECRET}"}),
                                   ("slack", "not reached", {"SLACK_WEBHOOK": SECRET}),
                                   ("slack", "neither SLACK_WEBHOOK_FILE", {}),
                                   ("slack", "No such file", {"SLACK_WEBHOOK_FILE": "/nonexistent"}),
                                   ("slurm", "scontrol: no", {"SLURM_JOB_ID": "8123"}),
                                   ("slurm", "no job of Slurm", {"SLURM_JOB_ID": "1 Comment=x"}),
                                   ("kubernetes", "POD_NAME", {}),
                                   ("kubernetes", "kubectl", {"POD_NAME": "p", "POD_NAMESPACE": "n"})):
            done = self.notify(receiver, "--send", status=1, **env)
            self.assertIn(why, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_what_is_no_event(self):
        for text in ("", "garbage\n", "[1]\n", "{\n"):
            self.assertIn("no event", self.notify("slack", event=text, status=2).stderr)
        self.notify("slack", event={}, status=0)
        self.notify("telegraph", status=2)
        self.notify(status=2)

    def test_long_events(self):
        long = dict(EVENT, verdict="x" * 5000, culprits=[{"rank": r, "node": f"n{r}"} for r in range(512)])
        self.notify("slack", "--send", event=long, SLACK_WEBHOOK=self.url)
        self.assertLessEqual(len(self.server.got[0]["text"]), 1000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
