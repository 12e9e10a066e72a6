"""Chromium without a window, driven by its DevTools protocol over a pipe. Standard library only."""

import json
import os
import shutil
import subprocess
import tempfile
import time

CANDIDATES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def find():
    """The program, or None."""
    named = os.environ.get("QSF_CHROMIUM")
    return named or next((found for name in CANDIDATES if (found := shutil.which(name))), None)


class Chromium:
    """A browser that ends with the `with` block."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="qsf-chromium-")
        from_us, self.to = os.pipe()
        self.back, from_it = os.pipe()

        def pipes():
            # Numbers 3 and 4 are what --remote-debugging-pipe reads and writes. Copies first: they may be in use here.
            reads, writes = os.dup(from_us), os.dup(from_it)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            # Its sandbox needs a user that is not root.
            flags.append("--no-sandbox")
        self.process = subprocess.Popen(
            [program, *flags, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(from_it)
        self.number, self.pending = 0, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.pending:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.pending += more
        line, self.pending = self.pending.split(b"\0", 1)
        return json.loads(line)

    def page(self, address):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        page.go(address)
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def go(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def value(self, expression):
        """What JavaScript makes of an expression."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=120):
        """Waits until an expression is true, and gives its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.value(expression):
                return value
            time.sleep(0.02)
        raise RuntimeError(f"not true after {seconds} s: {expression}")

    def text(self, element):
        return self.value(f"document.getElementById({json.dumps(element)}).textContent")

    def choose_file(self, element, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=f"#{element}")["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
