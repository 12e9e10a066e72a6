// Where a file's bytes come from: a file of this device, or a server that gives ranges.

import { Problem } from "./qsf.js";

/// A file that a user has chosen.
export class LocalFile {
  constructor(file) {
    this.file = file;
    this.name = file.name;
  }

  async size() {
    return this.file.size;
  }

  async read(start, end) {
    const bytes = await this.file.slice(start, end).arrayBuffer();
    return new Uint8Array(bytes);
  }
}

/// A file at an address, by requests for ranges of it (RFC 9110, section 14). A server that has no ranges gives all of it once.
export class RemoteFile {
  #whole = null;
  #tag = null;

  constructor(address) {
    this.address = address;
    this.name = decodeURIComponent(new URL(address).pathname.split("/").pop()) || "file";
    this.requests = 0;
  }

  async size() {
    const response = await this.#get(0, 1);
    if (response.status === 206) {
      const total = /^bytes \d+-\d+\/(\d+)$/.exec(response.headers.get("content-range") ?? "");
      await response.arrayBuffer();
      if (total) return Number(total[1]);
      throw new Problem(`${this.address}: the server does not say how large the file is, in the header Content-Range`);
    }
    // The size is not known before all is there, so the module learns of it late. More than it can hold is not read.
    this.#whole = await this.#all(response);
    return this.#whole.length;
  }

  async read(start, end) {
    if (this.#whole) return this.#whole.subarray(start, end);
    const response = await this.#get(start, end);
    if (response.status !== 206) {
      throw new Problem(`${this.address}: the server gave ranges before, and now answers ${response.status}`);
    }
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (bytes.length !== end - start) {
      throw new Problem(`${this.address}: ${bytes.length} bytes came where ${end - start} were asked for, at ${start}`);
    }
    return bytes;
  }

  async #get(start, end) {
    this.requests += 1;
    let response;
    try {
      response = await fetch(this.address, { headers: { range: `bytes=${start}-${end - 1}` } });
    } catch (error) {
      throw new Problem(`${this.address}: ${error.message}; it must be there, and its server must let this page read it (CORS)`);
    }
    if (!response.ok) throw new Problem(`${this.address}: the server answers ${response.status} ${response.statusText}`);
    // The same file all the time.
    const tag = response.headers.get("etag") ?? response.headers.get("last-modified");
    if (this.#tag !== null && tag !== null && tag !== this.#tag) {
      throw new Problem(`${this.address}: the file has changed while it was read; open it again`);
    }
    this.#tag = tag ?? this.#tag;
    return response;
  }

  async #all(response) {
    const most = 2 ** 31;
    const pieces = [];
    let bytes = 0;
    const reader = response.body.getReader();
    for (let piece; !(piece = await reader.read()).done; ) {
      bytes += piece.value.length;
      if (bytes > most) {
        await reader.cancel();
        throw new Problem(`${this.address}: more than ${most} bytes, from a server without ranges`);
      }
      pieces.push(piece.value);
    }
    const all = new Uint8Array(bytes);
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }
}
