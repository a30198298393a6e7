"""HTTP and JSON over a Unix socket, with nothing but the standard library."""

import http.client
import json
import socket
import time


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def call(path, method, route, body=None, key=None):
    """Status and body of the answer. Asks until there is one: with a key or a nonce, asking again is safe."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    while True:
        connection = UnixConnection(path)
        try:
            connection.request(method, route, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)
        finally:
            connection.close()
