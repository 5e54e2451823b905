// The control API as the page uses it: requests with a time limit, the token of this tab, errors as text.

const KEY = 'binshift-token';
const TIMEOUT_MS = 15000;
const SKEW_MS_MAX = 3000;
let skew = 0;

/** An answer that is no success: the server's own message, or why there is no answer. */
export class Refused extends Error {
  constructor(status, error, message) {
    super(message);
    this.status = status;
    this.error = error;
  }

  /** Whether the token is missing, unknown, or not allowed to read. */
  get closed() {
    return this.status === 401 || (this.status === 403 && this.error !== undefined);
  }
}

/** Milliseconds since 1970 by the server's clock, which differs from this one's if the page comes from another machine. */
export function now() {
  return Date.now() + skew;
}

/** The token of this tab; null if there is none. It is in no cookie, and gone with the tab. */
export function token() {
  return sessionStorage.getItem(KEY);
}

/** Whether the text can be a token of the API: anything else cannot be sent in a header. */
export function isToken(text) {
  return /^[!-~]{1,4096}$/.test(text);
}

export function keepToken(text) {
  sessionStorage.setItem(KEY, text);
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

/** Take the token from the address (`#token=...`), and the fragment from the address bar and this entry of the history. */
export function takeTokenFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, '', location.pathname);
  let text = found[1];
  try {
    text = decodeURIComponent(text);
  } catch {
    // Not encoded: it is the token as it is.
  }
  if (!isToken(text)) return false;
  keepToken(text);
  return true;
}

/** The answer of one request, as JSON. Raises `Refused`. */
export async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${token()}` };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const options = { method, headers, body: body && JSON.stringify(body), cache: 'no-store', credentials: 'omit' };
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new Refused(0, undefined, 'the control API does not answer; trying again');
  }
  const difference = Date.parse(answer.headers.get('date')) - Date.now();
  skew = Math.abs(difference) > SKEW_MS_MAX ? difference : 0;
  const read = await answer.json().catch(() => ({}));
  if (answer.ok) return read;
  throw new Refused(answer.status, read.error, read.message || `the control API answered ${answer.status}`);
}
