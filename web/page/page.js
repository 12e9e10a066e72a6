// The page: what is opened, what is shown of it. All text of files goes in as text; the report is HTML of ours, in a frame in which
// no script runs.

const at = (id) => document.getElementById(id);
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
let asked = 0;

/// Asks the worker; `during` gets what it says on the way.
function ask(message, during = () => {}) {
  asked += 1;
  const id = asked;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, during });
    worker.postMessage({ id, ...message });
  });
}

worker.onmessage = ({ data }) => {
  const call = waiting.get(data.id);
  if (!call) return;
  if (data.problem !== undefined) {
    waiting.delete(data.id);
    call.reject(new Error(data.problem));
  } else if (data.done !== undefined) {
    waiting.delete(data.id);
    call.resolve(data.done);
  } else {
    call.during(data);
  }
};
worker.onerror = (event) => {
  fail(new Error(`the worker ended: ${event.message ?? "it cannot be loaded"}`));
};

function fail(error) {
  at("problem").textContent = error.message;
  at("problem").hidden = false;
  at("status").textContent = "";
  at("progress").hidden = true;
}

/// Does one thing at a time: what is asked for meanwhile waits.
let last = Promise.resolve();
function inTurn(work) {
  last = last.then(async () => {
    at("problem").hidden = true;
    try {
      await work();
    } catch (error) {
      fail(error);
    }
  });
  return last;
}

async function open(what) {
  at("run").hidden = true;
  at("shown").hidden = true;
  at("inspected").textContent = "";
  at("status").textContent = "Reading";
  at("progress").hidden = false;
  at("progress").value = 0;
  const module = new URLSearchParams(location.search).get("module");
  const done = await ask({ what: "open", module: module === "scalar" ? "scalar.wasm" : undefined, ...what }, (said) => {
    if (said.description !== undefined) {
      at("inspected").textContent = said.description;
      at("shown").hidden = false;
    }
    if (said.progress !== undefined) at("progress").value = said.progress;
    if (said.verifying) at("status").textContent = "Checking every byte";
  });
  at("progress").hidden = true;
  at("inspected").textContent = done.text;
  at("report").srcdoc = done.report;
  at("status").textContent = "Verified. Loading the model";
  const facts = await ask({ what: "load" });
  at("status").textContent = `Verified and loaded (kernels: ${facts.kernels})`;
  at("chat-label").hidden = !facts.chat;
  at("chat").checked = facts.chat;
  at("tokens").max = facts.context;
  at("run").hidden = false;
}

async function generate() {
  const chat = at("chat").checked && !at("chat-label").hidden;
  // A text goes on behind its prompt, an answer stands alone.
  at("text").textContent = chat ? "" : at("prompt").value;
  at("speed").textContent = "";
  at("go").disabled = true;
  at("stop").disabled = false;
  const temperature = at("temperature").valueAsNumber;
  const request = {
    prompt: at("prompt").value,
    chat,
    max_tokens: at("tokens").valueAsNumber,
    temperature,
    top_k: 40,
    top_p: 0.9,
    seed: at("seed").valueAsNumber,
  };
  try {
    const done = await ask({ what: "generate", request }, (said) => {
      if (said.text !== undefined) at("text").append(said.text);
    });
    const rate = done.seconds > 0 ? done.tokens / done.seconds : 0;
    at("speed").textContent =
      `${done.promptTokens} tokens read in ${done.promptSeconds.toFixed(3)} s, ` +
      `${done.tokens} written in ${done.seconds.toFixed(3)} s: ${rate.toFixed(0)} tokens/s`;
  } finally {
    at("go").disabled = false;
    at("stop").disabled = true;
  }
}

at("file").addEventListener("change", () => {
  const file = at("file").files[0];
  if (file) inTurn(() => open({ file }));
});
at("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const address = at("address").value;
  if (address) inTurn(() => open({ address: new URL(address, location.href).href }));
});
at("generate").addEventListener("submit", (event) => {
  event.preventDefault();
  inTurn(generate);
});
at("stop").addEventListener("click", () => worker.postMessage({ stop: true }));
at("report").addEventListener("load", () => {
  const inner = at("report").contentDocument?.documentElement;
  if (inner) at("report").style.height = `${inner.scrollHeight + 32}px`;
});

// A link can name a file: index.html?file=demo.qsf
const linked = new URLSearchParams(location.search).get("file");
if (linked !== null) {
  at("address").value = linked;
  inTurn(() => open({ address: new URL(linked, location.href).href }));
}
