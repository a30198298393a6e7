// Answers that are made to hold up the page, to load something or to run something: they are shown as text, and the page still answers.
const MARK = "/v1/never-asked-for";
/** What takes a parser long, or a layout: the page shows it as it is. */
const HEAVY = { "6,000 quotes": ">".repeat(6000), "100 kB of stars": `a ${"*".repeat(100_000)}`, "deep lists": Array.from({ length: 300 }, (_, n) => `${" ".repeat(n * 2)}- x`).join("\\n"), "deep tags": "<b>".repeat(5000), "tags closed by others": "<div></i>".repeat(2000), "many tags": "<i>x</i>".repeat(15_000) };
/** What would load, send or run something. */
const LOUD = [
  `<table background=${MARK}/1><tr><td background=${MARK}/2>cell</td></tr></table>`, `<img src=${MARK}/3>`, `![x](${MARK}/4)`, `<video poster=${MARK}/5 src=${MARK}/6></video>`, `<input type=image src=${MARK}/7>`,
  `<style>@import "${MARK}/8";</style>`, `<link rel=stylesheet href=${MARK}/9>`, `<svg><image href=${MARK}/10 /></svg>`, `<a ping=${MARK}/11 href=https://example.com/>pinged</a>`, `<form action=${MARK}/12><button>go</button></form>`,
  `<iframe src=${MARK}/13></iframe>`, `<object data=${MARK}/14></object>`, `<div style="background:url(${MARK}/15)">styled</div>`, `<img src=x onerror="document.title='ran'">`, "<script>document.title='ran'</script>",
  "[run](javascript:document.title='ran')", `[here](${MARK}/16)`, "[there](#/s/asks)", `<base href=${MARK}/>`, "<div id=app name=body class=veil aria-hidden=true data-ask=1 tabindex=0 contenteditable>named</div>",
];
const TAGS = "a b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li mark ol p pre q s samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var".split(" ");
const ATTRIBUTES = "align colspan href open rel rowspan start target title".split(" ");

export default async function (t) {
  // The sanitiser parses all of it in a document that runs and loads nothing; the browser says what the policy forbids there.
  t.expected = /inline event handler|base URI/;
  const { context, page } = await t.stranger();
  const asked = [];
  context.on("request", (request) => { if (request.url().includes(MARK)) asked.push(request.url()); });
  // The longest time for which the page does nothing but one thing.
  await context.addInitScript(() => {
    window.longest = 0;
    new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); }).observe({ type: "longtask", buffered: true });
  });
  await page.reload();
  await t.signIn(page);
  await page.goto(`${t.url}/#/s/talk`);
  await page.locator("#message").waitFor();
  let turn = 0;
  for (const [name, text] of Object.entries(HEAVY)) {
    await t.berth("send", "talk", `say:${text}`, "--wait");
    turn += 1;
    // Text behind it is parsed, and the page takes a message.
    await page.fill("#message", `say:**after ${name}**`);
    await page.press("#message", "Enter");
    turn += 1;
    await page.locator(`[data-turn="${turn}"] .md strong`, { hasText: `after ${name}` }).waitFor();
    await page.locator(`[data-turn="${turn - 1}"] .md.raw`).waitFor();
    const shown = await page.locator(`[data-turn="${turn - 1}"] .md.raw`).evaluate((one) => one.textContent.trim().length);
    t.check(shown >= 5000, `${name}: ${shown} characters are shown`);
    const longest = await page.evaluate(() => window.longest);
    t.check(longest < 4000, `${name} held the page up for ${longest} ms`);
  }
  // A page that is opened with all of it answers as well.
  await page.reload();
  await page.locator(`[data-turn="${turn}"] .md strong`).waitFor();

  await t.berth("send", "talk", LOUD.map((text) => `say:${text}\\n\\n`).join("\n"), "--wait");
  turn += 1;
  await page.locator(`[data-turn="${turn}"] .md table td`, { hasText: "cell" }).waitFor();
  await page.locator(`[data-turn="${turn}"] .md`, { hasText: "named" }).waitFor();
  const found = await page.locator(`[data-turn="${turn}"] .md *`).evaluateAll((all) => all.map((one) => [one.localName, ...one.getAttributeNames()]));
  const odd = found.filter(([tag, ...names]) => !TAGS.includes(tag) || names.some((one) => !ATTRIBUTES.includes(one)));
  t.check(odd.length === 0, `left in the page: ${JSON.stringify(odd)}`);
  const links = await page.locator(`[data-turn="${turn}"] .md a[href]`).evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  t.check(JSON.stringify(links) === '["https://example.com/"]', `links: ${links}`);
  t.check((await page.title()) !== "ran", "a script of an agent ran");
  t.check(asked.length === 0, `asked for: ${asked}`);

  // No script of the page makes markup of a text but by the one policy, which no other script can have.
  const other = await context.newPage();
  await other.goto(t.url);
  await other.locator("#rows").waitFor();
  const refused = await other.evaluate(() => {
    const tries = [() => { document.createElement("div").innerHTML = "<b>x</b>"; }, () => window.trustedTypes.createPolicy("berth", {}), () => window.trustedTypes.createPolicy("other", {}), () => new Worker("/assets/js/main.js")];
    return tries.filter((one) => { try { one(); return false; } catch { return true; } }).length;
  });
  t.check(refused === 4, `${refused} of 4 were refused`);
}
