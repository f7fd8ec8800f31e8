/** What has happened, the latest first. */

import { store } from "./store.js";
import { link, make } from "./dom.js";
import { clock } from "./format.js";

class EventList extends HTMLElement {
  #list = make("ul", { className: "events" });

  connectedCallback() {
    this.replaceChildren(make("h2", {}, "Events"), this.#list);
    store.addEventListener("happened", () => this.#show());
    this.#show();
  }

  #show() {
    const items = store.happened.slice(-200).reverse().map(({ at_ms, kind, text, cable, device }) => {
      const when = make("time", { dateTime: new Date(at_ms).toISOString() }, clock(at_ms));
      const found = device === undefined ? undefined : store.device(device);
      let what = make("span", {}, text);
      if (cable !== undefined) what = link(text, () => store.select({ kind: "cable", cable }));
      else if (found !== undefined) what = link(text, () => store.select({ kind: "device", device: found }));
      const item = make("li", {}, when, what);
      item.dataset.kind = kind;
      return item;
    });
    this.#list.replaceChildren(...(items.length ? items : [make("li", { className: "quiet" }, "Nothing yet.")]));
  }
}

customElements.define("event-list", EventList);
