"""A chat platform on a Unix socket, with what bots need of a real one.

GET  /messages         what people said: [{id, chat, text}]; with ?after=N it waits for one behind N
POST /messages         a person says something: {chat, text}
POST /answers          the bot says something: {chat, text, nonce}; a nonce that was used says nothing again, as with
                       Discord's `enforce_nonce` and Matrix' transaction ids
GET  /answers          what the bot said

With --hold FILE an answer is shown, and its sender hears of that only when FILE is gone.
"""

import http.server
import json
import os
import socketserver
import sys
import threading
import time

path = sys.argv[1]
hold = sys.argv[3] if sys.argv[2:3] == ["--hold"] else os.devnull + "/none"
messages, answers, change = [], {}, threading.Condition()


class Platform(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        route, _, after = self.path.partition("?after=")
        with change:
            if after:
                change.wait_for(lambda: len(messages) > int(after), timeout=20)
            shown = messages[int(after or 0):] if route == "/messages" else list(answers.values())
        self.reply(shown)

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with change:
            if self.path == "/messages":
                said["id"] = len(messages) + 1
                messages.append(said)
            else:
                answers.setdefault(said["nonce"], said)
            change.notify_all()
        while self.path == "/answers" and os.path.exists(hold):
            time.sleep(0.02)
        self.reply(said)

    def reply(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "a client"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that left before its answer needs no report."""


Server(path, Platform).serve_forever()
