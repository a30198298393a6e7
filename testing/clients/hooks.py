"""Values that schemathesis cannot guess: the sessions that exist, and that commands are real.

Nothing here makes data fit its shape that did not, or the other way round: a text becomes another text, a number a smaller
one, a list of words another list of words.
"""

import os
import random

import schemathesis
from schemathesis.specs.openapi import checks

# A client that shows wrong tokens too often is refused with 429 instead of 401, until it stops. That counts as a
# refusal of the token; the answer of each route to one wrong token is tested in crates/cli/tests/suite/gateway_auth.
checks.AUTH_REJECTION_STATUSES = frozenset({401, 403, 429})

SESSIONS = ["talk", "shell", "stopped"]
HELPERS = ["server"]
FAKE_AGENT = os.environ["BERTH_FAKE_AGENT"]
# A token of its own must live as long as the run.
OWN_TOKEN = os.environ["BERTH_TOKEN_NAME"]
# How long anything may wait here.
MOST_MS = 50

chance = random.Random(20261116)


def shorten(body, field, always=False):
    value = body.get(field)
    if isinstance(value, int) and not isinstance(value, bool) and value > MOST_MS:
        body[field] = MOST_MS
    elif value is None and always:
        body[field] = MOST_MS


@schemathesis.hook
def before_call(ctx, case, kwargs):
    path = case.path_parameters or {}
    # Every other time the request is for a session that exists.
    if isinstance(path.get("session"), str) and chance.random() < 0.6:
        path["session"] = chance.choice(SESSIONS)
    if isinstance(path.get("helper"), str) and chance.random() < 0.6:
        path["helper"] = chance.choice(HELPERS)
    if OWN_TOKEN in str(path.get("token")):
        path["token"] = "another"
    body = case.body
    if not isinstance(body, dict):
        return
    # Commands that are started are real, so it is always the fake agent.
    command = body.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        body["command"] = [FAKE_AGENT, "hang"]
    if isinstance(body.get("agent"), str):
        body["agent"] = "fake"
    if isinstance(body.get("owner"), str):
        body["owner"] = "talk"
    # Times are cut so that nothing takes minutes.
    name = case.operation.definition.raw.get("operationId")
    shorten(body, "grace_ms")
    shorten(body, "timeout_ms", always=name in ("wait", "send_turn"))
    shorten(body, "ready_timeout_ms", always=name == "ensure_helper")
    shorten(body, "max_wait_ms")
