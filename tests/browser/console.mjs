// The console in a real browser. One scenario a run: `node console.mjs SCENARIO`; addresses and ids come from the environment.
//
// It ends with 1 and a message when something is not as it should be: also when a page logs an error, or breaks its own content security policy.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const { BASE, MODULES, CHROMIUM, SHOTS, GIVEN } = process.env;
const given = JSON.parse(GIVEN ?? "{}");
const { chromium } = createRequire(join(MODULES, "x.js"))("playwright-core");
const args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const browser = await chromium.launch({ executablePath: CHROMIUM, args });
const wrong = [];

/** A page in a context of its own; its errors fail the run. */
async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && wrong.push(`${path}: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`${path}: ${error.message}`));
  page.on("dialog", (dialog) => wrong.push(`${path}: a dialog says ${dialog.message()}`) && dialog.dismiss());
  const answer = await page.goto(BASE + path);
  assert.equal(answer.status(), options.status ?? 200, path);
  return page;
}

const shot = (page, name) => page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
const text = (page, selector) => page.locator(selector).first().innerText();
// What is drawn has no inner text.
const lit = (page) => page.locator(".states .state.now text").textContent();
const fits = async (page) => {
  const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(wide <= seen, `the page is ${wide} wide, and ${seen} can be seen`);
};

/** How light a colour is that a browser computed. */
const light = (colour) => Math.max(...colour.match(/\d+/g).slice(0, 3).map(Number));

/** Texts that stand out too little from what is behind them: below 4.5 to 1, as WCAG counts it. */
const pale = () => {
  const paint = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const seen = (colours) => {
    for (const colour of colours) (paint.fillStyle = colour), paint.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *:not(svg *)")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!says || !element.checkVisibility() || getComputedStyle(element).clipPath !== "none") continue;
    const behind = [];
    for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const [back, front] = [seen(behind), seen([...behind, getComputedStyle(element).color])];
    const ratio = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
    if (ratio < 4.5) found.add(`${element.tagName}.${element.className} "${element.textContent.trim().slice(0, 20)}": ${ratio.toFixed(2)}`);
  }
  return [...found];
};

const scenarios = {
  async overview() {
    const page = await open("/");
    assert.match(await text(page, "[data-live=collected]"), /^\$[\d,]+\.\d\d$/);
    assert.equal(await text(page, "[data-live=collected]"), given.collected);
    assert.equal(await text(page, "[data-live=at_risk]"), given.at_risk);
    assert.equal(await text(page, ".figures [data-live=parked]"), given.parked);
    assert.ok((await page.locator("#months .plot rect").count()) > 4, "the months are drawn");
    assert.equal(await page.locator("#returns .gauge").count(), 3, "three rates against three limits");
    assert.match(await text(page, "#returns"), /limit 0\.5 %[^]*limit 3 %[^]*limit 15 %/);
    await page.locator("#live.on").waitFor();
    await shot(page, "overview");
    // The picture and the table say the same.
    await page.locator("#months summary").click();
    const cells = (await page.locator("#months tbody td").allInnerTexts()).map((cell) => Number(cell.replaceAll(",", "")));
    assert.equal(cells.reduce((sum, cell) => sum + cell, 0), given.records);
  },

  async lights() {
    for (const scheme of ["light", "dark"]) {
      for (const path of ["/", `/console/members/${given.user}`, "/console/calendar", "/console/parked"]) {
        const page = await open(path, { colorScheme: scheme });
        const [back, front] = await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);
        assert.equal(light(back) > light(front), scheme === "light", `${path} in ${scheme}: ${front} on ${back}`);
        assert.deepEqual(await page.evaluate(pale), [], `${path} in ${scheme}: texts that can hardly be read`);
        await shot(page, `${path.replace(given.user, "").replaceAll("/", "-").replace(/^-+|-+$/g, "") || "overview"}-${scheme}`);
        await page.context().close();
      }
    }
  },

  async phone() {
    for (const path of ["/", `/console/members/${given.user}`, "/console/calendar", "/console/parked", "/console/search?q=member-0"]) {
      const page = await open(path, { viewport: { width: 375, height: 800 }, isMobile: true, hasTouch: true });
      await fits(page);
      const small = await page.evaluate(() => [...document.querySelectorAll("main p, main td, main dd")].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 11).length);
      assert.equal(small, 0, `${path}: nothing is smaller than can be read`);
      await shot(page, `phone-${path.split("/").pop().split("?")[0].replace(given.user, "member") || "overview"}`);
      await page.context().close();
    }
  },

  async member() {
    const page = await open(`/console/members/${given.user}`);
    assert.equal(await text(page, "h1"), given.user);
    assert.equal(await page.locator(".states .state").count(), 10, "ten states");
    assert.equal(await page.locator(".states .state.now").count(), 1, "one of them lit");
    assert.equal(await lit(page), given.status);
    assert.match(await text(page, ".story"), new RegExp(`${given.last}[^]*${given.first}`), "the story, newest first");
    assert.match(await text(page, ".story"), /The tier went from free to [A-Z]+/, "what followed for the tier");
    assert.match(await text(page, ".story"), /credits were granted/, "and for the credits");
    assert.match(await text(page, "#access"), /\.$/m, "access has a reason");
    assert.ok((await text(page, "#next")).length > 20, "something is said of what comes next");
    const sum = (await page.locator("#credits tbody td:nth-child(3)").allInnerTexts()).reduce((sum, cell) => sum + Number(cell), 0);
    assert.equal(String(sum), await text(page, "#credits .big"), "the balance is the sum of the ledger");
    await shot(page, "member");
  },

  async slider() {
    const page = await open(`/console/members/${given.user}`);
    const range = page.locator("#asof");
    const last = Number(await range.getAttribute("max"));
    const entries = () => page.locator(".story .entry").count();
    const all = await entries();
    const settled = (act) => Promise.all([page.evaluate(() => new Promise((done) => document.addEventListener("asof", done, { once: true }))), act()]);
    // With the arrow keys, as any slider.
    await range.focus();
    await settled(() => page.keyboard.press("Home"));
    assert.equal(await entries(), 1, "at the first moment there is one entry");
    assert.equal(await lit(page), "SCHEDULED");
    assert.match(page.url(), /[?&]at=20\d\d-/, "the time is in the address");
    assert.ok(await range.evaluate((range) => range === document.activeElement), "and the slider keeps the focus");
    await settled(() => page.keyboard.press("ArrowRight"));
    assert.ok((await entries()) >= 2);
    // With the keys of the page, and with the links.
    await page.locator("h1").click();
    await settled(() => page.keyboard.press("["));
    assert.equal(await entries(), 1);
    await settled(() => page.locator("[data-step=now]").click());
    assert.equal(await entries(), all);
    assert.equal(Number(await range.inputValue()), last);
    assert.doesNotMatch(page.url(), /at=/);
    // Everything is as of then: before the money arrived there were no credits, and no tier.
    await settled(() => range.fill("1"));
    assert.equal(await text(page, "#credits .big"), "0");
    assert.equal(await text(page, "#access .tier"), "free");
    await shot(page, "member-as-of");
    // The address alone brings the same page back.
    const again = await open(new URL(page.url()).pathname + new URL(page.url()).search);
    assert.equal(await text(again, "#view"), await text(page, "#view"));
  },

  async redrive() {
    const page = await open("/console/parked");
    assert.equal(await page.locator(".parked").count(), 2);
    const card = page.locator(".parked", { hasText: given.reason });
    await card.locator("summary").click();
    assert.match(await card.locator("pre").innerText(), new RegExp(given.event), "the record itself");
    await shot(page, "parked");
    await card.getByRole("button", { name: "Redrive" }).click();
    await page.waitForURL(/redriven=/);
    assert.match(await text(page, "#result"), / applied\./);
    assert.equal(await page.locator(".parked").count(), 1, "it is not parked any more");
    await shot(page, "redriven");
    // The other one cannot be helped, and says so.
    await page.getByRole("button", { name: "Redrive" }).click();
    await page.locator("#result", { hasText: "stays parked" }).waitFor();
    assert.equal(await page.locator(".parked").count(), 1);
    await page.locator(".badge", { hasText: /^1$/ }).waitFor();
  },

  async live() {
    const page = await open("/");
    await page.locator("#live.on").waitFor();
    const before = Number(await text(page, "[data-live=waiting_count]"));
    // The test that started this appends a record to a stream now.
    console.log("ready");
    await page.waitForFunction((before) => document.querySelector("[data-live=waiting_count]").textContent === String(before + 1), before);
    await page.locator("#moves a", { hasText: given.user }).waitFor();
    await page.locator(".badge", { hasText: /^1$/ }).waitFor();
    // The chart follows.
    await page.waitForFunction((total) => [...document.querySelectorAll("#months .axis b")].some((b) => b.textContent === total), String(before + 1));
    await shot(page, "live");
  },

  async signed() {
    // Asked for a page with something live on it, a client without a session gets the form.
    const page = await open("/console/parked?stream=memberships");
    assert.equal(new URL(page.url()).pathname, "/console/sign-in");
    assert.equal(await text(page, "h1"), "Sign in");
    assert.equal(await page.evaluate(() => document.activeElement.id), "token", "the field has the focus");
    await shot(page, "sign-in");
    await page.locator("#token").fill("not-the-token-at-all");
    await page.keyboard.press("Enter");
    await page.locator("#result", { hasText: "Wrong token" }).waitFor();
    await shot(page, "sign-in-wrong");
    // A browser says so in its console when a page comes with a status such as that one.
    wrong.splice(0, wrong.length, ...wrong.filter((line) => !line.includes("401")));
    await page.locator("#token").fill(given.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(`${BASE}/console/parked?stream=memberships`);
    // The cookie is no script's business.
    assert.equal(await page.evaluate(() => document.cookie), "");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
    assert.ok(!cookie.value.includes(given.token));
    await page.getByRole("button", { name: "Redrive" }).click();
    await page.locator("#result", { hasText: "applied." }).waitFor();
    await page.goto(`${BASE}/`);
    await page.locator("#live.on").waitFor();
    // The test that started this sends a record now.
    console.log("ready");
    await page.locator("#moves a", { hasText: given.user }).waitFor();
    await shot(page, "signed-in");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(`${BASE}/console/sign-in`);
    assert.deepEqual(await page.context().cookies(), []);
    await page.goto(`${BASE}/`);
    assert.equal(new URL(page.url()).pathname, "/console/sign-in", "and what was open is closed");
  },

  async form() {
    for (const scheme of ["light", "dark"]) {
      for (const [name, viewport] of [["wide", { width: 1280, height: 900 }], ["phone", { width: 375, height: 800 }]]) {
        const page = await open("/console/calendar", { colorScheme: scheme, viewport, javaScriptEnabled: scheme === "light" });
        if (scheme === "light") {
          await fits(page);
          assert.deepEqual(await page.evaluate(pale), [], `${name}: texts that can hardly be read`);
        }
        await shot(page, `sign-in-${name}-${scheme}`);
        // Also without a script.
        await page.locator("#token").fill(given.token);
        await page.locator("button").click();
        await page.waitForURL(`${BASE}/console/calendar`);
        if (scheme === "light") await fits(page);
        await shot(page, `signed-in-${name}-${scheme}`);
        await page.locator(".out button").click();
        await page.waitForURL(`${BASE}/console/sign-in`);
        await page.context().close();
      }
    }
    const dark = await open("/", { colorScheme: "dark" });
    assert.deepEqual(await dark.evaluate(pale), [], "in the dark: texts that can hardly be read");
  },

  async search() {
    const page = await open("/");
    for (const [wanted, path, shown] of given.searches) {
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement.id), "q", "a slash goes to the search field");
      await page.locator("#q").fill(wanted);
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname.startsWith(path));
      await page.getByText(shown).first().waitFor();
      await page.locator("h1").click();
    }
    await page.goto(`${BASE}/console/search?q=${encodeURIComponent("member-0")}`);
    assert.ok((await page.locator("main a[href^='/console/members/']").count()) > 5, "members by the start of their id");
    await shot(page, "search");
    await page.goto(`${BASE}/console/search?q=no-such-thing`);
    assert.match(await text(page, "main"), /No matches[^]*All of history was searched/);
  },

  async markup() {
    const path = `/console/members/${encodeURIComponent(given.user)}`;
    for (const where of ["/", path, "/console/parked", `/console/search?q=${encodeURIComponent(given.user.slice(0, 9))}`, "/console/calendar?at=2026-02-20&day=2026-03-01"]) {
      const page = await open(where);
      assert.ok((await text(page, "main")).includes(given.user), where);
      assert.equal(await page.locator("main script, main img").count(), 0, where);
      await page.context().close();
    }
    const page = await open("/");
    await page.locator("main a", { hasText: given.user }).first().click();
    await page.waitForURL((url) => decodeURIComponent(url.pathname) === decodeURIComponent(path));
    assert.equal(await text(page, "h1"), given.user, "links lead to the same id");
    await open(`/console/members/${encodeURIComponent("<img src=x onerror=alert(1)>")}`, { status: 404 }).catch((e) => assert.fail(e));
    wrong.splice(0, wrong.length, ...wrong.filter((line) => !line.includes("404")));
  },

  async plain() {
    const page = await open(`/console/members/${given.user}`, { javaScriptEnabled: false });
    const all = await page.locator(".story .entry").count();
    await page.locator("[data-step=earlier]").click();
    await page.waitForURL(/at=/);
    assert.ok((await page.locator(".story .entry").count()) <= all);
    await page.locator("[data-step=earlier]").click();
    assert.ok((await page.locator(".story .entry").count()) < all, "time goes back without a script");
    await page.goto(`${BASE}/`);
    assert.equal(await text(page, "[data-live=collected]"), given.collected);
    // With the keyboard alone: the first stop leads past the head of the page.
    const keys = await open("/");
    await keys.keyboard.press("Tab");
    assert.equal(await keys.evaluate(() => document.activeElement.className), "skip");
    await keys.keyboard.press("Enter");
    assert.equal(await keys.evaluate(() => document.activeElement.id), "main");
    const ring = await keys.evaluate(() => (document.querySelector("#q").focus(), getComputedStyle(document.querySelector("#q")).outlineStyle));
    assert.notEqual(ring, "none", "what has the focus is marked");
  },
};

try {
  await scenarios[process.argv[2]]();
  assert.deepEqual(wrong, [], "errors on the pages");
} finally {
  await browser.close();
}
