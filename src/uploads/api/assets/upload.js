"use strict";
// The token of the session stands in the fragment: "mrup_ID.SECRET". The store's own list of parts says what is there, so that a page
// that was reloaded goes on where it was, once the same file is chosen again.
(() => {
  const $ = (id) => document.getElementById(id);
  const AT_ONCE = 4, LINKS = 20, TRIES = 8;
  const token = location.hash.slice(1);
  const bare = /^mrup_([0-9a-f]{32})\.[\w-]{43}$/.exec(token);
  const path = bare && `/v1/uploads/${bare[1]}`;
  let session = null, running = null, paused = false;

  // SHA-256 (FIPS 180-4) of a file that is read in slices: a browser's own digests only whole buffers.
  const K = new Uint32Array(64), H = new Uint32Array(8);
  for (let n = 2, i = 0; i < 64; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) { prime = false; break; }
    if (!prime) continue;
    const bits = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
    if (i < 8) H[i] = bits(Math.sqrt(n));
    K[i++] = bits(Math.cbrt(n));
  }
  class Sha256 {
    constructor() { this.h = H.slice(); this.w = new Uint32Array(64); this.rest = new Uint8Array(0); this.length = 0; }
    block(v, at) {
      const w = this.w, h = this.h;
      for (let i = 0; i < 16; i++) w[i] = v.getUint32(at + 4 * i);
      for (let i = 16; i < 64; i++) {
        const x = w[i - 15], y = w[i - 2];
        const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
        const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
        w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
      }
      let [a, b, c, d, e, f, g, k] = h;
      for (let i = 0; i < 64; i++) {
        const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
        const t1 = (k + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
        const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        k = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
      }
      h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += k;
    }
    update(bytes) {
      this.length += bytes.length;
      if (this.rest.length) {
        const joined = new Uint8Array(this.rest.length + bytes.length);
        joined.set(this.rest); joined.set(bytes, this.rest.length); bytes = joined;
      }
      const v = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      let at = 0;
      for (; at + 64 <= bytes.length; at += 64) this.block(v, at);
      this.rest = bytes.slice(at);
    }
    hex() {
      const length = this.length, pad = new Uint8Array(((this.rest.length < 56 ? 56 : 120) - this.rest.length) + 8);
      pad[0] = 0x80;
      const v = new DataView(pad.buffer);
      v.setUint32(pad.length - 8, Math.floor(length / 2 ** 29)); v.setUint32(pad.length - 4, (length * 8) >>> 0);
      this.update(pad);
      return [...this.h].map((x) => x.toString(16).padStart(8, "0")).join("");
    }
  }

  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const size = (n) => n < 1024 ? `${n} bytes` : n < 1048576 ? `${(n / 1024).toFixed(0)} KiB` : `${(n / 1048576).toFixed(1)} MiB`;
  const say = (text, how) => { $("status").textContent = text; $("status").className = how || ""; };

  class Refused extends Error {
    constructor(problem, status) { super(`${problem.detail || problem.title} ${problem.remedy || ""}`.trim()); this.status = status; }
  }
  // Whatever may pass by itself is tried again, ever more slowly.
  async function again(attempt) {
    for (let n = 1; ; n++) {
      try { return await attempt(); } catch (error) {
        if (paused || n >= TRIES || (error instanceof Refused && error.status < 500 && error.status !== 429)) throw error;
        say("The connection is interrupted. It goes on by itself.");
        await sleep(Math.min(30000, 500 * 2 ** n) * (0.5 + Math.random()));
      }
    }
  }
  const api = (method, where, body) => again(async () => {
    const answer = await fetch(path + where, {
      method, headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body), credentials: "omit",
    });
    if (answer.status === 204) return null;
    const document = await answer.json().catch(() => ({ title: `The server answers ${answer.status}.` }));
    if (!answer.ok) throw new Refused(document, answer.status);
    return document;
  });

  const VERDICTS = {
    clean: ["The file has arrived, and nothing harmful was found in it. You may close this page.", "good"],
    infected: ["The file has arrived, and a virus scanner has found something harmful in it. It will not be passed on.", "bad"],
    unscannable: ["The file has arrived. The virus scanner could not look inside; somebody will look at it.", "good"],
    unscanned: ["The file has arrived. The virus scan follows by itself; you may close this page.", "good"],
  };
  function over(shown) {
    $("choose").hidden = $("work").hidden = true;
    if (shown.state === "committed") return say(...(VERDICTS[shown.verdict] || VERDICTS.unscanned));
    const problem = shown.problem || {};
    say(`Nothing came of it: ${problem.detail || "the upload has ended."} ${problem.remedy || ""}`, "bad");
  }
  function show(shown) {
    session = shown;
    $("name").textContent = shown.file_name; $("size").textContent = size(shown.length); $("what").hidden = false;
    document.title = `Bring ${shown.file_name}`;
    if (shown.state === "committed" || shown.state === "aborted") return over(shown);
    if (shown.state === "pending_commit") return prove();
    const there = (shown.received || []).length;
    $("hint").textContent = there ? `${there} of ${shown.parts} parts have arrived already. Choose the same file again to go on.` : "";
    $("choose").hidden = false;
  }
  async function prove() {
    $("choose").hidden = true; $("work").hidden = false;
    $("pause").hidden = true; $("end").hidden = true;
    $("progress").removeAttribute("value"); $("doing").textContent = "All of it has arrived. It is compared and scanned.";
    for (;;) {
      const shown = await api("GET", "?wait=20");
      if (shown.state !== "pending_commit") return over(shown);
    }
  }
  async function digest(file, told) {
    const sha = new Sha256(), slice = 4 << 20;
    for (let at = 0; at < file.size; at += slice) {
      sha.update(new Uint8Array(await file.slice(at, at + slice).arrayBuffer()));
      told(Math.min(file.size, at + slice));
      if (paused) throw new Error("paused");
      await sleep(0);
    }
    return sha.hex();
  }
  async function bring(file) {
    $("choose").hidden = true; $("work").hidden = false; $("pause").textContent = "Pause"; paused = false; say("");
    const there = new Set((await api("GET", "")).received || []);
    const length = (number) => Math.min(session.part_size, session.length - (number - 1) * session.part_size);
    let sent = [...there].reduce((sum, number) => sum + length(number), 0);
    const bar = (now) => {
      $("progress").value = now / session.length;
      $("doing").textContent = `${size(now)} of ${size(session.length)} sent`;
    };
    bar(sent);
    const missing = []; for (let number = 1; number <= session.parts; number++) if (!there.has(number)) missing.push(number);
    const sending = new Map(), report = () => bar(sent + [...sending.values()].reduce((a, b) => a + b, 0));
    const put = (link) => again(() => new Promise((done, failed) => {
      const request = new XMLHttpRequest();
      running.add(request);
      request.open("PUT", link.url);
      request.upload.onprogress = (event) => { sending.set(link.number, event.loaded); report(); };
      request.onload = () => request.status < 300 ? done() : failed(new Refused({ title: `The store answers ${request.status}.` }, request.status));
      request.onerror = request.onabort = () => failed(new Error("interrupted"));
      request.onloadend = () => { running.delete(request); sending.delete(link.number); };
      request.send(file.slice(link.offset, link.offset + link.length));
    })).then(() => { sent += link.length; report(); });
    running = new Set();
    while (missing.length) {
      const { parts } = await api("POST", "/parts", { numbers: missing.splice(0, LINKS) });
      const next = parts.values();
      await Promise.all(Array.from({ length: AT_ONCE }, async () => { for (const link of next) await put(link); }));
    }
    $("progress").value = 0; $("doing").textContent = "The file is read once more, so that what arrived can be compared.";
    const sha256 = await digest(file, (now) => { $("progress").value = now / file.size; });
    if (session.sha256 && session.sha256 !== sha256) throw new Error("This is another file than the one that was announced.");
    await api("POST", "/complete", { sha256 });
    await prove();
  }
  async function start(file) {
    if (file.size !== session.length) {
      return say(`This file has ${size(file.size)} (${file.size} bytes); ${size(session.length)} (${session.length} bytes) were announced. Choose the file that was announced.`, "bad");
    }
    try { await bring(file); } catch (error) {
      if (error instanceof Refused && error.status === 410) return show(await api("GET", "").catch(() => ({ ...session, state: "aborted" })));
      $("work").hidden = true; $("choose").hidden = false;
      say(paused ? "Paused. Choose the file again to go on." : `${error.message} Choose the file again to go on.`, paused ? "" : "bad");
    }
  }
  $("file").addEventListener("change", () => { const [file] = $("file").files; if (file) start(file).finally(() => { $("file").value = ""; }); });
  $("choose").addEventListener("submit", (event) => event.preventDefault());
  $("pause").addEventListener("click", () => { paused = true; for (const request of running || []) request.abort(); });
  $("end").addEventListener("click", async () => {
    paused = true; for (const request of running || []) request.abort();
    await api("DELETE", "").catch((error) => say(error.message, "bad"));
    show(await api("GET", ""));
  });
  // Nothing is lost by leaving, but a person may think so.
  addEventListener("beforeunload", (event) => { if (running && running.size) event.preventDefault(); });
  addEventListener("hashchange", () => location.reload());
  if (!path) return say("The address of this page is not whole: it ends with a token. Open the link again as it was sent.", "bad");
  api("GET", "").then(show, (error) => say(error.message, "bad"));
})();
