# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over a pipe (DevTools protocol, --remote-debugging-pipe)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """The browser's path, or None."""
    for name in (os.environ.get("NSPY_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """One browser with one page. Everything that a page says or asks the network for is kept."""

    def __init__(self, path):
        self.home = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()

        def wire():  # the protocol's ends are descriptors 3 and 4
            low, high = os.dup(to_read), os.dup(to_write)
            os.dup2(low, 3)
            os.dup2(high, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={self.home.name}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.buffer, self.session = 0, b"", None
        self.errors, self.dialogs, self.requests = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.home.name, ignore_errors=True)

    def read(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.back, 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def take(self, message):
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(given["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.errors.append(json.dumps(given["args"])[:500])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(given["message"])
            self.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **params):
        number, deadline = self.send(method, **params), time.monotonic() + 60
        while True:
            message = self.read(deadline)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.take(message)

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:600]}")
        return result["result"].get("value")

    def open(self, path, scripts=True):
        """Opens a file; seconds until the page was ready and, with scripts, had been painted."""
        ready = "document.documentElement.dataset.ready === 'yes'" if scripts else "true"
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + str(path))
        while not self.js(f"document.readyState === 'complete' && ({ready})"):
            if time.monotonic() - start > 60:
                raise TimeoutError(f"{path} does not get ready: {self.errors}")
            time.sleep(0.02)
        if scripts:
            self.js("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
        return time.monotonic() - start

    def key(self, name, code=None, text=None):
        given = {"key": name, "code": code or name}
        given["windowsVirtualKeyCode"] = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40,
                                          "ArrowRight": 39}[name]
        if text:
            given["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in given.items()
                                                            if k != "text"})

    def look(self, path, width, height, dark=False, whole=False):
        """A picture of the page in PATH."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.js("new Promise(done => setTimeout(done, 300))")
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(
            {"clip": {"x": 0, "y": 0, "width": width, "height": min(self.js(
                "document.documentElement.scrollHeight"), 12000), "scale": 1}} if whole else {}))
        with open(path, "wb") as out:
            out.write(base64.b64decode(picture["data"]))
