"""One request to the back end, for replays: prints the status, `retry-after` if there is one, and the body.

    call.py SOCKET METHOD PATH [TEXT]
"""

import sys

import httpx

socket, method, path, *text = sys.argv[1:]
with httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://api", timeout=60) as client:
    answer = client.request(method, path, json={"text": text[0]} if text else None)
print(answer.status_code, answer.headers.get("retry-after", "-"), answer.text)
