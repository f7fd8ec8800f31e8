/** The page: its parts, tabs, and what the head line says. */

import { store } from "./store.js";
import { clock } from "./format.js";
import "./map.js";
import "./legend.js";
import "./search.js";
import "./drawer.js";
import "./paths.js";
import "./groups.js";
import "./loops.js";
import "./top.js";
import "./events.js";
import "./traffic.js";
import "./time.js";

const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[role=tab]")]);

/** @param {HTMLElement} tab */
function open(tab) {
  for (const other of tabs) {
    const isOpen = other === tab;
    const panel = /** @type {HTMLElement} */ (document.getElementById(other.getAttribute("aria-controls") ?? ""));
    other.setAttribute("aria-selected", String(isOpen));
    other.tabIndex = isOpen ? 0 : -1;
    panel.hidden = !isOpen;
    if (isOpen) panel.dispatchEvent(new Event("shown"));
  }
}

tabs.forEach((tab, index) => {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    const next = tabs[(index + by + tabs.length) % tabs.length];
    open(next);
    next.focus();
  });
});
open(tabs[0]);
store.addEventListener("select", () => store.selection && open(tabs[0]));

const state = /** @type {HTMLElement} */ (document.getElementById("state"));

function tellState() {
  const sample = store.sample;
  const count = (/** @type {number} */ wanted) => sample?.state.filter((state) => state === wanted).length ?? 0;
  const parts = [`${store.map.devices.length} devices`, `${store.map.cables.length} cables`];
  if (count(1)) parts.push(`${count(1)} down`);
  if (count(2) + count(3)) parts.push(`${count(2) + count(3)} not active`);
  if (sample && store.at !== null) parts.push(`as of ${clock(sample.at_ms)}`);
  const text = store.trouble || parts.join(", ");
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("bad", store.trouble !== "");
  state.classList.toggle("warn", store.trouble === "" && count(1) + count(2) + count(3) > 0);
}

for (const what of ["ready", "sample", "state"]) store.addEventListener(what, tellState);
store.addEventListener("ready", () => {
  const { fabric, topology } = store.map;
  document.title = `ibemu: ${fabric}`;
  /** @type {HTMLElement} */ (document.getElementById("fabric")).textContent = `${fabric} · ${topology}${store.map.replay ? " · stored" : ""}`;
});

store.start().catch((error) => {
  state.textContent = error.message;
  state.classList.add("bad");
});
