// Sessions of another host, as the gateway tells them. Here the other host is the gateway itself, under another
// address: the page asks it there for the things it asks for here. That the gateway passes requests on
// is tested with real hosts.
export default async function (t) {
  const { context, page } = await t.person();
  const asked = [];
  let away = null;
  await context.route(/\/v1\/hosts(\?|$)/, async (route) => {
    const names = route.request().url().includes("names=true");
    const { sessions } = await t.api(context, "/v1/sessions");
    await route.fulfill({ json: { hosts: [{ name: "box", target: "box", away, skew: away ? null : "berth is 0.0.9 there and 0.1.0 here", age_ms: away ? 180_000 : 5, sessions: names ? [] : sessions.filter((one) => one.name === "talk") }] } });
  });
  await context.route("**/v1/hosts/box/**", (route) => { asked.push(`${route.request().method()} ${new URL(route.request().url()).pathname}`); return route.continue({ url: route.request().url().replace("/v1/hosts/box/", "/v1/") }); });
  await page.reload();
  const row = page.locator(".srow", { has: page.locator(".tag.host", { hasText: "box" }) });
  await page.locator("nav .strip", { hasText: "box: berth is 0.0.9 there" }).waitFor();
  await row.click();
  await page.locator("main .sub", { hasText: "box" }).waitFor();
  t.check(page.url().endsWith("#/s/box%2Ftalk"), `the address: ${page.url()}`);
  await page.fill("#message", "over there");
  await page.keyboard.press("Enter");
  await page.locator(".talk").getByText("ECHO: over there").waitFor();
  for (const what of ["POST", "GET"].flatMap((method) => asked.filter((one) => one.startsWith(method)).slice(0, 1))) t.check(what.includes("/v1/hosts/box/sessions/"), what);
  t.check(asked.some((one) => /^POST .*\/turns$/.test(one)) && asked.some((one) => one.endsWith("/transcript")) && asked.some((one) => one.endsWith("/events")), `asked there: ${asked}`);
  t.check((await page.locator(".srow", { hasText: "talk" }).count()) === 2, "the same name here and there are two sessions");
  away = "no answer";
  await page.reload();
  await page.locator(".srow.away", { hasText: "as of 3 min ago" }).waitFor();
  await page.locator("nav .strip", { hasText: "box cannot be reached" }).waitFor();
  await t.accessible(page, "a host that is away");
}
