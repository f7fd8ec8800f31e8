/** Makes elements; text is always text, never markup. */

import { store } from "./store.js";

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [properties] properties of the element; `data-…`, `aria-…`, `role` and `for` are attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for" || name === "scope") element.setAttribute(name, String(value));
    else Reflect.set(element, name, value);
  }
  element.append(...children);
  return element;
}

/**
 * A table with a heading for each column; columns of numbers stand to the right.
 * @param {string} caption what it lists, for who cannot see where it stands
 * @param {(string | {number: string})[]} heads
 * @param {(Node | string)[][]} rows
 */
export function table(caption, heads, rows) {
  const isNumber = heads.map((head) => typeof head !== "string");
  const kind = (/** @type {number} */ column) => (isNumber[column] ? "number" : "");
  const head = heads.map((head, column) => make("th", { scope: "col", className: kind(column) }, typeof head === "string" ? head : head.number));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, column) => make("td", { className: kind(column) }, cell))));
  const element = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  element.setAttribute("aria-label", caption);
  return element;
}

/** A table that may be wider than its place: it can be scrolled, by keys as well. @param {string} caption @param {Node} content */
export function wide(caption, content) {
  return make("div", { className: "wide", tabIndex: 0, role: "group", "aria-label": `${caption}, scrollable` }, content);
}

/** Pairs of a name and a value. @param {[string, Node | string][]} pairs */
export function list(pairs) {
  return make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

/** A button that looks like a link. @param {string} text @param {() => void} act */
export function link(text, act) {
  return make("button", { type: "button", className: "link", onclick: act }, text);
}

/** A device's name, which selects it where there is one of that name. @param {string} name */
export function toDevice(name) {
  const device = store.device(name);
  return device === undefined ? name : link(name, () => store.select({ kind: "device", device }));
}
