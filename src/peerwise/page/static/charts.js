/* Lines with bands against anything, drawn as SVG. */
import { h, fix, size, span, show, hide } from './dom.js';

export const DASHES = ['', '8 4', '2 4', '10 3 2 3'];

export function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1) || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => (high - low) / s <= count) || power * 10;
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(+v.toPrecision(12));
  return out;
}
function logTicks(low, high) {
  const of = digits => { const out = []; for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) for (const d of digits) { const v = +(d * 10 ** e).toPrecision(6); if (v >= low * .999 && v <= high * 1.001) out.push(v); } return out; };
  for (const digits of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 4, 5, 6, 8]]) { const t = of(digits); if (t.length >= 3) return t; }
  return niceTicks(low, high, 4);
}
const short = v => Math.abs(v) >= 1000 ? v.toLocaleString('en-US') : String(+v.toPrecision(4));

/* series: [{name, colour, dash, x, y, lo, hi, thin: [{id, x, y}], strong}]; returns {svg, highlight} */
export function lines(box, series, { log = false, unit = '', label = 'round', format = short, height = 380, end = null, from = null, on = null, more = '' } = {}) {
  const W = Math.max(300, box.clientWidth || 1000), phone = W < 620, H = phone ? 300 : height;
  const longest = Math.max(4, ...series.map(s => s.name.length + 6));
  const labelled = series.length <= 12;
  const L = 50, R = labelled ? Math.min(phone ? 122 : 210, 14 + longest * 7.2) : 16, T = 30, B = 44;
  const xs = series.flatMap(s => s.x), ys = series.flatMap(s => [...s.y, ...(s.lo || []), ...(s.hi || []), ...(s.thin || []).flatMap(t => t.y)]).filter(v => v !== null && v !== undefined);
  if (!xs.length || !ys.length) { box.replaceChildren(h('p', { class: 'note' }, 'Nothing to draw yet.')); return { highlight() {} }; }
  let x0 = from ?? Infinity, x1 = end ?? -Infinity;
  for (const v of xs) { x0 = Math.min(x0, v); x1 = Math.max(x1, v); }
  if (x1 <= x0) x1 = x0 + 1;
  let top = -Infinity, low = Infinity, least = Infinity;
  for (const v of ys) { top = Math.max(top, v); low = Math.min(low, v); if (v > 0) least = Math.min(least, v); }
  const signed = low < 0;
  log = log && !signed && Number.isFinite(least);
  if (log) { low = Math.max(least * .92, top / 1e5); top *= 1.06; } else { top = top === 0 && !signed ? 1 : top + (top - Math.min(low, 0)) * .05; low = signed ? low * 1.05 : 0; }
  const X = v => L + (v - x0) / (x1 - x0) * (W - L - R), f = log ? v => Math.log(Math.max(v, low)) : v => v;
  const Y = v => T + (1 - (f(v) - f(low)) / ((f(top) - f(low)) || 1)) * (H - T - B);
  const path = (x, y) => {
    let d = '', pen = false;
    for (let i = 0; i < x.length; i++) { if (y[i] === null || y[i] === undefined) { pen = false; continue; } d += (pen ? 'L' : 'M') + X(x[i]).toFixed(1) + ',' + Y(y[i]).toFixed(1); pen = true; }
    return d;
  };
  const band = s => { const k = s.x.map((_, i) => i).filter(i => s.lo[i] !== null && s.hi[i] !== null); return 'M' + k.map(i => X(s.x[i]).toFixed(1) + ',' + Y(s.hi[i]).toFixed(1)).join('L') + 'L' + k.reverse().map(i => X(s.x[i]).toFixed(1) + ',' + Y(s.lo[i]).toFixed(1)).join('L') + 'Z'; };
  const one = s => s.x.length === 1;
  const final = series.map(s => `${s.name} ${fix(s.y.at(-1))}`).slice(0, 12).join(', ');
  const svg = h('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `${unit} by ${label}. At the end: ${final}${more}` },
    h('text', { x: 0, y: 12 }, unit),
    (log ? logTicks(low, top) : niceTicks(low, top, 6)).map(v => [h('line', { x1: L, x2: W - R, y1: Y(v), y2: Y(v), class: 'gridline' }), h('text', { x: L - 8, y: Y(v) + 4, 'text-anchor': 'end' }, short(v))]),
    niceTicks(x0, x1, phone ? 4 : 8).map(v => h('text', { x: X(v), y: H - B + 20, 'text-anchor': 'middle' }, format(v))),
    h('text', { x: (L + W - R) / 2, y: H - 4, 'text-anchor': 'middle' }, label),
    h('line', { x1: L, x2: W - R, y1: H - B, y2: H - B, class: 'axis' }));
  const layer = h('g');
  svg.append(layer);
  series.forEach((s, i) => {
    if (s.lo && !s.thin) layer.append(one(s) ? h('line', { x1: X(s.x[0]), x2: X(s.x[0]), y1: Y(s.lo[0]), y2: Y(s.hi[0]), class: `s${s.colour}`, 'stroke-width': 3, opacity: .35 }) : h('path', { d: band(s), class: `band f${s.colour}`, 'data-series': i }));
  });
  series.forEach(s => (s.thin || []).forEach(t => layer.append(h('path', { d: path(t.x, t.y), class: `thin s${s.colour}`, 'data-node': t.id }))));
  series.forEach((s, i) => layer.append(one(s) ? h('circle', { cx: X(s.x[0]), cy: Y(s.y[0]), r: 5, class: `f${s.colour}`, 'data-name': s.name, 'data-points': 1 })
    : h('path', { d: path(s.x, s.y), class: `mean s${s.colour}`, 'stroke-dasharray': DASHES[s.dash || 0] || null, 'data-name': s.name, 'data-points': s.x.length, 'data-series': i })));
  if (labelled) {
    const at = series.map((s, i) => ({ s, i, y: s.y.length ? Y(s.y.at(-1) ?? low) : null })).filter(a => a.y !== null).sort((a, b) => a.y - b.y);
    for (let i = 1; i < at.length; i++) at[i].y = Math.max(at[i].y, at[i - 1].y + 17);
    const over = at.length ? Math.max(0, at.at(-1).y - (H - B - 2)) : 0;
    let below = Infinity;
    for (let i = at.length - 1; i >= 0; i--) { at[i].y = Math.min(at[i].y - (over && i === at.length - 1 ? over : 0), below - 17); below = at[i].y; }
    const room = Math.floor((R - 14) / 7.2) - 6;
    at.forEach(a => svg.append(h('text', { x: W - R + 8, y: a.y + 4, class: `end t${a.s.colour}` }, (a.s.name.length > room ? a.s.name.slice(0, Math.max(room - 1, 3)) + '…' : a.s.name) + ' ' + fix(a.s.y.at(-1)))));
  }
  const cross = h('line', { y1: T, y2: H - B, class: 'cross', visibility: 'hidden' });
  svg.append(cross);
  const nearest = (x, v) => { let a = 0, b = x.length - 1; while (b - a > 1) { const m = (a + b) >> 1; if (x[m] < v) a = m; else b = m; } return Math.abs(x[a] - v) <= Math.abs(x[b] - v) ? a : b; };
  const highlight = id => layer.querySelectorAll('.thin').forEach(t => { const own = t.dataset.node === String(id); t.classList.toggle('on', id !== null && own); t.classList.toggle('off', id !== null && !own); });
  svg.addEventListener('mousemove', e => {
    const r = svg.getBoundingClientRect(), k = W / r.width, px = (e.clientX - r.left) * k, py = (e.clientY - r.top) * k;
    if (px < L - 6 || px > W - R + 6) return;
    const v = x0 + (px - L) / (W - L - R) * (x1 - x0);
    const rows = series.filter(s => s.x.length && v <= s.x.at(-1) + (x1 - x0) * .02).map(s => { const i = nearest(s.x, v); return { s, i, far: Math.abs(Y(s.y[i] ?? low) - py) }; });
    if (!rows.length) return;
    const at = rows.reduce((a, b) => a.far < b.far ? a : b);
    cross.setAttribute('x1', X(at.s.x[at.i])); cross.setAttribute('x2', X(at.s.x[at.i])); cross.setAttribute('visibility', 'visible');
    let text = `${label} ${format(at.s.x[at.i])}`;
    const thin = series.flatMap(s => s.thin || []);
    if (thin.length) {
      const hit = thin.map(t => { const i = nearest(t.x, v); return { t, i, far: Math.abs(Y(t.y[i] ?? low) - py) }; }).reduce((a, b) => a.far < b.far ? a : b);
      if (hit.far < 24) { highlight(hit.t.id); text += `\nnode ${hit.t.id}  ${fix(hit.t.y[hit.i])}`; if (on) on(hit.t.id); } else { highlight(null); if (on) on(null); }
    }
    rows.sort((a, b) => (b.s.y[b.i] ?? 0) - (a.s.y[a.i] ?? 0));
    text += rows.slice(0, 14).map(({ s, i }) => `\n${s.name}  ${fix(s.y[i])}${s.lo && s.lo[i] !== null ? `  (${fix(s.lo[i])} to ${fix(s.hi[i])})` : ''}`).join('');
    layer.classList.toggle('dim', at.far < 14 && series.length > 2 && !thin.length);
    layer.querySelectorAll('[data-series]').forEach(p => p.classList.toggle('on', series[p.dataset.series] === at.s));
    show(e, text);
  });
  svg.addEventListener('mouseleave', () => { hide(); cross.setAttribute('visibility', 'hidden'); layer.classList.remove('dim'); highlight(null); if (on) on(null); });
  box.replaceChildren(svg);
  return { svg, highlight };
}

export const FORMATS = { bytes: size, seconds: span, rounds: short };
