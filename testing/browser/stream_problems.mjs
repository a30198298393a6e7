// A stream that is answered with 200 and carries only a problem: shown in words, retried with a back-off,
// live again by itself.
const problem = (status, title) => ({ status: 200, contentType: "text/event-stream", body: `retry: 1000\n\nevent: problem\ndata: ${JSON.stringify({ code: "x", status, title, detail: "look at the disk" })}\n\n` });
export default async function (t) {
  const { page } = await t.person();
  await page.locator(".srow", { hasText: "talk" }).waitFor();
  let asked = 0;
  await page.route(/\/v1\/events/, (route) => { asked += 1; return route.fulfill(problem(503, "the sessions cannot be read")); });
  await page.reload();
  // The waits grow: at 0.4 s each there would be more than three requests.
  const banner = page.locator("#banner", { hasText: "The sessions cannot be read" });
  await banner.filter({ hasText: /Trying again in [3-9] s/ }).waitFor();
  t.check(asked >= 4 && asked < 20, `asked ${asked} times`);
  await t.accessible(page, "a stream with a problem");
  await page.unroute(/\/v1\/events/);
  await banner.locator("button").click();
  await page.locator("#banner", { hasText: "Connected again" }).waitFor();

  // The stream of one session: after a refusal the page does not ask again until the user wants it.
  asked = 0;
  await page.route(/\/sessions\/[^/]+\/events/, (route) => { asked += 1; return route.fulfill(problem(409, "the journal is damaged")); });
  await page.goto(`${t.url}/#/s/talk`);
  const strip = page.locator("#not-followed", { hasText: "The journal is damaged" });
  await strip.waitFor();
  t.check(asked === 1, `asked ${asked} times`);
  await page.unroute(/\/sessions\/[^/]+\/events/);
  await strip.locator("button").click();
  await strip.waitFor({ state: "detached" });

  // A piece of an answer that got lost on the way: the page shows the stored text, without a hole.
  const holes = await t.stranger();
  await holes.context.addInitScript(() => {
    const real = window.fetch;
    const drop = () => new TransformStream({ transform: (text, out) => out.enqueue(text.replace(/event: said\ndata: .*second.*\n\n/g, "")) });
    window.fetch = async (...asked) => {
      const answer = await real(...asked);
      if (!/\/sessions\/[^/]+\/events/.test(asked[0])) return answer;
      return new Response(answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(drop()).pipeThrough(new TextEncoderStream()), { status: answer.status, headers: answer.headers });
    };
  });
  await holes.page.goto(`${t.url}/#/s/asks`);
  await holes.page.reload();
  await t.signIn(holes.page);
  const file = (name) => `wait-file:${t.dir}/${name}`;
  await t.berth("send", "asks", `say:first \n${file("a")}\nsay:second \n${file("b")}\nsay:third\n${file("c")}`);
  const said = holes.page.locator(".turn .md");
  await said.filter({ hasText: "first" }).waitFor();
  await holes.page.evaluate(() => {
    window.holes = 0;
    const look = () => [...document.querySelectorAll(".turn .md")].some((one) => /first\s+third/.test(one.innerText)) && (window.holes += 1);
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await t.touch("a");
  await t.touch("b");
  await said.filter({ hasText: /first\s+second\s+third/ }).waitFor();
  t.check((await t.turns("asks"))[0].state === "working", "only the end of the turn mended it");
  t.check((await holes.page.evaluate(() => window.holes)) === 0, "a hole was shown");
  await t.touch("c");
}
