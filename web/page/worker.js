// Runs the module beside the page, so that the page goes on. It answers each message with messages of the same number, the last of
// which says `done` or `problem`.

import { Problem, Qsf, moduleName } from "./qsf.js";
import { LocalFile, RemoteFile } from "./source.js";

/// Text is shown as often as this: the module generates that long at a time, and between is time to hear a stop.
const SLICE_MS = 30;

let qsf = null;
let stopped = false;

async function start(name) {
  const response = await fetch(new URL(name || moduleName(), import.meta.url));
  if (!response.ok) throw new Problem(`${response.url}: the server answers ${response.status}`);
  qsf = await Qsf.start(await response.arrayBuffer());
}

/// Lets messages in. By a message, as timers wait for some milliseconds.
const channel = new MessageChannel();
const breathe = () =>
  new Promise((resolve) => {
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(null);
  });

async function read(source, size, all, say) {
  let arrived = 0;
  for (let range; (range = qsf.wanted(all)); ) {
    if (stopped) throw new Problem("stopped");
    const [start, end] = range;
    qsf.put(start, await source.read(start, end));
    arrived += end - start;
    say({ progress: Math.min(1, arrived / size) });
  }
}

const work = {
  async open({ file, address, module }, say) {
    if (qsf === null) await start(module);
    const source = file ? new LocalFile(file) : new RemoteFile(address);
    const size = await source.size();
    qsf.begin(source.name, size);
    await read(source, size, false, () => {});
    say({ name: source.name, description: qsf.describe(), describedBy: source.requests });
    await read(source, size, true, say);
    say({ verifying: true });
    const text = qsf.verify();
    return { text, report: qsf.report(), requests: source.requests };
  },

  async load({ kernels }) {
    if (qsf === null) throw new Problem("no file is open");
    return qsf.load(kernels ?? "");
  },

  async generate({ request }, say) {
    if (qsf === null) throw new Problem("no model is loaded; open the file again");
    const started = performance.now();
    const promptTokens = qsf.prompt(request);
    const decoding = performance.now();
    let steps = 1;
    while (!qsf.isOver && !stopped) {
      const before = performance.now();
      const text = qsf.goOn(steps);
      const took = performance.now() - before;
      // Twice as many where there is time for it, so that few calls are made whatever a token takes.
      if (took < SLICE_MS / 2) steps *= 2;
      else if (took > SLICE_MS && steps > 1) steps = Math.ceil(steps / 2);
      say({ text });
      await breathe();
    }
    const now = performance.now();
    return {
      promptTokens,
      tokens: qsf.generated,
      promptSeconds: (decoding - started) / 1000,
      seconds: (now - decoding) / 1000,
      memoryBytes: qsf.memoryBytes,
    };
  },
};

onmessage = async ({ data }) => {
  if (data.stop) {
    stopped = true;
    return;
  }
  const say = (what) => postMessage({ id: data.id, ...what });
  stopped = false;
  try {
    say({ done: await work[data.what](data, say) });
  } catch (error) {
    // The next file gets an instance of its own.
    if (qsf?.isBroken) qsf = null;
    say({ problem: error instanceof Problem ? error.message : `${error}` });
  }
};
