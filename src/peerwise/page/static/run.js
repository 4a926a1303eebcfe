/* The page of a finished run, study or reproduction. */
import { h, main, DATA, words, fix, size, unpack, drawn, redraw, pick, choose, key, section, head, jump, ready } from './dom.js';
import { dataTable, copiers } from './table.js';
import { lines, FORMATS } from './charts.js';
import { network, ranked, heat, reliability, forest } from './pictures.js';

const D = DATA;
const metricText = (m, v) => v === null || v === undefined ? '–' : m === 'bytes' || m === 'bytes_per_link' ? size(v) : fix(v);
const NAMES = { test_error: 'test error', test_gap: 'gap to pooled', node_std: 'std over nodes', test_log_loss: 'log loss', bytes_per_link: 'bytes a message', bytes: 'bytes in all', train_error: 'train error', worst_node: 'worst node' };
const SAID = { pooled: 'all rows in one place', alone: 'each node alone', server: 'with a server' };
const metricName = m => NAMES[m] || words(m);

/* one colour a value of the method (or of what else tells lines apart), one dash a value of the next */
function styled(series) {
  const values = k => [...new Set(series.map(s => s.labels[k]).filter(v => v !== undefined))];
  const keys = [...new Set(series.flatMap(s => Object.keys(s.labels)))].filter(k => values(k).length > 1);
  const by = keys.includes('method') || !keys.length ? 'method' : keys.reduce((a, b) => values(a).length >= values(b).length ? a : b);
  const second = keys.find(k => k !== by && values(k).length <= 4);
  const colours = values(by), dashes = second ? values(second) : [];
  series.forEach((s, i) => {
    const c = colours.indexOf(s.labels[by]);
    s.colour = (c < 0 ? colours.length : c) % 10;
    const place = (D.places || {})[s.labels.method];
    s.dash = second && s.labels[second] !== undefined ? dashes.indexOf(s.labels[second]) : second ? 0 : place === 'pooled' ? 1 : place === 'alone' ? 2 : Math.floor(Math.max(c, 0) / 10) % 4;
    s.index = i;
  });
}
const chip = s => h('span', { class: `chip k${s.colour} d${Math.min(s.dash, 3)}`, 'aria-hidden': 'true' });

function where() {
  const s = D.sources, e = s.environment || {}, rows = [['made', s.made], ['results.json', 'sha256 ' + s.sha256], ['versions', Object.entries(e).map(([k, v]) => `${k} ${v}`).join(', ')], ['page written by', 'peerwise ' + s.written_by]];
  return h('details', {}, h('summary', {}, 'What was run, how the data were read, and where the numbers come from'),
    h('dl', {}, rows.filter(r => r[1]).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v)])),
    Object.entries(s.reading || {}).map(([name, text]) => [h('h3', {}, 'Data as read: ' + name), h('pre', { tabindex: '0' }, text.join('\n'))]),
    h('h3', {}, 'Description'), h('pre', { tabindex: '0' }, s.asked));
}

/* filters by factor, which table and curves share */
const chosen = {};
const listeners = [];
const passes = labels => Object.entries(chosen).every(([k, v]) => v === '' || labels[k] === undefined || labels[k] === null || String(labels[k]) === v);
function filters(columns, rows) {
  return columns.map((c, i) => {
    const values = [...new Set(rows.map(r => r.labels[i]).filter(v => v !== null))];
    if (values.length < 2) return null;
    chosen[c] = '';
    return choose(c, [['', 'all'], ...values.map(v => [v, v])], '', v => { chosen[c] = v; listeners.forEach(f => f()); });
  }).filter(Boolean);
}
const labelsOf = s => ({ ...s.labels, 'data set': s.labels.dataset });

