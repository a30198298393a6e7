// A client whose types openapi-typescript made from `berth openapi`, driven against a running gateway. `tsc` checks it
// first: a path, a field or a status that is not in the description does not compile.

import createClient from "openapi-fetch";
import type { components, paths } from "./berth.js";

declare const process: { env: Record<string, string | undefined> };

type Problem = components["schemas"]["Problem"];

const baseUrl = process.env.BERTH_URL ?? "";
const at = (token: string) => createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const berth = at(process.env.BERTH_TOKEN ?? "");

function same(seen: unknown, wanted: unknown, about: string): void {
  const [a, b] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${about}: ${a}, not ${b}`);
}

// The data of an answer that is a success; its type is that of the description.
function ok<T>(answer: { data?: T; error?: unknown; response: Response }, status: number): T {
  same(answer.response.status, status, JSON.stringify(answer.error ?? answer.data));
  if (answer.data === undefined) throw new Error("there is no body");
  return answer.data;
}

function problem(answer: { error?: Problem; response: Response }, status: number, code: Problem["code"]): Problem {
  same(answer.response.status, status, JSON.stringify(answer.error));
  if (answer.error === undefined) throw new Error("no problem");
  same([answer.error.status, answer.error.code], [status, code], answer.error.title);
  return answer.error;
}

const session = { path: { session: "ts" } };

// The identity of the token, and that there are no sessions yet.
const me = ok(await berth.GET("/v1/whoami"), 200);
same([me.scope, me.name], ["admin", "typescript"], "who we are");
same(ok(await berth.GET("/v1/sessions"), 200).sessions, [], "no sessions yet");

// A session with an agent that takes turns; asked for twice with one key it is one.
const make = () =>
  berth.POST("/v1/sessions", {
    params: { header: { "Idempotency-Key": "make" } },
    body: { name: "ts", agent: "fake", tags: ["client"] },
  });
const made = ok(await make(), 201);
const again = ok(await make(), 200);
same([again.session.id, made.repeated, again.repeated], [made.session.id, false, true], "one session");
const listed = ok(await berth.GET("/v1/sessions", { params: { query: { tag: "client", sort: "name" } } }), 200);
same(listed.sessions.map((one) => one.name), ["ts"], "the list");
same(ok(await berth.GET("/v1/sessions/{session}", { params: session }), 200).id, made.session.id, "by its name");

// A turn, sent twice with one key: one turn. Reusing the key with another text is a conflict.
const send = (text: string, key?: string) =>
  berth.POST("/v1/sessions/{session}/turns", {
    params: { ...session, header: key === undefined ? {} : { "Idempotency-Key": key } },
    body: { text },
  });
type Receipt = components["schemas"]["TurnReceipt"];
const receipt = (data: Receipt | components["schemas"]["TurnView"]): Receipt => {
  if (!("repeated" in data)) throw new Error("no receipt");
  return data;
};
const first = receipt(ok(await send("hello", "t1"), 202));
const second = receipt(ok(await send("hello", "t1"), 202));
same([first.number, second.number, first.repeated, second.repeated], [1, 1, false, true], "one turn");
problem(await send("other", "t1"), 409, "refused");

// Waiting, and the result.
const waited = await berth.POST("/v1/sessions/{session}/wait", {
  params: session,
  body: { for: "idle", timeout_ms: 60_000 },
});
same(ok(waited, 200).session.id, made.session.id, "waited");
const turn = (number: number) => ({ path: { session: "ts", turn: number } });
const result = ok(await berth.GET("/v1/sessions/{session}/turns/{turn}/result", { params: turn(1) }), 200);
same([result.answer, result.state, result.in_progress], ["ECHO: hello", "done", false], "the result");

// Events, in two pages that meet.
const events = async (after: number, limit?: number) => {
  const query = limit === undefined ? { after } : { after, limit };
  const page = ok(await berth.GET("/v1/sessions/{session}/events", { params: { ...session, query } }), 200);
  if (typeof page === "string") throw new Error("that was no stream");
  return page.map((event) => event.seq);
};
same(await events(0, 2), [1, 2], "the first page");
const rest = await events(2);
same(rest, rest.map((_, at) => at + 3), "the second page");
if (rest.length === 0) throw new Error("nothing happened");

// A turn that waits behind one that runs is cancelled, and then cannot be cancelled again.
const running = receipt(ok(await send(`wait-file:${process.env.BERTH_LAB}/ts-gate slow`), 202));
const waiting = receipt(ok(await send("never"), 202));
const cancel = (number: number) =>
  berth.POST("/v1/sessions/{session}/turns/{turn}/cancel", { params: turn(number) });
same(ok(await cancel(waiting.number), 200).state, "cancelled", "withdrawn");
problem(await cancel(waiting.number), 409, "refused");
same(ok(await cancel(running.number), 200).in_progress, false, "broken off");

// Things that do not exist, and input that is not valid.
problem(await berth.GET("/v1/sessions/{session}", { params: { path: { session: "nobody" } } }), 404, "not-found");
problem(await berth.GET("/v1/sessions/{session}/turns/{turn}", { params: turn(99) }), 404, "not-found");
problem(await send(""), 400, "usage");
problem(await at("berth_wrong").GET("/v1/sessions"), 401, "not-allowed");

const stopped = await berth.POST("/v1/sessions/{session}/stop", { params: session, body: { grace_ms: 0 } });
same(ok(stopped, 200).state, "stopped", "stopped");
console.log("typescript: all well");
