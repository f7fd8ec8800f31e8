/** The cables with the most wait, load, lanes in use or errors. */

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
    const value = valueOf(sample, this.#by);
    const valued = store.map.cables.map((_, cable) => ({ cable, value: value(cable) }));
    const top = valued.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value || a.cable - b.cable).slice(0, SHOWN_MAX);
    const shown = Object.keys(LAYERS).filter((key) => key === this.#by || key === "wait" || key === "load");
    const values = shown.map((key) => ({ key, value: valueOf(sample, key) }));
    const text = (/** @type {string} */ key, /** @type {number} */ value) => (key === "errors" ? value.toFixed(1) : percent(value));
    const rows = top.map(({ cable }) => [
      link(store.cableName(cable), () => store.select({ kind: "cable", cable })),
      ...values.map(({ key, value }) => text(key, value(cable))),
    ]);
    const heads = shown.map((key) => ({ number: LAYERS[key].short }));
    const none = make("p", { className: "quiet" }, `No cable has any ${LAYERS[this.#by].short.toLowerCase()} at the moment.`);
    this.#list.replaceChildren(rows.length ? table(`Cables by ${LAYERS[this.#by].name}`, ["Cable", ...heads], rows) : none);
  }
}

customElements.define("top-list", TopList);
