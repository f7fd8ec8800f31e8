/** Numbers and times as people read them. */

/** @param {number} value @param {string} unit */
export function si(value, unit) {
  const prefixes = ["", "k", "M", "G", "T"];
  let at = 0;
  let rest = Math.abs(value);
  while (rest >= 1000 && at < prefixes.length - 1) {
    rest /= 1000;
    at += 1;
  }
  const digits = rest >= 100 || Number.isInteger(rest) ? 0 : rest >= 10 ? 1 : 2;
  return `${value < 0 ? "-" : ""}${rest.toFixed(digits)} ${prefixes[at]}${unit}`;
}

/** @param {number} thousandths */
export function percent(thousandths) {
  return `${(thousandths / 10).toFixed(thousandths < 100 ? 1 : 0)} %`;
}

/** @param {number} at_ms */
export function clock(at_ms) {
  return new Date(at_ms).toLocaleTimeString([], { hour12: false });
}

/** @param {number} value */
export function hex(value) {
  return `0x${value.toString(16).padStart(4, "0")}`;
}
