/* The other pictures: a network, a heat map, bars, reliability, differences with intervals. */
import { h, fix, show, hide, shades } from './dom.js';
import { niceTicks } from './charts.js';

/* net: {nodes, links, at, edges}; ids: which nodes have values. Returns {paint(values, scale), mark(id)} */
export function network(box, net, ids, { on = () => {}, names = null, say = null } = {}) {
  const W = 560, H = 440, P = names ? 44 : 24, n = net.nodes, r = n <= 30 ? 14 : n <= 80 ? 10 : n <= 300 ? 6 : n <= 1000 ? 4 : 2.6;
  if (!net.at) { box.replaceChildren(h('p', { class: 'note' }, `${n} nodes with ${net.links} links: too many to draw.`)); return { paint() {}, mark() {} }; }
  const X = i => P + net.at[i][0] * (W - 2 * P), Y = i => P + net.at[i][1] * (H - 2 * P), many = net.edges.length > 400;
  const circles = new Map(), labels = new Map();
  const known = new Set(ids);
  let now = new Map();
  const text = i => say ? say(i) : `${names ? names[i] : 'node ' + i}${now.has(i) ? `\ntest error ${fix(now.get(i))}` : ''}`;
  const svg = h('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `The network: ${n} nodes, ${net.links} links; nodes coloured by value` },
    net.edges.map(([a, b]) => h('line', { x1: X(a), y1: Y(a), x2: X(b), y2: Y(b), class: many ? 'edge many' : 'edge', 'data-link': `${a}-${b}` })));
  const above = h('g');
  for (let i = 0; i < n; i++) {
    const c = h('circle', { cx: X(i), cy: Y(i), r, class: 'node', 'data-node': i, fill: 'none', onmousemove: e => show(e, text(i)), onmouseenter: () => on(i), onmouseleave: () => { hide(); on(null); } });
    circles.set(i, c);
    svg.append(c);
    if (r >= 10) { const t = h('text', { x: X(i), y: Y(i) + 4, 'text-anchor': 'middle', class: 'tiny', 'pointer-events': 'none' }, names ? '' : String(i)); labels.set(i, t); svg.append(t); }
    if (names) above.append(h('text', { x: X(i), y: Y(i) + r + 17, 'text-anchor': 'middle', class: 'ink halo' }, names[i].length > 18 ? names[i].slice(0, 17) + '…' : names[i]));
  }
  if (net.links > net.edges.length) svg.append(h('text', { x: 0, y: H - 2 }, `${net.links} links, too many to draw`));
  svg.append(above);
  box.replaceChildren(svg);
  return {
    svg, circles,
    paint(values, scale) {
      const s = shades();
      now = new Map(ids.map((id, k) => [id, values[k]]));
      for (const [i, c] of circles) {
        const v = now.get(i), t = v === null || v === undefined ? null : scale(v);
        c.setAttribute('fill', t === null ? (known.has(i) ? 'none' : s.of(0)) : s.of(t));
        const l = labels.get(i);
        if (l) l.style.fill = t === null ? '' : s.on(t);
      }
    },
    mark(id) { for (const [i, c] of circles) c.classList.toggle('on', i === id); },
  };
}

