"""Programs in trouble: ``python trouble.py BEHAVIOUR``. Standard library only."""

import http.client
import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

_SLEEP = "import time; time.sleep(600)"


def call(path: str, body: object) -> int:
    """The status of a call of the attempt's server; 0 = nobody answers."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    assert url.hostname is not None
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    try:
        connection.request("POST", f"/v1{path}", json.dumps(body), headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def ask() -> int:
    """The status of a completion."""
    return call(
        "/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 4}
    )


def main(behaviour: str) -> None:
    """Behaves so; a refusal that it must get is asserted."""
    match behaviour:
        case "answers":
            assert ask() == 200
            sys.stdout.write("user.refuse")
        case "exits at once":
            sys.exit(3)
        case "is killed":
            assert ask() == 200
            os.kill(os.getpid(), 9)
        case "hangs":
            assert ask() == 200
            time.sleep(600)
        case "forks":
            assert ask() == 200
            for is_daemon in (False, True):  # one in its process group, one in a session of its own
                subprocess.Popen([sys.executable, "-S", "-c", _SLEEP], start_new_session=is_daemon)
        case "prints for ever":
            while True:
                sys.stdout.write("more and more\n" * 1_000)
        case "calls after its end":
            assert call("/episodes/any/finish", {"answer": "user.refuse"}) == 200
            while ask() in (0, 409):  # it is ended while it tries
                time.sleep(0.01)
            sys.exit(1)
        case "leaves a call":
            url = urlsplit(os.environ["OPENAI_BASE_URL"])
            assert url.hostname is not None
            connection = http.client.HTTPConnection(url.hostname, url.port)
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 400}
            headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        case _:
            raise ValueError(behaviour)


if __name__ == "__main__":
    main(sys.argv[1])
