/** The legend: what colours mean, and the choice of what cables are coloured by. */

import { store } from "./store.js";
import { LAYERS, colours } from "./scale.js";
import { make } from "./dom.js";

class MapLegend extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", "Legend");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#show());
    store.addEventListener("layer", () => this.#show());
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
    const steps = colour.steps.map((step, index) => {
      const box = make("span");
      box.style.background = step;
      return make("li", {}, box, layer.ticks[index]);
    });
    this.replaceChildren(
      make("label", { for: "layer" }, "Cables by ", select),
      make("ol", {}, ...steps),
      make("span", { className: "quiet" }, layer.unit),
      make("ul", {}, line("Down", colour.down, "6 5"), line("Init: waits for the subnet manager", colour.init, "2 3"), line("Not known", colour.unknown, "1 4")),
    );
  }
}

/** @param {string} text @param {string} style @param {string} dash */
function line(text, style, dash) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 36 12");
  picture.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(space, "path");
  for (const [name, value] of [["d", "M0 6H36"], ["stroke", style], ["stroke-width", "3"], ["stroke-dasharray", dash]]) stroke.setAttribute(name, value);
  picture.append(stroke);
  const item = make("li");
  item.append(picture, ` ${text}`);
  return item;
}

customElements.define("map-legend", MapLegend);
