// A question with several answers and one in own words. No agent of the lab asks one, so the test plays another host
// with such an agent.
export default async function (t) {
  const { context, page } = await t.person();
  const { sessions } = await t.api(context, "/v1/sessions");
  const real = sessions.find((one) => one.name === "talk");
  const options = [["1", "Parser", "other"], ["2", "Lexer", "other"], ["deny", "no answer", "reject_once"]].map(([id, name, kind]) => ({ id, name, kind }));
  const ask = (request, more) => ({ request, tool: "question", detail: "Which parts?\n1. Parser\n2. Lexer", options, takes_text: true, takes_reason: true, ...more });
  let asks = [ask("q1", { several: true })];
  const far = () => ({ ...real, id: "farfarfarfar", name: "far", state: "needs-you", seq: 1 + answers.length, turns: { ...real.turns, asks, queued: [] } });
  const answers = [];
  await context.route(/\/v1\/hosts(\?|$)/, (route) => route.fulfill({ json: { hosts: [{ name: "box", target: "box", away: null, skew: null, age_ms: 5, sessions: route.request().url().includes("names=true") ? [] : [far()] }] } }));
  await context.route("**/v1/hosts/box/**", (route) => {
    const url = route.request().url();
    if (url.endsWith("/answers")) { answers.push(route.request().postDataJSON()); asks = asks[0].request === "q1" ? [ask("q2")] : []; return route.fulfill({ json: far() }); }
    if (url.includes("/events")) return route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${JSON.stringify(far())}\n\n` });
    if (url.includes("/transcript")) return route.fulfill({ json: { turns: [] } });
    return route.fulfill(/\/sessions\/[^/]*$/.test(url) ? { json: far() } : { status: 404, json: { title: "not here" } });
  });
  await page.reload();
  await page.locator(".srow", { hasText: "far" }).click();
  const asked = page.locator("section.ask");
  await asked.locator("h2", { hasText: "Question" }).waitFor();
  await t.accessible(page, "a question with several answers");
  await t.shot(page, "question-desktop");
  const send = asked.getByRole("button", { name: "Answer", exact: true });
  t.check(await send.isDisabled(), "an empty answer can be sent");
  // A key chooses and does not answer.
  await page.locator("main h1").click();
  await page.keyboard.press("2");
  await asked.getByLabel("Parser").check();
  t.check(answers.length === 0, `answered: ${JSON.stringify(answers)}`);
  await asked.locator("input.f").fill("and the docs");
  // A press that comes too early starts the reading time anew.
  const isNext = () => page.locator("[data-ask=q2]").waitFor({ timeout: 2000 }).then(() => true, () => false);
  await t.until("the answer is sent", async () => { await send.click({ timeout: 2000 }).catch(() => {}); return isNext(); });
  t.check(answers[0].answer === "option" && answers[0].options.join() === "1,2" && answers[0].text === "and the docs", JSON.stringify(answers[0]));
  // One answer: a button for each, or own words.
  await page.locator("[data-ask=q2]").waitFor();
  t.check((await asked.locator("input[type=checkbox]").count()) === 0, "a question with one answer has check boxes");
  const own = asked.locator("input.f");
  await own.fill("neither");
  await asked.locator(".acts button:not([aria-disabled=true])").first().waitFor();
  await own.press("Enter");
  await t.until("own words are sent", () => answers.length === 2);
  t.check(answers[1].answer === "text" && answers[1].text === "neither" && answers[1].request === "q2", JSON.stringify(answers[1]));
}