function tableSection() {
  const t = D.table, find = r => D.series.find(s => t.labels.every((c, i) => r.labels[i] === null || (labelsOf(s)[c] ?? r.labels[i]) === r.labels[i]));
  const rows = t.rows.map(r => ({ ...r, line: find(r) }));
  let shown = t.shown.slice(0, 8);
  const box = h('div');
  let table;
  const build = () => {
    const label = t.labels.map((c, i) => ({ name: c, label: true, value: r => r.labels[i], text: r => r.labels[i] ?? 'any', cell: r => [c === 'method' && r.line ? chip(r.line) : null, r.labels[i] ?? h('small', {}, 'any'), c === 'method' && SAID[(D.places || {})[r.labels[i]]] ? [' ', h('small', {}, SAID[D.places[r.labels[i]]])] : null] }));
    const numbers = shown.map(m => ({
      name: metricName(m), plain: m, metric: m, lower: m.startsWith('bytes') || m === 'node_std' ? null : t.metrics.find(x => x.name === m).lower, value: r => r.values[m]?.[0] ?? null,
      text: r => r.values[m] ? metricText(m, r.values[m][0]) + (r.values[m][1] ? ' ± ' + metricText(m, r.values[m][1]) : '') : '–', csv: r => r.values[m] ? String(r.values[m][0]) : '',
      cell: r => r.values[m] ? [metricText(m, r.values[m][0]), r.values[m][1] ? [' ', h('small', {}, '± ' + metricText(m, r.values[m][1]))] : null] : '–',
    }));
    const shared = t.labels.length - 1;
    table = dataTable([...label, ...numbers], rows, { caption: '', group: shared ? r => r.labels.slice(0, shared).join('|') : null });
    table.filter(r => passes(Object.fromEntries(t.labels.map((c, i) => [c, r.labels[i]]))));
    box.replaceChildren(table.element);
  };
  build();
  listeners.push(build);
  const rest = t.metrics.length > shown.length ? pick('columns', ['main', 'all'], 'main', v => { shown = v === 'all' ? t.metrics.map(m => m.name) : t.shown.slice(0, 8); build(); }) : null;
  const copies = ['csv', 'latex'].map((kind, i) => copiers({ csv: () => table.csv(), latex: () => table.latex() })[i]);
  const over = D.reps > 1 ? `Mean over nodes, then mean ± standard deviation over ${D.reps} repetitions.` : 'Mean over nodes, one repetition.';
  const part = section('Results', h('span', { class: 'tools' }, filters(t.labels, t.rows), rest, copies), `${over} Bold: best of its column. Gap: to the same rows pooled. Click a column to sort.`, box);
  part.append(...(D.notes || []).map(text => h('p', { class: 'note' }, text.startsWith('Warning: ') ? [h('span', { class: 'state warn' }, 'warning'), ' ' + text.slice(9)] : text)));
  return part;
}

function seriesX(s, how, x) {
  if (how === 'rounds') return x;
  if (how === 'bytes') return s.bytes ? x.map(r => r * s.bytes) : null;
  if (s.marks) return x.map(r => { const m = s.marks; let k = m.findIndex(p => p[0] >= r); if (k < 0) k = m.length - 1; if (k === 0) return m[0][1] * r / m[0][0]; const [a, b] = [m[k - 1], m[k]]; return a[1] + (b[1] - a[1]) * (Math.min(r, b[0]) - a[0]) / ((b[0] - a[0]) || 1); });
  return s.seconds ? x.map(r => r * s.seconds) : null;
}

const state = { shown: null, focus: null, redrawCurves: () => {}, curves: null };
function nodesOf(s) {
  if (!s.nodes) return null;
  if (!s.unpacked) s.unpacked = unpack(s.nodes.values);
  return s.unpacked;
}

