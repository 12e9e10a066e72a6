// The other side of web/src/border.rs: one instance of the module, its memory, and its functions as methods that throw.

/// What the module, or a server, says is wrong.
export class Problem extends Error {}

// A function that adds two vectors: valid only where the browser knows simd128.
const VECTORS = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/// The name of the module that this browser can run.
export function moduleName() {
  return WebAssembly.validate(VECTORS) ? "simd128.wasm" : "scalar.wasm";
}

export class Qsf {
  #exports;
  #panic = null;

  /// Whether a call has ended in a trap: then no other may follow.
  isBroken = false;

  /// `module` is a WebAssembly.Module, or the bytes of one.
  static async start(module) {
    const qsf = new Qsf();
    const memory = (at, bytes) => new Uint8Array(qsf.#exports.memory.buffer, at >>> 0, bytes >>> 0);
    const imports = {
      random(at, bytes) {
        // The function gives at most 65536 bytes at a time.
        for (let done = 0; done < bytes >>> 0; done += 65536) {
          crypto.getRandomValues(memory((at >>> 0) + done, Math.min(65536, (bytes >>> 0) - done)));
        }
      },
      panicked(at, bytes) {
        qsf.#panic = new TextDecoder().decode(memory(at, bytes));
      },
    };
    const made = await WebAssembly.instantiate(module, { qsf: imports });
    qsf.#exports = (made.instance ?? made).exports;
    qsf.#exports.qsf_start();
    return qsf;
  }

  /// Bytes of the module's memory.
  get memoryBytes() {
    return this.#exports.memory.buffer.byteLength;
  }

  /// Calls a function; what ends in a trap throws what the module said last.
  #call(name, ...args) {
    try {
      return this.#exports[name](...args);
    } catch (error) {
      // What it was doing is half done.
      this.isBroken = true;
      throw new Problem(this.#panic ?? `${error.message} (memory may have run out)`);
    }
  }

  /// Calls a function that answers, with a text or none.
  #ask(name, given, ...args) {
    const bytes = new TextEncoder().encode(given ?? "");
    const at = this.#call("qsf_given", bytes.length) >>> 0;
    if (bytes.length > 0) {
      if (at === 0) throw new Problem("the text is too long");
      new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
    }
    const code = this.#call(name, ...args);
    const answer = new Uint8Array(
      this.#exports.memory.buffer,
      this.#call("qsf_answer") >>> 0,
      this.#call("qsf_answer_bytes") >>> 0,
    );
    const text = new TextDecoder().decode(answer);
    if (code !== 0) throw new Problem(text);
    return text;
  }

  /// Begins with a file of this name and size.
  begin(name, fileBytes) {
    this.#ask("qsf_begin", name, fileBytes);
  }

  /// The range that is to be read next, `[start, end]`; `null` when there is all that is wanted.
  wanted(all) {
    const answer = this.#ask("qsf_wanted", "", all ? 1 : 0);
    return answer === "" ? null : answer.split(" ").map(Number);
  }

  /// Puts bytes of the file into their place.
  put(start, bytes) {
    const at = this.#call("qsf_place", start, bytes.length) >>> 0;
    if (at === 0) throw new Problem(`there is no place for ${bytes.length} bytes at ${start}`);
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
    this.#call("qsf_arrived", start, bytes.length);
  }

  /// What `qsf-inspect` says of the file, when what describes it is there.
  describe() {
    return this.#ask("qsf_describe");
  }

  /// Verifies the file, and gives what `qsf-inspect --tensors --verify` says.
  verify() {
    return this.#ask("qsf_verify");
  }

  /// The page of `qsf-inspect report`.
  report() {
    return this.#ask("qsf_report");
  }

  /// Loads the model of the last file, for an instruction set ("scalar", "simd128") or the fastest.
  load(isa) {
    return JSON.parse(this.#ask("qsf_load", isa));
  }

  /// Runs a prompt, and gives how many tokens it has.
  prompt(request) {
    return Number(this.#ask("qsf_prompt", JSON.stringify(request)));
  }

  /// Generates up to so many tokens, and gives their text.
  goOn(steps) {
    return this.#ask("qsf_go_on", "", steps);
  }

  /// Tokens generated so far.
  get generated() {
    return this.#call("qsf_generated") >>> 0;
  }

  /// Whether no more will come.
  get isOver() {
    return this.#call("qsf_is_over") !== 0;
  }
}