/* nodes ranked by value */
export function ranked(box, ids, values, scale, { most = 24, name = i => 'node ' + i, on = () => {} } = {}) {
  const s = shades(), all = ids.map((id, k) => [values[k], id]).filter(a => a[0] !== null).sort((a, b) => b[0] - a[0]);
  const half = most / 2, rows = all.length <= most ? all : [...all.slice(0, half), null, ...all.slice(-half)];
  const W = 520, R = Math.max(16, Math.min(34, 430 / rows.length)), top = all.length ? all[0][0] || 1 : 1;
  const wide = Math.max(...rows.map(r => r ? name(r[1]).length : 0)) * 7 + 8;
  box.replaceChildren(h('svg', { viewBox: `0 0 ${W} ${rows.length * R}`, role: 'img', 'aria-label': all.length ? `Nodes from worst to best: ${name(all[0][1])} ${fix(all[0][0])} to ${name(all.at(-1)[1])} ${fix(all.at(-1)[0])}` : 'no values' },
    rows.map((row, k) => row === null ? h('text', { x: wide, y: k * R + R * .7 }, `… ${all.length - most} more`) : [
      h('text', { x: wide - 8, y: k * R + R / 2 + 4.5, 'text-anchor': 'end' }, name(row[1])),
      h('rect', { x: wide, y: k * R + 2, width: Math.max(1, row[0] / top * (W - wide - 60)), height: R - 4, rx: 3, fill: s.of(scale(row[0])), stroke: 'var(--soft)', 'stroke-width': .6, onmouseenter: () => on(row[1]), onmouseleave: () => on(null) }),
      h('text', { x: wide + 8 + row[0] / top * (W - wide - 60), y: k * R + R / 2 + 4.5, class: 'ink' }, fix(row[0]))])));
}

/* cells[row][column]; many columns become thin stripes without numbers */
export function heat(box, rows, columns, cells, { text, scale, row, column, say }) {
  const s = shades(), n = columns.length, W = 1040, long = Math.min(18, Math.max(...rows.map(r => r.length))), L = Math.max(70, 16 + long * 7.4), C = (W - L) / n, R = rows.length > 16 ? 20 : 27, roomy = C >= 26;
  const every = [1, 2, 5, 10, 20, 50].find(k => C * k >= 24) || 100;
  box.replaceChildren(h('svg', { viewBox: `0 0 ${W} ${rows.length * R + 38}`, role: 'img', 'aria-label': `${row} by ${column}, ${rows.length} × ${n}` },
    rows.map((name, r) => [h('text', { x: L - 10, y: r * R + R / 2 + 4.5, 'text-anchor': 'end' }, name.length > long ? name.slice(0, long - 1) + '…' : name), columns.map((c, i) => {
      const v = cells[r][i], t = v === null ? null : scale(v);
      const cell = h('rect', { x: L + i * C + (roomy ? 1 : 0), y: r * R + 1, width: Math.max(C - (roomy ? 2 : .2), .5), height: R - 2, rx: roomy ? 3 : 0, fill: t === null ? 'none' : s.of(t), onmousemove: e => show(e, say(r, i, v)), onmouseleave: hide });
      if (!roomy || !text(v)) return cell;
      const label = h('text', { x: L + i * C + C / 2, y: r * R + R / 2 + 4, 'text-anchor': 'middle', class: 'tiny', 'pointer-events': 'none' }, text(v));
      if (t !== null) label.style.fill = s.on(t);
      return [cell, label];
    })]),
    columns.map((c, i) => i % every ? null : h('text', { x: L + i * C + C / 2, y: rows.length * R + 17, 'text-anchor': 'middle', class: 'tiny' }, String(c))),
    h('text', { x: L + (W - L) / 2, y: rows.length * R + 36, 'text-anchor': 'middle' }, column)));
}

