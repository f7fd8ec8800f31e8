/** The legend: what colours mean, and the choice of what cables are coloured by. */

import { store } from "./store.js";
import { LAYERS, colours } from "./scale.js";
import { make } from "./dom.js";

class MapLegend extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", "Legend");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#show());
    for (const what of ["layer", "ready", "moment", "highlight"]) store.addEventListener(what, () => this.#show());
    this.#show();
  }

  #show() {
    const colour = colours();
    const layer = LAYERS[store.layer];
    const options = Object.entries(LAYERS).map(([key, { name }]) => make("option", { value: key, selected: key === store.layer }, name));
    const select = make("select", { id: "layer" }, ...options);
    select.addEventListener("change", () => {
      store.setLayer(select.value);
      this.querySelector("select")?.focus();
    });
    const lanes = make("select", { id: "lane" }, make("option", { value: "", selected: store.vl === null }, "the fullest"),
      ...Array.from({ length: store.map.vls }, (_, vl) => make("option", { value: String(vl), selected: store.vl === vl }, `VL ${vl}`)));
    lanes.addEventListener("change", () => {
      store.setLayer("fill", lanes.value === "" ? null : Number(lanes.value));
      /** @type {HTMLElement | null} */ (this.querySelector("#lane"))?.focus();
    });
    const hasLanes = store.layer === "fill" && !store.map.replay && store.at === null;
    const steps = colour.steps.map((step, index) => {
      const box = make("span");
      box.style.background = step;
      return make("li", {}, box, layer.ticks[index]);
    });
    const clear = make("button", { type: "button", onclick: () => store.setHighlight(null) }, "Clear marks");
    this.replaceChildren(
      make("label", { for: "layer" }, "Cables by ", select),
      ...(hasLanes ? [make("label", { for: "lane" }, "Lane ", lanes)] : []),
      make("ol", {}, ...steps),
      make("span", { className: "quiet" }, layer.unit),
      make("ul", {}, line("Down", colour.down, "6 5", "M13 1L23 11M23 1L13 11"), line("Init", colour.init, "2 3", "M22.5 6A4.5 4.5 0 1 1 13.5 6A4.5 4.5 0 1 1 22.5 6"), line("Not known", colour.unknown, "1 4", "")),
      ...(store.highlight === null ? [] : [clear]),
    );
  }
}

/** @param {string} text @param {string} style @param {string} dash @param {string} sign in the middle, as a path */
function line(text, style, dash, sign) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 36 12");
  picture.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(space, "path");
  for (const [name, value] of [["d", "M0 6H36"], ["stroke", style], ["stroke-width", "3"], ["stroke-dasharray", dash]]) stroke.setAttribute(name, value);
  const mark = document.createElementNS(space, "path");
  for (const [name, value] of [["d", sign], ["stroke", style], ["stroke-width", "2"], ["fill", "var(--ground)"]]) mark.setAttribute(name, value);
  picture.append(stroke, mark);
  const item = make("li");
  item.append(picture, ` ${text}`);
  return item;
}

customElements.define("map-legend", MapLegend);
