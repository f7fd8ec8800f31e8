/** Requests to the server. */

/**
 * @template T
 * @param {Response} response
 * @returns {Promise<T>}
 */
async function answer(response) {
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || `status ${response.status}`);
  }
  if (!response.ok) throw new Error(value.error ?? `status ${response.status}`);
  return value;
}

/**
 * @template T
 * @param {string} path below /api
 * @param {Record<string, string | number | null | undefined>} [query]
 * @returns {Promise<T>}
 */
export async function get(path, query = {}) {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(known.map(([key, value]) => [key, String(value)])).toString();
  return answer(await fetch(`/api/${path}${text ? `?${text}` : ""}`));
}

/**
 * @param {string} path below /api
 * @param {object} [body]
 * @returns {Promise<{done: string}>}
 */
export async function post(path, body = {}) {
  const headers = { "content-type": "application/json" };
  return answer(await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}
