// A page in a real browser: page.mjs BROWSER FILE KIND. It must ask for nothing over a network,
// complain of nothing, and fit a desktop, a phone and, where it is to be signed, paper.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

// What a page of each kind shows: its heading, pictures, opened details, rows that are violated.
const kinds = {
  run: { heading: "relayproof: nothing measured", plots: 2, open: true, broken: 2 },
  signoff: { heading: "Sign-off of week: violated", plots: 10, parts: 11, broken: "any", print: true },
  scoreboard: { heading: "Relays by what is shown of them", plots: 1, broken: 0 },
};
const [executablePath, file, kind] = process.argv.slice(2);
const wanted = kinds[kind];
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
      parts: document.querySelectorAll("section h2").length,
      // What may be scrolled by itself is no overflow of the page, but on these pages nothing should.
      cut: [...document.querySelectorAll(".records")].filter((node) => wide(node.parentNode) > 1)
        .map((node) => node.rows[0].textContent.slice(0, 40)),
      small: [...document.querySelectorAll("p, td, h1, h2")].filter((node) =>
        parseFloat(getComputedStyle(node).fontSize) < 12).length,
    };
  });
  if (seen.heading !== wanted.heading) note(`${device}: heading ${seen.heading}`);
  if (seen.overflow > 0) note(`${device}: ${seen.overflow} pixels wider than the window`);
  if (seen.plots !== wanted.plots) note(`${device}: ${seen.plots} pictures, not ${wanted.plots}`);
  if (wanted.open && seen.open < 1) note(`${device}: no waterfall`);
  if (wanted.broken === "any" ? seen.broken < 1 : seen.broken !== wanted.broken)
    note(`${device}: ${seen.broken} violated rows, not ${wanted.broken}`);
  if (wanted.parts && seen.parts !== wanted.parts) note(`${device}: ${seen.parts} parts`);
  if (seen.cut.length > 0) note(`${device}: beyond the edge: ${seen.cut.join(", ")}`);
  if (seen.small > 0) note(`${device}: text too small to read`);
  if (process.env.RELAYPROOF_SCREENSHOTS) {
    const path = `${process.env.RELAYPROOF_SCREENSHOTS}/${kind}-${device}.png`;
    await page.screenshot({ path, fullPage: true });
  }
  if (wanted.print && device === "desktop") {
    const pdf = await page.pdf({ preferCSSPageSize: true, printBackground: true });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g).length;
    if (pages < 3 || pages > 60) note(`paper: ${pages} pages`);
    if (process.env.RELAYPROOF_SCREENSHOTS)
      writeFileSync(`${process.env.RELAYPROOF_SCREENSHOTS}/${kind}.pdf`, pdf);
  }
  await page.close();
}
await browser.close();
for (const one of wrong) console.log(one);
if (wrong.length === 0) console.log(`HTML, ${kind}: no request, no complaint, fits desktop and phone`);
process.exit(wrong.length === 0 ? 0 : 1);
