"""A `slabsvm explore` in a process of its own."""

import json
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection

MOST_SECONDS = 60
COMMAND = "from slabsvm.command.start import main; main()"


class Served:
    """The process, which has said where its page is; arguments are the command's, or those of another program."""

    def __init__(self, *arguments: str, program: str = COMMAND) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", program, "explore", "--no-browser", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.process.stdout.readline())
        assert found is not None, self.process.communicate()[1]
        self.port = int(found[1])
        self.address = found[0]

    def ask(
        self, method: str, path: str, content: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Return an answer's status, headers and body; headers of the question have _ for -."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=MOST_SECONDS)
        sent = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        connection.putrequest(method, path, skip_host=True)
        if content is not None:
            sent = {"Content-Type": "application/json", "Content-Length": str(len(content)), **sent}
        for name, text in sent.items():
            connection.putheader(name, text)
        connection.endheaders(content)
        answer = connection.getresponse()
        found = (answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return found

    def answered(self, content: bytes, **headers: str) -> tuple[int, dict]:
        """Return the status and the JSON of the answer to a question."""
        status, _, text = self.ask("POST", "/answer", content, **headers)
        return status, json.loads(text)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; return the exit status, and what was written on both streams after the address."""
        self.process.send_signal(number)
        said, errors = self.process.communicate(timeout=MOST_SECONDS)
        return self.process.returncode, said, errors