function curvesSection() {
  const metrics = [...new Set(D.series.flatMap(s => Object.keys(s.metrics)))], several = D.series.some(s => s.x.length > 1);
  let metric = metrics.includes('test_error') ? 'test_error' : metrics[0], how = 'rounds', thin = false;
  const spread = D.series.map(s => s.metrics[metric]?.mean.at(-1)).filter(v => v > 0);
  let log = spread.length > 0 && Math.max(...spread) / Math.min(...spread) > 4;
  const box = h('div'), note = h('p', { class: 'note' });
  const MOST = 12;
  const draw = () => {
    const visible = D.series.filter(s => s.metrics[metric] && passes(labelsOf(s)) && seriesX(s, how, s.x));
    const few = visible.slice(0, MOST);
    const data = few.map(s => {
      const m = s.metrics[metric], own = (thin || state.focus !== null) && s === state.shown && metric === 'test_error' && nodesOf(s);
      const at = own ? (s.nodes.ids.length > 120 ? s.nodes.ids.map((_, k) => k).filter((_, k) => k % Math.ceil(s.nodes.ids.length / 120) === 0 || s.nodes.ids[k] === state.focus) : s.nodes.ids.map((_, k) => k)) : [];
      return { name: s.name, colour: s.colour, dash: s.dash, x: seriesX(s, how, s.x), y: m.mean, lo: m.lo, hi: m.hi, thin: own ? at.map(k => ({ id: s.nodes.ids[k], x: seriesX(s, how, s.nodes.x), y: own[k] })) : null };
    });
    state.curves = lines(box, data, { log, unit: metricName(metric), label: how === 'rounds' ? 'round' : how === 'bytes' ? 'bytes sent in the whole network' : 'seconds of computing', format: FORMATS[how] });
    if (state.focus !== null) state.curves.highlight(state.focus);
    const left = visible.length - few.length + D.left_out;
    note.textContent = (several ? 'Lines: mean over nodes and repetitions. Bands: four of five nodes, over all repetitions.' : 'Only the last round was measured: set [run] record to see curves.')
      + (thin ? ` Thin lines: nodes of ${state.shown ? state.shown.name : ''}, in the first repetition; point at one.` : '')
      + (how === 'seconds' ? (few.some(s => s.marks) ? ' Seconds as they were marked while the run was watched.' : ' Seconds: the time of the whole computation, compiling and all repetitions included, spread evenly over rounds.') : '')
      + (how === 'bytes' ? ' Methods that send nothing are left out.' : '')
      + (left > 0 ? ` ${left} more lines are not shown: filter above to choose.` : '')
      + (few.some(s => s.recorded > s.x.length) ? ` Of many rounds, ${D.points} points are drawn.` : '');
  };
  state.redrawCurves = draw;
  listeners.push(draw);
  const axes = ['rounds', D.series.some(s => s.bytes) ? 'bytes' : null, D.series.some(s => s.seconds || s.marks) ? 'seconds' : null].filter(Boolean);
  const tools = h('span', { class: 'tools' }, metrics.length > 1 ? choose('metric', metrics.map(m => [m, metricName(m)]), metric, v => { metric = v; draw(); }) : null,
    several ? pick('against', axes, how, v => { how = v; draw(); }) : null, pick('scale', ['log', 'linear'], log ? 'log' : 'linear', v => { log = v === 'log'; draw(); }),
    several && D.series.some(s => s.nodes) ? pick('', ['bands', 'nodes'], 'bands', v => { thin = v === 'nodes'; draw(); }) : null);
  const part = section(several ? 'How it learns' : 'After the last round', tools, null, box);
  part.append(note);
  return { part, draw };
}

