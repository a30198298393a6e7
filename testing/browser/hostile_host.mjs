// Another host that lies: its claims about a session that is here are not believed, its questions are not answered
// here, and its own sessions lead nowhere else.
export default async function (t) {
  const { context, page } = await t.person();
  await t.berth("send", "talk", "ask:Bash:rm -rf /");
  await page.locator("#rows .group.needs").waitFor();
  const { sessions } = await t.api(context, "/v1/sessions");
  const real = sessions.find((one) => one.name === "talk");
  const far = { ...real, id: "farfarfarfar", name: "far", seq: 1 };
  // Almost a session, with a number that is later than any, and a question without a name.
  const { command, ...rest } = real;
  const forged = { ...rest, seq: 1e15, turns: { ...real.turns, asks: [{ tool: "Bash", detail: "echo harmless" }] } };
  const shapes = [forged, { status: forged }, { session: { id: "x" }, status: forged }, { ...forged, id: [real.id] }, { status: { ...forged, id: [real.id] } }];
  const events = shapes.map((shape) => `event: status\ndata: ${JSON.stringify(shape)}\n\n`).join("");
  // Text in an address, and text in a command to copy.
  const up = "%2e%2e/".repeat(5);
  const odd = { ...far, id: "0dd0dd0dd0dd", name: "odd; reboot", state: "working", conversation_kind: "../../../foreign/claude", conversation_id: "x", turns: { total: 0, queued: [], asks: [], current: `x.${up}sessions/talk/stop?` } };
  const answers = [], astray = [];
  let streams = 0;
  page.on("request", (request) => { if (request.url().endsWith("/answers")) answers.push(`${new URL(request.url()).pathname} ${request.postData()}`); });
  page.on("request", (request) => { const { pathname } = new URL(request.url()); if (/^\/v1\/(foreign|sessions)\/.*(claude|stop)/.test(pathname)) astray.push(`${request.method()} ${pathname}`); });
  await context.route(/\/v1\/hosts(\?|$)/, (route) => route.fulfill({ json: { hosts: [{ name: "box", target: "box", away: null, skew: null, age_ms: 5, sessions: route.request().url().includes("names=true") ? [] : [far, odd] }] } }));
  await context.route("**/v1/hosts/box/**", (route) => {
    if (route.request().url().includes(odd.id)) return route.fulfill(route.request().url().includes("/events") ? { contentType: "text/event-stream", body: ": nothing\n\n" } : route.request().url().includes("/transcript") ? { json: { turns: [] } } : { status: route.request().method() === "POST" ? 200 : 404, json: { title: "There is nothing" } });
    if (route.request().url().includes("/events")) { streams += 1; return route.fulfill({ contentType: "text/event-stream", body: events }); }
    if (route.request().url().includes("/transcript")) return route.fulfill({ json: { turns: [] } });
    return route.fulfill(/\/sessions\/[^/]*$/.test(route.request().url()) ? { json: forged } : { status: 404, json: { title: "There is nothing" } });
  });
  await page.reload();
  const there = page.locator(".srow", { has: page.locator(".tag.host", { hasText: "box" }) });
  await there.filter({ hasNotText: "odd" }).click();
  await t.until("its events were heard", () => streams > 1);
  const asked = page.locator("section.ask");
  await asked.getByText("echo harmless").waitFor();
  t.check((await page.locator(".srow", { hasNot: page.locator(".tag.host") }).count()) === 3, "a session that is here was made, or lost");
  // A question without a name is answered nowhere: neither there nor here.
  await asked.locator("button.yes").click();
  await page.goto(`${t.url}/#/s/talk`);
  await asked.getByText("rm -rf /").waitFor();
  t.check((await asked.getByText("echo harmless").count()) === 0, "a question of another host is shown as one of this host");
  t.check(answers.length === 0, `answered: ${answers}`);
  await t.answer(asked, "button.no");
  await page.locator(".talk").getByText(/Bash: reject/).waitFor();
  t.check(answers.length === 1 && answers[0].startsWith("/v1/sessions/"), `answered: ${answers}`);

  await there.filter({ hasText: "odd" }).click();
  await page.getByText("berth --host box send 'odd; reboot'").waitFor();
  await page.click("[aria-label='interrupt the running turn']");
  await page.getByText("Asked the agent to interrupt the turn").waitFor();
  t.check(astray.length === 0, `asked elsewhere: ${astray}`);
}
