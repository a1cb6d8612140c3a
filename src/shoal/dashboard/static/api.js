// Requests to this server: the cookie of the session, and its CSRF token where something changes.

export class Problem extends Error {
  constructor(status, code, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

let csrf = null;
let session = null;

export function currentSession() {
  return session;
}

export function may(role) {
  const ranks = ["read", "operate", "admin"];
  return session !== null && ranks.indexOf(session.role) >= ranks.indexOf(role);
}

export async function openSession(token) {
  if (token) {
    session = await send("POST", "/api/v1/session", { headers: { Authorization: `Bearer ${token}` } });
  } else {
    session = await send("GET", "/api/v1/session");
  }
  csrf = session.csrf;
  return session;
}

export async function closeSession() {
  await send("DELETE", "/api/v1/session");
  session = null;
  csrf = null;
}

export function get(path, params, { signal } = {}) {
  return send("GET", withQuery(path, params), { signal });
}

export function post(path, body, params) {
  return send("POST", withQuery(path, params), { body });
}

export function put(path, body) {
  return send("PUT", path, { body });
}

export function patch(path, body) {
  return send("PATCH", path, { body });
}

export function remove(path, params) {
  return send("DELETE", withQuery(path, params));
}

export function withQuery(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function send(method, url, { body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (method !== "GET" && csrf) sent["X-Shoal-CSRF"] = csrf;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "the server does not answer: is shoal serve running?");
  }
  const kind = response.headers.get("content-type") || "";
  const text = await response.text();
  let value = null;
  if (kind.includes("json") && text) {
    try {
      value = JSON.parse(text);
    } catch {
      throw new Problem(response.status, "not_json", "the server sent an answer that cannot be read");
    }
  }
  if (response.ok) return value;
  const detail = value && value.detail ? value.detail : `the server answered ${response.status}`;
  throw new Problem(response.status, value ? value.code : "", detail, value ? value.retry_after_s : null);
}