function networkSection() {
  const able = D.series.filter(s => s.nodes && s.graph !== undefined);
  if (!able.length) return null;
  const net = h('div'), bars = h('div'), said = h('span', { class: 'said', 'aria-live': 'polite' }), scaleKey = h('span', { class: 'key' }), slider = h('input', { type: 'range', min: 0, 'aria-label': 'round', oninput: () => paint() });
  let picture, colouring = 'test error';
  const loud = able.flatMap(s => [s.nodes.values.lo, s.nodes.values.hi]).filter(v => v > 0), lo = Math.log(Math.max(1e-4, Math.min(...loud))), hi = Math.log(Math.max(...loud, 1e-3));
  const logScale = v => (Math.log(Math.max(v, 1e-4)) - lo) / ((hi - lo) || 1);
  const values = () => {
    const s = state.shown, g = D.networks.graphs[s.graph], held = s.held !== undefined ? D.networks.held[s.held] : null;
    if (colouring === 'test error') return { v: nodesOf(s).map(r => r[slider.value]), scale: logScale, ends: [fix(Math.exp(lo)), fix(Math.exp(hi))] };
    const of = colouring === 'neighbours' ? s.nodes.ids.map(i => g.degree[i]) : s.nodes.ids.map(i => { const k = held.ids.indexOf(i); return k < 0 ? null : colouring === 'rows' ? held.counts[k].reduce((a, b) => a + b, 0) : held.counts[k].filter(x => x > 0).length; });
    const top = Math.max(...of.filter(x => x !== null), 1);
    return { v: of, scale: x => x / top, ends: ['0', String(top)] };
  };
  const focus = id => { state.focus = id; picture.mark(id); state.redrawCurves(); };
  const paint = () => {
    const s = state.shown, { v, scale, ends } = values(), fine = v.filter(x => x !== null), r = s.nodes.x[slider.value];
    picture.paint(v, scale);
    ranked(bars, s.nodes.ids, v, scale, { on: id => picture.mark(id) });
    slider.setAttribute('aria-valuetext', 'round ' + r);
    const mean = fine.reduce((a, b) => a + b, 0) / (fine.length || 1);
    said.textContent = colouring === 'test error' ? `round ${r}: mean ${fix(mean)}, worst ${fix(Math.max(...fine))}` : `mean ${fix(mean)}`;
    scaleKey.replaceChildren(key(...ends));
  };
  const build = () => {
    const s = state.shown;
    slider.max = s.nodes.x.length - 1; slider.value = s.nodes.x.length - 1; slider.disabled = s.nodes.x.length < 2;
    picture = network(net, D.networks.graphs[s.graph], s.nodes.ids, { on: focus });
    paint();
  };
  let timer = null;
  const play = h('button', { type: 'button', onclick: () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = 'Play'; return; }
    play.textContent = 'Stop';
    if (+slider.value >= +slider.max) slider.value = 0;
    timer = setInterval(() => { slider.value = +slider.value + 1; paint(); if (+slider.value >= +slider.max) play.click(); }, Math.max(40, Math.min(160, 7000 / (+slider.max || 1))));
  } }, 'Play');
  const kinds = ['test error', 'neighbours', ...(able.some(s => s.held !== undefined) ? ['rows', 'classes'] : [])];
  const part = section('The network', h('span', { class: 'tools' }, able.length > 1 ? choose('method', able.map((s, i) => [String(i), s.name]), '0', v => { state.shown = able[v]; state.listeners.forEach(f => f()); }) : null, choose('colour', kinds.map(k => [k, k]), colouring, v => { colouring = v; paint(); })),
    'First repetition, whose mean differs from the table’s. One logarithmic scale for all methods and rounds. Point at a node to see its line above.' + (able[0].nodes.of > able[0].nodes.ids.length ? ` ${able[0].nodes.ids.length} of ${able[0].nodes.of} nodes have values here, from best to worst.` : ''),
    h('div', { class: 'bar' }, h('div', { class: 'tools' }, play, slider), said, scaleKey), h('div', { class: 'two' }, net, bars));
  return { part, draw: build };
}

