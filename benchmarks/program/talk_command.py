"""A program that talks with its model: ``python talk_command.py TURNS MAX_TOKENS``. Standard library only."""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit


def main() -> None:
    """Sends the whole conversation with each call."""
    turns, max_tokens = int(sys.argv[1]), int(sys.argv[2])
    attempt = json.load(sys.stdin)
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    assert url.hostname is not None
    connection = http.client.HTTPConnection(url.hostname, url.port)
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    messages = [{"role": "user", "content": attempt["task"]}]
    for turn in range(turns):
        body = {"model": "m", "messages": messages, "max_tokens": max_tokens}
        connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), headers)
        answer = json.loads(connection.getresponse().read())["choices"][0]["message"]
        messages += [answer, {"role": "user", "content": f"Go on with part {turn + 1}, and say what follows."}]
    connection.close()


if __name__ == "__main__":
    main()
