// Numbers as Python and numpy have them: columns of bytes, sums in numpy's order, quantiles.
"use strict";
(() => {
  const { answers } = hetsim;

  // Columns of the island: base64 of little-endian floats or whole numbers.
  const bytesOf = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer;
  answers.floats = (text) => new Float64Array(bytesOf(text));
  answers.wholes = (text) => new Int32Array(bytesOf(text));

  // numpy adds pairwise: eight sums side by side up to 128 numbers, halves of more.
  const pairwise = (of, begin, count) => {
    if (count < 8) {
      let total = -0;
      for (let k = 0; k < count; k++) total += of[begin + k];
      return total;
    }
    if (count <= 128) {
      const r = [];
      for (let k = 0; k < 8; k++) r.push(of[begin + k]);
      let at = 8;
      for (; at < count - (count % 8); at += 8) {
        for (let k = 0; k < 8; k++) r[k] += of[begin + at + k];
      }
      let total = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
      for (; at < count; at++) total += of[begin + at];
      return total;
    }
    let half = Math.floor(count / 2);
    half -= half % 8;
    return pairwise(of, begin, half) + pairwise(of, begin + half, count - half);
  };
  answers.sum = (of) => pairwise(of, 0, of.length);
  answers.dot = (a, b) => a.reduce((total, one, k) => total + one * b[k], 0);

  // The distance to the next float, of a number from 0 on.
  const view = new DataView(new ArrayBuffer(8));
  answers.spacing = (value) => {
    view.setFloat64(0, value);
    view.setBigInt64(0, view.getBigInt64(0) + 1n);
    return view.getFloat64(0) - value;
  };
  // Half to even, as numpy.rint; of numbers from 0 on.
  answers.rint = (value) => (value < 2 ** 52 ? value + 2 ** 52 - 2 ** 52 : value);

  const LANCZOS = [
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
  ];
  const logGamma = (x) => {
    let total = LANCZOS[0];
    for (let k = 1; k < 9; k++) total += LANCZOS[k] / (x - 1 + k);
    const t = x + 6.5;
    return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(total);
  };

  // The incomplete beta function by its continued fraction (Lentz).
  const fraction = (a, b, x) => {
    const tiny = 1e-300;
    let c = 1;
    let d = 1 / (1 - ((a + b) * x) / (a + 1) || tiny);
    let total = d;
    for (let m = 1; m < 500; m++) {
      for (const by of [
        (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
        (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
      ]) {
        d = 1 / (1 + by * d || tiny);
        c = 1 + by / c || tiny;
        total *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-16) break;
    }
    return total;
  };
  const incompleteBeta = (a, b, x) => {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    const front = Math.exp(
      logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x),
    );
    if (x < (a + 1) / (a + b + 2)) return (front * fraction(a, b, x)) / a;
    return 1 - (front * fraction(b, a, 1 - x)) / b;
  };

  // Student's t: the value that so much of it is below, of a share from one half to 1.
  const known = new Map();
  answers.studentQuantile = (freedom, share) => {
    const key = `${freedom} ${share}`;
    if (known.has(key)) return known.get(key);
    const above = (t) => incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
    let low = 0;
    let high = 1;
    while (above(high) > 1 - share) high *= 2;
    for (let k = 0; k < 200 && high - low > 1e-15 * high; k++) {
      const middle = (low + high) / 2;
      if (middle <= low || middle >= high) break;
      if (above(middle) > 1 - share) low = middle;
      else high = middle;
    }
    known.set(key, high);
    return high;
  };
})();
