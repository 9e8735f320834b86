// The HTML report in a real browser: page.mjs BROWSER FILE. It must ask for nothing over a network,
// complain of nothing, and fit a desktop and a phone.
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, file] = process.argv.slice(2);
const page_url = pathToFileURL(file).href;
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const wrong = [];
const note = (what) => wrong.push(what);
for (const [device, width, height, colorScheme] of [
  ["desktop", 1280, 800, "light"],
  ["phone", 390, 844, "dark"],
]) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  page.on("console", (message) => note(`${device}: console: ${message.text()}`));
  page.on("pageerror", (error) => note(`${device}: ${error}`));
  page.on("request", (request) => {
    const url = request.url();
    if (url !== page_url && !url.startsWith("data:")) note(`${device}: asks for ${url}`);
  });
  await page.goto(page_url);
  for (const details of await page.locator("details summary").all()) await details.click();
  const seen = await page.evaluate(() => {
    const wide = (node) => node.scrollWidth - node.clientWidth;
    return {
      heading: document.querySelector("h1").textContent,
      overflow: wide(document.documentElement),
      plots: document.querySelectorAll("figure svg").length,
      open: document.querySelectorAll("details[open] svg").length,
      broken: document.querySelectorAll("tr.violated").length,
      small: [...document.querySelectorAll("p, td, h1, h2")].filter((node) =>
        parseFloat(getComputedStyle(node).fontSize) < 12).length,
    };
  });
  if (seen.heading !== "relayproof: nothing measured") note(`${device}: heading ${seen.heading}`);
  if (seen.overflow > 0) note(`${device}: ${seen.overflow} pixels wider than the window`);
  if (seen.plots !== 2) note(`${device}: ${seen.plots} distributions, not 2`);
  if (seen.open < 1) note(`${device}: no waterfall`);
  if (seen.broken !== 2) note(`${device}: ${seen.broken} violated rows, not 2`);
  if (seen.small > 0) note(`${device}: text too small to read`);
  if (process.env.RELAYPROOF_SCREENSHOTS) {
    const path = `${process.env.RELAYPROOF_SCREENSHOTS}/${device}.png`;
    await page.screenshot({ path, fullPage: true });
  }
  await page.close();
}
await browser.close();
for (const one of wrong) console.log(one);
if (wrong.length === 0) console.log("HTML: no request, no complaint, fits desktop and phone");
process.exit(wrong.length === 0 ? 0 : 1);