function heldSection() {
  const able = D.series.filter(s => s.held !== undefined);
  if (!able.length) return null;
  const box = h('div', { class: 'scroll wide', tabindex: '0', role: 'region', 'aria-label': 'classes by node' }), which = D.series.some(s => s.class_error);
  let what = 'rows held';
  const draw = () => {
    const s = able.includes(state.shown) ? state.shown : able[0], held = D.networks.held[s.held], byClass = what === 'error by class' && s.class_error ? unpack(s.class_error) : null;
    const top = Math.max(...held.counts.flat(), 1), columns = byClass && byClass.length !== held.ids.length ? byClass.map((_, i) => i) : held.ids;
    const cells = held.classes.map((_, c) => columns.map((_, i) => byClass ? byClass[i][c] : held.counts[i][c]));
    heat(box, held.classes.map(c => c), columns, cells, { row: 'class', column: byClass && byClass.length === 1 ? 'all rows in one place' : 'node', text: v => byClass ? (v === null ? '' : v.toFixed(2).replace(/^0/, '')) : (v ? String(v) : ''), scale: v => byClass ? Math.sqrt(v) : v / top,
      say: (r, i, v) => `class ${held.classes[r]}, node ${columns[i]}\n${byClass ? 'error ' + fix(v) + '\n' : ''}${held.counts[i] ? held.counts[i][r] + ' rows held' : ''}` });
    note.textContent = 'First repetition. ' + (byClass ? `Error of ${s.name} on test rows of each class after the last round.` : 'How many training rows of each class every node holds.') + (held.of > held.ids.length ? ` ${held.ids.length} of ${held.of} nodes.` : '');
  };
  const note = h('p', { class: 'note' }), part = section('Who holds what, who knows what', which ? pick('', ['rows held', 'error by class'], what, v => { what = v; draw(); }) : null, null, box);
  part.append(note);
  return { part, draw };
}

function reliabilitySection() {
  const able = D.series.filter(s => s.bins);
  if (!able.length) return null;
  const box = h('div', { class: 'small' });
  const draw = () => { box.replaceChildren(); able.filter(s => passes(labelsOf(s))).slice(0, 12).forEach(s => reliability(box, s.name, s.bins, s.colour)); };
  listeners.push(draw);
  return { part: section('Can its probabilities be believed?', null, 'Reliability of all nodes of the first repetition on test rows, after the last round. Dots on the line: a model that is 80 % sure is right in 80 of 100 rows. Green: better than it believes; red: worse. Grey bars: how many predictions are that sure.', box), draw };
}

function comparisonSection() {
  const c = D.comparison;
  if (!c) return null;
  const box = h('div', { class: 'scroll wide', tabindex: '0', role: 'region', 'aria-label': 'comparison of methods' }), p = v => v === null ? '–' : v < .001 ? '<.001' : v.toFixed(3).replace(/^0/, ''), signed = v => v === null ? '–' : (v >= 0 ? '+' : '−') + Math.abs(v).toFixed(3);
  const draw = () => forest(box, c.rows.map(r => ({ name: r.method, value: r.difference, low: r.low, high: r.high, text: signed(r.difference) + (r.low === null ? '' : `  [${signed(r.low)}, ${signed(r.high)}]`) + (r.p_holm === null ? '' : `  p ${p(r.p_holm)}`) })), { unit: `${metricName(c.metric)}, less ${c.baseline}`, baseline: c.baseline, lower: c.lower });
  const t = dataTable([{ name: 'method', label: true, value: r => r.method, cell: r => r.method }, { name: 'pairs', value: r => r.pairs, cell: r => fix(r.pairs, 0) }, { name: 'difference', value: r => r.difference, cell: r => signed(r.difference), text: r => signed(r.difference) },
    { name: '95 % interval', value: r => r.low, cell: r => `${signed(r.low)} to ${signed(r.high)}`, text: r => `${signed(r.low)} to ${signed(r.high)}` }, { name: 'p (Wilcoxon)', value: r => r.p, cell: r => p(r.p), text: r => p(r.p) }, { name: 'p (Holm)', value: r => r.p_holm, cell: r => p(r.p_holm), text: r => p(r.p_holm) },
    { name: 'won / tied / lost', value: r => r.wins, cell: r => `${r.wins} / ${r.ties} / ${r.losses}`, text: r => `${r.wins}/${r.ties}/${r.losses}` }], c.rows);
  const ranks = c.ranks ? h('p', { class: 'note' }, `Mean ranks over ${c.ranks.sets} data sets: ` + c.ranks.mean.map(([m, r]) => `${m} ${r.toFixed(2)}`).join(', ') + `. Ranks closer than ${fix(c.ranks.critical, 2)} cannot be told apart (Nemenyi).`) : null;
  const part = section(`Compared with ${c.baseline}`, h('span', { class: 'tools' }, copiers(t)), `Paired by data set, setting and repetition. Differences with ${Math.round(100 * c.level)} % bootstrap intervals; Wilcoxon’s signed-rank test, corrected by Holm. Same as peerwise compare.`, box, h('details', {}, h('summary', {}, 'All numbers'), t.element), ranks, c.notes.length ? h('ul', { class: 'plain' }, c.notes.map(n => h('li', {}, n))) : null);
  return { part, draw };
}

