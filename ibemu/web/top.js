/** The cables with the most wait, load or errors. */

import { store } from "./store.js";
import { LAYERS, valueOf } from "./scale.js";
import { link, make, table } from "./dom.js";
import { percent } from "./format.js";

const SHOWN_MAX = 20;

class TopList extends HTMLElement {
  #by = "wait";
  #list = make("div");

  connectedCallback() {
    const options = Object.entries(LAYERS).map(([key, { name }]) => make("option", { value: key, selected: key === this.#by }, name));
    const select = make("select", { id: "top-by" }, ...options);
    select.addEventListener("change", () => {
      this.#by = select.value;
      this.#show();
    });
    this.replaceChildren(make("h2", {}, "Top cables"), make("label", { for: "top-by" }, "By ", select), this.#list);
    store.addEventListener("sample", () => this.hidden || this.#show());
    this.addEventListener("shown", () => this.#show());
  }

  #show() {
    const sample = store.sample;
    if (!sample) return;
    const valued = store.map.cables.map((_, cable) => ({ cable, value: valueOf(sample, cable, this.#by) }));
    const top = valued.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value || a.cable - b.cable).slice(0, SHOWN_MAX);
    const text = (/** @type {number} */ value) => (this.#by === "errors" ? value.toFixed(1) : percent(value));
    const rows = top.map(({ cable, value }) => [link(store.cableName(cable), () => store.select({ kind: "cable", cable })), text(value)]);
    const { name, unit } = LAYERS[this.#by];
    this.#list.replaceChildren(rows.length ? table(`Cables by ${name}`, ["Cable", { number: unit }], rows) : make("p", { className: "quiet" }, "None at the moment."));
  }
}

customElements.define("top-list", TopList);
