/** What has happened, the latest first: all, or one kind; up to the moment that is shown. */

import { store } from "./store.js";
import { link, make } from "./dom.js";
import { clock } from "./format.js";

const SHOWN_MAX = 200;

class EventList extends HTMLElement {
  #list = make("ul", { className: "events" });
  #kind = make("select", { id: "event-kind" });
  #until = make("p", { className: "quiet", hidden: true });

  connectedCallback() {
    this.#kind.addEventListener("change", () => this.#show());
    this.replaceChildren(make("h2", {}, "Events"), make("label", { for: "event-kind" }, "Kind ", this.#kind), this.#until, this.#list);
    for (const what of ["happened", "moment"]) store.addEventListener(what, () => this.#show());
    store.addEventListener("sample", () => store.at !== null && this.#show());
    this.#show();
  }

  #show() {
    const until = store.at === null ? Infinity : store.sample?.at_ms ?? Infinity;
    const kinds = ["", ...new Set(store.happened.map(({ kind }) => kind))];
    const chosen = this.#kind.value;
    if (kinds.length !== this.#kind.options.length) {
      this.#kind.replaceChildren(...kinds.map((kind) => make("option", { value: kind, selected: kind === chosen }, kind || "all")));
    }
    this.#until.hidden = store.at === null;
    this.#until.textContent = Number.isFinite(until) ? `Up to ${clock(until)}.` : "";
    const wanted = store.happened.filter(({ kind, at_ms }) => at_ms <= until && (chosen === "" || kind === chosen));
    const items = wanted.slice(-SHOWN_MAX).reverse().map(({ at_ms, kind, text, cable, device }) => {
      const when = make("time", { dateTime: new Date(at_ms).toISOString() }, clock(at_ms));
      const found = device === undefined ? undefined : store.device(device);
      let what = make("span", {}, text);
      if (cable !== undefined) what = link(text, () => store.select({ kind: "cable", cable }));
      else if (found !== undefined) what = link(text, () => store.select({ kind: "device", device: found }));
      const item = make("li", {}, when, make("span", { className: "kind" }, kind), what);
      item.dataset.kind = kind;
      return item;
    });
    this.#list.replaceChildren(...(items.length ? items : [make("li", { className: "quiet" }, store.at === null ? "Nothing has happened yet." : "Nothing had happened by then.")]));
  }
}

customElements.define("event-list", EventList);
