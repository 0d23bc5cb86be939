#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: notify.py slack|pagerduty|slurm|kubernetes [--send]

Passes an event of ncclspy on to those who want to know. The event is a line of events.jsonl on standard
input. Without --send it prints what it would send, and to whom, and sends nothing:

    tail -n 1 /shared/ncclspy/8123/events.jsonl | ./notify.py slack
    NCCLSPY_ON_EVENT='/shared/ncclspy/notify.py slack --send' in the environment of the job

slack       a message, to the incoming webhook whose address is the file $SLACK_WEBHOOK_FILE (or in $SLACK_WEBHOOK)
pagerduty   an alert, resolved when the event is over; the key is in $PAGERDUTY_KEY_FILE (or in $PAGERDUTY_KEY)
slurm       the comment of job $SLURM_JOB_ID, which squeue and sacct show: its owner may change it
kubernetes  an Event of pod $POD_NAME in $POD_NAMESPACE: its service account must be allowed to create events

Addresses and keys are never printed. Exit status: 0 sent or printed, 1 not delivered, 2 usage or no event."""
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT_S = 15
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"


class Refused(Exception):
    """What cannot be sent, and why, for a person to read."""


def secret(name):
    path = os.environ.get(name + "_FILE")
    if path:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    if os.environ.get(name):
        return os.environ[name]
    raise Refused(f"neither {name}_FILE nor {name} is set")


def over(event):
    return event.get("event") == "end"


def who(event):
    named = [f"rank {c.get('rank')}" + (f" on {c['node']}" if c.get("node") else "")
             for c in event.get("culprits", [])]
    return ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")


def sentence(event):
    """One line, as long as any receiver takes."""
    head = f"job {event.get('job', '?')}: {'over' if over(event) else event.get('priority', '')} {event.get('id', '?')}"
    rest = [event.get("summary", ""), event.get("verdict", "")]
    if who(event) and who(event) not in " ".join(rest):
        rest.append("culprit: " + who(event))
    return ". ".join([head] + [part for part in rest if part])[:1000]


def post(url, document, send, shown):
    body = json.dumps(document)
    if not send:
        print(f"POST {shown}\n{json.dumps(document, indent=2)}")
        return
    try:
        request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT_S):
            pass
    except urllib.error.HTTPError as error:
        raise Refused(f"{shown} answered {error.code}") from None
    except (OSError, ValueError):
        # The error's own text may hold the address, which is a secret.
        raise Refused(f"{shown} was not reached") from None


def run(command, send, text=None):
    if not send:
        print(" ".join(command) + (f" <<'END'\n{text}\nEND" if text else ""))
        return
    try:
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{command[0]}: {error}") from None
    if done.returncode:
        raise Refused(f"{command[0]}: {done.stderr.strip()[:300] or 'exit status %d' % done.returncode}")


def slack(event, send):
    # Slack's own markup: text in angle brackets would be a link or a mention.
    text = sentence(event).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    url = secret("SLACK_WEBHOOK") if send else ""
    post(url, {"text": text}, send, "the webhook of Slack")


def pagerduty(event, send):
    document = {
        "routing_key": secret("PAGERDUTY_KEY") if send else "(the key)",
        "event_action": "resolve" if over(event) else "trigger",
        "dedup_key": f"ncclspy/{event.get('job', '?')}/{event.get('id', '?')}"[:255],
        "payload": {
            "summary": sentence(event),
            "source": event.get("node") or "?",
            "severity": {"P0": "critical", "P1": "error", "P2": "warning"}.get(event.get("priority"), "info"),
            "component": "ncclspy",
            "custom_details": event,
        },
    }
    post(os.environ.get("PAGERDUTY_URL", PAGERDUTY), document, send, "PagerDuty")


def slurm(event, send):
    job = os.environ.get("SLURM_JOB_ID", "")
    if not re.fullmatch(r"\d+(_\d+)?", job):
        raise Refused("SLURM_JOB_ID is not set: this is no job of Slurm")
    run(["scontrol", "update", f"JobId={job}", "Comment=" + re.sub(r"[\s\"']+", " ", "ncclspy: " + sentence(event))],
        send)


def kubernetes(event, send):
    pod, space = os.environ.get("POD_NAME"), os.environ.get("POD_NAMESPACE")
    if not pod or not space:
        raise Refused("POD_NAME and POD_NAMESPACE are not set (downward API)")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run(["kubectl", "create", "-f", "-"], send, json.dumps({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": "ncclspy-", "namespace": space},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": space},
        "reason": "".join(word.capitalize() for word in event.get("id", "?").split("_")),
        "message": sentence(event),
        "type": "Normal" if over(event) else "Warning",
        "source": {"component": "ncclspy"},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    }, indent=1))


RECEIVERS = {f.__name__: f for f in (slack, pagerduty, slurm, kubernetes)}


def main(arguments):
    send = "--send" in arguments
    names = [a for a in arguments if a != "--send"]
    if "--help" in names:
        print(__doc__)
        return 0
    if len(names) != 1 or names[0] not in RECEIVERS:
        print(__doc__.partition("\n")[0], file=sys.stderr)
        return 2
    try:
        event = json.loads(sys.stdin.readline())
        if not isinstance(event, dict):
            raise ValueError("no object")
    except ValueError as error:
        print(f"notify.py: standard input holds no event: {error}", file=sys.stderr)
        return 2
    try:
        RECEIVERS[names[0]](event, send)
    except (Refused, OSError) as error:
        print(f"notify.py: {names[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
