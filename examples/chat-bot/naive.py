"""A bot that keeps a record of each agent's process, and believes its record.

    naive.py PLATFORM_SOCKET STATE_FILE
"""

import json
import os
import shlex
import signal
import subprocess
import sys

from unix_http import call

platform, state_file = sys.argv[1:]
state = json.load(open(state_file)) if os.path.exists(state_file) else {"seen": 0, "running": {}}


def save():
    with open(state_file, "w") as file:
        json.dump(state, file)


while True:
    for message in call(platform, "GET", f"/messages?after={state['seen']}")[1]:
        state["seen"] = message["id"]
        save()
        chat, text = message["chat"], message["text"]
        if text == "/archive":
            # Sends SIGTERM, does not check the outcome, and drops the record.
            os.kill(state["running"].pop(chat), signal.SIGTERM)
            answer = "archived"
        elif text == "/restore":
            answer = "restored"
        elif text.startswith("work "):
            # An agent that was told to resume the conversation, and works for long.
            state["running"][chat] = subprocess.Popen(shlex.split(text.removeprefix("work "))).pid
            answer = "working"
        else:
            answer = subprocess.run(["sh", "-c", text], capture_output=True, text=True).stdout
        save()
        call(platform, "POST", "/answers", {"chat": chat, "text": answer, "nonce": str(message["id"])})
