# SPDX-License-Identifier: MIT
"""A headless Chromium, spoken to over pipes in its DevTools protocol; and the pictures that it takes.

Chromium().evaluate("1 + 1") is 2. find_chromium() is None where there is none.
"""
import base64
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zlib

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium():
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One page of a browser of its own; end with close()."""

    def __init__(self, command):
        self.folder = tempfile.mkdtemp()
        there, self.out = os.pipe()
        self.back, here = os.pipe()

        def as_3_and_4():
            low, high = os.dup(there), os.dup(here)
            os.dup2(low, 3)
            os.dup2(high, 4)

        # No sandbox: it runs pages that were just made, often as root in a container.
        self.process = subprocess.Popen(
            [command, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
             "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=as_3_and_4)
        os.close(there)
        os.close(here)
        self.number, self.session, self.rest, self.events = 0, None, b"", []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        self.call("Page.enable")

    def read(self):
        while b"\0" not in self.rest:
            data = os.read(self.back, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer.get("method"))

    def shape(self, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address):
        """Another page than the one that is there: a change of the part behind '#' loads nothing."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.read().get("method"))

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, clip=None):
        """Of the whole page, or of (x, y, width, height) of it."""
        more = {} if clip is None else {"clip": dict(zip(("x", "y", "width", "height"), clip), scale=1)}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **more)["data"]
        return Picture(base64.b64decode(data))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)


class Picture:
    """at(x, y) is the (red, green, blue) of a pixel of a PNG as browsers write them."""

    def __init__(self, png):
        self.png, at, data = png, 8, b""
        while at < len(png):
            length, kind = struct.unpack(">I4s", png[at:at + 8])
            if kind == b"IHDR":
                self.width, self.height, depth, colours = struct.unpack(">IIBB", png[at + 8:at + 18])
                assert depth == 8 and colours in (2, 6), "8 bits of red, green and blue"
                self.bytes = 3 if colours == 2 else 4
            elif kind == b"IDAT":
                data += png[at + 8:at + 8 + length]
            at += length + 12
        self.rows = self._rows(zlib.decompress(data))

    def _rows(self, data):
        n, step, rows = self.width * self.bytes, self.bytes, []
        above = bytes(n)
        for y in range(self.height):
            kind, row = data[y * (n + 1)], bytearray(data[y * (n + 1) + 1:(y + 1) * (n + 1)])
            if kind == 1:
                for i in range(step, n):
                    row[i] = row[i] + row[i - step] & 255
            elif kind == 2:
                for i in range(n):
                    row[i] = row[i] + above[i] & 255
            elif kind == 3:
                for i in range(n):
                    row[i] = row[i] + ((row[i - step] if i >= step else 0) + above[i]) // 2 & 255
            elif kind == 4:
                for i in range(n):
                    a, b, c = (row[i - step], above[i], above[i - step]) if i >= step else (0, above[i], 0)
                    p, q, r = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                    row[i] = row[i] + (a if p <= q and p <= r else b if q <= r else c) & 255
            rows.append(bytes(row))
            above = row
        return rows

    def at(self, x, y):
        return tuple(self.rows[y][x * self.bytes:x * self.bytes + 3])
