"""Stands in for `claude -p --output-format json [--resume ID] TEXT`: a transcript for each conversation, and no lock.

A text `wait-file:PATH words` is worked on until PATH is there.
"""

import json
import os
import sys
import time
import uuid

*resume, text = sys.argv[1:]
session_id = resume[1] if resume else str(uuid.uuid4())
transcript = os.path.join(os.environ["TRANSCRIPTS"], session_id + ".jsonl")


def record(kind):
    with open(transcript, "a") as file:
        print(json.dumps({"kind": kind, "prompt": text}), file=file)


record("begin")
first, _, rest = text.partition(" ")
while first.startswith("wait-file:") and not os.path.exists(first.removeprefix("wait-file:")):
    time.sleep(0.02)
record("end")
print(json.dumps({"session_id": session_id, "result": f"ECHO: {rest}"}))
