// A session on the server that this page came from, by ranges.

import { unpackDecision } from "./codec.js";

const MOST = 256;
const AGAIN_MS = 5000;

export class RemoteSource {
  constructor(base, session) {
    this.base = `${base}/api/sessions/${encodeURIComponent(session)}`;
    this.live = true;
    this.known = new Map();
  }

  async open() {
    return this.head();
  }

  async get(path, options) {
    const answer = await fetch(`${this.base}${path}`, { credentials: "same-origin", ...options });
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    throw new Error(said.error?.message ?? said.detail ?? `the server said ${answer.status}`);
  }

  // What was fetched before is kept, up to a number of answers; `forget` is for when the session moved.
  async kept(path, read) {
    if (!this.known.has(path)) {
      if (this.known.size >= MOST) this.known.delete(this.known.keys().next().value);
      const asked = this.get(path).then(read);
      asked.catch(() => this.known.delete(path));
      this.known.set(path, asked);
    }
    return this.known.get(path);
  }

  forget() {
    this.known.clear();
  }

  async head() {
    return (await this.get("/head")).json();
  }

  async rows(first, last, stride = 1) {
    return this.kept(`/rows?first=${first}&last=${last}&stride=${stride}`, (answer) => answer.json());
  }

  async codes(steps, first, stride, count) {
    if (!steps.length) return new Int8Array(0);
    const step = steps.length > 1 ? steps[1] - steps[0] : 1;
    const range = `step=${steps[0]}&steps=${steps.length}&every=${step}`;
    const path = `/codes?${range}&chunk=${first}&chunks=${count}&stride=${stride}`;
    return this.kept(path, async (answer) => new Int8Array(await answer.arrayBuffer()));
  }

  async decision(step) {
    return this.kept(`/decisions/${step}`, async (answer) => unpackDecision(await answer.json()));
  }

  async whatIf(step, changes) {
    const body = JSON.stringify(changes);
    const options = { method: "POST", body, headers: { "content-type": "application/json" } };
    return unpackDecision(await (await this.get(`/decisions/${step}`, options)).json());
  }

  async policies() {
    return this.kept("/policies", (answer) => answer.json());
  }

  async chunk(number) {
    return this.kept(`/chunks/${number}`, (answer) => answer.json());
  }

  rawLink(number) {
    return `${this.base}/chunks/${number}/raw`;
  }

  async search(text) {
    return (await this.get(`/search?q=${encodeURIComponent(text)}`)).json();
  }

  // `after`: the newest step that is known. A browser gives up once the answer is an error; the service may only be
  // waiting for its database.
  follow(after, moved, lost) {
    let events;
    let again;
    const begin = () => {
      events = new EventSource(`${this.base}/events?after=${after}`);
      events.addEventListener("moved", () => moved());
      events.addEventListener("open", () => lost(null));
      events.addEventListener("error", () => {
        const closed = events.readyState === EventSource.CLOSED;
        lost(closed);
        if (closed) again = setTimeout(begin, AGAIN_MS);
      });
    };
    begin();
    return () => {
      clearTimeout(again);
      events.close();
    };
  }
}