function claimsSection() {
  if (!D.claims.length) return null;
  const kind = { held: 'good', 'not held': 'bad', undecided: 'warn' };
  return { part: section('Claims of the paper', null, 'Held: the 95 % interval over repetitions lies on the claimed side; not held: on the other; undecided: it holds zero, or there is no interval.', h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'claims' }, h('table', {}, h('thead', {}, h('tr', {}, ['verdict', 'claim', 'ours', ...(D.claims.some(c => c.paper) ? ['paper'] : [])].map(t => h('th', { scope: 'col', class: 'words' }, t)))),
    h('tbody', {}, D.claims.map(c => h('tr', {}, h('td', { class: 'words' }, h('span', { class: 'verdict ' + kind[c.verdict] }, c.verdict)), h('td', { class: 'words' }, c.claim, h('br'), h('small', {}, 'held when: ' + c.rule)), h('td', { class: 'words' }, c.ours, c.reason ? [h('br'), h('small', {}, c.reason)] : null), D.claims.some(x => x.paper) ? h('td', { class: 'words' }, c.paper || '–') : null)))))), draw() {} };
}

function itemSections() {
  return (D.items || []).map(item => {
    const tables = item.tables.map(g => dataTable(g.head.map((name, i) => ({ name: name || ' ', label: i === 0, value: r => { const v = parseFloat(r[i]); return Number.isNaN(v) ? r[i] : v; }, cell: r => r[i], text: r => r[i] })), g.rows, { caption: '' }));
    return { part: section(item.heading, tables.length === 1 ? h('span', { class: 'tools' }, copiers(tables[0])) : null, [item.about, ...item.notes, item.missing].filter(Boolean).map(t => t.replace(/\.$/, '')).join('. ') + '.', tables.length ? tables.map(t => t.element) : h('p', { class: 'note' }, 'This item is a figure; its numbers are in results.json.')), draw() {} };
  });
}

export function runPage() {
  styled(D.series);
  state.listeners = [];
  state.shown = D.series.find(s => s.nodes && s.graph !== undefined) || D.series.find(s => s.nodes) || null;
  main.replaceChildren(head(`Peerwise · ${D.about}`, D.title, h('p', { class: 'lead' }, D.lead), where()));
  const parts = [];
  if (D.claims.length) parts.push(claimsSection());
  if (D.table) main.append(tableSection());
  const curves = D.series.length ? curvesSection() : null, net = D.networks ? networkSection() : null, held = D.networks ? heldSection() : null;
  state.listeners.push(...[net, held, curves].filter(Boolean).map(p => p.draw));
  parts.push(curves, net, held, D.table ? reliabilitySection() : null, comparisonSection(), ...itemSections());
  /* what is above is seen first; the rest is drawn part by part */
  const all = parts.filter(Boolean);
  const next = () => {
    const p = all.shift();
    if (p) { main.append(p.part); drawn(p.draw); setTimeout(next); return; }
    main.querySelector('header').after(jump());
    ready();
  };
  requestAnimationFrame(() => setTimeout(next));
}
if (D && (D.kind === 'run' || D.kind === 'paper')) runPage();