/* bins: [[rows, sum of confidences, rows that are right]] */
export function reliability(box, name, bins, colour) {
  const W = 240, L = 34, B = 64, T = 26, S = W - L - 8, H = T + S + B, total = bins.reduce((a, b) => a + b[0], 0), n = bins.length, X = v => L + v * S, Y = v => T + (1 - v) * S;
  const ece = bins.reduce((a, b) => a + Math.abs(b[2] - b[1]), 0) / total, most = Math.max(...bins.map(b => b[0])) / total;
  const over = bins.reduce((a, b) => a + b[1] - b[2], 0) / total;
  box.append(h('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `${name}: expected calibration error ${fix(ece)}, ${over > 0 ? 'more' : 'less'} sure than right` },
    h('text', { x: L, y: 14, class: 'title' }, name.length > 20 ? name.slice(0, 19) + '…' : name), h('text', { x: W - 8, y: 14, 'text-anchor': 'end' }, `ECE ${fix(ece)}`),
    [0, .5, 1].map(v => [h('line', { x1: L, x2: W - 8, y1: Y(v), y2: Y(v), class: 'gridline' }), h('text', { x: L - 6, y: Y(v) + 4, 'text-anchor': 'end', class: 'tiny' }, String(v)), h('text', { x: X(v), y: H - 20, 'text-anchor': 'middle', class: 'tiny' }, String(v))]),
    h('line', { x1: X(0), y1: Y(0), x2: X(1), y2: Y(1), class: 'cross' }),
    bins.map((b, i) => {
      if (!b[0]) return null;
      const sure = b[1] / b[0], right = b[2] / b[0], lo = Math.min(sure, right), hi = Math.max(sure, right), x = X(i / n) + 1, w = S / n - 2;
      return h('g', { onmousemove: e => show(e, `sure ${fix(sure)}, right ${fix(right)}\n${(100 * b[0] / total).toFixed(1)} % of predictions`), onmouseleave: hide },
        h('rect', { x, y: Y(lo), width: w, height: Math.max(Y(0) - Y(lo), 0), class: `f${colour}`, opacity: .32 }),
        h('rect', { x, y: Y(hi), width: w, height: Math.max(Y(lo) - Y(hi), 0), fill: right >= sure ? 'var(--good)' : 'var(--bad)', opacity: .55 }),
        h('circle', { cx: X(sure), cy: Y(right), r: 3.2, class: 'ink' }),
        h('rect', { x, y: H - 34 - 22 * b[0] / total / most, width: w, height: 22 * b[0] / total / most, fill: 'var(--soft)', opacity: .6 }));
    }), h('text', { x: L + S / 2, y: H - 4, 'text-anchor': 'middle', class: 'tiny' }, 'confidence')));
}

/* rows: [{name, value, low, high, text}]; zero is the baseline */
export function forest(box, rows, { unit, baseline, lower }) {
  const W = Math.max(560, Math.min(box.clientWidth || 1040, 1040)), L = Math.min(240, 24 + Math.max(...rows.map(r => r.name.length), 6) * 7.6), Rr = 250, T = 34, R = 32, H = T + rows.length * R + 42;
  const all = rows.flatMap(r => [r.value, r.low, r.high]).filter(v => v !== null), pad = (Math.max(...all, 0) - Math.min(...all, 0)) * .08 || .01;
  const a = Math.min(...all, 0) - pad, b = Math.max(...all, 0) + pad, X = v => L + (v - a) / (b - a) * (W - L - Rr);
  const side = v => v === 0 ? 'var(--soft)' : (v < 0) === lower ? 'var(--good)' : 'var(--bad)';
  box.replaceChildren(h('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `Differences to ${baseline}: ` + rows.map(r => `${r.name} ${fix(r.value)}`).join(', ') },
    niceTicks(a, b, 6).map(v => [h('line', { x1: X(v), x2: X(v), y1: T - 8, y2: H - 40, class: 'gridline' }), h('text', { x: X(v), y: H - 22, 'text-anchor': 'middle' }, (v > 0 ? '+' : '') + +v.toPrecision(3))]),
    h('line', { x1: X(0), x2: X(0), y1: T - 12, y2: H - 40, class: 'axis' }), h('text', { x: X(0), y: 14, 'text-anchor': 'middle', class: 'title' }, baseline), h('text', { x: W - Rr + 20, y: 14 }, 'difference, interval, p after Holm'),
    rows.map((r, i) => { const y = T + i * R + R / 2; return [h('text', { x: L - 12, y: y + 4.5, 'text-anchor': 'end', class: 'ink' }, r.name), r.low === null ? null : h('line', { x1: X(r.low), x2: X(r.high), y1: y, y2: y, stroke: side(r.value), 'stroke-width': 3 }), h('circle', { cx: X(r.value), cy: y, r: 5.5, fill: side(r.value) }), h('text', { x: W - Rr + 20, y: y + 4.5, class: 'ink' }, r.text)]; }),
    h('text', { x: (L + W - Rr) / 2, y: H - 4, 'text-anchor': 'middle' }, unit)));
}
