/** Finds devices by name, GUID or LID, and cables by their ports; a combobox as WAI-ARIA describes it. */

import { get } from "./api.js";
import { store } from "./store.js";
import { make } from "./dom.js";

const SHOWN_MAX = 12;

class FabricSearch extends HTMLElement {
  #input = make("input", { type: "text", id: "search", placeholder: "Name, NODE:PORT, GUID or LID", autocomplete: "off", role: "combobox" });
  #list = make("ul", { id: "found", role: "listbox", hidden: true });
  /** @type {{text: string, selection: import("./types.js").Selection}[]} */
  #found = [];
  #at = 0;
  /** @type {import("./types.js").Lids[]} */
  #lids = [];

  connectedCallback() {
    this.#input.setAttribute("aria-controls", "found");
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.setAttribute("aria-autocomplete", "list");
    this.#list.setAttribute("aria-label", "Found");
    this.replaceChildren(make("label", { for: "search" }, "Search", this.#input), this.#list);
    this.#input.addEventListener("input", () => this.#look());
    this.#input.addEventListener("keydown", (event) => this.#key(event));
    this.#input.addEventListener("blur", () => this.#close());
    // LIDs change while the page is open.
    this.#input.addEventListener("focus", async () => (this.#lids = await get("lids").catch(() => [])));
  }

  #look() {
    const wanted = this.#input.value.trim().toLowerCase();
    this.#found = wanted ? find(wanted, this.#lids) : [];
    this.#at = 0;
    this.#show();
  }

  #show() {
    const items = this.#found.map(({ text }, index) => {
      const item = make("li", { role: "option", id: `found-${index}`, "aria-selected": String(index === this.#at) }, text);
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.#take(index);
      });
      return item;
    });
    this.#list.replaceChildren(...items);
    this.#list.hidden = items.length === 0;
    this.#input.setAttribute("aria-expanded", String(items.length > 0));
    if (items.length > 0) this.#input.setAttribute("aria-activedescendant", `found-${this.#at}`);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const count = this.#found.length;
    if (event.key === "Escape") return this.#close();
    if (count === 0) return;
    if (event.key === "Enter") return this.#take(this.#at);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    this.#at = (this.#at + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
    this.#show();
  }

  /** @param {number} index */
  #take(index) {
    const found = this.#found[index];
    this.#input.value = found.text;
    this.#close();
    store.select(found.selection);
  }

  #close() {
    this.#found = [];
    this.#show();
  }
}

/** What begins with the words comes first. @param {string} wanted @param {import("./types.js").Lids[]} lids */
function find(wanted, lids) {
  /** @type {{text: string, rank: number, selection: import("./types.js").Selection}[]} */
  const found = [];
  store.map.devices.forEach((device, index) => {
    const name = device.name.toLowerCase();
    if (name.includes(wanted) || device.guid.includes(wanted)) {
      const rank = name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2;
      found.push({ text: device.name, rank, selection: { kind: "device", device: index } });
    }
  });
  const lid = /^(0x[0-9a-f]+|[0-9]+)$/.test(wanted) ? Number(wanted) : NaN;
  const owner = lids.find((range) => range.lid <= lid && lid < range.lid + range.count);
  if (owner) found.push({ text: `LID ${lid}: ${store.map.devices[owner.device].name}`, rank: 1, selection: { kind: "device", device: owner.device } });
  const at = wanted.lastIndexOf(":");
  if (at > 0) {
    const device = store.map.devices.findIndex(({ name }) => name.toLowerCase() === wanted.slice(0, at));
    const cable = device < 0 ? undefined : store.cableAt(device, Number(wanted.slice(at + 1)));
    if (cable !== undefined) found.push({ text: store.cableName(cable), rank: 0, selection: { kind: "cable", cable } });
  }
  return found.sort((a, b) => a.rank - b.rank || a.text.localeCompare(b.text, undefined, { numeric: true })).slice(0, SHOWN_MAX);
}

customElements.define("fabric-search", FabricSearch);
