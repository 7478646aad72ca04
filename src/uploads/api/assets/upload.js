"use strict";
// The token of the session stands in the fragment: "mrup_ID.SECRET". The store's own list of parts says what is there, so that a page
// that was reloaded goes on where it was, once the same file is chosen again.
(() => {
  const $ = (id) => document.getElementById(id);
  const AT_ONCE = 4, LINKS = 20, TRIES = 8;
  const token = location.hash.slice(1);
  const bare = /^mrup_([0-9a-f]{32})\.[\w-]{43}$/.exec(token);
  const path = bare && `/v1/uploads/${bare[1]}`;
  // Longest silence of a connection while a part is sent, in milliseconds.
  const SILENCE = 60000;
  let session = null, file = null, current = null, sure = false;

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
  const units = (n) => n < 1024 ? [1, "bytes"] : n < 1048576 ? [1024, "KiB"] : [1048576, "MiB"];
  const amount = (n, [by]) => by === 1 ? `${n}` : (n / by).toFixed(1);
  const size = (n) => `${amount(n, units(n))} ${units(n)[1]}`;
  const exact = (n) => n < 1024 ? size(n) : `${size(n)} (${n} bytes)`;
  const say = (text, how) => { $("status").textContent = text; $("status").className = how || ""; };

  class Refused extends Error {
    constructor(problem, status) { super(`${problem.detail || problem.title} ${problem.remedy || ""}`.trim()); this.status = status; }
  }
  // An attempt that somebody has stopped: whoever did shows what follows.
  class Stopped extends Error {}
  const goesOn = (mine) => { if (mine && mine.stopped) throw new Stopped(); };
  const passes = (error) => !(error instanceof Refused) || error.status >= 500 || error.status === 429 || error.status === 408;
  // Whatever may pass by itself is tried again, ever more slowly.
  async function again(act, mine) {
    for (let n = 1; ; n++) {
      try {
        const done = await act();
        goesOn(mine);
        if (n > 1) say("");
        return done;
      } catch (error) {
        goesOn(mine);
        if (n >= TRIES || !passes(error)) throw error;
        say("The connection is interrupted. It goes on by itself.");
        await sleep(Math.min(30000, 500 * 2 ** n) * (0.5 + Math.random() / 2));
        goesOn(mine);
      }
    }
  }
  const api = (method, where, body, mine) => again(async () => {
    const answer = await fetch(path + where, {
      method, headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body), credentials: "omit",
    });
    if (answer.status === 204) return null;
    const document = await answer.json().catch(() => ({ title: `The server answers ${answer.status}.` }));
    if (!answer.ok) throw new Refused(document, answer.status);
    return document;
  }, mine);

  const VERDICTS = {
    clean: ["The file has arrived, and nothing harmful was found in it. You may close this page.", "good"],
    infected: ["The file has arrived, and a virus scanner has found something harmful in it. It will not be passed on.", "bad"],
    unscannable: ["The file has arrived. The virus scanner could not look inside; somebody will look at it. You may close this page.", "good"],
    unscanned: ["The file has arrived. The virus scan follows by itself; you may close this page.", "good"],
  };
  // What had the focus may be hidden now: nobody shall have to begin at the top.
  const focus = (id) => { if (document.activeElement === document.body) $(id).focus(); };
  function over(shown) {
    $("choose").hidden = $("work").hidden = $("lead").hidden = true;
    const problem = shown.problem || {};
    if (shown.state === "committed") say(...(VERDICTS[shown.verdict] || VERDICTS.unscanned));
    else say(`Nothing came of it: ${problem.detail || "the upload has ended."} ${problem.remedy || ""}`.trim(), "bad");
    focus("status");
  }
  const isOpen = (shown) => shown.state === "initiated" || shown.state === "parts_uploading";
  function show(shown) {
    session = shown;
    $("name").textContent = shown.file_name; $("size").textContent = size(shown.length); $("what").hidden = false;
    document.title = `Bring ${shown.file_name}`;
    if (shown.state === "pending_commit") return prove(begun());
    if (!isOpen(shown)) return over(shown);
    const there = (shown.received || []).length;
    $("hint").textContent = there ? `${there} of ${shown.parts} parts have arrived already. Choose the same file again to go on.`
      : "It is sent in parts: after an interruption it goes on where it was.";
    $("choose").hidden = false; $("work").hidden = true;
  }
  // A new attempt, with what is shown of one.
  function begun() {
    current = { stopped: false, requests: new Set() }; sure = false;
    $("choose").hidden = true; $("work").hidden = false;
    $("pause").textContent = "Pause"; $("end").textContent = "Give up"; say("");
    return current;
  }
  function stop() {
    if (!current || current.stopped) return false;
    current.stopped = true;
    for (const request of current.requests) request.abort();
    return true;
  }
  async function prove(mine) {
    $("buttons").hidden = true; $("progress").removeAttribute("value");
    $("doing").textContent = "All of it has arrived. It is compared and scanned.";
    for (;;) {
      const shown = await api("GET", "?wait=20", null, mine);
      if (shown.state !== "pending_commit") return over(shown);
    }
  }
  const unreadable = () => new Refused({ title: "The file cannot be read any more: it was changed or moved." }, 0);
  async function digest(mine) {
    const sha = new Sha256(), slice = 4 << 20;
    for (let at = 0; at < file.size; at += slice) {
      sha.update(new Uint8Array(await file.slice(at, at + slice).arrayBuffer().catch(() => { throw unreadable(); })));
      $("progress").value = Math.min(1, (at + slice) / file.size);
      await sleep(0);
      goesOn(mine);
    }
    return sha.hex();
  }
  // One part to the store; `told` is told how much of it is on its way.
  const send = (link, mine, told) => new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    const lost = () => file.slice(0, 1).arrayBuffer().then(() => failed(new Error("interrupted")), () => failed(unreadable()));
    let silence;
    const heard = () => { clearTimeout(silence); silence = setTimeout(() => request.abort(), SILENCE); };
    mine.requests.add(request);
    request.open("PUT", link.url);
    request.upload.onprogress = (event) => { heard(); told(event.loaded); };
    request.onload = () => request.status < 300 ? done() : failed(new Refused({ title: `The store answers ${request.status}.` }, request.status));
    request.onerror = request.onabort = lost;
    request.onloadend = () => { clearTimeout(silence); mine.requests.delete(request); };
    heard();
    request.send(file.slice(link.offset, link.offset + link.length));
  });
  async function bring(mine) {
    const shown = await api("GET", "", null, mine);
    if (!isOpen(shown)) return show(shown);
    $("buttons").hidden = false; focus("pause");
    const there = new Set(shown.received || []), sending = new Map(), unit = units(session.length);
    const length = (number) => Math.min(session.part_size, session.length - (number - 1) * session.part_size);
    let arrived = there.size, sent = [...there].reduce((sum, number) => sum + length(number), 0);
    const bar = () => {
      const now = [...sending.values()].reduce((sum, more) => sum + more, sent);
      $("progress").value = now / session.length;
      $("doing").textContent = `${amount(now, unit)} of ${size(session.length)} sent; ${arrived} of ${session.parts} parts have arrived`;
    };
    let sha256 = null;
    if (session.sha256) {
      $("doing").textContent = "The file is compared with what was announced.";
      sha256 = await digest(mine);
      if (sha256 !== session.sha256) throw new Refused({ title: "This is another file than the one that was announced." }, 0);
    }
    bar();
    const put = async (link) => {
      for (let n = 1; ; n++) {
        try {
          await again(() => send(link, mine, (now) => { sending.set(link.number, now); bar(); }), mine);
          break;
        } catch (error) {
          // A link has an end, and a machine may have slept.
          if (n >= 3 || passes(error) || error.status < 400) throw error;
          [link] = (await api("POST", "/parts", { numbers: [link.number] }, mine)).parts;
        } finally { sending.delete(link.number); bar(); }
      }
      sent += link.length; arrived++; bar();
    };
    const missing = [];
    for (let number = 1; number <= session.parts; number++) if (!there.has(number)) missing.push(number);
    while (missing.length) {
      const { parts } = await api("POST", "/parts", { numbers: missing.splice(0, LINKS) }, mine);
      const next = parts.values();
      await Promise.all(Array.from({ length: AT_ONCE }, async () => { for (const link of next) await put(link); }));
    }
    if (!sha256) {
      $("doing").textContent = "The file is read once more, so that what arrived can be compared.";
      sha256 = await digest(mine);
    }
    await api("POST", "/complete", { sha256 }, mine);
    await prove(mine);
  }
  async function start() {
    const mine = begun();
    try { await bring(mine); } catch (error) {
      if (mine.stopped) return;
      // One of several parts has failed: the others are not waited for.
      stop();
      if (error instanceof Refused && error.status === 410) return show(await api("GET", "").catch(() => ({ ...session, state: "aborted" })));
      $("buttons").hidden = false; $("pause").textContent = "Try again"; $("choose").hidden = false;
      $("hint").textContent = "Or choose the file again.";
      $("doing").textContent = "It stands still.";
      say(error instanceof Refused ? error.message : "The connection is lost. What has arrived stays: try again when there is one.", "bad");
    }
  }
  function chosen(picked) {
    if (picked.size !== session.length) {
      return say(`This file has ${exact(picked.size)}, and ${exact(session.length)} were announced. Choose the file that was announced.`, "bad");
    }
    stop(); file = picked;
    return start();
  }
  $("file").addEventListener("change", () => { const [picked] = $("file").files; if (picked) chosen(picked); $("file").value = ""; });
  $("choose").addEventListener("submit", (event) => event.preventDefault());
  $("pause").addEventListener("click", () => {
    if (!stop()) return void start();
    $("pause").textContent = "Go on"; $("end").textContent = "Give up"; sure = false;
    say("Paused. What has arrived stays.");
  });
  $("end").addEventListener("click", async () => {
    if (!sure) {
      sure = true; $("end").textContent = "Give up for good";
      return say("What was sent will be removed, and this link ends. Press the button once more if you are sure.");
    }
    stop();
    await api("DELETE", "").catch(() => {});
    await api("GET", "").then(show, (error) => say(error.message, "bad"));
  });
  // Nothing is lost by leaving, but a person may think so.
  addEventListener("beforeunload", (event) => { if (current && current.requests.size) event.preventDefault(); });
  addEventListener("hashchange", () => location.reload());
  if (!path) return say("The address of this page is not whole: it ends with a token. Open the link again as it was sent.", "bad");
  const failed = (error) => say(error.message, "bad");
  api("GET", "").then(show).catch(failed);
})();
