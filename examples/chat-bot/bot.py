"""A chat bot: one berth session for each chat.

The bot keeps one thing: the numbers of the messages that it has answered. Everything else is in berth, so the bot may be
killed at any moment. Started again, it handles the messages without an answer, with the same keys, and a key means one
turn and one answer.

    bot.py PLATFORM_SOCKET ANSWERED_FILE

    /archive    ends the chat's agent, and says so only when nothing of it is left
    /restore    brings the chat back; the next message starts its agent in the same conversation
"""

import os
import sys
import threading
import time

from unix_http import call

AGENT = os.environ.get("AGENT", "claude")
STATE = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
GATEWAY = os.path.join(os.environ.get("BERTH_HOME") or f"{STATE}/berth", "gateway.sock")
PLATFORM, ANSWERED = sys.argv[1:]


def berth(method, route, body=None, key=None):
    status, answer = call(GATEWAY, method, "/v1" + route, body, key)
    while status in (429, 503):
        time.sleep(1)
        status, answer = call(GATEWAY, method, "/v1" + route, body, key)
    return status, answer


answered = set(map(int, open(ANSWERED))) if os.path.exists(ANSWERED) else set()
notes = open(ANSWERED, "a")
lock = threading.Lock()


def answer(message, text):
    """Posts an answer once, and notes that. With the same nonce a second post says nothing."""
    said = {"chat": message["chat"], "text": text, "nonce": f"answer-{message['id']}"}
    call(PLATFORM, "POST", "/answers", said)
    with lock:
        answered.add(message["id"])
        print(message["id"], file=notes, flush=True)
        os.fsync(notes.fileno())


def told(status, body):
    """A problem, in words for the chat; `None` if all is well."""
    return None if status < 300 else f"{body['title']} ({body.get('detail') or body['code']})"


def command(message):
    """Archives or restores. Twice is the same as once."""
    what = message["text"].removeprefix("/")
    body = {"stop": True, "grace_ms": 1000} if what == "archive" else {}
    status, body = berth("POST", f"/sessions/{message['chat']}/{what}", body)
    answer(message, told(status, body) or f"{what}d")


def prompt(message):
    """Makes the turn, and answers when it is over. The turn is on disk before the next message is looked at."""
    chat, key = message["chat"], f"message-{message['id']}"
    new = {"name": chat, "agent": AGENT}
    problem = told(*berth("POST", "/sessions", new, key=f"chat-{chat}"))
    if problem is None:
        turn = {"text": message["text"]}
        status, receipt = berth("POST", f"/sessions/{chat}/turns", turn, key)
        problem = told(status, receipt)
    if problem:
        return answer(message, problem)
    threading.Thread(target=finish, args=(message, receipt), daemon=True).start()


def finish(message, receipt):
    status, turn = berth("GET", f"/sessions/{message['chat']}/turns/{receipt['number']}/result")
    while status == 202:
        waiting = {"for": {"turn": receipt["number"]}, "timeout_ms": 300_000}
        berth("POST", f"/sessions/{message['chat']}/wait", waiting)
        status, turn = berth("GET", f"/sessions/{message['chat']}/turns/{receipt['number']}/result")
    answer(message, turn["answer"] if turn["state"] == "done" else f"this was {turn['state']}")


seen = 0
while True:
    for message in call(PLATFORM, "GET", f"/messages?after={seen}")[1]:
        if message["id"] not in answered:
            (command if message["text"].startswith("/") else prompt)(message)
        seen = message["id"]
