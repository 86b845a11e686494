// Arrays as they travel: base64 of deflated little-endian bytes.

export async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export async function unpackDecision(raw) {
  if (raw.problem) return raw;
  const names = ["codes", "planned", "cosines", "values", "shares", "costs", "available"];
  const bytes = await Promise.all(names.map((name) => inflate(raw[name])));
  const [codes, planned, cosines, values, shares, costs, available] = bytes;
  return {
    ...raw,
    codes: new Int8Array(codes),
    planned: new Int8Array(planned),
    cosines: new Float32Array(cosines),
    values: new Float32Array(values),
    shares: new Float32Array(shares),
    costs: new Int32Array(costs),
    available: new Int8Array(available),
  };
}
