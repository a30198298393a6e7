// Questions that go away: the next run asks another one under the same name, and a reason is being written for one that
// is gone. No agent of the lab can be made to do that at a certain moment, so the test plays another host
// with such an agent.
export default async function (t) {
  const { context, page } = await t.stranger();
  // The page measures reading time with this clock; the test stops it, so that no delay of the machine passes for reading time.
  await context.addInitScript(() => {
    const real = performance.now.bind(performance);
    let stopped = null;
    performance.now = () => stopped ?? real();
    window.stopClock = (stop) => { stopped = stop ? real() : null; };
  });
  await page.reload();
  await t.signIn(page);
  const { sessions } = await t.api(context, "/v1/sessions");
  const real = sessions.find((one) => one.name === "talk");
  const options = [["yes", "allow once", "allow_once"], ["no", "reject", "reject_once"]].map(([id, name, kind]) => ({ id, name, kind }));
  const ask = (detail) => ({ request: "0", tool: "Bash", detail, options, takes_reason: true });
  const answers = [], prompts = [];
  let seq = 1, epoch = 1, asks = [ask("make test")];
  const next = (run, list) => { seq++; epoch = run; asks = list; };
  const far = () => ({ ...real, id: "farfarfarfar", name: "far", state: asks.length ? "needs-you" : "idle", seq, epoch, turns: { ...real.turns, asks, queued: [] } });
  await context.route(/\/v1\/hosts(\?|$)/, (route) => route.fulfill({ json: { hosts: [{ name: "box", target: "box", away: null, skew: null, age_ms: 5, sessions: route.request().url().includes("names=true") ? [] : [far()] }] } }));
  await context.route("**/v1/hosts/box/**", (route) => {
    const url = route.request().url(), isPost = route.request().method() === "POST";
    if (url.endsWith("/answers")) { answers.push(route.request().postDataJSON()); next(epoch, []); return route.fulfill({ json: far() }); }
    if (url.endsWith("/turns") && isPost) { prompts.push(route.request().postDataJSON()); return route.fulfill({ status: 201, json: { turn: 1, state: "queued" } }); }
    if (url.includes("/events")) return route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${JSON.stringify(far())}\n\n` });
    if (url.includes("/transcript") || url.includes("/turns")) return route.fulfill({ json: { turns: [] } });
    return route.fulfill(/\/sessions\/[^/]*$/.test(url) ? { json: far() } : { status: 404, json: { title: "not here" } });
  });
  await page.reload();
  await page.locator(".srow", { hasText: "far" }).click();
  const asked = page.locator("section.ask");
  await asked.locator("pre", { hasText: "make test" }).waitFor();
  await asked.locator(".acts button.yes:not([aria-disabled=true])").waitFor();

  // The next run asks under the same name: that question has not been read.
  await page.evaluate(() => window.stopClock(true));
  next(2, [ask("rm -rf build")]);
  await asked.locator("pre", { hasText: "rm -rf build" }).waitFor();
  await asked.locator(".acts button.yes").click({ force: true });
  await page.locator("main h1").click();
  await page.keyboard.press("1");
  await asked.locator(".acts button.yes[aria-disabled=true]").waitFor();
  t.check(answers.length === 0, `answered unread: ${JSON.stringify(answers)}`);
  await page.evaluate(() => window.stopClock(false));

  // The question goes away while a reason is written: the first Enter says so, the second sends a prompt.
  const box = page.locator("#message");
  await page.locator("#message[placeholder='Tell it what to do instead']").fill("use mktemp instead");
  next(2, []);
  await asked.waitFor({ state: "detached" });
  await box.press("Enter");
  await page.locator(".toast", { hasText: "The question is no longer open" }).waitFor();
  t.check((await box.inputValue()) === "use mktemp instead", "the reason is gone");
  t.check(prompts.length === 0 && answers.length === 0, `sent: ${JSON.stringify([prompts, answers])}`);
  await box.press("Enter");
  await t.until("the prompt is sent", () => prompts.length === 1);
  t.check(prompts[0].text === "use mktemp instead" && !prompts[0].manner, JSON.stringify(prompts));
}
